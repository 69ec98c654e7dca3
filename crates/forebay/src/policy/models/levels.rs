//! Models of policies that know transactions.

use std::collections::BTreeMap;

use super::frame::{Row, Rows, Rule};
use crate::policy::random::Random;
use crate::policy::{Access, AccessKind, Slot, Why};

/// The number of a level, in the order in which levels began.
type Number = u64;

/// LIFE: rows say nothing but the order in which they joined their levels.
#[derive(Default)]
pub struct Life {
    window: f64,
    now: u64,
    begun: Number,
    /// What each level was asked for, of which some is cached; and when.
    levels: BTreeMap<Number, (usize, u64)>,
    /// Keys, cached or not, by level.
    open: BTreeMap<u64, (u16, Number)>,
    of: BTreeMap<Slot, Number>,
    incoming: Option<(u64, Number)>,
}

impl Life {
    /// With this ageing window, in accesses for each entry.
    pub fn new(window: f64) -> Life {
        Life { window, ..Life::default() }
    }

    fn level(&mut self, access: &Access) -> Number {
        let follows = access.txn != 0 && access.kind == AccessKind::Read;
        match self.open.get(&access.txn).filter(|_| follows) {
            Some(&(number, level)) if number == access.level => level,
            _ => {
                self.begun += 1;
                if follows {
                    self.open.insert(access.txn, (access.level, self.begun));
                }
                self.begun
            }
        }
    }

    fn ask(&mut self, level: Number, more: usize) {
        let of = self.levels.entry(level).or_default();
        *of = (of.0 + more, self.now);
    }

    fn hits(&mut self, access: &Access) -> bool {
        self.now += 1;
        if access.kind != AccessKind::Read {
            return false;
        }
        let slot = access.slot.expect("a hit").0;
        let (before, level) = (self.of[&slot], self.level(access));
        self.ask(level, usize::from(before != level));
        if before != level {
            self.levels.get_mut(&before).expect("it has an entry").0 -= 1;
            self.of.insert(slot, level);
        }
        before != level
    }

    fn cached(&self, level: Number) -> usize {
        self.of.values().filter(|&&of| of == level).count()
    }

    /// What is missing of a level, how many keys it has, and how long ago it was asked for.
    fn rank(&self, level: Number) -> (bool, usize, u64) {
        let (width, stamp) = self.levels[&level];
        (width > self.cached(level), width, self.now - stamp)
    }
}

impl Rule for Life {
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        if self.hits(access) {
            rows.place(at, 0);
        }
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.hits(access);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        let level = self.level(access);
        self.ask(level, 1);
        self.incoming = Some((access.hash, level));
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let (_, level) = self.incoming.take().expect("what comes in was missed");
        self.of.insert(rows.rows.last().expect("the newest").slot, level);
    }

    fn choose(&mut self, rows: &mut Rows, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let own = self.incoming.filter(|key| incoming.slot.is_none() && key.0 == incoming.hash).map(|key| key.1);
        let oldest = |level: Number| rows.rows.iter().position(|row| !row.pinned && self.of[&row.slot] == level);
        let others: Vec<Number> =
            self.levels.keys().copied().filter(|&level| Some(level) != own && oldest(level).is_some()).collect();
        let ago = |level: &Number| self.now - self.levels[level].1;
        let old = others.iter().copied().max_by_key(ago);
        let old = old.filter(|level| ago(level) as f64 > self.window * rows.rows.len() as f64);
        let largest = others.iter().copied().max_by_key(|&level| self.rank(level));
        oldest(old.or(largest).or(own)?)
    }

    fn left(&mut self, _: &mut Rows, row: &Row, _: Why) {
        self.of.remove(&row.slot);
    }

    fn ended(&mut self, _: &mut Rows, txn: u64, _: bool) {
        self.open.remove(&txn);
    }
}

