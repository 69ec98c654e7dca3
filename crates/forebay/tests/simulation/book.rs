//! What a run leaves for its oracles: who was told what, what happened, and the log of events.

#![allow(dead_code, reason = "each simulation uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::runtime::Runtime;
use forebay::txn::history::Record;
use forebay::txn::{Landed, TxnError};
use forebay::{Key, TxnId};

use crate::client::happens_too;
use crate::oracle::committed_under;
use crate::world::Scenario;

/// Why a run is wrong; a panic carries it.
#[derive(Debug)]
pub struct Broken {
    /// The promise that does not hold.
    pub oracle: &'static str,
    /// How that was seen.
    pub what: String,
}

/// Ends the run: a promise does not hold.
pub fn broken(oracle: &'static str, what: impl Into<String>) -> ! {
    std::panic::panic_any(Broken { oracle, what: what.into() })
}

/// Ends the run unless `holds`.
pub fn expect(holds: bool, oracle: &'static str, what: impl FnOnce() -> String) {
    if !holds {
        broken(oracle, what());
    }
}

/// What a client was told of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing: it is on its way, or the client is gone.
    Nothing,
    /// Committed.
    Committed,
    /// Not committed.
    Failed,
    /// That nobody knows.
    Unknown,
}

/// One commit as its client knows it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub told: Told,
    pub increments: Vec<(Key, i64)>,
}

/// How often what happened: a simulation in which something never happens does not test it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub committed: u64,
    pub read_without_locks: u64,
    pub conflicts: u64,
    pub lock_timeouts: u64,
    pub store_down: u64,
    pub unknown: u64,
    pub dropped: u64,
    pub clears: u64,
    pub crashes: u64,
    pub reopened_with_loss: u64,
    pub lost: u64,
    pub watch_failed: u64,
    pub expired: u64,
    pub buffered: u64,
    pub full: u64,
    pub outages: u64,
    pub quarantined: u64,
    pub backups: u64,
    pub unseen: u64,
    pub killed: u64,
    pub paused: u64,
    pub wounded: u64,
    /// Transactions of caches outside that ended without a message, and those that had read what was stale.
    pub alone: u64,
    pub stale: u64,
    /// Messages of CLIENT TRACKING.
    pub told: u64,
}

impl Marks {
    /// Panics if something never happened that is to be tested.
    pub fn all_happened(&self, scenario: Scenario) {
        let always = [
            (self.read_without_locks, "reads without locks"),
            (self.conflicts, "conflicts"),
            (self.lock_timeouts, "lock time-outs"),
            (self.wounded, "transactions that yield"),
            (self.dropped, "dropped connections"),
            (self.clears, "clearings"),
            (self.watch_failed, "watches that fail"),
            (self.expired, "expired documents"),
            (self.stale, "leases that had run out"),
        ];
        let faulty = [(self.store_down, "errors of the store"), (self.unknown, "unknown outcomes")];
        let disk =
            [(self.crashes, "crashes"), (self.reopened_with_loss, "reopenings with loss"), (self.lost, "losses")];
        let mut expected = always.to_vec();
        expected.extend(happens_too(self, scenario));
        if !matches!(scenario, Scenario::Sound | Scenario::Outage) {
            expected.extend(faulty);
        }
        if scenario == Scenario::Disk {
            expected.extend(disk);
        }
        if scenario != Scenario::Outage {
            expected.push((self.alone, "transactions that end without a message"));
        }
        if scenario == Scenario::Outage {
            let outages = [
                (self.buffered, "buffered transactions"),
                (self.full, "full buffers"),
                (self.outages, "outages"),
                (self.quarantined, "quarantined transactions"),
                (self.backups, "databases restored from a backup"),
                (self.crashes, "crashes"),
            ];
            expected.extend(outages);
        }
        for (count, what) in expected {
            assert!(count > 0, "no {what} in any run");
        }
    }

