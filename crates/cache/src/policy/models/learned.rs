//! Models of policies that count or learn: CAR, MQ, LRU-K, CAMP, Hyperbolic, LeCaR, CACHEUS.

use std::collections::BTreeMap;

use super::frame::{Gone, Row, Rows, Rule};
use crate::policy::random::Random;
use crate::policy::{Access, Slot, Why};

/// Lists and ghosts 0 are T1 and B1, 1 are T2 and B2 of the paper's figure 2.
#[derive(Default)]
pub struct Car {
    p: f64,
    ghosts: [Gone<u32>; 2],
    returns: Option<(usize, u32)>,
}

impl Car {
    fn directory(&self, rows: &Rows, list: usize) -> u64 {
        rows.weight(list as u32) + self.ghosts[list].weight()
    }
}

impl Rule for Car {
    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.returns = (0..2).find_map(|list| self.ghosts[list].take(access.hash).map(|weight| (list, weight)));
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let row = rows.rows.pop().expect("the newest");
        let c = rows.capacity;
        match self.returns {
            Some((list, weight)) => {
                let mut b = [0, 1].map(|list| self.ghosts[list].weight() as f64);
                b[list] += f64::from(weight);
                let step = f64::max(1.0, b[1 - list] / b[list]);
                self.p = if list == 0 { (self.p + step).min(c as f64) } else { (self.p - step).max(0.0) };
            }
            None => {
                let w = u64::from(row.weight);
                while self.directory(rows, 0) + w > c && !self.ghosts[0].keys.is_empty() {
                    self.ghosts[0].keys.remove(0);
                }
                let all = |car: &Car| car.directory(rows, 0) + car.directory(rows, 1) + w;
                while all(self) > 2 * c && !self.ghosts[1].keys.is_empty() {
                    self.ghosts[1].keys.remove(0);
                }
            }
        }
        rows.rows.push(Row { list: u32::from(self.returns.take().is_some()), ..row });
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        loop {
            let first = u32::from((rows.weight(0) as f64) < self.p.max(1.0));
            let at = rows.oldest(first).or_else(|| rows.oldest(1 - first))?;
            if marks(rows.rows[at].slot) == 0 {
                return Some(at);
            }
            rows.place(at, 1);
        }
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        if why == Why::Evicted {
            self.ghosts[row.list as usize].push(row.hash, row.weight, row.weight);
            self.settle(rows);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.p = self.p.min(rows.capacity as f64);
        self.ghosts.iter_mut().for_each(|ghosts| ghosts.trim(4 * rows.capacity));
    }
}

/// List q is queue q; frequencies and times by slot.
#[derive(Default)]
pub struct Mq {
    now: u64,
    known: BTreeMap<Slot, (u32, u64)>,
    out: Gone<u32>,
    returning: Option<u32>,
}

impl Mq {
    fn expires(&self, rows: &Rows) -> u64 {
        self.now + 4 * rows.rows.len() as u64
    }

    fn place(&mut self, rows: &mut Rows, at: usize, queue: u32) {
        let expires = self.expires(rows);
        self.known.get_mut(&rows.rows[at].slot).expect("known").1 = expires;
        rows.place(at, queue);
    }

    fn sink(&mut self, rows: &mut Rows) {
        for queue in 1..8 {
            if let Some(at) = rows.oldest(queue)
                && self.known[&rows.rows[at].slot].1 < self.now
            {
                self.place(rows, at, queue - 1);
            }
        }
    }
}

fn log2(frequency: u32) -> u32 {
    (31 - frequency.leading_zeros()).min(7)
}

