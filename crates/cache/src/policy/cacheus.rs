//! CACHEUS: a scan-resistant LRU and a churn-resistant LFU propose victims, and a coin decides. Its weights are
//! learned by regret, at a rate that is itself learned from the hit ratio.
//!
//! SR-LRU keeps newcomers in a queue `Q` until they are asked for again, and what was used before in `S`. What it
//! regrets moves the border. CR-LFU gives up the newest of those used least. As the authors' program: what returns
//! keeps the frequency that it had, and `S` never quite reaches its limit.

use std::cmp::Reverse;
use std::sync::Arc;

use super::heap::Heap;
use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::random::Random;
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static CACHEUS: Policy = Policy {
    name: "cacheus",
    summary: "a learned mix of a scan-resistant LRU and a churn-resistant LFU, without parameters to tune",
    source: "Rodriguez et al.: Learning cache replacement with CACHEUS, FAST 2021",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<Entry>() + Heap::<Rank>::BYTES,
    parameters: &[
        Parameter {
            name: "history",
            summary: "keys remembered for each of both, as a share of the capacity",
            default: 0.5,
            range: (0.0, 4.0),
        },
        Parameter { name: "seed", summary: "seed of the coin", default: 0.0, range: (0.0, 1.0e9) },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Cacheus::new(settings)),
};

/// S of the paper: used before.
const USED: u32 = 0;
/// Q of the paper: new, or pushed out of `USED`.
const QUEUE: u32 = 1;
const PINNED: u32 = 2;

/// The experts.
const LRU: usize = 0;
const LFU: usize = 1;

/// Share of `QUEUE` at the start.
const QUEUE_SHARE: f64 = 0.01;
/// Neither of both gets a larger share of the decisions.
const WEIGHT_MAX: f64 = 0.99;

/// How an entry stands with LFU: how often it was asked for, then the newest use first.
type Rank = (u32, Reverse<u64>);

#[derive(Clone, Copy)]
struct Entry {
    rank: Rank,
    /// Its list, for when it is pinned.
    home: u32,
    /// It came in when the cache was full, and not from the history.
    new: bool,
    /// It was pushed out of `USED` and not asked for since.
    demoted: bool,
}

/// What is remembered of a key that was given up.
#[derive(Clone, Copy)]
struct Regret {
    frequency: u32,
    new: bool,
}

struct Cacheus {
    unit: Unit,
    history_share: f64,
    capacity: u64,
    random: Random,
    rate: Rate,
    now: u64,
    lists: Lists,
    entries: Vec<Entry>,
    heap: Heap<Rank>,
    /// What LRU, then LFU, gave up.
    regrets: [History<Regret>; 2],
    /// LRU's share of the decisions.
    recency_weight: f64,
    /// The most that `QUEUE` should weigh; `USED` has the rest.
    queue_max: u64,
    /// Entries that are demoted.
    demoted: u64,
    /// New entries that LRU gave up and that are remembered.
    new_regrets: u64,
    /// The key that was just found among the regrets, and its frequency.
    returning: Option<(u64, u32)>,
    /// Room had to be made for the newcomer.
    was_full: bool,
    /// Which of both proposed the victim just named: none where both did.
    proposed_by: Option<usize>,
}

impl Cacheus {
    fn new(settings: &Settings) -> Cacheus {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(CACHEUS.parameters[index].default);
        Cacheus {
            unit: settings.unit,
            history_share: value(0),
            capacity: settings.capacity,
            random: Random::new(value(1) as u64),
            rate: Rate::new(settings.capacity),
            now: 0,
            lists: Lists::new(3),
            entries: Vec::new(),
            heap: Heap::new(),
            regrets: [History::new(), History::new()],
            recency_weight: 0.5,
            queue_max: ((settings.capacity as f64 * QUEUE_SHARE + 0.5) as u64).max(1),
            demoted: 0,
            new_regrets: 0,
            returning: None,
            was_full: false,
            proposed_by: None,
        }
    }

    fn used_max(&self) -> u64 {
        self.capacity.saturating_sub(self.queue_max)
    }

    fn regrets_max(&self) -> u64 {
        (self.capacity as f64 * self.history_share) as u64
    }

    fn move_to(&mut self, list: u32, slot: Slot) {
        self.entries[slot as usize].home = list;
        self.lists.move_to(list, slot);
    }

    fn count_access(&mut self, slot: Slot) {
        let rank = &mut self.entries[slot as usize].rank;
        *rank = (rank.0.saturating_add(1), Reverse(self.now));
        if self.heap.key(slot).is_some() {
            self.heap.set(slot, self.entries[slot as usize].rank);
        }
    }

