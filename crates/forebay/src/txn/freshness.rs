//! In front of a store that others write to an expiry is no part of a document: it bounds how long its copy in the
//! cache is believed.

use std::sync::Arc;
use std::time::Duration;

use super::{Documents, Inner};
use crate::key::Key;
use crate::sync::Ordering;

/// Copies that wait for their moment; with more, a copy leaves at once.
const BOUNDS_MAX: u64 = 65_536;

impl Inner {
    /// No documents yet.
    pub(super) fn documents(&self) -> Documents {
        Documents::in_front_of(&self.runtime, self.fronted.as_ref())
    }

    /// Has each copy leave the cache at its moment.
    pub(super) fn bound_freshness(self: &Arc<Inner>, bounds: Vec<(Key, u64)>) {
        for (key, until_ms) in bounds {
            let left_ms = until_ms.saturating_sub(self.runtime.now_ms());
            let full = self.freshness.load(Ordering::Relaxed) >= BOUNDS_MAX;
            if full || left_ms == 0 {
                self.cache.remove(&key);
                continue;
            }
            self.freshness.fetch_add(1, Ordering::Relaxed);
            let (inner, count, runtime) = (Arc::downgrade(self), self.freshness.clone(), self.runtime.clone());
            self.runtime.spawn(async move {
                runtime.sleep(Duration::from_millis(left_ms)).await;
                count.fetch_sub(1, Ordering::Relaxed);
                if let Some(inner) = inner.upgrade() {
                    inner.cache.remove(&key);
                }
            });
        }
    }
}
