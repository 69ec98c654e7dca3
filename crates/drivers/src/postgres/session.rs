//! One connection.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{join_all, join3, try_join, try_join_all};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Error, Statement};

use super::rows::mapped::Rows;
use super::rows::statement::Shape;
use super::settings::Settings;
use super::sql::{PREPARED, Prepared};
use super::tls::Tls;
use super::wire::{self, Progress, Wire};

/// How long preparing a statement waits for its table's lock, ms: a table that somebody changes is read without.
const LOCKED_MS: u32 = 10;

/// A connection and the statements prepared on it. Dropping it closes the socket at once, whatever is on its way.
pub(super) struct Session {
    pub(super) client: Client,
    /// Its `application_name`, by which its backend is found and ended.
    pub(super) name: String,
    settings: Settings,
    statements: Statements,
    /// The mapped tables as they were when its statements were prepared: whoever asks over it asks by these.
    rows: Option<Arc<Rows>>,
    of_shapes: Mutex<HashMap<(usize, Serves, Shape), Statement>>,
    /// By the number of the mapped table that they read.
    with_ids: Mutex<HashMap<usize, Statement>>,
    /// The same of those that read rows up to a number of bytes.
    within: Mutex<HashMap<usize, Statement>>,
    broken: AtomicBool,
    given_up: Notify,
    task: AbortHandle,
}

/// What a statement of a shape changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Serves {
    /// One row.
    One,
    /// As many as its arrays have.
    Many,
}

/// Statements for changes of rows that a connection may have prepared. Clients who set other fields each time have
/// theirs sent as text beyond that.
const SHAPES_MAX: usize = 64;

/// What is prepared on a connection.
#[derive(Default)]
pub(super) struct Statements {
    /// Of [`PREPARED`], the first.
    own: Vec<Statement>,
    /// Of each mapped table; none of a table that is not as it was when it was mapped.
    of_tables: Vec<Option<Statement>>,
}

impl Session {
    /// Connects as `name`, and has `progress` told of large requests. Nothing is set, nor prepared. To be called in
    /// tokio's context.
    pub(super) async fn connect(
        config: &Config,
        mut tls: Tls,
        name: String,
        progress: &Arc<Progress>,
    ) -> Result<Session, Error> {
        let mut config = config.clone();
        config.application_name(&name);
        let wire = wire::connect(&config, progress).await;
        let wire =
            wire.and_then(|(wire, host)| Some((wire, MakeTlsConnect::<Wire>::make_tls_connect(&mut tls, &host).ok()?)));
        let (client, task) = match wire {
            Some((wire, handshake)) => {
                let (client, connection) = config.connect_raw(wire, handshake).await?;
                (client, tokio::spawn(work(connection)))
            }
            None => {
                let (client, connection) = config.connect(tls).await?;
                (client, tokio::spawn(work(connection)))
            }
        };
        let (statements, broken, task) = (Statements::default(), AtomicBool::new(false), task.abort_handle());
        let (of_shapes, with_ids, within) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (settings, given_up, rows) = (Settings::default(), Notify::new(), None);
        Ok(Session { client, name, settings, statements, rows, of_shapes, with_ids, within, broken, given_up, task })
    }

    /// Sets what a session of this kind has. Not before it is known that the backend is ours alone: a pooler would lend
    /// it to another program, with our settings.
    pub(super) async fn set(mut self, settings: Settings) -> Result<Session, Error> {
        self.client.batch_execute(&settings.sql()).await?;
        self.settings = settings;
        Ok(self)
    }

