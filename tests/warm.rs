//! `--warm-file` through the real binary: a restart after which clients miss nothing, a SIGKILL, and files that can't
//! be used. In front of PostgreSQL: `postgres/warm.rs`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;

const KEYS: usize = 600;
const PATIENCE: Duration = Duration::from_secs(20);

/// What the log says when all is read again.
const WARM: &str = "what was cached before is read again from the store";

fn name(number: usize) -> String {
    format!("key:{number}")
}

fn start(file: &Path, more: &[&str]) -> Forebay {
    let fixed = ["--log-level", "info", "--warm-file", file.to_str().expect("UTF-8")];
    Forebay::start("embedded", &[&fixed[..], more].concat())
}

fn fill(forebay: &Forebay) {
    let requests: Vec<Vec<String>> = (0..KEYS).map(|n| vec!["SET".into(), name(n), format!("value {n}")]).collect();
    let replies = Connection::new(forebay.address).pipeline(&requests);
    assert!(replies.iter().all(|reply| *reply == Reply::Simple("OK".into())));
}

fn read(forebay: &Forebay) {
    let requests: Vec<Vec<String>> = (0..KEYS).map(|n| vec!["GET".into(), name(n)]).collect();
    let replies = Connection::new(forebay.address).pipeline(&requests);
    for (number, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply, Reply::bulk(format!("value {number}").as_bytes()));
    }
}