/// What one access of an open transaction was: the key's hash, its level, whether it read and counted, its frequency
/// then.
#[derive(Clone, Copy)]
struct Touch {
    hash: u64,
    level: u16,
    reads: bool,
    counted: bool,
    frequency: f32,
    /// Where the key was cached then, or came in.
    slot: Option<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Key {
    frequency: f32,
    total: f32,
}

/// What is scored together, and how.
#[derive(Clone, Copy, PartialEq)]
pub enum Scoring {
    /// `detox-levels`.
    Levels,
    /// `t-detox`.
    Transaction,
    /// `life-artifact`.
    Artifact,
}

/// DeToX, without graphs and fading: everything by search.
pub struct Detox {
    scoring: Scoring,
    factor: f64,
    pool_max: usize,
    ghosts: f64,
    random: Random,
    age: f64,
    /// Cached keys by slot: figures, score, and the transaction and level that asked last.
    keys: BTreeMap<Slot, (Key, f64, (u64, u16))>,
    /// All that may go, as they are sampled.
    candidates: Vec<Slot>,
    pool: Vec<Slot>,
    /// Keys that left, oldest first.
    gone: Vec<(u64, Key)>,
    incoming: Option<(u64, Key)>,
    open: BTreeMap<u64, Vec<Touch>>,
}

impl Detox {
    pub fn new(scoring: Scoring) -> Detox {
        let (factor, ghosts) = if scoring == Scoring::Artifact { (0.0, 0.0) } else { (0.9, 3.0) };
        Detox {
            scoring,
            factor,
            pool_max: 16,
            ghosts,
            random: Random::new(0),
            age: 0.0,
            keys: BTreeMap::new(),
            candidates: Vec::new(),
            pool: Vec::new(),
            gone: Vec::new(),
            incoming: None,
            open: BTreeMap::new(),
        }
    }

    fn aged(&self, key: &Key) -> f64 {
        let own = match self.scoring {
            Scoring::Artifact if key.total == 0.0 => 2.0,
            Scoring::Artifact => f64::from(key.total),
            _ => f64::from(key.total) / f64::from(key.frequency).max(f64::MIN_POSITIVE),
        };
        own + self.factor * self.age
    }

    fn learn(&self, key: &mut Key, score: f32) {
        key.total = if self.scoring == Scoring::Artifact { score } else { key.total + score };
    }

    fn learn_alone(&self, key: &mut Key, weight: u32) {
        let alone = key.frequency / weight as f32;
        self.learn(key, if self.scoring == Scoring::Artifact { 0.5 } else { alone });
    }

    fn touch(&mut self, access: &Access, key: Key, counted: bool) {
        if access.txn != 0 && matches!(access.kind, AccessKind::Read | AccessKind::Write) {
            let reads = access.kind == AccessKind::Read;
            let touch = Touch {
                hash: access.hash,
                level: access.level,
                reads,
                counted: counted && reads,
                frequency: key.frequency,
                slot: access.slot.map(|place| place.0),
            };
            self.open.entry(access.txn).or_default().push(touch);
        }
    }

    fn remember(&mut self, hash: u64, key: Key) {
        let limit = (self.ghosts * (self.candidates.len() + 1) as f64) as usize;
        if limit > 0 {
            self.gone.retain(|known| known.0 != hash);
            self.gone.push((hash, key));
            while self.gone.len() > limit {
                self.gone.remove(0);
            }
        }
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(at) = self.candidates.iter().position(|&candidate| candidate == slot) {
            self.candidates.swap_remove(at);
            self.pool.retain(|&candidate| candidate != slot);
        }
    }

    fn asked(&mut self, rows: &Rows, access: &Access) {
        let slot = access.slot.expect("a hit").0;
        let (mut key, mut score, last) = self.keys[&slot];
        let counted = access.kind == AccessKind::Read && (access.txn == 0 || last.0 != access.txn);
        if counted {
            key.frequency += 1.0;
            if access.txn == 0 {
                self.learn_alone(&mut key, rows.rows[rows.at(slot)].weight);
                score = self.aged(&key);
            }
        }
        self.touch(access, key, counted);
        self.keys.insert(slot, (key, score, (access.txn, access.level)));
    }

    /// The score of each touch of a transaction that has ended.
    fn scores(&self, touches: &[Touch]) -> Vec<f32> {
        if self.scoring == Scoring::Artifact {
            let last = touches.iter().filter(|touch| touch.reads).map(|touch| touch.level).max();
            let of_last = |touch: &&Touch| touch.counted && Some(touch.level) == last && touch.slot.is_some();
            return vec![1.0 / (touches.iter().filter(of_last).count() as f32 + 1.0); touches.len()];
        }
        let whole = self.scoring == Scoring::Transaction;
        let levels: std::collections::BTreeSet<u16> = touches.iter().map(|touch| touch.level).collect();
        let reads = |level: &u16| touches.iter().filter(|touch| touch.level == *level).all(|touch| touch.reads);
        let score = |touch: &Touch| {
            let group = || touches.iter().filter(|other| whole || other.level == touch.level);
            let counted = || group().filter(|other| other.counted);
            let size = counted().count();
            if size == 0 || (!whole && !reads(&touch.level)) {
                return 0.0;
            }
            let least = counted().map(|other| f64::from(other.frequency)).fold(f64::INFINITY, f64::min);
            let hits = if whole { levels.iter().filter(|level| reads(level)).count() } else { 1 };
            (least * hits as f64 / size as f64) as f32
        };
        touches.iter().map(score).collect()
    }
}

impl Rule for Detox {
    fn hit(&mut self, rows: &mut Rows, _: usize, access: &Access) {
        self.asked(rows, access);
    }

