//! A real PostgreSQL in a temporary folder, on a free port of 127.0.0.1, started and ended by the test.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The superuser of the clusters that tests make.
pub const USER: &str = "app";

/// A cluster of databases; it is stopped and removed when dropped.
pub struct Server {
    folder: tempfile::TempDir,
    port: u16,
    databases: AtomicUsize,
    settings: &'static str,
    environment: Vec<(String, String)>,
}

/// What tests want: a crash of the machine is not among their faults.
const SETTINGS: &str = "-c fsync=off -c shared_buffers=32MB";

/// The same, with the log as it is by default.
const UNDECODABLE: &str = "-c fsync=off -c shared_buffers=32MB -c wal_level=replica";

/// What measurements want: durable as by default, and memory for the tables.
const MEASURED: &str = "-c shared_buffers=512MB -c max_wal_size=8GB -c checkpoint_timeout=1h";

/// How to stop it.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Ends sessions and writes everything.
    Fast,
    /// As a crash.
    Immediate,
}

/// The programs of PostgreSQL, which distributions keep out of the PATH.
fn programs() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql").map_or_else(
        |_| Vec::new(),
        |versions| {
            let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
            let paths = versions.flatten().map(|entry| entry.path());
            paths.filter_map(|path| Some((number(&path)?, path.join("bin")))).collect()
        },
    );
    found.retain(|(_, path)| path.join("pg_ctl").exists());
    found.sort();
    match found.pop() {
        Some((_, path)) => path,
        None => PathBuf::new(),
    }
}

/// Runs a program of PostgreSQL, which refuses root: then as the user that its package has made.
fn run(program: &str, arguments: &[&str]) -> Output {
    run_in(&[], program, arguments)
}

fn run_in(environment: &[(String, String)], program: &str, arguments: &[&str]) -> Output {
    let path = programs().join(program);
    let mut command = match user() {
        Some(_) => {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(&path);
            command
        }
        None => Command::new(&path),
    };
    // Not in the folder of the test, which the other user may not enter.
    command.current_dir("/").args(arguments).envs(environment.iter().cloned());
    command.output().unwrap_or_else(|error| panic!("{}: {error}; run make setup", path.display()))
}

fn must(program: &str, arguments: &[&str]) -> Output {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn initialize(data: &str) {
    must("initdb", &["-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8", "--locale=C", "-D", data]);
}

/// Copies a folder of `base`, with owners and modes.
fn copy(from: &str, to: &str, base: &Path) {
    let status = Command::new("cp").args(["-a", from, to]).current_dir(base).status();
    assert!(status.expect("cp runs").success(), "{from} can't be copied to {to}");
}

/// An empty cluster, made once for all tests: to copy one takes a third of the time. None outside of tests.
fn template() -> Option<PathBuf> {
    let kept = Path::new(option_env!("CARGO_TARGET_TMPDIR")?);
    let version = programs().parent()?.file_name()?.to_str()?.to_owned();
    let template = kept.join(format!("postgresql-{version}"));
    if !template.exists() {
        let folder = temporary();
        let data = folder.path().join("data").display().to_string();
        initialize(&data);
        // In one step, whoever else makes one: then that is as good.
        let own = tempfile::tempdir_in(kept).expect("a temporary folder");
        copy(&data, &own.path().join("data").display().to_string(), Path::new("/"));
        if let Err(error) = std::fs::rename(own.path().join("data"), &template) {
            assert!(template.exists(), "{}: {error}", template.display());
        }
    }
    Some(template)
}

/// A folder that PostgreSQL may write to.
fn temporary() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("forebay-postgres").tempdir().expect("a temporary folder");
    if let Some((user, group)) = user() {
        chown(folder.path(), Some(user), Some(group)).expect("root may give a folder away");
    }
    folder
}

/// User and group of PostgreSQL's package, if this is root.
pub fn user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("id runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    match id(&["-u"]) {
        Some(0) => Some((id(&["-u", "postgres"]).expect("user postgres: run make setup"), id(&["-g", "postgres"])?)),
        _ => None,
    }
}

impl Server {
    /// Makes a cluster and starts it.
    pub fn start() -> Server {
        Server::start_in(&[])
    }

