//! Finding by key in a list: in a bulk change of thousands of documents not all of it is to be looked through for each
//! of them, and for the usual one or two nothing is to be built.

use hashbrown::HashMap;

use crate::key::Key;
use crate::outage::record::Written;

/// So many are looked through.
const FEW: usize = 8;

/// What is found by its key.
pub(super) trait Keyed {
    fn key(&self) -> &Key;
}

impl<T> Keyed for (Key, T) {
    fn key(&self) -> &Key {
        &self.0
    }
}

impl Keyed for Written {
    fn key(&self) -> &Key {
        &self.key
    }
}

/// A list with each key once.
pub(super) enum ByKey<'a, E> {
    Few(&'a [E]),
    Many(HashMap<&'a Key, &'a E, foldhash::quality::RandomState>),
}

impl<'a, E: Keyed> ByKey<'a, E> {
    pub(super) fn new(list: &'a [E]) -> ByKey<'a, E> {
        match list.len() {
            0..=FEW => ByKey::Few(list),
            _ => ByKey::Many(list.iter().map(|found| (found.key(), found)).collect()),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&'a E> {
        match self {
            ByKey::Few(list) => list.iter().find(|found| found.key() == key),
            ByKey::Many(map) => map.get(key).copied(),
        }
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }
}
