//! CACHEUS: what is counted incrementally there is counted from nothing here each time.

use std::collections::BTreeMap;

use super::frame::{Gone, Row, Rows, Rule};
use crate::policy::random::Random;
use crate::policy::{Access, Slot, Why};

/// Lists of rows: S and Q of the paper.
const USED: u32 = 0;
const QUEUE: u32 = 1;

#[derive(Clone, Copy)]
struct Known {
    frequency: u32,
    used_at: u64,
    new: bool,
    demoted: bool,
}

/// See the module.
pub struct Cacheus {
    random: Random,
    now: u64,
    known: BTreeMap<Slot, Known>,
    /// What LRU and LFU gave up: how often each was asked for, and whether it was new.
    gone: [Gone<(u32, bool)>; 2],
    recency: f64,
    /// The most that Q should weigh.
    queue_max: u64,
    returning: Option<u32>,
    full: bool,
    by: Option<usize>,
    rate: Rate,
}

/// The learning rate, with all hits since the last period's end.
struct Rate {
    rate: f64,
    reset: f64,
    rates: [f64; 2],
    period: u64,
    hits: Vec<bool>,
    ratio: f64,
    zeros: u32,
    falls: u32,
}

fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

impl Rate {
    fn count(&mut self, now: u64, hit: bool, random: &mut Random) {
        self.hits.push(hit);
        if !now.is_multiple_of(self.period) {
            return;
        }
        let hits = self.hits.drain(..).filter(|hit| *hit).count() as f64;
        let ratio = thousandths(hits / self.period as f64);
        let gain = thousandths(ratio - self.ratio);
        let step = thousandths(self.rates[1]) - thousandths(self.rates[0]);
        if step * gain != 0.0 {
            let up = (step > 0.0) == (gain > 0.0);
            let change = (self.rate * step).abs();
            self.rate = (if up { self.rate + change } else { self.rate - change }).clamp(0.001, 1.0);
            (self.zeros, self.falls) = (0, 0);
        } else if gain < 0.0 || (gain == 0.0 && ratio == 0.0) {
            self.zeros += 1;
            self.falls += u32::from(gain < 0.0);
            if self.zeros == 10 {
                (self.rate, self.zeros) = (self.reset, 0);
            } else if gain < 0.0 && self.falls >= 10 {
                (self.rate, self.falls) = (self.reset, 0);
            } else if gain < 0.0 {
                self.rate = self.jump(random);
            }
        }
        self.rates = [self.rates[1], self.rate];
        self.ratio = ratio;
    }

    fn jump(&self, random: &mut Random) -> f64 {
        if self.rate >= 1.0 {
            return 0.9;
        }
        if self.rate <= 0.001 {
            return 0.005;
        }
        let factor = if random.share() < 0.5 { 1.25 } else { 0.75 };
        (self.rate * factor).clamp(0.001, 1.0)
    }
}

impl Cacheus {
    /// For a cache of this capacity at first.
    pub fn new(capacity: u64) -> Cacheus {
        let rate = (2.0 * 2.0_f64.ln() / capacity as f64).sqrt();
        let (reset, period) = (rate.clamp(0.001, 1.0), capacity);
        let rates = [0.0, rate];
        Cacheus {
            random: Random::new(0),
            now: 0,
            known: BTreeMap::new(),
            gone: [Gone::new(), Gone::new()],
            recency: 0.5,
            queue_max: ((capacity as f64 * 0.01).round() as u64).max(1),
            returning: None,
            full: false,
            by: None,
            rate: Rate { rate, reset, rates, period, hits: Vec::new(), ratio: 0.0, zeros: 0, falls: 0 },
        }
    }

    fn used_max(&self, rows: &Rows) -> u64 {
        rows.capacity.saturating_sub(self.queue_max)
    }

    fn demoted(&self) -> u64 {
        self.known.values().filter(|known| known.demoted).count() as u64
    }

    fn new_gone(&self) -> u64 {
        self.gone[0].keys.iter().filter(|key| key.2.1).count() as u64
    }

    fn demote(&mut self, rows: &mut Rows) -> bool {
        let Some(at) = rows.oldest(USED) else { return false };
        let slot = rows.rows[at].slot;
        rows.place(at, QUEUE);
        self.known.get_mut(&slot).expect("known").demoted = true;
        true
    }

