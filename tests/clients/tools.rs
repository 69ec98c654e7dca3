//! The toolchains that clients need: whether they are there, how to get them, and the libraries' installation under
//! `target/clients`.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::common::process::wait;
use crate::server::Server;

/// Only so that a hanging client fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What Node.js runs.
pub const NODE_TESTS: &[&str] = &["node_redis.test.js", "ioredis.test.js", "caching.test.js"];

/// A program that a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    RedisCli,
    RedisBenchmark,
    Python,
    Node,
    Go,
}

impl Tool {
    pub const ALL: [Tool; 5] = [Tool::RedisCli, Tool::RedisBenchmark, Tool::Python, Tool::Node, Tool::Go];

    pub fn program(self) -> &'static str {
        match self {
            Tool::RedisCli => "redis-cli",
            Tool::RedisBenchmark => "redis-benchmark",
            Tool::Python => "python3",
            Tool::Node => "node",
            Tool::Go => "go",
        }
    }

    /// What is missing, and how to get it.
    pub fn missing(self) -> &'static str {
        match self {
            Tool::RedisCli => "redis-cli is not installed; Debian, Ubuntu: apt-get install redis-tools",
            Tool::RedisBenchmark => "redis-benchmark is not installed; Debian, Ubuntu: apt-get install redis-tools",
            Tool::Python => {
                "python3 (3.10 or newer, with venv and pip) is not installed; Debian, Ubuntu: \
                 apt-get install python3 python3-venv"
            }
            Tool::Node => {
                "node (20 or newer) with npm is not installed; the distribution's may be older: take a release from \
                 nodejs.org and put its bin folder on the PATH"
            }
            Tool::Go => {
                "go (1.26 or newer; from 1.21 on it fetches a newer one itself) is not installed; the distribution's \
                 may be older: take a release from go.dev and put its bin folder on the PATH"
            }
        }
    }

    /// Whether it is there and new enough.
    fn works(self) -> bool {
        let says = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        match self {
            Tool::RedisCli | Tool::RedisBenchmark => says(self.program(), &["--version"]).is_some(),
            Tool::Python => {
                let check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
                says("python3", &["-c", check]).is_some()
            }
            Tool::Node => {
                let major = says("node", &["-p", "process.versions.node.split('.')[0]"]);
                major.is_some_and(|major| major.parse().is_ok_and(|major: u32| major >= 20))
                    && says("npm", &["--version"]).is_some()
            }
            // Asked outside a module, so that it names the installed one and fetches none.
            Tool::Go => says("go", &["env", "GOVERSION"]).is_some_and(|version| {
                let minor = version.strip_prefix("go1.").and_then(|rest| rest.split('.').next());
                minor.is_some_and(|minor| minor.parse().is_ok_and(|minor: u32| minor >= 21))
            }),
        }
    }

    /// Whether its test can run; says on stderr if it is skipped.
    pub fn present(self) -> bool {
        if self.works() {
            return true;
        }
        skipped(self.missing());
        false
    }
}

/// Says on stderr that something is not tested, and why.
pub fn skipped(missing: &str) {
    let required = std::env::var("FOREBAY_CLIENTS_REQUIRED").is_ok_and(|value| value == "1");
    assert!(!required, "FOREBAY_CLIENTS_REQUIRED=1, but {missing}");
    say(&format!("SKIPPED, NOT TESTED: {missing}"));
}

/// Not by eprintln!, which the test runner keeps to itself when a test passes.
pub fn say(text: &str) {
    std::io::stderr().write_all(format!("\n{text}\n\n").as_bytes()).expect("stderr can be written");
}

/// What a client's process did.
pub struct Outcome {
    /// None: it hung and was ended.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
    command: String,
}

impl Outcome {
    pub fn expect_success(&self, server: &Server) {
        let ended = match self.status {
            Some(status) if status.success() => return,
            Some(status) => status.to_string(),
            None => "it hung".to_owned(),
        };
        let Outcome { stdout, stderr, command, .. } = self;
        panic!("{command}: {ended}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n--- server\n{}", server.log());
    }
}

