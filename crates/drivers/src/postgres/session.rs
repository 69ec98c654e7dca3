//! One connection.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use tokio::task::AbortHandle;
use tokio_postgres::{Client, Config, Error, Statement};

use super::sql::{PREPARED, Prepared};
use super::tls::Tls;

/// A connection and the statements prepared on it. Dropping it closes the socket at once, whatever is on its way.
pub(super) struct Session {
    pub(super) client: Client,
    /// Its `application_name`, by which its backend is found and ended.
    pub(super) name: String,
    statements: Vec<Statement>,
    /// How many of the statements are of [`PREPARED`]; those of tables follow.
    own: usize,
    broken: AtomicBool,
    task: AbortHandle,
}

impl Session {
    /// Connects as `name`. No statement is prepared yet. To be called in tokio's context.
    pub(super) async fn connect(config: &Config, tls: Tls, name: String) -> Result<Session, Error> {
        let mut config = config.clone();
        config.application_name(&name);
        let (client, connection) = config.connect(tls).await?;
        let task = tokio::spawn(async move {
            // Who has a request on its way is told; there is nobody else to tell.
            if let Err(error) = connection.await {
                tracing::debug!(error = super::classify::told(&error), "a connection to PostgreSQL has ended");
            }
        });
        let (statements, broken, task) = (Vec::new(), AtomicBool::new(false), task.abort_handle());
        Ok(Session { client, name, statements, own: 0, broken, task })
    }

    /// Prepares statements in one round trip: the first `own` of ours, and `more`.
    pub(super) async fn prepare(client: &Client, own: usize, more: &[String]) -> Result<Vec<Statement>, Error> {
        let texts = PREPARED.into_iter().take(own).chain(more.iter().map(String::as_str));
        try_join_all(texts.map(|text| client.prepare(text))).await
    }

    /// With its prepared statements, the first `own` of them ours.
    pub(super) fn with(mut self, statements: Vec<Statement>, own: usize) -> Session {
        (self.statements, self.own) = (statements, own);
        self
    }

    /// The prepared statement.
    pub(super) fn statement(&self, which: Prepared) -> &Statement {
        &self.statements[which as usize]
    }

    /// The statement that reads rows of the mapped table with this number.
    pub(super) fn statement_of_table(&self, table: usize) -> &Statement {
        &self.statements[self.own + table]
    }

    /// Marks it as not to be used for anything new.
    pub(super) fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether it can be used.
    pub(super) fn is_good(&self) -> bool {
        !self.broken.load(Ordering::Relaxed) && !self.client.is_closed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}
