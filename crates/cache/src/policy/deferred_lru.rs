//! DeferredLRU: least recently used, with moves that are put off.
//!
//! As written (`deferred-lru`): a hit moves nothing. It notes its entry in the Recent list, unless the entry stands
//! there (section 4.1.6). When that list weighs `pull` of the capacity, its entries move to the newest end of the
//! queue at once. Then the list is empty (4.3.2). When room is needed, `purge` of the entries are evicted at once,
//! from the oldest on. Those in the Recent list are passed by (4.3.3).
//!
//! With `adapt` the threshold is chosen by trial (`duel.rs`). Victims go one by one then, since to purge more at once
//! has hit less in the mean of our traces.
//!
//! Where the thesis is silent: if all that is in stands in the Recent list, a newcomer has that list pulled. The
//! thesis' program waits for room for ever there.
//!
//! Lazy (`deferred-lru-lazy`): the Recent list is one mark for each entry, and is pulled where it is looked at. A purge
//! moves an entry with a mark to the newest end instead of passing it by.

use std::sync::Arc;

use super::duel::{Duel, FIRST, PULLS, Scores};
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, Learned, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

const PURGE: Parameter = Parameter {
    name: "purge",
    summary: "share of the entries that is evicted at once",
    default: 0.1,
    range: (0.0, 1.0),
};

