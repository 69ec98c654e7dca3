//! What a connection's bytes travel on: a socket, or TLS over one. Nothing here waits but [`Wire::ready`], so that a
//! connection can go on reading while its replies wait.

use std::future::Future;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures_util::FutureExt;
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

/// Bytes of replies that are encrypted at a time.
const ENCRYPT_BYTES_MAX: usize = 64 << 10;

/// What can go on.
pub enum Ready {
    /// So many bytes were read; 0: there are no more.
    Read(usize),
    /// There is room to write.
    Write,
}

/// A stream of bytes both ways.
pub trait Wire: Send {
    /// Waits for bytes, of which it adds about `most` to `input`, or with `writing` for room to write. Loses nothing if
    /// it is dropped.
    fn ready(
        &mut self,
        input: &mut BytesMut,
        most: usize,
        writing: bool,
    ) -> impl Future<Output = io::Result<Ready>> + Send;

    /// Adds about `most` of the bytes that are there to `input`; 0: there are no more.
    fn try_read(&mut self, input: &mut BytesMut, most: usize) -> io::Result<usize>;

    /// Takes as much of `out` as there is room for.
    fn try_write(&mut self, out: &[u8]) -> io::Result<usize>;

    /// How many bytes wait to be read, about.
    fn arrived(&self) -> usize;

    /// Done when there may be bytes to read; of those that `try_read` has already, it need not know.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Done when there may be room to write.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Done when there is room to write.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Sends on what it has taken; true when nothing of it is left.
    fn flush(&mut self) -> io::Result<bool>;

    /// Says that nothing more will come.
    fn end(&mut self);
}

impl Wire for TcpStream {
    async fn ready(&mut self, input: &mut BytesMut, most: usize, writing: bool) -> io::Result<Ready> {
        let (mut reader, writer) = self.split();
        let mut input = input.limit(most);
        tokio::select! {
            biased;
            writable = writer.writable(), if writing => writable.map(|()| Ready::Write),
            // A read that leaves room tells tokio that the socket is empty; `try_read_buf` would ask it once more.
            read = reader.read_buf(&mut input) => read.map(Ready::Read),
        }
    }

    fn try_read(&mut self, input: &mut BytesMut, most: usize) -> io::Result<usize> {
        self.try_read_buf(&mut input.limit(most))
    }

    fn arrived(&self) -> usize {
        rustix::io::ioctl_fionread(self).map_or(0, |bytes| bytes as usize)
    }

    fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, out)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
        TcpStream::writable(self)
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) {
        // Done at once, or not at all: the peer is gone.
        let _ = self.shutdown().now_or_never();
    }
}

/// TLS over a socket.
pub struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
}

/// The socket as rustls wants it.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Agrees with the client on TLS, within `wait`.
    pub async fn accept(socket: TcpStream, config: Arc<ServerConfig>, wait: Duration) -> io::Result<TlsStream> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = TlsStream { socket, session };
        let agreed = async {
            while stream.session.is_handshaking() || stream.session.wants_write() {
                if !Wire::flush(&mut stream)? {
                    stream.socket.writable().await?;
                } else if stream.session.is_handshaking() {
                    stream.socket.readable().await?;
                    match stream.receive() {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
            }
            Ok(())
        };
        match tokio::time::timeout(wait, agreed).await {
            Ok(agreed) => agreed.map(|()| stream),
            Err(_) => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Takes in what the socket has; its bytes, 0 at their end.
    fn receive(&mut self) -> io::Result<usize> {
        let count = self.session.read_tls(&mut Socket(&self.socket))?;
        if let Err(error) = self.session.process_new_packets() {
            // The client is told why, if it listens.
            let _ = Wire::flush(self);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(count)
    }

    /// Moves what is decrypted to `input`; `WouldBlock`: nothing is.
    fn take(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let mut reader = self.session.reader();
        let count = match reader.fill_buf() {
            Ok(bytes) => {
                input.extend_from_slice(bytes);
                bytes.len()
            }
            // The socket has ended without TLS's own end, as those of many clients do.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        reader.consume(count);
        Ok(count)
    }
}

impl Wire for TlsStream {
    async fn ready(&mut self, input: &mut BytesMut, most: usize, writing: bool) -> io::Result<Ready> {
        loop {
            match self.try_read(input, most) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read.map(Ready::Read),
            }
            // TLS itself may have something to say, too.
            let sent = Wire::flush(self)?;
            if sent && writing {
                return Ok(Ready::Write);
            }
            let interest = if sent { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            self.socket.ready(interest).await?;
        }
    }

    /// What was received is decrypted already: all of it is added.
    fn try_read(&mut self, input: &mut BytesMut, _most: usize) -> io::Result<usize> {
        loop {
            match self.take(input) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                taken => return taken,
            }
            if self.receive()? == 0 {
                return self.take(input);
            }
        }
    }

    fn arrived(&self) -> usize {
        self.socket.arrived()
    }

    fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        if !Wire::flush(self)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.session.writer().write(&out[..out.len().min(ENCRYPT_BYTES_MAX)])?;
        Wire::flush(self)?;
        Ok(count)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(context)
    }

    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.socket.writable()
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn end(&mut self) {
        self.session.send_close_notify();
        let _ = Wire::flush(self);
        Wire::end(&mut self.socket);
    }
}
