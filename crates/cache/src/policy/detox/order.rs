//! The part of one partition: figures of its entries, candidates, and keys that left.

mod explain;

use std::sync::Arc;

use super::asking::Asking;
use super::learned::{NONE, Touch, Transactions};
use super::tuning::{Aggregate, Tuning};
use crate::policy::drawn::Drawn;
use crate::policy::random::Random;
use crate::policy::remembered::{Known, Remembered, print};
use crate::policy::{Access, AccessKind, Order, Settings, Slot, Unit, Why};

/// Charged for each entry: its figures, and its place among those that may go.
pub(super) const SLOT_BYTES: usize = size_of::<Entry>() + size_of::<Slot>();

/// Accesses for each tick by which figures lose weight.
const TICK_ACCESSES: u32 = 64;

/// Counts up to here are exact where frequencies are counted in steps that get rarer, and by how much they do.
const LOG_EXACT: f32 = 5.0;
const LOG_FACTOR: f64 = 0.1;

/// How far an estimated median moves with each score, as a share.
const MEDIAN_STEP: f32 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Out,
    In,
    Pinned,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The aggregate of its instance scores, and the age when it was last asked for.
    score: f64,
    known: Known,
    /// By which the key is known.
    print: u32,
    weight: u32,
    /// The transaction that asked for it last.
    txn: u32,
    /// Place among the candidates.
    place: u32,
    /// The level at which it did, as which vertex of which type.
    level: u16,
    txn_type: u16,
    vertex: u16,
    state: State,
}

const OUT: Entry = Entry {
    score: 0.0,
    known: Known { frequency: 0.0, total: 0.0, touched: 0 },
    print: 0,
    weight: 0,
    txn: 0,
    place: NONE,
    level: 0,
    txn_type: 0,
    vertex: 0,
    state: State::Out,
};

/// A key that was missed and may come in.
#[derive(Clone, Copy)]
struct Incoming {
    hash: u64,
    known: Known,
}

/// See the module.
pub(super) struct Detox {
    unit: Unit,
    tuning: Tuning,
    transactions: Arc<Transactions>,
    number: u32,
    admits: bool,
    /// The greatest score that any of its victims had.
    age: f64,
    random: Random,
    /// Accesses heard of.
    now: u64,
    entries: Vec<Entry>,
    /// Of all entries.
    weight: u64,
    /// All that may go, in no order.
    candidates: Vec<Slot>,
    drawn: Drawn,
    incoming: Option<Incoming>,
    asking: Asking,
    remembered: Remembered,
}