/// See the module.
pub static DEFERRED_LRU: Policy = Policy {
    name: "deferred-lru",
    summary: "least recently used; hits are noted and their entries moved together, victims go together",
    source: "DeferredLRU: a scalable software cache (thesis, chapter 4)",
    hits: Hits::Sampled,
    entry_bytes: 2 * NODE_BYTES,
    parameters: &[
        Parameter {
            name: "pull",
            summary: "share of the capacity that the list of recent entries weighs when they are moved",
            default: 0.1,
            range: (0.0, 1.0),
        },
        PURGE,
        Parameter {
            name: "adapt",
            summary: "1: `pull` is what hits most in small caches of sampled keys, and `purge` is 0; 0: both are fixed",
            default: 0.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |settings| if adapts(settings) { Arc::new(Scores::default()) } else { Arc::new(NothingLearned) },
    order: as_written,
};

/// See the module.
pub static DEFERRED_LRU_LAZY: Policy = Policy {
    name: "deferred-lru-lazy",
    summary: "the same with one mark for each entry: a marked one is moved where a victim is looked for",
    source: "DeferredLRU: a scalable software cache (thesis, chapter 4), changed",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES,
    parameters: &[PURGE],
    learned: |_| Arc::new(NothingLearned),
    order: lazy,
};

/// Entries that may go, by their last move.
const QUEUE: u32 = 0;
/// Entries that are pinned.
const PINNED: u32 = 1;
/// The only list of `Recent::lists`.
const NOTED: u32 = 0;

struct DeferredLru {
    unit: Unit,
    capacity: u64,
    purge_share: f64,
    /// Evicted since there was last room.
    purged: usize,
    lists: Lists,
    /// `None`: marks stand for it.
    recent: Option<Recent>,
    /// There, if `pull` is chosen by trial.
    duel: Option<Box<Duel>>,
}

struct Recent {
    pull_share: f64,
    /// Entries of the queue that were hit since they were last moved, by their first hit.
    lists: Lists,
    /// Where the search for the next victim goes on: all older ones of the queue are recent. `None`: at the oldest.
    hand: Option<Slot>,
}

fn adapts(settings: &Settings) -> bool {
    settings.values.get(2).is_some_and(|adapt| *adapt >= 0.5)
}

fn as_written(settings: &Settings, learned: Arc<dyn Learned>) -> Box<dyn Order> {
    let duel = if adapts(settings) { Duel::new(learned) } else { None };
    let (pull, purge) = if duel.is_some() { (PULLS[FIRST], 0.0) } else { (settings.values[0], settings.values[1]) };
    Box::new(DeferredLru { duel, ..DeferredLru::with(pull, purge, settings) })
}

/// One that is tried out.
pub(super) fn candidate(pull: f64, settings: &Settings) -> Box<dyn Order> {
    Box::new(DeferredLru::with(pull, 0.0, settings))
}

fn lazy(settings: &Settings, _: Arc<dyn Learned>) -> Box<dyn Order> {
    Box::new(DeferredLru::new(settings, settings.values[0], None))
}

impl Recent {
    fn has(&self, slot: Slot) -> bool {
        self.lists.list_of(slot).is_some()
    }

    /// An entry leaves the queue, or its place in it.
    fn leaves(&mut self, slot: Slot, queue: &Lists) {
        if self.hand == Some(slot) {
            self.hand = queue.newer(slot);
        }
        if self.has(slot) {
            self.lists.remove(slot);
        }
    }

    /// Moves all to the newest end, those that were noted last at its end. The newest of the queue stays in its place:
    /// in the thesis' list an insertion may be under way there.
    fn pull(&mut self, queue: &mut Lists) {
        let (_, newest) = queue.ends(QUEUE);
        while let Some(slot) = self.lists.oldest(NOTED) {
            self.lists.remove(slot);
            if slot != newest {
                queue.move_to(QUEUE, slot);
            }
        }
        self.hand = None;
    }

    /// The oldest of the queue that is not recent.
    fn oldest_other(&mut self, queue: &Lists) -> Option<Slot> {
        let mut at = self.hand.or_else(|| queue.oldest(QUEUE));
        while let Some(slot) = at.filter(|&slot| self.has(slot)) {
            at = queue.newer(slot);
            self.hand = at.or(self.hand);
        }
        at
    }
}

impl DeferredLru {
    fn with(pull_share: f64, purge_share: f64, settings: &Settings) -> DeferredLru {
        DeferredLru::new(settings, purge_share, Some(Recent { pull_share, lists: Lists::new(1), hand: None }))
    }

    /// A request of which the candidates hear as well.
    fn try_out(&mut self, access: &Access) {
        let pull = self.duel.as_mut().and_then(|duel| duel.request(access));
        if let (Some(recent), Some(pull)) = (&mut self.recent, pull) {
            recent.pull_share = pull;
            self.pull_if_due();
        }
    }

    fn new(settings: &Settings, purge_share: f64, recent: Option<Recent>) -> DeferredLru {
        let Settings { unit, capacity, .. } = *settings;
        DeferredLru { unit, capacity, purge_share, purged: 0, lists: Lists::new(2), recent, duel: None }
    }

    fn pull_if_due(&mut self) {
        let Some(recent) = &mut self.recent else { return };
        let weight = recent.lists.weight(NOTED);
        if weight > 0 && weight as f64 >= recent.pull_share * self.capacity as f64 {
            recent.pull(&mut self.lists);
        }
    }
}

impl Order for DeferredLru {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        self.try_out(access);
        let Some(recent) = &mut self.recent else { return };
        if self.lists.list_of(slot) == Some(QUEUE) && !recent.has(slot) {
            recent.lists.push(NOTED, slot, self.lists.weight_of(slot));
            self.pull_if_due();
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.purged = 0;
        self.try_out(access);
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.lists.push(QUEUE, slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
        if let Some(recent) = self.recent.as_mut().filter(|recent| recent.has(slot)) {
            recent.lists.set_weight(slot, self.unit.weight(size));
        }
    }

    fn removed(&mut self, slot: Slot, _: u64, why: Why) {
        self.purged += usize::from(why == Why::Evicted);
        if let Some(recent) = &mut self.recent {
            recent.leaves(slot, &self.lists);
        }
        self.lists.remove(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        if let Some(recent) = &mut self.recent {
            recent.lists.fits(slots);
        }
    }

    fn victim(&mut self, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        if let Some(duel) = self.duel.as_mut().filter(|duel| duel.is_idle()) {
            duel.begin((self.unit, self.capacity), self.lists.len(QUEUE), candidate);
        }
        let Some(recent) = &mut self.recent else {
            // Each mark is taken once, and hits that come while it is looked for must not keep it going for ever.
            for _ in 0..self.lists.len(QUEUE) {
                let slot = self.lists.oldest(QUEUE)?;
                if marks(slot) == 0 {
                    return Some(slot);
                }
                self.lists.move_to(QUEUE, slot);
            }
            return self.lists.oldest(QUEUE);
        };
        recent.oldest_other(&self.lists).or_else(|| {
            recent.pull(&mut self.lists);
            self.lists.oldest(QUEUE)
        })
    }

    /// A purge ends when only recent entries are left.
    fn batch(&self) -> u32 {
        let recent = self.recent.as_ref().map_or(0, |recent| recent.lists.len(NOTED));
        let queued = self.lists.len(QUEUE);
        if queued > recent { (self.purge_share * (queued + self.purged) as f64) as u32 } else { 0 }
    }

    fn withdraw(&mut self, slot: Slot) {
        if let Some(recent) = &mut self.recent {
            recent.leaves(slot, &self.lists);
        }
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(QUEUE, slot);
    }

    fn line(&self) -> Option<Vec<Vec<Slot>>> {
        Some(vec![self.lists.iter(QUEUE).collect()])
    }

    fn stand_first(&mut self, slot: Slot, _: Option<usize>) {
        if let Some(recent) = &mut self.recent {
            // All that is older than where the hand stands is recent, and this is not.
            recent.hand = None;
        }
        self.lists.move_to_oldest(QUEUE, slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        (self.capacity, self.purged) = (capacity, 0);
        self.duel.iter_mut().for_each(|duel| duel.reset());
        self.pull_if_due();
    }

    fn ghost_bytes(&self) -> usize {
        self.duel.as_ref().map_or(0, |duel| duel.bytes())
    }

    fn explain(&self, slot: Slot) -> String {
        let among = self.lists.len(QUEUE);
        match (self.lists.list_of(slot), &self.recent) {
            (Some(QUEUE), Some(recent)) if recent.has(slot) => {
                let noted = recent.lists.len(NOTED);
                format!("one of {noted} recent entries, which no purge evicts, of {among}")
            }
            (Some(QUEUE), _) if self.lists.oldest(QUEUE) == Some(slot) => "the oldest: goes next".into(),
            (Some(QUEUE), _) => format!("one of {among} by last move"),
            (Some(_), _) => "pinned".into(),
            (None, _) => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        let Some(recent) = &self.recent else { return };
        recent.lists.validate();
        let mut at = recent.lists.oldest(NOTED);
        while let Some(slot) = at {
            assert_eq!(self.lists.list_of(slot), Some(QUEUE), "what is recent may go");
            assert_eq!(self.lists.weight_of(slot), recent.lists.weight_of(slot), "and weighs what it weighs there");
            at = recent.lists.newer(slot);
        }
        if let Some(hand) = recent.hand {
            assert_eq!(self.lists.list_of(hand), Some(QUEUE), "the hand stands in the queue");
        }
    }
}
