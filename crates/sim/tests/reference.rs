//! Hit counts equal to those of an independent simulator on real traces (`testdata/reference/README.md`).
//!
//! By default the small traces under `testdata/traces`; with `FOREBAY_TRACES` set to a folder laid out like it, every
//! trace of the reference that the folder has.

#[path = "reference/decode.rs"]
mod decode;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay::policy::{Unit, choose};
use forebay_sim::bare::replay;

struct Row {
    trace: String,
    policy: String,
    capacity: u64,
    unit: Unit,
    requests: u64,
    hits: u64,
    /// Points of hit ratio that ours may differ by; 0 for "equal".
    points_max: u64,
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(testdata().join("reference/hits.csv")).expect("the reference is readable");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse::<u64>().expect("a number");
        let unit = if fields[3] == "bytes" { Unit::Bytes } else { Unit::Entries };
        let (trace, policy) = (fields[0].to_string(), fields[1].to_string());
        let (requests, hits, points_max) = (number(4), number(5), number(6));
        Row { trace, policy, capacity: number(2), unit, requests, hits, points_max }
    };
    text.lines().skip(1).map(row).collect()
}

/// What a row is replayed with.
fn choice_for(row: &Row) -> &str {
    match row.policy.as_str() {
        // The reference lets in nothing as large as its small queue.
        "s3-fifo" => "s3-fifo:bypass=1",
        name => name,
    }
}

/// Replays one row; what is wrong if it differs by more than it may.
fn check(row: &Row, requests: &[(u64, u32)]) -> Option<String> {
    let choice = choose(choice_for(row)).expect("in the table");
    let counts = replay(choice.policy, &choice.settings(row.unit, row.capacity), requests.iter().copied());
    let difference_max = row.requests * row.points_max / 100;
    if counts.requests == row.requests && counts.hits.abs_diff(row.hits) <= difference_max {
        return None;
    }
    Some(format!(
        "{} {choice} {} {:?}: {} hits of {}, expected {} of {} (+-{difference_max})",
        row.trace, row.capacity, row.unit, counts.hits, counts.requests, row.hits, row.requests
    ))
}

#[test]
fn hits_equal_the_reference() {
    let all = std::env::var_os("FOREBAY_TRACES").map(PathBuf::from);
    let folder = all.clone().unwrap_or_else(|| testdata().join("traces"));
    let rows = rows();
    let (mut checked, mut failures) = (0, Vec::new());
    for rows in rows.chunk_by(|a, b| a.trace == b.trace) {
        let Some(requests) = decode::requests(&folder, &rows[0].trace) else { continue };
        checked += 1;
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                let wrong = check(row, &requests);
                found.lock().expect("no thread panicked").extend(wrong);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        failures.extend(found.into_inner().expect("no thread panicked"));
    }
    if all.is_none() {
        eprintln!("checked {checked} small traces; set FOREBAY_TRACES to a folder with all of them to check more");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked >= 7, "only {checked} traces found in {}", folder.display());
}
