//! Shards of the lock table that are held instead of locks in them.

use smallvec::{SmallVec, smallvec};

use super::{Locks, NOBODY, Shard, shard_of};
use crate::sync::MutexGuard;
use crate::txn::mode::Mode;
use crate::txn::plan::Wanted;

/// The shards of some keys, held by a transaction that needs no locks while it holds them: see [`Locks::elide`].
pub struct Elided<'a> {
    locks: &'a Locks,
    /// Which shards: a bit for each.
    numbers: u16,
    /// In ascending order.
    shards: SmallVec<[MutexGuard<'a, Shard>; 2]>,
    keys: &'a [Wanted<'a>],
    /// Its commit has begun and is not published.
    pub half_done: bool,
}

impl<'a> Elided<'a> {
    /// As [`Locks::elide`] says. Nearly always there is one key.
    pub(super) fn of(locks: &'a Locks, keys: &'a [Wanted<'a>]) -> Option<Elided<'a>> {
        if let [wanted] = keys {
            let hash = locks.hash(wanted.key);
            let (numbers, shard) = (1 << shard_of(hash), locks.shard(hash));
            let free = shard.is_free(hash, wanted.key);
            return free.then(|| Elided { locks, numbers, shards: smallvec![shard], keys, half_done: false });
        }
        let (mut hashes, mut numbers) = (SmallVec::<[u64; 8]>::new(), 0);
        for wanted in keys {
            hashes.push(locks.hash(wanted.key));
            numbers |= 1 << shard_of(hashes[hashes.len() - 1]);
        }
        let (mut shards, mut left) = (SmallVec::<[MutexGuard<'a, Shard>; 2]>::new(), numbers);
        while left != 0 {
            shards.push(locks.shards[u16::trailing_zeros(left) as usize].lock());
            left &= left - 1;
        }
        let mut hashed = keys.iter().zip(&hashes);
        let free = hashed.all(|(wanted, hash)| shards[place_of(numbers, *hash)].is_free(*hash, wanted.key));
        free.then_some(Elided { locks, numbers, shards, keys, half_done: false })
    }
}

/// What is half done is not to be seen: the keys stay locked until the restart.
impl Drop for Elided<'_> {
    fn drop(&mut self) {
        if !self.half_done {
            return;
        }
        for (wanted, hash) in self.keys.iter().map(|wanted| (wanted, self.locks.hash(wanted.key))) {
            let shard = &mut self.shards[place_of(self.numbers, hash)];
            shard.lock_of(hash, &wanted.key.to_key()).grant(NOBODY, Mode::Exclusive);
        }
    }
}

/// The place of the shard of `hash` among those whose bits `numbers` has.
fn place_of(numbers: u16, hash: u64) -> usize {
    (numbers & ((1 << shard_of(hash)) - 1)).count_ones() as usize
}