    /// Likewise in an environment that says more.
    pub fn start_in(environment: &[(String, String)]) -> Server {
        Server::start_with(SETTINGS, environment)
    }

    /// The same, for measurements.
    pub fn start_measured() -> Server {
        Server::start_with(MEASURED, &[])
    }

    /// Likewise for tests, with a log that says too little to be decoded.
    pub fn start_without_decoding() -> Server {
        Server::start_with(UNDECODABLE, &[])
    }

    fn start_with(settings: &'static str, environment: &[(String, String)]) -> Server {
        let folder = temporary();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let environment = environment.to_vec();
        let server = Server { folder, port, databases: AtomicUsize::new(0), settings, environment };
        match template() {
            Some(template) => copy(&template.display().to_string(), &server.data(), Path::new("/")),
            None => initialize(&server.data()),
        }
        server.start_again();
        server
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// Starts a stopped one.
    pub fn start_again(&self) {
        self.start_again_with("");
    }

    /// Likewise with settings that go before those of its first start.
    pub fn start_again_with(&self, more: &str) {
        let log = self.folder.path().join("log").display().to_string();
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 \
             -c wal_level=logical {} {more}",
            self.port, self.settings
        );
        let data = self.data();
        let start = ["-w", "-D", &data, "-l", &log, "-o", &options, "start"];
        // After SIGKILL its memory is in use until the last process has noticed.
        for _ in 0..40 {
            if run_in(&self.environment, "pg_ctl", &start).status.success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        must("pg_ctl", &start);
    }

    /// Stops it.
    pub fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        must("pg_ctl", &["-w", "-D", &self.data(), "-m", mode, "stop"]);
    }

    /// Copies the files of a stopped one, for [`Server::restore`].
    pub fn back_up(&self) {
        copy("data", "backup", self.folder.path());
    }

    /// Puts the files of the backup in the place of a stopped one's.
    pub fn restore(&self) {
        std::fs::remove_dir_all(self.data()).expect("the folder can be removed");
        copy("backup", "data", self.folder.path());
    }

    /// Has a standby follow it from now on, on a port of its own, until [`Server::stop_standby`].
    pub fn start_standby(&self) {
        let (port, data) = (self.port.to_string(), self.standby());
        let copy = ["-h", "127.0.0.1", "-p", &port, "-U", USER, "-R", "-X", "stream", "-c", "fast", "--no-sync"];
        must("pg_basebackup", &[&copy[..], &["-D", &data]].concat());
        let own = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let log = self.folder.path().join("standby.log").display().to_string();
        let options = format!(
            "-p {own} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 \
             -c wal_level=logical {}",
            self.settings
        );
        must("pg_ctl", &["-w", "-D", &data, "-l", &log, "-o", &options, "start"]);
    }

