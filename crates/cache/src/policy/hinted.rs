//! Policies that learn from hints, against naive models of themselves, decision for decision. Requests are random,
//! with hints of several clients, reads and writes, pins, invalidations and other capacities.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bare::Bare;
use super::models::frame::{self, Row, Rows, Rule};
use super::tq::Page;
use super::{Access, AccessKind, Hits, Order, Settings, Slot, Unit, Why, choose};
use crate::hint::{HintMeaning, HintSet};

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request(u64, u32, AccessKind),
    Invalidate(u64),
    Pin(u64, bool),
    Capacity(u64),
}

const SETS: u32 = 6;

/// The even sets are replacement writes of one client, the odd ones recovery writes of another.
fn meaning(set: u32) -> HintMeaning {
    let kind = if set.is_multiple_of(2) { "repl_write" } else { "recovery_write" };
    let values = vec![kind.as_bytes().into(), (set / 3).to_string().into_bytes().into()];
    HintMeaning { schema: set % 2, types: vec![b"kind".as_slice().into(), b"table".as_slice().into()], values }
}

fn events(length: usize) -> impl Strategy<Value = Vec<Event>> {
    let key = 0u64..30;
    let kind = prop_oneof![
        4 => Just(AccessKind::Read),
        2 => Just(AccessKind::Write),
        1 => Just(AccessKind::Demote),
        1 => Just(AccessKind::Prefetch),
    ];
    // Keys are mostly asked for with the same hints, else there would be nothing to learn.
    let hints = prop_oneof![3 => Just(None), 1 => (0..SETS).prop_map(Some)];
    let request = (key.clone(), hints, kind)
        .prop_map(|(key, hints, kind)| Event::Request(key, hints.unwrap_or(key as u32 % SETS), kind));
    let event = prop_oneof![
        30 => request,
        1 => key.clone().prop_map(Event::Invalidate),
        2 => (key, any::<bool>()).prop_map(|(key, pinned)| Event::Pin(key, pinned)),
        1 => (1u64..20).prop_map(Event::Capacity),
    ];
    prop::collection::vec(event, 1..length)
}

fn apply(cache: &mut Bare, event: Event) -> (Option<super::bare::Served>, Vec<u64>) {
    let served = match event {
        Event::Request(key, hints, kind) => {
            Some(cache.access(Access { kind, hints: HintSet(hints), ..Access::read(key, 1) }))
        }
        Event::Invalidate(key) => {
            cache.invalidate(key);
            return (None, Vec::new());
        }
        Event::Pin(key, pinned) if !cache.pin(key, pinned) => return (None, Vec::new()),
        Event::Pin(..) => None,
        Event::Capacity(capacity) => {
            cache.set_capacity(capacity);
            None
        }
    };
    (served, cache.evicted().to_vec())
}

type MakeOrder = fn(&Settings) -> Box<dyn Order>;

/// Policies as users choose them, with their models. A k that is larger than the number of hint sets tracks them all.
const MODELS: &[(&str, MakeOrder)] = &[
    ("clic:window=25,out=1,charge=0", |settings| frame::order(settings, Clic::new(25, 1.0, 1.0, false))),
    ("clic:window=7,out=0.5,decay=0.5,charge=0", |settings| frame::order(settings, Clic::new(7, 0.5, 0.5, false))),
    ("clic-top-k:k=10,window=40,out=2,charge=0", |settings| frame::order(settings, Clic::new(40, 1.0, 2.0, true))),
    ("tq:low=0.3,history=1", |settings| frame::order(settings, Tq::default())),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn equals_its_model(events in events(400), capacity in 1u64..16) {
        for &(name, order) in MODELS {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(Unit::Entries, capacity);
            let mut cache = Bare::new(choice.policy, &settings);
            let mut model = Bare::with_order(Hits::Accesses, &settings, order(&settings));
            (0..SETS).for_each(|set| cache.define_hints(HintSet(set), &meaning(set)));
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event), apply(&mut model, event));
                prop_assert_eq!(ours, models, "{}: step {} ({:?})", name, step, event);
                cache.validate();
            }
        }
    }

    /// What the models leave out: fewer counters than hint sets, and sets that nobody defined.
    #[test]
    fn any_sequence_with_hints(events in events(400), capacity in 1u64..16) {
        let names = ["clic-tree:window=30,sample=64", "clic-g:window=30,sample=64", "clic-g:window=20,past=1,leaves=3",
            "clic-top-k:k=2,window=20,decay=0.5"];
        for name in names {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(Unit::Entries, capacity);
            let (mut cache, mut twin) = (Bare::new(choice.policy, &settings), Bare::new(choice.policy, &settings));
            for set in 0..SETS / 2 {
                cache.define_hints(HintSet(set), &meaning(set));
                twin.define_hints(HintSet(set), &meaning(set));
            }
            let mut capacity = capacity;
            for (step, &event) in events.iter().enumerate() {
                if let Event::Capacity(new) = event {
                    capacity = new;
                }
                prop_assert_eq!(apply(&mut cache, event), apply(&mut twin, event), "{}: step {}", name, step);
                cache.validate();
                let pinned = events[..=step].iter().any(|event| matches!(event, Event::Pin(_, true)));
                prop_assert!(pinned || cache.used() <= capacity, "{}: over capacity", name);
            }
            prop_assert!(cache.report(100).len() <= 100 && cache.learned_bytes() < 1 << 20);
        }
    }
}

