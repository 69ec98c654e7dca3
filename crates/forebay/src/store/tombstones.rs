//! Versions of absent keys. A delete leaves its version here, so that an absent key's version never falls. The table
//! is bounded. What falls out of it raises a floor that stands for every other absent key.

use std::collections::{BTreeMap, HashMap};

use crate::key::{Key, SPACES};
use crate::version::Version;

/// Deleted keys whose own version is remembered; beyond it the oldest is folded into the floor.
pub const TOMBSTONES_MAX: usize = 65_536;

/// Bytes of their names, beyond which the oldest is folded as well.
const TOMBSTONE_NAME_BYTES_MAX: usize = 8 << 20;

/// The version of an absence, and the group that made it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The absence's version.
    pub version: Version,
    /// Number of the group that deleted the key or raised the floor. A reader whose snapshot is older must not use it.
    pub group: u64,
}

/// A bounded table from absent key to version. A key that is written again keeps its old tombstone until the next
/// one: the table is only asked about keys that are absent, and then the last delete is the one that counts.
#[derive(Debug)]
pub struct Tombstones {
    by_key: HashMap<Key, (u64, Absence), foldhash::fast::RandomState>,
    by_age: BTreeMap<u64, Key>,
    next_age: u64,
    /// Per key space: clearing one must not lift the versions of another above those minted since.
    floors: [Absence; SPACES as usize],
    group: u64,
    limit: usize,
    /// Bytes of the names in `by_key`.
    name_bytes: usize,
}

impl Tombstones {
    /// An empty table: every absent key has the version (`incarnation`, 0), above all that earlier incarnations minted.
    pub fn new(incarnation: u64) -> Tombstones {
        Tombstones::with_limit(incarnation, TOMBSTONES_MAX)
    }

    fn with_limit(incarnation: u64, limit: usize) -> Tombstones {
        let floor = Absence { version: Version { incarnation, sequence: 0 }, group: 0 };
        let floors = [floor; SPACES as usize];
        Tombstones {
            by_key: HashMap::default(),
            by_age: BTreeMap::new(),
            next_age: 0,
            floors,
            group: 0,
            limit,
            name_bytes: 0,
        }
    }

    /// Says that the deletes of all groups up to `group` are entered.
    pub fn reach(&mut self, group: u64) {
        self.group = group;
    }

    /// The newest group whose deletes are all entered.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// The version of the absence of `key`, and the newest group that it rests on.
    pub fn absence(&self, key: &Key) -> Absence {
        let floor = self.floors[usize::from(key.space())];
        match self.by_key.get(key) {
            Some((_, own)) if own.version >= floor.version => *own,
            _ => floor,
        }
    }

    /// Remembers that `group` deleted `key` at `version`.
    pub fn insert(&mut self, key: Key, version: Version, group: u64) {
        let key = key.compact();
        let age = self.next_age;
        self.next_age += 1;
        self.name_bytes += key.heap_bytes();
        if let Some((old_age, _)) = self.by_key.insert(key.clone(), (age, Absence { version, group })) {
            self.name_bytes -= key.heap_bytes();
            self.by_age.remove(&old_age);
        }
        self.by_age.insert(age, key);
        while self.by_key.len() > self.limit || self.name_bytes > TOMBSTONE_NAME_BYTES_MAX {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.name_bytes -= oldest.heap_bytes();
            if let Some((_, absence)) = self.by_key.remove(&oldest) {
                self.raise_floor(oldest.space(), absence.version, group);
            }
        }
    }

    /// Raises the version of every absent key of `space` to at least `version`.
    pub fn raise_floor(&mut self, space: u8, version: Version, group: u64) {
        if let Some(floor) = self.floors.get_mut(usize::from(space)).filter(|floor| version > floor.version) {
            *floor = Absence { version, group };
        }
    }

    /// Bytes that a full table occupies, roughly; for the memory budget.
    pub fn bytes(&self) -> usize {
        let entry = size_of::<(Key, (u64, Absence))>() + size_of::<(u64, Key)>() + 64;
        self.by_key.len() * entry + self.name_bytes
    }

    /// Whether the two indexes agree and the bound holds.
    #[cfg(test)]
    fn validate(&self) {
        assert!(self.by_key.len() <= self.limit);
        assert_eq!(self.by_key.len(), self.by_age.len());
        assert_eq!(self.name_bytes, self.by_key.keys().map(Key::heap_bytes).sum::<usize>());
        for (age, key) in &self.by_age {
            assert_eq!(self.by_key[key].0, *age);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clearing_one_space_lifts_no_version_of_another() {
        let mut tombstones = Tombstones::new(3);
        let version = Version { incarnation: 3, sequence: 9 };
        tombstones.raise_floor(1, version, 1);
        assert_eq!(tombstones.absence(&Key::new(1, b"k")).version, version);
        assert_eq!(tombstones.absence(&Key::new(0, b"k")).version, Version { incarnation: 3, sequence: 0 });
    }

    proptest! {
        /// Against a model that forgets nothing: a version is exact while the table is not full, and never falls.
        #[test]
        fn absence_versions_never_fall(deletes in prop::collection::vec(0u8..24, 0..200), limit in 1usize..12) {
            let mut tombstones = Tombstones::with_limit(7, limit);
            let mut seen = HashMap::<u8, Version>::new();
            for (at, name) in deletes.into_iter().enumerate() {
                let version = Version { incarnation: 7, sequence: at as u64 + 1 };
                tombstones.insert(Key::new(0, &[name]), version, at as u64 + 1);
                tombstones.validate();
                prop_assert_eq!(tombstones.absence(&Key::new(0, &[name])).version, version);
                for name in 0..24u8 {
                    let now = tombstones.absence(&Key::new(0, &[name]));
                    let before = seen.insert(name, now.version).unwrap_or(Version { incarnation: 7, sequence: 0 });
                    prop_assert!(now.version >= before, "{} fell from {} to {}", name, before, now.version);
                    prop_assert!(now.group <= at as u64 + 1);
                }
            }
        }
    }
}
