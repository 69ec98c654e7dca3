//! Accepts connections, and stops gracefully: no new ones, those there are finish the requests that they have sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::clients::Client;
use crate::connection;
use crate::connection::wire::TlsStream;
use crate::reserved::{Reserved, ServeError};
use crate::start::ServerOptions;
use crate::state::Shared;
use crate::tls::Tls;

/// How long connections may take to finish after a stop.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Wait after the machine refuses a connection (too many open files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// After so much silence the system asks a client's machine whether it is there, and so often again, for so long each
/// time. A client that is gone without a word would keep what it has: a transaction's id, memory, its place.
const SILENCE: Duration = Duration::from_secs(60);
const SILENCE_ASKED: u32 = 3;
const SILENCE_WAIT: Duration = Duration::from_secs(20);

/// Sets what each connection is to have.
fn prepare(stream: &TcpStream) {
    // Replies are written whole, so nothing is gained by waiting for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "can't set TCP_NODELAY");
    }
    let asks = socket2::TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE_WAIT).with_retries(SILENCE_ASKED);
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_keepalive(&asks) {
        tracing::debug!(%error, "can't set SO_KEEPALIVE");
    }
}

/// A server that listens.
pub struct Server {
    plain: Option<Listener>,
    tls: Option<(Listener, Arc<Tls>)>,
    shared: Arc<Shared>,
}

/// One address that is listened on.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    fn new(reserved: Reserved) -> Result<Listener, ServeError> {
        let (socket, address) = reserved.listen()?;
        Ok(Listener { socket, address })
    }
}

/// The next connection, if there is a listener.
async fn accept(listener: Option<&Listener>) -> std::io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.socket.accept().await,
        None => std::future::pending().await,
    }
}

impl Server {
    /// Listens on `address`, and where [`ServerOptions::tls`] says. To be called within a tokio runtime.
    pub fn bind(address: Option<Reserved>, mut options: ServerOptions) -> Result<Server, ServeError> {
        let plain = address.map(Listener::new).transpose()?;
        let tls = match options.tls.take() {
            Some((address, tls)) => Some((Listener::new(address)?, tls)),
            None => None,
        };
        let shared = Arc::new(Shared::new(options));
        let first = plain.as_ref().or(tls.as_ref().map(|(listener, _)| listener)).ok_or(ServeError::Nowhere)?;
        let _ = shared.address.set(first.address);
        if let Some((_, tls)) = &tls {
            let _ = shared.tls.set(tls.clone());
        }
        Ok(Server { plain, tls, shared })
    }

    /// The address that it listens on without TLS.
    pub fn address(&self) -> Option<SocketAddr> {
        self.plain.as_ref().map(|listener| listener.address)
    }

    /// The address that it listens on with TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(listener, _)| listener.address)
    }

    /// What all sessions share; [`crate::state::Stop::set`] there stops the server.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Serves until it is stopped, then lets connections finish and the store write what it holds back.
    pub async fn run(self) {
        let shared = self.shared.clone();
        loop {
            let (accepted, tls) = tokio::select! {
                accepted = accept(self.plain.as_ref()) => (accepted, None),
                accepted = accept(self.tls.as_ref().map(|(listener, _)| listener)) => {
                    (accepted, self.tls.as_ref().map(|(_, tls)| tls))
                }
                () = shared.stopping.wait() => break,
            };
            match accepted {
                Ok((stream, address)) => self.serve(stream, address, tls),
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((self.plain, self.tls));
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

    fn serve(&self, stream: TcpStream, address: SocketAddr, tls: Option<&Arc<Tls>>) {
        let shared = self.shared.clone();
        let now_ms = shared.engine.runtime().now_ms();
        let local = stream.local_addr().map_or_else(|_| String::new(), |local| local.to_string());
        prepare(&stream);
        let clients_max = shared.limits.clients_max;
        let stranger = tls.is_some() || !shared.access.default_user().is_open();
        let admitted = shared.clients.admit(address.to_string(), local, now_ms, stranger, &shared.limits);
        let Some((client, displaced)) = admitted else {
            shared.figures.connections_refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%address, clients_max, "refused a client: clients_max");
            // Redis' words; written at once or not at all.
            if tls.is_none() {
                let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
            }
            return;
        };
        if let Some(other) = displaced {
            shared.figures.strangers_closed.fetch_add(1, Ordering::Relaxed);
            let (client, address) = (other.id, &other.address);
            tracing::info!(client, address, clients_max, "closing a stranger in favour of a new client: clients_max");
        }
        let tls = tls.map(|tls| tls.config(now_ms, shared.engine.runtime().elapsed()));
        shared.figures.connections.fetch_add(1, Ordering::Relaxed);
        let runtime = shared.engine.runtime().clone();
        runtime.spawn(async move {
            let registered = Registered { shared: shared.clone(), id: client.id };
            match tls {
                None => connection::serve(stream, shared, client).await,
                Some(config) => match agree(stream, config, &shared, &client).await {
                    Ok(stream) => connection::serve(stream, shared, client).await,
                    Err(error) => tracing::info!(client = client.id, %address, %error, "no TLS with a client"),
                },
            }
            drop(registered);
        });
    }
}

/// The TLS handshake, unless the client is sent away meanwhile.
async fn agree(
    stream: TcpStream,
    config: Arc<rustls::ServerConfig>,
    shared: &Shared,
    client: &Client,
) -> std::io::Result<TlsStream> {
    tokio::select! {
        agreed = TlsStream::accept(stream, config, Duration::from_millis(shared.limits.handshake_ms_max)) => agreed,
        () = client.killed() => Err(std::io::Error::other("sent away")),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine's answer is not waited for here: what is asked of it is looked at.
    #[tokio::test]
    async fn a_client_that_is_gone_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let is_asked = |stream: &TcpStream| socket2::SockRef::from(stream).keepalive().unwrap();
        assert!(!is_asked(&stream));
        prepare(&stream);
        let socket = socket2::SockRef::from(&stream);
        assert!(is_asked(&stream) && stream.nodelay().unwrap());
        assert_eq!(
            (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap()),
            (SILENCE, SILENCE_WAIT)
        );
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), SILENCE_ASKED);
    }
}