    /// Waits until the standby has all that was committed.
    pub fn await_standby(&self) {
        let caught_up = "SELECT count(*) FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_flush_lsn()";
        while self.sql("postgres", caught_up) != "1" {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The standby follows it no longer.
    pub fn stop_standby(&self) {
        must("pg_ctl", &["-w", "-D", &self.standby(), "-m", "fast", "stop"]);
    }

    /// Has the standby, which was stopped, take the place of this one, which was stopped for ever.
    pub fn fail_over(&self) {
        std::fs::remove_dir_all(self.data()).expect("the folder can be removed");
        std::fs::rename(self.standby(), self.data()).expect("a folder can be renamed");
        self.start_again();
        self.promote();
    }

    fn standby(&self) -> String {
        self.folder.path().join("standby").display().to_string()
    }

    /// Starts a stopped one as a standby, which answers reads and takes no writes until it is promoted.
    pub fn start_as_standby(&self) {
        let signal = self.folder.path().join("data/standby.signal");
        std::fs::write(&signal, "").expect("the folder can be written");
        if let Some((user, group)) = user() {
            chown(&signal, Some(user), Some(group)).expect("root may give a file away");
        }
        self.start_again();
    }

    /// Has a standby take writes.
    pub fn promote(&self) {
        must("pg_ctl", &["-w", "-D", &self.data(), "promote"]);
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process of the postmaster.
    pub fn postmaster(&self) -> u32 {
        let file = self.folder.path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).expect("postmaster.pid");
        text.lines().next().and_then(|line| line.parse().ok()).expect("its first line is the process")
    }

    /// The processes of the postmaster and all of its children.
    pub fn processes(&self) -> Vec<u32> {
        let postmaster = self.postmaster();
        let output = Command::new("pgrep").args(["-P", &postmaster.to_string()]).output().expect("pgrep runs");
        let children = String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.parse().ok()).collect();
        [vec![postmaster], children].concat()
    }

    /// Has it use TLS with this certificate and key, from its next start on.
    pub fn use_tls(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.folder.path().join("data").join(name);
            std::fs::write(&path, text).expect("the folder can be written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
            if let Some((user, group)) = user() {
                chown(&path, Some(user), Some(group)).expect("root may give a file away");
            }
        }
        self.sql("postgres", "ALTER SYSTEM SET ssl = on");
    }

    /// Has it ask `role` for a certificate that `roots` vouch for, from now on; TLS is in use.
    pub fn ask_for_certificate(&self, role: &str, roots: &str) {
        let folder = self.folder.path().join("data");
        std::fs::write(folder.join("roots.crt"), roots).expect("it can be written");
        if let Some((user, group)) = user() {
            chown(folder.join("roots.crt"), Some(user), Some(group)).expect("root may give a file away");
        }
        let path = folder.join("pg_hba.conf");
        let others = std::fs::read_to_string(&path).expect("pg_hba.conf");
        let text = format!("hostssl all {role} 127.0.0.1/32 cert\n{others}");
        std::fs::write(&path, text).expect("it can be written");
        self.sql("postgres", "ALTER SYSTEM SET ssl_ca_file = 'roots.crt'");
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Has it ask `role` for its password from now on.
    pub fn ask_for_password(&self, role: &str) {
        let path = self.folder.path().join("data/pg_hba.conf");
        let others = std::fs::read_to_string(&path).expect("pg_hba.conf");
        let text = format!("host all {role} 127.0.0.1/32 scram-sha-256\n{others}");
        std::fs::write(&path, text).expect("it can be written");
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Sends `signal` to `processes`.
    pub fn signal(&self, signal: &str, processes: &[u32]) {
        let numbers: Vec<String> = processes.iter().map(u32::to_string).collect();
        // Some may have ended by themselves.
        let _ = Command::new("kill").arg(format!("-{signal}")).args(numbers).stderr(Stdio::null()).status();
    }

    /// A new, empty database.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Its URL.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The same, with a network in between.
    pub fn url_through(&self, database: &str, network: SocketAddr) -> String {
        format!("postgres://{USER}@{network}/{database}")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Has `locks` held in a transaction of another program as long as `meanwhile` takes.
    pub fn while_locked<T>(&self, database: &str, locks: &str, meanwhile: impl FnOnce() -> T) -> T {
        let script = format!("BEGIN; {locks}; SELECT pg_sleep(600)");
        std::thread::scope(|scope| {
            scope.spawn(|| self.try_sql(database, &script).expect_err("it is ended"));
            let holds = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'BEGIN; %' AND wait_event = 'PgSleep'";
            while self.sql(database, holds) != "1" {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ended = Locked { server: self, database };
            meanwhile()
        })
    }

    /// What `statements` answer: rows as lines, columns between `|`.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The same, or what is wrong.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        psql(&self.url(database), statements)
    }
}

/// Ends the holder of locks, also if a test panics before.
struct Locked<'a> {
    server: &'a Server,
    database: &'a str,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; %' AND wait_event = \
            'PgSleep'";
        let _ = self.server.try_sql(self.database, end);
    }
}

/// What `statements` answer at `url`.
pub fn psql(url: &str, statements: &str) -> Result<String, String> {
    let output = run("psql", &["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statements]);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.folder.path().join("data/postmaster.pid").exists() {
            // A test may have left it asleep.
            let processes = self.processes();
            self.signal("CONT", &processes);
            let _ = run("pg_ctl", &["-w", "-D", &self.data(), "-m", "immediate", "stop"]);
        }
    }
}
