//! HTTP: metrics for Prometheus, health for programs that restart servers, and a page that shows what goes on.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the dashboard; where a password is needed, the way to `/login` |
//! | `/events` | what keeps it up to date, as server-sent events: `events.rs` |
//! | `/login`, `/logout` | a password by POST, for a cookie, and the end of that: `login.rs` |
//! | `/metrics` | all metrics of `metrics.rs` in Prometheus' text form |
//! | `/healthz` | 200 as long as the server runs |
//! | `/readyz` | 200 if it serves: its store answers, or is away and writes are buffered; else 503 with the reason |
//! | `/readyz?strict=1` | 503 as well unless the mode is normal and the store answers |
//!
//! Spoken by hyper itself, HTTP/1 only: so few answers need neither a router nor HTTP/2, and axum is hyper with
//! more around it. Connections are bounded, and one that does not send its request's head in time is closed. A new one
//! never waits for those that idle: where there are too many the oldest that is not being answered goes.
//!
//! A web page can have a browser ask any address for what the page's own name stands for (DNS rebinding). So what shows
//! figures is answered only to an address, `localhost` or a name that the operator gave; health has nothing to hide.
//! The page changes nothing. A login and a stream are refused to pages from elsewhere.

mod answers;
mod assets;
mod events;
mod history;
mod json;
mod login;
mod places;
mod record;
mod sessions;
mod site;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::reserved::{Reserved, ServeError};
use crate::state::Shared;
use site::{Caller, HTTP_HEADER_WAIT, Site};

/// Connections at a time; for one more another goes that is not being answered.
pub const HTTP_CONNECTIONS_MAX: usize = 64;

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
    site: Arc<Site>,
}

/// The connections there are, by age.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<BTreeMap<u64, Seat>>>);

struct Seat {
    /// It is being answered.
    busy: Arc<AtomicBool>,
    /// Dropped, the connection ends.
    _stays: oneshot::Sender<()>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Seat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for another; where there are too many, the oldest goes that is not being answered.
    fn enter(&self, number: u64) -> (Arc<AtomicBool>, oneshot::Receiver<()>) {
        let mut seats = self.lock();
        let (stays, goes) = oneshot::channel();
        let busy = Arc::new(AtomicBool::new(false));
        if seats.len() >= HTTP_CONNECTIONS_MAX {
            let idle = seats.iter().find(|(_, seat)| !seat.busy.load(Ordering::SeqCst)).map(|(number, _)| *number);
            idle.map(|number| seats.remove(&number));
        }
        seats.insert(number, Seat { busy: busy.clone(), _stays: stays });
        (busy, goes)
    }

    fn leave(&self, number: u64) {
        self.lock().remove(&number);
    }
}

impl Http {
    /// Listens on `address`, and shows figures to who asks for one of `hosts` too. To be called within a tokio runtime.
    pub fn bind(address: Reserved, hosts: &[String], shared: Arc<Shared>) -> Result<Http, ServeError> {
        let (listener, address) = address.listen()?;
        let site = Arc::new(Site::new(shared, hosts, address.port()));
        Ok(Http { listener, address, site })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the server stops.
    pub async fn run(self) {
        let connections = Connections::default();
        tokio::spawn(events::take_rows(self.site.clone()));
        for number in 0.. {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.site.shared.stopping.wait() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    let (connections, (busy, goes)) = (connections.clone(), connections.enter(number));
                    let caller = Caller { address, wrong: AtomicU32::new(0), busy };
                    let site = self.site.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = serve(stream, &site, &caller) => {}
                            _ = goes => tracing::debug!("an HTTP connection made room for another"),
                        }
                        connections.leave(number);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "can't accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, site: &Arc<Site>, caller: &Caller) {
    let service =
        service_fn(|request| async move { Ok::<_, Infallible>(answers::answer(request, site, caller).await) });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEADER_WAIT)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let ended = async {
        tokio::select! {
            served = connection => served,
            () = tokio::time::sleep(HTTP_CONNECTION_WAIT) => Ok(()),
            () = site.shared.stopping.wait() => Ok(()),
        }
    };
    if let Err(error) = ended.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
