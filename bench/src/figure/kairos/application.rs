//! A client and the application on it. Transactions read some keys, one after the other. One that writes writes all
//! that it has read. What aborts begins again.

use std::collections::HashMap;

use forebay::txn::optimistic::{Client, Effect, End, Event, Level, Message, Node, Reason, Stamp};
use forebay::{Key, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::machine::Nanos;
use super::outcome::Outcome;
use super::popularity::{self, Popularity};
use super::setting::{Costs, Setting};

/// What aborts for the second time waits for up to four times that, then twice as long each time.
const WAIT_NANOS: Nanos = 250_000;
/// Doublings at most.
const WAITS_MAX: u32 = 8;

/// A transaction under way.
#[derive(Debug)]
struct Running {
    thread: u32,
    keys: Vec<Key>,
    /// Keys that were read.
    read: usize,
    writes: bool,
    began: Nanos,
    /// How often it has aborted.
    aborted: u32,
}

/// What follows from a step.
#[derive(Debug, Default)]
pub struct Follows {
    /// Messages, and where they go.
    pub sent: Vec<(Node, Message)>,
    /// Threads that are free again.
    pub free: Vec<u32>,
    /// Work, in microseconds.
    pub us: f64,
}

/// One client machine's application.
pub struct Application {
    /// The client library's core.
    pub core: Client,
    number: u32,
    costs: Costs,
    level: Level,
    reads: Popularity,
    writes: Popularity,
    read_only: f64,
    keys_per_txn: usize,
    routed: u64,
    random: SmallRng,
    running: HashMap<u64, Running>,
    /// What aborted, to be tried again by its thread.
    again: HashMap<u32, Running>,
    next: u64,
    /// Below which stamp the others have said to have no transaction.
    low: HashMap<u32, Stamp>,
    /// Transactions that have ended.
    pub ended: u64,
    value: Value,
}

impl Application {
    /// The client `number`, from 0.
    pub fn new(core: Client, number: u32, setting: &Setting) -> Application {
        Application {
            core,
            number,
            costs: setting.costs,
            level: setting.system.level,
            reads: Popularity::new(setting.keys, setting.alpha_read),
            writes: Popularity::new(setting.keys, setting.alpha_write),
            read_only: setting.read_only,
            keys_per_txn: setting.keys_per_txn,
            routed: u64::from(setting.routed.max(1)),
            random: SmallRng::seed_from_u64(setting.seed << 32 | u64::from(number)),
            running: HashMap::new(),
            again: HashMap::new(),
            next: 0,
            low: HashMap::new(),
            ended: 0,
            value: Value::bytes(b"v".to_vec()),
        }
    }

    /// A thread begins its next transaction.
    pub fn begin(&mut self, thread: u32, now: Nanos, clock_us: u64, counted: &mut Outcome) -> Follows {
        let running = match self.again.remove(&thread) {
            Some(running) => Running { read: 0, ..running },
            None => self.drawn(thread, now),
        };
        self.next += 1;
        let txn = self.next;
        let first = running.keys[0].clone();
        self.running.insert(txn, running);
        let mut follows = Follows { us: self.costs.client_txn, ..Follows::default() };
        let events = vec![Event::Begin(txn, thread, self.level), Event::Read(txn, vec![first])];
        let before = counted.committed;
        self.drive(events, now, clock_us, counted, &mut follows);
        counted.silent += u64::from(counted.committed > before && follows.sent.is_empty());
        follows
    }

    fn drawn(&mut self, thread: u32, now: Nanos) -> Running {
        let writes = self.random.random::<f64>() >= self.read_only;
        let mut ranks: Vec<u64> = Vec::with_capacity(self.keys_per_txn);
        while ranks.len() < self.keys_per_txn {
            let of = if writes { &self.writes } else { &self.reads };
            let drawn = of.draw(&mut self.random);
            let rank = match writes {
                true => drawn,
                false => drawn - drawn % self.routed + u64::from(self.number) % self.routed,
            };
            if !ranks.contains(&rank) {
                ranks.push(rank);
            }
        }
        let keys = ranks.into_iter().map(popularity::key).collect();
        Running { thread, keys, read: 0, writes, began: now, aborted: 0 }
    }

    /// A message for the client, or time that has passed.
    pub fn step(&mut self, event: Event, now: Nanos, clock_us: u64, counted: &mut Outcome) -> Follows {
        let mut follows = Follows::default();
        if let Event::Message(_, Message::Invalidate(keys, _)) = &event {
            counted.invalidated += keys.len() as u64;
        }
        self.drive(vec![event], now, clock_us, counted, &mut follows);
        follows
    }

    /// If the thread has a transaction that aborted: when it tries again. At once, then later and later by chance.
    pub fn tries_again_in(&mut self, thread: u32) -> Option<Nanos> {
        let aborted = self.again.get(&thread)?.aborted;
        let most = WAIT_NANOS * (u64::from(aborted > 1) << aborted.min(WAITS_MAX));
        Some(if most == 0 { 0 } else { self.random.random_range(0..most) })
    }

    /// Another client has no transaction below `low`; neither has this one below its own. What is below all of them is
    /// over (section 4.4).
    pub fn watermark(&mut self, of: u32, low: Stamp, clients: u32, clock_us: u64) -> Option<Stamp> {
        self.low.insert(of, low);
        let others = (0..clients).filter(|other| *other != self.number).map(|other| self.low.get(&other).copied());
        others.collect::<Option<Vec<Stamp>>>()?.into_iter().chain([self.core.low_water(clock_us)]).min()
    }

    fn drive(&mut self, events: Vec<Event>, now: Nanos, clock_us: u64, counted: &mut Outcome, follows: &mut Follows) {
        let mut events: std::collections::VecDeque<Event> = events.into();
        while let Some(event) = events.pop_front() {
            for effect in self.core.step(event, clock_us) {
                match effect {
                    Effect::Send(to, message) => follows.sent.push((to, message)),
                    Effect::Read(txn, served) => {
                        follows.us += self.costs.client_read * served.len() as f64;
                        counted.reads += served.len() as u64;
                        counted.hits += served.iter().filter(|(_, served)| served.cached).count() as u64;
                        events.extend(self.go_on(txn));
                    }
                    Effect::Ended(txn, end) => follows.free.extend(self.ended(txn, end, now, counted)),
                }
            }
        }
    }

    /// A transaction has read a key: the next one, or its end.
    fn go_on(&mut self, txn: u64) -> Vec<Event> {
        let Some(running) = self.running.get_mut(&txn) else { return Vec::new() };
        running.read += 1;
        if let Some(next) = running.keys.get(running.read) {
            return vec![Event::Read(txn, vec![next.clone()])];
        }
        let written = running.keys.iter().filter(|_| running.writes);
        let write = |key: &Key| Event::Write(txn, key.clone(), Some(self.value.clone()));
        written.map(write).chain([Event::Commit(txn)]).collect()
    }

    fn ended(&mut self, txn: u64, end: End, now: Nanos, counted: &mut Outcome) -> Option<u32> {
        let running = self.running.remove(&txn)?;
        self.ended += 1;
        let thread = running.thread;
        match end {
            End::Committed(_) => {
                counted.committed += 1;
                counted.latencies.push(now.saturating_sub(running.began));
            }
            End::Aborted(reason) => {
                match reason {
                    Reason::Stale(_) => counted.stale += 1,
                    _ => counted.aborted += 1,
                }
                self.again.insert(thread, Running { aborted: running.aborted + 1, ..running });
            }
            End::Unknown(_) => counted.aborted += 1,
        }
        Some(thread)
    }
}
