//! One document as the cache serves it without a lock: what a command that reads a single key works on. Nearly all
//! requests are of this kind, so nothing is made for them that a transaction of several documents needs.

use std::cell::Cell;

use super::documents::DocumentError;
use crate::key::KeyRef;
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::Store;
use crate::value::Value;

/// The last published state of one key.
pub struct Published<'a> {
    key: KeyRef<'a>,
    read: Read,
    runtime: &'a Runtime,
    /// The one reading of the clock, made when it is first asked for.
    now_ms: Cell<Option<u64>>,
    /// The store, if others write to it too.
    fronted: Option<&'a dyn Store>,
}

impl<'a> Published<'a> {
    pub(super) fn new(
        key: KeyRef<'a>,
        read: Read,
        runtime: &'a Runtime,
        fronted: Option<&'a dyn Store>,
    ) -> Published<'a> {
        let published = Published { key, read, runtime, now_ms: Cell::new(None), fronted };
        let expires = published.read.value.as_ref().is_some_and(|value| value.expires_at_ms.is_some());
        if !expires {
            return published;
        }
        let now_ms = published.now_ms();
        let read = Read { value: published.read.value.filter(|value| !value.expired(now_ms)), ..published.read };
        Published { read, ..published }
    }

    /// The document of `key`; an error for any other key than the one that was read.
    pub fn value(&self, key: KeyRef<'_>) -> Result<Option<&Value>, DocumentError> {
        if key != self.key {
            return Err(DocumentError::NotLoaded(key.to_key()));
        }
        Ok(self.read.value.as_ref())
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
