//! `forebay bench` through the real binary: on the embedded store, in front of PostgreSQL, on PostgreSQL alone, and
//! while that goes away and comes back.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;
use postgres::{Server, Stop};
use serde_json::Value;

/// A database on a busy machine, and locks that wait longer than it.
const PATIENT: [&str; 6] = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];

/// Longest wait for a first append.
const PATIENCE: Duration = Duration::from_secs(20);

/// How one run ended.
struct Ended {
    code: i32,
    report: Option<Value>,
    stderr: String,
}

impl Ended {
    /// The report of a run that went well.
    fn report(self) -> Value {
        assert_eq!(self.code, 0, "{} {:?}", self.stderr, self.report);
        self.report.expect("a report")
    }

    /// The line of a run that was refused.
    fn refusal(self) -> String {
        assert_eq!((self.code, self.report), (2, None), "{}", self.stderr);
        self.stderr
    }
}

fn bench(arguments: &[&str]) -> Ended {
    let mut command = forebay_command();
    command.args(["bench", "--format", "json", "--quiet"]).args(arguments);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("the binary runs");
    Ended {
        code: output.status.code().expect("it ends by itself"),
        report: serde_json::from_slice(&output.stdout).ok(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs while something happens.
fn bench_while(arguments: &[&str], happens: impl FnOnce()) -> Ended {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| bench(arguments));
        happens();
        running.join().expect("the run ends")
    })
}

/// Stops the database for a while.
fn outage(server: &Server) {
    std::thread::sleep(Duration::from_millis(700));
    server.stop(Stop::Immediate);
    std::thread::sleep(Duration::from_millis(1500));
    server.start_again();
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Actions of one name that ended well.
fn done(report: &Value, action: &str) -> u64 {
    let actions = report["actions"].as_array().expect("a list");
    actions.iter().find(|one| one["action"] == action).map_or(0, |one| number(&one["done"]))
}

fn modes(report: &Value) -> Vec<String> {
    let spans = report["modes"].as_array().expect("a list");
    spans.iter().map(|span| span["mode"].as_str().expect("text").to_owned()).collect()
}

fn breaches(report: &Value) -> Vec<String> {
    let verdicts = report["verdicts"].as_array().expect("a list").iter();
    verdicts.filter(|verdict| verdict["breach"] == true).map(|verdict| verdict.to_string()).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it was written")
}

#[test]
fn every_workload_runs_over_the_embedded_store() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let address = forebay.address.to_string();
    let run = |workload: &str, more: &[&str]| {
        let fixed = ["--workload", workload, "--to", &address, "--records", "500", "--seconds", "1"];
        bench(&[&fixed[..], &["--connections", "2"], more].concat())
    };
    assert_eq!(run("ycsb-a", &["--load-only"]).code, 0);
    assert_eq!(Connection::new(forebay.address).call(&["DBSIZE"]), Reply::Integer(500));
    let transactions: &[&str] = &["--no-load", "--transactions"];
    std::thread::scope(|scope| {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("ycsb-a", &["--no-load"], &["read", "update"]),
            ("ycsb-b", &["--no-load", "--rate", "500"], &["read", "update"]),
            ("ycsb-c", &["--hashed"], &["read"]),
            // Nothing is asked for between the first action, which takes no time, and the end.
            ("ycsb-c", &["--no-load", "--rate", "1"], &["read"]),
            ("ycsb-d", &["--no-load"], &["read", "insert"]),
            ("ycsb-e", &["--no-load"], &["scan", "insert"]),
            ("ycsb-f", &["--no-load"], &["read", "read-modify-write"]),
            ("ycsb-f", transactions, &["read", "read-modify-write"]),
            ("list-append", &[], &["append"]),
        ];
        for (workload, more, actions) in cases {
            scope.spawn(move || {
                let report = run(workload, more).report();
                for action in actions {
                    assert!(done(&report, action) > 0, "{workload} {action}: {report}");
                }
                // Two that insert at the same time pick the same rows, and transactions may be in each other's way.
                let failures = report["failures"].as_object().expect("a map").keys();
                let in_the_way = |kind: &String| ["TXCONFLICT", "TXABORTED"].contains(&&**kind);
                assert!(failures.into_iter().all(in_the_way), "{workload}: {}", report["failures"]);
                let missing: u64 =
                    report["actions"].as_array().expect("a list").iter().map(|one| number(&one["missing"])).sum();
                assert_eq!(missing, 0, "{workload}");
                assert_eq!(breaches(&report), Vec::<String>::new(), "{workload}");
                assert_eq!(modes(&report), ["normal"]);
                let rate = report["done_per_second"].as_f64().expect("a number");
                let asked = more.iter().skip_while(|word| **word != "--rate").nth(1);
                let asked: Option<f64> = asked.map(|asked| asked.parse().expect("a number"));
                assert!(asked.is_none_or(|asked| rate < 1.2 * asked), "more than it was told: {rate}");
            });
        }
    });
}

