//! Documents that are known to be long: what a read of them brings is known before it is there.
//!
//! Only one command at a time may hold so much (`txn/turn.rs`). Without this, the commands of all clients read a long
//! document each before they find that. With it a command waits for its turn first, and holds nothing until then.
//!
//! It is a hint. One that is missing, or of another key with the same hash, costs memory or a wait, and no answer hangs
//! on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::{Key, KeyRef};
use crate::store::Write;
use crate::store::portion::PORTION_BYTES_MAX;
use crate::value::Value;

/// A document of more bytes is long: it is a portion by itself.
const LONG_BYTES_MIN: usize = PORTION_BYTES_MAX;

/// Documents that are remembered.
const REMEMBERED_MAX: usize = 4096;

/// By the hashes of their keys, the bytes of long documents as they were last read or written.
#[derive(Default)]
pub(super) struct Long {
    known: Mutex<BTreeMap<u64, usize>>,
    /// How many there are: without any, nothing is locked.
    count: AtomicUsize,
}

impl Long {
    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether `value` is long.
    pub(super) fn is_long(value: Option<&Value>) -> bool {
        value.is_some_and(|value| value.size() > LONG_BYTES_MIN)
    }

    /// `key` holds `value`.
    pub(super) fn note(&self, key: KeyRef<'_>, value: Option<&Value>) {
        let bytes = value.map_or(0, Value::size);
        if bytes <= LONG_BYTES_MIN && self.none() {
            return;
        }
        let mut known = self.known();
        match bytes > LONG_BYTES_MIN {
            true => {
                known.insert(key.hash64(), bytes);
                if known.len() > REMEMBERED_MAX {
                    known.pop_first();
                }
            }
            false => drop(known.remove(&key.hash64())),
        }
        self.count.store(known.len(), Ordering::Relaxed);
    }

    /// Notes what a commit writes, if its documents come to more bytes than one that is long.
    pub(super) fn note_written(&self, writes: &[Write], held_bytes: usize) {
        if held_bytes > LONG_BYTES_MIN {
            writes.iter().for_each(|write| self.note(write.key.borrow(), write.after.as_ref()));
        }
    }

    /// Bytes of those of `keys` that are long.
    pub(super) fn bytes_of(&self, keys: &[Key]) -> usize {
        if self.none() {
            return 0;
        }
        let known = self.known();
        keys.iter().filter_map(|key| known.get(&key.borrow().hash64())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize) -> Value {
        Value::bytes(vec![b'x'; bytes])
    }

    #[test]
    fn what_is_long_is_known_until_it_is_short() {
        let (long, keys) = (Long::default(), [1, 2].map(|number| Key::new(0, &[number])));
        long.note(keys[0].borrow(), Some(&value(100)));
        assert!(long.none() && long.bytes_of(&keys) == 0);
        long.note(keys[0].borrow(), Some(&value(3 * LONG_BYTES_MIN)));
        assert!(long.bytes_of(&keys) >= 3 * LONG_BYTES_MIN && long.bytes_of(&keys[1..]) == 0);
        long.note(keys[0].borrow(), None);
        assert!(long.none());
    }

    #[test]
    fn few_are_remembered() {
        let (long, value) = (Long::default(), value(2 * LONG_BYTES_MIN));
        (0..2 * REMEMBERED_MAX).for_each(|number| long.note(Key::new(0, &number.to_be_bytes()).borrow(), Some(&value)));
        assert_eq!(long.known().len(), REMEMBERED_MAX);
    }
}
