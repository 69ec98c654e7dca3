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

/// A restart waits at most so long for its port. Another connection may have the port for a moment.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// `forebay serve` with a folder of its own; killed and removed when dropped. What it wrote to stderr is kept over
/// restarts and shown when the test fails.
pub struct Forebay {
    /// Where it listens; another port after each start.
    pub address: SocketAddr,
    disk: Option<Disk>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: tempfile::TempDir,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

/// The binary, without what this machine's environment sets.
pub fn forebay_command() -> Command {
    without_settings(Command::new(env!("CARGO_BIN_EXE_forebay")))
}

fn without_settings(mut command: Command) -> Command {
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

/// The binary, started by a shell script that ends with `exec "$@"` and may mount what it likes: nobody else sees it.
pub fn forebay_command_in(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_forebay")]);
    without_settings(command)
}

/// A small disk of its own for servers one after the other; it is gone when this value is.
pub struct Disk {
    /// Keeps the mount alive.
    holder: Child,
    folder: tempfile::TempDir,
}

impl Disk {
    /// A disk of so many KiB; `None`, said on stderr, where mounting is not allowed.
    pub fn mount(disk_kib: u64) -> Option<Disk> {
        if !can_mount() {
            eprintln!("no disk that fills: `unshare -rm mount` is not allowed here");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().to_str().expect("UTF-8");
        let script = format!("mount -t tmpfs -o size={disk_kib}k none '{path}' && echo mounted && exec sleep 1000000");
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("unshare runs");
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("UTF-8");
        assert_eq!(line, "mounted\n");
        Some(Disk { holder, folder })
    }

    /// Runs what follows where the disk is mounted.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command.args(["-t", &holder, "-U", "-m", "--preserve-credentials", env!("CARGO_BIN_EXE_forebay")]);
        without_settings(command)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Whether this user may mount for a process of its own.
pub fn can_mount() -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mount = ["-rm", "mount", "-t", "tmpfs", "-o", "size=64k", "none"];
    let mounted = Command::new("unshare").args(mount).arg(folder.path()).stderr(Stdio::null()).status();
    mounted.is_ok_and(|status| status.success())
}

/// Where a server is started.
struct Place {
    folder: tempfile::TempDir,
    disk: Option<Disk>,
    environment: Vec<(String, String)>,
}

impl Place {
    fn new(disk: Option<Disk>) -> Place {
        Place { folder: tempfile::tempdir().expect("a temporary folder"), disk, environment: Vec::new() }
    }
}

impl Forebay {
    /// Starts it with these arguments after `serve`, and waits until it answers. `store` is `memory` or `embedded`.
    pub fn start(store: &str, arguments: &[&str]) -> Forebay {
        Forebay::start_with(Place::new(None), store, arguments)
    }

    /// Likewise in an environment that says more.
    pub fn start_in(environment: &[(String, String)], store: &str, arguments: &[&str]) -> Forebay {
        Forebay::start_with(Place { environment: environment.to_vec(), ..Place::new(None) }, store, arguments)
    }

    /// Likewise with the journal on a small disk.
    pub fn start_with_journal_on(disk: Disk, store: &str, arguments: &[&str]) -> Forebay {
        Forebay::start_with(Place::new(Some(disk)), store, arguments)
    }

    /// Likewise with the embedded store on a small disk.
    pub fn start_on(disk: Disk, arguments: &[&str]) -> Forebay {
        let store = format!("embedded:{}", disk.folder.path().join("store.redb").display());
        Forebay::start_with(Place::new(Some(disk)), &store, arguments)
    }

    fn start_with(place: Place, store: &str, arguments: &[&str]) -> Forebay {
        let Place { folder, disk, environment } = place;
        let embedded = format!("embedded:{}", folder.path().join("store.redb").display());
        let store = if store == "embedded" { &embedded } else { store };
        let mut fixed = vec!["serve", "--listen", "127.0.0.1:0", "--store", store];
        if !arguments.contains(&"--http") {
            fixed.extend(["--http", "off"]);
        }
        if !arguments.contains(&"--log-level") {
            fixed.extend(["--log-level", "warn"]);
        }
        let journal = disk.as_ref().map_or(&folder, |disk| &disk.folder).path().join("journal").display().to_string();
        if store.starts_with("postgres:") && !arguments.contains(&"--journal") {
            fixed.extend(["--journal", &journal]);
        }
        let arguments = fixed.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        let nowhere: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut forebay = Forebay { address: nowhere, disk, arguments, environment, folder, running: None };
        forebay.restart();
        forebay
    }

    /// Starts it on what the last one left, killing that first if it still runs.
    pub fn restart(&mut self) {
        let command = self.disk.as_ref().map_or_else(forebay_command, Disk::enter);
        self.restart_as(command);
    }

    /// Likewise as if the machine itself had been started again: a loss of power is known by that.
    pub fn restart_in_another_boot(&mut self) {
        let boot = self.folder.path().join("boot");
        std::fs::write(&boot, "01234567-89ab-cdef-0123-456789abcdef\n").expect("a file");
        let script = format!("mount --bind '{}' /proc/sys/kernel/random/boot_id && exec \"$@\"", boot.display());
        self.restart_as(forebay_command_in(&script));
    }

    fn restart_as(&mut self, mut command: Command) {
        self.kill9();
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command.stdout(Stdio::piped());
        let mut spawn = |log| {
            let mut child = command.stderr(log).spawn().expect("the binary runs");
            let banner = BufReader::new(child.stdout.take().expect("it is piped"));
            (child, banner)
        };
        let (mut child, mut banner) = spawn(self.log_file());
        let (mut line, began) = (String::new(), Instant::now());
        let address = loop {
            line.clear();
            if banner.read_line(&mut line).expect("the banner is UTF-8") == 0 {
                let ended = child.wait();
                // While it was down, another connection may have been given its port.
                let taken = self.log().ends_with("or none with --http off\n") && began.elapsed() < PORT_WAIT;
                assert!(taken, "forebay ended before it served: {ended:?}");
                std::thread::sleep(Duration::from_millis(100));
                (child, banner) = spawn(self.log_file());
                continue;
            }
            if let Some(rest) = line.strip_prefix("redis ") {
                break rest.split_whitespace().next().expect("an address").parse().expect("an address");
            }
        };
        self.address = address;
        self.running = Some((child, banner));
        assert_eq!(Connection::new(address).call(&["PING"]), Reply::Simple("PONG".into()));
    }

    /// Sends it a signal by its name.
    pub fn signal(&self, name: &str) {
        signal(&self.running.as_ref().expect("it runs").0, name);
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

    /// The process.
    pub fn id(&self) -> u32 {
        self.running.as_ref().expect("it runs").0.id()
    }

    /// A file of its folder as the process sees it.
    pub fn file(&self, name: &str) -> PathBuf {
        let folder = self.disk.as_ref().map_or(&self.folder, |disk| &disk.folder);
        let path = folder.path().join(name);
        let path = path.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.id())).join(path)
    }

    /// Where its journal is; whether it runs or not.
    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// Bytes of memory that it has.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its resident size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") * 1024
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