#[test]
fn acknowledged_appends_survive_an_outage_and_the_picture_shows_it() {
    let server = Server::start();
    let database = server.database();
    let quick = ["--breaker-pause-ms", "20", "--breaker-pause-ms-max", "200"];
    let forebay = Forebay::start(&server.url(&database), &quick);
    let folder = tempfile::tempdir().expect("a folder");
    let (picture, csv) = (folder.path().join("outage.svg"), folder.path().join("outage.csv"));
    let address = forebay.address.to_string();
    let fixed = ["--workload", "list-append", "--to", &address, "--records", "50", "--seconds", "6"];
    let files = ["--picture", picture.to_str().expect("UTF-8"), "--csv", csv.to_str().expect("UTF-8")];
    let arguments = [&fixed[..], &files, &["--connections", "4"]].concat();
    let report = bench_while(&arguments, || outage(&server)).report();
    assert_eq!(breaches(&report), Vec::<String>::new());
    assert!(number(&report["outage"]["buffered"]) > 0, "{}", report["outage"]);
    let carried = number(&report["outage"]["applied"]) + number(&report["outage"]["merged"]);
    assert_eq!(number(&report["outage"]["buffered"]), carried, "{}", report["outage"]);
    assert!(modes(&report).contains(&"failed".to_owned()), "{}", report["modes"]);
    assert_eq!(report["not_drained"], Value::Null);
    assert!(text(&picture).contains("store away") && text(&picture).contains("list-append"));
    assert!(text(&csv).lines().any(|line| line.ends_with(",failed")), "{}", text(&csv));
    // The lists of a run that went well are gone. A deletion that the database did not answer in time follows.
    let began = Instant::now();
    while server.sql(&database, "SELECT count(*) FROM forebay.documents") != "0" {
        assert!(began.elapsed() < PATIENCE, "the lists are still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn rows_are_the_same_with_and_without_forebay() {
    let server = Server::start();
    let (database, run) = (server.database(), ["--records", "300", "--seconds", "1", "--connections", "3"]);
    let url = server.url(&database);
    let direct =
        |workload: &str, more: &[&str]| bench(&[&["--workload", workload, "--direct", &url][..], &run, more].concat());
    let refusal = direct("ycsb-a", &["--no-load"]).refusal();
    assert!(refusal.contains("\"usertable\" does not exist") && refusal.contains("load first"), "{refusal}");
    assert_eq!(direct("ycsb-a", &["--load-only"]).code, 0);
    assert_eq!(direct("list-append", &["--load-only"]).code, 0);
    assert_eq!(server.sql(&database, "SELECT count(*), min(length(field9)) FROM usertable"), "300|100");
    for (workload, actions) in [("ycsb-e", ["scan", "insert"]), ("ycsb-f", ["read", "read-modify-write"])] {
        let report = direct(workload, &["--no-load"]).report();
        assert!(actions.iter().all(|action| done(&report, action) > 0), "{report}");
        assert_eq!((number(&report["failed"]), modes(&report).last().map(String::as_str)), (0, Some("up")), "{report}");
    }
    assert_eq!(breaches(&direct("list-append", &[]).report()), Vec::<String>::new());
    // The same rows through forebay: updates and inserts end up in the table, a scan is an MGET of rows.
    let maps = ["--map", "usertable:{id} -> usertable(id)", "--map", "append:{id} -> appends(id).elements as list"];
    let forebay = Forebay::start(&url, &[&maps[..], &PATIENT].concat());
    let address = forebay.address.to_string();
    let through = |workload: &str, more: &[&str]| {
        bench(&[&["--workload", workload, "--to", &address, "--no-load"][..], &run, more].concat()).report()
    };
    let rows = || server.sql(&database, "SELECT count(*) FROM usertable").parse::<u64>().expect("a number");
    let before = rows();
    let report = through("ycsb-e", &[]);
    assert!(done(&report, "scan") > 0 && number(&report["failed"]) == 0, "{report}");
    assert_eq!(rows(), before + done(&report, "insert"));
    server.sql(&database, "UPDATE usertable SET field1 = 'old', field2 = 'old'");
    assert!(done(&through("ycsb-f", &["--transactions"]), "read-modify-write") > 0);
    assert_ne!(server.sql(&database, "SELECT count(*) FROM usertable WHERE field1 <> 'old' OR field2 <> 'old'"), "0");
    assert_eq!(breaches(&through("list-append", &[])), Vec::<String>::new());
    // A list that was removed is an empty column of its row.
    assert_eq!(server.sql(&database, "SELECT count(*) FROM appends WHERE elements <> '{}'"), "0");
}

/// What forebay is compared with: without it, actions fail, and the run says how many and when.
#[test]
fn failures_without_forebay_are_counted() {
    let server = Server::start();
    let url = server.url(&server.database());
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("direct.svg");
    let fixed = ["--workload", "list-append", "--direct", &url, "--records", "20", "--seconds", "5"];
    let arguments = [&fixed[..], &["--connections", "3", "--picture", picture.to_str().expect("UTF-8")]].concat();
    let report = bench_while(&arguments, || outage(&server)).report();
    assert!(number(&report["failures"]["unreachable"]["count"]) > 0, "{report}");
    assert!(modes(&report).contains(&"unreachable".to_owned()), "{}", report["modes"]);
    assert!(text(&picture).contains("failed") && text(&picture).contains("store away"));
}

/// Somebody removes a list in the middle of a run: that is loss, and the run says so and fails.
#[test]
fn a_loss_is_a_breach_and_a_failing_exit() {
    let forebay = Forebay::start("memory", &[]);
    let address = forebay.address.to_string();
    let arguments = ["--workload", "list-append", "--to", &address, "--records", "3", "--seconds", "2"];
    let ended = bench_while(&arguments, || remove_a_list(forebay.address));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("a promise is broken") && ended.stderr.contains("lost"), "{}", ended.stderr);
    let report = ended.report.expect("a report all the same");
    assert_eq!(breaches(&report).len(), 1, "{report}");
    // What a breach left is there to be looked at.
    assert_ne!(Connection::new(forebay.address).call(&["DBSIZE"]), Reply::Integer(0));
}

fn remove_a_list(address: SocketAddr) {
    let (mut client, began) = (Connection::new(address), Instant::now());
    loop {
        if let Reply::Array(keys) = client.call(&["KEYS", "append:*"])
            && let Some(Reply::Bulk(key)) = keys.first()
        {
            let key = String::from_utf8_lossy(key).into_owned();
            assert_eq!(client.call(&["DEL", &key]), Reply::Integer(1));
            return;
        }
        assert!(began.elapsed() < PATIENCE, "no list appears");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The server dies in the middle of a run and stays away: the figures are told, and that nothing could be judged.
#[test]
fn a_server_that_dies_costs_no_figures() {
    let mut forebay = Forebay::start("memory", &[]);
    let address = forebay.address.to_string();
    let fixed = ["--workload", "list-append", "--to", &address, "--seconds", "2", "--drain-seconds-max", "1"];
    let ended = bench_while(&fixed, || {
        std::thread::sleep(Duration::from_millis(1200));
        forebay.kill9();
    });
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("could not be judged: can't reach"), "{}", ended.stderr);
    let report = ended.report.expect("a report all the same");
    assert!(done(&report, "append") > 0 && number(&report["failures"]["unreachable"]["count"]) > 0, "{report}");
}

#[test]
fn a_server_with_a_password_wants_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (right, wrong) = (file("right", "open sesame\n"), file("wrong", "open barley\n"));
    let forebay = Forebay::start("memory", &[]);
    let set = ["ACL", "SETUSER", "default", "resetpass", ">open sesame"];
    assert_eq!(Connection::new(forebay.address).call(&set), Reply::Simple("OK".into()));
    let address = forebay.address.to_string();
    let run = |more: &[&str]| {
        let fixed = ["--workload", "ycsb-c", "--to", &address, "--records", "100", "--seconds", "1"];
        bench(&[&fixed[..], more].concat())
    };
    assert!(run(&[]).refusal().contains("NOAUTH"));
    assert!(run(&["--password-file", &wrong]).refusal().contains("WRONGPASS"));
    assert!(run(&["--password-file", "/nowhere"]).refusal().contains("can't read the password in /nowhere"));
    assert!(done(&run(&["--password-file", &right]).report(), "read") > 0);
}

#[test]
fn what_is_wrong_is_said_in_a_line_with_the_fix() {
    let forebay = Forebay::start("memory", &[]);
    let address = forebay.address.to_string();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let refusal = bench(arguments).refusal();
        for part in parts {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    };
    refused(&["--workload", "ycsb-z"], &["ycsb-a", "ycsb-f", "list-append"]);
    refused(&[], &["--workload"]);
    let a = ["--workload", "ycsb-a"];
    let with = |more: &[&'static str]| -> Vec<&str> { [&a[..], more].concat() };
    refused(&with(&["--to", "127.0.0.1:1"]), &["can't reach 127.0.0.1:1", "is it running"]);
    refused(&with(&["--direct", "postgres://app@127.0.0.1:1/shop"]), &["can't reach PostgreSQL 127.0.0.1:1/shop"]);
    refused(
        &with(&["--direct", "mysql://h/shop"]),
        &["--direct 'mysql://h/shop'", "give postgres://user@host/database"],
    );
    refused(&with(&["--direct", "postgres://app:secret@h/shop"]), &["--store-password-file"]);
    let narrow = Forebay::start("memory", &["--clients-max", "5"]);
    let full = ["--connections", "6", "--records", "10", "--to"];
    let address_of_narrow = narrow.address.to_string();
    refused(&[&a[..], &full, &[&address_of_narrow]].concat(), &["lets no more connections in", "--clients-max"]);
    refused(&with(&["--records", "0"]), &["--records"]);
    refused(&with(&["--transactions"]), &["ycsb-f"]);
    refused(&["--workload", "ycsb-e", "--hashed"], &["neighbours"]);
    refused(&with(&["--friends", "4"]), &["--friends has no effect on ycsb-a", "bg-*"]);
    refused(&["--workload", "bg-low", "--think-ms", "5"], &["--think-ms has no effect on bg-low", "run bg-sessions"]);
    refused(&with(&["--soar", "2", "--sla-percent", "200"]), &["give a number from 0 to 100"]);
    refused(&with(&["--soar", "2", "--sla-ms", "-1"]), &["invalid value '-1'", "give a number above 0"]);
    refused(&with(&["--to", "127.0.0.1"]), &["--to <ADDR>", "and a port: 127.0.0.1:6379"]);
    refused(&with(&["--picture", "/nowhere/a.svg"]), &["can't write /nowhere/a.svg", "make the folder /nowhere first"]);
    // A run that does not begin costs nobody the picture of the last one.
    let (folder, last) = (tempfile::tempdir().expect("a folder"), "the last run");
    let picture = folder.path().join("a.svg");
    std::fs::write(&picture, last).expect("written");
    let bad = with(&["--to", "127.0.0.1:1", "--picture"]);
    refused(&[&bad[..], &[picture.to_str().expect("UTF-8")]].concat(), &["can't reach 127.0.0.1:1"]);
    assert_eq!(text(&picture), last);
    refused(&["--workload", "ycsb-a", "--to", &address, "--no-load"], &["there is no usertable:user", "load first"]);
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE users (id integer PRIMARY KEY, name text)");
    let mapped = Forebay::start(&server.url(&database), &["--map", "user:{id} -> users(id)"]);
    let mapped = mapped.address.to_string();
    server.sql(&database, "CREATE ROLE few LOGIN CONNECTION LIMIT 3; GRANT ALL ON SCHEMA public TO few");
    let few = server.url(&database).replace("app@", "few@");
    let direct = ["--connections", "5", "--records", "10", "--direct", &few];
    refused(&[&a[..], &direct].concat(), &["lets no more connections in", "or the role's"]);
    refused(&["--workload", "ycsb-a", "--to", &mapped], &["loading ycsb-a", "--map 'usertable:{id} -> usertable(id)'"]);
    refused(&["--workload", "list-append", "--to", &mapped], &["as list"]);
}
