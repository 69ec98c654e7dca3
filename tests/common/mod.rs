//! What tests of whole servers share: starting them, and talking to them.

#![allow(dead_code, reason = "each test uses its part")]

pub mod process;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, TxnLimits};
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};
use forebay_server::{Server, ServerLimits, ServerOptions};

/// How long a reply, or a server's start, may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with this value.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    _server: Kind,
}

enum Kind {
    Process(Process),
    Thread(tokio::runtime::Runtime),
}

struct Process {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A forebay over the memory store, with room for a few documents only, so that most of what is asked for was evicted.
pub fn start_forebay() -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a tokio runtime");
    let policy = choose("lru").expect("the policy lru");
    let engine = Engine::new(EngineOptions {
        runtime: forebay::runtime::tokio::runtime(runtime.handle().clone()),
        store: Arc::new(Memory::new()),
        cache: CacheOptions { budget_bytes: 4096, partitions: 2, policy: policy.policy, policy_values: policy.values },
        limits: TxnLimits::default(),
        history: None,
    });
    let options = ServerOptions { engine, limits: ServerLimits::default(), threads: 2, trace_dir: None };
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let server = runtime.block_on(Server::bind(any, options)).expect("a free port");
    let address = server.address();
    runtime.spawn(server.run());
    Running { address, _server: Kind::Thread(runtime) }
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
    let running = Running { address, _server: Kind::Process(Process { child, _folder: folder }) };
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
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Connection { stream, decoder: ReplyDecoder::new(ReplyLimits::default()), input: BytesMut::new() }
    }

    /// Sends requests at once; their replies.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> Vec<Reply> {
        let mut output = BytesMut::new();
        for request in requests {
            encode_command(&mut output, request);
        }
        self.stream.write_all(&output).expect("the server reads");
        requests.iter().map(|_| self.reply()).collect()
    }

    /// Sends one request; its reply.
    pub fn call(&mut self, request: &[&str]) -> Reply {
        self.pipeline(&[request.to_vec()]).remove(0)
    }

    fn reply(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.input).expect("a reply") {
                return reply;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).expect("a reply in time");
            assert!(count > 0, "the server closed the connection");
            self.input.extend_from_slice(&bytes[..count]);
        }
    }
}
