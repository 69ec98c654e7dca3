//! What others write to a store that they share with us leaves the cache.

use std::sync::Arc;

use super::compare::compare;
use super::settled::{self, Settled};
use super::{Engine, Inner};
use crate::cache::Cache;
use crate::mutation::{self, Fault};
use crate::store::{Doubt, Outside};

impl Engine {
    /// Drops from the cache what others write to the store, for as long as an engine is there and the store can tell.
    /// What a commit of ours installs may be older than what others wrote behind it: so a key goes once more when the
    /// commits that were on their way are published.
    pub fn start_watching(&self) {
        let inner = Arc::downgrade(&self.inner);
        self.inner.runtime.spawn(async move {
            // What is still to be done about earlier answers.
            let mut behind: Vec<Settled> = Vec::new();
            loop {
                let Some(store) = inner.upgrade().map(|inner| inner.store.clone()) else { return };
                let Some(outside) = store.outside().await else { return };
                let Some(inner) = inner.upgrade() else { return };
                behind.retain(|settled| !settled.is_closed());
                match outside {
                    Outside::Synced(number) => inner.synced_behind(number, behind.clone()),
                    outside => behind.extend(inner.heed(outside)),
                }
            }
        });
    }
}

impl Inner {
    /// Heeds what others have written; what ends with the last that is to be done about it, if that takes time.
    fn heed(self: &Arc<Inner>, outside: Outside) -> Option<Settled> {
        let doubtful = (outside == Outside::Doubtful).then(|| self.comparison.begin(self.cache.stats().entries));
        let unsettled = self.forget(doubt_of(&outside), || drop_from(&self.cache, &outside));
        if outside == Outside::OutOfSight {
            self.syncs.fail();
        }
        if unsettled.is_empty() && doubtful.is_none() {
            return None;
        }
        let (weak, cache, (teller, done)) = (Arc::downgrade(self), self.cache.clone(), settled::pair());
        self.runtime.spawn(async move {
            for settled in unsettled {
                settled.wait().await;
            }
            match doubtful {
                Some(number) => compare(weak, number).await,
                None => drop_from(&cache, &outside),
            }
            // Closes what others wait for.
            drop(teller);
        });
        Some(done)
    }

    /// Has `drop_now` drop what is cached of documents that others may have changed, and the store doubt what it keeps
    /// of them. Answers the commits that were on their way: what they put into the cache has to go when they are
    /// settled.
    ///
    /// The cache goes first: a transaction that knows of the doubt has read nothing of before. What was buffered before
    /// the doubt, and published since the first drop, goes with the second.
    pub(super) fn forget(&self, doubt: Option<Doubt<'_>>, mut drop_now: impl FnMut()) -> Vec<Settled> {
        drop_now();
        if let Some(doubt) = doubt {
            self.store.doubt(doubt);
        }
        let unsettled = self.committer.unsettled();
        drop_now();
        unsettled
    }

    /// All that was committed before the call with this number is told; it has reached the cache once `behind` is done.
    fn synced_behind(self: &Arc<Inner>, number: u64, behind: Vec<Settled>) {
        if behind.is_empty() || mutation::on(Fault::SyncedTooEarly) {
            return self.syncs.reached(number);
        }
        let inner = Arc::downgrade(self);
        self.runtime.spawn(async move {
            for settled in behind {
                settled.wait().await;
            }
            if let Some(inner) = inner.upgrade() {
                inner.syncs.reached(number);
            }
        });
    }
}

/// What others have changed, as far as the store has said so.
fn doubt_of(outside: &Outside) -> Option<Doubt<'_>> {
    match outside {
        Outside::Keys(keys) => Some(Doubt::Keys(keys)),
        Outside::Everything | Outside::OutOfSight => Some(Doubt::All),
        Outside::Doubtful | Outside::Restamped(_) | Outside::Applied(_) | Outside::Synced(_) => None,
    }
}

fn drop_from(cache: &Cache, outside: &Outside) {
    match outside {
        Outside::Keys(keys) | Outside::Applied(keys) => keys.iter().for_each(|key| cache.remove(key)),
        Outside::Everything | Outside::OutOfSight => cache.clear(|_| true),
        Outside::Doubtful => cache.end_fills(),
        Outside::Restamped(documents) => {
            documents.iter().for_each(|(key, shown, stored)| cache.restamp(key, *shown, *stored));
        }
        Outside::Synced(_) => {}
    }
}
