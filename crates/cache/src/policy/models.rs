//! Naive models: the same decisions as the policies, written with scans over one vector.

mod cacheus;
mod deferred;
mod detox;
pub mod frame;
mod learned;
mod queues;

use super::bare::Bare;
use super::sketch::Sketch;
use super::{Access, Hits, MARKS_MAX, Order, Settings, Slot, Unit, Why};

/// What is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Lru,
    Lfu,
    Gdsf,
    Sieve,
    S3Fifo,
    /// Without what its authors' program does while the cache fills.
    S3FifoOfPaper,
    WTinyLfu,
}

/// Each rule with the policy that it models, as users choose it.
pub const MODELS: &[(Rule, &str)] = &[
    (Rule::Lru, "lru"),
    // Where each request stands for itself all levels are complete and of one key.
    (Rule::Lru, "life"),
    (Rule::Lfu, "lfu"),
    (Rule::Gdsf, "gdsf"),
    (Rule::Sieve, "sieve"),
    (Rule::S3Fifo, "s3-fifo"),
    (Rule::S3FifoOfPaper, "s3-fifo:fill=0"),
    (Rule::WTinyLfu, "w-tinylfu:window=0.3"),
];

/// Makes a model's order.
type MakeOrder = fn(&Settings) -> Box<dyn Order>;

/// Policies whose models stand in the frame: as users choose them, how they hear of hits, and the model.
pub const FRAMED: &[(&str, Hits, MakeOrder)] = &[
    ("fifo", Hits::Marks, |settings| frame::order(settings, frame::Fifo)),
    ("clock", Hits::Marks, |settings| frame::order(settings, frame::Clock)),
    ("slru", Hits::Accesses, |settings| frame::order(settings, queues::Slru)),
    ("2q", Hits::Accesses, |settings| {
        frame::order(settings, queues::TwoQ { out: frame::Gone::new(), returning: false })
    }),
    ("arc", Hits::Accesses, |settings| frame::order(settings, queues::Arc::new(false))),
    ("arc:whole=1", Hits::Accesses, |settings| frame::order(settings, queues::Arc::new(true))),
    ("lirs", Hits::Accesses, |settings| {
        let (stack, gone) = (Vec::new(), frame::Gone::new());
        frame::order(settings, queues::Lirs { stack, gone, returning: false, last: None })
    }),
    ("car", Hits::Marks, |settings| frame::order(settings, learned::Car::default())),
    ("mq", Hits::Accesses, |settings| frame::order(settings, learned::Mq::default())),
    ("lru-k", Hits::Accesses, |settings| frame::order(settings, learned::LruK::default())),
    ("camp", Hits::Accesses, |settings| frame::order(settings, learned::Camp::default())),
    ("hyperbolic", Hits::Accesses, |settings| frame::order(settings, learned::Hyperbolic::new())),
    ("lecar", Hits::Accesses, |settings| frame::order(settings, learned::Lecar::new())),
    ("deferred-lru", Hits::Accesses, |settings| frame::order(settings, deferred::Deferred::new(0.1, 0.1))),
    ("deferred-lru:pull=0.4,purge=0.3", Hits::Accesses, |settings| {
        frame::order(settings, deferred::Deferred::new(0.4, 0.3))
    }),
    ("deferred-lru:pull=1,purge=1", Hits::Accesses, |settings| {
        frame::order(settings, deferred::Deferred::new(1.0, 1.0))
    }),
    ("deferred-lru:pull=0,purge=0", Hits::Accesses, |settings| {
        frame::order(settings, deferred::Deferred::new(0.0, 0.0))
    }),
    ("deferred-lru-lazy:purge=0.3", Hits::Marks, |settings| frame::order(settings, deferred::Lazy { purged: 0 })),
    ("cacheus", Hits::Accesses, |settings| frame::order(settings, cacheus::Cacheus::new(settings.capacity))),
];

/// A bare cache that decides by the model.
pub fn model(rule: Rule, settings: &Settings) -> Bare {
    let hits =
        if matches!(rule, Rule::Sieve | Rule::S3Fifo | Rule::S3FifoOfPaper) { Hits::Marks } else { Hits::Accesses };
    let naive = Naive {
        rule,
        unit: settings.unit,
        capacity: settings.capacity,
        rows: Vec::new(),
        now: 0,
        age: 0.0,
        incoming_age: 0.0,
        hand: None,
        ghosts: Vec::new(),
        returning: false,
        was_full: rule == Rule::S3FifoOfPaper,
        sketch: Sketch::new(if settings.unit == Unit::Entries { settings.capacity as usize } else { 0 }),
        winner: None,
    };
    Bare::with_order(hits, settings, Box::new(naive))
}

#[derive(Clone)]
struct Row {
    slot: Slot,
    hash: u64,
    weight: u32,
    pinned: bool,
    /// Last use (LRU, LFU), or when the priority was set (GDSF).
    stamp: u64,
    frequency: u32,
    priority: f64,
    in_main: bool,
    /// 0 the window, 1 probation, 2 protected (W-TinyLFU).
    region: u8,
}

