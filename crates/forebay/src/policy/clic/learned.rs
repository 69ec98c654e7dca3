//! What is learned over all partitions: statistics of hint sets by windows, and the table of priorities made of them.
//!
//! Orders collect what they saw and hand it over in batches; at the end of a window of W requests (section 3.2) a new
//! table is made, which each order takes up when it hands over its next batch. With one partition that is exactly
//! between the window's last request and the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Learned;
use super::super::random::Random;
use super::cells::{Cells, Columns};
use super::curve::{self, BINS, Histogram};
use super::meanings::Meanings;
use super::memory::{Fit, Memory};
use super::sample::{Outcome, Sample, Weighed, by_cell};
use super::space_saving::SpaceSaving;
use super::tree::{Counts, Tree};
use crate::hint::{HintMeaning, HintSet};

/// The first windows of a mode that groups hint sets are shorter, by powers of two up to this many of them.
const SHORT_WINDOWS: u32 = 4;

/// A priority below this share of the highest is 0; with a decay they would fade for ever.
const PRIORITY_SHARE_MIN: f64 = 1e-9;

/// No class was looked up yet.
const UNKNOWN: u32 = u32::MAX;

/// Cells beyond the table's end are looked up each time.
const TABLE_CELLS_MAX: usize = 1 << 22;

/// What an order saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A request with these hints came.
    Requested(u32),
    /// The page of a request was read again after so many requests.
    Reread(u32, u32),
    /// It was written, or forgotten after so many requests.
    Ended(u32, u32),
}

/// How statistics become priorities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// Of every hint set by itself (section 3).
    Every,
    /// Of the k most frequent hint sets (section 5).
    Frequent(usize),
    /// Of groups of hint sets, the leaves of a tree.
    Grouped,
    /// Of groups, with a worth by age.
    Aged,
}

/// What a policy of this family learns with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    /// How.
    pub method: Method,
    /// Requests of a window (W).
    pub window: u64,
    /// How much the last window counts (r).
    pub decay: f64,
    /// Outcomes drawn of each window.
    pub sample: usize,
    /// The share of their weight that they have a window later.
    pub keep: f64,
    /// Leaves of the tree.
    pub leaves: usize,
    /// What is derived of a page's past.
    pub cells: Cells,
    /// Seed of the sample.
    pub seed: u64,
}

impl Config {
    /// Whether it is of use to say what became of pages that were not read again.
    pub fn wants_ends(&self) -> bool {
        matches!(self.method, Method::Grouped | Method::Aged)
    }
}

/// What is known of one hint set, of the last window.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    priority: f64,
    counts: Counts,
}

/// Priorities for the time of one window.
pub(super) struct Table {
    /// Rises by one with each table.
    pub generation: u64,
    /// By class, ascending. Classes are leaves of the tree; without one equal priorities are one class, and class 0 has
    /// priority 0.
    pub priorities: Vec<f64>,
    /// With [`Method::Aged`]: by class, the worth of a page by the bin of its age.
    pub curves: Vec<[f32; BINS]>,
    classes: Vec<AtomicU32>,
    tree: Option<Tree>,
    /// The class of each leaf.
    leaves: Vec<u32>,
}

impl Table {
    fn bytes(&self) -> usize {
        self.classes.len() * size_of::<AtomicU32>()
            + self.priorities.len() * size_of::<f64>()
            + self.curves.len() * size_of::<[f32; BINS]>()
            + self.tree.as_ref().map_or(0, Tree::bytes)
    }
}

/// See the module.
pub(super) struct Hints {
    config: Config,
    state: Mutex<State>,
    bytes: AtomicUsize,
}

struct State {
    meanings: Meanings,
    statistics: Statistics,
    random: Random,
    /// Requests in this window.
    requests: u64,
    windows: u32,
    table: Arc<Table>,
    /// By cell, what the last window told, for reports.
    known: BTreeMap<u32, Known>,
}

enum Statistics {
    Every {
        counts: Vec<Counts>,
        met: Vec<u32>,
        priorities: BTreeMap<u32, f64>,
    },
    Frequent {
        counters: SpaceSaving<(u64, f64)>,
        priorities: BTreeMap<u32, f64>,
    },
    /// With a memory where it is to be found out how long one is of use.
    Grouped(Sample, Option<Memory>),
}

/// What an order is told when it hands over what it saw.
pub(super) struct Lesson {
    /// The window has so many requests left.
    pub window_left: u64,
    /// The table, if it is another one.
    pub table: Option<Arc<Table>>,
}