/// What is learned does not grow with the number of keys, and with hint sets only up to a bound.
#[test]
fn what_is_learned_is_bounded() {
    for name in ["clic:window=500", "clic-top-k:window=500", "clic-tree:window=500", "clic-g:window=500"] {
        let choice = choose(name).expect("in the table");
        let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 100));
        let mut bytes_at = |requests: std::ops::Range<u64>| {
            for at in requests {
                let key = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_003;
                cache.access(Access { hints: HintSet(at as u32 % 500), ..Access::read(key, 1) });
            }
            cache.learned_bytes()
        };
        let (early, late) = (bytes_at(0..20_000), bytes_at(20_000..60_000));
        assert!(early > 0 && late <= 2 * early && late < 4 << 20, "{name}: {early} bytes grew to {late}");
    }
}

/// Forgetting leaves what was declared, and nothing of what was learned.
#[test]
fn forgets_what_was_learned() {
    for name in ["clic:window=50", "clic-top-k:window=50", "clic-tree:window=50", "clic-g:window=50"] {
        let choice = choose(name).expect("in the table");
        let learned = (choice.policy.learned)(&choice.settings(Unit::Entries, 10));
        learned.define_hints(HintSet(1), &meaning(1));
        let order = (choice.policy.order)(&choice.settings(Unit::Entries, 10), learned.clone());
        let mut cache = Bare::with_order(Hits::Accesses, &choice.settings(Unit::Entries, 10), order);
        for key in 0..400 {
            cache.access(Access { hints: HintSet(1), ..Access::read(key % 20, 1) });
        }
        assert!(learned.report(10).iter().any(|(name, _)| name.contains("kind=recovery_write")), "{name}");
        learned.forget();
        assert!(learned.report(10).is_empty(), "{name}");
    }
}

/// Figure 4 with its statistics, by scans over everything that ever happened.
struct Clic {
    window: usize,
    decay: f64,
    out: f64,
    /// By Space-Saving.
    tracks: bool,
    now: u64,
    /// Requests of this window: hints, and the read re-reference that each was (hints before, distance).
    log: Vec<(u32, Option<(u32, u64)>)>,
    priorities: BTreeMap<u32, f64>,
    /// Slot, hash, last request, hints.
    pages: Vec<(Slot, u64, u64, u32)>,
    outqueue: Vec<(u64, u64, u32)>,
    missed: u32,
}

impl Clic {
    fn new(window: usize, decay: f64, out: f64, tracks: bool) -> Clic {
        Clic {
            window,
            decay,
            out,
            tracks,
            now: 0,
            log: Vec::new(),
            priorities: BTreeMap::new(),
            pages: Vec::new(),
            outqueue: Vec::new(),
            missed: 0,
        }
    }

    fn priority(&self, hints: u32) -> f64 {
        self.priorities.get(&hints).copied().unwrap_or(0.0)
    }

    fn request(&mut self, access: &Access, before: Option<(u64, u32)>) {
        if self.log.len() == self.window {
            let highest = self.priorities.values().copied().fold(0.0, f64::max);
            for set in 0..SETS {
                let requests = self.log.iter().filter(|entry| entry.0 == set).count() as f64;
                // Space-Saving counts re-references only of what it tracks.
                let first = self.log.iter().position(|entry| entry.0 == set).map_or(self.window, |at| at + 1);
                let counted = &self.log[if self.tracks { first } else { 0 }..];
                let rereads = counted.iter().filter_map(|entry| entry.1.filter(|reread| reread.0 == set));
                let distances: Vec<f64> = rereads.map(|reread| reread.1 as f64).collect();
                let (reads, distance) = (distances.len() as f64, distances.iter().sum::<f64>());
                let known = requests > 0.0 && reads > 0.0;
                let new = if known { (reads / requests) / (distance / reads) } else { 0.0 };
                // What has faded for good is 0.
                let faded = (1.0 - self.decay) * self.priority(set);
                let faded = if faded > highest * 1e-9 { faded } else { 0.0 };
                self.priorities.insert(set, new + faded);
            }
            self.log.clear();
        }
        self.now += 1;
        let reads = matches!(access.kind, AccessKind::Read | AccessKind::Prefetch);
        let reread = before.filter(|_| reads).map(|(at, hints)| (hints, self.now - at));
        self.log.push((access.hints.0, reread));
    }

    fn remember(&mut self, hash: u64, at: u64, hints: u32, capacity: u64) {
        self.outqueue.retain(|page| page.0 != hash);
        self.outqueue.push((hash, at, hints));
        self.trim(capacity);
    }

    fn trim(&mut self, capacity: u64) {
        while self.outqueue.len() > (capacity as f64 * self.out) as usize {
            self.outqueue.remove(0);
        }
    }

