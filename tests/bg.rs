//! BG by `forebay bench` through the real binary. It runs over the embedded store, in front of PostgreSQL while that
//! goes away and comes back, and on PostgreSQL alone. It also runs while another program writes what it reads.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::Connection;
use common::process::{Forebay, forebay_command};
use postgres::{Server, Stop};
use serde_json::Value;

/// Which keys are which rows.
const MAPPINGS: [&str; 7] = [
    "member:{id} -> bg_members(userid)",
    "friends:{id} -> bg_friends(userid).friends as list",
    "pending:{id} -> bg_pending(userid).pending as list",
    "wall:{id} -> bg_walls(userid).resources as list",
    "resource:{rid} -> bg_resources(rid)",
    "comments:{rid} -> bg_threads(rid).comments as list",
    "comment:{rid}:{mid} -> bg_comments(rid, mid) delete=row",
];

/// Exit code, report and stderr of a run.
fn bench(arguments: &[&str]) -> (i32, Value, String) {
    let mut command = forebay_command();
    command.args(["bench", "--format", "json", "--quiet"]).args(arguments);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("the binary runs");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("it ends by itself"), report, stderr)
}

/// The report of a run that found nothing wrong.
fn sound(arguments: &[&str]) -> Value {
    let (code, report, stderr) = bench(arguments);
    assert_eq!(code, 0, "{stderr} {report:#}");
    report
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A verdict: how many, and of how many.
fn verdict(report: &Value, what: &str) -> (u64, u64) {
    let found = list(&report["verdicts"]).iter().find(|verdict| verdict["what"] == what);
    let found = found.unwrap_or_else(|| panic!("no verdict on {what} in {report:#}"));
    (found["count"].as_u64().expect("a number"), found["of"].as_u64().expect("a number"))
}

/// Actions that ended well, and that failed, of those whose names these are.
fn actions(report: &Value, names: &[&str]) -> (u64, u64) {
    let of = list(&report["actions"]).iter().filter(|action| names.iter().any(|name| action["action"] == *name));
    of.fold((0, 0), |(done, failed), action| {
        (done + action["done"].as_u64().unwrap_or(0), failed + action["failed"].as_u64().unwrap_or(0))
    })
}

const WRITES: [&str; 6] =
    ["InviteFriend", "AcceptFriend", "RejectFriend", "ThawFriendship", "PostComment", "DeleteComment"];
const WRONG: &str = "reads that can't be true";
const AT_THE_END: &str = "lists that are not what was acknowledged at the end";

#[test]
fn all_actions_and_the_search_over_the_embedded_store() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let address = forebay.address.to_string();
    let run = |workload: &str, more: &[&str]| {
        let fixed = ["--workload", workload, "--to", &address, "--records", "100", "--seconds", "1"];
        sound(&[&fixed[..], &["--connections", "4"], more].concat())
    };
    let report = run("bg-sessions", &[]);
    for action in WRITES.iter().chain(&["ViewProfile", "ListFriends", "ViewTopResources", "ViewComments"]) {
        assert!(actions(&report, &[action]).0 > 0, "{action}: {report:#}");
    }
    assert!(verdict(&report, WRONG).1 > 0 && verdict(&report, AT_THE_END).1 > 0);
    // Another process learns what the network has become.
    let report = run("bg-high-symmetric", &["--no-load", "--transactions"]);
    assert_eq!(actions(&report, &WRITES).1, 0, "{report:#}");
    let kept = run("bg-100-1", &["--no-load", "--soar", "3", "--sla-ms", "5000"]);
    let clients: Vec<&Value> = list(&kept["runs"]).iter().map(|run| &run["clients"]).collect();
    assert_eq!(clients[..2], [1, 2], "{kept:#}");
    assert!(kept["soar"]["per_second"].as_f64().is_some_and(|most| most > 0.0) && kept["socialites"].is_u64());
    let never = run("bg-100-1", &["--no-load", "--soar", "8", "--sla-ms", "0.000001"]);
    assert!(never["soar"].is_null() && list(&never["runs"]).len() == 1, "{never:#}");
}

/// Somebody else takes friends away and gives others: what then is read can't be true for who knows only BG's writes.
#[test]
fn what_others_write_is_found() {
    let forebay = Forebay::start("memory", &[]);
    let address = forebay.address.to_string();
    let over = AtomicBool::new(false);
    let (code, report, stderr) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Connection::new(forebay.address);
            while !over.load(Ordering::Relaxed) {
                for member in 0..50 {
                    let key = format!("friends:{member}");
                    client.call(&["LPUSH", &key, "4000"]);
                    client.call(&["RPOP", &key]);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let fixed = ["--workload", "bg-read-only", "--to", &address, "--records", "50", "--seconds", "1"];
        let ended = bench(&fixed);
        over.store(true, Ordering::Relaxed);
        ended
    });
    let (wrong, of) = verdict(&report, WRONG);
    assert!(code == 1 && wrong > 0 && wrong <= of && stderr.contains(WRONG), "{stderr} {report:#}");
    let example = list(&report["verdicts"])[0]["example"].as_str().expect("an example");
    assert!(example.contains("Friends of"), "{example}");
}

