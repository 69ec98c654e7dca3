//! Accepts connections, and stops gracefully: no new ones, those there are finish the requests that they have sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};

use crate::connection;
use crate::state::{ServerOptions, Shared};

/// How long connections may take to finish after a stop.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Wait after the machine refuses a connection (too many open files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a server could not begin to serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("can't listen on {address}: {error}; choose another with --listen")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// What the machine says.
        error: std::io::Error,
    },
    /// The address for browsers and Prometheus can't be listened on.
    #[error("can't listen on {address} for HTTP: {error}; choose another with --http, or none with --http off")]
    BindHttp {
        /// Which address.
        address: SocketAddr,
        /// What the machine says.
        error: std::io::Error,
    },
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on `address`; port 0 chooses a free one.
    pub async fn bind(address: SocketAddr, options: ServerOptions) -> Result<Server, ServeError> {
        let failed = |error| ServeError::Bind { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::new(options));
        let _ = shared.address.set(address);
        Ok(Server { listener, address, shared })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all sessions share; [`crate::state::Stop::set`] there stops the server.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Serves until it is stopped, then lets connections finish and the store write what it holds back.
    pub async fn run(self) {
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => self.serve(stream, address),
                    Err(error) => {
                        tracing::warn!(%error, "can't accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = shared.stopping.wait() => break,
            }
        }
        drop(self.listener);
        let finished = async {
            while !shared.clients.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(STOP_WAIT, finished).await.is_err() {
            tracing::warn!(clients = shared.clients.len(), "stopping although clients are not done");
        }
        if let Some(trace) = shared.recorder.stop().await {
            tracing::info!(name = trace.name, records = trace.records, "the trace is whole");
        }
        shared.engine.drained().await;
        if let Err(error) = shared.engine.store().flush().await {
            tracing::error!(%error, "the store could not write what it held back");
        }
    }

    fn serve(&self, stream: TcpStream, address: SocketAddr) {
        let shared = self.shared.clone();
        let now_ms = shared.engine.runtime().now_ms();
        let local = stream.local_addr().unwrap_or(self.address);
        // Replies are written whole, so nothing is gained by waiting for more.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "can't set TCP_NODELAY");
        }
        let clients_max = shared.limits.clients_max;
        let Some(client) = shared.clients.add(address.to_string(), local.to_string(), now_ms, clients_max) else {
            shared.figures.connections_refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%address, clients_max, "refused a client: clients_max");
            // Redis' words; written at once or not at all.
            let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
            return;
        };
        shared.figures.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let registered = Registered { shared: shared.clone(), id: client.id };
            connection::serve(stream, shared, client).await;
            drop(registered);
        });
    }
}

/// Takes a client off the list when its connection ends, however it ends.
struct Registered {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.clients.remove(self.id);
    }
}
