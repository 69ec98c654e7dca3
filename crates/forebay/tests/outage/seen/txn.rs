//! What a transaction is: what it was shown, and what it writes.

use std::collections::BTreeMap;

use forebay::Read;
use forebay::change::Change;
use forebay::store::Write;

/// What a transaction has read, and makes of it.
#[derive(Clone, Debug)]
pub(super) struct Txn {
    pub(super) reads: BTreeMap<usize, Read>,
    pub(super) writes: Vec<(usize, Write)>,
    /// Those that waited for what it read.
    pub(super) built_on: Vec<u64>,
}

impl Txn {
    /// What it was shown and is not merged with what it writes.
    pub(super) fn only_read(&self) -> impl Iterator<Item = (&usize, &Read)> {
        let merges = |key: &usize| {
            let written = self.writes.iter().find(|(written, _)| written == key);
            let rests =
                |write: &Write| write.told || write.changes.iter().any(|change| matches!(change, Change::Pop(_)));
            written.is_some_and(|(_, write)| !rests(write))
        };
        self.reads.iter().filter(move |(key, _)| !merges(key))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = usize> + '_ {
        self.reads.keys().copied().chain(self.writes.iter().map(|(key, _)| *key))
    }
}
