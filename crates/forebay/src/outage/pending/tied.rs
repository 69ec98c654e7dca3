//! Which transactions have to do with a document that they do not write. They name it by a foreign key, share its
//! place, take it along with another that they delete, or have read it. So no caller has to look through all of them.

use std::collections::BTreeSet;
use std::slice;

use hashbrown::HashMap;

use crate::key::Key;
use crate::outage::fingerprint::Fingerprint;
use crate::outage::lanes::Ties;

type Numbers = HashMap<Key, BTreeSet<u64>, foldhash::quality::RandomState>;

/// Their numbers by document. What it takes is charged with the transactions ([`super::charge`]).
#[derive(Debug, Default)]
pub(super) struct Tied {
    /// Of those that name it, or share its place, or delete a row that names it.
    named: Numbers,
    /// Of those that take it along.
    taken: Numbers,
    /// Of those that were shown it with what waits for it.
    read: Numbers,
}

impl Tied {
    pub(super) fn add(&mut self, number: u64, ties: &Ties) {
        add(&mut self.named, number, &ties.follows);
        add(&mut self.taken, number, &ties.takes_along);
    }

    pub(super) fn remove(&mut self, number: u64, ties: &Ties) {
        remove(&mut self.named, number, &ties.follows);
        remove(&mut self.taken, number, &ties.takes_along);
    }

    /// Transaction `number` deletes rows that name these.
    pub(super) fn add_named(&mut self, number: u64, names: &[Key]) {
        add(&mut self.named, number, names);
    }

    pub(super) fn remove_named(&mut self, number: u64, names: &[Key]) {
        remove(&mut self.named, number, names);
    }

    /// Transaction `number` was shown these.
    pub(super) fn add_readers(&mut self, number: u64, shown: &[(Key, Fingerprint)]) {
        shown.iter().for_each(|(key, _)| add(&mut self.read, number, slice::from_ref(key)));
    }

    pub(super) fn remove_readers(&mut self, number: u64, shown: &[(Key, Fingerprint)]) {
        shown.iter().for_each(|(key, _)| remove(&mut self.read, number, slice::from_ref(key)));
    }

    /// Those behind `number` that were shown `key`, ascending.
    pub(super) fn readers(&self, key: &Key, number: u64) -> impl DoubleEndedIterator<Item = &u64> {
        self.read.get(key).into_iter().flat_map(move |readers| readers.range(number + 1..))
    }

    /// Those that name `key` or share its place, or delete a row that names it, ascending.
    pub(super) fn naming(&self, key: &Key) -> impl Iterator<Item = &u64> {
        self.named.get(key).into_iter().flatten()
    }

    /// Those that take `key` along, ascending.
    pub(super) fn taking(&self, key: &Key) -> impl Iterator<Item = &u64> {
        self.taken.get(key).into_iter().flatten()
    }

    /// How many there are in all, for checks.
    pub(super) fn counts(&self) -> [usize; 3] {
        [&self.named, &self.taken, &self.read].map(|numbers| numbers.values().map(BTreeSet::len).sum())
    }

    /// Forgets what follows from the store's tables.
    pub(super) fn clear(&mut self) {
        self.named.clear();
        self.taken.clear();
    }
}

fn add(numbers: &mut Numbers, number: u64, keys: &[Key]) {
    for key in keys {
        numbers.entry(key.clone()).or_default().insert(number);
    }
}

fn remove(numbers: &mut Numbers, number: u64, keys: &[Key]) {
    for key in keys {
        if let Some(of_key) = numbers.get_mut(key) {
            of_key.remove(&number);
            if of_key.is_empty() {
                numbers.remove(key);
            }
        }
    }
}
