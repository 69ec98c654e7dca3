//! HTTP: metrics for Prometheus, health for whoever restarts servers, and a page that says what is here.
//!
//! | path | answer |
//! |---|---|
//! | `/` | a page with links to the others |
//! | `/metrics` | all metrics of `metrics.rs` in Prometheus' text form |
//! | `/healthz` | 200 as long as the server runs |
//! | `/readyz` | 200 if it serves: its store answers, or is away and writes are buffered; else 503 with the reason |
//! | `/readyz?strict=1` | 503 as well unless the mode is normal and the store answers |
//!
//! Spoken by hyper itself, HTTP/1 only: four read-only answers need neither a router nor HTTP/2, and axum is hyper with
//! more around it. Connections are bounded, and one that does not send its request's head in time is closed.

mod answers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::listener::{Reserved, ServeError};
use crate::state::Shared;

/// Connections at a time; one more waits until another ends.
pub const HTTP_CONNECTIONS_MAX: usize = 64;

/// A connection that has not sent the head of a request by then is closed; also one that idles between two.
pub const HTTP_HEADER_WAIT: Duration = Duration::from_secs(10);

/// Bytes of the head of a request.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 << 10;

/// However a connection spends its time, it is closed after this.
pub const HTTP_CONNECTION_WAIT: Duration = Duration::from_secs(300);

/// Wait after the machine refuses a connection (too many open files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener for browsers and Prometheus.
pub struct Http {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Http {
    /// Listens on `address`. To be called within a tokio runtime.
    pub fn bind(address: Reserved, shared: Arc<Shared>) -> Result<Http, ServeError> {
        let (listener, address) = address.listen()?;
        Ok(Http { listener, address, shared })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the server stops.
    pub async fn run(self) {
        let permits = Arc::new(Semaphore::new(HTTP_CONNECTIONS_MAX));
        loop {
            let accepted = async {
                let permit = permits.clone().acquire_owned().await;
                (self.listener.accept().await, permit)
            };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                () = self.shared.stopping.wait() => return,
            };
            match accepted {
                (Ok((stream, _)), Ok(permit)) => {
                    tokio::spawn(serve(stream, self.shared.clone(), permit));
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "can't accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                // The semaphore is never closed.
                (_, Err(_)) => return,
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, permit: OwnedSemaphorePermit) {
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answers::answer(&request, &shared).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEADER_WAIT)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let ended = async {
        tokio::select! {
            served = connection => served,
            () = tokio::time::sleep(HTTP_CONNECTION_WAIT) => Ok(()),
            () = shared.stopping.wait() => Ok(()),
        }
    };
    if let Err(error) = ended.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
    drop(permit);
}
