//! The order of one shard: the engine's own, or that of a policy of the table ([`crate::policy::POLICIES`]).
//!
//! The engine's own is S3-FIFO over marks (`queues.rs`). A policy of the table is called as its contract says
//! ([`crate::policy::Order`]): of one that hears of hits the shard drains the buffers first (`buffers.rs`).

use crate::policy::{Access, AccessKind, Hit, Hits, Order, Why};
use crate::sync::{AtomicU8, Ordering};

use super::marks::touch;
use super::queues::{Entry, Ghosts, Queues};

/// See the module.
pub(super) enum Ranks {
    Queues(Queues),
    Policy(Box<ByPolicy>),
}

/// The order of a policy, and what it is told with.
pub(super) struct ByPolicy {
    order: Box<dyn Order>,
    hits: Hits,
    /// Number of the access.
    tick: u64,
}

/// An entry, as orders know it.
#[derive(Clone, Copy)]
pub(super) struct Ranked {
    pub hash: u64,
    pub weight: usize,
}

/// What room is made for.
#[derive(Clone, Copy)]
pub(super) enum Incoming {
    Newcomer(Ranked),
    /// One that is in, in this slot.
    Grown(u32, Ranked),
    /// Another shard's entry, or a smaller budget.
    Elsewhere,
}

/// A weight as policies have it.
pub(super) fn size(weight: usize) -> u32 {
    u32::try_from(weight).unwrap_or(u32::MAX)
}

fn access(tick: u64, slot: Option<u32>, entry: Ranked, kind: AccessKind) -> Access {
    Access { kind, tick, slot: slot.map(|slot| (slot, 0)), ..Access::read(entry.hash, size(entry.weight)) }
}

impl ByPolicy {
    pub fn new(order: Box<dyn Order>, hits: Hits) -> ByPolicy {
        ByPolicy { order, hits, tick: 0 }
    }

    fn next(&mut self, slot: Option<u32>, entry: Ranked, kind: AccessKind) -> Access {
        self.tick += 1;
        access(self.tick, slot, entry, kind)
    }

    /// Hits in order.
    fn hear(&mut self, hits: &[Hit]) {
        self.order.ahead(hits);
        let mut access = Access::read(0, 0);
        for &Hit { slot, size, hash } in hits {
            self.tick += 1;
            (access.tick, access.slot, access.hash, access.size) = (self.tick, Some((slot, 0)), hash, size);
            self.order.access(slot, &access);
        }
    }

    /// An access that found the entry.
    fn heard(&mut self, slot: u32, entry: Ranked, kind: AccessKind) {
        let access = self.next(Some(slot), entry, kind);
        self.order.access(slot, &access);
    }
}

impl Ranks {
    /// The shard's share of the budget is another.
    pub fn set_share(&mut self, share: usize) {
        match self {
            Ranks::Queues(queues) => queues.set_share(share),
            Ranks::Policy(policy) => policy.order.set_capacity(share as u64),
        }
    }

    /// Whether a newcomer is let in. Asked once for each, before room is made.
    pub fn admits(&mut self, entry: Ranked) -> bool {
        match self {
            Ranks::Queues(_) => true,
            Ranks::Policy(policy) => {
                let access = policy.next(None, entry, AccessKind::Read);
                policy.order.admit(&access)
            }
        }
    }

    /// An entry came in. `fills`: nothing was evicted for it.
    pub fn inserted(&mut self, slot: u32, entry: Ranked, fills: bool) {
        match self {
            Ranks::Queues(queues) => queues.inserted(slot, entry.hash, entry.weight, fills),
            // The access is the one that it was let in by.
            Ranks::Policy(policy) => policy.order.inserted(slot, &access(policy.tick, None, entry, AccessKind::Read)),
        }
    }

    /// A hit under the lock.
    pub fn hit(&mut self, slot: u32, entry: Ranked, mark: &AtomicU8) {
        match self {
            Ranks::Policy(policy) if policy.hits != Hits::Marks => policy.heard(slot, entry, AccessKind::Read),
            _ => touch(mark),
        }
    }

    /// Hits that waited, of a policy that hears of them.
    pub fn hear(&mut self, hits: &[Hit]) {
        if let Ranks::Policy(policy) = self {
            policy.hear(hits);
        }
    }

    /// Another value stands in an entry's place, with this mark.
    pub fn replaced(&mut self, slot: u32, before: usize, entry: Ranked, mark: &AtomicU8) {
        match self {
            Ranks::Queues(queues) => queues.resized(slot, before, entry.weight),
            Ranks::Policy(policy) => {
                if before != entry.weight {
                    policy.order.resized(slot, size(entry.weight));
                }
            }
        }
        match self {
            Ranks::Policy(policy) if policy.hits != Hits::Marks => policy.heard(slot, entry, AccessKind::Write),
            _ => touch(mark),
        }
    }

