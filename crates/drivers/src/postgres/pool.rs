//! A small fixed set of connections.
//!
//! *Readers* are shared: many reads are on their way on one of them, one behind the other, so that a read costs a
//! round trip and no wait for a free connection. *Writers* have one commit at a time, for a commit may have to wait for
//! a lock in the database, and nothing may wait behind it. A connection that failed, or did not answer in time, is
//! closed and never used again; what its backend still has to do is ended by the next one ([`Pool::end_lost`]).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use forebay::store::figures::Connections;
use futures_util::future::join;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};
use tokio_postgres::{Config, Error};

use super::classify::told;
use super::greet::{self, Greeting};
use super::rows::mapped::Rows;
use super::session::Session;
use super::settings::Settings;
use super::sql;
use super::tls::Tls;
use super::wire::Progress;
use crate::sql::identity::Identity;
use crate::sql::ids;

/// Connections that were given up and whose backends may still be at work; with more, no new one is made.
const LOST_MAX: usize = 1024;

/// Connections to one database.
pub(super) struct Pool {
    config: Config,
    to_write: Settings,
    to_read: Settings,
    tls: Tls,
    readers: Vec<AsyncMutex<Option<Arc<Session>>>>,
    next_reader: AtomicUsize,
    writers: Semaphore,
    writers_max: usize,
    /// Commits that wait for one of them.
    wanted: AtomicUsize,
    idle: Mutex<Vec<Arc<Session>>>,
    next_name: AtomicU64,
    lost: Mutex<Vec<String>>,
    identity: Arc<Identity>,
    greeting: Greeting,
    /// Of what is sent over all of them.
    pub(super) progress: Arc<Progress>,
    /// The mapped tables, as they were looked up last; for each of them every session prepares statements.
    rows: RwLock<Option<Arc<Rows>>>,
}

/// How many connections there may be, and what each prepares.
pub(super) struct Plan {
    pub(super) readers: usize,
    pub(super) writers: usize,
    pub(super) rows: Option<Arc<Rows>>,
    /// How long a read waits for a lock.
    pub(super) lock_wait: Duration,
}

/// A connection for one commit at a time.
pub(super) struct Writer<'a> {
    pool: &'a Pool,
    session: Option<Arc<Session>>,
    idle_again: bool,
    _permit: SemaphorePermit<'a>,
}

/// Somebody waits, until dropped.
struct Wanted<'a>(&'a AtomicUsize);

impl<'a> Wanted<'a> {
    fn one(count: &'a AtomicUsize) -> Wanted<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Wanted(count)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    pub(super) fn new(config: Config, tls: Tls, identity: Arc<Identity>, plan: Plan) -> Pool {
        let Plan { readers, writers, rows, lock_wait } = plan;
        let to_write = Settings { run: Some(identity.run().to_owned()), lock_wait: None };
        let to_read = Settings { lock_wait: Some(lock_wait), ..to_write.clone() };
        Pool {
            config,
            to_write,
            to_read,
            tls,
            readers: (0..readers.max(1)).map(|_| AsyncMutex::new(None)).collect(),
            next_reader: AtomicUsize::new(0),
            writers: Semaphore::new(writers.max(1)),
            writers_max: writers.max(1),
            wanted: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
            next_name: AtomicU64::new(0),
            lost: Mutex::new(Vec::new()),
            identity,
            greeting: Greeting::default(),
            progress: Arc::default(),
            rows: RwLock::new(rows),
        }
    }

    /// A new connection to the database that was opened, unless it is another now; with the first `own` of our
    /// statements.
    async fn connect(&self, settings: &Settings, own: usize) -> Result<Session, String> {
        if let Some(why) = self.identity.fenced() {
            return Err(why.to_owned());
        }
        let number = self.next_name.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", self.identity.prefix());
        let session = self.let_in(name, settings).await?;
        let rows = self.rows();
        let prepared = rows.as_ref().map_or_else(Vec::new, |rows| rows.prepared());
        let newest: Vec<Vec<u8>> = self.identity.acknowledged().into_iter().map(ids::bytes).collect();
        let greeting = async { session.client.query_one(sql::GREET, &[&newest]).await };
        let (statements, greeted) = join(session.prepare(own, &prepared), greeting).await;
        // Who was found there matters more than a statement that can't be prepared.
        let found = greet::found(&greeted.map_err(|error| told(&error))?).map_err(|error| told(&error))?;
        self.greeting.recognise(&self.identity, &session.client, &found).await?;
        self.end_lost(&session).await.map_err(|error| told(&error))?;
        if self.lost().len() >= LOST_MAX {
            return Err(format!("{LOST_MAX} backends of broken connections do not end; look at pg_stat_activity"));
        }
        Ok(session.with(statements.map_err(|error| told(&error))?, rows))
    }

    /// A connection under `name`, to whatever database is there now.
    async fn let_in(&self, name: String, settings: &Settings) -> Result<Session, String> {
        let connected = Session::connect(&self.config, self.tls.clone(), name, &self.progress).await;
        let set = connected.map_err(|error| told(&error))?.set(settings.clone()).await;
        set.map_err(|error| told(&error))
    }