    fn hit_pinned(&mut self, rows: &mut Rows, access: &Access) {
        self.asked(rows, access);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        if let Some((hash, key)) = self.incoming.take() {
            self.remember(hash, key);
        }
        let known = self.gone.iter().find(|known| known.0 == access.hash).map(|known| known.1);
        let mut key = known.unwrap_or_default();
        key.frequency += f32::from(u8::from(access.kind == AccessKind::Read));
        self.touch(access, key, true);
        if access.kind == AccessKind::Write {
            return false;
        }
        self.incoming = Some((access.hash, key));
        true
    }

    fn entered(&mut self, rows: &mut Rows, access: &Access) {
        let row = rows.rows.last().expect("the newest");
        let (_, mut key) = self.incoming.take().expect("what comes in was missed");
        self.gone.retain(|known| known.0 != access.hash);
        let reads = access.kind == AccessKind::Read;
        if access.txn == 0 && reads {
            self.learn_alone(&mut key, row.weight);
        }
        if let Some(touches) = self.open.get_mut(&access.txn).filter(|_| reads)
            && let Some(touch) = touches.iter_mut().rev().find(|touch| touch.hash == access.hash)
        {
            touch.slot = Some(row.slot);
        }
        let last = (if reads { access.txn } else { 0 }, access.level);
        self.keys.insert(row.slot, (key, self.aged(&key), last));
        self.candidates.push(row.slot);
    }

    fn choose(&mut self, rows: &mut Rows, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let mut looked_at = self.pool.clone();
        for _ in 0..10.min(self.candidates.len()) {
            let slot = self.candidates[self.random.index(self.candidates.len())];
            if !looked_at.contains(&slot) {
                looked_at.push(slot);
            }
        }
        looked_at.sort_by(|a, b| self.keys[a].1.total_cmp(&self.keys[b].1).then(a.cmp(b)));
        self.pool = looked_at.iter().copied().take(self.pool_max).collect();
        let company = |slot: &&Slot| {
            let last = self.keys[*slot].2;
            incoming.slot.is_none() && last.0 != 0 && last == (incoming.txn, incoming.level)
        };
        let slot = looked_at.iter().chain(&self.candidates).find(|slot| !company(slot))?;
        Some(rows.at(*slot))
    }

    fn left(&mut self, _: &mut Rows, row: &Row, why: Why) {
        self.leave(row.slot);
        let (key, score, _) = self.keys.remove(&row.slot).expect("was in");
        if why == Why::Evicted {
            self.age = self.age.max(score);
            self.remember(row.hash, key);
        }
    }

    fn pinned(&mut self, _: &mut Rows, slot: Slot, pinned: bool) {
        self.leave(slot);
        if !pinned {
            self.candidates.push(slot);
        }
    }

    fn ended(&mut self, rows: &mut Rows, txn: u64, committed: bool) {
        let Some(touches) = self.open.remove(&txn) else { return };
        let scores = self.scores(&touches);
        for (touch, score) in touches.iter().zip(scores).filter(|(touch, _)| touch.counted) {
            let is_there = |slot: &Slot| rows.rows.iter().any(|row| row.slot == *slot && row.hash == touch.hash);
            let slot = touch.slot.filter(is_there);
            let incoming = self.incoming.filter(|key| key.0 == touch.hash).map(|key| key.1);
            let gone = self.gone.iter().find(|known| known.0 == touch.hash).map(|known| known.1);
            let cached = slot.map(|slot| self.keys[&slot].0);
            let Some(mut key) = cached.or(incoming).or(gone) else { continue };
            match committed {
                true => self.learn(&mut key, score),
                false => key.frequency = (key.frequency - 1.0).max(0.0),
            }
            if let Some(slot) = slot {
                let last = self.keys[&slot].2;
                let last = if committed { last } else { (0, last.1) };
                self.keys.insert(slot, (key, self.aged(&key), last));
            } else if incoming.is_some() {
                self.incoming = Some((touch.hash, key));
            } else if let Some(known) = self.gone.iter_mut().find(|known| known.0 == touch.hash) {
                known.1 = key;
            }
        }
    }
}
