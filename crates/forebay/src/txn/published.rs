//! Documents as the cache serves them without a lock: what a command works on that only reads, and alone. Nearly all
//! requests are of this kind, most of a single key, so nothing is made for them that a transaction needs that writes.

use std::cell::Cell;

use smallvec::SmallVec;

use super::Engine;
use super::documents::DocumentError;
use crate::cache::Context;
use crate::key::KeyRef;
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::Store;
use crate::value::Value;

impl Engine {
    /// As [`Engine::published`], for a reader of one short byte string that copies it at once: `show` sees the bytes
    /// where the cache has them, or nothing where the key is absent, and must wait for nothing. No reference is
    /// counted. `None`: it is to be asked another way, or `show` took nothing.
    pub fn show_published<T>(
        &self,
        key: KeyRef<'_>,
        context: &Context,
        show: impl FnOnce(Option<&[u8]>) -> Option<T>,
    ) -> Option<T> {
        let inner = &*self.inner;
        if inner.is_overdue(key) || inner.cache.follows_transactions() {
            return None;
        }
        let began = inner.history.as_ref().map(|history| history.tick());
        inner.cache.show_published(key, context, |view| {
            let bytes = view.packed()?;
            let expired = view.expires_at_ms().is_some_and(|at_ms| at_ms <= inner.runtime.now_ms());
            let taken = show(bytes.filter(|_| !expired))?;
            if let (Some(history), Some(began)) = (&inner.history, began) {
                history.push_read(began, vec![(key.to_key(), view.version(), bytes.is_some())]);
            }
            Some(taken)
        })
    }
}

/// What was read, a place for each key that was asked for.
pub type Reads = SmallVec<[Read; 1]>;

/// The last published state of some keys, all at one moment.
pub struct Published<'a> {
    /// As often as the command names them.
    keys: &'a [KeyRef<'a>],
    /// Of each key.
    reads: Reads,
    /// Where the key stands that is probably asked for next: commands ask for their keys in order.
    next: Cell<usize>,
    runtime: &'a Runtime,
    /// The one reading of the clock, made when it is first asked for.
    now_ms: Cell<Option<u64>>,
    /// The store, if others write to it too.
    fronted: Option<&'a dyn Store>,
    /// One of the documents had expired.
    any_expired: bool,
}

impl<'a> Published<'a> {
    pub(super) fn new(
        keys: &'a [KeyRef<'a>],
        reads: Reads,
        runtime: &'a Runtime,
        fronted: Option<&'a dyn Store>,
    ) -> Published<'a> {
        let (next, now_ms) = (Cell::new(0), Cell::new(None));
        let mut published = Published { keys, reads, next, runtime, now_ms, fronted, any_expired: false };
        if published.any_expires() {
            let now_ms = published.now_ms();
            for read in &mut published.reads {
                published.any_expired |= read.value.take_if(|value| value.expired(now_ms)).is_some();
            }
        }
        published
    }

    /// Whether one of the documents has an expiry.
    #[inline]
    pub fn any_expires(&self) -> bool {
        let expires = |value: &Value| value.expires_at_ms.is_some();
        self.reads.iter().any(|read| read.value.as_ref().is_some_and(expires))
    }

    /// The document of `key`; an error for any other key than those that were read.
    pub fn value(&self, key: KeyRef<'_>) -> Result<Option<&Value>, DocumentError> {
        let expected = self.next.get();
        let at = match self.keys.get(expected) {
            Some(probable) if *probable == key => Some(expected),
            _ => self.keys.iter().position(|known| *known == key),
        };
        let at = at.ok_or_else(|| DocumentError::NotLoaded(key.to_key()))?;
        self.next.set(if at + 1 == self.keys.len() { 0 } else { at + 1 });
        Ok(self.reads[at].value.as_ref())
    }

    /// Whether one of them is absent since it has expired, and not by a write.
    pub fn any_expired(&self) -> bool {
        self.any_expired
    }

    /// What was read, a place for each key. What has expired is absent, under its version.
    pub fn into_reads(self) -> Reads {
        self.reads
    }

    /// Bytes of the documents.
    pub fn bytes(&self) -> usize {
        self.reads.iter().filter_map(|read| read.value.as_ref()).map(Value::size).sum()
    }

    /// `value`, which `key` holds, as one text; `None` where it has none.
    pub fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.fronted.and_then(|store| store.text_of(key, value))
    }

    /// The transaction's one reading of the wall clock, ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        let now_ms = self.now_ms.get().unwrap_or_else(|| self.runtime.now_ms());
        self.now_ms.set(Some(now_ms));
        now_ms
    }
}
