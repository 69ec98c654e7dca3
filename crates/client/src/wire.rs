//! What a connection's bytes travel on: a socket, or TLS over one. But for [`Wire::ready`], nothing here waits.

use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::ground::Ground;
use crate::socket::Socket;

/// Bytes that are encrypted at a time.
const ENCRYPT_BYTES_MAX: usize = 64 << 10;

/// A socket, perhaps with TLS over it.
pub struct Wire {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

impl Wire {
    /// Connects to `address`. TLS is agreed on with the first bytes that are written.
    pub async fn connect(ground: &Ground, address: &str, tls: Option<Arc<ClientConfig>>) -> io::Result<Wire> {
        let socket = Socket::connect(ground, address).await?;
        let tls = match tls {
            None => None,
            Some(config) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                Some(Box::new(ClientConnection::new(config, name).map_err(io::Error::other)?))
            }
        };
        Ok(Wire { socket, tls })
    }

    /// Waits until there may be bytes to read, or with `writing` room to write.
    pub async fn ready(&mut self, writing: bool) -> io::Result<()> {
        // Before TLS is agreed on, only TLS itself has something to write.
        let writing = match &self.tls {
            None => writing,
            Some(tls) => tls.wants_write() || writing && !tls.is_handshaking(),
        };
        self.socket.ready(writing).await
    }

    /// Takes as much of `out` as there is room for; nothing until TLS is agreed on.
    pub fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return if out.is_empty() { Ok(0) } else { self.socket.try_write(out) };
        };
        if !flush(&self.socket, tls)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        if out.is_empty() {
            return Ok(0);
        }
        if tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = tls.writer().write(&out[..out.len().min(ENCRYPT_BYTES_MAX)])?;
        flush(&self.socket, tls)?;
        Ok(count)
    }

    /// Adds the bytes that are there to `input`; 0: there are no more.
    pub fn try_read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.try_read(input) };
        loop {
            let taken = take(tls, input);
            if !would_block(&taken) {
                return taken;
            }
            let count = tls.read_tls(&mut &self.socket)?;
            if let Err(error) = tls.process_new_packets() {
                // The server is told why, if it listens.
                let _ = flush(&self.socket, tls);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            flush(&self.socket, tls)?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Whether the server has closed it, or has said what was not asked for.
    pub fn is_spoiled(&mut self) -> bool {
        !would_block(&self.try_read(&mut BytesMut::new()))
    }
}

/// Sends what TLS has to say; true when nothing of it is left.
fn flush(mut socket: &Socket, tls: &mut ClientConnection) -> io::Result<bool> {
    while tls.wants_write() {
        let sent = tls.write_tls(&mut socket);
        if would_block(&sent) {
            return Ok(false);
        }
        sent?;
    }
    Ok(true)
}

/// Moves what is decrypted to `input`.
fn take(tls: &mut ClientConnection, input: &mut BytesMut) -> io::Result<usize> {
    let mut reader = tls.reader();
    let count = match reader.fill_buf() {
        Ok(bytes) => {
            input.extend_from_slice(bytes);
            bytes.len()
        }
        // The socket has ended without TLS's own end.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
        Err(error) => return Err(error),
    };
    reader.consume(count);
    Ok(count)
}