    /// A new connection under `name`, with nothing prepared, in place of an older one of that name.
    pub(super) async fn connect_again(&self, name: String) -> Result<Session, String> {
        let session = self.let_in(name, &self.to_write).await?;
        greet::look(&self.identity, &session.client).await?;
        // The old one's backend may not have noticed yet.
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
            AND usename = current_user AND application_name = $1 AND pid <> pg_backend_pid()";
        session.client.query_one(end, &[&session.name]).await.map_err(|error| told(&error))?;
        Ok(session)
    }

    /// A new connection to whatever database is there, whoever its owner is: to commit over it fails. A new owner need
    /// not end it, so its name is none of those that `sql::EARLIER` finds.
    pub(super) async fn connect_unowned(&self) -> Result<Session, String> {
        self.let_in(format!("outcomes for {}", self.identity.prefix()), &self.to_write).await
    }

    /// Whether the database is still ours, as a new connection says.
    pub(super) async fn look(&self) -> Result<(), String> {
        let name = format!("{}look", self.identity.prefix());
        let session = self.let_in(name, &self.to_write).await?;
        greet::look(&self.identity, &session.client).await
    }

    /// A connection for reads, which wait for no lock for long.
    pub(super) async fn connect_to_read(&self) -> Result<Session, String> {
        self.connect(&self.to_read, sql::READING).await
    }

    /// The mapped tables, if there are any.
    pub(super) fn rows(&self) -> Option<Arc<Rows>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The mapped tables are these now: what is asked from now on is asked over new connections.
    pub(super) fn set_rows(&self, rows: Rows) {
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(rows));
    }

    /// Whether `session` is good for what is asked now.
    pub(super) fn is_current(&self, session: &Session) -> bool {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        session.is_good()
            && match (session.rows(), rows.as_ref()) {
                (Some(own), Some(rows)) => Arc::ptr_eq(own, rows),
                (own, rows) => own.is_none() == rows.is_none(),
            }
    }

    /// A shared connection for reads.
    pub(super) async fn reader(&self) -> Result<Arc<Session>, String> {
        let turn = self.next_reader.fetch_add(1, Ordering::Relaxed);
        let mut slot = self.readers[turn % self.readers.len()].lock().await;
        if let Some(session) = slot.as_ref().filter(|session| self.is_current(session)) {
            return Ok(session.clone());
        }
        *slot = None;
        let session = Arc::new(self.connect_to_read().await?);
        *slot = Some(session.clone());
        Ok(session)
    }

    /// A connection of one's own.
    pub(super) async fn writer(&self) -> Result<Writer<'_>, String> {
        let permit = {
            let _wanted = Wanted::one(&self.wanted);
            self.writers.acquire().await.map_err(|error| error.to_string())?
        };
        let idle = loop {
            match self.idle().pop() {
                Some(session) if !self.is_current(&session) => drop(session),
                found => break found,
            }
        };
        let session = match idle {
            Some(session) => session,
            None => Arc::new(self.connect(&self.to_write, sql::PREPARED.len()).await?),
        };
        Ok(Writer { pool: self, session: Some(session), idle_again: false, _permit: permit })
    }

    /// How many there are. A shared one that is being made counts as there.
    pub(super) fn connections(&self) -> Connections {
        let is_open = |slot: &&AsyncMutex<Option<Arc<Session>>>| {
            slot.try_lock().map_or(true, |session| session.as_ref().is_some_and(|session| session.is_good()))
        };
        Connections {
            readers: self.readers.iter().filter(is_open).count() as u64,
            writing: self.writers_max.saturating_sub(self.writers.available_permits()) as u64,
            idle: self.idle().iter().filter(|session| session.is_good()).count() as u64,
            wanted: self.wanted.load(Ordering::Relaxed) as u64,
            lost: self.lost().len() as u64,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, Vec<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no connection that was given up may still have a backend at work.
    pub(super) fn nothing_lost(&self) -> bool {
        self.lost().is_empty()
    }

    /// Ends the backends of connections that were given up, over `session`. What one of them is executing may still be
    /// committed, so this is no answer to what became of it; but it does not go on for long.
    pub(super) async fn end_lost(&self, session: &Session) -> Result<(), Error> {
        let names = self.lost().clone();
        if names.is_empty() {
            return Ok(());
        }
        let listed: i64 = session.client.query_one(sql::END_LOST, &[&names]).await?.get(0);
        if listed == 0 {
            self.lost().retain(|name| !names.contains(name));
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// The connection.
    pub(super) fn session(&self) -> Result<&Arc<Session>, String> {
        self.session.as_ref().ok_or_else(|| "the connection was given up".to_owned())
    }

    /// Nothing asked of it is on its way any more: others may use it.
    pub(super) fn give_back(mut self) {
        self.idle_again = true;
    }

    /// The same, and nobody is to use it: it is closed.
    pub(super) fn let_go(mut self) {
        self.session = None;
    }
}

/// Not given back, it is closed: it failed, or whoever used it did not wait for the answer.
impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        match self.idle_again && session.is_good() {
            true => self.pool.idle().push(session),
            false => self.pool.lost().push(session.name.clone()),
        }
    }
}
