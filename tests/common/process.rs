//! The real binary as a process: started on a free port, killed, started again on the same data.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use super::{Connection, PATIENCE};

/// Lines of stderr that a failed test shows.
const LOG_LINES_SHOWN: usize = 60;

/// `forebay serve` with a folder of its own; killed and removed when dropped. What it wrote to stderr is kept over
/// restarts and shown when the test fails.
pub struct Forebay {
    /// Where it listens; another port after each start.
    pub address: SocketAddr,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

/// The binary, without what this machine's environment sets.
pub fn forebay_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
        command.env_remove(name);
    }
    command
}

/// Sends a signal by its name. By the shell: not every machine has a program `kill`.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()]).status();
    assert!(sent.expect("sh runs").success(), "there is no process {}", child.id());
}

/// Waits for a process, at most so long.
pub fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if began.elapsed() > patience {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Forebay {
    /// Starts it with these arguments after `serve`, and waits until it answers. `store` is `memory` or `embedded`.
    pub fn start(store: &str, arguments: &[&str]) -> Forebay {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = match store {
            "embedded" => format!("embedded:{}", folder.path().join("store.redb").display()),
            other => other.to_owned(),
        };
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "warn", "--store", &store];
        let arguments = fixed.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        let nowhere: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut forebay = Forebay { address: nowhere, arguments, folder, running: None };
        forebay.restart();
        forebay
    }

    /// Starts it on what the last one left, killing that first if it still runs.
    pub fn restart(&mut self) {
        self.kill9();
        let mut command = forebay_command();
        command.args(&self.arguments).stdout(Stdio::piped()).stderr(self.log_file());
        let mut child = command.spawn().expect("the binary runs");
        let mut banner = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            let read = banner.read_line(&mut line).expect("the banner is UTF-8");
            assert!(read > 0, "forebay ended before it served: {:?}", child.wait());
            if let Some(rest) = line.strip_prefix("redis ") {
                break rest.split_whitespace().next().expect("an address").parse().expect("an address");
            }
        };
        self.address = address;
        self.running = Some((child, banner));
        assert_eq!(Connection::new(address).call(&["PING"]), Reply::Simple("PONG".into()));
    }

    /// SIGKILL, and waits for the end.
    pub fn kill9(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    /// SIGTERM, and waits for the end, which must be a clean one.
    pub fn terminate(&mut self) {
        let (mut child, _banner) = self.running.take().expect("it runs");
        signal(&child, "TERM");
        let Some(status) = wait(&mut child, PATIENCE) else {
            let _ = child.kill();
            panic!("forebay does not stop at SIGTERM");
        };
        assert!(status.success(), "{status}");
    }

    /// A figure of `CACHE STATS`.
    pub fn cache_figure(&self, name: &str) -> u64 {
        let Reply::Array(stats) = Connection::new(self.address).call(&["CACHE", "STATS"]) else {
            panic!("CACHE STATS is a list in RESP2");
        };
        let pair = stats.chunks(2).find(|pair| pair[0] == Reply::bulk(name.as_bytes()));
        match pair.and_then(|pair| pair.get(1)) {
            Some(Reply::Integer(figure)) => *figure as u64,
            other => panic!("CACHE STATS {name}: {other:?}"),
        }
    }

    /// What it has written to stderr since the first start.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("stderr")
    }

    fn log_file(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.log_path()).expect("a file for stderr")
    }
}

impl Drop for Forebay {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let text = self.log();
            let lines: Vec<&str> = text.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("the last {} lines of forebay's stderr:\n{}", shown.len(), shown.join("\n"));
        }
    }
}
