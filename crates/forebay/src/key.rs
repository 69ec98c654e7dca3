//! The name of one document: a key space (database number) and a byte string.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::Equivalent;

use crate::value::blob_bytes;

/// Number of key spaces, as Redis' databases 0..15.
pub const SPACES: u8 = 16;

/// Longest key name in bytes; a longer one is refused where it enters.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// An owned key. Cloning it copies a pointer. The name may be a part of a shared allocation, as a cached document's is.
#[derive(Clone)]
pub struct Key {
    shared: Arc<[u8]>,
    /// Where the name ends in `shared`.
    end: u32,
    /// Where it begins.
    start: u8,
    space: u8,
}

/// A borrowed key, so that a look-up needs no allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// Key space, below [`SPACES`].
    pub space: u8,
    /// The name within the space.
    pub name: &'a [u8],
}

impl Key {
    /// Makes the key `name` of key space `space`.
    pub fn new(space: u8, name: &[u8]) -> Key {
        debug_assert!(space < SPACES);
        Key { shared: Arc::from(name), end: name.len() as u32, start: 0, space }
    }

    /// The key whose name is the `len` bytes of `shared` from `start` on, which must be there.
    pub(crate) fn part(space: u8, shared: Arc<[u8]>, start: u8, len: usize) -> Key {
        debug_assert!(space < SPACES && start as usize + len <= shared.len());
        Key { shared, end: u32::from(start) + len as u32, start, space }
    }

    /// This key, holding no larger allocation than its name needs.
    pub fn compact(&self) -> Key {
        if self.name().len() == self.shared.len() { self.clone() } else { Key::new(self.space, self.name()) }
    }

    /// Whether the name is a part of this allocation.
    pub(crate) fn is_part_of(&self, shared: &Arc<[u8]>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Key space, below [`SPACES`].
    pub fn space(&self) -> u8 {
        self.space
    }

    /// The name within the space.
    pub fn name(&self) -> &[u8] {
        &self.shared[self.start as usize..self.end as usize]
    }

    /// This key, borrowed.
    pub fn borrow(&self) -> KeyRef<'_> {
        KeyRef { space: self.space, name: self.name() }
    }

    /// Bytes that this key occupies on the heap, reference counts and the allocator's rounding included.
    pub fn heap_bytes(&self) -> usize {
        blob_bytes(self.name().len())
    }
}

impl KeyRef<'_> {
    /// An owned copy.
    pub fn to_key(self) -> Key {
        Key::new(self.space, self.name)
    }

    /// The hash by which cache partitions and policies know the key. Stable within and across processes, so that
    /// one trace gives one run.
    #[inline]
    pub fn hash64(self) -> u64 {
        const STATE: FixedState = FixedState::with_seed(0x464f_5245_4241_5921);
        STATE.hash_one(self)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.borrow() == other.borrow()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.borrow().cmp(&other.borrow())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.space);
        state.write(self.name);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.borrow()
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.space != 0 {
            write!(f, "{}/", self.space)?;
        }
        write!(f, "{}", self.name.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrow().fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRef({self})")
    }
}

/// Keys whose [`KeyRef::hash64`] are alike in the bits that tables of up to 256 places look at: the lowest eight, and
/// the highest seven.
#[cfg(test)]
pub(crate) fn chosen_to_collide(count: usize) -> Vec<Key> {
    const BITS: u64 = 0x7f << 57 | 0xff;
    let name = |number: u64| number.to_be_bytes();
    let alike = |number: &u64| KeyRef { space: 0, name: &name(*number) }.hash64() & BITS == BITS;
    (0..).filter(alike).take(count).map(|number| Key::new(0, &name(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_and_owned_keys_are_equivalent() {
        let key = Key::new(3, b"user:1");
        assert!(key.borrow().equivalent(&key));
        assert!(!KeyRef { space: 0, name: b"user:1" }.equivalent(&key));
        let mut map = hashbrown::HashMap::<Key, u8, foldhash::fast::RandomState>::default();
        map.insert(key.clone(), 1);
        assert_eq!(map.get(&key.borrow()), Some(&1));
    }

    #[test]
    fn hash_is_stable() {
        let key = Key::new(0, b"user:1");
        assert_eq!(key.borrow().hash64(), key.clone().borrow().hash64());
        assert_ne!(key.borrow().hash64(), Key::new(1, b"user:1").borrow().hash64());
    }
}
