//! DeToX as a whole by scans. What a transaction asked for is a list, a level's score is looked up in it, and what
//! may go is searched for. Where the order draws by chance the model draws the same numbers. What scores a graph has,
//! and which keys are remembered, is compared with brute force elsewhere (`tests/graph.rs`, `remembered.rs`), so both
//! are used here.

mod equality;

use crate::graph::{GroupFrequency, Load, Scorer, Scratch};
use crate::policy::random::Random;
use crate::policy::remembered::{Known, Remembered};
use crate::policy::{Access, AccessKind, Order, Settings, Slot, Unit, Why};

/// Parameters in the order of the policy's table.
struct Tuning {
    factor: f64,
    pool: usize,
    sample: usize,
    ghosts: f64,
    instance: GroupFrequency,
    /// 0 mean, 1 greatest, 2 least, 3 median.
    aggregate: u8,
    logarithmic: bool,
    half_life: f64,
    patience: f64,
    share: f64,
}

/// What is scored together.
#[derive(Clone, Copy, PartialEq)]
enum Grouping {
    Groups,
    Levels,
    Transaction,
}

struct Row {
    slot: Slot,
    hash: u64,
    weight: u32,
    known: Known,
    score: f64,
    txn: u64,
    level: u16,
}

#[derive(Clone)]
struct Asked {
    hash: u64,
    slot: Option<Slot>,
    weight: u32,
    frequency: f32,
    level: u16,
    vertex: u16,
    reads: bool,
    counted: bool,
}

/// All accesses of an open transaction.
struct Open {
    txn: u64,
    txn_type: u16,
    asked: Vec<Asked>,
}

struct Model {
    unit: Unit,
    tuning: Tuning,
    grouping: Grouping,
    admits: bool,
    /// Of type 1; all others have none.
    scorer: Scorer,
    random: Random,
    now: u64,
    age: f64,
    /// Pinned ones too.
    rows: Vec<Row>,
    /// In the order in which they are drawn from: the last takes the place of one that leaves.
    candidates: Vec<Slot>,
    pool: Vec<Slot>,
    open: Vec<Open>,
    /// What was asked for last, one level of one transaction: which, whether its score can be told, and its accesses.
    run: (u64, u16, bool, Vec<Asked>),
    incoming: Option<(u64, Known)>,
    remembered: Remembered,
}

impl Model {
    fn new(settings: &Settings, grouping: Grouping, admits: bool) -> Model {
        let value = |place: usize| settings.values[place];
        let rules = [GroupFrequency::Min, GroupFrequency::Average, GroupFrequency::Max, GroupFrequency::Median];
        Model {
            unit: settings.unit,
            tuning: Tuning {
                factor: value(0),
                pool: value(1) as usize,
                sample: value(2) as usize,
                ghosts: value(3),
                instance: rules[value(4) as usize],
                aggregate: value(5) as u8,
                logarithmic: value(6) == 1.0,
                half_life: value(7),
                patience: value(8),
                share: value(10),
            },
            grouping,
            admits,
            scorer: Scorer::new(equality::graph()),
            random: Random::new(value(9) as u64),
            now: 0,
            age: 0.0,
            rows: Vec::new(),
            candidates: Vec::new(),
            pool: Vec::new(),
            open: Vec::new(),
            run: (0, 0, false, Vec::new()),
            incoming: None,
            remembered: Remembered::new(value(7) > 0.0),
        }
    }

    fn row(&mut self, slot: Slot) -> &mut Row {
        self.rows.iter_mut().find(|row| row.slot == slot).expect("is in")
    }

    fn at(&self, slot: Slot) -> &Row {
        self.rows.iter().find(|row| row.slot == slot).expect("is in")
    }

    /// Ticks are of 64 accesses.
    fn away(&self, known: &Known) -> f64 {
        ((self.now / 64) as u32 - known.touched) as f64 * 64.0
    }

    fn fading(&self, known: &Known) -> f64 {
        match self.tuning.half_life {
            0.0 => 1.0,
            half_life => (-self.away(known) / (half_life * self.candidates.len().max(1) as f64)).exp2(),
        }
    }

    fn count(&mut self, known: &mut Known) {
        let fading = self.fading(known) as f32;
        known.frequency *= fading;
        known.total *= if self.tuning.aggregate == 0 { fading } else { 1.0 };
        known.touched = (self.now / 64) as u32;
        let beyond = known.frequency - 5.0;
        let rarer = self.tuning.logarithmic && beyond > 0.0;
        if !rarer || self.random.share() < 0.1 / f64::from(beyond).max(0.1) {
            known.frequency += 1.0;
        }
    }

