//! The connections of a client. Each message takes one and gives it back with its answer.

use std::sync::{Mutex, PoisonError};

use forebay_protocol::Reply;
use tokio::sync::Semaphore;

use crate::connection::{Batch, Broken, Connection};
use crate::error::Error;
use crate::options::Options;

/// Connections that wait for their next message, and the right to open more.
pub struct Pool {
    options: Options,
    idle: Mutex<Vec<Connection>>,
    room: Semaphore,
}

/// Why a message has no answer.
pub enum Failed {
    /// It was not sent.
    Unsent(Error),
    /// It may have been done.
    Unanswered(String),
}

impl Pool {
    /// No connections, and room for as many as there may be.
    pub fn new(options: Options) -> Pool {
        let room = Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS));
        Pool { options, idle: Mutex::default(), room }
    }

    /// Sends a batch over a connection that is open, or over a new one; a reply to each request.
    pub async fn ask(&self, batch: &Batch) -> Result<Vec<Reply>, Failed> {
        let lost = |why: String| Error::Lost { address: self.options.address.clone(), why };
        let room = self.room.acquire().await.map_err(|error| Failed::Unsent(lost(error.to_string())))?;
        let mut connection = match self.take() {
            Some(connection) => connection,
            None => Connection::open(&self.options).await.map_err(Failed::Unsent)?,
        };
        // Until its answer is whole, the connection is in no list: dropped, it is closed.
        let replies = connection.ask(batch).await.map_err(|Broken(why)| Failed::Unanswered(why))?;
        self.give_back(connection);
        drop(room);
        Ok(replies)
    }

    /// Sends a batch over a new connection, which is closed then.
    pub async fn ask_alone(&self, batch: &Batch) -> Result<Vec<Reply>, Failed> {
        let mut connection = Connection::open(&self.options).await.map_err(Failed::Unsent)?;
        connection.ask(batch).await.map_err(|Broken(why)| Failed::Unanswered(why))
    }

    /// Opens a first connection.
    pub async fn try_out(&self) -> Result<(), Error> {
        let connection = Connection::open(&self.options).await?;
        self.give_back(connection);
        Ok(())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if !connection.is_spoiled() {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        self.idle().push(connection);
    }

    /// Where it connects to.
    pub fn address(&self) -> &str {
        &self.options.address
    }
}
