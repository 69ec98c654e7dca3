//! What others write to a store that they share with us leaves the cache.

use std::sync::Arc;

use super::Engine;
use super::compare::compare;
use crate::cache::Cache;
use crate::store::Outside;

impl Engine {
    /// Drops from the cache what others write to the store, for as long as an engine is there and the store can tell.
    /// What a commit of ours installs may be older than what others wrote behind it: so a key goes once more when the
    /// commits that were on their way are published.
    pub fn start_watching(&self) {
        let inner = Arc::downgrade(&self.inner);
        self.inner.runtime.spawn(async move {
            loop {
                let Some(store) = inner.upgrade().map(|inner| inner.store.clone()) else { return };
                let Some(outside) = store.outside().await else { return };
                let Some(inner) = inner.upgrade() else { return };
                let unsettled = inner.committer.unsettled();
                let doubtful =
                    (outside == Outside::Doubtful).then(|| inner.comparison.begin(inner.cache.stats().entries));
                heed(&inner.cache, &outside);
                if unsettled.is_empty() && doubtful.is_none() {
                    continue;
                }
                let (weak, cache, runtime) = (Arc::downgrade(&inner), inner.cache.clone(), inner.runtime.clone());
                runtime.spawn(async move {
                    for settled in unsettled {
                        settled.wait().await;
                    }
                    match doubtful {
                        Some(number) => compare(weak, number).await,
                        None => heed(&cache, &outside),
                    }
                });
            }
        });
    }
}

fn heed(cache: &Cache, outside: &Outside) {
    match outside {
        Outside::Keys(keys) => keys.iter().for_each(|key| cache.remove(key)),
        Outside::Everything | Outside::OutOfSight => cache.clear(|_| true),
        Outside::Doubtful => cache.end_fills(),
        Outside::Restamped(documents) => {
            documents.iter().for_each(|(key, shown, stored)| cache.restamp(key, *shown, *stored));
        }
    }
}