/// By which an entry knows the transaction that asked for it last; 0 is none.
fn txn_print(txn: u64) -> u32 {
    match txn {
        0 => 0,
        txn => ((txn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32).max(1),
    }
}

impl Detox {
    pub fn new(settings: &Settings, tuning: Tuning, transactions: Arc<Transactions>, admits: bool) -> Detox {
        let number = transactions.new_order();
        Detox {
            unit: settings.unit,
            tuning,
            number,
            transactions,
            admits,
            age: 0.0,
            // Not by its number: an order that takes another's place at a reset decides as that did.
            random: Random::new(tuning.seed),
            now: 0,
            entries: Vec::new(),
            weight: 0,
            candidates: Vec::new(),
            drawn: Drawn::new(tuning.sample, tuning.pool),
            incoming: None,
            asking: Asking::default(),
            remembered: Remembered::new(tuning.half_life > 0.0),
        }
    }

    fn tick(&self) -> u32 {
        (self.now / u64::from(TICK_ACCESSES)) as u32
    }

    /// What is left of the weight of figures that were brought up to date at `touched`.
    fn fading(&self, touched: u32) -> f64 {
        if self.tuning.half_life == 0.0 {
            return 1.0;
        }
        let passed = f64::from(self.tick().wrapping_sub(touched)) * f64::from(TICK_ACCESSES);
        let live = self.candidates.len().max(1) as f64;
        (-passed / (self.tuning.half_life * live)).exp2()
    }

    /// Brings figures up to date.
    fn fade(&self, known: &mut Known) {
        let fading = self.fading(known.touched) as f32;
        known.frequency *= fading;
        if self.tuning.aggregate == Aggregate::Average {
            known.total *= fading;
        }
        known.touched = self.tick();
    }

    fn count(&mut self, known: &mut Known) {
        self.fade(known);
        let step = match self.tuning.logarithmic && known.frequency > LOG_EXACT {
            true => self.random.share() < LOG_FACTOR / f64::from(known.frequency - LOG_EXACT).max(LOG_FACTOR),
            false => true,
        };
        known.frequency += f32::from(u8::from(step));
    }

    /// Takes an instance score in.
    fn learn(&self, known: &mut Known, score: f32) {
        known.total = match self.tuning.aggregate {
            Aggregate::Average => known.total + score,
            Aggregate::Max => known.total.max(score),
            Aggregate::Min if known.total > 0.0 => known.total.min(score),
            Aggregate::Median if known.total > 0.0 && score > known.total => known.total * (1.0 + MEDIAN_STEP),
            Aggregate::Median if known.total > 0.0 && score < known.total => known.total / (1.0 + MEDIAN_STEP),
            Aggregate::Median if known.total > 0.0 => known.total,
            Aggregate::Min | Aggregate::Median => score,
        };
    }

    /// One value for all instance scores (section 4.2.3).
    fn aggregate(&self, known: &Known) -> f64 {
        match self.tuning.aggregate {
            // What a transaction has asked for can have come in again, uncounted, before it commits.
            Aggregate::Average if known.frequency <= 0.0 => f64::from(known.total),
            Aggregate::Average => f64::from(known.total) / f64::from(known.frequency),
            Aggregate::Max | Aggregate::Min | Aggregate::Median => f64::from(known.total),
        }
    }

    fn aged(&self, known: &Known) -> f64 {
        self.aggregate(known) + self.tuning.factor * self.age
    }

    /// What an entry is worth now.
    fn worth(&self, slot: Slot) -> f64 {
        let entry = &self.entries[slot as usize];
        if self.tuning.half_life == 0.0 && self.tuning.patience == 0.0 {
            return entry.score;
        }
        let left = if self.is_gone(&entry.known) { 0.0 } else { self.fading(entry.known.touched) };
        entry.score - self.aggregate(&entry.known) * (1.0 - left)
    }

    /// Whether a key has stayed away for many times the mean distance between its accesses. Where accesses come by
    /// chance, eight times happens once in three thousand.
    fn is_gone(&self, known: &Known) -> bool {
        let away = f64::from(self.tick().wrapping_sub(known.touched)) * f64::from(TICK_ACCESSES);
        // Of what loses weight the frequency is that of about one and a half half-lives.
        let span = match self.tuning.half_life {
            0.0 => self.now as f64,
            half_life => (self.now as f64).min(half_life * self.candidates.len() as f64 / std::f64::consts::LN_2),
        };
        self.tuning.patience > 0.0 && away * f64::from(known.frequency) > self.tuning.patience * span
    }

    fn remember(&mut self, hash: u64, known: Known) {
        let mut limit = (self.tuning.ghosts * (self.candidates.len() + 1) as f64) as usize;
        if self.unit == Unit::Bytes {
            limit = limit.min(self.remembered.len_within(self.tuning.share * self.weight as f64));
        }
        if limit > 0 {
            self.remembered.insert(hash, known, limit);
        }
    }

    fn touch(&mut self, access: &Access, slot: Slot, weight: u32, known: &Known, counted: bool) {
        let reads = access.kind == AccessKind::Read;
        let touch = Touch {
            hash: access.hash,
            order: self.number,
            slot,
            weight,
            frequency: known.frequency,
            level: access.level,
            vertex: access.vertex,
            reads,
            counted: counted && reads,
            score: 0.0,
        };
        self.transactions.touch(access.txn, access.txn_type, touch);
        self.asking.take(access, &touch, || self.transactions.goes_by_levels(access.txn_type, access.vertex));
    }

    fn enter(&mut self, slot: Slot) {
        self.entries[slot as usize].place = self.candidates.len() as u32;
        self.candidates.push(slot);
    }

    fn leave(&mut self, slot: Slot) {
        let place = std::mem::replace(&mut self.entries[slot as usize].place, NONE);
        if place != NONE {
            self.candidates.swap_remove(place as usize);
            if let Some(&moved) = self.candidates.get(place as usize) {
                self.entries[moved as usize].place = place;
            }
            self.drawn.forget(slot);
        }
    }

    /// Whether `incoming` came in the same level of the same transaction as `slot` was last asked for.
    fn is_company(&self, slot: Slot, incoming: &Access) -> bool {
        let entry = &self.entries[slot as usize];
        incoming.slot.is_none()
            && entry.txn != 0
            && entry.txn == txn_print(incoming.txn)
            && entry.level == incoming.level
    }

    /// The lowest of some more candidates and of those that were looked at before.
    fn lowest_drawn(&mut self, incoming: &Access) -> Option<(f64, Slot)> {
        let company = self.asking.worth(incoming) + self.tuning.factor * self.age;
        let (mut drawn, mut random) = (std::mem::take(&mut self.drawn), std::mem::take(&mut self.random));
        let lowest = drawn.lowest(&self.candidates, &mut random, |slot| match self.is_company(slot, incoming) {
            true => company,
            false => self.worth(slot),
        });
        (self.drawn, self.random) = (drawn, random);
        lowest
    }

    /// A newcomer's score, as far as one can tell before its transaction has ended.
    fn promise(&self, incoming: &Access) -> f64 {
        let known = match self.incoming {
            Some(known) if known.hash == incoming.hash => known.known,
            _ => Known::default(),
        };
        match incoming.txn {
            0 => {
                let alone = f64::from(known.frequency) / f64::from(self.unit.weight(incoming.size));
                alone + self.tuning.factor * self.age
            }
            _ => self.aged(&known),
        }
    }
}

impl Order for Detox {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let Some(mut entry) = self.entries.get(slot as usize).copied().filter(|entry| entry.state != State::Out) else {
            return;
        };
        let counted = access.kind == AccessKind::Read && (access.txn == 0 || entry.txn != txn_print(access.txn));
        if counted {
            let mut known = entry.known;
            self.count(&mut known);
            if access.txn == 0 {
                let alone = known.frequency / entry.weight as f32;
                self.learn(&mut known, alone);
                entry.score = self.aged(&known);
            }
            entry.known = known;
        }
        if access.txn != 0 && matches!(access.kind, AccessKind::Read | AccessKind::Write) {
            self.touch(access, slot, entry.weight, &entry.known, counted);
        }
        (entry.txn, entry.level) = (txn_print(access.txn), access.level);
        if counted {
            (entry.txn_type, entry.vertex) = (access.txn_type, access.vertex);
        }
        self.entries[slot as usize] = entry;
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        if let Some(refused) = self.incoming.take() {
            self.remember(refused.hash, refused.known);
        }
        let mut known = self.remembered.get(access.hash).unwrap_or_default();
        match access.kind {
            AccessKind::Write => {
                if access.txn != 0 {
                    self.touch(access, NONE, self.unit.weight(access.size), &known, false);
                }
                return false;
            }
            AccessKind::Read => self.count(&mut known),
            AccessKind::Prefetch | AccessKind::Demote => {}
        }
        if access.txn != 0 && access.kind == AccessKind::Read {
            self.touch(access, NONE, self.unit.weight(access.size), &known, true);
        }
        self.incoming = Some(Incoming { hash: access.hash, known });
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let mut known = match self.incoming.take() {
            Some(incoming) if incoming.hash == access.hash => incoming.known,
            other => {
                self.incoming = other;
                Known::default()
            }
        };
        self.remembered.take(access.hash);
        if access.txn == 0 && access.kind == AccessKind::Read {
            let alone = known.frequency / weight as f32;
            self.learn(&mut known, alone);
        }
        if access.txn != 0 && access.kind == AccessKind::Read {
            self.transactions.placed(access.txn, access.hash, self.number, slot);
        }
        let entry = Entry {
            score: self.aged(&known),
            known,
            print: print(access.hash),
            weight,
            // What was fetched ahead is still to be counted when its transaction asks for it.
            txn: if access.kind == AccessKind::Read { txn_print(access.txn) } else { 0 },
            place: NONE,
            level: access.level,
            txn_type: access.txn_type,
            vertex: access.vertex,
            state: State::In,
        };
        super::super::reach(&mut self.entries, slot, OUT);
        self.entries[slot as usize] = entry;
        self.weight += u64::from(weight);
        self.enter(slot);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        let weight = self.unit.weight(size);
        let before = std::mem::replace(&mut self.entries[slot as usize].weight, weight);
        self.weight = self.weight - u64::from(before) + u64::from(weight);
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let worth = self.worth(slot);
        self.leave(slot);
        let entry = std::mem::replace(&mut self.entries[slot as usize], OUT);
        self.weight -= u64::from(entry.weight);
        if why == Why::Evicted {
            self.age = self.age.max(worth);
            self.transactions.aged(self.age);
            self.remember(hash, entry.known);
        }
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let found = self.lowest_drawn(incoming).filter(|(worth, _)| worth.is_finite());
        // Where a level is about as large as the cache, a sample may hold nothing else.
        let (worth, slot) = found.or_else(|| {
            let other = |slot: &&Slot| !self.is_company(**slot, incoming);
            self.candidates.iter().find(other).map(|&slot| (self.worth(slot), slot))
        })?;
        // A level that is worth less than what it would displace takes no more room: it could only be itself.
        if self.is_company(slot, incoming) {
            return None;
        }
        if self.admits && incoming.slot.is_none() && self.promise(incoming) < worth {
            return None;
        }
        Some(slot)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.leave(slot);
        self.entries[slot as usize].state = State::Pinned;
    }

    fn restore(&mut self, slot: Slot) {
        self.entries[slot as usize].state = State::In;
        self.enter(slot);
    }

    fn ended(&mut self, txn: u64, committed: bool) {
        let transactions = self.transactions.clone();
        transactions.ended(self.number, txn, committed, |touches| {
            let number = self.number;
            for touch in touches.iter().filter(|touch| touch.order == number && touch.counted) {
                let entry = self.entries.get(touch.slot as usize).copied();
                let entry = entry.filter(|entry| entry.state != State::Out && entry.print == print(touch.hash));
                let mut known = match entry.map(|entry| entry.known).or_else(|| self.known_outside(touch.hash)) {
                    Some(known) => known,
                    None => continue,
                };
                match committed {
                    true => self.learn(&mut known, touch.score),
                    false => known.uncount(),
                }
                if let Some(mut entry) = entry {
                    entry.known = known;
                    entry.score = self.aged(&known);
                    if !committed {
                        // Its rerun has the same number and is to be counted.
                        entry.txn = 0;
                    }
                    self.entries[touch.slot as usize] = entry;
                } else {
                    self.learn_outside(touch.hash, known);
                }
            }
        });
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        self.remembered.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        self.explained(slot)
    }

    fn explain_absent(&self, hash: u64) -> Option<String> {
        self.explained_absent(hash)
    }

    fn validate(&self) {
        self.remembered.validate();
        self.transactions.validate();
        let live = self.entries.iter().filter(|entry| entry.state == State::In).count();
        assert_eq!(self.candidates.len(), live, "all that is not pinned can go");
        for (place, &slot) in self.candidates.iter().enumerate() {
            let entry = &self.entries[slot as usize];
            assert_eq!((entry.place as usize, entry.state), (place, State::In), "slot {slot} is not where it says");
            assert!(entry.score.is_finite(), "slot {slot} has a score");
        }
        assert_eq!(self.entries.iter().map(|entry| u64::from(entry.weight)).sum::<u64>(), self.weight, "all weights");
        assert!(self.age.is_finite() && self.age >= 0.0, "the age is a number");
        self.drawn.validate(|slot| self.entries[slot as usize].state == State::In);
    }
}

impl Detox {
    /// What is known of a key that is not cached.
    fn known_outside(&self, hash: u64) -> Option<Known> {
        match self.incoming {
            Some(incoming) if incoming.hash == hash => Some(incoming.known),
            _ => self.remembered.get(hash),
        }
    }

    fn learn_outside(&mut self, hash: u64, known: Known) {
        match &mut self.incoming {
            Some(incoming) if incoming.hash == hash => incoming.known = known,
            _ => self.remembered.update(hash, |old| *old = known),
        }
    }
}