impl Hints {
    /// Nothing learned.
    pub fn new(config: Config) -> Hints {
        let state = State::new(&config, Meanings::new(), 0);
        let hints = Hints { config, state: Mutex::new(state), bytes: AtomicUsize::new(0) };
        hints.count_bytes(&hints.lock());
        hints
    }

    /// What it learns with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The table that is in force.
    pub fn table(&self) -> Arc<Table> {
        self.lock().table.clone()
    }

    /// Takes over what an order saw during `requests` requests.
    pub fn teach(&self, events: &mut Vec<Event>, requests: u64, generation: u64) -> Lesson {
        let mut state = self.lock();
        state.hear_all(events);
        state.requests += requests;
        if state.requests >= state.window(&self.config) {
            state.end_window(&self.config);
            self.count_bytes(&state);
        }
        let window_left = state.window(&self.config) - state.requests;
        let table = (state.table.generation != generation).then(|| state.table.clone());
        Lesson { window_left, table }
    }

    /// The class that a table has a cell in.
    #[inline]
    pub fn class(&self, table: &Table, cell: u32) -> u32 {
        match table.classes.get(cell as usize).map(|class| class.load(Ordering::Relaxed)) {
            Some(class) if class != UNKNOWN => class,
            _ => self.look_up(table, cell),
        }
    }

    #[cold]
    fn look_up(&self, table: &Table, cell: u32) -> u32 {
        let Some(tree) = &table.tree else { return 0 };
        let mut state = self.lock();
        state.meanings.vector(self.config.cells.set(cell));
        let columns = Columns { meanings: &state.meanings, cells: self.config.cells };
        let class = table.leaves.get(tree.leaf(cell, &columns) as usize).copied().unwrap_or_default();
        if let Some(known) = table.classes.get(cell as usize) {
            known.store(class, Ordering::Relaxed);
        }
        class
    }

