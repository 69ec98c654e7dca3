//! In front of a store that others write to an expiry is no part of a document: it bounds how long its copy in the
//! cache is believed. While the store is away no copy can be had in its place: what is believed no longer is served
//! like all else that is cached then, and leaves when the store is back.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Documents, Inner};
use crate::key::Key;
use crate::sync::Ordering;

/// Copies that wait for their moment; with more, a copy leaves at once.
const BOUNDS_MAX: u64 = 65_536;

/// Pause between two looks whether a store that is away is back.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
                let Some(inner) = inner.upgrade() else { return };
                if inner.store.is_away() {
                    return inner.keep_overdue(key);
                }
                count.fetch_sub(1, Ordering::Relaxed);
                inner.cache.remove(&key);
            });
        }
    }

    /// The moment of this copy has come while the store is away.
    fn keep_overdue(self: &Arc<Inner>, key: Key) {
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        overdue.push(key);
        if overdue.len() > 1 {
            return;
        }
        let (inner, runtime) = (Arc::downgrade(self), self.runtime.clone());
        self.runtime.spawn(async move {
            loop {
                runtime.sleep(LOOK_EVERY).await;
                let Some(inner) = inner.upgrade() else { return };
                if inner.store.is_away() {
                    continue;
                }
                let overdue = std::mem::take(&mut *inner.overdue.lock().unwrap_or_else(PoisonError::into_inner));
                inner.freshness.fetch_sub(overdue.len() as u64, Ordering::Relaxed);
                return overdue.iter().for_each(|key| inner.cache.remove(key));
            }
        });
    }
}
