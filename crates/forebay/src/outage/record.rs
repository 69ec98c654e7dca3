//! Plain data of the outage: a buffered transaction and its story. The journal stores these records and no others.

use std::fmt;

use super::fingerprint::Fingerprint;
use super::lanes::{LaneRule, Ties};
use crate::change::Change;
use crate::key::Key;
use crate::read::Read;
use crate::store::{Commit, GivenId, Store, Write};
pub use crate::tier::Description;
use crate::version::{TxnId, Version};

/// 128 random bits that tell one journal's life from another's: a new one begins with a new journal, and whenever
/// acknowledged records may have been lost. A ticket is an epoch and a number, so that it is never taken for another's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u128);

/// The changes to one document: a [`Write`] without its result, which is not the journal's to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Which document.
    pub key: Key,
    /// What happens to it, in order. Never empty.
    pub changes: Vec<Change>,
    /// What it held was told, or decided the changes ([`Write::told`]).
    pub told: bool,
}

/// One buffered transaction: acknowledged, and not in the store yet as far as anyone knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffered {
    /// Its place in the order of acknowledgement; from 1 on, rising, never used twice, across epochs neither.
    pub number: u64,
    /// The id under which the store tells a repeated commit from a new one.
    pub id: TxnId,
    /// The version that the changed documents get.
    pub version: Version,
    /// Ids that clients gave; more than one where transactions were merged.
    pub given: Vec<GivenId>,
    /// The store may have seen this id: it answered `Unknown`. Whatever a journal holds when it is opened has to be
    /// taken for sent.
    pub sent: bool,
    /// It may have been sent otherwise than the journal says: what it writes was not checked to be what `known` is made
    /// to. Until the journal notes that, each sending was.
    pub unchecked: bool,
    /// Wall clock when it was buffered, ms since the Unix epoch.
    pub buffered_at_ms: u64,
    /// Versions that must be current when it is applied.
    pub checks: Vec<(Key, Version)>,
    /// What changes, each key once.
    pub writes: Vec<Written>,
    /// Documents that it read while earlier transactions were pending for them, as they were shown: with all of these.
    /// The store must come to hold the same before it is applied. Not those that it changes, since what it changes is
    /// merged with what is there, unless it told what they held.
    pub shown: Vec<(Key, Fingerprint)>,
    /// Documents as they are known to be behind this transaction, where that does not follow from what is pending
    /// before it: for those whose first buffered change this is. Each with the version in the store of what it was made
    /// to; with one that no store has where that is not known.
    pub known: Vec<(Key, Read)>,
}

/// What the journal is told. Order matters, and is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A transaction was buffered. Its number is above all before.
    Buffered(Buffered),
    /// These are in the store, or were taken back before anybody was told of them; ascending. Before the store may
    /// forget their ids, this has to be safe on disk
    /// ([`Journal::flush`](super::Journal::flush) where durability is not `always`).
    Applied(Vec<u64>),
    /// The store refuses this one; it waits for the operator.
    Quarantined {
        /// Which.
        number: u64,
        /// The store's words.
        reason: String,
    },
    /// The operator has it tried again, or has to decide again whether it is applied.
    Retried {
        /// Which.
        number: u64,
    },
    /// The operator has it applied, whatever it had read and others have written since.
    Ordered {
        /// Which.
        number: u64,
    },
    /// The operator gave it up; it will never be applied.
    Dropped(Dropped),
    /// One stands for several from now on, all of them pending. Its number is one of theirs, or above all before.
    Merged {
        /// What is to be applied instead. Its id is new.
        into: Buffered,
        /// What it replaces.
        from: Vec<u64>,
    },
    /// The document of `key` as it is just behind the pending transaction `number`: for a transaction that became the
    /// first of its document because those before it were applied.
    Known {
        /// Which pending transaction.
        number: u64,
        /// Which document.
        key: Key,
        /// What is known of it.
        read: Read,
        /// It was sent before without the check that it was made to that. Said by one record, since a full disk may
        /// lose either of two.
        unchecked: bool,
    },
    /// The pending transaction `number` is sent from now on without the check that the journal would say it had. This
    /// has to be safe on disk before it is.
    Unchecked {
        /// Which.
        number: u64,
    },
    /// What the pending transaction `number` was shown of `key` has become this, since transactions before it were
    /// applied to what it was computed from.
    Settled {
        /// Which.
        number: u64,
        /// Which document.
        key: Key,
        /// What the store has made of it, and what waits before.
        fingerprint: Fingerprint,
        /// Under which version the store has it, if nothing waits before.
        stored: Option<Version>,
    },
}