    /// How the hints of a cell read.
    pub fn describe(&self, cell: u32) -> String {
        let own = self.config.cells.describe(cell);
        format!("{}{own}", self.lock().meanings.describe(self.config.cells.set(cell)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_bytes(&self, state: &State) {
        self.bytes.store(state.bytes(), Ordering::Relaxed);
    }
}

impl Learned for Hints {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn define_hints(&self, set: HintSet, meaning: &HintMeaning) {
        let mut state = self.lock();
        state.meanings.define(set.0, meaning);
        self.count_bytes(&state);
    }

    fn forget(&self) {
        let mut state = self.lock();
        let meanings = state.meanings.only_defined();
        *state = State::new(&self.config, meanings, state.table.generation + 1);
        self.count_bytes(&state);
    }

    fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        let state = self.lock();
        let whole: f64 = state.known.values().map(|known| known.counts.requests).sum();
        let mut known: Vec<(u32, Known)> = state.known.iter().map(|(&cell, &known)| (cell, known)).collect();
        known.sort_by(|a, b| b.1.priority.total_cmp(&a.1.priority).then(a.0.cmp(&b.0)));
        let line = |(cell, Known { priority, counts }): &(u32, Known)| {
            let share = 100.0 * counts.requests / whole;
            let again = 100.0 * counts.reads / counts.requests.max(f64::MIN_POSITIVE);
            let after = if counts.reads > 0.0 { counts.distance / counts.reads } else { 0.0 };
            let name = state.meanings.describe(self.config.cells.set(*cell)) + &self.config.cells.describe(*cell);
            let value = format!("priority={priority:.3e} requests={share:.3}% read_again={again:.2}% after={after:.0}");
            (name, value)
        };
        known.iter().take(lines_max).map(line).collect()
    }
}

impl State {
    fn new(config: &Config, meanings: Meanings, generation: u64) -> State {
        let statistics = match config.method {
            Method::Every => Statistics::Every { counts: Vec::new(), met: Vec::new(), priorities: BTreeMap::new() },
            Method::Frequent(k) => Statistics::Frequent { counters: SpaceSaving::new(k), priorities: BTreeMap::new() },
            Method::Grouped | Method::Aged => {
                let chooses = config.method == Method::Grouped && config.keep > 0.0;
                Statistics::Grouped(Sample::new(config.sample, config.keep), chooses.then(Memory::new))
            }
        };
        let first = Table {
            generation,
            priorities: vec![0.0],
            curves: vec![curve::unknown()],
            classes: Vec::new(),
            tree: None,
            leaves: vec![0],
        };
        State {
            meanings,
            statistics,
            random: Random::new(config.seed),
            requests: 0,
            windows: 0,
            table: Arc::new(first),
            known: BTreeMap::new(),
        }
    }

    /// Requests of the window at hand.
    fn window(&self, config: &Config) -> u64 {
        let shorter = if config.wants_ends() { SHORT_WINDOWS.saturating_sub(self.windows) } else { 0 };
        (config.window >> shorter).max(1)
    }

    fn hear_all(&mut self, events: &mut Vec<Event>) {
        let random = &mut self.random;
        match &mut self.statistics {
            Statistics::Every { counts, met, .. } => events.drain(..).for_each(|event| count(counts, met, event)),
            Statistics::Frequent { counters, .. } => events.drain(..).for_each(|event| match event {
                Event::Requested(cell) => counters.count(cell),
                Event::Reread(cell, age) => {
                    if let Some((reads, distance)) = counters.note_mut(cell) {
                        *reads += 1;
                        *distance += f64::from(age);
                    }
                }
                Event::Ended(..) => {}
            }),
            Statistics::Grouped(sample, _) => events.drain(..).for_each(|event| match event {
                Event::Reread(cell, age) => sample.offer(cell, || Outcome::new(age, true), random),
                Event::Ended(cell, age) => sample.offer(cell, || Outcome::new(age, false), random),
                Event::Requested(_) => {}
            }),
        }
    }

    fn end_window(&mut self, config: &Config) {
        (self.requests, self.windows) = (0, self.windows.saturating_add(1));
        self.known.clear();
        let generation = self.table.generation + 1;
        let table = match &mut self.statistics {
            Statistics::Every { counts, met, priorities } => {
                fade(priorities, config.decay);
                for cell in met.drain(..) {
                    let counts = std::mem::take(&mut counts[cell as usize]);
                    *priorities.entry(cell).or_default() += priority(&counts);
                    self.known.insert(cell, Known { priority: 0.0, counts });
                }
                ranked(generation, priorities)
            }
            Statistics::Frequent { counters, priorities } => {
                fade(priorities, config.decay);
                for counter in counters.counters() {
                    let (reads, distance) = counter.note;
                    let requests = (counter.count - counter.error) as f64;
                    let counts = Counts { requests, reads: reads as f64, distance, ..Counts::default() };
                    *priorities.entry(counter.item).or_default() += priority(&counts);
                    self.known.insert(counter.item, Known { priority: 0.0, counts });
                }
                counters.clear();
                ranked(generation, priorities)
            }
            Statistics::Grouped(sample, memory) => {
                let outcomes = sample.close();
                grouped(generation, config, &mut self.meanings, outcomes, memory.as_mut(), &mut self.known)
            }
        };
        for (&cell, known) in &mut self.known {
            let class = table.classes.get(cell as usize).map_or(0, |class| class.load(Ordering::Relaxed));
            known.priority = table.priorities.get(class as usize).copied().unwrap_or_default();
        }
        self.table = Arc::new(table);
    }

    fn bytes(&self) -> usize {
        let map = |priorities: &BTreeMap<u32, f64>| priorities.len() * 24;
        let statistics = match &self.statistics {
            Statistics::Every { counts, met, priorities } => {
                counts.capacity() * size_of::<Counts>() + met.capacity() * size_of::<u32>() + map(priorities)
            }
            Statistics::Frequent { counters, priorities } => counters.bytes() + map(priorities),
            Statistics::Grouped(sample, memory) => sample.bytes() + memory.as_ref().map_or(0, Memory::bytes),
        };
        let known = self.known.len() * (size_of::<Known>() + 16);
        self.meanings.bytes() + statistics + known + self.table.bytes()
    }
}

/// Counts an event of a hint set by itself; `met` are the sets with counts.
fn count(counts: &mut Vec<Counts>, met: &mut Vec<u32>, event: Event) {
    let (Event::Requested(cell) | Event::Reread(cell, _) | Event::Ended(cell, _)) = event;
    if cell as usize >= counts.len() {
        counts.resize(cell as usize + 1, Counts::default());
    }
    let counts = &mut counts[cell as usize];
    if *counts == Counts::default() && !matches!(event, Event::Ended(..)) {
        met.push(cell);
    }
    match event {
        Event::Requested(_) => counts.requests += 1.0,
        Event::Reread(_, age) => {
            counts.reads += 1.0;
            counts.distance += f64::from(age);
        }
        Event::Ended(..) => {}
    }
}

/// Equation 2. Nothing is known of hints with which nobody asked in this window, even if pages were read again that had
/// been asked for with them before.
fn priority(counts: &Counts) -> f64 {
    if counts.requests > 0.0 { counts.priority() } else { 0.0 }
}

/// Equation 3: what remains of the priorities so far.
fn fade(priorities: &mut BTreeMap<u32, f64>, decay: f64) {
    if decay >= 1.0 {
        return priorities.clear();
    }
    let highest = priorities.values().copied().fold(0.0, f64::max);
    priorities.values_mut().for_each(|priority| *priority *= 1.0 - decay);
    priorities.retain(|_, priority| *priority > highest * PRIORITY_SHARE_MIN);
}

/// A table with a class for each different priority.
fn ranked(generation: u64, priorities: &BTreeMap<u32, f64>) -> Table {
    let mut distinct: Vec<f64> = priorities.values().copied().chain([0.0]).collect();
    distinct.sort_unstable_by(f64::total_cmp);
    distinct.dedup();
    let cells = priorities.last_key_value().map_or(0, |(&cell, _)| cell as usize + 1);
    let classes: Vec<AtomicU32> = (0..cells.min(TABLE_CELLS_MAX)).map(|_| AtomicU32::new(0)).collect();
    for (&cell, priority) in priorities {
        let class = distinct.partition_point(|other| other < priority);
        if let Some(known) = classes.get(cell as usize) {
            known.store(class as u32, Ordering::Relaxed);
        }
    }
    let leaves = Vec::new();
    Table { generation, priorities: distinct, curves: Vec::new(), classes, tree: None, leaves }
}

/// A table of the leaves of a tree; `outcomes` are those of the last window and all that are kept.
fn grouped(
    generation: u64,
    config: &Config,
    meanings: &mut Meanings,
    outcomes: (Vec<Weighed>, &[Weighed]),
    memory: Option<&mut Memory>,
    known: &mut BTreeMap<u32, Known>,
) -> Table {
    let (window, kept) = outcomes;
    let same_cell = |a: &Weighed, b: &Weighed| a.cell == b.cell;
    for of_cell in window.chunk_by(same_cell).chain(kept.chunk_by(same_cell)) {
        meanings.vector(config.cells.set(of_cell[0].cell));
    }
    let columns = Columns { meanings, cells: config.cells };
    let (Fit { tree, leaves: counts }, cells) = match memory {
        Some(memory) => memory.learn(&window, kept, &columns, config.leaves),
        None => {
            let mut cells = by_cell(kept);
            (Fit::of(&mut cells, &columns, config.leaves), cells)
        }
    };
    known.extend(cells.iter().map(|&(cell, counts)| (cell, Known { priority: 0.0, counts })));
    let mut by_priority: Vec<usize> = (0..tree.leaves()).collect();
    by_priority.sort_by(|&a, &b| counts[a].priority().total_cmp(&counts[b].priority()).then(a.cmp(&b)));
    let mut leaves = vec![0; tree.leaves()];
    for (class, &leaf) in by_priority.iter().enumerate() {
        leaves[leaf] = class as u32;
    }
    let met_len = cells.iter().map(|(cell, _)| *cell as usize + 1).max().unwrap_or(0);
    // Sets that are not in the sample are asked for, too, and more will be defined.
    let cells_len = met_len.max(config.cells.of_sets(meanings.sets_len() + meanings.sets_len() / 8 + 64));
    let classes: Vec<AtomicU32> = (0..cells_len.min(TABLE_CELLS_MAX)).map(|_| AtomicU32::new(UNKNOWN)).collect();
    for &(cell, _) in &cells {
        if let Some(known) = classes.get(cell as usize) {
            known.store(leaves[tree.leaf(cell, &columns) as usize], Ordering::Relaxed);
        }
    }
    let curves = if config.method == Method::Aged {
        let histograms = histograms(&tree, kept, &columns);
        by_priority.iter().map(|&leaf| histograms[leaf].curve()).collect()
    } else {
        Vec::new()
    };
    let priorities = by_priority.iter().map(|&leaf| counts[leaf].priority()).collect();
    Table { generation, priorities, curves, classes, tree: Some(tree), leaves }
}

/// Of each leaf.
fn histograms(tree: &Tree, outcomes: &[Weighed], columns: &Columns<'_>) -> Vec<Histogram> {
    let mut histograms = vec![Histogram::EMPTY; tree.leaves()];
    for of_cell in outcomes.chunk_by(|a, b| a.cell == b.cell) {
        let histogram = &mut histograms[tree.leaf(of_cell[0].cell, columns) as usize];
        for one in of_cell {
            let bins = if one.outcome.read() { &mut histogram.hits } else { &mut histogram.ends };
            bins[one.outcome.bin()] += f64::from(one.weight);
        }
    }
    histograms
}
