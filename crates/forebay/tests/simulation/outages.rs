//! Runs over the outage's gate. A database goes away, answers late or not at all, while clients go on. Machines crash
//! with writes in their journal. The database outlives them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::outage::lossy::Lossy;
use forebay::outage::{
    BreakerSettings, Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, LaneRule,
};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::Store;
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::txn::history::History;

use crate::applying::Applying;
use crate::book::{broken, expect};
use crate::demanding::Demanding;
use crate::detached::Detached;
use crate::oracle;
use crate::unordered::Unordered;
use crate::world::{CRASH_STEPS_MAX, Past, engine, enter, judge, slow, work};

/// Room of the journal's gate: enough for a run, or for a few transactions.
const ROOMS: [usize; 4] = [1 << 20, 1 << 20, 1 << 20, 8 << 10];

/// Longest time that a drain takes after the last client has ended.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// Several lives with one database behind them.
pub fn run(seed: u64, random: &mut SplitMix, past: &mut Past) {
    let memory = Arc::new(Memory::new());
    let journal = Lossy::new();
    let (lives, applies) = (1 + random.below(3), random.below(2) == 0);
    for life in 0..lives {
        let last = life + 1 == lives;
        let mut crash = Crash::draw(random, last, &journal);
        let seed = seed.wrapping_mul(5).wrapping_add(life);
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime();
        let store: Arc<dyn Store> = Arc::new(Unordered { memory: memory.clone(), incarnation: 2 * life + 1 });
        let store = if applies { Arc::new(Applying { inner: store }) } else { store };
        let (faulty, demanding) = away(&runtime, store.clone(), random);
        journal.hold_at_most(None);
        let gate = gate(&runtime, faulty, &journal, demanding.serial, random);
        demanding.set_gate(Some(gate.clone()));
        full_now_and_then(&runtime, &journal, random);
        let history = Arc::new(History::default());
        let engine = engine(&runtime, Arc::new(gate.clone()), random, history.clone());
        let (book, drained) = (past.book.clone(), gate.clone());
        let clients = work(engine.clone(), seed, book, None, random.draw(), history.clone());
        let behind = demanding.clone();
        let ended = simulation.run_until(|steps| crash.is_due(steps), async move {
            clients.await;
            drain(&runtime, &drained, &behind).await;
        });
        demanding.set_gate(None);
        if ended == Ended::Stuck {
            broken("progress", "some session waits for ever");
        }
        gate.validate();
        let counts = gate.state().counts;
        past.book.pages().marks.buffered += counts.buffered;
        past.book.pages().marks.full += counts.full;
        past.book.pages().marks.outages += counts.outages;
        past.book.pages().marks.quarantined += counts.quarantined;
        past.book.pages().marks.backups += demanding.backups();
        past.log = past.log.rotate_left(7) ^ simulation.log_hash();
        if ended == Ended::Done {
            oracle::quiet(&simulation, &engine, &store);
            engine.validate();
            past.aliases.extend(gate.renamed().into_iter().map(|(version, id)| (version, id.0)));
            drop((engine, gate));
            enter(past, &history);
            return judge(&simulation, &store, past);
        }
        // Whoever had not heard of its commit goes on record as one that may have committed.
        past.aliases.extend(gate.renamed().into_iter().map(|(version, id)| (version, id.0)));
        drop((engine, gate, simulation));
        enter(past, &history);
        past.book.pages().marks.crashes += 1;
        crash.happens(random);
    }
    // The last life ended before it could be crashed, or this is not reached.
    broken("progress", "the last life did not end");
}

/// Waits until nothing is buffered any more.
async fn drain(runtime: &Runtime, gate: &Gate, demanding: &Demanding) {
    let began = runtime.elapsed();
    while gate.state().amount.transactions > 0 {
        let state = gate.state();
        expect(runtime.elapsed() - began < DRAIN_MAX, "all is carried over", || format!("{state:?}"));
        demanding.look_after(gate).await;
        runtime.sleep(Duration::from_millis(1)).await;
    }
}

fn gate(runtime: &Runtime, store: Arc<dyn Store>, journal: &Lossy, serial: bool, random: &mut SplitMix) -> Gate {
    let settings = GateSettings {
        breaker: BreakerSettings {
            failures_to_open: 1 + random.below(3) as u32,
            successes_to_close: 1 + random.below(2) as u32,
            pause_ms: 1,
            pause_ms_max: 8,
        },
        bytes_max: ROOMS[random.below(ROOMS.len() as u64) as usize],
        lanes: LaneRule { serial },
        workers: 1 + random.below(3) as usize,
        per_second_max: if random.below(2) == 0 { 0 } else { 2_000 },
        // The oracle knows transactions by their ids; merged ones are for the buffer's own test.
        merge: false,
        write_back_ms: (random.below(5) == 0).then_some(5),
        ..GateSettings::default()
    };
    open(runtime, store, journal, settings)
}

