//! The command line through the real binary: help, settings, refusals with their exit codes, start and stop.

mod common;

#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/refused.rs"]
mod refused;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use common::Connection;
use common::process::{Forebay, forebay_command, signal};
use forebay_protocol::Reply;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The binary, in `folder`, without what this machine's environment sets.
fn forebay(folder: &Path, line: &[&str]) -> Command {
    let mut command = forebay_command();
    command.current_dir(folder).args(line);
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("the binary runs")
}

fn stdout(line: &[&str]) -> String {
    let output = output(forebay(folder().path(), line));
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What a refused start says on stderr: one line, exit code 2.
fn refusal(command: Command) -> String {
    let output = output(command);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("forebay: ")).collect::<Vec<_>>();
    assert_eq!((lines.len(), text.lines().count()), (1, 1), "one line: {text}");
    lines[0]["forebay: ".len()..].to_string()
}

/// A server that runs; killed when dropped.
struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    banner: String,
}

impl Serving {
    /// Starts it and reads the banner, whose last line says what to try.
    fn start(mut command: Command) -> Serving {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut banner = String::new();
        while !banner.contains("\ntry ") {
            let read = stdout.read_line(&mut banner).expect("UTF-8");
            if read == 0 {
                let mut text = String::new();
                let _ = child.stderr.take().expect("piped").read_to_string(&mut text);
                panic!("ended without serving: {text}");
            }
        }
        let redis = banner.lines().find_map(|line| line.strip_prefix("redis ")).expect("a line for redis");
        let address = redis.split_whitespace().next().expect("an address").to_string();
        Serving { child, stdout, address, banner }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("it listens")
    }

