//! The real binary with users or TLS, its log in a file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::process::forebay_command;

/// Only so that a test that waits for what never comes fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// `forebay serve` over the memory store; killed when dropped.
pub struct Serving {
    /// Where it listens, without TLS or, if it does not, with.
    pub address: SocketAddr,
    /// Where it listens with TLS.
    pub tls: Option<SocketAddr>,
    /// What it has said on stdout.
    pub banner: String,
    child: Child,
    log: PathBuf,
    _stdout: BufReader<ChildStdout>,
}

fn serve(folder: &Path, line: &[&str]) -> Command {
    let mut command = forebay_command();
    let fixed = ["serve", "--store", "memory", "--memory", "8MiB", "--log-level", "trace"];
    command.current_dir(folder).args(fixed).args(line);
    for (name, address) in [("--listen", "127.0.0.1:0"), ("--http", "off")] {
        if !line.contains(&name) {
            command.args([name, address]);
        }
    }
    command
}

impl Serving {
    /// Starts it in `folder` and waits until it serves.
    pub fn start(folder: &Path, line: &[&str]) -> Serving {
        let log = folder.join("log");
        let mut command = serve(folder, line);
        command.stdout(Stdio::piped()).stderr(File::create(&log).expect("a file for the log"));
        let mut child = command.spawn().expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut banner = String::new();
        while !banner.contains("\ntry ") {
            let read = stdout.read_line(&mut banner).expect("UTF-8");
            assert!(read > 0, "ended without serving: {}", fs::read_to_string(&log).unwrap_or_default());
        }
        let address = |name: &str| -> Option<SocketAddr> {
            let rest = banner.lines().find_map(|line| line.strip_prefix(name))?;
            Some(rest.split_whitespace().next().expect("an address").parse().expect("an address"))
        };
        let tls = address("rediss ");
        let address = address("redis ").or(tls).expect("it listens");
        Serving { address, tls, banner, child, log, _stdout: stdout }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log is readable")
    }

    /// Waits until it has logged `text`.
    pub fn logs(&self, text: &str) {
        let began = Instant::now();
        while !self.log().contains(text) {
            assert!(began.elapsed() < PATIENCE, "'{text}' is not in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, name: &str) {
        // By the shell: a bare Debian has no program of that name.
        let line = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().expect("sh runs").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one line in which a start is refused.
pub fn refusal(folder: &Path, line: &[&str]) -> String {
    let output = serve(folder, line).output().expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().strip_prefix("forebay: ").expect("it says who speaks").to_owned()
}

/// `forebay password` with `input`.
pub fn password(input: &str) -> Output {
    let mut command = forebay_command();
    command.arg("password").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

/// The hash of a password, with the end of its line.
pub fn hash_of(secret: &str) -> String {
    let output = password(secret);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