    fn asked(&mut self, slot: Slot) {
        self.now += 1;
        let known = self.known.get_mut(&slot).expect("known");
        (known.frequency, known.used_at) = (known.frequency + 1, self.now);
    }
}

fn ratio(count: u64, other: u64) -> u64 {
    ((count as f64 / other.max(1) as f64).round() as u64).max(1)
}

impl Rule for Cacheus {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        let slot = rows.rows[at].slot;
        self.asked(slot);
        if rows.rows[at].list == QUEUE {
            if self.known[&slot].demoted {
                let step = ratio(self.new_gone(), self.demoted());
                let used_max = (self.used_max(rows) + step).min(rows.capacity.saturating_sub(1));
                self.queue_max = rows.capacity - used_max;
                self.known.get_mut(&slot).expect("known").demoted = false;
            }
            if rows.weight(USED) >= self.used_max(rows) {
                self.demote(rows);
            }
        }
        rows.place(rows.at(slot), USED);
        self.rate.count(self.now, true, &mut self.random);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.asked(access.slot.expect("a hit").0);
        self.rate.count(self.now, true, &mut self.random);
    }

    fn missed(&mut self, rows: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        self.full = false;
        let (demoted, new_gone) = (self.demoted(), self.new_gone());
        let lost = [0, 1].into_iter().find_map(|by| Some((by, self.gone[by].take(access.hash)?)));
        self.returning = lost.map(|(_, (frequency, _))| frequency);
        if let Some((by, (_, new))) = lost {
            if by == 0 && new {
                // The key itself is not remembered any more.
                let step = ratio(demoted, new_gone - 1);
                self.queue_max = (self.queue_max + step).min(rows.capacity.saturating_sub(1));
            }
            let mut weights = [self.recency, 1.0 - self.recency];
            weights[by] *= (-self.rate.rate).exp();
            self.recency = (weights[0] / (weights[0] + weights[1])).clamp(1.0 - 0.99, 0.99);
        }
        self.rate.count(self.now, false, &mut self.random);
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let newest = rows.rows.len() - 1;
        // The row is in already, with list 0.
        let used = rows.weight(USED) - u64::from(rows.rows[newest].weight);
        let queue = rows.weight(QUEUE);
        let (list, new) = if self.returning.is_some() || (!self.full && queue == 0 && used < self.used_max(rows)) {
            (USED, false)
        } else {
            (QUEUE, self.full || queue >= self.queue_max)
        };
        rows.rows[newest].list = list;
        let returning = self.returning.take();
        let known = Known { frequency: returning.unwrap_or(1), used_at: self.now, new, demoted: false };
        self.known.insert(rows.rows[newest].slot, known);
        if returning.is_some() || new {
            while rows.weight(USED) >= self.used_max(rows) && self.demote(rows) {}
        }
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        self.full = true;
        let recent = rows.oldest(QUEUE).or(rows.oldest(USED))?;
        let rank = |&at: &usize| {
            let slot = rows.rows[at].slot;
            (self.known[&slot].frequency, u64::MAX - self.known[&slot].used_at, slot)
        };
        let rare = (0..rows.rows.len()).filter(|&at| !rows.rows[at].pinned).min_by_key(rank)?;
        let by = usize::from(self.random.share() >= self.recency);
        self.by = (recent != rare).then_some(by);
        Some([recent, rare][by])
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        let known = self.known.remove(&row.slot).expect("known");
        if let (Why::Evicted, Some(by)) = (why, self.by.take()) {
            self.gone[by].push(row.hash, row.weight, (known.frequency, known.new));
            self.gone.iter_mut().for_each(|gone| gone.trim(rows.share(0.5)));
        }
    }

    fn resized(&mut self, _: &mut Rows, _: Slot) {}

    fn settle(&mut self, rows: &mut Rows) {
        self.queue_max = self.queue_max.min(rows.capacity.saturating_sub(1)).max(1);
        self.rate.period = rows.capacity.max(1);
        self.gone.iter_mut().for_each(|gone| gone.trim(rows.share(0.5)));
    }
}