    /// Sends an inline command and reads one line of the reply.
    fn ask(&self, command: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("written");
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("a reply");
        reply.trim_end().to_string()
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for the end: exit code, if it was not a signal, and what stderr said.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
        (self.child.wait().expect("ends").code(), text)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const MEMORY: &[&str] = &["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", "off"];

/// What a client keeps of one life of a memory store must not pass for what the next one holds.
#[test]
fn each_life_of_a_memory_store_has_its_versions() {
    let lease = |forebay: &Forebay| {
        let mut connection = Connection::new(forebay.address);
        connection.call(&["SET", "a", "1"]);
        let Reply::Array(entries) = connection.call(&["LEASE", "GET", "1", "a"]) else { panic!("no list") };
        let Some(Reply::Array(entry)) = entries.into_iter().next() else { panic!("no entry") };
        let Reply::Bulk(version) = &entry[2] else { panic!("no version") };
        (String::from_utf8(version.to_vec()).expect("UTF-8"), connection)
    };
    let (first, _) = lease(&Forebay::start("memory", &[]));
    let second = Forebay::start("memory", &[]);
    let (now, mut connection) = lease(&second);
    assert_ne!(first, now);
    connection.call(&["LEASE", "CHECK", "a", &first]);
    connection.call(&["MULTI"]);
    assert_eq!(connection.call(&["EXEC"]), Reply::Error(format!("TXSTALE a {now}").into()));
}

/// The largest number that each setting takes, as its refusal of a larger one says; with the memory that they need.
fn largest() -> Vec<(String, String)> {
    let text = stdout(&["config"]);
    let number = |line: &str| {
        let (name, value) = line.split_once(" = ")?;
        let value = value.trim_start_matches('"');
        let numeric = value.starts_with(|first: char| first.is_ascii_digit()) && !value.contains('.');
        let refused = || refusal(forebay(folder().path(), &["config", &format!("--{name}"), "18446744073709551615"]));
        numeric.then(|| {
            let why = refused();
            let most = why.split(" to ").nth(1).unwrap_or_else(|| panic!("no range: {why}"));
            (name.to_owned(), most.split([',', ' ']).next().expect("a word").to_owned())
        })
    };
    text.lines().filter_map(number).collect()
}

/// No number that a setting takes makes the start or a command panic, hang or ask for all the memory that there is.
#[test]
fn every_setting_serves_at_its_largest_number() {
    let largest = largest();
    assert!(largest.len() > 50, "{largest:?}");
    // How short a time is has to be below how long another is; and the memory is not there.
    let beside = ["store-timeout-ms", "txn-yield-ms", "lock-wait-ms-min", "breaker-pause-ms", "memory", "partitions"];
    let given = largest.into_iter().filter(|(name, _)| !beside.contains(&name.as_str()));
    let mut line: Vec<String> = MEMORY.iter().map(|&word| word.to_owned()).collect();
    line.extend(given.flat_map(|(name, most)| [format!("--{name}"), most]));
    line.extend(["--partitions", "65536", "--memory", "4GiB"].map(str::to_owned));
    let serving = Serving::start(forebay(folder().path(), &line.iter().map(String::as_str).collect::<Vec<_>>()));
    for (command, reply) in [("SET a 1", "+OK"), ("GET a", "$1"), ("LEASE GET 1 a", "*1"), ("TXN BEGIN", "+OK")] {
        assert_eq!(serving.ask(command), reply, "{command}");
    }
    serving.signal("TERM");
    let (code, log) = serving.ended();
    assert!(code == Some(0) && !log.contains("panicked"), "{code:?}: {log}");
}

/// What is quoted in an error does nothing to the terminal, wherever it was typed.
#[test]
fn control_characters_are_shown_as_escapes() {
    let folder = folder();
    let evil = "\x1b[2J\u{9b}31m\x07";
    fs::write(folder.path().join("evil.toml"), "memory = \"\\u001B[2J\"\n").expect("written");
    fs::write(folder.path().join("key.toml"), "\"\\u001B[2J\" = 1\n").expect("written");
    let memory = format!("--memory={evil}");
    let lines = [
        &["config", &memory][..],
        &["config", "--config", "evil.toml"],
        &["config", "--config", "key.toml"],
        &["sim", evil],
        &["sim", "a.fbt", "--threads", evil],
        &["serve", evil],
        &[evil],
    ];
    for line in lines {
        let output = output(forebay(folder.path(), line));
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text:?}");
        assert!(!text.contains(|shown: char| shown.is_control() && shown != '\n'), "{line:?}: {text:?}");
        assert!(!text.is_empty(), "{line:?}");
    }
}

/// A setting that is true or false takes its value in any form, and its name alone is true.
#[test]
fn a_switch_takes_its_value_in_any_form() {
    for (line, value) in [
        (&["--start-in-failed"][..], "true"),
        (&["--start-in-failed", "true"], "true"),
        (&["--start-in-failed", "false"], "false"),
        (&["--start-in-failed=false"], "false"),
        (&["--start-in-failed", "--measure-thr"], "true"),
    ] {
        let text = stdout(&[&["config"], line].concat());
        assert!(text.contains(&format!("\nstart-in-failed = {value}")), "{line:?}: {text}");
    }
    let wrong = refusal(forebay(folder().path(), &["config", "--start-in-failed", "yes"]));
    assert_eq!(wrong, "--start-in-failed 'yes': give true or false");
}

#[test]
fn help_teaches() {
    let help = stdout(&["--help"]);
    for word in ["serve", "demo", "replay", "config", "completions", "Examples:", "redis-cli SET user:1 hello"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = stdout(&["serve", "--help"]);
    for word in
        ["--memory", "[default: 256MiB]", "--txn-idle-ms-max", "Exit codes:", "s3-fifo", "embedded:forebay.redb"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!stdout(&["serve", "-h"]).contains("--txn-idle-ms-max"), "the short help leaves the limits out");
    assert!(!stdout(&["demo", "--help"]).contains("--store"), "the demo chooses its store");
}

#[test]
fn version() {
    assert_eq!(stdout(&["--version"]), concat!("forebay ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        assert!(script.contains("forebay") && script.contains("memory"), "{shell}");
    }
    let output = output(forebay(folder().path(), &["completions", "tcsh"]));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn config_says_where_each_value_came_from() {
    let folder = folder();
    fs::write(folder.path().join("f.toml"), "# comment\npolicy = 'sieve'\nmemory = '1GiB'\nthreads = 7\n")
        .expect("written");
    let mut command = forebay(folder.path(), &["config", "--config", "f.toml", "--memory", "2GiB"]);
    command.env("FOREBAY_THREADS", "3").env("FOREBAY_MEMORY", "3GiB");
    let output = output(command);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let origin = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).expect("listed");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(origin("memory"), "memory = \"2GiB\" # --memory");
    assert_eq!(origin("threads"), "threads = 3 # FOREBAY_THREADS");
    assert_eq!(origin("policy"), "policy = \"sieve\" # f.toml line 2");
    assert_eq!(origin("listen"), "listen = \"127.0.0.1:6379\" # default");
    // What it prints is a configuration with the same values.
    fs::write(folder.path().join("again.toml"), &text).expect("written");
    let mut again = forebay(folder.path(), &["config"]);
    again.env("FOREBAY_CONFIG", "again.toml");
    let again = String::from_utf8(again.output().expect("runs").stdout).expect("UTF-8");
    let values = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| line.split(" #").next().unwrap_or_default().trim_end().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(values(&text), values(&again));
}

#[test]
fn a_taken_port_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let folder = folder();
    for (flag, other, address_of_other) in [("--listen", "--http", "off"), ("--http", "--listen", "127.0.0.1:0")] {
        let line = ["serve", "--store", "embedded:s.redb", other, address_of_other, flag, &address];
        let text = refusal(forebay(folder.path(), &line));
        assert!(text.contains(&address) && text.contains(flag), "{text}");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "a refused start leaves nothing behind");
    }
    let line = ["serve", "--store", "embedded:s.redb", "--listen", "127.0.0.1:0", "--password-file", "missing"];
    refusal(forebay(folder.path(), &line));
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "nor does any other");
}

