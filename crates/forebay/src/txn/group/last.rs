//! What a group leaves of each key.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;

/// The last result of each key that a group writes, in the order in which the keys came; `None`: it is not known.
pub(super) struct LastReads {
    reads: Vec<(Key, Option<Read>)>,
    /// Each key's hash, and where it stands in `reads`.
    index: HashTable<(u64, usize)>,
    /// Of its own seed: names could be chosen that all have one [`KeyRef::hash64`](crate::key::KeyRef::hash64).
    hasher: foldhash::fast::RandomState,
}

impl LastReads {
    /// With room for so many keys.
    pub(super) fn with_capacity(keys: usize) -> LastReads {
        let index = HashTable::with_capacity(keys);
        LastReads { reads: Vec::with_capacity(keys), index, hasher: foldhash::fast::RandomState::default() }
    }

    /// What a store has told of the documents of one commit; nearly always nothing.
    pub(super) fn told(changed: Vec<(Key, Read)>) -> Option<LastReads> {
        let mut last = (!changed.is_empty()).then(|| LastReads::with_capacity(changed.len()))?;
        for (key, read) in changed {
            last.set(key, Some(read));
        }
        Some(last)
    }

    /// What is known of `key`.
    pub(super) fn get(&self, key: &Key) -> Option<&Read> {
        self.reads[self.position(key, self.hash(key))?].1.as_ref()
    }

    fn position(&self, key: &Key, hash: u64) -> Option<usize> {
        self.index.find(hash, |(_, at)| self.reads[*at].0 == *key).map(|(_, at)| *at)
    }

    fn hash(&self, key: &Key) -> u64 {
        if mutation::on(Fault::KnownHash) { key.borrow().hash64() } else { self.hasher.hash_one(key) }
    }

    /// Takes the place of what came of `key` before; where the key stands.
    pub(super) fn set(&mut self, key: Key, read: Option<Read>) -> usize {
        let hash = self.hash(&key);
        let at = self.position(&key, hash).unwrap_or(self.reads.len());
        match self.reads.get_mut(at) {
            Some((_, overtaken)) => *overtaken = read,
            None => {
                self.index.insert_unique(hash, (hash, at), |(hash, _)| *hash);
                self.reads.push((key, read));
            }
        }
        at
    }

    /// The keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.reads.iter().map(|(key, _)| key)
    }

    /// The same for a key of which nothing is here yet.
    pub(super) fn set_if_new(&mut self, key: Key, read: Option<Read>) {
        if self.position(&key, self.hash(&key)).is_none() {
            self.set(key, read);
        }
    }

    pub(super) fn into_reads(self) -> Vec<(Key, Option<Read>)> {
        self.reads
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::chosen_to_collide;
    use crate::version::Version;

    fn read(sequence: u64) -> Option<Read> {
        Some(Read { value: None, version: Version { incarnation: 1, sequence } })
    }

    proptest! {
        #[test]
        fn the_last_of_each_in_the_order_of_the_first(keys in proptest::collection::vec(0u8..12, 0..60)) {
            let mut model = Vec::<(Key, Option<Read>)>::new();
            let mut last = LastReads::with_capacity(4);
            for (key, sequence) in keys.iter().map(|key| Key::new(0, &[*key])).zip(0..) {
                let known = model.iter().position(|(known, _)| *known == key);
                let at = known.unwrap_or(model.len());
                match model.get_mut(at) {
                    Some(entry) => entry.1 = read(sequence),
                    None => model.push((key.clone(), read(sequence))),
                }
                prop_assert_eq!(last.set(key.clone(), read(sequence)), at);
                prop_assert_eq!(last.get(&key).cloned(), read(sequence));
            }
            prop_assert_eq!(last.get(&Key::new(0, b"another")), None);
            prop_assert_eq!(last.into_reads(), model);
        }
    }

    /// Keys that a look-up of any of `keys` has to compare names with, all together.
    fn compared(keys: &[Key]) -> usize {
        let mut last = LastReads::with_capacity(keys.len());
        for key in keys {
            last.set(key.clone(), None);
        }
        keys.iter().map(|key| last.index.iter_hash(last.hash(key)).count()).sum()
    }

    #[test]
    fn names_cannot_be_chosen_to_collide() {
        let keys = chosen_to_collide(64);
        assert!(compared(&keys) < 3 * keys.len());
        let _on = mutation::put_back(Some(Fault::KnownHash));
        assert_eq!(compared(&keys), keys.len() * keys.len(), "without its own seed this test must fail");
    }
}
