//! A connection to a PostgreSQL as any program has it, for those who measure what forebay is compared with.

use std::fmt;

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error};

use super::OpenError;
use super::address::Address;
use super::classify;
use super::tls::Tls;

/// A connection; dropping it closes the socket at once. Its client is that of `tokio-postgres`.
pub struct Plain {
    /// What statements are sent by.
    pub client: Client,
    task: AbortHandle,
}

impl Plain {
    /// Connects as an application of this name. To be called in tokio's context.
    pub async fn connect(address: &Address, password: Option<&[u8]>, name: &str) -> Result<Plain, OpenError> {
        let tls = Tls::open(address)?;
        let mut config = address.config().clone();
        config.application_name(name);
        if let Some(password) = password {
            config.password(password);
        }
        let unreachable = |error: Error| OpenError::Unreachable { place: address.place(), why: told(&error) };
        let (client, connection) = config.connect(tls).await.map_err(unreachable)?;
        // Who has a request on its way is told how it ended; there is nobody else to tell.
        let task = tokio::spawn(async move { connection.await.unwrap_or_default() }).abort_handle();
        Ok(Plain { client, task })
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Plain").field("closed", &self.client.is_closed()).finish_non_exhaustive()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An error with its causes, in one line.
pub fn told(error: &Error) -> String {
    classify::told_in_full(error)
}
