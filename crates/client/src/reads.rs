//! What one attempt has read: few keys as a rule, which are searched one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay::key::Key;

use crate::copy::Copy;

/// More keys than this have an index.
const SEARCHED_MAX: usize = 8;

/// A document that was read.
#[derive(Debug)]
pub struct Read {
    pub key: Key,
    pub copy: Arc<Copy>,
    /// It was not fetched for this attempt.
    pub is_hit: bool,
}

/// What was read, each key once, in the order in which it was.
#[derive(Debug, Default)]
pub struct Reads {
    all: Vec<Read>,
    /// Places in `all`, of all keys if there are more than [`SEARCHED_MAX`], else of none.
    index: BTreeMap<Key, usize>,
}

impl Reads {
    fn place(&self, key: &Key) -> Option<usize> {
        match self.index.is_empty() {
            true => self.all.iter().position(|read| read.key == *key),
            false => self.index.get(key).copied(),
        }
    }

    /// The copy that was read of `key`.
    pub fn get(&self, key: &Key) -> Option<&Arc<Copy>> {
        self.all.get(self.place(key)?).map(|read| &read.copy)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The document of `key` that was read is known to be there later as well, as `copy` says.
    pub fn renew(&mut self, key: &Key, copy: Arc<Copy>) {
        if let Some(known) = self.place(key).and_then(|place| self.all.get_mut(place)) {
            known.copy = copy;
        }
    }

    /// Adds a read; it replaces one of its key.
    pub fn insert(&mut self, read: Read) {
        if let Some(known) = self.place(&read.key).and_then(|place| self.all.get_mut(place)) {
            *known = read;
            return;
        }
        if self.all.len() == SEARCHED_MAX {
            self.index = self.all.iter().map(|read| read.key.clone()).zip(0..).collect();
        }
        if self.all.len() >= SEARCHED_MAX {
            self.index.insert(read.key.clone(), self.all.len());
        }
        self.all.push(read);
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Read> {
        self.all.iter()
    }

    /// Those that copies have served.
    pub fn hits(&self) -> impl Iterator<Item = &Key> {
        self.all.iter().filter(|read| read.is_hit).map(|read| &read.key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use forebay::version::Version;

    use super::*;
    use crate::copies::tests::copy;

    #[test]
    fn few_and_many_are_found_alike() {
        let now = Instant::now();
        let key = |number: u32| Key::new(0, &number.to_be_bytes());
        let read = |number: u32, sequence| {
            let copy = Arc::new(copy(Version { incarnation: 1, sequence }, None, now));
            Read { key: key(number), copy, is_hit: number.is_multiple_of(2) }
        };
        let mut reads = Reads::default();
        for count in 1..=3 * SEARCHED_MAX as u32 {
            // Backwards, and one of them again.
            reads.insert(read(1000 - count, 1));
            reads.insert(read(1000 - count / 2 - 1, 2));
            let versions = |version: u64| reads.iter().filter(|read| read.copy.version.sequence == version).count();
            assert_eq!(versions(1) + versions(2), count as usize);
            assert!((1..=count).all(|number| reads.get(&key(1000 - number)).is_some()));
            assert!(reads.get(&key(1000)).is_none() && reads.get(&key(999 - count)).is_none());
            assert_eq!(reads.hits().count(), (1..=count).filter(|number| number % 2 == 0).count());
        }
    }
}
