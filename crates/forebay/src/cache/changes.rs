//! What caches elsewhere are told: that a key shows something else by now, or may.
//!
//! **Invariant.** It is told after the change is visible here. So a cache that is told, and then reads the key again,
//! reads no older value. One that has asked to be told before it read is told of each change that it has not seen.

use std::sync::OnceLock;

use super::Cache;
use crate::key::Key;

/// What may show something else from now on.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'a> {
    /// One key, and the client that has written it: 0 if that is none of this node's.
    Key(&'a Key, u32),
    /// Any key.
    Everything,
}

type Told = Box<dyn Fn(Changed<'_>) + Send + Sync>;

/// Who is told, if anyone is.
#[derive(Default)]
pub(super) struct Changes(OnceLock<Told>);

impl Cache {
    /// Has `told` called for each change. It may be called under locks of keys, so it must wait for nothing. The first
    /// that is named stays.
    pub fn tell_changes(&self, told: impl Fn(Changed<'_>) + Send + Sync + 'static) {
        let _ = self.inner.changes.0.set(Box::new(told));
    }

    /// Something has changed.
    pub(crate) fn changed(&self, changed: Changed<'_>) {
        if let Some(told) = self.inner.changes.0.get() {
            told(changed);
        }
    }
}
