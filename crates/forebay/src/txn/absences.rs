//! WATCH on absent keys beside FLUSHALL and FLUSHDB. A clearing gives all that is absent a new version, also what was
//! absent before. So it notes which of the watched keys it found absent, and under which version: then their watchers
//! can tell that nothing has become of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use crate::error::there;
use crate::key::Key;
use crate::sync::{Mutex, MutexGuard};
use crate::version::Version;

/// Absent keys that are watched.
#[derive(Debug, Default)]
pub(super) struct Absences(Mutex<BTreeMap<Key, Absence>>);

#[derive(Debug, Default)]
struct Absence {
    watchers: usize,
    /// Clearings that found it absent: its version before, and behind.
    cleared: Vec<(Version, Version)>,
}

/// One watch of an absent key; forgotten when dropped.
#[derive(Clone, Debug)]
pub struct WatchedAbsence(Arc<Watcher>);

#[derive(Debug)]
struct Watcher {
    absences: Arc<Absences>,
    key: Key,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut keys = self.absences.keys();
        let left = keys.get_mut(&self.key).map(|absence| {
            absence.watchers -= 1;
            absence.watchers
        });
        if left == Some(0) {
            keys.remove(&self.key);
        }
    }
}

impl WatchedAbsence {
    /// Whether clearings alone have made `now` of `then`: at each of them the key was absent as the one before had left
    /// it.
    pub(super) fn leads(&self, then: Version, now: Version) -> bool {
        let keys = self.0.absences.keys();
        let Some(absence) = there(keys.get(&self.0.key)) else { return false };
        let step = |version, (before, after): &(Version, Version)| if *before == version { *after } else { version };
        absence.cleared.iter().fold(then, step) == now
    }
}

impl Absences {
    fn keys(&self) -> MutexGuard<'_, BTreeMap<Key, Absence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `key`, which is absent, is watched from now on.
    pub(super) fn watch(self: &Arc<Absences>, key: &Key) -> WatchedAbsence {
        self.keys().entry(key.clone()).or_default().watchers += 1;
        WatchedAbsence(Arc::new(Watcher { absences: self.clone(), key: key.clone() }))
    }

    /// The keys of these spaces that are watched.
    pub(super) fn of(&self, spaces: &[u8]) -> Vec<Key> {
        self.keys().keys().filter(|key| spaces.contains(&key.space())).cloned().collect()
    }

    /// A clearing under the version `after` found `key` absent, as of `before`.
    pub(super) fn cleared(&self, key: &Key, before: Version, after: Version) {
        if let Some(absence) = self.keys().get_mut(key) {
            absence.cleared.push((before, after));
        }
    }
}