/// A gate with its journal on this disk.
pub fn open(runtime: &Runtime, store: Arc<dyn Store>, journal: &Lossy, settings: GateSettings) -> Gate {
    let options = JournalOptions {
        durability: Durability::Always,
        bytes_max: 1 << 20,
        description: Description { mapping: String::new(), catalogue: String::new() },
    };
    let opened = Journal::open(runtime.clone(), journal.handle(), options);
    let (journal, found) = opened.unwrap_or_else(|error| broken("the journal opens", error.to_string()));
    let options = GateOptions {
        runtime: runtime.clone(),
        store,
        journal,
        found,
        settings,
        mapping: String::new(),
        opens_late: false,
    };
    Gate::open(options).unwrap_or_else(|error| broken("the gate opens", error.to_string()))
}

/// A store that is slow, loses answers, lets what was given up land later, is away now and then, and has demands.
fn away(runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix) -> (Arc<dyn Store>, Arc<Demanding>) {
    let now = runtime.elapsed();
    let outage = |random: &mut SplitMix| {
        let from = now + Duration::from_micros(random.below(40_000));
        (from, from + Duration::from_micros(random.below(40_000)))
    };
    let outages: Vec<(Duration, Duration)> = (0..random.below(3)).map(|_| outage(random)).collect();
    let demanding = Arc::new(Demanding {
        runtime: runtime.clone(),
        serial: random.below(3) == 0,
        refuses: [0, 0, 8, 24][random.below(4) as usize],
        incarnation: store.incarnation().into(),
        store: Arc::new(Detached { runtime: runtime.clone(), store: slow(runtime, store, random) }),
        state: Mutex::default(),
    });
    if let Some((from, to)) = outages.first().copied().filter(|_| random.below(4) == 0) {
        // While nothing reaches it, so that nothing can be on its way that was sent before.
        let (restored, clock) = (Arc::downgrade(&demanding), runtime.clone());
        runtime.spawn(async move {
            clock.sleep((from + to) / 2 - clock.elapsed()).await;
            if let Some(demanding) = restored.upgrade() {
                demanding.restored();
            }
        });
    }
    let rate = [0, 20, 60][random.below(3) as usize];
    let faults = Faults {
        read_per_mille: rate,
        portion_per_mille: 300,
        unavailable_per_mille: rate,
        unknown_applied_per_mille: rate,
        unknown_partial_per_mille: rate,
        outcome_per_mille: rate,
        outages,
    };
    (Arc::new(Faulty::new(runtime.clone(), demanding.clone(), faults, random.draw())), demanding)
}

/// The journal's disk is full now and then: at any byte, from a moment in an outage on, perhaps until long after it.
fn full_now_and_then(runtime: &Runtime, journal: &Lossy, random: &mut SplitMix) {
    journal.reserves(random.below(3) == 0);
    journal.tells_free(random.below(2) == 0);
    if random.below(3) == 0 {
        return;
    }
    let (clock, disk, mut random) = (runtime.clone(), journal.clone(), SplitMix::new(random.draw()));
    runtime.spawn(async move {
        for _ in 0..1 + random.below(4) {
            let lasts = [5_000, 200_000][random.below(2) as usize];
            let [from, lasts] = [20_000, lasts].map(|most| Duration::from_micros(random.below(most)));
            let room = [0, 600, 3_000, 70_000][random.below(4) as usize];
            clock.sleep(from).await;
            disk.hold_at_most(Some(disk.takes() + random.below(room + 1) as usize));
            clock.sleep(lasts).await;
            disk.hold_at_most(None);
        }
    });
}

/// When the machine stops.
struct Crash {
    journal: Lossy,
    /// At this step.
    at: u64,
    /// Or so many steps after the journal's disk had no room for a write; then what is not in it matters.
    behind_refusal: Option<u64>,
    refused: u64,
}

impl Crash {
    fn draw(random: &mut SplitMix, never: bool, journal: &Lossy) -> Crash {
        let at = random.below(CRASH_STEPS_MAX);
        let most = [4, 40, 250][random.below(3) as usize];
        let behind = random.below(most);
        let behind_refusal = (random.below(2) == 0 && !never).then_some(behind);
        // One that waits for a refusal comes in any case, later.
        let at = if never { u64::MAX } else { at + if behind_refusal.is_some() { 2 * CRASH_STEPS_MAX } else { 0 } };
        Crash { journal: journal.clone(), at, behind_refusal, refused: journal.refused() }
    }

    fn is_due(&mut self, steps: u64) -> bool {
        if let Some(behind) = self.behind_refusal.filter(|_| self.journal.refused() > self.refused) {
            (self.at, self.behind_refusal) = (self.at.min(steps + behind), None);
        }
        steps >= self.at
    }

    /// Of what the journal had not synced some survives.
    fn happens(&self, random: &mut SplitMix) {
        let survivors = [0, 50, 100][random.below(3) as usize];
        self.journal.crash(|length| match random.below(100) < survivors {
            true if random.below(100) < 20 => Some(random.below(length as u64 + 1) as usize),
            true => Some(length),
            false => None,
        });
    }
}
