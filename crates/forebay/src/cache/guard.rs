//! A partition's mutex. To drop a large document takes as long as it has elements, so none is dropped while the mutex
//! is held. What a partition gives up is kept until then ([`GivenUp`]), and so is all that a clearing gives up. A
//! very large document, or very many, are dropped by whatever the cache was told of
//! ([`Cache::drop_large_with`](super::Cache::drop_large_with)).

use std::ops::{Deref, DerefMut};
use std::sync::{OnceLock, PoisonError};

use super::partition::Partition;
use crate::read::Read;
use crate::read::record::Record;
use crate::sync::{Mutex, MutexGuard};
use crate::value::{Kind, Value};

/// Bytes above which a document is not dropped under the mutex.
const LATER_BYTES_MIN: usize = 4 << 10;

/// Bytes of collections above which to drop them takes long.
const LARGE_BYTES: usize = 256 << 10;

/// Small documents that go at once above which to drop them takes long.
const MANY_SMALL: usize = 4096;

/// Documents of which the cache holds nothing any more; perhaps nobody else does either.
#[derive(Default)]
pub struct GivenUp {
    large: Vec<Read>,
    /// Those of a clearing, which are many, however small each of them is.
    small: Vec<Record>,
    /// Many go at once now.
    pub(super) all: bool,
}

impl GivenUp {
    /// Keeps what an entry holds that is replaced or goes, if it is so large.
    pub(super) fn keep(&mut self, record: &Record, charged: usize) {
        if charged > LATER_BYTES_MIN {
            self.large.push(record.read());
        }
    }

    /// Likewise of an entry that goes; what is small is kept of many that go at once.
    pub(super) fn gone(&mut self, record: Record, charged: usize) {
        self.keep(&record, charged);
        if self.all && charged <= LATER_BYTES_MIN {
            self.small.push(record);
        }
    }

    fn is_empty(&self) -> bool {
        self.large.is_empty() && self.small.is_empty()
    }

    /// Whether to drop it takes long. A byte string is dropped at once, however long it is.
    fn is_large(&self) -> bool {
        let values = self.large.iter().filter_map(|read| read.value.as_ref());
        let bytes: usize = values.filter(|value| value.kind() != Kind::Bytes).map(Value::size).sum();
        bytes > LARGE_BYTES || self.small.len() > MANY_SMALL
    }
}

type Drops = Box<dyn Fn(GivenUp) + Send + Sync>;

/// What drops very large documents.
#[derive(Default)]
pub(super) struct Dropping(OnceLock<Drops>);

impl Dropping {
    /// The first counts.
    pub(super) fn set(&self, drops: Drops) {
        let _ = self.0.set(drops);
    }

    fn drop_now_or_elsewhere(&self, given_up: GivenUp) {
        match self.0.get().filter(|_| given_up.is_large()) {
            Some(drops) => drops(given_up),
            None => drop(given_up),
        }
    }
}

/// A partition behind its mutex.
pub(super) struct Guarded(Mutex<Partition>);

impl Guarded {
    pub(super) fn new(partition: Partition) -> Guarded {
        Guarded(Mutex::new(partition))
    }

    /// A panic under the mutex is a bug in a policy; the partition is used as it is.
    pub(super) fn lock<'a>(&'a self, dropping: &'a Dropping) -> Guard<'a> {
        Guard { partition: self.0.lock().unwrap_or_else(PoisonError::into_inner), later: Later::none(dropping) }
    }

    /// `None` if another thread holds it.
    pub(super) fn try_lock<'a>(&'a self, dropping: &'a Dropping) -> Option<Guard<'a>> {
        self.0.try_lock().ok().map(|partition| Guard { partition, later: Later::none(dropping) })
    }
}

/// What is dropped when the mutex is not held any more.
struct Later<'a> {
    given_up: GivenUp,
    dropping: &'a Dropping,
}

impl Later<'_> {
    fn none(dropping: &Dropping) -> Later<'_> {
        Later { given_up: GivenUp::default(), dropping }
    }
}

impl Drop for Later<'_> {
    fn drop(&mut self) {
        if !self.given_up.is_empty() {
            self.dropping.drop_now_or_elsewhere(std::mem::take(&mut self.given_up));
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
        if !self.partition.given_up.is_empty() {
            self.later.given_up = std::mem::take(&mut self.partition.given_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::cache::{Begin, Cache, CacheOptions, Context};
    use crate::key::Key;
    use crate::policy::{AccessKind, POLICIES};
    use crate::read::Read;
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
            assert!(unlocked.peek(Key::new(0, b"another").borrow()).is_none());
            counted.fetch_add(given_up.large.len(), Ordering::Relaxed);
        });
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
            assert_eq!(dropped.load(Ordering::Relaxed), number + 1, "{how}");
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
            assert!(unlocked.peek(Key::new(0, b"another").borrow()).is_none());
            counted.fetch_add(given_up.small.len(), Ordering::Relaxed);
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