    /// Prepares statements in one round trip: the first `own` of ours, and those of tables. A table that is gone, has
    /// lost a column, or is locked does not keep others from being read.
    pub(super) async fn prepare(&self, own: usize, of_tables: &[String]) -> Result<Statements, Error> {
        let client = &self.client;
        let ours = try_join_all(PREPARED.into_iter().take(own).map(|text| client.prepare(text)));
        let (limit, own_limit) = (format!("SET lock_timeout = {LOCKED_MS}"), self.settings.lock_sql());
        // Sent in this order: only those in between give a lock up.
        let of_tables = async {
            let prepared = join_all(of_tables.iter().map(|text| client.prepare(text)));
            let (limited, prepared, ended) =
                join3(client.batch_execute(&limit), prepared, client.batch_execute(&own_limit)).await;
            limited.and(ended).map(|()| prepared)
        };
        let (own, of_tables) = try_join(ours, of_tables).await?;
        let unless_refused = |prepared: Result<Statement, Error>| match prepared {
            Err(error) if super::classify::is_locked(&error) || super::classify::refusal(&error).is_some() => Ok(None),
            prepared => prepared.map(Some),
        };
        let of_tables: Result<_, Error> = of_tables.into_iter().map(unless_refused).collect();
        Ok(Statements { own, of_tables: of_tables? })
    }

    /// With its prepared statements, and the tables that some of them are for.
    pub(super) fn with(mut self, statements: Statements, rows: Option<Arc<Rows>>) -> Session {
        (self.statements, self.rows) = (statements, rows);
        self
    }

    /// The mapped tables, if there are any.
    pub(super) fn rows(&self) -> Option<&Arc<Rows>> {
        self.rows.as_ref()
    }

    /// The prepared statement.
    pub(super) fn statement(&self, which: Prepared) -> &Statement {
        &self.statements.own[which as usize]
    }

    /// The statement that reads rows of the mapped table with this number, if it could be prepared.
    pub(super) fn statement_of_table(&self, table: usize) -> Option<&Statement> {
        self.statements.of_tables[table].as_ref()
    }

    /// The statement for a change of this shape to one row of the table with this number, or to many; prepared now if
    /// it is new; `None` where there are [`SHAPES_MAX`] others.
    pub(super) async fn statement_of_shape(
        &self,
        (table, serves, shape): (usize, Serves, &Shape),
        text: impl FnOnce() -> Option<String>,
    ) -> Result<Option<Statement>, Error> {
        let asked = (table, serves, shape.clone());
        let known = || self.of_shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(&asked) {
            return Ok(Some(statement.clone()));
        }
        if known().len() >= SHAPES_MAX {
            return Ok(None);
        }
        let Some(text) = text() else { return Ok(None) };
        let statement = self.client.prepare(&text).await?;
        known().insert(asked, statement.clone());
        Ok(Some(statement))
    }

    /// The statement that reads rows of the mapped table with this number and which ids are applied, prepared when it
    /// is first asked for: most connections never are.
    pub(super) async fn statement_with_ids(
        &self,
        table: usize,
        text: impl FnOnce() -> String,
    ) -> Result<Statement, Error> {
        self.prepared_of(&self.with_ids, table, text).await
    }

    /// The same of the one that reads rows up to a number of bytes.
    pub(super) async fn statement_within(
        &self,
        table: usize,
        text: impl FnOnce() -> String,
    ) -> Result<Statement, Error> {
        self.prepared_of(&self.within, table, text).await
    }

    async fn prepared_of(
        &self,
        statements: &Mutex<HashMap<usize, Statement>>,
        table: usize,
        text: impl FnOnce() -> String,
    ) -> Result<Statement, Error> {
        let known = || statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(&table) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&text()).await?;
        known().insert(table, statement.clone());
        Ok(statement)
    }

    /// Marks it as not to be used for anything new; who waits for [`Session::given_up`] is told.
    pub(super) fn give_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.given_up.notify_waiters();
    }

    /// Marks it as not to be used for anything new: what is on its way is answered.
    pub(super) fn retire(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Done when it is given up.
    pub(super) async fn given_up(&self) {
        let mut told = pin!(self.given_up.notified());
        // In line before looking: nothing comes in between unseen.
        told.as_mut().enable();
        if !self.broken.load(Ordering::SeqCst) {
            told.await;
        }
    }

    /// Whether it can be used.
    pub(super) fn is_good(&self) -> bool {
        !self.broken.load(Ordering::SeqCst) && !self.client.is_closed()
    }
}

/// Moves what is asked and answered.
async fn work(connection: impl Future<Output = Result<(), Error>>) {
    // Who has a request on its way is told; there is nobody else to tell.
    if let Err(error) = connection.await {
        tracing::debug!(error = super::classify::told(&error), "a connection to PostgreSQL has ended");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}