    fn demote_oldest(&mut self) -> bool {
        let Some(slot) = self.lists.oldest(USED) else { return false };
        self.move_to(QUEUE, slot);
        self.entries[slot as usize].demoted = true;
        self.demoted += 1;
        true
    }

    fn limit_used(&mut self) {
        while self.lists.weight(USED) >= self.used_max() && self.demote_oldest() {}
    }

    /// A demoted entry was asked for: `USED` is too small.
    fn grow_used(&mut self) {
        let step = rounded(self.new_regrets, self.demoted);
        let used_max = (self.used_max() + step).min(self.capacity.saturating_sub(1));
        self.queue_max = self.capacity - used_max;
    }

    /// A new entry was given up too early: `QUEUE` is too small.
    fn grow_queue(&mut self) {
        let step = rounded(self.demoted, self.new_regrets);
        self.queue_max = (self.queue_max + step).min(self.capacity.saturating_sub(1));
    }

    fn regret(&mut self, by: usize) {
        let mut weights = [self.recency_weight, 1.0 - self.recency_weight];
        weights[by] *= (-self.rate.rate).exp();
        let share = weights[0] / (weights[0] + weights[1]);
        self.recency_weight = share.clamp(1.0 - WEIGHT_MAX, WEIGHT_MAX);
    }

    fn take_regret(&mut self, hash: u64) -> Option<u32> {
        if let Some(Regret { frequency, new }) = self.regrets[LRU].take(hash) {
            if new {
                self.new_regrets -= 1;
                self.grow_queue();
            }
            self.regret(LRU);
            return Some(frequency);
        }
        let Regret { frequency, .. } = self.regrets[LFU].take(hash)?;
        self.regret(LFU);
        Some(frequency)
    }

    fn trim(&mut self) {
        let regrets_max = self.regrets_max();
        while self.regrets[LRU].weight() > regrets_max {
            if let Some((_, regret)) = self.regrets[LRU].pop_oldest() {
                self.new_regrets -= u64::from(regret.new);
            }
        }
        self.regrets[LFU].trim(regrets_max);
    }
}

/// `count / other` to the nearest whole number, at least 1.
fn rounded(count: u64, other: u64) -> u64 {
    ((count as f64 / other.max(1) as f64 + 0.5) as u64).max(1)
}

impl Order for Cacheus {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
        self.heap.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        self.now += 1;
        match self.lists.list_of(slot) {
            Some(USED) => {
                self.count_access(slot);
                self.move_to(USED, slot);
            }
            Some(QUEUE) => {
                self.count_access(slot);
                if self.entries[slot as usize].demoted {
                    self.grow_used();
                    self.entries[slot as usize].demoted = false;
                    self.demoted -= 1;
                }
                if self.lists.weight(USED) >= self.used_max() {
                    self.demote_oldest();
                }
                self.move_to(USED, slot);
            }
            Some(_) => self.count_access(slot),
            None => {}
        }
        self.rate.count(self.now, true, &mut self.random);
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        self.was_full = false;
        self.returning = self.take_regret(access.hash).map(|frequency| (access.hash, frequency));
        self.rate.count(self.now, false, &mut self.random);
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let returning = self.returning.take().filter(|&(hash, _)| hash == access.hash);
        let [used, queue] = [USED, QUEUE].map(|list| self.lists.weight(list));
        let (home, new) = match returning {
            Some(_) => (USED, false),
            None if used < self.used_max() && queue == 0 && !self.was_full => (USED, false),
            None if !self.was_full && queue < self.queue_max => (QUEUE, false),
            None => (QUEUE, true),
        };
        let rank = (returning.map_or(1, |(_, frequency)| frequency), Reverse(self.now));
        let entry = Entry { rank, home, new, demoted: false };
        super::reach(&mut self.entries, slot, entry);
        self.entries[slot as usize] = entry;
        self.lists.push(home, slot, weight);
        self.heap.set(slot, rank);
        if returning.is_some() || new {
            self.limit_used();
        }
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        self.heap.remove(slot);
        let Entry { rank, new, demoted, .. } = self.entries[slot as usize];
        self.demoted -= u64::from(demoted);
        if let (Why::Evicted, Some(by)) = (why, self.proposed_by.take()) {
            if by == LRU {
                self.new_regrets += u64::from(new);
                if let Some(replaced) = self.regrets[LRU].take(hash) {
                    self.new_regrets -= u64::from(replaced.new);
                }
            }
            self.regrets[by].push(hash, weight, Regret { frequency: rank.0, new });
            self.trim();
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        self.heap.fits(slots);
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.was_full = true;
        let recent = self.lists.oldest(QUEUE).or_else(|| self.lists.oldest(USED))?;
        let (_, rare) = self.heap.least()?;
        let by = if self.random.share() < self.recency_weight { LRU } else { LFU };
        self.proposed_by = (recent != rare).then_some(by);
        Some([recent, rare][by])
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.heap.remove(slot);
    }