    fn learn(&self, known: &mut Known, score: f32) {
        let old = known.total;
        known.total = match self.tuning.aggregate {
            0 => old + score,
            1 => old.max(score),
            _ if old == 0.0 => score,
            2 => old.min(score),
            _ if score > old => old * 1.05,
            _ if score < old => old / 1.05,
            _ => old,
        };
    }

    fn aggregate(&self, known: &Known) -> f64 {
        match (self.tuning.aggregate, known.frequency) {
            (0, frequency) if frequency > 0.0 => f64::from(known.total) / f64::from(frequency),
            // It was not counted since it came in: as if once.
            _ => f64::from(known.total),
        }
    }

    fn aged(&self, known: &Known) -> f64 {
        self.aggregate(known) + self.tuning.factor * self.age
    }

    /// What a key is worth that nobody has asked for since.
    fn worth(&self, row: &Row) -> f64 {
        let Tuning { half_life, patience, .. } = self.tuning;
        if half_life == 0.0 && patience == 0.0 {
            return row.score;
        }
        let remembers = half_life * self.candidates.len() as f64 / std::f64::consts::LN_2;
        let span = if half_life == 0.0 { self.now as f64 } else { (self.now as f64).min(remembers) };
        let gone = patience > 0.0 && self.away(&row.known) * f64::from(row.known.frequency) > patience * span;
        let left = if gone { 0.0 } else { self.fading(&row.known) };
        row.score - self.aggregate(&row.known) * (1.0 - left)
    }

    fn remember(&mut self, hash: u64, known: Known) {
        let mut limit = (self.tuning.ghosts * (self.candidates.len() + 1) as f64) as usize;
        if self.unit == Unit::Bytes {
            let weight: u64 = self.rows.iter().map(|row| u64::from(row.weight)).sum();
            limit = limit.min(self.remembered.len_within(self.tuning.share * weight as f64));
        }
        if limit > 0 {
            self.remembered.insert(hash, known, limit);
        }
    }

    fn asked(&mut self, access: &Access, asked: Asked) {
        let has_graph = access.txn_type == 1 && access.vertex != 0;
        let told = match self.grouping {
            Grouping::Groups => !has_graph,
            Grouping::Levels => true,
            Grouping::Transaction => false,
        };
        if (self.run.0, self.run.1) != (access.txn, access.level) {
            self.run = (access.txn, access.level, told && self.tuning.instance == GroupFrequency::Min, Vec::new());
        }
        self.run.3.push(asked.clone());
        match self.open.iter_mut().find(|open| open.txn == access.txn) {
            Some(open) => open.asked.push(asked),
            None => self.open.push(Open { txn: access.txn, txn_type: access.txn_type, asked: vec![asked] }),
        }
    }

    /// What the level of `incoming` scores as far as it was asked for, if that can be told.
    fn level_so_far(&self, incoming: &Access) -> f64 {
        let (txn, level, told, asked) = &self.run;
        if !told || (*txn, *level) != (incoming.txn, incoming.level) {
            return f64::INFINITY;
        }
        let frequency = |one: &Asked| if one.reads { one.frequency } else { 0.0 };
        let least = asked.iter().map(frequency).fold(f32::INFINITY, f32::min);
        let weight: u64 = asked.iter().filter(|one| one.counted).map(|one| u64::from(one.weight)).sum();
        f64::from(least) / weight.max(1) as f64
    }

    fn is_company(&self, slot: Slot, incoming: &Access) -> bool {
        let row = self.at(slot);
        incoming.slot.is_none() && row.txn != 0 && (row.txn, row.level) == (incoming.txn, incoming.level)
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(place) = self.candidates.iter().position(|&other| other == slot) {
            self.candidates.swap_remove(place);
        }
        self.pool.retain(|&other| other != slot);
    }

