//! The socket below a connection: tokio's, or with the feature `testing` one of a simulated network. But for
//! [`Socket::ready`], nothing here waits.

use std::io::{self, Read, Write};

use bytes::{BufMut, BytesMut};
#[cfg(feature = "testing")]
use forebay::runtime::simulated::network::Stream;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::ground::Ground;

/// Bytes that one read makes room for.
const READ_BYTES: usize = 64 << 10;

/// A socket that is connected.
pub enum Socket {
    /// The machine's.
    Tcp(TcpStream),
    /// One end of a connection in a simulated network.
    #[cfg(feature = "testing")]
    Simulated(Stream),
}

impl Socket {
    /// Connects to `address`.
    pub async fn connect(ground: &Ground, address: &str) -> io::Result<Socket> {
        match ground {
            Ground::Machine => {
                let socket = TcpStream::connect(address).await?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => host.connect(address).await.map(Socket::Simulated),
        }
    }

    /// Waits until there may be bytes to read, or with `writing` room to write.
    pub async fn ready(&self, writing: bool) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => {
                let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
                socket.ready(interest).await.map(drop)
            }
            #[cfg(feature = "testing")]
            Socket::Simulated(stream) => {
                std::future::poll_fn(|context| match stream.poll_readable(context) {
                    std::task::Poll::Pending if writing => stream.poll_writable(context),
                    ready => ready,
                })
                .await;
                Ok(())
            }
        }
    }

    /// Adds the bytes that are there to `input`; 0: there are no more.
    pub fn try_read(&self, input: &mut BytesMut) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.try_read_buf(&mut input.limit(READ_BYTES)),
            #[cfg(feature = "testing")]
            Socket::Simulated(stream) => {
                let mut bytes = [0; 4 << 10];
                let count = stream.try_read(&mut bytes)?;
                input.extend_from_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    /// Takes as much of `out` as there is room for.
    pub fn try_write(&self, out: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.try_write(out),
            #[cfg(feature = "testing")]
            Socket::Simulated(stream) => stream.try_write(out),
        }
    }
}

/// As rustls wants it.
impl Read for &Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.try_read(bytes),
            #[cfg(feature = "testing")]
            Socket::Simulated(stream) => stream.try_read(bytes),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
