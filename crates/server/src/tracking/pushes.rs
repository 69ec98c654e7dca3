//! What waits to be told to one client. Bounded: where too much waits, all that may have changed becomes everything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::key::Key;

/// Bytes of names that wait for one client; past it the client is told that everything may have changed.
pub const PUSHES_BYTES_MAX: usize = 256 << 10;

/// What the list of a prefix takes beside its keys: room for four is made at once.
const PREFIX_BYTES: usize = size_of::<(Prefix, Vec<Key>)>() + 4 * size_of::<Key>();

/// A prefix: the id of the client that gave it, and its place among that client's.
pub type Prefix = (u64, usize);

/// One thing to tell.
pub enum Push {
    /// A key that was noted may have changed.
    Key(Key),
    /// So may one with a prefix of a client's: which prefix of which client.
    Broadcast(Key, Prefix),
    /// Everything may have changed.
    Everything,
    /// The client that was to be told in its place is gone: its id.
    Bereft(u64),
}

/// What waits.
#[derive(Default)]
pub struct Waiting {
    /// Everything may have changed; then no key is named.
    pub everything: bool,
    /// Keys that were noted.
    pub keys: Vec<Key>,
    /// Keys with a prefix, by it: each prefix has a message, as Redis sends one.
    pub broadcast: BTreeMap<Prefix, Vec<Key>>,
    /// Clients that are gone.
    pub bereft: Vec<u64>,
    bytes: usize,
}

/// The box of one client.
#[derive(Default)]
pub struct Pushes {
    some: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl Waiting {
    fn keep(&mut self, key: Key, prefix: Option<Prefix>) {
        if self.everything {
            return;
        }
        let list = prefix.map_or(Some(&self.keys), |prefix| self.broadcast.get(&prefix));
        // What is dropped from the cache twice is told once.
        if list.and_then(|list| list.last()) == Some(&key) {
            return;
        }
        self.bytes += size_of::<Key>() + key.heap_bytes();
        if prefix.is_some_and(|prefix| !self.broadcast.contains_key(&prefix)) {
            self.bytes += PREFIX_BYTES;
        }
        if self.bytes > PUSHES_BYTES_MAX {
            return self.everything();
        }
        match prefix {
            Some(prefix) => self.broadcast.entry(prefix).or_default().push(key),
            None => self.keys.push(key),
        }
    }

    fn everything(&mut self) {
        let bereft = std::mem::take(&mut self.bereft);
        *self = Waiting { everything: true, bereft, ..Waiting::default() };
    }
}

impl Pushes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to what waits.
    pub fn add(&self, push: Push) {
        let mut waiting = self.waiting();
        match push {
            Push::Key(key) => waiting.keep(key, None),
            Push::Broadcast(key, prefix) => waiting.keep(key, Some(prefix)),
            Push::Everything => waiting.everything(),
            Push::Bereft(id) => waiting.bereft.push(id),
        }
        self.some.store(true, Ordering::Release);
    }

    /// Whether something waits.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// What waits, which does not wait any more.
    pub fn take(&self) -> Waiting {
        let mut waiting = self.waiting();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_to_name_is_everything() {
        let pushes = Pushes::default();
        assert!(!pushes.is_some());
        let key = |n: u32| Key::new(0, format!("{n:0>100}").as_bytes());
        (0..100).for_each(|n| pushes.add(Push::Key(key(n))));
        let waiting = pushes.take();
        assert!(!waiting.everything && waiting.keys.len() == 100 && !pushes.is_some());
        pushes.add(Push::Bereft(7));
        (0..100_000).for_each(|n| pushes.add(Push::Broadcast(key(n), (1, 0))));
        let waiting = pushes.take();
        assert!(waiting.everything && waiting.broadcast.is_empty() && waiting.bereft == [7]);
    }
}
