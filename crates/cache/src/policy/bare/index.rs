//! Where keys are cached: by hash, or by number.

use super::super::access::Slot;
use super::super::order::Order;
use super::parts::{Entry, Hashed, NOWHERE, Numbered};

/// How a request's key leads to its slot.
pub trait Index {
    /// By which a request names its key.
    type Key: Copy;

    /// Before anything is cached.
    fn begin<O: Order + ?Sized>(&self, order: &mut O);

    /// Where the key is cached, `entries` being what is in the slots.
    fn find<O: Order + ?Sized>(&self, order: &O, key: Self::Key, entries: &[Option<Entry>]) -> Option<Slot>;

    /// The key is cached there from now on; what is in the slot says so already.
    fn insert<O: Order + ?Sized>(&mut self, order: &mut O, key: Self::Key, slot: Slot, entries: &[Option<Entry>]);

    /// What was cached there, under a key of this hash, is not any more; the order knows that.
    fn remove<O: Order + ?Sized>(&mut self, order: &mut O, hash: u64, slot: Slot);
}

fn hash_of(entries: &[Option<Entry>], slot: Slot) -> Option<u64> {
    entries.get(slot as usize)?.as_ref().map(|entry| entry.hash)
}

impl Index for Hashed {
    type Key = u64;

    fn begin<O: Order + ?Sized>(&self, order: &mut O) {
        if let Some(directory) = order.directory_mut() {
            directory.share();
        }
    }

    #[inline]
    fn find<O: Order + ?Sized>(&self, order: &O, hash: u64, entries: &[Option<Entry>]) -> Option<Slot> {
        let same = |slot| hash_of(entries, slot) == Some(hash);
        match order.directory() {
            Some(directory) => directory.cached(hash, same),
            None => self.0.find(hash, |&slot| same(slot)).copied(),
        }
    }

    #[inline]
    fn insert<O: Order + ?Sized>(&mut self, order: &mut O, hash: u64, slot: Slot, entries: &[Option<Entry>]) {
        let hash_of = |slot| hash_of(entries, slot).unwrap_or_default();
        match order.directory_mut() {
            Some(directory) => directory.comes(hash, slot, hash_of),
            None => {
                self.0.insert_unique(hash, slot, |&slot| hash_of(slot));
            }
        }
    }

    #[inline]
    fn remove<O: Order + ?Sized>(&mut self, order: &mut O, hash: u64, slot: Slot) {
        if let Some(directory) = order.directory_mut() {
            directory.goes(hash, slot);
        } else if let Ok(found) = self.0.find_entry(hash, |&at| at == slot) {
            found.remove();
        }
    }
}

impl Index for Numbered {
    type Key = u32;

    fn begin<O: Order + ?Sized>(&self, _: &mut O) {}

    #[inline]
    fn find<O: Order + ?Sized>(&self, _: &O, number: u32, _: &[Option<Entry>]) -> Option<Slot> {
        self.slots.get(number as usize).copied().filter(|&slot| slot != NOWHERE)
    }

    #[inline]
    fn insert<O: Order + ?Sized>(&mut self, _: &mut O, number: u32, slot: Slot, _: &[Option<Entry>]) {
        self.slots[number as usize] = slot;
        match self.numbers.get_mut(slot as usize) {
            Some(place) => *place = number,
            None => self.numbers.push(number),
        }
    }

    #[inline]
    fn remove<O: Order + ?Sized>(&mut self, _: &mut O, _: u64, slot: Slot) {
        self.slots[self.numbers[slot as usize] as usize] = NOWHERE;
    }
}
