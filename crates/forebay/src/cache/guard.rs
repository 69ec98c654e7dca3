//! A partition's mutex, the hits that wait for it, and what is beside all mutexes: the readers' side of the table, and
//! what drops documents. To drop a large document takes as long as it has elements, so none is dropped while a mutex is
//! held. What a partition gives up is retired when the mutex is not held any more, and dropped when no reader may see
//! it. A very large document, or very many ([`GivenUp`]), are dropped by whatever the cache was told of
//! ([`Cache::drop_large_with`](super::Cache::drop_large_with)).

use std::ops::{Deref, DerefMut};
use std::sync::{OnceLock, PoisonError};

use forebay_cache::{Readers, Retired};

use super::Alone;
use super::hits::{Hit, Hits, Turns};
use super::partition::Partition;
use crate::mutation::{self, Fault};
use crate::read::record::{Apart, Record};
use crate::sync::{Mutex, MutexGuard, yield_now};
use crate::value::{Kind, Value};

/// Bytes of collections above which to drop them takes long.
const LARGE_BYTES: usize = 256 << 10;

/// Small documents that go at once above which to drop them takes long.
const MANY_SMALL: usize = 4096;

/// Documents that are retired and dropped together, as a rule.
const RETIRED_TOGETHER: usize = 64;

/// Times that other threads are let run, so that what they look at may be dropped.
const YIELDS_MAX: usize = 100;

/// Documents of which the cache holds nothing any more; perhaps nobody else does either.
pub struct GivenUp(Vec<Record>);

impl GivenUp {
    /// Whether to drop it takes long. A byte string is dropped at once, however long it is.
    fn is_large(&self) -> bool {
        let collection =
            |record: &Record| record.view().apart().filter(|value| value.kind() != Kind::Bytes).map(Value::size);
        self.0.len() > MANY_SMALL || self.0.iter().filter_map(collection).sum::<usize>() > LARGE_BYTES
    }
}

type Drops = Box<dyn Fn(GivenUp) + Send + Sync>;

/// What is beside all mutexes.
pub(super) struct Beside {
    pub readers: Readers<Apart>,
    /// What drops very large documents.
    drops: OnceLock<Drops>,
    /// What may be out of sight and not dropped before others are let run.
    deferred_max: usize,
}

impl Beside {
    pub fn new(readers: Readers<Apart>, deferred_max: usize) -> Beside {
        Beside { readers, drops: OnceLock::new(), deferred_max }
    }

    /// The first counts.
    pub fn drop_large_with(&self, drops: Drops) {
        let _ = self.drops.set(drops);
    }

    /// Whether readers keep so much from being dropped that nothing else may be replaced.
    pub fn is_overdue(&self) -> bool {
        self.readers.deferred() > self.deferred_max
    }

    /// No mutex is held.
    fn retire(&self, due: Retired<Apart>) {
        let mut given_up = GivenUp(Vec::with_capacity(RETIRED_TOGETHER));
        let mut drops = |held| given_up.0.push(Record::from(held));
        self.readers.retire(due, &mut drops);
        for _ in 0..YIELDS_MAX {
            if !self.is_overdue() {
                break;
            }
            yield_now();
            self.readers.collect(&mut drops);
        }
        match self.drops.get().filter(|_| given_up.is_large()) {
            Some(drops) => drops(given_up),
            None => drop(given_up),
        }
    }
}

/// A partition behind its mutex.
pub(super) struct Guarded {
    partition: Alone<Mutex<Partition>>,
    /// There, if the policy hears of hits, and later than they are.
    hits: Alone<Option<Hits>>,
}

impl Guarded {
    pub(super) fn new(partition: Partition, hits: Option<Hits>) -> Guarded {
        Guarded { partition: Alone(Mutex::new(partition)), hits: Alone(hits) }
    }