impl Rule for Mq {
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        self.now += 1;
        let slot = access.slot.expect("a hit").0;
        let known = self.known.get_mut(&slot).expect("known");
        known.0 += 1;
        let queue = log2(known.0);
        self.place(rows, at, queue);
        self.sink(rows);
    }

    fn hit_pinned(&mut self, rows: &mut Rows, access: &Access) {
        self.now += 1;
        self.known.get_mut(&access.slot.expect("a hit").0).expect("known").0 += 1;
        self.sink(rows);
    }

    fn missed(&mut self, rows: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        self.returning = self.out.take(access.hash);
        self.sink(rows);
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let frequency = self.returning.take().unwrap_or(0) + 1;
        let expires = self.expires(rows);
        let row = rows.rows.last_mut().expect("the newest");
        row.list = log2(frequency);
        self.known.insert(row.slot, (frequency, expires));
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        (0..8).find_map(|queue| rows.oldest(queue))
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        if why == Why::Evicted {
            self.out.push(row.hash, row.weight, self.known[&row.slot].0);
            self.out.trim(rows.capacity);
        }
    }

    fn pinned(&mut self, rows: &mut Rows, slot: Slot, pinned: bool) {
        if !pinned {
            let expires = self.expires(rows);
            self.known.get_mut(&slot).expect("known").1 = expires;
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.out.trim(rows.capacity);
    }
}

/// All times of references to a key, the newest last; K is 2.
#[derive(Default)]
pub struct LruK {
    now: u64,
    times: BTreeMap<Slot, Vec<u64>>,
    gone: Gone<Vec<u64>>,
    returning: Option<Vec<u64>>,
}

impl LruK {
    fn hit_slot(&mut self, access: &Access) {
        self.now += 1;
        let slot = access.slot.expect("a hit").0;
        self.times.get_mut(&slot).expect("known").push(self.now);
    }
}

impl Rule for LruK {
    fn hit(&mut self, _: &mut Rows, _: usize, access: &Access) {
        self.hit_slot(access);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.hit_slot(access);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        self.returning = self.gone.take(access.hash);
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let mut times = self.returning.take().unwrap_or_default();
        times.push(self.now);
        self.times.insert(rows.rows.last().expect("the newest").slot, times);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let rank = |row: &Row| {
            let times = &self.times[&row.slot];
            (times.iter().rev().nth(1).copied().unwrap_or(0), times.last().copied(), row.slot)
        };
        let unpinned = (0..rows.rows.len()).filter(|&at| !rows.rows[at].pinned);
        unpinned.min_by_key(|&at| rank(&rows.rows[at]))
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        let times = self.times.remove(&row.slot).expect("known");
        if why == Why::Evicted {
            self.gone.push(row.hash, row.weight, times);
            self.settle(rows);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.gone.trim(rows.capacity);
    }
}

/// Greedy dual with rounded ratios, and no queues: priority and when it was set, by slot.
#[derive(Default)]
pub struct Camp {
    age: u64,
    weight_max: u64,
    now: u64,
    priorities: BTreeMap<Slot, (u64, u64)>,
}

impl Camp {
    fn least(&self) -> Option<(u64, Slot)> {
        self.priorities.iter().map(|(&slot, &rank)| (rank, slot)).min().map(|((priority, _), slot)| (priority, slot))
    }

    fn set(&mut self, slot: Slot, weight: u32) {
        self.priorities.remove(&slot);
        self.age = self.age.max(self.least().map_or(0, |(priority, _)| priority));
        self.weight_max = self.weight_max.max(u64::from(weight)).max(1);
        let ratio = 1000 * self.weight_max / u64::from(weight.max(1));
        let bits = 64 - ratio.max(1).leading_zeros();
        let unit = 1 << bits.saturating_sub(5);
        self.now += 1;
        self.priorities.insert(slot, (self.age + ratio.max(1) / unit * unit, self.now));
    }
}

impl Rule for Camp {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        self.set(rows.rows[at].slot, rows.rows[at].weight);
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let row = rows.rows.last().expect("the newest");
        self.set(row.slot, row.weight);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let (priority, slot) = self.least()?;
        self.age = self.age.max(priority);
        Some(rows.at(slot))
    }

    fn left(&mut self, _: &mut Rows, row: &Row, _: Why) {
        self.priorities.remove(&row.slot);
    }

    fn pinned(&mut self, rows: &mut Rows, slot: Slot, pinned: bool) {
        match pinned {
            true => drop(self.priorities.remove(&slot)),
            false => self.set(slot, rows.rows[rows.at(slot)].weight),
        }
    }

    fn resized(&mut self, rows: &mut Rows, slot: Slot) {
        let row = &rows.rows[rows.at(slot)];
        if !row.pinned {
            self.set(slot, row.weight);
        }
    }
}

