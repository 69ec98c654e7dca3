//! What is buffered is shown under a version that no store has. A store that others write to gives the row a new one
//! when it is applied. A transaction that read the document before, and commits after, has the first. That version
//! names this very document, so the transaction must not be taken for overtaken.

use std::collections::VecDeque;
use std::fmt;

use hashbrown::HashMap;

use crate::key::Key;
use crate::version::Version;

/// Documents that are remembered, the last: more than there are transactions open at a time.
const RESTAMPED_MAX: usize = 65_536;

/// The last documents that were applied unchanged.
#[derive(Default)]
pub(super) struct Restamped {
    /// The version that was shown, and the one in the store; none if the store has something else.
    versions: HashMap<Key, (Version, Option<Version>), foldhash::quality::RandomState>,
    order: VecDeque<(Key, Version)>,
}

impl Restamped {
    /// The document of `key`, shown as `shown`, is in the store under `stored`, or not at all.
    pub(super) fn add(&mut self, key: &Key, shown: Version, stored: Option<Version>) {
        self.versions.insert(key.clone(), (shown, stored));
        self.order.push_back((key.clone(), shown));
        if self.order.len() > RESTAMPED_MAX
            && let Some((key, shown)) = self.order.pop_front()
            && self.versions.get(&key).is_some_and(|(latest, _)| *latest == shown)
        {
            self.versions.remove(&key);
        }
    }

    /// The document of `key` has another version in the store than it had, or none that is known.
    pub(super) fn move_on(&mut self, key: &Key, moves: impl Fn(Version) -> Option<Version>) {
        if let Some((_, stored)) = self.versions.get_mut(key) {
            *stored = stored.and_then(moves);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The version in the store of the document that was read under `version`; none if the store never had that.
    pub(super) fn stored(&self, key: &Key, version: Version) -> Option<Version> {
        match self.versions.get(key) {
            Some((shown, stored)) if *shown == version => *stored,
            _ => Some(version),
        }
    }
}

/// In the order in which they came.
impl fmt::Debug for Restamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stored = self.order.iter().map(|(key, _)| (key, self.versions.get(key)));
        f.debug_list().entries(stored).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(sequence: u64) -> Version {
        Version { incarnation: 1, sequence }
    }

    #[test]
    fn the_last_version_shown_is_translated_for_a_while() {
        let (mut restamped, key) = (Restamped::default(), Key::new(0, b"k"));
        restamped.add(&key, version(1), Some(version(101)));
        assert_eq!(restamped.stored(&key, version(1)), Some(version(101)));
        restamped.add(&key, version(2), Some(version(102)));
        assert_eq!(restamped.stored(&key, version(1)), Some(version(1)), "that one is overtaken");
        for number in 0..RESTAMPED_MAX as u64 - 2 {
            restamped.add(&Key::new(0, format!("other{number}").as_bytes()), version(3), Some(version(103)));
        }
        assert_eq!(restamped.stored(&key, version(2)), Some(version(102)));
        restamped.add(&Key::new(0, b"another"), version(4), None);
        assert_eq!(restamped.stored(&Key::new(0, b"another"), version(4)), None);
        restamped.add(&Key::new(0, b"one more"), version(3), Some(version(103)));
        assert_eq!(restamped.stored(&key, version(2)), Some(version(2)));
        assert_eq!((restamped.versions.len(), restamped.order.len()), (RESTAMPED_MAX, RESTAMPED_MAX));
    }
}