    /// A panic under the mutex is a bug in a policy; the partition is used as it is.
    pub(super) fn lock<'a>(&'a self, beside: &'a Beside) -> Guard<'a> {
        let mut guard = self.lock_behind(beside);
        self.catch_up(&mut guard);
        guard
    }

    /// `None` if another thread holds it.
    pub(super) fn try_lock<'a>(&'a self, beside: &'a Beside) -> Option<Guard<'a>> {
        let mut guard = self.try_lock_behind(beside)?;
        self.catch_up(&mut guard);
        Some(guard)
    }

    /// The policy has not heard of the hits that wait.
    fn lock_behind<'a>(&'a self, beside: &'a Beside) -> Guard<'a> {
        mutation::locked();
        let partition = self.partition.lock().unwrap_or_else(PoisonError::into_inner);
        Guard { partition, later: Later { due: None, beside } }
    }

    fn try_lock_behind<'a>(&'a self, beside: &'a Beside) -> Option<Guard<'a>> {
        mutation::locked();
        let partition = self.partition.try_lock().ok()?;
        Some(Guard { partition, later: Later { due: None, beside } })
    }

    fn catch_up(&self, guard: &mut Guard<'_>) {
        if let Some(hits) = &*self.hits
            && !mutation::on(Fault::VictimsBeforeHits)
        {
            hits.drain(|hit| guard.hear(&hit));
        }
    }

    /// Has the policy told of a hit when the mutex is taken next. If there is no room for it, it is told now of those
    /// that wait.
    #[inline]
    pub(super) fn tell_later(&self, hit: Hit, turns: &Turns, thread: usize, beside: &Beside) {
        if let Some(hits) = &*self.hits
            && hits.leave(hit, turns, thread).is_err()
        {
            self.make_room(hits, beside, || hits.leave(hit, turns, thread).is_ok());
        }
    }

    /// Until `left`, or until the policy goes without.
    #[inline(never)]
    fn make_room(&self, hits: &Hits, beside: &Beside, left: impl Fn() -> bool) {
        loop {
            let guard = if hits.every { Some(self.lock_behind(beside)) } else { self.try_lock_behind(beside) };
            let Some(mut guard) = guard else { return };
            hits.drain(|hit| guard.hear(&hit));
            if left() || !hits.every {
                return;
            }
            // Another thread has been stopped while it left a note: what is behind that waits with it.
            drop(guard);
            yield_now();
        }
    }

    /// What the buffers of hits take.
    pub(super) fn hits_bytes(&self) -> usize {
        self.hits.as_ref().map_or(0, Hits::bytes)
    }
}

/// What is retired when the mutex is not held any more.
struct Later<'a> {
    due: Option<Retired<Apart>>,
    beside: &'a Beside,
}

impl Drop for Later<'_> {
    fn drop(&mut self) {
        if let Some(due) = self.due.take() {
            self.beside.retire(due);
        }
    }
}

/// A partition whose mutex is held.
pub(super) struct Guard<'a> {
    // Fields are dropped in this order.
    partition: MutexGuard<'a, Partition>,
    later: Later<'a>,
}

