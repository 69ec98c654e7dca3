//! What becomes of a cached document of which another source knows something: that it has changed, or what it is now.

use super::{Cache, Changed};
use crate::key::Key;
use crate::read::Read;
use crate::sync::Ordering;
use crate::version::Version;

impl Cache {
    /// Drops `key` and ends the fills begun before, unless a commit on its way holds it: `None` then. Whether something
    /// was cached.
    pub fn forget(&self, key: &Key) -> Option<bool> {
        let mut partition = self.inner.partition(key.borrow());
        if partition.is_held(key) {
            return None;
        }
        partition.tell_gone(key.borrow(), None);
        let freed = partition.remove(key);
        drop(partition);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.changed(Changed::Key(key, 0));
        Some(freed > 0)
    }

    /// Drops what is cached of `key` and ends its fill, unless `version` is cached: nothing older is read from then on.
    pub fn keep_only(&self, key: &Key, version: Version) {
        let mut partition = self.inner.partition(key.borrow());
        if partition.peek(key.borrow()).is_none_or(|cached| cached.version != version) {
            partition.tell_gone(key.borrow(), None);
            let freed = partition.remove(key);
            drop(partition);
            self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
            self.changed(Changed::Key(key, 0));
        }
    }

    /// The value that is cached under the version `shown` has the version `stored`: its fills end. Nothing, if another
    /// is cached by now. It goes, if it would be charged more under that version.
    pub fn restamp(&self, key: &Key, shown: Version, stored: Version) {
        let freed = self.inner.partition(key.borrow()).restamp(key, shown, stored);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    /// The store holds `read` for `key`: what is cached of it gets that version if it is the same, or goes. Whether it
    /// goes.
    pub fn compare(&self, key: &Key, read: &Read) -> bool {
        let mut partition = self.inner.partition(key.borrow());
        let Some(cached) = partition.peek(key.borrow()).filter(|cached| cached != read) else { return false };
        let same = cached.value == read.value;
        let freed = match same {
            true => partition.restamp(key, cached.version, read.version),
            false => {
                partition.tell_gone(key.borrow(), None);
                partition.remove(key)
            }
        };
        drop(partition);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        if !same {
            self.changed(Changed::Key(key, 0));
        }
        !same
    }
}
