//! What tests of whole servers share: starting them, and talking to them.

#![allow(dead_code, reason = "each test uses its part")]

pub mod lab;
pub mod process;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};
use tempfile::TempDir;

/// How long a reply, or a server's start, may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A redis-server that ends with this value.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A redis-server that keeps nothing; `None` if there is no such program.
pub fn start_redis() -> Option<Running> {
    // Asked for and given back: the program takes no port 0.
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let child = Command::new("redis-server")
        .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("redis-server does not start: {error}"),
    };
    let running = Running { address, child, _folder: folder };
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < PATIENCE, "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(running)
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    decoder: ReplyDecoder,
    input: BytesMut,
}

impl Connection {
    /// Connects.
    pub fn new(address: SocketAddr) -> Connection {
        Connection::try_new(address).expect("the server listens")
    }

    /// Connects, if somebody listens.
    pub fn try_new(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, decoder: ReplyDecoder::new(ReplyLimits::default()), input: BytesMut::new() })
    }

    /// Sends requests at once; their replies.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> Vec<Reply> {
        self.try_pipeline(requests).expect("the server answers")
    }

    /// Likewise over a connection that may be lost.
    pub fn try_pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> std::io::Result<Vec<Reply>> {
        let mut output = BytesMut::new();
        for request in requests {
            encode_command(&mut output, request);
        }
        self.stream.write_all(&output)?;
        requests.iter().map(|_| self.reply()).collect()
    }

    /// Sends one request over a connection that may be lost; its reply.
    pub fn try_call(&mut self, request: &[&str]) -> std::io::Result<Reply> {
        self.try_pipeline(&[request.to_vec()]).map(|mut replies| replies.remove(0))
    }

    /// Sends one request; its reply.
    pub fn call(&mut self, request: &[&str]) -> Reply {
        self.pipeline(&[request.to_vec()]).remove(0)
    }

    /// Sends one request, whose reply [`Connection::receive`] gives.
    pub fn send(&mut self, request: &[&str]) {
        let mut output = BytesMut::new();
        encode_command(&mut output, request);
        self.stream.write_all(&output).expect("the server reads");
    }

    /// The next reply.
    pub fn receive(&mut self) -> Reply {
        self.reply().expect("the server answers")
    }

    /// Whether the server closes the connection without another reply.
    pub fn is_closed(&mut self) -> bool {
        // Unlike `read`, it goes on when a child of the test has ended.
        self.stream.read_exact(&mut [0; 1]).is_err()
    }

    fn reply(&mut self) -> std::io::Result<Reply> {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.input).expect("a reply") {
                return Ok(reply);
            }
            let mut bytes = [0; 4096];
            let count = match self.stream.read(&mut bytes) {
                // A signal came: a child of the test has ended.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&bytes[..count]);
        }
    }
}

/// The answer to `GET path`, its head included.
pub fn http(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    answer
}