    pub fn add(&mut self, other: &Marks) {
        let pairs = [
            (&mut self.committed, other.committed),
            (&mut self.read_without_locks, other.read_without_locks),
            (&mut self.conflicts, other.conflicts),
            (&mut self.lock_timeouts, other.lock_timeouts),
            (&mut self.store_down, other.store_down),
            (&mut self.unknown, other.unknown),
            (&mut self.dropped, other.dropped),
            (&mut self.clears, other.clears),
            (&mut self.crashes, other.crashes),
            (&mut self.reopened_with_loss, other.reopened_with_loss),
            (&mut self.lost, other.lost),
            (&mut self.watch_failed, other.watch_failed),
            (&mut self.expired, other.expired),
            (&mut self.buffered, other.buffered),
            (&mut self.full, other.full),
            (&mut self.outages, other.outages),
            (&mut self.quarantined, other.quarantined),
            (&mut self.backups, other.backups),
            (&mut self.unseen, other.unseen),
            (&mut self.killed, other.killed),
            (&mut self.paused, other.paused),
            (&mut self.wounded, other.wounded),
            (&mut self.alone, other.alone),
            (&mut self.stale, other.stale),
            (&mut self.told, other.told),
        ];
        for (mine, more) in pairs {
            *mine += more;
        }
    }
}

#[derive(Debug, Default)]
pub struct Pages {
    pub commits: BTreeMap<TxnId, Entry>,
    pub marks: Marks,
    /// Per counter: increments that were acknowledged, and those of which nobody knows. For clients that see only
    /// replies, as are the next two.
    pub sums: BTreeMap<String, (i64, i64)>,
    /// Per counter: the greatest number that anyone was shown.
    pub floors: BTreeMap<String, i64>,
    /// What increments were told.
    pub numbers: BTreeSet<(String, i64)>,
    /// Whether the store may lose the end of what it acknowledged.
    pub lossy: bool,
    /// Hash of the events noted so far.
    pub log: u64,
}

/// The book of a run; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Book(Arc<Mutex<Pages>>);

impl Book {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event: it becomes part of the log by which two runs of one seed are compared. FOREBAY_LOG=1 shows it.
    pub fn note(&self, runtime: &Runtime, event: &str) {
        let at = runtime.elapsed().as_micros() as u64;
        let mut pages = self.pages();
        for byte in at.to_le_bytes().iter().chain(event.as_bytes()) {
            pages.log = (pages.log ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if std::env::var_os("FOREBAY_LOG").is_some() {
            eprintln!("{at:>9} us  {event}");
        }
    }

    /// Commits of which the history knows, but no client told: those of a look behind the scenes, and of the dead.
    pub fn enter(&self, records: &[Record]) {
        let mut pages = self.pages();
        for record in records {
            let Some(version) = committed_under(record) else { continue };
            let told = if record.ended == u64::MAX { Told::Nothing } else { Told::Committed };
            pages.commits.entry(TxnId(version)).or_insert(Entry { told, increments: Vec::new() });
        }
    }

    /// A commit is on its way.
    pub fn began(&self, id: Option<TxnId>, increments: Vec<(Key, i64)>) {
        if let Some(id) = id {
            self.pages().commits.insert(id, Entry { told: Told::Nothing, increments });
        }
    }

    /// Its client was told.
    pub fn told(&self, id: Option<TxnId>, outcome: &Result<Option<Landed>, TxnError>) {
        let mut pages = self.pages();
        let marks = &mut pages.marks;
        let told = match outcome {
            Ok(_) => {
                marks.committed += 1;
                Told::Committed
            }
            Err(error) => {
                marks.error(error);
                match error {
                    TxnError::Unknown(_) => Told::Unknown,
                    _ => Told::Failed,
                }
            }
        };
        if let Some(entry) = id.and_then(|id| pages.commits.get_mut(&id)) {
            entry.told = told;
        }
    }
}

impl Marks {
    /// A transaction ended with `error`.
    pub fn error(&mut self, error: &TxnError) {
        match error {
            TxnError::Conflict(why) if why.starts_with("waited") => self.lock_timeouts += 1,
            TxnError::Conflict(_) => self.conflicts += 1,
            TxnError::Wounded(_) => self.wounded += 1,
            TxnError::StoreDown(_) | TxnError::BufferFull(_) => self.store_down += 1,
            TxnError::Unknown(_) => self.unknown += 1,
            TxnError::Refused(_) => self.lost += 1,
            error => broken("errors", error.to_string()),
        }
    }
}
