//! Where keys are cached: by hash, or by number.

use hashbrown::HashTable;

use super::super::Slot;

/// What is in a slot.
#[derive(Clone, Copy)]
pub struct Entry {
    pub(super) hash: u64,
    pub(super) size: u32,
    pub(super) marks: u8,
    pub(super) pinned: bool,
}

/// How a request's key leads to its slot.
pub trait Index {
    /// By which a request names its key.
    type Key: Copy;

    /// Where the key is cached, `entries` being what is in the slots.
    fn find(&self, key: Self::Key, entries: &[Option<Entry>]) -> Option<Slot>;

    /// The key is cached there from now on; what is in the slot says so already.
    fn insert(&mut self, key: Self::Key, slot: Slot, entries: &[Option<Entry>]);

    /// What was cached there, under a key of this hash, is not any more.
    fn remove(&mut self, hash: u64, slot: Slot);
}

/// Keys are known by their hashes, which are well mixed; only slots are kept of them, so that the table is small.
#[derive(Default)]
pub struct Hashed(HashTable<Slot>);

fn hash_of(entries: &[Option<Entry>], slot: Slot) -> Option<u64> {
    entries.get(slot as usize)?.as_ref().map(|entry| entry.hash)
}

impl Index for Hashed {
    type Key = u64;

    #[inline]
    fn find(&self, hash: u64, entries: &[Option<Entry>]) -> Option<Slot> {
        self.0.find(hash, |&slot| hash_of(entries, slot) == Some(hash)).copied()
    }

    #[inline]
    fn insert(&mut self, hash: u64, slot: Slot, entries: &[Option<Entry>]) {
        self.0.insert_unique(hash, slot, |&slot| hash_of(entries, slot).unwrap_or_default());
    }

    #[inline]
    fn remove(&mut self, hash: u64, slot: Slot) {
        if let Ok(found) = self.0.find_entry(hash, |&at| at == slot) {
            found.remove();
        }
    }
}

/// Keys are known by numbers below a bound that is known beforehand, so that nothing has to be searched for.
pub struct Numbered {
    /// By number, [`NOWHERE`] for those that are not cached.
    slots: Vec<Slot>,
    /// By slot.
    numbers: Vec<u32>,
}

/// No slot.
const NOWHERE: Slot = Slot::MAX;

impl Numbered {
    /// For numbers below `keys`.
    pub(super) fn new(keys: usize) -> Numbered {
        Numbered { slots: vec![NOWHERE; keys], numbers: Vec::new() }
    }
}

impl Index for Numbered {
    type Key = u32;

    #[inline]
    fn find(&self, number: u32, _: &[Option<Entry>]) -> Option<Slot> {
        self.slots.get(number as usize).copied().filter(|&slot| slot != NOWHERE)
    }

    #[inline]
    fn insert(&mut self, number: u32, slot: Slot, _: &[Option<Entry>]) {
        self.slots[number as usize] = slot;
        match self.numbers.get_mut(slot as usize) {
            Some(place) => *place = number,
            None => self.numbers.push(number),
        }
    }

    #[inline]
    fn remove(&mut self, _: u64, slot: Slot) {
        self.slots[self.numbers[slot as usize] as usize] = NOWHERE;
    }
}
