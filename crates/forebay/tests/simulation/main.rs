//! The path under a seeded runtime: sessions, transactions, cache, group commit and store in virtual time. Tasks run
//! in any order, stores fail in every way they may, clients vanish, and machines crash at any step. One seed is one
//! run; a failing seed prints how to repeat it.
//!
//! Oracles (`oracle.rs`, and `client.rs` for what a client sees) judge strict serializability, real time included.
//! Own writes are visible. Nothing acknowledged is lost, and nothing unacknowledged is half there. The cache is equal
//! to the store once quiet, and byte accounting is exact. No lock, hold or fill is left over. `gate.rs` proves that
//! they find what they are there for.
//!
//! FOREBAY_SEED repeats one seed, FOREBAY_SEEDS says how many are run, or which (`5000..6000`), FOREBAY_LOG=1 shows the
//! events of a run. `make forever` goes on until it is interrupted, or a seed fails.

mod applying;
mod book;
mod client;
mod demanding;
mod detached;
mod expiring;
mod gate;
mod leasing;
mod oracle;
mod outages;
mod owners;
mod quiet;
mod range;
mod regressions;
mod rows;
mod seeds;
mod shared;
mod siblings;
#[path = "../naive/table.rs"]
mod table;
mod tickets;
mod unordered;
mod world;

use seeds::{crash_everywhere, run_all};
use world::Scenario;

/// Seeds of one scenario unless FOREBAY_SEEDS says otherwise.
const SEEDS: u64 = 1000;

#[test]
fn sound_stores() {
    run_all("sound_stores", Scenario::Sound);
}

#[test]
fn faulty_stores() {
    run_all("faulty_stores", Scenario::Faulty);
}

#[test]
fn crashing_disks() {
    run_all("crashing_disks", Scenario::Disk);
}

#[test]
fn outages() {
    run_all("outages", Scenario::Outage);
}

/// Some runs, crashed at each of their steps in turn.
#[test]
fn a_crash_at_every_step() {
    crash_everywhere("a_crash_at_every_step");
}
