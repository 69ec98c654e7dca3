//! Finding by key in a list. In a bulk change of thousands of documents not all of it is looked through for each of
//! them. For the usual one or two nothing is built.

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

/// Where each document stands in a list that has it once: places alone, so that what stands there may change while the
/// keys do not.
#[derive(Debug, Default)]
pub(super) struct Places(Box<[u32]>);

impl Places {
    pub(super) fn of(list: &[impl Keyed]) -> Places {
        if list.len() <= FEW {
            return Places::default();
        }
        let mut places: Vec<u32> = (0..list.len() as u32).collect();
        places.sort_unstable_by(|left, right| list[*left as usize].key().cmp(list[*right as usize].key()));
        Places(places.into())
    }

    /// Where `key` stands in `list`, of which these are the places.
    pub(super) fn find(&self, list: &[impl Keyed], key: &Key) -> Option<usize> {
        if self.0.is_empty() {
            debug_assert!(list.len() <= FEW, "the places are those of this list");
            return list.iter().position(|found| found.key() == key);
        }
        let found = |place: &u32| list.get(*place as usize).map(Keyed::key).cmp(&Some(key));
        self.0.binary_search_by(found).ok().map(|at| self.0[at] as usize)
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