struct Naive {
    rule: Rule,
    unit: Unit,
    capacity: u64,
    /// From oldest to newest.
    rows: Vec<Row>,
    now: u64,
    age: f64,
    incoming_age: f64,
    hand: Option<Slot>,
    ghosts: Vec<(u64, u32)>,
    returning: bool,
    was_full: bool,
    sketch: Sketch,
    winner: Option<u64>,
}

impl Naive {
    fn at(&self, slot: Slot) -> usize {
        self.rows.iter().position(|row| row.slot == slot).expect("is in")
    }

    fn make_newest(&mut self, at: usize) {
        let row = self.rows.remove(at);
        self.rows.push(row);
    }

    fn small_max(&self) -> u64 {
        (self.capacity / 10).max(1)
    }

    /// The oldest of the small or the main queue.
    fn oldest(&self, in_main: bool) -> Option<usize> {
        self.rows.iter().position(|row| !row.pinned && row.in_main == in_main)
    }

    fn queue_weight(&self, in_main: bool) -> u64 {
        let rows = self.rows.iter().filter(|row| !row.pinned && row.in_main == in_main);
        rows.map(|row| u64::from(row.weight)).sum()
    }

    fn s3_victim(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.was_full = true;
        loop {
            let small = self.oldest(false);
            let main_max = self.capacity.saturating_sub(self.small_max());
            let in_main = small.is_none() || self.queue_weight(true) > main_max;
            let at = if in_main { self.oldest(true)? } else { small? };
            let touches = (self.rows[at].frequency + u32::from(marks(self.rows[at].slot))).min(u32::from(MARKS_MAX));
            // Small is drained up to its first victim before main is looked at again.
            match (in_main, touches) {
                (true, 0) | (false, 0 | 1) => return Some(self.rows[at].slot),
                (true, touches) => {
                    self.rows[at].frequency = touches - 1;
                    self.make_newest(at);
                    // Once main is being scanned it gives the victim.
                    return self.s3_main_victim(marks);
                }
                (false, _) => {
                    self.rows[at].frequency = 0;
                    self.rows[at].in_main = true;
                    self.make_newest(at);
                    if let Some(slot) = self.s3_small_victim(marks) {
                        return Some(slot);
                    }
                }
            }
        }
    }

    fn s3_small_victim(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        while let Some(at) = self.oldest(false) {
            if self.rows[at].frequency + u32::from(marks(self.rows[at].slot)) < 2 {
                return Some(self.rows[at].slot);
            }
            self.rows[at].frequency = 0;
            self.rows[at].in_main = true;
            self.make_newest(at);
        }
        None
    }

    fn s3_main_victim(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        loop {
            let at = self.oldest(true)?;
            let touches = (self.rows[at].frequency + u32::from(marks(self.rows[at].slot))).min(u32::from(MARKS_MAX));
            if touches == 0 {
                return Some(self.rows[at].slot);
            }
            self.rows[at].frequency = touches - 1;
            self.make_newest(at);
        }
    }

    fn sieve_victim(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        loop {
            let at = match self.hand {
                Some(slot) => self.at(slot),
                None => self.rows.iter().position(|row| !row.pinned)?,
            };
            self.hand = Some(self.rows[at].slot);
            if marks(self.rows[at].slot) == 0 {
                return self.hand;
            }
            self.hand = self.next_unpinned(at);
        }
    }

    fn next_unpinned(&self, at: usize) -> Option<Slot> {
        self.rows[at + 1..].iter().find(|row| !row.pinned).map(|row| row.slot)
    }

    fn pass_by(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.next_unpinned(self.at(slot));
        }
    }

    fn keep_ghosts_bounded(&mut self) {
        let weight_max = (self.capacity as f64 * 0.9) as u64;
        while self.ghosts.iter().map(|ghost| u64::from(ghost.1)).sum::<u64>() > weight_max {
            self.ghosts.remove(0);
        }
    }

    fn window_max(&self) -> u64 {
        ((self.capacity as f64 * 0.3) as u64).max(1)
    }

    /// The oldest of a region of W-TinyLFU.
    fn oldest_in(&self, region: u8) -> Option<usize> {
        self.rows.iter().position(|row| !row.pinned && row.region == region)
    }

    fn region_weight(&self, region: u8) -> u64 {
        let rows = self.rows.iter().filter(|row| !row.pinned && row.region == region);
        rows.map(|row| u64::from(row.weight)).sum()
    }

    fn overflow(&mut self) {
        let window_max = self.window_max();
        let protected_max = (self.capacity.saturating_sub(window_max) as f64 * 0.8) as u64;
        for (region, max) in [(0, window_max), (2, protected_max)] {
            while self.region_weight(region) > max {
                let at = self.oldest_in(region).expect("it weighs something");
                self.rows[at].region = 1;
                self.make_newest(at);
            }
        }
    }

    fn tinylfu_victim(&mut self, incoming: &Access) -> Option<Slot> {
        let main = self.oldest_in(1).or(self.oldest_in(2)).map(|at| &self.rows[at]);
        let window = self.oldest_in(0).map(|at| &self.rows[at]);
        let (Some(main), Some(window)) = (main, window) else { return main.or(window).map(|row| row.slot) };
        let weight = u64::from(self.unit.weight(incoming.size));
        let rival = self.sketch.frequency(main.hash);
        if incoming.slot.is_some() {
            Some(main.slot)
        } else if weight > self.window_max() {
            if self.winner != Some(incoming.hash) && self.sketch.frequency(incoming.hash) <= rival {
                return None;
            }
            let slot = main.slot;
            self.winner = Some(incoming.hash);
            Some(slot)
        } else if self.region_weight(0) + weight > self.window_max() && self.sketch.frequency(window.hash) <= rival {
            Some(window.slot)
        } else {
            Some(main.slot)
        }
    }

    fn priority(&self, frequency: u32, weight: u32) -> f64 {
        self.age + f64::from(frequency) * 1.0e6 / f64::from(weight)
    }
}