impl Deref for Guard<'_> {
    type Target = Partition;

    fn deref(&self) -> &Partition {
        &self.partition
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Partition {
        &mut self.partition
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.later.due = self.partition.entries.due();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::LARGE_BYTES;
    use crate::cache::{Begin, Cache, CacheOptions, Context};
    use crate::key::Key;
    use crate::policy::{AccessKind, POLICIES};
    use crate::read::Read;
    use crate::read::record::Record;
    use crate::value::{Data, Hash, Value};
    use crate::version::Version;

    fn read(sequence: u64, fields: usize) -> Read {
        let fields = (0..fields).map(|field| (format!("field:{field}").into_bytes(), vec![b'x'; 64]));
        let hash: Hash = fields.map(|(field, value)| (field.as_slice().into(), value.as_slice().into())).collect();
        let value = Value { data: Data::Hash(hash), expires_at_ms: None };
        Read { value: Some(value), version: Version { incarnation: 1, sequence } }
    }

    /// However a large document leaves: what drops it is called while no partition is locked, and has the last of it.
    #[test]
    fn a_large_document_is_not_dropped_under_the_mutex() {
        let options = CacheOptions { budget_bytes: 4 << 20, partitions: 1, policy: POLICIES[0], policy_values: vec![] };
        let cache = Cache::new(&options);
        let (dropped, unlocked) = (Arc::new(AtomicUsize::new(0)), cache.clone());
        let counted = dropped.clone();
        cache.drop_large_with(move |given_up| {
            // Would wait for ever under the mutex.
            assert!(unlocked.explain(Key::new(0, b"another").borrow()).is_none());
            let large = |record: &&Record| record.view().apart().is_some_and(|value| value.size() > LARGE_BYTES);
            counted.fetch_add(given_up.0.iter().filter(large).count(), Ordering::Relaxed);
        });
        // Readers of other tests may keep it a while: what is retired next finds it.
        let settles = |count: usize, how: &str| {
            for _ in 0..100_000 {
                if dropped.load(Ordering::Relaxed) >= count {
                    break;
                }
                std::thread::yield_now();
                cache.publish(&[(Key::new(0, b"small"), Some(read(1, 1)))], &[]);
            }
            assert_eq!(dropped.load(Ordering::Relaxed), count, "{how}");
        };
        let key = Key::new(0, b"large");
        let fill = |key: &Key, read: &Read| match cache.begin_fill(key) {
            Begin::Lead(fill) => assert!(fill.complete(read, &Context::default(), AccessKind::Read)),
            _ => panic!("nobody else fills it"),
        };
        let large = || read(1, 10_000);
        let ways: [(&str, &dyn Fn()); 5] = [
            ("removed", &|| cache.remove(&key)),
            ("replaced", &|| cache.publish(&[(key.clone(), Some(read(2, 1)))], &[])),
            ("published as absent", &|| cache.publish(&[(key.clone(), None)], &[])),
            ("overtaken", &|| cache.invalidate(&key, Version { incarnation: 1, sequence: 9 })),
            ("cleared", &|| cache.clear(|_| true)),
        ];
        for (number, (how, goes)) in ways.into_iter().enumerate() {
            cache.remove(&key);
            fill(&key, &large());
            assert_eq!(dropped.load(Ordering::Relaxed), number, "nothing goes before it is {how}");
            goes();
            settles(number + 1, how);
        }
        fill(&key, &large());
        (0..8).for_each(|other| fill(&Key::new(0, &[other]), &large()));
        assert!(dropped.load(Ordering::Relaxed) > ways.len(), "evicted");
        cache.validate();
    }

    /// A clearing of many small documents drops each of them when its partition is not locked any more.
    #[test]
    fn many_small_documents_are_not_dropped_under_the_mutex() {
        let options = CacheOptions { budget_bytes: 8 << 20, partitions: 1, policy: POLICIES[0], policy_values: vec![] };
        let cache = Cache::new(&options);
        let (dropped, unlocked) = (Arc::new(AtomicUsize::new(0)), cache.clone());
        let counted = dropped.clone();
        cache.drop_large_with(move |given_up| {
            assert!(unlocked.explain(Key::new(0, b"another").borrow()).is_none());
            counted.fetch_add(given_up.0.len(), Ordering::Relaxed);
        });
        let many = super::MANY_SMALL + 1;
        for number in 0..many {
            match cache.begin_fill(&Key::new(0, &number.to_le_bytes())) {
                Begin::Lead(fill) => assert!(fill.complete(&read(1, 1), &Context::default(), AccessKind::Read)),
                _ => panic!("nobody else fills it"),
            }
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        cache.clear(|_| true);
        assert_eq!(dropped.load(Ordering::Relaxed), many, "all of them, and none before");
        cache.validate();
    }
}
