//! Greedy dual size frequency: an entry's priority is `age + frequency * cost / weight`. The lowest goes, and its
//! priority becomes the age, so that what was popular long ago falls behind. O(log n) by an indexed binary heap.
//!
//! A newcomer competes as if it were in already (the paper inserts first, then evicts). When its own priority is the
//! lowest, it is the one that goes, and `victim` says `None`.
//!
//! With `sample` the lowest of a few entries drawn by chance goes instead. With `pool` those that were left before
//! count too, as Redis evicts. A newcomer then always comes in. With `age=0` nothing ages, and with `writes=0` only
//! reads count: `gdsf:sample=10,pool=16,writes=0,age=0` is LFU as the DeToX paper measured it (section 8.1). With
//! `ghosts` frequencies outlive their entries.

use std::sync::Arc;

use crate::ahead::prefetch;

use super::drawn::Drawn;
use super::random::Random;
use super::remembered::{Known, Remembered};
use super::{Access, AccessKind, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static GDSF: Policy = Policy {
    name: "gdsf",
    summary: "frequency per byte with ageing; best hit ratio where sizes differ widely",
    source: "Cherkasova: Improving WWW proxies performance with greedy-dual-size-frequency caching, HP Labs 1998",
    hits: Hits::Sampled,
    entry_bytes: size_of::<Entry>() + size_of::<Slot>(),
    parameters: &[
        Parameter {
            name: "cost",
            summary: "1: weigh by the measured cost of fetching, in microseconds; 0: every fetch costs the same",
            default: 0.0,
            range: (0.0, 1.0),
        },
        Parameter {
            name: "sample",
            summary: "entries looked at for each victim; 0: all, by a heap",
            default: 0.0,
            range: (0.0, 1024.0),
        },
        Parameter {
            name: "pool",
            summary: "where entries are drawn: candidates kept between evictions",
            default: 0.0,
            range: (0.0, 64.0),
        },
        Parameter {
            name: "age",
            summary: "1: what was popular long ago falls behind; 0: it does not (LFU by weight)",
            default: 1.0,
            range: (0.0, 1.0),
        },
        Parameter {
            name: "writes",
            summary: "1: a write of what is cached counts as an access; 0: it does not",
            default: 1.0,
            range: (0.0, 1.0),
        },
        Parameter {
            name: "ghosts",
            summary: "keys whose frequency is remembered after they left, as a share of the entries",
            default: 0.0,
            range: (0.0, 16.0),
        },
        Parameter { name: "seed", summary: "seed of the samples", default: 0.0, range: (0.0, 1.0e9) },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Gdsf::new(settings)),
};

const NONE: u32 = u32::MAX;

/// What a fetch costs when nobody measured it; with `cost=1` one second's worth counts the same.
const COST_DEFAULT: f64 = 1.0e6;

/// Beyond this age all priorities are lowered by it: an f64 then still tells an access to a 4 GiB entry apart.
const AGE_MAX: f64 = (1u64 << 40) as f64;

#[derive(Clone, Copy)]
struct Entry {
    priority: f64,
    /// When the priority was set; among equals the older goes.
    set_at: u64,
    frequency: u32,
    weight: u32,
    cost_us: u32,
    /// Where it is in the heap, `NONE` when pinned or not in.
    position: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Out,
    In,
    Pinned,
}

const OUT: Entry =
    Entry { priority: 0.0, set_at: 0, frequency: 0, weight: 0, cost_us: 0, position: NONE, state: State::Out };

struct Gdsf {
    unit: Unit,
    by_cost: bool,
    /// Which entries are looked at for each victim; `None`: all, by the heap.
    drawn: Option<Drawn>,
    ages: bool,
    counts_writes: bool,
    ghosts: f64,
    remembered: Remembered,
    random: Random,
    age: f64,
    /// Where all priorities are lowered, [`AGE_MAX`] outside of tests.
    age_max: f64,
    /// A newcomer's key and priority, at the age of its miss: what it displaces must not raise its own priority.
    incoming: Option<(u64, f64)>,
    /// Counts what sets priorities, so that no two entries are set at the same moment.
    accesses: u64,
    entries: Vec<Entry>,
    heap: Vec<Slot>,
}

impl Gdsf {
    fn new(settings: &Settings) -> Gdsf {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(GDSF.parameters[index].default);
        Gdsf {
            unit: settings.unit,
            by_cost: value(0) >= 0.5,
            drawn: (value(1) >= 1.0).then(|| Drawn::new(value(1) as usize, value(2) as usize)),
            ages: value(3) >= 0.5,
            counts_writes: value(4) >= 0.5,
            ghosts: value(5),
            remembered: Remembered::new(false),
            random: Random::new(value(6) as u64),
            age: 0.0,
            age_max: AGE_MAX,
            incoming: None,
            accesses: 0,
            entries: Vec::new(),
            heap: Vec::new(),
        }
    }

    fn goes_before(&self, a: Slot, b: Slot) -> bool {
        let (a, b) = (&self.entries[a as usize], &self.entries[b as usize]);
        a.priority.total_cmp(&b.priority).then(a.set_at.cmp(&b.set_at)).is_lt()
    }

    fn place(&mut self, position: usize, slot: Slot) {
        self.heap[position] = slot;
        self.entries[slot as usize].position = position as u32;
    }

    fn sift_up(&mut self, mut position: usize) {
        let slot = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.goes_before(slot, self.heap[parent]) {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, slot);
    }

    fn sift_down(&mut self, mut position: usize) {
        let slot = self.heap[position];
        loop {
            let mut child = 2 * position + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.goes_before(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.goes_before(self.heap[child], slot) {
                break;
            }
            self.place(position, self.heap[child]);
            position = child;
        }
        self.place(position, slot);
    }

    fn push(&mut self, slot: Slot) {
        super::grow(&mut self.heap, 1);
        self.heap.push(slot);
        self.sift_up(self.heap.len() - 1);
    }

    fn unlink(&mut self, slot: Slot) {
        self.drawn.iter_mut().for_each(|drawn| drawn.forget(slot));
        let position = std::mem::replace(&mut self.entries[slot as usize].position, NONE);
        if position == NONE {
            return;
        }
        let position = position as usize;
        let last = self.heap.pop().expect("an entry with a position is in the heap");
        if last != slot {
            self.heap[position] = last;
            self.sift_up(position);
            self.sift_down(self.entries[last as usize].position as usize);
        }
    }

    fn priority(&self, frequency: u32, cost_us: u32, weight: u32) -> f64 {
        let cost = if self.by_cost && cost_us > 0 { f64::from(cost_us) } else { COST_DEFAULT };
        self.age + f64::from(frequency) * cost / f64::from(weight)
    }

    /// How often one that is not in yet was asked for, this time included.
    fn frequency_of(&self, access: &Access) -> u32 {
        let known = self.remembered.get(access.hash).map_or(0.0, |known| known.frequency);
        known as u32 + 1
    }

    fn remember(&mut self, hash: u64, frequency: u32) {
        let known = Known { frequency: frequency as f32, ..Known::default() };
        self.remembered.insert(hash, known, (self.ghosts * (self.heap.len() + 1) as f64) as usize);
    }

    /// The priority of one that is not in yet, at the age of its miss.
    fn incoming_priority(&self, access: &Access) -> f64 {
        match self.incoming {
            Some((hash, priority)) if hash == access.hash => priority,
            _ => self.priority(self.frequency_of(access), access.cost_us, self.unit.weight(access.size)),
        }
    }

    /// Recomputes a slot's priority at the present age and puts it where it belongs.
    fn set_priority(&mut self, slot: Slot) {
        let Entry { frequency, cost_us, weight, position, .. } = self.entries[slot as usize];
        let priority = self.priority(frequency, cost_us, weight);
        let entry = &mut self.entries[slot as usize];
        // What was set last goes last among equals.
        let sinks = entry.priority.total_cmp(&priority).is_le();
        entry.priority = priority;
        entry.set_at = self.accesses;
        if position != NONE && sinks {
            self.sift_down(position as usize);
        } else if position != NONE {
            self.sift_up(position as usize);
        }
    }

    fn rise_to(&mut self, age: f64) {
        if !self.ages {
            return;
        }
        self.age = age;
        if self.age > self.age_max {
            for entry in self.entries.iter_mut().filter(|entry| entry.state != State::Out) {
                entry.priority -= age;
            }
            if let Some((_, priority)) = &mut self.incoming {
                *priority -= age;
            }
            self.age = 0.0;
            // Rounding may have made equals of unequals, which then go by `set_at`.
            for position in (0..self.heap.len() / 2).rev() {
                self.sift_down(position);
            }
        }
    }
}

impl Order for Gdsf {
    fn ahead(&self, hits: &[Hit]) {
        let entries = hits.iter().filter_map(|hit| self.entries.get(hit.slot as usize));
        entries.clone().for_each(prefetch);
        let children = entries.flat_map(|entry| {
            let child = 2 * entry.position as usize + 1;
            self.heap.get(child..child + 2).unwrap_or_default()
        });
        children.for_each(|&child| prefetch(&self.entries[child as usize]));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        self.accesses += 1;
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        if entry.state == State::Out || access.kind == AccessKind::Write && !self.counts_writes {
            return;
        }
        entry.frequency = entry.frequency.saturating_add(1);
        if access.cost_us > 0 {
            entry.cost_us = access.cost_us;
        }
        self.set_priority(slot);
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.incoming = None;
        self.incoming = Some((access.hash, self.incoming_priority(access)));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.accesses += 1;
        let priority = self.incoming_priority(access);
        self.incoming = None;
        let frequency = self.frequency_of(access);
        self.remembered.take(access.hash);
        super::reach(&mut self.entries, slot, OUT);
        let weight = self.unit.weight(access.size);
        let (cost_us, set_at) = (access.cost_us, self.accesses);
        self.entries[slot as usize] =
            Entry { priority, set_at, frequency, weight, cost_us, position: NONE, state: State::In };
        self.push(slot);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.accesses += 1;
        self.entries[slot as usize].weight = self.unit.weight(size);
        self.set_priority(slot);
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        self.unlink(slot);
        let entry = std::mem::replace(&mut self.entries[slot as usize], OUT);
        if why == Why::Evicted && self.ghosts > 0.0 {
            self.remember(hash, entry.frequency);
        }
        if why == Why::Evicted && entry.priority > self.age {
            self.rise_to(entry.priority);
        }
    }

    fn fits(&mut self, slots: usize) {
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let lowest = *self.heap.first()?;
        if let Some(drawn) = &mut self.drawn {
            let priority = |slot: Slot| self.entries[slot as usize].priority;
            return drawn.lowest(&self.heap, &mut self.random, priority).map(|(_, slot)| slot);
        }
        let priority = self.incoming_priority(incoming);
        if incoming.slot.is_none() && priority < self.entries[lowest as usize].priority {
            self.incoming = None;
            if self.ghosts > 0.0 {
                self.remember(incoming.hash, self.frequency_of(incoming));
            }
            self.rise_to(priority);
            return None;
        }
        Some(lowest)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.unlink(slot);
        self.entries[slot as usize].state = State::Pinned;
    }

    fn restore(&mut self, slot: Slot) {
        self.entries[slot as usize].state = State::In;
        self.push(slot);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        self.remembered.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        match self.entries.get(slot as usize) {
            None | Some(Entry { state: State::Out, .. }) => "not in".into(),
            Some(entry) => format!(
                "priority {:.3} above the age, {} accesses, weight {}{}",
                entry.priority - self.age,
                entry.frequency,
                entry.weight,
                if entry.state == State::Pinned { ", pinned" } else { "" }
            ),
        }
    }

    fn validate(&self) {
        self.remembered.validate();
        self.drawn.iter().for_each(|drawn| drawn.validate(|slot| self.entries[slot as usize].position != NONE));
        for (position, &slot) in self.heap.iter().enumerate() {
            let entry = &self.entries[slot as usize];
            assert_eq!((entry.position, entry.state), (position as u32, State::In), "slot {slot} and its position");
            if position > 0 {
                assert!(!self.goes_before(slot, self.heap[(position - 1) / 2]), "heap order at {position}");
            }
        }
        let linked = self.entries.iter().filter(|entry| entry.state == State::In).count();
        assert_eq!(linked, self.heap.len(), "every entry that may go is in the heap");
        let stray = self.entries.iter().filter(|entry| entry.state != State::In && entry.position != NONE).count();
        assert_eq!(stray, 0, "only entries in the heap have a position");
    }
}

#[cfg(test)]
mod tests {
    use super::{AGE_MAX, Access, AccessKind, Gdsf, Hits};
    use crate::policy::bare::{Bare, Served};
    use crate::policy::{Unit, choose};

    /// All numbers here are whole, so nothing is rounded and nothing may differ.
    #[test]
    fn lowering_all_priorities_changes_no_decision() {
        let settings = choose("gdsf:cost=1").expect("known").settings(Unit::Entries, 30);
        let cache = |age_max: f64| {
            let order = Gdsf { age_max, ..Gdsf::new(&settings) };
            Bare::with_order(Hits::Accesses, &settings, Box::new(order))
        };
        let (mut often, mut never) = (cache(20.0), cache(AGE_MAX));
        let mut hits = 0;
        for i in 0..20_000u64 {
            let hash = (i * i + i / 7) % 97;
            let access = Access { cost_us: 1 << (hash % 3), ..Access::read(hash, 1) };
            let served = often.access(access);
            assert_eq!(served, never.access(access), "request {i}");
            assert_eq!(often.evicted(), never.evicted(), "request {i}");
            often.validate();
            hits += u64::from(served == Served::Hit);
        }
        assert!(hits > 1000, "{hits} hits: the run decides nothing");
    }

    #[test]
    fn of_a_sample_the_lowest_goes_and_a_newcomer_always_comes_in() {
        let kept = |policy: &str| {
            let choice = choose(policy).expect("known");
            let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 3));
            (0..50).for_each(|_| {
                cache.request(1, 1);
            });
            for hash in 10..1000 {
                assert_eq!(cache.request(hash, 1), Served::Inserted, "{policy}");
                cache.validate();
            }
            cache.contains(1)
        };
        // All of three are looked at: what was popular long ago stays unless it ages.
        assert!(kept("gdsf:sample=100,age=0") && !kept("gdsf:sample=100"));
    }

    #[test]
    fn writes_count_if_they_are_to() {
        let keeps_what_was_written = |policy: &str| {
            let choice = choose(policy).expect("known");
            let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 2));
            let write = Access { kind: AccessKind::Write, ..Access::read(1, 1) };
            cache.request(1, 1);
            (0..9).for_each(|_| {
                cache.access(write);
            });
            [2, 2, 3].into_iter().for_each(|hash| {
                cache.request(hash, 1);
            });
            cache.contains(1)
        };
        assert!(keeps_what_was_written("gdsf:sample=2") && !keeps_what_was_written("gdsf:sample=2,writes=0"));
    }

    #[test]
    fn costlier_entries_stay() {
        let choice = choose("gdsf:cost=1").expect("known");
        let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 2));
        cache.access(Access { cost_us: 9_000, ..Access::read(1, 1) });
        (10..15)
            .for_each(|hash| assert_ne!(cache.access(Access { cost_us: 10, ..Access::read(hash, 1) }), Served::Hit));
        assert!(cache.contains(1));
        cache.validate();
    }
}