    /// Instance scores of all that a transaction asked for: by its graph if all of it has a vertex there.
    fn score(&self, open: &Open) -> Vec<f32> {
        let on_graph = |one: &Asked| (1..=4).contains(&one.vertex);
        let reads = || open.asked.iter().filter(|one| one.reads);
        let by_graph = self.grouping == Grouping::Groups && open.txn_type == 1;
        if by_graph && self.tuning.instance == GroupFrequency::Min && reads().all(on_graph) {
            let load = |vertex: u16| {
                let here: Vec<&Asked> = reads().filter(|one| one.vertex == vertex).collect();
                let frequency = here.iter().map(|one| f64::from(one.frequency)).reduce(f64::min);
                // The first of them brings its size in any case.
                let further = here.iter().skip(1).filter(|one| one.counted);
                let size = here.first().into_iter().chain(further).map(|one| u64::from(one.weight)).sum();
                frequency.map_or(Load::Absent, |frequency| Load::Keys { frequency, size })
            };
            let (loads, mut scratch) = ((1..=4).map(load).collect::<Vec<_>>(), Scratch::default());
            self.scorer.score(&loads, &mut scratch);
            let score =
                |one: &Asked| if one.reads { scratch.scores()[usize::from(one.vertex) - 1] as f32 } else { 0.0 };
            return open.asked.iter().map(score).collect();
        }
        let whole = self.grouping == Grouping::Transaction;
        let mut levels: Vec<u16> = open.asked.iter().map(|one| one.level).collect();
        levels.sort_unstable();
        levels.dedup();
        let reads_only = |level: u16| open.asked.iter().all(|one| one.level != level || one.reads);
        let score = |level: u16| {
            let hits = if whole { levels.iter().filter(|&&level| reads_only(level)).count() } else { 1 };
            let counts = |one: &&Asked| one.reads && one.counted && (whole || one.level == level);
            let (mut frequencies, mut size) = (Vec::new(), 0);
            // A mean depends on the order of its terms: levels come one after the other.
            for of_level in levels.iter().filter(|&&other| whole || other == level) {
                for one in open.asked.iter().filter(counts).filter(|one| one.level == *of_level) {
                    frequencies.push(f64::from(one.frequency));
                    size += u64::from(one.weight);
                }
            }
            let writes = !whole && !reads_only(level);
            if size == 0 || writes {
                0.0
            } else {
                self.tuning.instance.of(&mut frequencies) * hits as f64 / size as f64
            }
        };
        open.asked.iter().map(|one| score(one.level) as f32).collect()
    }
}

