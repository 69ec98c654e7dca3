//! A store that others write to as well. It makes its own versions for what it makes otherwise than computed, and for
//! what others write. A trigger may put a field into every hash that changes.

use std::cell::Cell;
use std::collections::BTreeMap;

use forebay::change::{Change, apply_all};
use forebay::store::{Commit, CommitOutcome, Since, Write};
use forebay::value::Data;
use forebay::{Blob, Key, Read, TxnId, Value, Version};

/// What the trigger sets.
const STAMP: &[u8] = b"stamp";

pub struct Database {
    documents: BTreeMap<Key, Read>,
    /// With the transaction of its own in which each was applied.
    applied: BTreeMap<TxnId, u64>,
    /// By which such transaction each document was written last.
    writers: BTreeMap<Key, u64>,
    transaction: u64,
    trigger: bool,
    /// It says of all that it writes what that is then, under versions of its own, as databases with rows do.
    rows: bool,
    clock: Cell<u64>,
}

/// `value` without what the trigger makes of it.
pub fn unstamped(value: Option<&Value>) -> Option<Value> {
    let mut value = value.cloned();
    if matches!(&value, Some(Value { data: Data::Hash(_), .. })) {
        apply_all(&mut value, &[Change::UnsetField(Blob::from(STAMP))]).expect("it is a hash");
    }
    value
}

impl Database {
    pub fn new(trigger: bool, rows: bool) -> Database {
        let (documents, applied, writers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Database { documents, applied, writers, transaction: 0, trigger, rows, clock: Cell::new(0) }
    }

    /// The version of a row that is not there is odd, and another one each time.
    pub fn get(&self, key: &Key) -> Read {
        let read = self.documents.get(key).cloned().unwrap_or(Read { value: None, version: Version::ZERO });
        let absent = || Read { value: None, version: Version { incarnation: 1, sequence: 2 * self.tick() + 1 } };
        if self.rows && read.value.is_none() { absent() } else { read }
    }

    /// Whether a document has this version.
    fn has_version(&self, key: &Key, version: Version) -> bool {
        let read = self.get(key);
        match self.rows && read.value.is_none() {
            true => version.sequence % 2 == 1,
            false => read.version == version,
        }
    }

    fn tick(&self) -> u64 {
        self.clock.update(|clock| clock + 1);
        self.clock.get()
    }

    /// Whether a commit is in it.
    pub fn has(&self, id: TxnId) -> bool {
        self.applied.contains_key(&id)
    }

    fn own_version(&self) -> Version {
        // Those of rows are numbers that commits have, too.
        let incarnation = if self.rows { 1 } else { 9 };
        Version { incarnation, sequence: 2 * self.tick() }
    }

    /// Makes changes to a document; nothing if they do not fit. Whether the version is to be its own.
    fn change(&self, key: &Key, changes: &[Change]) -> Option<Option<Value>> {
        let mut value = self.get(key).value;
        apply_all(&mut value, changes).ok()?;
        if self.trigger && matches!(&value, Some(Value { data: Data::Hash(_), .. })) {
            let stamp = Change::SetField(Blob::from(STAMP), Blob::from(self.tick().to_string().as_bytes()));
            apply_all(&mut value, &[stamp]).expect("it is a hash");
        }
        Some(value)
    }

    /// From now on it is another transaction.
    pub fn begin(&mut self) {
        self.transaction += 1;
    }

    /// Another program writes; nothing if that does not fit.
    pub fn write(&mut self, key: &Key, change: Change) -> bool {
        let Some(value) = self.change(key, &[change]) else { return false };
        self.begin();
        let version = self.own_version();
        self.set(key, Read { value, version });
        true
    }

    fn set(&mut self, key: &Key, read: Read) {
        self.documents.insert(key.clone(), read);
        self.writers.insert(key.clone(), self.transaction);
    }

    /// What it says of documents of a commit that it had already.
    fn since(&self, commit: &Commit, by: u64) -> Vec<Since> {
        let since = |write: &Write| {
            let read = self.get(&write.key);
            // Of a row that is not there no database knows who has deleted it.
            let untouched = read.value.is_some() && self.writers.get(&write.key) == Some(&by);
            Since { key: write.key.clone(), read, untouched }
        };
        commit.writes.iter().map(since).collect()
    }

    /// Applies a commit, once.
    pub fn commit(&mut self, commit: &Commit) -> CommitOutcome {
        if let Some(by) = self.applied.get(&commit.id) {
            return CommitOutcome::Repeated(self.since(commit, *by));
        }
        let stale = commit.checks.iter().filter(|(key, version)| !self.has_version(key, *version));
        let stale: Vec<Key> = stale.map(|(key, _)| key.clone()).collect();
        if !stale.is_empty() {
            return CommitOutcome::Conflict(stale);
        }
        let mut made = Vec::new();
        for write in &commit.writes {
            match self.change(&write.key, &write.changes) {
                Some(value) => made.push(value),
                None => return CommitOutcome::Refused("it does not fit".into()),
            }
        }
        self.applied.insert(commit.id, self.transaction);
        let mut told = Vec::new();
        for (write, value) in commit.writes.iter().zip(made) {
            let computed = !write.unseen && write.after == value && !self.rows;
            let version = if computed { commit.version } else { self.own_version() };
            let read = Read { value, version };
            if !computed {
                told.push((write.key.clone(), read.clone()));
            }
            self.set(&write.key, read);
        }
        CommitOutcome::Committed(told)
    }
}