    /// An entry left.
    pub fn removed(&mut self, slot: u32, entry: Ranked, why: Why) {
        match self {
            Ranks::Queues(queues) => queues.removed(slot, entry.hash, entry.weight, why == Why::Evicted),
            Ranks::Policy(policy) => policy.order.removed(slot, entry.hash, why),
        }
    }

    /// An entry is pinned, and is not named as a victim.
    pub fn withdraw(&mut self, slot: u32, entry: Ranked) {
        match self {
            Ranks::Queues(queues) => queues.withdraw(slot, entry.weight),
            Ranks::Policy(policy) => policy.order.withdraw(slot),
        }
    }

    /// It may be named again.
    pub fn restore(&mut self, slot: u32, entry: Ranked) {
        match self {
            Ranks::Queues(queues) => queues.restore(slot, entry.weight),
            Ranks::Policy(policy) => policy.order.restore(slot),
        }
    }

    /// The slots in the order in which they would go, by queues; `None`: the policy has no such order.
    pub fn line(&self) -> Option<[Vec<u32>; 2]> {
        match self {
            Ranks::Queues(queues) => Some(queues.line()),
            Ranks::Policy(policy) => Some([policy.order.line()?.concat(), Vec::new()]),
        }
    }

    /// One line on why an entry stands where it does.
    pub fn explain(&self, slot: u32, hits: u8, is_pinned: bool) -> String {
        match self {
            Ranks::Queues(queues) => queues.explain(slot, hits, is_pinned),
            Ranks::Policy(policy) => policy.order.explain(slot),
        }
    }

    /// Likewise for a key that is not in; `None`: nothing is remembered.
    pub fn explain_absent(&mut self, hash: u64) -> Option<String> {
        match self {
            Ranks::Queues(queues) => queues.explain_absent(hash),
            Ranks::Policy(policy) => policy.order.explain_absent(hash),
        }
    }

    /// Makes an entry the newest of a queue, where there are queues.
    pub fn stand_last(&mut self, slot: u32, entry: Ranked, in_main: bool) {
        if let Ranks::Queues(queues) = self {
            queues.stand_last(slot, entry.weight, in_main);
        }
    }

    /// What is remembered of keys that left, where the order is the engine's own.
    pub fn ghosts(&self) -> Option<Ghosts> {
        if let Ranks::Queues(queues) = self { Some(queues.ghosts()) } else { None }
    }

    pub fn set_ghosts(&mut self, ghosts: Ghosts) {
        if let Ranks::Queues(queues) = self {
            queues.set_ghosts(ghosts);
        }
    }

    /// How many entries go at once, if one has to.
    pub fn batch(&self) -> u32 {
        match self {
            Ranks::Queues(_) => 1,
            Ranks::Policy(policy) => policy.order.batch(),
        }
    }

    /// The entry to evict. `None`: there is none, or the newcomer is worth less than all of them.
    pub fn victim<'e>(&mut self, incoming: Incoming, entry: impl Fn(u32) -> Option<Entry<'e>>) -> Option<u32> {
        let policy = match self {
            Ranks::Queues(queues) => return queues.victim(entry),
            Ranks::Policy(policy) => policy,
        };
        let incoming = match incoming {
            Incoming::Newcomer(newcomer) => access(policy.tick, None, newcomer, AccessKind::Read),
            Incoming::Grown(slot, grown) => access(policy.tick, Some(slot), grown, AccessKind::Write),
            Incoming::Elsewhere => access(policy.tick, Some(0), Ranked { hash: 0, weight: 1 }, AccessKind::Write),
        };
        let mut marks = |slot| entry(slot).map_or(0, |entry| entry.mark.swap(0, Ordering::Relaxed));
        policy.order.victim(&incoming, &mut marks)
    }

    /// No slot from this one on is taken any more.
    pub fn fits(&mut self, slots: usize) {
        match self {
            Ranks::Queues(queues) => queues.fits(slots),
            Ranks::Policy(policy) => policy.order.fits(slots),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Ranks::Queues(queues) => queues.bytes(),
            Ranks::Policy(policy) => policy.order.ghost_bytes(),
        }
    }

    /// Panics if the order contradicts itself or does not know just these slots.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn validate(&self, of_shard: impl Iterator<Item = (u32, usize)>) {
        match self {
            Ranks::Queues(queues) => queues.validate(of_shard),
            Ranks::Policy(policy) => policy.order.validate(),
        }
    }
}
