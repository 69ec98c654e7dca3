//! Which transactions have to do with a document that they do not write: they name it by a foreign key, share its
//! place, or take it along with another that they delete. So that nobody has to look through all of them.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::key::Key;
use crate::outage::lanes::Ties;

type Numbers = HashMap<Key, BTreeSet<u64>, foldhash::quality::RandomState>;

/// Their numbers by document. What it takes is charged with the transactions ([`super::charge`]).
#[derive(Debug, Default)]
pub(super) struct Tied {
    /// Of those that name it, or share its place, or delete a row that names it.
    named: Numbers,
    /// Of those that take it along.
    taken: Numbers,
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

    /// Those that name `key` or share its place, or delete a row that names it, ascending.
    pub(super) fn naming(&self, key: &Key) -> impl Iterator<Item = &u64> {
        self.named.get(key).into_iter().flatten()
    }

    /// Those that take `key` along, ascending.
    pub(super) fn taking(&self, key: &Key) -> impl Iterator<Item = &u64> {
        self.taken.get(key).into_iter().flatten()
    }

    /// How many there are in all, for checks.
    pub(super) fn counts(&self) -> [usize; 2] {
        [&self.named, &self.taken].map(|numbers| numbers.values().map(BTreeSet::len).sum())
    }

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
