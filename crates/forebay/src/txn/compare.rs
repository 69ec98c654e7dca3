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
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::ReadError;
use crate::store::portion::PORTION_BYTES_MAX;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Documents that are asked for at once.
const COMPARED_AT_ONCE: usize = 250;

/// Wait before a store that is away again is asked again.
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// Tries after which a store that is there, and yet does not answer for several documents, is asked one by one: some of
/// them may not be known before something is carried over. The first tries may meet connections that have broken.
const TRIES: u32 = 5;

/// How what is asked for at once ended.
enum Answer {
    /// So many of them were dropped.
    Dropped(usize),
    /// Not at all, for the store can't be asked.
    Away,
}

/// How far the comparison of what is cached with the store has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Documents that the present comparison, or the last, has compared.
    pub compared: u64,
    /// Documents that it has still to compare, by what was cached when it began; 0 where none goes on.
    pub left: u64,
}

/// Where the comparison stands.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Comparisons that were begun; only the last goes on.
    begun: AtomicU64,
    /// The last that came to its end.
    ended: AtomicU64,
    /// The partition that comes next. A comparison begins where the one before was left, and goes once round: so every
    /// partition has its turn, however often the store goes away.
    next: AtomicUsize,
    /// What was cached when the last began, and what it has compared since.
    cached: AtomicU64,
    compared: AtomicU64,
}

impl Comparison {
    /// Begins one of so many documents; its number.
    pub fn begin(&self, cached: u64) -> u64 {
        self.cached.store(cached, Ordering::Relaxed);
        self.compared.store(0, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The one of this number has compared so many, unless a later one has begun.
    fn note(&self, number: u64, compared: u64) {
        if self.begun.load(Ordering::Relaxed) == number {
            self.compared.store(compared, Ordering::Relaxed);
        }
    }

    /// How far it has come.
    pub fn state(&self) -> Compared {
        let [cached, compared] = [&self.cached, &self.compared].map(|count| count.load(Ordering::Relaxed));
        let left = if self.goes_on() { cached.saturating_sub(compared) } else { 0 };
        Compared { compared, left }
    }

    /// Whether something is cached that was not compared yet.
    pub fn goes_on(&self) -> bool {
        self.begun.load(Ordering::Relaxed) != self.ended.load(Ordering::Relaxed)
    }
}

/// Compares all that is cached, half of the time: the other half is for those who work. Ends early when a later
/// comparison than `number` begins, or with the engine.
pub(super) async fn compare(engine: Weak<Inner>, number: u64) {
    let Some(inner) = engine.upgrade().filter(|_| !mutation::on(Fault::DoubtfulKept)) else { return };
    let (runtime, began) = (inner.runtime.clone(), inner.runtime.elapsed());
    let (partitions, first) = (inner.cache.partitions(), inner.comparison.next.load(Ordering::Relaxed));
    drop(inner);
    let (mut compared, mut dropped) = (0, 0);
    for partition in (first..first + partitions).map(|at| at % partitions) {
        let Some(keys) = engine.upgrade().and_then(|inner| inner.cache.keys_of(partition)) else { return };
        for chunk in keys.chunks(COMPARED_AT_ONCE) {
            let Some(gone) = compare_chunk(&engine, &runtime, number, chunk).await else { return };
            (compared, dropped) = (compared + chunk.len(), dropped + gone);
            let Some(inner) = engine.upgrade() else { return };
            inner.comparison.note(number, compared as u64);
        }
        let Some(inner) = engine.upgrade() else { return };
        inner.comparison.next.store((partition + 1) % partitions, Ordering::Relaxed);
    }
    let Some(inner) = engine.upgrade() else { return };
    inner.comparison.ended.fetch_max(number, Ordering::Relaxed);
    let took_ms = runtime.elapsed().saturating_sub(began).as_millis() as u64;
    tracing::info!(compared, dropped, took_ms, "what was cached in the outage is compared with the store");
}

/// Compares `chunk`, whatever time that takes, and rests as long; how many documents went. `None` if comparison
/// `number` is over.
async fn compare_chunk(engine: &Weak<Inner>, runtime: &Runtime, number: u64, chunk: &[Key]) -> Option<usize> {
    let mut tries = 0;
    loop {
        let (inner, asked) = (engine.upgrade()?, runtime.elapsed());
        if inner.comparison.begun.load(Ordering::Relaxed) != number {
            return None;
        }
        match inner.compare_some(chunk, tries >= TRIES).await {
            Answer::Dropped(count) => {
                drop(inner);
                runtime.sleep(runtime.elapsed().saturating_sub(asked)).await;
                return Some(count);
            }
            Answer::Away => {
                tries = if inner.store.ping().await.is_ok() { tries + 1 } else { 0 };
                drop(inner);
                runtime.sleep(AWAY_PAUSE).await;
            }
        }
    }
}

impl Inner {
    /// Compares those of `keys` that are cached with what the store holds now, if something may be out of date: for a
    /// transaction that will build on them. A server that lost commits gives their versions out again, so that their
    /// check alone would let it overwrite what was written since. While the store is away they are all there is.
    pub(super) async fn settle_doubts(&self, keys: impl Iterator<Item = &Key>) {
        if self.comparison.goes_on() {
            let cached: Vec<Key> = keys.filter(|key| self.cache.peek(key.borrow()).is_some()).cloned().collect();
            if !cached.is_empty() {
                let _ = self.compare_some(&cached, false).await;
            }
        }
    }

    async fn compare_some(&self, keys: &[Key], one_by_one: bool) -> Answer {
        let (mut left, mut dropped) = (keys, 0);
        while !left.is_empty() {
            match self.compare_portion(left, one_by_one).await {
                Ok((compared, gone)) => (left, dropped) = (&left[compared..], dropped + gone),
                Err(away) => return away,
            }
        }
        Answer::Dropped(dropped)
    }

    /// Compares so many of `keys`, from the first on, as the store answers for together: how many, and how many of
    /// these were dropped.
    async fn compare_portion(&self, keys: &[Key], one_by_one: bool) -> Result<(usize, usize), Answer> {
        match self.store.peek(keys, PORTION_BYTES_MAX).await {
            Ok(reads) => {
                let differs = |(key, read): &(&Key, &Read)| self.cache.compare(key, read);
                Ok((reads.len().clamp(1, keys.len()), keys.iter().zip(&reads).filter(differs).count()))
            }
            Err(ReadError::Unavailable(_)) if !one_by_one => Err(Answer::Away),
            // One of them can't be read: whoever wants it is told.
            Err(_) => {
                let mut dropped = 0;
                for key in keys {
                    let read = self.store.peek(std::slice::from_ref(key), usize::MAX).await;
                    match read.as_deref() {
                        Ok([read]) => dropped += usize::from(self.cache.compare(key, read)),
                        Err(ReadError::Unavailable(_)) if self.store.ping().await.is_err() => return Err(Answer::Away),
                        _ => {
                            self.cache.remove(key);
                            dropped += 1;
                        }
                    }
                }
                Ok((keys.len(), dropped))
            }
        }
    }
}