/// Waits until the log says this so often; its lines that do.
fn says(forebay: &Forebay, what: &str, times: usize) -> Vec<String> {
    let began = Instant::now();
    loop {
        let lines: Vec<String> = forebay.log().lines().filter(|line| line.contains(what)).map(str::to_owned).collect();
        if lines.len() >= times {
            return lines;
        }
        assert!(began.elapsed() < PATIENCE, "the log does not say {what:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number of a line of the log.
fn figure(line: &str, name: &str) -> usize {
    let after = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("no {name} in {line}")).1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn clients_miss_nothing_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut forebay = start(&folder.path().join("warm"), &[]);
    says(&forebay, "no cached keys are known from before", 1);
    fill(&forebay);
    for restart in 1..=2 {
        forebay.terminate();
        forebay.restart();
        let line = says(&forebay, WARM, restart).pop().expect("a line");
        assert_eq!((figure(&line, "documents"), figure(&line, "keys"), figure(&line, "passed")), (KEYS, KEYS, 0));
        assert!(line.contains("INFO") && line.contains("took_ms="), "{line}");
        assert_eq!((forebay.cache_figure("entries"), forebay.cache_figure("misses")), (KEYS as u64, 0));
        read(&forebay);
        assert_eq!((forebay.cache_figure("hits"), forebay.cache_figure("misses")), (KEYS as u64, 0));
    }
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").flatten().collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file: {names:?}");
}

/// Killed while it writes all the time: the file of the last time that was done is there, whole.
#[test]
fn a_kill_leaves_the_last_file_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("warm");
    let mut forebay = start(&file, &["--warm-every-ms", "1"]);
    fill(&forebay);
    let written = |least: u64| {
        let began = Instant::now();
        while std::fs::metadata(&file).map_or(0, |found| found.len()) < least {
            assert!(began.elapsed() < PATIENCE, "it is not written");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // All of them are in it.
    written((0..KEYS).map(|number| 6 + name(number).len() as u64).sum());
    for round in 1..=6 {
        // Hits, so that there is something to write.
        for _ in 0..round {
            read(&forebay);
        }
        forebay.kill9();
        forebay.restart();
        let line = says(&forebay, WARM, round).pop().expect("a line");
        assert_eq!(figure(&line, "documents"), KEYS, "{line}");
        read(&forebay);
        assert_eq!(forebay.cache_figure("misses"), 0);
    }
    assert!(!forebay.log().contains("not all of what was cached before is known"));
}

/// A file with less in it than there was, or something else: the server serves, and says what it does not know.
#[test]
fn a_damaged_file_costs_hits_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("warm");
    let mut forebay = start(&file, &[]);
    fill(&forebay);
    forebay.terminate();
    let whole = std::fs::read(&file).expect("it is written");
    std::fs::write(&file, &whole[..10]).expect("there is a disk");
    forebay.restart();
    let line = says(&forebay, "what was cached before is not known", 1).remove(0);
    assert!(line.contains("WARN") && line.contains("it names no cached keys"), "{line}");
    read(&forebay);
    forebay.terminate();
    let (mut changed, middle) = (whole.clone(), whole.len() / 2);
    changed[middle] ^= 4;
    for (bytes, what) in [(&whole[..middle], "it is cut"), (&changed[..], "it is changed")] {
        std::fs::write(&file, bytes).expect("there is a disk");
        forebay.restart();
        let line = says(&forebay, what, 1).remove(0);
        assert!(line.contains("WARN") && line.contains(&format!("of {KEYS} keys are missing")), "{line}");
        read(&forebay);
        assert_eq!(forebay.cache_figure("entries"), KEYS as u64);
        forebay.terminate();
    }
    // What is known by now is there again.
    forebay.restart();
    assert_eq!(figure(&says(&forebay, WARM, 3).remove(2), "documents"), KEYS);
}

/// A cache that is smaller, and one by another policy, at the next start.
#[test]
fn another_server_takes_what_it_can() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, store) = (folder.path().join("warm"), folder.path().join("store.redb"));
    let (file, store) = (file.to_str().expect("UTF-8"), format!("embedded:{}", store.display()));
    let start = |more: &[&str]| {
        let fixed = ["--log-level", "info", "--warm-file", file];
        Forebay::start(&store, &[&fixed[..], more].concat())
    };
    let mut first = start(&["--memory", "64MiB"]);
    let requests: Vec<Vec<String>> = (0..3000).map(|n| vec!["SET".into(), name(n), "x".repeat(2000)]).collect();
    Connection::new(first.address).pipeline(&requests);
    first.terminate();
    let mut second = start(&["--memory", "4MiB"]);
    let line = says(&second, WARM, 1).remove(0);
    assert!(line.contains("full=true") && (500..2500).contains(&figure(&line, "documents")), "{line}");
    second.terminate();
    let third = start(&["--memory", "64MiB", "--policy", "lru"]);
    let line = says(&third, WARM, 1).remove(0);
    assert!(line.contains("in_order=false") && line.contains("full=false"), "{line}");
    assert_eq!(figure(&line, "documents"), figure(&line, "keys"));
}

/// What is no file, or where none can be made: that is said before anything is served, and the store is not touched.
#[test]
fn places_that_can_not_be_used_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let named = |name: &str| folder.path().join(name);
    std::fs::create_dir(named("folder")).expect("there is a disk");
    let made = Command::new("mkfifo").arg(named("pipe")).status().expect("a program of every system");
    assert!(made.success());
    std::fs::write(named("file"), "not of forebay").expect("there is a disk");
    std::os::unix::fs::symlink(named("file"), named("link")).expect("there is a disk");
    let refused = |file: PathBuf, why: &str| {
        let store = format!("embedded:{}", named("store.redb").display());
        let mut command = forebay_command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", &store, "--warm-file"]);
        let output = command.arg(&file).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("as the warm file") && said.contains(why) && said.contains("--warm-file"), "{said}");
        assert!(!named("store.redb").exists(), "the store is not made");
    };
    refused(named("folder"), "no regular file");
    refused(named("pipe"), "no regular file");
    refused(named("link"), "symbolic link");
    refused(named("file"), "a file of another kind");
    assert_eq!(std::fs::read(named("file")).expect("it is there"), b"not of forebay");
    refused(named("no/such"), "No such file");
    refused(named("file/below"), "Not a directory");
}
