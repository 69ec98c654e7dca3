//! What is learned over all partitions: statistics of hint sets by windows, and the table of priorities made of them.
//!
//! Orders collect what they saw and hand it over in batches. At the end of a window of W requests (section 3.2) a new
//! table is made. Each order takes it up when it hands over its next batch. With one partition that is exactly
//! between the window's last request and the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Learned;
use super::super::random::Random;
use super::cells::{Cells, Columns};
use super::followed::Followed;
use super::meanings::Meanings;
use super::memory::{Fit, Memory};
use super::outcome::Outcome;
use super::sample::{Sample, Weighed, by_cell};
use super::space_saving::SpaceSaving;
use super::table::Table;
use super::tree::Counts;
use crate::hint::{HintMeaning, HintSet};

/// The first windows of a mode that groups hint sets are shorter, by powers of two up to this many of them.
const SHORT_WINDOWS: u32 = 4;

/// A priority below this share of the highest is 0; with a decay they would fade for ever.
const PRIORITY_SHARE_MIN: f64 = 1e-9;

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

    /// Whether pages that are not cached are remembered for what becomes of their last requests, and for nothing else.
    /// (Trees by themselves would do as well with fewer; they are as they were measured.)
    fn wants_outcomes_alone(&self) -> bool {
        self.method == Method::Aged && !self.cells.with_past
    }
}

/// What is known of one hint set, of the last window.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    priority: f64,
    counts: Counts,
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
        table.class(cell).unwrap_or_else(|| self.look_up(table, cell))
    }

    #[cold]
    fn look_up(&self, table: &Table, cell: u32) -> u32 {
        if !table.has_tree() {
            return 0;
        }
        let mut state = self.lock();
        state.meanings.vector(self.config.cells.set(cell));
        table.look_up(cell, &Columns { meanings: &state.meanings, cells: self.config.cells })
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
        let first = Table::first(generation, Followed::all(config.seed));
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

    /// Requests that are followed in the window that begins, after one of so many requests.
    fn followed(&self, config: &Config, ended: u64) -> Followed {
        match &self.statistics {
            Statistics::Grouped(sample, _) if config.wants_outcomes_alone() => {
                let expected = sample.seen() as f64 * self.window(config) as f64 / ended as f64;
                self.table.followed.fewer(expected, config.sample)
            }
            _ => self.table.followed,
        }
    }

    fn end_window(&mut self, config: &Config) {
        let ended = self.window(config);
        (self.requests, self.windows) = (0, self.windows.saturating_add(1));
        self.known.clear();
        let (generation, followed) = (self.table.generation + 1, self.followed(config, ended));
        let mut table = match &mut self.statistics {
            Statistics::Every { counts, met, priorities } => {
                fade(priorities, config.decay);
                for cell in met.drain(..) {
                    let counts = std::mem::take(&mut counts[cell as usize]);
                    *priorities.entry(cell).or_default() += priority(&counts);
                    self.known.insert(cell, Known { priority: 0.0, counts });
                }
                Table::ranked(generation, priorities)
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
                Table::ranked(generation, priorities)
            }
            Statistics::Grouped(sample, memory) => {
                let outcomes = sample.close();
                grouped(generation, config, &mut self.meanings, outcomes, memory.as_mut(), &mut self.known)
            }
        };
        table.followed = followed;
        self.known.iter_mut().for_each(|(&cell, known)| known.priority = table.priority(cell));
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
    let (fit, cells) = match memory {
        Some(memory) => memory.learn(&window, kept, &columns, config.leaves),
        None => {
            let mut cells = by_cell(kept);
            (Fit::of(&mut cells, &columns, config.leaves), cells)
        }
    };
    known.extend(cells.iter().map(|&(cell, counts)| (cell, Known { priority: 0.0, counts })));
    // Sets that are not in the sample are asked for, too, and more will be defined.
    let cells_len = config.cells.of_sets(meanings.sets_len() + meanings.sets_len() / 8 + 64);
    let aged = (config.method == Method::Aged).then_some(kept);
    Table::of_leaves(generation, fit, &cells, cells_len, &columns, aged)
}