    fn restore(&mut self, slot: Slot) {
        let Entry { rank, home, .. } = self.entries[slot as usize];
        self.lists.move_to(home, slot);
        self.heap.set(slot, rank);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.queue_max = self.queue_max.min(capacity.saturating_sub(1)).max(1);
        self.rate.period = capacity.max(1);
        self.trim();
    }

    fn ghost_bytes(&self) -> usize {
        self.regrets.iter().map(History::bytes).sum()
    }

    fn explain(&self, slot: Slot) -> String {
        let place = match self.lists.list_of(slot) {
            Some(USED) => "used before",
            Some(QUEUE) if self.entries[slot as usize].demoted => "not used for long",
            Some(QUEUE) => "new",
            Some(_) => return "pinned".into(),
            None => return "not in".into(),
        };
        let (frequency, _) = self.entries[slot as usize].rank;
        let share = 100.0 * self.recency_weight;
        format!("{place}, asked for {frequency} times; SR-LRU decides {share:.0} % of the time, CR-LFU the rest")
    }

    fn validate(&self) {
        self.lists.validate();
        self.heap.validate();
        self.regrets.iter().for_each(History::validate);
        assert_eq!(self.heap.len(), self.lists.len(USED) + self.lists.len(QUEUE), "both experts know all");
        let all = || [USED, QUEUE, PINNED].into_iter().flat_map(|list| self.lists.iter(list));
        let demoted = all().filter(|&slot| self.entries[slot as usize].demoted).count();
        assert_eq!(demoted as u64, self.demoted, "the count of demoted entries");
        assert!(self.regrets.iter().all(|regrets| regrets.weight() <= self.regrets_max()), "regrets beyond the bound");
    }
}

/// The learning rate: followed in the direction in which the hit ratio rose, reset when it stays bad.
struct Rate {
    rate: f64,
    reset: f64,
    /// The rates of this and of the last period.
    current: f64,
    previous: f64,
    /// Accesses in a period.
    period: u64,
    hits: u64,
    ratio: f64,
    zeros: u32,
    falls: u32,
}

/// Periods without success after which the rate is set back.
const PATIENCE: u32 = 10;
const RATE_MIN: f64 = 0.001;

impl Rate {
    fn new(capacity: u64) -> Rate {
        let period = capacity.max(1);
        let rate = (2.0 * std::f64::consts::LN_2 / period as f64).sqrt();
        let reset = rate.clamp(RATE_MIN, 1.0);
        Rate { rate, reset, current: rate, previous: 0.0, period, hits: 0, ratio: 0.0, zeros: 0, falls: 0 }
    }

    fn count(&mut self, now: u64, hit: bool, random: &mut Random) {
        self.hits += u64::from(hit);
        if !now.is_multiple_of(self.period) {
            return;
        }
        let thousandths = |number: f64| (number * 1000.0).round() / 1000.0;
        let ratio = thousandths(self.hits as f64 / self.period as f64);
        let gain = thousandths(ratio - self.ratio);
        let step = thousandths(self.current) - thousandths(self.previous);
        let direction = step * gain;
        if direction != 0.0 {
            let change = (self.rate * step).abs() * direction.signum();
            self.rate = (self.rate + change).clamp(RATE_MIN, 1.0);
            (self.zeros, self.falls) = (0, 0);
        } else if gain <= 0.0 {
            self.stay(ratio, gain, random);
        }
        self.previous = self.current;
        self.current = self.rate;
        self.ratio = ratio;
        self.hits = 0;
    }

    /// No direction is known, and it got no better.
    fn stay(&mut self, ratio: f64, gain: f64, random: &mut Random) {
        self.zeros += u32::from(gain < 0.0 || ratio <= 0.0);
        self.falls += u32::from(gain < 0.0);
        if self.zeros >= PATIENCE {
            self.rate = self.reset;
            self.zeros = 0;
        } else if gain < 0.0 && self.falls >= PATIENCE {
            self.rate = self.reset;
            self.falls = 0;
        } else if gain < 0.0 {
            self.rate = match self.rate {
                rate if rate >= 1.0 => 0.9,
                rate if rate <= RATE_MIN => 0.005,
                rate if random.share() < 0.5 => (rate * 1.25).min(1.0),
                rate => (rate * 0.75).max(RATE_MIN),
            };
        }
    }
}
