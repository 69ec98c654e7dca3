//! The server under test: forebay's program, or redis-server for comparison, on a free port in a temporary folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A port is free when it is chosen, but may be taken when the server asks for it.
const STARTS_MAX: usize = 5;
/// Only so that a hanging server fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which server is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Forebay,
    Redis,
}

impl Kind {
    fn chosen() -> Kind {
        match std::env::var("FOREBAY_CLIENTS_SERVER").as_deref() {
            Err(_) | Ok("" | "forebay") => Kind::Forebay,
            Ok("redis") => Kind::Redis,
            Ok(other) => panic!("FOREBAY_CLIENTS_SERVER={other}: forebay and redis are known"),
        }
    }

    /// As the clients' scripts know it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Forebay => "forebay",
            Kind::Redis => "redis",
        }
    }
}

/// A running server; dropped it is killed and its folder removed.
pub struct Server {
    child: Child,
    port: u16,
    folder: TempDir,
    kind: Kind,
}

impl Server {
    /// Starts one and waits until it answers.
    pub fn start() -> Server {
        let kind = Kind::chosen();
        for _ in 0..STARTS_MAX {
            let folder = TempDir::new().expect("a temporary folder");
            let port = free_port();
            let child = command(kind, port, &folder).spawn().expect("the server's program starts");
            let mut server = Server { child, port, folder, kind };
            if server.answers() {
                return server;
            }
            eprintln!("{kind:?} did not start on port {port}:\n{}", server.log());
        }
        panic!("no start of the server succeeded");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits for the answer to PING; false if it has ended before.
    fn answers(&mut self) -> bool {
        let begin = Instant::now();
        loop {
            if self.child.try_wait().expect("the server can be waited for").is_some() {
                return false;
            }
            if ping(self.port).unwrap_or(false) {
                return true;
            }
            assert!(begin.elapsed() < PATIENCE, "the server does not answer:\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    /// Stops it as an operator would, and expects that it ends well.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &pid]).status().expect("sh runs");
        assert!(sent.success(), "the server had ended already:\n{}", self.log());
        let status = wait(&mut self.child, PATIENCE);
        assert!(status.is_some_and(|status| status.success()), "ended with {status:?}:\n{}", self.log());
        let log = self.log();
        assert!(!log.contains("panicked at"), "{log}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails where it has ended already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a process, at most so long.
pub fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if begin.elapsed() > patience {
            return None;
        }
        sleep(Duration::from_millis(10));
    }
}

fn command(kind: Kind, port: u16, folder: &TempDir) -> Command {
    let folder = folder.path();
    let mut command = match kind {
        Kind::Forebay => Command::new(env!("CARGO_BIN_EXE_forebay")),
        Kind::Redis => Command::new("redis-server"),
    };
    match kind {
        Kind::Forebay => {
            let store = format!("embedded:{}", folder.join("store.redb").display());
            let listen = format!("127.0.0.1:{port}");
            command.args(["serve", "--listen", &listen, "--http", "off", "--store", &store]);
            // The environment is a source of settings: the test decides them, not the machine.
            for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
                command.env_remove(name);
            }
        }
        Kind::Redis => {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        }
    }
    let log = File::create(folder.join("log")).expect("the log file can be made");
    let errors = log.try_clone().expect("the log file can be shared");
    command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn ping(port: u16) -> std::io::Result<bool> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    socket.read_exact(&mut reply)?;
    Ok(&reply == b"+PONG\r\n")
}