/// A transaction that an operator gave up: remembered for clients that ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Which.
    pub number: u64,
    /// The operator's words.
    pub reason: String,
    /// Ids that clients gave it.
    pub given: Vec<GivenId>,
}

/// What a pending transaction waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store.
    Waiting,
    /// The store, which gets it by an operator's word, whatever else is applied.
    Ordered,
    /// The operator; the reason is the store's.
    Quarantined(String),
    /// What becomes of this one, which is quarantined or behind such a one itself. No journal says that.
    Behind(u64),
}

/// A transaction that the journal holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The transaction, with all documents that are known for it.
    pub buffered: Buffered,
    /// What it waits for.
    pub standing: Standing,
    /// Earlier ones became part of it.
    pub merged: bool,
    /// Of what it was shown, the documents that the store has, each with its version there.
    pub settled: Vec<(Key, Version)>,
}

/// Acknowledged transactions that may be lost: a power failure took what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The epoch in which they were acknowledged; it has ended.
    pub epoch: Epoch,
    /// The last number that is still there, or was: everything acknowledged above it is gone.
    pub after: u64,
    /// No number above this one was ever acknowledged in that epoch.
    pub up_to: u64,
    /// The highest number above `after` of which a trace was found in the file; 0 if none. At least this one was
    /// written.
    pub seen: u64,
}

impl Loss {
    /// Whether a ticket of this epoch and number is lost, if it was ever given.
    pub fn covers(&self, epoch: Epoch, number: u64) -> bool {
        self.epoch == epoch && (self.after < number && number <= self.up_to)
    }
}

impl Buffered {
    /// What is buffered of `commit` under `number`: no documents.
    pub fn from_commit(number: u64, commit: &Commit, buffered_at_ms: u64) -> Buffered {
        // What is kept for long must not hold a larger allocation than it needs.
        let compact = |change: &Change| match change {
            Change::Put(value) => Change::Put(value.clone().compact()),
            change => change.clone(),
        };
        let written = |write: &Write| {
            let changes = write.changes.iter().map(compact).collect();
            Written { key: write.key.compact(), changes, told: write.told }
        };
        Buffered {
            number,
            id: commit.id,
            version: commit.version,
            given: commit.given.clone(),
            sent: false,
            unchecked: false,
            buffered_at_ms,
            checks: commit.checks.clone(),
            writes: commit.writes.iter().map(written).collect(),
            shown: Vec::new(),
            known: Vec::new(),
        }
    }

    /// What it has to do with others.
    pub fn ties(&self, rule: LaneRule, store: &dyn Store) -> Ties {
        let read = self.checks.iter().map(|(key, _)| key).chain(self.shown.iter().map(|(key, _)| key));
        rule.ties(store, self.writes.iter().map(|write| (&write.key, &*write.changes)), read)
    }

    /// The commit that applies it. What the documents are afterwards is not known.
    pub fn to_commit(&self) -> Commit {
        let write = |written: &Written| Write {
            key: written.key.clone(),
            changes: written.changes.clone().into(),
            after: None,
            unseen: false,
            told: written.told,
        };
        let writes = self.writes.iter().map(write).collect();
        Commit { checks: self.checks.clone(), given: self.given.clone(), ..Commit::new(self.id, self.version, writes) }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
