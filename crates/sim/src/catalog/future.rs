//! What comes next after each request of a trace.

use forebay::policy::Access;

use super::request::{NEVER, Request};

#[derive(Default)]
pub(super) struct Future {
    /// By request: first its key, in the end the next request of that key.
    pub next: Vec<u32>,
    /// By request, one bit: whether it reads.
    reads: Vec<u64>,
    /// By request, one bit: whether all of its level reads what was asked for in earlier levels.
    whole: Vec<u64>,
    /// By request: the next request of its key in such a level.
    next_whole: Vec<u32>,
    /// The level that is being met.
    pub level: OpenLevel,
}

/// Requests of one transaction and level, one after the other.
#[derive(Default)]
pub(super) struct OpenLevel {
    txn: u64,
    level: u16,
    /// Its first request.
    begins: usize,
    /// Keys known before it.
    pub keys_before: u32,
    /// All so far read keys known before it.
    pub whole: bool,
}

impl Future {
    pub fn push(&mut self, key: u32, reads: bool) {
        let place = self.next.len();
        self.next.push(key);
        if place.is_multiple_of(64) {
            self.reads.push(0);
        }
        self.reads[place / 64] |= u64::from(reads) << (place % 64);
    }

    /// The request that is pushed next belongs to this level. `keys` were known before it.
    pub fn enter_level(&mut self, txn: u64, level: u16, keys: u32) {
        if txn == 0 || (txn, level) != (self.level.txn, self.level.level) {
            self.close_level();
            self.level = OpenLevel { txn, level, begins: self.next.len(), keys_before: keys, whole: true };
        }
    }

    fn close_level(&mut self) {
        self.whole.resize(self.reads.len(), 0);
        if self.level.whole {
            (self.level.begins..self.next.len()).for_each(|place| self.whole[place / 64] |= 1 << (place % 64));
        }
    }

    /// Makes the list of keys one of next requests, from behind.
    pub fn resolve(&mut self, keys: usize) {
        self.close_level();
        let mut later = vec![NEVER; keys];
        self.next_whole = vec![NEVER; self.next.len()];
        for (place, &key) in self.next.iter().enumerate().rev() {
            let key = key as usize;
            self.next_whole[place] = later[key];
            if self.whole[place / 64] >> (place % 64) & 1 == 1 {
                later[key] = place as u32;
            }
        }
        later.fill(NEVER);
        for (place, slot) in self.next.iter_mut().enumerate().rev() {
            let key = *slot as usize;
            *slot = std::mem::replace(&mut later[key], place as u32);
        }
    }

    /// The request at `place`, with what comes next.
    #[inline]
    pub fn request(&self, access: Access, key: u32, place: usize) -> Request {
        let next = self.next.get(place).copied().unwrap_or(NEVER);
        let next_whole = self.next_whole.get(place).copied().unwrap_or(NEVER);
        Request { access, key, next, next_reads: next != NEVER && self.reads(next), next_whole }
    }

    fn reads(&self, place: u32) -> bool {
        self.reads.get(place as usize / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }
}
