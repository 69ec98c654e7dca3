//! LeCaR: LRU and LFU both propose a victim, and a coin with learned weights decides. What is asked for again while it
//! is remembered who gave it up makes that one less likely.

use std::sync::Arc;

use super::heap::Heap;
use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::random::Random;
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LECAR: Policy = Policy {
    name: "lecar",
    summary: "a learned mix of LRU and LFU by regret; for small caches",
    source: "Vietri et al.: Driving cache replacement with ML-based LeCaR, HotStorage 2018",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + Heap::<Rank>::BYTES + size_of::<Rank>(),
    parameters: &[
        Parameter { name: "rate", summary: "learning rate", default: 0.45, range: (0.0, 1.0) },
        Parameter {
            name: "history",
            summary: "keys remembered for each of both, as a share of the capacity",
            default: 0.5,
            range: (0.0, 4.0),
        },
        Parameter { name: "seed", summary: "seed of the coin", default: 0.0, range: (0.0, 1.0e9) },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Lecar::new(settings)),
};

/// Entries by last use.
const RECENT: u32 = 0;
const PINNED: u32 = 1;

/// A regret is worth this much less after as many accesses as the cache has entries.
const DISCOUNT: f64 = 0.005;
/// Neither of both gets a larger share of the decisions.
const WEIGHT_MAX: f64 = 0.99;

/// How an entry stands with LFU: how often it was asked for, and as a tie-break its key.
type Rank = (u32, u64);

/// What is remembered of a key that was given up.
#[derive(Clone, Copy)]
struct Regret {
    frequency: u32,
    at: u64,
}

struct Lecar {
    unit: Unit,
    rate: f64,
    history_share: f64,
    capacity: u64,
    random: Random,
    now: u64,
    lists: Lists,
    /// Those that may go, the least frequent first.
    heap: Heap<Rank>,
    /// The rank of those that are pinned.
    ranks: Vec<Rank>,
    /// What LRU, then LFU, gave up.
    regrets: [History<Regret>; 2],
    /// LRU's share of the decisions.
    recency_weight: f64,
    /// The frequency of the key that was just found among the regrets.
    returning: Option<(u64, u32)>,
    /// Which of both proposed the victim just named: none where both did.
    proposed_by: Option<usize>,
}

impl Lecar {
    fn new(settings: &Settings) -> Lecar {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(LECAR.parameters[index].default);
        Lecar {
            unit: settings.unit,
            rate: value(0),
            history_share: value(1),
            capacity: settings.capacity,
            random: Random::new(value(2) as u64),
            now: 0,
            lists: Lists::new(2),
            heap: Heap::new(),
            ranks: Vec::new(),
            regrets: [History::new(), History::new()],
            recency_weight: 0.5,
            returning: None,
            proposed_by: None,
        }
    }

    fn regrets_max(&self) -> u64 {
        (self.capacity as f64 * self.history_share) as u64
    }

    /// The policy that gave the key up loses weight, the more the shorter ago that was.
    fn regret(&mut self, by: usize, at: u64) {
        let entries = (self.lists.len(RECENT) + self.lists.len(PINNED)).max(1);
        let loss = DISCOUNT.powf((self.now - at) as f64 / entries as f64);
        let mut weights = [self.recency_weight, 1.0 - self.recency_weight];
        weights[by] *= (-self.rate * loss).exp();
        let share = weights[0] / (weights[0] + weights[1]);
        self.recency_weight = share.clamp(1.0 - WEIGHT_MAX, WEIGHT_MAX);
    }
}

impl Order for Lecar {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
        self.heap.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        self.now += 1;
        if self.lists.list_of(slot).is_none() {
            return;
        }
        let (frequency, hash) = self.ranks[slot as usize];
        let rank = (frequency.saturating_add(1), hash);
        self.ranks[slot as usize] = rank;
        if self.lists.list_of(slot) == Some(RECENT) {
            self.lists.move_to(RECENT, slot);
            self.heap.set(slot, rank);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        let found = (0..2).find_map(|by| self.regrets[by].take(access.hash).map(|regret| (by, regret)));
        self.returning = found.map(|(by, Regret { frequency, at })| {
            self.regret(by, at);
            (access.hash, frequency)
        });
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let returning = self.returning.take().filter(|&(hash, _)| hash == access.hash);
        let frequency = returning.map_or(0, |(_, frequency)| frequency).saturating_add(1);
        let rank = (frequency, access.hash);
        super::reach(&mut self.ranks, slot, rank);
        self.ranks[slot as usize] = rank;
        self.lists.push(RECENT, slot, self.unit.weight(access.size));
        self.heap.set(slot, rank);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        self.heap.remove(slot);
        let regrets_max = self.regrets_max();
        if let (Why::Evicted, Some(by)) = (why, self.proposed_by.take()) {
            let regrets = &mut self.regrets[by];
            regrets.push(hash, weight, Regret { frequency: self.ranks[slot as usize].0, at: self.now });
            regrets.trim(regrets_max);
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        self.heap.fits(slots);
        super::fit(&mut self.ranks, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let (recent, (_, rare)) = (self.lists.oldest(RECENT)?, self.heap.least()?);
        let by = usize::from(self.random.share() >= self.recency_weight);
        self.proposed_by = (recent != rare).then_some(by);
        Some([recent, rare][by])
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.heap.remove(slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(RECENT, slot);
        self.heap.set(slot, self.ranks[slot as usize]);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        let regrets_max = self.regrets_max();
        self.regrets.iter_mut().for_each(|regrets| regrets.trim(regrets_max));
    }

    fn ghost_bytes(&self) -> usize {
        self.regrets.iter().map(History::bytes).sum()
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(RECENT) => format!(
                "asked for {} times; LRU decides {:.0} % of the time, LFU the rest",
                self.ranks[slot as usize].0,
                100.0 * self.recency_weight
            ),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.heap.validate();
        self.regrets.iter().for_each(History::validate);
        assert_eq!(self.heap.len(), self.lists.len(RECENT), "all that is not pinned is in both orders");
        let ranked = self.lists.iter(RECENT).all(|slot| self.heap.key(slot) == Some(self.ranks[slot as usize]));
        assert!(ranked, "an entry has its own rank");
        assert!(self.regrets.iter().all(|regrets| regrets.weight() <= self.regrets_max()), "regrets beyond the bound");
    }
}
