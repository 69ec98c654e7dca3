//! After an outage: what is cached is compared with the store, where dropping it would send everybody to a database
//! that has just come back.
//!
//! While the store was away others may have written to it unseen, and a server that crashed may have lost commits that
//! were read from it (PostgreSQL's `synchronous_commit = off`), whose versions may come again. So values are compared,
//! not versions. What was served in the outage is served on until it is compared: a document is out of date by the
//! outage and this comparison at most, and by the store's own bound from then on.
//!
//! **Invariant.** Nothing stays that was read before the store could be watched again and is not what the store holds.
//! When this begins, no fill of before is open and no commit of before is unpublished; what enters from now on was read
//! from now on, and the watch tells what becomes of it.

use std::sync::Weak;
use std::time::Duration;

use super::Inner;
use crate::key::Key;
use crate::read::Read;
use crate::store::ReadError;
use crate::sync::Ordering;

/// Documents that are asked for at once.
const COMPARED_AT_ONCE: usize = 250;

/// Wait before a store that is away again is asked again.
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// Tries after which a store that is there, and yet does not answer for several documents, is asked one by one: some of
/// them may not be known before something is carried over. The first tries may meet connections that have broken.
const TRIES: u32 = 5;

/// How what is asked for at once ended.
enum Compared {
    /// So many of them were dropped.
    Dropped(usize),
    /// Not at all, for the store can't be asked.
    Away,
}

/// Compares all that is cached, half of the time: the other half is for those who work. Ends early when a later
/// comparison begins, or with the engine.
pub(super) async fn compare(engine: Weak<Inner>) {
    let Some(inner) = engine.upgrade() else { return };
    let (runtime, began) = (inner.runtime.clone(), inner.runtime.elapsed());
    let number = inner.comparisons.fetch_add(1, Ordering::Relaxed) + 1;
    drop(inner);
    let (mut partition, mut compared, mut dropped, mut tries) = (0, 0, 0, 0);
    while let Some(keys) = engine.upgrade().and_then(|inner| inner.cache.keys_of(partition)) {
        let mut rest = keys.chunks(COMPARED_AT_ONCE);
        let mut next = rest.next();
        while let Some(chunk) = next {
            let asked = runtime.elapsed();
            let Some(inner) = engine.upgrade() else { return };
            if inner.comparisons.load(Ordering::Relaxed) != number {
                return;
            }
            match inner.compare_some(chunk, tries >= TRIES).await {
                Compared::Dropped(count) => {
                    tries = 0;
                    (compared, dropped) = (compared + chunk.len(), dropped + count);
                    next = rest.next();
                    drop(inner);
                    runtime.sleep(runtime.elapsed().saturating_sub(asked)).await;
                }
                Compared::Away => {
                    tries = if inner.store.ping().await.is_ok() { tries + 1 } else { 0 };
                    drop(inner);
                    runtime.sleep(AWAY_PAUSE).await;
                }
            }
        }
        partition += 1;
    }
    let took_ms = runtime.elapsed().saturating_sub(began).as_millis() as u64;
    tracing::info!(compared, dropped, took_ms, "what was cached in the outage is compared with the store");
}

impl Inner {
    async fn compare_some(&self, keys: &[Key], one_by_one: bool) -> Compared {
        match self.store.get(keys).await {
            Ok(reads) => {
                let differs = |(key, read): &(&Key, &Read)| self.cache.compare(key, read);
                Compared::Dropped(keys.iter().zip(&reads).filter(differs).count())
            }
            Err(ReadError::Unavailable(_)) if !one_by_one => Compared::Away,
            // One of them can't be read: whoever wants it is told.
            Err(_) => {
                let mut dropped = 0;
                for key in keys {
                    let read = self.store.get(std::slice::from_ref(key)).await;
                    match read.as_deref() {
                        Ok([read]) => dropped += usize::from(self.cache.compare(key, read)),
                        _ => {
                            self.cache.remove(key);
                            dropped += 1;
                        }
                    }
                }
                Compared::Dropped(dropped)
            }
        }
    }
}