#[test]
fn the_document_has_the_mappings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-workloads.md");
    let document = std::fs::read_to_string(path).expect("docs/bench-workloads.md is readable");
    for map in MAPPINGS {
        assert!(document.contains(&format!("--map '{map}'")), "{map}");
    }
}

/// An outage in the middle: no write fails, no read is wrong, and the tables are what was acknowledged.
#[test]
fn an_outage_of_the_database_costs_no_write() {
    let server = Server::start();
    let (database, maps) = (server.database(), MAPPINGS.map(|map| ["--map", map]).concat());
    let (url, scale) = (server.url(&database), ["--records", "200", "--connections", "4"]);
    let direct = [&["--direct", &url, "--workload", "bg-high-symmetric"], &scale[..]].concat();
    assert_eq!(bench(&[&direct[..], &["--load-only"]].concat()).0, 0);
    let patient = ["--store-timeout-ms", "1000", "--lock-wait-ms-min", "2000", "--lock-wait-ms-max", "3000"];
    let quick = ["--breaker-pause-ms", "20", "--breaker-pause-ms-max", "200"];
    let forebay = Forebay::start(&url, &[&maps[..], &patient, &quick].concat());
    let address = forebay.address.to_string();
    let report = std::thread::scope(|scope| {
        let more = ["--no-load", "--to", &address, "--seconds", "5", "--workload", "bg-high-symmetric"];
        let running = scope.spawn(move || sound(&[&more[..], &scale].concat()));
        std::thread::sleep(Duration::from_millis(2000));
        server.stop(Stop::Immediate);
        std::thread::sleep(Duration::from_millis(1500));
        server.start_again();
        running.join().expect("the run is sound")
    });
    assert!(list(&report["modes"]).iter().any(|span| span["mode"] == "failed"), "{:#}", report["modes"]);
    assert!(report["outage"]["buffered"].as_u64().is_some_and(|buffered| buffered > 0), "{:#}", report["outage"]);
    let (done, failed) = actions(&report, &WRITES);
    assert!(done > 0 && failed == 0, "{report:#}");
    assert!(verdict(&report, AT_THE_END).1 > 0 && report["not_drained"].is_null(), "{report:#}");
    forebay_is_over(forebay);
    // The tables hold a sound network, and the same actions go on there without forebay.
    let report = sound(&[&direct[..], &["--no-load", "--seconds", "1"]].concat());
    assert!(actions(&report, &WRITES).0 > 0 && verdict(&report, WRONG).1 > 0, "{report:#}");
    let all =
        |report: &Value| list(&report["actions"]).iter().map(|action| action["failed"].as_u64()).collect::<Vec<_>>();
    assert!(all(&report).iter().all(|failed| *failed == Some(0)), "{report:#}");
    let report = sound(&[&["--direct", &url, "--workload", "bg-sessions", "--seconds", "1"], &scale[..]].concat());
    assert!(actions(&report, &["PostComment", "DeleteComment"]).0 > 0, "{report:#}");
    assert!(actions(&report, &["ViewComments"]).0 > 0, "{report:#}");
    assert!(all(&report).iter().all(|failed| *failed == Some(0)), "{report:#}");
}

/// Without forebay the same outage costs writes, and nothing else: what was acknowledged is there.
#[test]
fn an_outage_without_forebay_costs_writes() {
    let server = Server::start();
    let url = server.url(&server.database());
    let run = ["--workload", "bg-9-symmetric", "--direct", &url, "--records", "200", "--connections", "4"];
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(move || sound(&[&run[..], &["--seconds", "4"]].concat()));
        std::thread::sleep(Duration::from_millis(2000));
        server.stop(Stop::Immediate);
        std::thread::sleep(Duration::from_millis(1000));
        server.start_again();
        running.join().expect("the run is sound")
    });
    let (done, failed) = actions(&report, &WRITES);
    assert!(done > 0 && failed > 0, "{report:#}");
    assert!(list(&report["modes"]).iter().any(|span| span["mode"] == "unreachable"), "{:#}", report["modes"]);
    assert!(verdict(&report, AT_THE_END).1 > 0, "{report:#}");
}

fn forebay_is_over(mut forebay: Forebay) {
    forebay.terminate();
}
