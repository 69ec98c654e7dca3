//! The socket under a connection: whether the server takes what it is sent.
//!
//! A commit of many megabytes may take longer to send than a call may take, and what others ask meanwhile waits for the
//! same network. That is no outage as long as bytes are acknowledged. The system's buffer for sending is kept small, so
//! that what it has taken beyond that, since the server was heard last, has been acknowledged by the server. Neither is
//! it one while an answer of many megabytes comes in.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

/// Bytes that are asked for as the system's buffer; it takes twice as many.
const BUFFER_BYTES: u32 = 128 << 10;

/// Bytes that no buffer holds: what is taken beyond was acknowledged.
const UNPROVEN_BYTES: u64 = 4 * BUFFER_BYTES as u64;

/// What the client's own way sets where nothing else is asked for; the system's default.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// Bytes of answers to one question that are a large answer.
const ANSWER_BYTES: u64 = 256 << 10;

/// Bytes that a large commit is given a second for.
const BYTES_PER_SECOND: u64 = 1 << 20;

/// Time in which so many bytes have to be sent.
pub(super) fn time_to_send(bytes: usize) -> Duration {
    Duration::from_millis(bytes as u64 * 1000 / BYTES_PER_SECOND)
}

/// When the server of some connections last acknowledged, or sent, a part of something large.
pub(super) struct Progress {
    began: Instant,
    /// Milliseconds after that, and one; 0: never.
    last: AtomicU64,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Progress {
    fn is_made(&self) {
        self.last.store(self.began.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    fn was_made_within(&self, time: Duration) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last > 0 && self.began.elapsed() < Duration::from_millis(last) + time
    }

    /// What `work` answers by `deadline`; later, as long as the server acknowledges, within each `time`, something of
    /// what it is sent, or sends more of a large answer. An error if it does not.
    pub(super) async fn within<T>(
        &self,
        mut deadline: Instant,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ()> {
        let mut work = pin!(work);
        loop {
            match timeout_at(deadline, &mut work).await {
                Ok(answer) => return Ok(answer),
                Err(_) if self.was_made_within(time) => deadline = Instant::now() + time,
                Err(_) => return Err(()),
            }
        }
    }
}

/// A socket that tells of it.
pub(super) struct Wire {
    tcp: TcpStream,
    /// Bytes taken since something was read.
    taken: u64,
    /// Bytes read since something was taken.
    read: u64,
    progress: Arc<Progress>,
}

/// A socket to the one host that `config` names, and its name; none where that is to be left to the client's own way:
/// of several hosts, of sockets of this machine, of options for sockets, and where it can't be reached.
pub(super) async fn connect(config: &Config, progress: &Arc<Progress>) -> Option<(Wire, String)> {
    let plain = config.get_hostaddrs().is_empty()
        && config.get_tcp_user_timeout().is_none()
        && config.get_keepalives_idle() == KEEPALIVES_IDLE
        && config.get_keepalives_interval().is_none()
        && config.get_keepalives_retries().is_none()
        && config.get_target_session_attrs() == TargetSessionAttrs::Any;
    let ([Host::Tcp(host)], true) = (config.get_hosts(), plain) else { return None };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let time = config.get_connect_timeout().copied().unwrap_or(Duration::MAX);
    let tcp = timeout(time, reach(host, port, config.get_keepalives())).await.ok()?.ok()?;
    Some((Wire { tcp, taken: 0, read: 0, progress: progress.clone() }, host.clone()))
}

async fn reach(host: &str, port: u16, keepalives: bool) -> io::Result<TcpStream> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for address in lookup_host((host, port)).await? {
        match reach_one(address, keepalives).await {
            Ok(tcp) => return Ok(tcp),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

async fn reach_one(address: SocketAddr, keepalives: bool) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_send_buffer_size(BUFFER_BYTES)?;
    socket.set_keepalive(keepalives)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.tcp).poll_read(context, buffer);
        let count = (buffer.filled().len() - before) as u64;
        if count > 0 {
            (self.taken, self.read) = (0, self.read + count);
            if self.read > ANSWER_BYTES {
                self.progress.is_made();
            }
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &polled {
            (self.taken, self.read) = (self.taken + *count as u64, 0);
            if self.taken > UNPROVEN_BYTES {
                self.progress.is_made();
            }
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What a server takes that reads nothing is no progress, and what it reads is.
    #[tokio::test]
    async fn what_lies_in_buffers_of_ours_is_no_progress() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = reach_one(listener.local_addr().unwrap(), true).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let progress = Arc::new(Progress::default());
        let mut wire = Wire { tcp, taken: 0, read: 0, progress: progress.clone() };
        wire.write_all(&[0; UNPROVEN_BYTES as usize / 2]).await.unwrap();
        assert!(!progress.was_made_within(Duration::from_secs(100)));
        let sending = tokio::spawn(async move { wire.write_all(&vec![0; 32 << 20]).await });
        let mut read = vec![0; 1 << 20];
        while !progress.was_made_within(Duration::from_secs(100)) {
            server.readable().await.unwrap();
            let _ = server.try_read(&mut read);
        }
        sending.abort();
    }

    /// What comes behind a question is progress once it is much.
    #[tokio::test]
    async fn a_large_answer_is_progress() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = reach_one(listener.local_addr().unwrap(), true).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let progress = Arc::new(Progress::default());
        let mut wire = Wire { tcp, taken: 0, read: 0, progress: progress.clone() };
        let mut answer = vec![0; ANSWER_BYTES as usize];
        for _ in 0..3 {
            wire.write_all(b"?").await.unwrap();
            server.write_all(&answer).await.unwrap();
            wire.read_exact(&mut answer).await.unwrap();
            assert!(!progress.was_made_within(Duration::from_secs(100)), "each is the answer to another question");
        }
        server.write_all(b"!").await.unwrap();
        wire.read_exact(&mut answer[..1]).await.unwrap();
        assert!(progress.was_made_within(Duration::from_secs(100)));
    }
}
