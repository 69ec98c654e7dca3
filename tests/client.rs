//! The client library against the real binary.
//!
//! Ten clients, each with a cache, run list-append, a bank, pairs that must not be overdrawn, and registers. Another
//! appends without the library. What they saw is judged by the level of their transactions. `FOREBAY_NIGHTLY=1` runs
//! each for minutes; `FOREBAY_SEED` repeats a run's choices.

#[path = "client/alike.rs"]
mod alike;
mod common;
#[path = "client/judge.rs"]
mod judge;
#[path = "common/clock.rs"]
mod moved;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "client/process.rs"]
mod process;
#[path = "client/processes.rs"]
mod processes;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "client/single.rs"]
mod single;
#[path = "client/strangers.rs"]
mod strangers;
#[path = "client/tasks.rs"]
mod tasks;
#[path = "client/work.rs"]
mod work;

use std::time::Duration;

use common::process::Forebay;
use forebay_client::mutation::Fault;
use forebay_client::{Level, Statistics};
use proxy::Proxy;
use work::{Work, seed};

/// How often they go on until they have done enough.
const SLICES_MAX: u32 = 10;

/// How long the clients of one test are at work.
fn slice() -> Duration {
    Duration::from_secs(if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 120 } else { 2 })
}

/// Ten clients at one level on a server that stays.
fn at_work(store: &str, level: Level) {
    let forebay = Forebay::start(store, &["--durability", "interval"]);
    let work = Work::new(forebay.address, level, seed());
    let alone_min = if level == Level::Strict { 0 } else { 100 };
    let is_enough = |counted: &Statistics| {
        counted.committed > 200 && counted.fresh > 200 && counted.stale_aborts > 0 && counted.alone >= alone_min
    };
    // A busy machine takes longer.
    let counted = (0..SLICES_MAX).find_map(|_| {
        work.run(slice(), || {});
        Some(work.statistics()).filter(is_enough)
    });
    work.judge();
    let counted = counted.unwrap_or_else(|| panic!("hardly any: {:?}", work.statistics()));
    eprintln!("{store} {level:?}: {counted:?}");
    assert!(level != Level::Strict || counted.alone == 0, "{counted:?}");
}

#[test]
fn bounded_over_memory() {
    at_work("memory", Level::Bounded(Duration::from_millis(30)));
}

#[test]
fn sessions_over_memory() {
    at_work("memory", Level::Session);
}

#[test]
fn strict_over_memory() {
    at_work("memory", Level::Strict);
}

#[test]
fn bounded_over_embedded() {
    at_work("embedded", Level::Bounded(Duration::from_millis(30)));
}

#[test]
fn strict_over_embedded() {
    at_work("embedded", Level::Strict);
}

/// The server is killed and started again while clients are at work, connections are cut, and answers are lost.
#[test]
fn sessions_over_embedded_with_faults() {
    let mut forebay = Forebay::start("embedded", &[]);
    let proxy = Proxy::to(forebay.address);
    let work = Work::new(proxy.address, Level::Session, seed());
    work.run(slice(), || {
        let part = slice() / 5;
        std::thread::sleep(part);
        proxy.cut();
        std::thread::sleep(part);
        proxy.drop_replies();
        std::thread::sleep(Duration::from_millis(50));
        proxy.pass();
        proxy.cut();
        std::thread::sleep(part);
        forebay.restart();
        proxy.lead_to(forebay.address);
        proxy.cut();
    });
    work.judge();
    let counted = work.statistics();
    eprintln!("with faults: {counted:?}");
    assert!(counted.unknown > 0 && counted.lost_aborts > 0, "no fault was met: {counted:?}");
}

const GATE: &[(Fault, fn())] = &[
    (Fault::MomentsMixed, single::an_error_of_a_body_is_of_one_moment),
    (Fault::ErrorUnchecked, single::an_error_of_a_body_is_of_one_moment),
    (Fault::FloorIgnored, single::a_session_sees_its_commits_and_other_sessions_may_not),
    (Fault::OwnCommitForgotten, single::a_session_sees_its_commits_and_other_sessions_may_not),
    (Fault::ReadOnlyForgotten, single::a_session_reads_on_from_where_it_was),
    (Fault::BoundIgnored, single::a_bound_holds_until_the_end),
    (Fault::LeaseOverIncarnation, single::leases_end_with_the_server),
    (Fault::StaleTakenForDone, single::what_was_read_once_is_read_again_alike),
    (Fault::FlightOfBefore, single::one_request_serves_all_that_miss_a_key),
    (Fault::ReadTwice, single::what_was_read_once_is_read_again_alike),
    (Fault::LostCommitRepeated, single::a_lost_answer_is_not_known_and_never_done_again),
    (Fault::IdReused, single::reads_end_without_a_message_and_commits_by_one),
];

/// Each rule of the library that is left out is found by a test against the real server.
#[test]
fn gate() {
    assert_eq!(forebay_client::mutation::missed(GATE), []);
}