/// Entries by arrival and accesses; the sample is drawn from a list kept as ours is.
pub struct Hyperbolic {
    pub random: Random,
    now: u64,
    known: BTreeMap<Slot, (u64, u32)>,
    sampled: Vec<Slot>,
}

impl Hyperbolic {
    pub fn new() -> Hyperbolic {
        Hyperbolic { random: Random::new(0), now: 0, known: BTreeMap::new(), sampled: Vec::new() }
    }

    fn count(&mut self, access: &Access) {
        self.now += 1;
        self.known.get_mut(&access.slot.expect("a hit").0).expect("known").1 += 1;
    }

    fn drop_sampled(&mut self, slot: Slot) {
        if let Some(at) = self.sampled.iter().position(|&sampled| sampled == slot) {
            self.sampled.swap_remove(at);
        }
    }
}

impl Rule for Hyperbolic {
    fn hit(&mut self, _: &mut Rows, _: usize, access: &Access) {
        self.count(access);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.count(access);
    }

    fn missed(&mut self, _: &mut Rows, _: &Access) -> bool {
        self.now += 1;
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let slot = rows.rows.last().expect("the newest").slot;
        self.known.insert(slot, (self.now, 1));
        self.sampled.push(slot);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let drawn: Vec<Slot> =
            (0..64.min(self.sampled.len())).map(|_| self.sampled[self.random.index(self.sampled.len())]).collect();
        let worth = |slot: &Slot| {
            let (since, accesses) = self.known[slot];
            f64::from(accesses) / (self.now - since).max(1) as f64
        };
        let slot = drawn.into_iter().min_by(|a, b| worth(a).total_cmp(&worth(b)))?;
        Some(rows.at(slot))
    }

    fn left(&mut self, _: &mut Rows, row: &Row, _: Why) {
        self.drop_sampled(row.slot);
    }

    fn pinned(&mut self, _: &mut Rows, slot: Slot, pinned: bool) {
        self.drop_sampled(slot);
        if !pinned {
            self.sampled.push(slot);
        }
    }
}

/// Rows by last use; frequencies by slot.
pub struct Lecar {
    random: Random,
    now: u64,
    weight: f64,
    frequency: BTreeMap<Slot, u32>,
    regrets: [Gone<(u32, u64)>; 2],
    returning: u32,
    by: Option<usize>,
}

impl Lecar {
    pub fn new() -> Lecar {
        let regrets = [Gone::new(), Gone::new()];
        let (random, frequency) = (Random::new(0), BTreeMap::new());
        Lecar { random, now: 0, weight: 0.5, frequency, regrets, returning: 0, by: None }
    }

    fn count(&mut self, access: &Access) {
        self.now += 1;
        *self.frequency.get_mut(&access.slot.expect("a hit").0).expect("known") += 1;
    }
}

impl Rule for Lecar {
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        self.count(access);
        rows.place(at, 0);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.count(access);
    }

    fn missed(&mut self, rows: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        self.returning = 0;
        for by in 0..2 {
            if let Some((frequency, at)) = self.regrets[by].take(access.hash) {
                let age = (self.now - at) as f64 / rows.rows.len().max(1) as f64;
                let mut weights = [self.weight, 1.0 - self.weight];
                weights[by] *= (-0.45 * 0.005_f64.powf(age)).exp();
                self.weight = (weights[0] / (weights[0] + weights[1])).clamp(1.0 - 0.99, 0.99);
                self.returning = frequency;
                break;
            }
        }
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        self.frequency.insert(rows.rows.last().expect("the newest").slot, self.returning + 1);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let lru = rows.oldest(0)?;
        let rank = |&at: &usize| (self.frequency[&rows.rows[at].slot], rows.rows[at].hash);
        let lfu = (0..rows.rows.len()).filter(|&at| !rows.rows[at].pinned).min_by_key(rank)?;
        let by = usize::from(self.random.share() >= self.weight);
        self.by = (lru != lfu).then_some(by);
        Some([lru, lfu][by])
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        if let (Why::Evicted, Some(by)) = (why, self.by.take()) {
            self.regrets[by].push(row.hash, row.weight, (self.frequency[&row.slot], self.now));
            self.settle(rows);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.regrets.iter_mut().for_each(|regrets| regrets.trim(rows.share(0.5)));
    }
}