    fn hit_slot(&mut self, access: &Access) {
        let (slot, _) = access.slot.expect("a hit");
        let at = self.pages.iter().position(|page| page.0 == slot).expect("is in");
        let before = (self.pages[at].2, self.pages[at].3);
        self.request(access, Some(before));
        (self.pages[at].2, self.pages[at].3) = (self.now, access.hints.0);
    }
}

impl Rule for Clic {
    fn hit(&mut self, _: &mut Rows, _: usize, access: &Access) {
        self.hit_slot(access);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.hit_slot(access);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        let known = self.outqueue.iter().position(|page| page.0 == access.hash);
        let before = known.map(|at| self.outqueue.remove(at)).map(|page| (page.1, page.2));
        self.request(access, before);
        self.missed = access.hints.0;
        true
    }

    fn entered(&mut self, rows: &mut Rows, access: &Access) {
        let row = rows.rows.last().expect("just came in");
        self.pages.push((row.slot, row.hash, self.now, access.hints.0));
    }

    fn choose(&mut self, rows: &mut Rows, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let candidates = self.pages.iter().filter(|page| !rows.rows[rows.at(page.0)].pinned);
        let order = |a: &&(Slot, u64, u64, u32), b: &&(Slot, u64, u64, u32)| {
            self.priority(a.3).total_cmp(&self.priority(b.3)).then(a.2.cmp(&b.2))
        };
        let lowest = candidates.min_by(order).copied();
        // Set 0 is that of requests without hints, which go by recency among themselves.
        let loses = lowest.is_none_or(|lowest| {
            self.priority(incoming.hints.0) <= self.priority(lowest.3) && (incoming.hints.0, lowest.3) != (0, 0)
        });
        if incoming.slot.is_none() && loses {
            self.remember(incoming.hash, self.now, self.missed, rows.capacity);
            return None;
        }
        lowest.map(|page| rows.at(page.0))
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        let at = self.pages.iter().position(|page| page.0 == row.slot).expect("was in");
        let (_, hash, at, hints) = self.pages.remove(at);
        if why == Why::Evicted {
            self.remember(hash, at, hints, rows.capacity);
        }
    }

    fn pinned(&mut self, _: &mut Rows, slot: Slot, pinned: bool) {
        if !pinned {
            self.now += 1;
            let now = self.now;
            self.pages.iter_mut().filter(|page| page.0 == slot).for_each(|page| page.2 = now);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.trim(rows.capacity);
    }
}

/// TQ by scans; list 1 is high.
#[derive(Default)]
struct Tq {
    now: u64,
    pages: BTreeMap<u64, Page>,
    expected: BTreeMap<u64, (u64, u64)>,
    gone: frame::Gone<Page>,
    distances: Vec<f64>,
    mean: f64,
}

impl Tq {
    fn request(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        let (hash, was_high) = (access.hash, rows.rows[at].list == 1);
        let page = self.pages.entry(hash).or_default();
        let high = match access.kind {
            AccessKind::Read | AccessKind::Prefetch => {
                if let Some(distance) = page.read(self.now) {
                    self.distances.push(distance);
                    self.mean += (distance - self.mean) / self.distances.len() as f64;
                }
                false
            }
            AccessKind::Demote => true,
            AccessKind::Write if access.hints.0.is_multiple_of(2) => true,
            AccessKind::Write if was_high => return,
            AccessKind::Write => false,
        };
        if high {
            page.written = Some(self.now);
            let distance = if page.reads > 0 { page.mean } else { self.mean };
            self.expected.insert(hash, (self.now + distance as u64, self.now));
        }
        match rows.rows[at].pinned {
            true => rows.rows[at].list = u32::from(high),
            false => drop(rows.place(at, u32::from(high))),
        }
    }
}

impl Rule for Tq {
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        self.now += 1;
        self.request(rows, at, access);
    }

    fn hit_pinned(&mut self, rows: &mut Rows, access: &Access) {
        self.now += 1;
        let at = rows.at(access.slot.expect("a hit").0);
        self.request(rows, at, access);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.now += 1;
        // What was known of a page that then could not come in is forgotten.
        self.pages.insert(access.hash, self.gone.take(access.hash).unwrap_or_default());
        true
    }

    fn entered(&mut self, rows: &mut Rows, access: &Access) {
        let at = rows.rows.len() - 1;
        self.request(rows, at, access);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let low = rows.oldest(0);
        if low.is_some() && rows.weight(0) as f64 > rows.capacity as f64 * 0.3 {
            return low;
        }
        let high = (0..rows.rows.len()).filter(|&at| !rows.rows[at].pinned && rows.rows[at].list == 1);
        high.max_by_key(|&at| self.expected[&rows.rows[at].hash]).or(low)
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        let page = self.pages.remove(&row.hash).expect("was in");
        if why == Why::Evicted {
            self.gone.push(row.hash, row.weight, page);
            self.gone.trim(rows.capacity);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.gone.trim(rows.capacity);
    }
}
