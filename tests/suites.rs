//! The tests of redis-py and of node-redis themselves, unchanged, against the real program. What they expect of a
//! server is what users of Redis rely on. All tests of the chosen files run. `suites/skips.toml` says why each one
//! that does not pass does not. A test that passes although it stands there is a failure too.
//!
//! They are installed as the clients of `clients.rs` are, in `target/clients`, and skipped for the same reasons.

mod common;
#[path = "suites/install.rs"]
mod install;
#[path = "suites/rules.rs"]
mod rules;
#[path = "clients/server.rs"]
mod server;
#[path = "clients/tools.rs"]
mod tools;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

use common::Connection;
use common::process::Forebay;
use forebay_protocol::Reply;
use rules::{Row, Rules, Verdict};
use tools::{run, say};

const SKIPS: &str = include_str!("suites/skips.toml");

/// The tests wait for nothing on disk, and are many.
const SERVER: &[&str] = &["--durability", "interval"];

fn serve() -> Forebay {
    Forebay::start("embedded", SERVER)
}

/// Stops it as an operator would: what the suite did to it must not have hurt it.
fn stop(mut server: Forebay) {
    server.terminate();
    let log = server.log();
    assert!(!log.contains("panicked at"), "{log}");
}

/// Runs a suite on a server and reads its report, which must be whole.
fn report(suite: &mut Command, server: &Forebay) -> Vec<Row> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    suite.env("FOREBAY_SUITE_PORT", server.address.port().to_string()).env("FOREBAY_SUITE_REPORT", file.path());
    let outcome = run(suite, "");
    let text = std::fs::read_to_string(file.path()).expect("the report is text");
    let row = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let text = |name: &str| line[name].as_str().expect("a text").to_owned();
        Row { id: text("id"), outcome: text("outcome"), why: text("why") }
    };
    let mut rows: Vec<Row> = text.lines().map(row).collect();
    let end = rows.pop();
    let whole = end.is_some_and(|end| end.outcome == "end");
    assert!(whole, "{suite:?} did not end well\n{}\n{}\n{}", outcome.stdout, outcome.stderr, server.log());
    rows
}

fn redis_py(folder: &Path, files: &[String], options: &[&str]) -> Vec<Row> {
    let server = serve();
    let mut pytest = Command::new(folder.join("bin/python"));
    let url = format!("redis://localhost:{}/0", server.address.port());
    pytest.args(["-B", "-m", "pytest", "-p", "forebay_report", "-p", "no:cacheprovider", "-q", "--tb=no"]);
    pytest.args(["-W", "ignore", "--timeout", "60", "--redis-url", &url]).args(options).args(files);
    pytest.current_dir(folder.join("source")).env("PYTHONPATH", install::source("redis-py"));
    let rows = report(&mut pytest, &server);
    stop(server);
    rows
}

/// Runs its tests once with either protocol, and those for asyncio.
fn redis_py_verdict(rules: &Rules) -> Option<Verdict> {
    let folder = install::redis_py()?;
    let source = folder.join("source");
    let tests = install::files(&source.join("tests"), &|name| name.starts_with("test_") && name.ends_with(".py"));
    let mut wrong = rules.choice(&tests.iter().map(|file| format!("tests/{file}")).collect::<Vec<_>>());
    let (asyncio, plain): (Vec<_>, Vec<_>) =
        rules.files.iter().cloned().partition(|file| file.starts_with("tests/test_asyncio/"));
    let runs = thread::scope(|scope| {
        let (folder, plain, asyncio) = (&folder, &plain, &asyncio);
        let runs = [
            ("RESP3", scope.spawn(move || redis_py(folder, plain, &[]))),
            ("RESP2", scope.spawn(move || redis_py(folder, plain, &["--protocol", "2"]))),
            ("asyncio", scope.spawn(move || redis_py(folder, asyncio, &[]))),
        ];
        runs.map(|(name, run)| (name, run.join().expect("the run ends")))
    });
    let mut verdict = rules.judge(&runs);
    verdict.wrong.append(&mut wrong);
    Some(verdict)
}

fn redis_version(server: &Forebay) -> String {
    let info = match Connection::new(server.address).call(&["INFO", "server"]) {
        Reply::Bulk(info) => String::from_utf8_lossy(&info).into_owned(),
        other => panic!("INFO: {other:?}"),
    };
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    version.expect("its version").to_owned()
}

fn node_redis_verdict(rules: &Rules) -> Option<Verdict> {
    let folder = install::node_redis()?;
    let tests = install::files(&folder.join("packages"), &|name| name.ends_with(".spec.ts"));
    let mut wrong = rules.choice(&tests);
    let (open, guarded) = (serve(), serve());
    let protect = ["ACL", "SETUSER", "default", "resetpass", ">password"];
    assert_eq!(Connection::new(guarded.address).call(&protect), Reply::Simple("OK".into()));
    let mut mocha = Command::new("node");
    mocha.args(["node_modules/mocha/bin/mocha.js", "--exit", "--timeout", "30000", "--reporter", "./report.js"]);
    mocha.args(rules.files.iter().map(|file| format!("packages/{}", file.replace(".spec.ts", ".spec.js"))));
    mocha.env("FOREBAY_SUITE_PASSWORD_PORT", guarded.address.port().to_string());
    mocha.env("FOREBAY_SUITE_REDIS_VERSION", redis_version(&open)).current_dir(&folder);
    let mut verdict = rules.judge(&[("RESP2", report(&mut mocha, &open))]);
    stop(open);
    stop(guarded);
    verdict.wrong.append(&mut wrong);
    Some(verdict)
}

fn tell(suite: &str, verdict: &Verdict) {
    let skipped: usize = verdict.skipped.values().sum();
    let mut text = format!("{suite}: {} passed, {skipped} skipped, {} wrong\n", verdict.passed, verdict.wrong.len());
    let mut reasons: Vec<_> = verdict.skipped.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, count) in reasons {
        text.push_str(&format!("{count:>6} {reason}\n"));
    }
    say(&text);
}

#[test]
fn what_is_not_passed_stands_in_skips_toml() {
    let (python, node) = (Rules::read(SKIPS, "redis-py"), Rules::read(SKIPS, "node-redis"));
    let verdicts = thread::scope(|scope| {
        let node = scope.spawn(|| node_redis_verdict(&node));
        [("redis-py", redis_py_verdict(&python)), ("node-redis", node.join().expect("the run ends"))]
    });
    let mut wrong = Vec::new();
    let mut missed = BTreeSet::new();
    for (suite, verdict) in &verdicts {
        let Some(verdict) = verdict else { continue };
        tell(suite, verdict);
        wrong.extend(verdict.wrong.iter().map(|line| format!("{suite}, {line}")));
        missed.extend(verdict.missed.iter().cloned());
    }
    if verdicts.iter().all(|(_, verdict)| verdict.is_some()) {
        let never = python.never_missed(&missed).into_iter();
        wrong.extend(never.map(|name| format!("no test misses {name}, which is said to be missing")));
    }
    assert!(wrong.is_empty(), "not as tests/suites/skips.toml says:\n{}", wrong.join("\n"));
}