/// Runs a process with `input` on its standard input, to its end or until it surely hangs.
pub fn run(command: &mut Command, input: &str) -> Outcome {
    let file = || tempfile::tempfile().expect("a temporary file");
    let (mut given, mut stdout, mut stderr) = (file(), file(), file());
    given.write_all(input.as_bytes()).and_then(|()| given.rewind()).expect("the input can be kept");
    let share = |file: &File| file.try_clone().expect("a file can be shared");
    // A group of its own, so that what it starts ends with it.
    command.process_group(0).stdin(given).stdout(share(&stdout)).stderr(share(&stderr));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let status = wait(&mut child, PATIENCE);
    if status.is_none() {
        let group = child.id().to_string();
        let _ = Command::new("sh").args(["-c", "kill -s KILL -- \"-$0\"", &group]).status();
        let _ = child.wait();
    }
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("the output can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Outcome { status, stdout: read(&mut stdout), stderr: read(&mut stderr), command: format!("{command:?}") }
}

/// A client's folder in the repository.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients").join(name)
}

/// A client's folder under `target/clients`, with `install` run on it unless it has succeeded before on the same files.
/// Locked during that, against tests in other threads and processes.
pub fn installed(name: &str, files: &[PathBuf], install: impl FnOnce(&Path)) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("clients");
    fs::create_dir_all(&all).expect("target/clients can be made");
    let lock = File::create(all.join(format!("{name}.lock"))).expect("the lock file can be made");
    lock.lock().expect("the lock file can be locked");
    let read = |file: &PathBuf| fs::read_to_string(file).expect("the client's list of libraries");
    let wanted: String = files.iter().map(read).collect();
    let (folder, stamp) = (all.join(name), all.join(format!("{name}.installed")));
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        // What a stopped installation has left is of no use.
        let _ = fs::remove_file(&stamp);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the client's folder can be made");
        install(&folder);
        fs::write(&stamp, wanted).expect("the stamp can be written");
    }
    folder
}

/// Runs what an installation cannot do without.
pub fn must(command: &mut Command) {
    let outcome = run(command, "");
    let success = outcome.status.is_some_and(|status| status.success());
    assert!(success, "{}\n{}\n{}", outcome.command, outcome.stdout, outcome.stderr);
}

/// The Python of a virtual environment with redis-py in it.
pub fn python() -> Option<PathBuf> {
    Tool::Python.present().then(|| {
        let folder = installed("python", &[source("python").join("requirements.txt")], |folder| {
            must(Command::new("python3").args(["-m", "venv"]).arg(folder));
            let requirements = source("python").join("requirements.txt");
            let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
            must(Command::new(folder.join("bin/python")).args(quiet).arg(requirements));
        });
        folder.join("bin/python")
    })
}

/// A folder with the scripts for Node.js and the libraries that they import.
pub fn node() -> Option<PathBuf> {
    Tool::Node.present().then(|| {
        let copy = |folder: &Path, name: &str| {
            fs::copy(source("node").join(name), folder.join(name)).expect("a script can be copied");
        };
        let lists = ["package.json", "package-lock.json"].map(|name| source("node").join(name));
        let folder = installed("node", &lists, |folder| {
            for name in ["package.json", "package-lock.json", ".npmrc"] {
                copy(folder, name);
            }
            must(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder));
        });
        ["common.js"].iter().chain(NODE_TESTS).for_each(|name| copy(&folder, name));
        folder
    })
}

/// The tests in Go, built.
pub fn go() -> Option<PathBuf> {
    Tool::Go.present().then(|| {
        let folder = installed("go", &[], |_| {});
        let tests = folder.join("clients.test");
        must(Command::new("go").args(["test", "-c", "-o"]).arg(&tests).arg(".").current_dir(source("go")));
        tests
    })
}