#[test]
fn a_store_that_cannot_be_opened_is_refused() {
    let folder = folder();
    let serve = ["serve", "--store", "embedded:s.redb", "--listen", "127.0.0.1:0", "--http", "off"];
    let first = Serving::start(forebay(folder.path(), &serve));
    let text = refusal(forebay(folder.path(), &serve));
    assert!(text.contains("s.redb") && text.contains("another process"), "{text}");
    drop(first);
    fs::write(folder.path().join("other.redb"), "not a database ".repeat(1000)).expect("written");
    let line = ["serve", "--store", "embedded:other.redb", "--listen", "127.0.0.1:0", "--http", "off"];
    let text = refusal(forebay(folder.path(), &line));
    assert!(text.contains("other.redb"), "{text}");
    let line = ["serve", "--store", "embedded:no/such/s.redb", "--listen", "127.0.0.1:0", "--http", "off"];
    let text = refusal(forebay(folder.path(), &line));
    assert!(text.contains("make the folder first"), "{text}");
}

#[test]
fn serves_and_stops_at_sigterm() {
    for threads in ["1", "2"] {
        let folder = folder();
        let mut line = MEMORY.to_vec();
        line.extend(["--threads", threads, "--log", "json"]);
        let serving = Serving::start(forebay(folder.path(), &line));
        for word in ["policy s3-fifo", "memory 256MiB", "loopback only", "mode     normal", "redis-cli -p "] {
            assert!(serving.banner.contains(word), "{word}: {}", serving.banner);
        }
        assert_eq!(serving.ask("PING"), "+PONG");
        assert_eq!(serving.ask("SET user:1 hello"), "+OK");
        assert_eq!(serving.ask("GET user:1"), "$5");
        serving.signal("TERM");
        let (code, log) = serving.ended();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
        assert!(log.contains("\"message\":\"stopped\""), "{log}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = folder();
    let serving = Serving::start(forebay(folder.path(), MEMORY));
    // A request of which the rest does not come: the connection is not done.
    let mut waiting = serving.connect();
    waiting.write_all(b"*2\r\n$3\r\nGET\r\n").expect("written");
    serving.signal("INT");
    // The first has arrived once nobody listens any more.
    while TcpStream::connect(&serving.address).is_ok() {}
    serving.signal("INT");
    let (code, log) = serving.ended();
    // Either it was done by then, or it ended as shells report an interrupt.
    assert!(matches!(code, Some(130 | 0)), "{code:?}: {log}");
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = folder();
    let line = ["serve", "--listen", "127.0.0.1:0", "--http", "off"];
    let serving = Serving::start(forebay(folder.path(), &line));
    assert!(serving.banner.contains("forebay.redb"), "{}", serving.banner);
    assert_eq!(serving.ask("SET user:1 hello"), "+OK");
    serving.signal("KILL");
    assert_eq!(serving.ended().0, None);
    let serving = Serving::start(forebay(folder.path(), &line));
    assert_eq!(serving.ask("GET user:1"), "$5");
    assert_eq!(serving.ask("SET user:1 again"), "+OK");
    serving.signal("TERM");
    assert_eq!(serving.ended().0, Some(0));
}

#[test]
fn nobody_reading_the_banner_is_no_reason_to_stop() {
    let folder = folder();
    let mut serving = Serving::start(forebay(folder.path(), MEMORY));
    let mut rest = Vec::new();
    serving.signal("TERM");
    serving.stdout.read_to_end(&mut rest).expect("read");
    assert!(rest.is_empty(), "stdout is for the banner alone: {}", String::from_utf8_lossy(&rest));
}

/// What a GET on the HTTP address answers.
#[test]
fn serves_http_where_the_banner_says() {
    let folder = folder();
    let line = ["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let serving = Serving::start(forebay(folder.path(), &line));
    let address = serving.banner.lines().find_map(|line| line.strip_prefix("browser  http://")).expect("an address");
    let address = address.split_whitespace().next().expect("an address");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert!(common::http(address, path).starts_with("HTTP/1.1 200 "), "{path}");
    }
    let taken = ["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", address];
    let text = refusal(forebay(folder.path(), &taken));
    assert!(text.contains(address) && text.contains("--http off"), "{text}");
}

#[test]
fn the_demo_takes_free_ports_and_leaves_nothing() {
    // Whoever has the usual ports keeps them: this test, if nobody else.
    let _taken = (TcpListener::bind("127.0.0.1:6379"), TcpListener::bind("127.0.0.1:7379"));
    let folder = folder();
    let mut command = forebay(folder.path(), &["demo", "--seconds", "2"]);
    command.env("TMPDIR", folder.path()).env("FOREBAY_STORE", "embedded:precious.redb");
    let output = output(command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let port = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().nth(1).and_then(|address| address.rsplit(':').next()).map(str::to_string)
    };
    assert!(port("redis ").is_some_and(|port| port != "6379"), "{text}");
    assert!(port("browser ").is_some_and(|port| port != "7379"), "{text}");
    assert!(text.contains("visits/s") && text.contains("the books balance"), "{text}");
    let closed = text.lines().find_map(|line| line.strip_prefix("closed ")).expect("a last line");
    assert_ne!(closed.split_whitespace().next(), Some("0"), "something was bought: {text}");
    assert!(!text.contains(" errors"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "the data is gone");
}

#[test]
fn the_demo_stops_at_a_signal() {
    let folder = folder();
    let mut command = forebay(folder.path(), &["demo", "--listen", "127.0.0.1:0", "--http", "off"]);
    command.env("TMPDIR", folder.path());
    let mut serving = Serving::start(command);
    assert_eq!(serving.ask("PING"), "+PONG");
    serving.signal("INT");
    let mut rest = String::new();
    serving.stdout.read_to_string(&mut rest).expect("UTF-8");
    let (code, log) = serving.ended();
    assert_eq!(code, Some(0), "{rest}{log}");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "the data is gone");
}

#[test]
fn replays_a_real_trace() {
    let folder = folder();
    let serving = Serving::start(forebay(folder.path(), MEMORY));
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/cache2k/web07.be32.zst");
    let line = ["replay", trace, "--to", &serving.address, "--preload", "--limit", "2000"];
    let output = output(forebay(folder.path(), &line));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("2000") && text.contains("hit ratio"), "{text}");
    // What was cut can be had, and it is said how.
    let make = ["workload", "smallbank", "--transactions", "30000", "--out", "b.fbt"];
    assert!(forebay(folder.path(), &make).output().expect("runs").status.success());
    let whole = fs::read(folder.path().join("b.fbt")).expect("a trace");
    fs::write(folder.path().join("cut.fbt"), &whole[..100_000]).expect("written");
    let cut =
        forebay(folder.path(), &["replay", "cut.fbt", "--quiet", "--to", &serving.address]).output().expect("runs");
    let said = String::from_utf8_lossy(&cut.stderr);
    assert!(said.contains("cut.fbt: byte 100000") && said.contains("`forebay trace convert` makes"), "{said}");
    let nobody = ["replay", trace, "--to", "127.0.0.1:1"];
    assert_eq!(forebay(folder.path(), &nobody).output().expect("runs").status.code(), Some(1));
}

#[test]
fn what_is_written_leaves_the_cache_if_that_is_wanted() {
    for store in ["memory", "embedded"] {
        for (on_write, cached) in [("update", true), ("invalidate", false)] {
            let forebay = Forebay::start(store, &["--on-write", on_write]);
            let mut client = Connection::new(forebay.address);
            let is_cached = |client: &mut Connection| match client.call(&["CACHE", "EXPLAIN", "k"]) {
                Reply::Bulk(text) => !text.starts_with(b"not cached"),
                other => panic!("{other:?}"),
            };
            for value in ["1", "2"] {
                assert_eq!(client.call(&["SET", "k", value]), Reply::Simple("OK".into()));
                assert_eq!(is_cached(&mut client), cached, "{store} {on_write}");
                assert_eq!(client.call(&["GET", "k"]), Reply::bulk(value.as_bytes()));
                assert!(is_cached(&mut client), "{store} {on_write}");
            }
        }
    }
}

/// The list is on a page: make prints it, and calls no cargo, which this home has as a program that fails.
#[test]
#[cfg(unix)]
fn make_lists_the_figures_of_all_papers() {
    use std::os::unix::fs::PermissionsExt;
    let home = folder();
    let cargo = home.path().join(".cargo/bin/cargo");
    fs::create_dir_all(cargo.parent().expect("a folder")).expect("made");
    fs::write(&cargo, "#!/bin/sh\nexit 1\n").expect("written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a program");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let args = ["--silent", "figure", "NAME=list"];
    let output = Command::new("make").args(args).current_dir(root).env("HOME", home.path()).output().expect("make");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for figure in ["clic-6", "deferred-table-5.5", "detox-8", "kairos-8", "tardis-5"] {
        assert!(said.lines().any(|line| line.split(' ').next() == Some(figure)), "{figure}: {said}");
    }
}
