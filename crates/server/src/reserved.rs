//! Addresses that the server has before it listens on them.

use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};

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
    /// No address is left to listen on.
    #[error("nothing to listen on; give an address with --listen or --tls-listen")]
    Nowhere,
    /// The address for browsers and Prometheus can't be listened on.
    #[error("can't listen on {address} for HTTP: {error}; choose another with --http, or none with --http off")]
    BindHttp {
        /// Which address.
        address: SocketAddr,
        /// What the machine says.
        error: std::io::Error,
    },
}

/// Connections that the machine keeps until they are accepted.
const BACKLOG_MAX: u32 = 1024;

/// Bytes that the system takes of a client's replies before it can send them.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// An address that this process has, and does not listen on yet. What takes long at a start waits until all addresses
/// are there; so does what leaves something on the disk.
#[derive(Debug)]
pub struct Reserved {
    socket: Socket,
    address: SocketAddr,
    failed: fn(SocketAddr, std::io::Error) -> ServeError,
}

#[derive(Debug)]
enum Socket {
    Bound(TcpSocket),
    /// Connections wait in it until they are accepted.
    Listens(TcpListener),
}

/// Bounds what the system takes of a client's replies before it can send it: connections have that from the socket that
/// listens. Without it the system takes megabytes at once, and says nothing more while a client reads these slowly: it
/// would be taken for one that does not read.
fn bound_unsent(socket: &TcpSocket) {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
        tracing::debug!(%error, "can't set TCP_NOTSENT_LOWAT");
    }
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = socket;
}

impl Reserved {
    /// `address` for Redis clients; port 0 chooses a free one.
    pub fn new(address: SocketAddr) -> Result<Reserved, ServeError> {
        Reserved::reserve(address, |address, error| ServeError::Bind { address, error })
    }

    /// `address` for browsers and Prometheus.
    pub fn http(address: SocketAddr) -> Result<Reserved, ServeError> {
        Reserved::reserve(address, |address, error| ServeError::BindHttp { address, error })
    }

    fn reserve(
        address: SocketAddr,
        failed: fn(SocketAddr, std::io::Error) -> ServeError,
    ) -> Result<Reserved, ServeError> {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // Connections of an earlier life may linger.
            socket.set_reuseaddr(true)?;
            bound_unsent(&socket);
            socket.bind(address)?;
            Ok(Socket::Bound(socket))
        };
        let socket = bound().map_err(|error| failed(address, error))?;
        Ok(Reserved { socket, address, failed })
    }

    /// Listens, and accepts nobody yet: two programs may have the same address reserved, and one may listen.
    pub fn listening(self) -> Result<Reserved, ServeError> {
        let failed = self.failed;
        let (socket, address) = self.listen()?;
        Ok(Reserved { socket: Socket::Listens(socket), address, failed })
    }

    /// Listens; with the port that was chosen.
    pub(crate) fn listen(self) -> Result<(TcpListener, SocketAddr), ServeError> {
        let Reserved { socket, address, failed } = self;
        let listened = match socket {
            Socket::Bound(socket) => socket.listen(BACKLOG_MAX),
            Socket::Listens(socket) => Ok(socket),
        };
        let listened = listened.and_then(|socket| Ok((socket.local_addr()?, socket)));
        listened.map(|(address, socket)| (socket, address)).map_err(|error| failed(address, error))
    }
}