impl Order for Naive {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let at = self.at(slot);
        let priority = self.priority(self.rows[at].frequency + 1, self.rows[at].weight);
        let row = &mut self.rows[at];
        row.frequency += 1;
        row.stamp = self.now;
        row.priority = priority;
        if self.rule == Rule::WTinyLfu {
            self.sketch.add(access.hash);
            if !self.rows[at].pinned {
                self.rows[at].region = if self.rows[at].region == 0 { 0 } else { 2 };
                self.make_newest(at);
            }
            self.overflow();
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.incoming_age = self.age;
        self.sketch.add(access.hash);
        self.winner = None;
        self.returning = self.ghosts.iter().any(|ghost| ghost.0 == access.hash);
        self.ghosts.retain(|ghost| ghost.0 != access.hash);
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let weight = self.unit.weight(access.size);
        self.rows.push(Row {
            slot,
            hash: access.hash,
            weight,
            pinned: false,
            stamp: self.now,
            frequency: if matches!(self.rule, Rule::S3Fifo | Rule::S3FifoOfPaper) { 0 } else { 1 },
            priority: self.incoming_age + 1.0e6 / f64::from(weight),
            in_main: self.returning || (!self.was_full && self.queue_weight(false) >= self.small_max()),
            region: u8::from(u64::from(weight) > self.window_max()),
        });
        if self.rule == Rule::WTinyLfu {
            self.sketch.fit(self.rows.len());
            self.overflow();
        }
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.now += 1;
        let at = self.at(slot);
        self.rows[at].weight = self.unit.weight(size);
        if self.rule == Rule::Gdsf {
            self.rows[at].priority = self.priority(self.rows[at].frequency, self.rows[at].weight);
            self.rows[at].stamp = self.now;
        }
        if self.rule == Rule::WTinyLfu {
            self.overflow();
        }
    }

    fn removed(&mut self, slot: Slot, _: u64, why: Why) {
        self.pass_by(slot);
        let row = self.rows.remove(self.at(slot));
        if why != Why::Evicted {
            return;
        }
        self.age = self.age.max(row.priority);
        if !row.in_main && u64::from(row.weight) <= (self.capacity as f64 * 0.9) as u64 {
            self.ghosts.push((row.hash, row.weight));
            self.keep_ghosts_bounded();
        }
    }

    fn victim(&mut self, incoming: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let rows = self.rows.iter().filter(|row| !row.pinned);
        match self.rule {
            Rule::Lru => rows.min_by_key(|row| row.stamp).map(|row| row.slot),
            Rule::Lfu => rows.min_by_key(|row| (row.frequency, row.stamp)).map(|row| row.slot),
            Rule::Gdsf => {
                let lowest = rows.min_by(|a, b| a.priority.total_cmp(&b.priority).then(a.stamp.cmp(&b.stamp)))?.clone();
                let own = self.incoming_age + 1.0e6 / f64::from(self.unit.weight(incoming.size));
                if incoming.slot.is_none() && own < lowest.priority {
                    self.age = self.age.max(own);
                    return None;
                }
                Some(lowest.slot)
            }
            Rule::Sieve => self.sieve_victim(marks),
            Rule::S3Fifo | Rule::S3FifoOfPaper => self.s3_victim(marks),
            Rule::WTinyLfu => self.tinylfu_victim(incoming),
        }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.pass_by(slot);
        let at = self.at(slot);
        self.rows[at].pinned = true;
    }

    fn restore(&mut self, slot: Slot) {
        self.now += 1;
        let at = self.at(slot);
        self.rows[at].pinned = false;
        if self.rule != Rule::Gdsf {
            self.rows[at].stamp = self.now;
        }
        self.make_newest(at);
        if self.rule == Rule::WTinyLfu {
            self.overflow();
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.keep_ghosts_bounded();
        if self.rule == Rule::WTinyLfu {
            self.overflow();
        }
    }

    fn explain(&self, slot: Slot) -> String {
        format!("row {}", self.at(slot))
    }

    fn validate(&self) {}
}