impl Order for Model {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let row = self.at(slot);
        let (weight, mut known, mut score) = (row.weight, row.known, row.score);
        let counted = access.kind == AccessKind::Read && (access.txn == 0 || row.txn != access.txn);
        if counted {
            self.count(&mut known);
            if access.txn == 0 {
                let alone = known.frequency / weight as f32;
                self.learn(&mut known, alone);
                score = self.aged(&known);
            }
        }
        let reads = access.kind == AccessKind::Read;
        if access.txn != 0 && (reads || access.kind == AccessKind::Write) {
            let (hash, level, vertex) = (access.hash, access.level, access.vertex);
            let frequency = known.frequency;
            self.asked(access, Asked { hash, slot: Some(slot), weight, frequency, level, vertex, reads, counted });
        }
        let row = self.row(slot);
        (row.known, row.score, row.txn, row.level) = (known, score, access.txn, access.level);
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        // What was refused is remembered when the next one comes.
        if let Some((hash, known)) = self.incoming.take() {
            self.remember(hash, known);
        }
        let mut known = self.remembered.get(access.hash).unwrap_or_default();
        let reads = access.kind == AccessKind::Read;
        if reads {
            self.count(&mut known);
        }
        if access.txn != 0 && (reads || access.kind == AccessKind::Write) {
            let (hash, level, vertex) = (access.hash, access.level, access.vertex);
            let (weight, frequency) = (self.unit.weight(access.size), known.frequency);
            self.asked(access, Asked { hash, slot: None, weight, frequency, level, vertex, reads, counted: reads });
        }
        if access.kind == AccessKind::Write {
            return false;
        }
        self.incoming = Some((access.hash, known));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let mut known = self.incoming.take().filter(|known| known.0 == access.hash).expect("was admitted").1;
        self.remembered.take(access.hash);
        let reads = access.kind == AccessKind::Read;
        if reads && access.txn == 0 {
            let alone = known.frequency / weight as f32;
            self.learn(&mut known, alone);
        }
        if reads && let Some(open) = self.open.iter_mut().find(|open| open.txn == access.txn) {
            open.asked
                .iter_mut()
                .rfind(|one| one.hash == access.hash)
                .into_iter()
                .for_each(|one| one.slot = Some(slot));
        }
        let (score, txn) = (self.aged(&known), if reads { access.txn } else { 0 });
        self.rows.push(Row { slot, hash: access.hash, weight, known, score, txn, level: access.level });
        self.candidates.push(slot);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.row(slot).weight = self.unit.weight(size);
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let (worth, known) = (self.worth(self.at(slot)), self.at(slot).known);
        self.leave(slot);
        self.rows.retain(|row| row.slot != slot);
        if why == Why::Evicted {
            self.age = self.age.max(worth);
            self.remember(hash, known);
        }
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let mut looked_at = self.pool.clone();
        let few = self.candidates.len() <= self.tuning.sample;
        for draw in 0..self.tuning.sample.min(self.candidates.len()) {
            let at = if few { draw } else { self.random.index(self.candidates.len()) };
            let slot = self.candidates[at];
            if !looked_at.contains(&slot) {
                looked_at.push(slot);
            }
        }
        // All of the newcomer's own level are worth what that scores.
        let company = self.level_so_far(incoming) + self.tuning.factor * self.age;
        let worth = |slot: Slot| if self.is_company(slot, incoming) { company } else { self.worth(self.at(slot)) };
        let mut sorted: Vec<(f64, Slot)> = looked_at.iter().map(|&slot| (worth(slot), slot)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let others = || self.candidates.iter().filter(|slot| !self.is_company(**slot, incoming));
        let found = sorted.first().copied().filter(|least| least.0 < f64::INFINITY);
        let found = found.or_else(|| others().next().map(|&slot| (self.worth(self.at(slot)), slot)));
        let goes = found.filter(|&(worth, slot)| {
            let known = self.incoming.filter(|known| known.0 == incoming.hash).map(|known| known.1).unwrap_or_default();
            let promise = match incoming.txn {
                0 => {
                    f64::from(known.frequency) / f64::from(self.unit.weight(incoming.size))
                        + self.tuning.factor * self.age
                }
                _ => self.aged(&known),
            };
            let loses = self.admits && incoming.slot.is_none() && promise < worth;
            !loses && !self.is_company(slot, incoming)
        });
        self.pool = sorted.iter().take(self.tuning.pool).map(|one| one.1).collect();
        goes.map(|one| one.1)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.leave(slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.candidates.push(slot);
    }

    fn ended(&mut self, txn: u64, committed: bool) {
        let Some(at) = self.open.iter().position(|open| open.txn == txn) else { return };
        let mut open = self.open.remove(at);
        let scores = if committed { self.score(&open) } else { vec![0.0; open.asked.len()] };
        let mut scored: Vec<(Asked, f32)> = open.asked.drain(..).zip(scores).collect();
        // Figures that are kept in few digits depend on the order in which they are changed.
        let by_graph = self.grouping == Grouping::Groups && open.txn_type == 1;
        let on_graph = |one: &(Asked, f32)| !one.0.reads || (1..=4).contains(&one.0.vertex);
        if committed && !(by_graph && self.tuning.instance == GroupFrequency::Min && scored.iter().all(on_graph)) {
            scored.sort_by_key(|one| one.0.level);
        }
        for (asked, score) in scored.into_iter().filter(|one| one.0.counted) {
            let row = self.rows.iter().position(|row| Some(row.slot) == asked.slot && row.hash == asked.hash);
            let incoming = self.incoming.filter(|known| known.0 == asked.hash);
            let outside = || incoming.map(|known| known.1).or_else(|| self.remembered.get(asked.hash));
            let Some(mut known) = row.map(|at| self.rows[at].known).or_else(outside) else { continue };
            match committed {
                true => self.learn(&mut known, score),
                // What scores were learned from was asked for once at least.
                false if known.total > 0.0 && known.frequency < 2.0 => known.frequency = known.frequency.min(1.0),
                false => known.frequency = (known.frequency - 1.0).max(0.0),
            }
            let score = self.aged(&known);
            match (row, &mut self.incoming) {
                (Some(at), _) => {
                    let txn = if committed { self.rows[at].txn } else { 0 };
                    (self.rows[at].known, self.rows[at].score, self.rows[at].txn) = (known, score, txn);
                }
                (None, Some(incoming)) if incoming.0 == asked.hash => incoming.1 = known,
                (None, _) => self.remembered.update(asked.hash, |old| *old = known),
            }
        }
    }

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, slot: Slot) -> String {
        let worth = self.worth(self.at(slot));
        if worth == 0.0 || worth.abs() >= 0.001 { format!("score {worth:.4}:") } else { format!("score {worth:.3e}:") }
    }

    fn validate(&self) {}
}
