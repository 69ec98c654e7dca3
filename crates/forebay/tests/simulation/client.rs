//! What the clients of a run do: plain commands, scripts with WATCH, interactive transactions, look-ahead, and
//! clearings. Every now and then a connection is gone in the middle of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::cache::Context;
use forebay::key::KeyRef;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::txn::history::History;
use forebay::txn::{
    Ahead, Committing, Documents, Engine, Executed, Landed, Mode, Plan, PlannedLock, Transaction, TxnError, TxnKind,
};
use forebay::{Change, Data, Key, TxnId, Value, Version};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};

use crate::book::{Book, Marks, broken, expect};
use crate::expiring::{self, own};
use crate::leasing;
use crate::oracle::Stock;
use crate::world::Scenario;

/// Counters, which only ever grow by what is added.
pub const COUNTERS: u64 = 5;
/// Documents that come and go.
const BLIND: u64 = 2;
/// Documents of the space that is cleared.
pub const CLEARED: u64 = 3;
/// The space that is cleared.
pub const CLEARED_SPACE: u8 = 1;
/// Transactions of one client.
const STEPS: u64 = 12;
/// What all clients of a run may do half of the time, as [`Client::step`] counts: reads, increments, documents that
/// come and go, the space that is cleared, scripts, interactive transactions.
const FOCUSES: [Option<u64>; 8] = [None, None, Some(0), Some(4), Some(10), Some(12), Some(14), Some(20)];
/// Clients that work at once.
const CLIENTS: u64 = 6;

pub fn counter(number: u64) -> Key {
    Key::new(0, format!("counter{number}").as_bytes())
}

fn blind(number: u64) -> Key {
    Key::new(0, format!("blind{number}").as_bytes())
}

pub fn cleared(number: u64) -> Key {
    Key::new(CLEARED_SPACE, format!("cleared{number}").as_bytes())
}

/// All keys that a run may touch.
pub fn all_keys() -> Vec<Key> {
    (0..COUNTERS)
        .map(counter)
        .chain((0..BLIND).map(blind))
        .chain((0..CLEARED).map(cleared))
        .chain((0..CLIENTS).map(own))
        .collect()
}

pub fn lock(key: Key, mode: Mode, load: bool) -> PlannedLock {
    PlannedLock { key, mode, load }
}

fn plan(keys: &[Key], mode: Mode, load: bool) -> Plan {
    Plan { locks: keys.iter().map(|key| lock(key.clone(), mode, load)).collect(), ..Plan::default() }
}

fn count_of(value: Option<&Value>) -> i64 {
    match value.map(|value| &value.data) {
        None => 0,
        Some(Data::Bytes(bytes)) => match std::str::from_utf8(&bytes.joined()).map(str::parse) {
            Ok(Ok(count)) => count,
            _ => broken("values", format!("{bytes:?} is no counter")),
        },
        Some(other) => broken("values", format!("{other:?} is no counter")),
    }
}

fn count(documents: &Documents, key: &Key) -> i64 {
    count_of(documents.value(key.borrow()).unwrap_or_else(|error| broken("values", error.to_string())))
}

fn reads(documents: &Documents, keys: &[Key]) -> Vec<(Key, Version)> {
    keys.iter().filter_map(|key| Some((key.clone(), documents.version(key.borrow())?))).collect()
}

/// Adds `delta` and looks at what its own transaction sees then.
fn add(documents: &mut Documents, key: &Key, delta: i64) {
    let before = count(documents, key);
    let changed = documents.change(key.borrow(), Change::AddInteger { field: None, delta });
    changed.unwrap_or_else(|error| broken("values", error.to_string()));
    let after = count(documents, key);
    expect(after == before + delta, "own writes", || format!("{key} is {after}, {delta} more than {before}"));
}

/// Counters hold the sum of what was applied, no more and no less.
pub fn check_values(book: &Book, stock: &Stock) {
    let mut sums: BTreeMap<&Key, i64> = BTreeMap::new();
    let pages = book.pages();
    for (_, entry) in pages.commits.iter().filter(|(id, _)| stock.has(**id)) {
        for (key, delta) in &entry.increments {
            *sums.entry(key).or_default() += delta;
        }
    }
    for (key, read) in stock.reads.iter().filter(|(key, _)| key.name().starts_with(b"counter")) {
        let (stored, sum) = (count_of(read.value.as_ref()), sums.get(key).copied().unwrap_or_default());
        expect(stored == sum, "nothing unacknowledged there", || {
            format!("{key} is {stored}, what was applied adds up to {sum}")
        });
    }
}

/// What one operation of a session read and wrote.
#[derive(Default)]
struct Done {
    id: Option<TxnId>,
    reads: Vec<(Key, Version)>,
    writes: Vec<Key>,
}

/// What happens here alone, and how often it did.
pub fn happens_too(marks: &Marks, scenario: Scenario) -> Vec<(u64, &'static str)> {
    if scenario == Scenario::Outage { vec![(marks.unseen, "unseen changes")] } else { Vec::new() }
}

pub struct Client {
    engine: Engine,
    random: SplitMix,
    book: Book,
    number: u64,
    /// Of this are pauses: where it is coarse, many wake at one moment, and one can come between the steps of another
    /// even if nothing else takes time.
    grain_us: u64,
    /// What is done half of the time: what is rare elsewhere meets itself.
    focus: Option<u64>,
    name: String,
    runtime: Runtime,
    waiting: Vec<(Done, Committing)>,
    /// The version of this session's last acknowledged write of each key.
    written: BTreeMap<Key, Version>,
}

/// The clients of one life.
pub fn clients(engine: &Engine, seed: u64, book: &Book, history: &Arc<History>) -> Vec<BoxFuture<'static, ()>> {
    let client = |number: u64| {
        let random = SplitMix::new(seed.wrapping_mul(31).wrapping_add(number));
        let client = Client::new(engine.clone(), random, book.clone(), number);
        Client {
            grain_us: [1, 1_000][seed as usize % 2],
            focus: FOCUSES[(seed / 2) as usize % FOCUSES.len()],
            ..client
        }
    };
    let clients = (0..CLIENTS).map(|number| client(number).run().boxed());
    // They are in every third world: what the others meet is rarer where they are.
    let caches = (seed % 3 == 1).then(|| leasing::caches(engine, seed, book, history));
    clients.chain(caches.into_iter().flatten()).collect()
}

impl Client {
    fn new(engine: Engine, random: SplitMix, book: Book, number: u64) -> Client {
        let (runtime, name) = (engine.runtime().clone(), format!("client {number}"));
        let (waiting, written) = (Vec::new(), BTreeMap::new());
        Client { engine, random, book, number, grain_us: 1, focus: None, name, runtime, waiting, written }
    }

    fn keys(&mut self, most: u64) -> Vec<Key> {
        let drawn = (0..1 + self.random.below(most)).map(|_| counter(self.random.below(COUNTERS)));
        let mut keys: Vec<Key> = drawn.collect();
        keys.sort();
        keys.dedup();
        keys
    }

    async fn pause(&self, us_max: u64, random: u64) {
        let us = random % us_max;
        self.runtime.sleep(Duration::from_micros(us - us % self.grain_us)).await;
    }

    async fn run(mut self) {
        for _ in 0..STEPS {
            if self.random.below(25) > 0 {
                self.step().await;
                continue;
            }
            let patience = self.runtime.sleep(Duration::from_micros(self.random.below(4000)));
            let gone = matches!(select(Box::pin(self.step()), patience).await, Either::Right(_));
            if gone {
                // A new connection: it knows nothing of what the old one was told.
                self.book.note(&self.runtime, &format!("{} is gone", self.name));
                self.book.pages().marks.dropped += 1;
                self.waiting.clear();
                self.written.clear();
            }
        }
        self.settle().await;
    }

    async fn step(&mut self) {
        self.engine.validate_locks();
        let drawn = self.random.below(25);
        match self.focus.filter(|_| self.random.below(2) == 0).unwrap_or(drawn) {
            24 => self.expiring().await,
            0..=3 => self.read().await,
            4..=9 => self.increment().await,
            10 | 11 => self.blind().await,
            12 | 13 => self.cleared().await,
            14..=17 => self.watch().await,
            _ => self.interactive().await,
        }
        if self.random.below(3) > 0 {
            self.settle().await;
        }
        if self.random.below(4) == 0 {
            let random = self.random.draw();
            self.pause(2000, random).await;
        }
    }

    async fn settle(&mut self) {
        while !self.waiting.is_empty() {
            let (done, committing) = self.waiting.remove(0);
            self.settled(done, committing.wait().await);
        }
    }

    /// An operation was handed over.
    fn waits(&mut self, mut done: Done, committing: Committing, increments: Vec<(Key, i64)>) {
        done.id = committing.id();
        self.book.began(done.id, increments);
        self.waiting.push((done, committing));
    }

    fn settled(&mut self, done: Done, outcome: Result<Option<Landed>, TxnError>) {
        self.book.note(&self.runtime, &format!("{} {:?} {outcome:?}", self.name, done.reads));
        self.book.told(done.id, &outcome);
        let Ok(landed) = outcome else { return };
        for (key, read) in &done.reads {
            let own = self.written.get(key).copied().unwrap_or_default();
            // After a loss the store is back at an older version, under a newer incarnation.
            let older = *read < own && own.incarnation == self.engine.store().incarnation();
            expect(!older, "own writes", || format!("{key} was read at {read} after this session wrote {own}"));
        }
        for key in done.writes {
            let landed = landed.unwrap_or_else(|| broken("outcomes", "it wrote and has no version"));
            self.written.insert(key, landed.version);
        }
    }

    fn refused(&self, error: &TxnError) {
        self.book.note(&self.runtime, &format!("{} {error:?}", self.name));
        self.book.pages().marks.error(error);
    }

    /// The reads, if all can be had without locks.
    fn read_published<T>(&self, keys: &[Key], of: impl Fn(&Documents) -> T) -> Option<T> {
        let refs: Vec<KeyRef<'_>> = keys.iter().map(Key::borrow).collect();
        let documents = self.engine.read_published(&refs, &Context::default())?;
        Some(of(&documents))
    }

    async fn read_locked(&mut self, keys: &[Key], mut ahead: Ahead) {
        let plan = plan(keys, Mode::Shared, true);
        let body = |documents: &mut Documents| Ok(reads(documents, keys));
        match self.engine.execute(&plan, Context::default(), &mut ahead, body).await {
            Ok(Executed::Done(reads, committing)) => {
                self.waits(Done { reads, ..Done::default() }, committing, Vec::new());
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => broken("watch", "nothing was watched"),
            Err(error) => self.refused(&error),
        }
    }

    async fn read(&mut self) {
        let keys = match self.random.below(6) {
            0 => (0..BLIND).map(blind).collect(),
            _ => self.keys(3),
        };
        if self.waiting.is_empty()
            && let Some(reads) = self.read_published(&keys, |documents| reads(documents, &keys))
        {
            return self.settled(Done { reads, ..Done::default() }, Ok(None));
        }
        self.read_ahead(&keys).await;
    }

    /// A pipelined batch: fetched before it runs, perhaps a while before.
    async fn read_ahead(&mut self, keys: &[Key]) {
        let mut ahead = Ahead::default();
        if self.random.below(2) == 0 {
            ahead = self.engine.fetch_ahead(keys).await;
            if self.random.below(2) == 0 {
                let random = self.random.draw();
                self.pause(3000, random).await;
            }
        }
        self.read_locked(keys, ahead).await;
    }

    async fn increment(&mut self) {
        let keys = self.keys(2);
        let roll_back = self.random.below(10) == 0;
        let mut plan = plan(&keys, Mode::Exclusive, true);
        let mut ahead = Ahead::default();
        let may_be_blind = self.engine.store().caps().applies && self.random.below(2) == 0;
        let executed = loop {
            let executed = self.engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                keys.iter().for_each(|key| add(documents, key, 1));
                let reads = reads(documents, &keys);
                if roll_back { Err(reads) } else { Ok(reads) }
            });
            match executed.await {
                // As with CACHE BLIND ON.
                Err(TxnError::StoreDown(_)) if may_be_blind && !plan.blind => plan.blind = true,
                executed => break executed,
            }
        };
        self.book.pages().marks.unseen += u64::from(plan.blind && executed.is_ok());
        match executed {
            Ok(Executed::Done(reads, committing)) => {
                let writes = if roll_back { Vec::new() } else { keys };
                let increments = writes.iter().map(|key| (key.clone(), 1)).collect();
                self.waits(Done { reads, writes, ..Done::default() }, committing, increments);
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => broken("watch", "nothing was watched"),
            Err(error) => self.refused(&error),
        }
    }

    /// WATCH, then GET, then an EXEC that writes one more than was read: an increment only if nothing came between.
    async fn watch(&mut self) {
        self.settle().await;
        let keys = self.keys(2);
        let context = Context::default();
        let Ok((watched, committing)) = self.engine.watch(&keys, context, None).await else { return };
        if committing.wait().await.is_err() {
            return;
        }
        let Some(counts) = self.counts(&keys).await else { return };
        if self.random.below(2) == 0 {
            let random = self.random.draw();
            self.pause(2000, random).await;
        }
        let plan = Plan { watched, ..plan(&keys, Mode::Exclusive, true) };
        let mut ahead = Ahead::default();
        let executed = self.engine.execute(&plan, context, &mut ahead, |documents| {
            for (key, count) in keys.iter().zip(&counts) {
                let value = Value::bytes((count + 1).to_string().into_bytes());
                let changed = documents.change(key.borrow(), Change::Put(value));
                changed.unwrap_or_else(|error| broken("values", error.to_string()));
            }
            Ok(reads(documents, &keys))
        });
        match executed.await {
            Ok(Executed::Done(reads, committing)) => {
                let increments = keys.iter().map(|key| (key.clone(), 1)).collect();
                self.waits(Done { reads, writes: keys, ..Done::default() }, committing, increments);
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => self.book.pages().marks.watch_failed += 1,
            Err(error) => self.refused(&error),
        }
    }

    /// What GET shows of counters.
    async fn counts(&mut self, keys: &[Key]) -> Option<Vec<i64>> {
        let counts = |documents: &Documents| keys.iter().map(|key| count(documents, key)).collect();
        if let Some(counts) = self.read_published(keys, counts) {
            return Some(counts);
        }
        let plan = plan(keys, Mode::Shared, true);
        let mut ahead = Ahead::default();
        let read = self.engine.execute(&plan, Context::default(), &mut ahead, |documents| Ok(counts(documents)));
        let Ok(Executed::Done(counts, committing)) = read.await else { return None };
        committing.wait().await.ok().map(|_| counts)
    }

    /// Documents come and go together, by a transaction that reads them first, or nothing.
    async fn write(&mut self, keys: Vec<Key>, put: bool, load: bool) {
        let plan = plan(&keys, Mode::Exclusive, load);
        let expires = self.random.below(3) == 0;
        let expires_at_ms = expires.then(|| self.runtime.now_ms() + self.random.below(8));
        let mut ahead = Ahead::default();
        let executed = self.engine.execute(&plan, Context::default(), &mut ahead, |documents| {
            let seen = if load { reads(documents, &keys) } else { Vec::new() };
            for key in &keys {
                let value = Value { expires_at_ms, ..Value::bytes(*b"x") };
                let change = if put { Change::Put(value) } else { Change::Delete };
                documents.change(key.borrow(), change).unwrap_or_else(|error| broken("values", error.to_string()));
            }
            Ok(seen)
        });
        match executed.await {
            Ok(Executed::Done(reads, committing)) => {
                self.waits(Done { reads, writes: keys, ..Done::default() }, committing, Vec::new());
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => broken("watch", "nothing was watched"),
            Err(error) => self.refused(&error),
        }
    }

    async fn blind(&mut self) {
        if self.random.below(4) == 0 {
            let reaped = self.engine.reap().await;
            self.book.note(&self.runtime, &format!("{} found {reaped} expired", self.name));
            self.book.pages().marks.expired += reaped as u64;
            return;
        }
        let put = self.random.below(2) == 0;
        self.write((0..BLIND).map(blind).collect(), put, false).await;
    }

    async fn expiring(&mut self) {
        self.settle().await;
        // What was refused behind the gate is set aside, and so is what was to stay.
        if self.engine.store().caps().applies {
            return;
        }
        let random = SplitMix::new(self.random.draw());
        match self.random.below(2) {
            0 => expiring::lasting(&self.engine, random, own(self.number)).await,
            _ => expiring::watched(&self.engine, random, own(self.number)).await,
        }
    }

    /// Works in the space that is cleared, or clears it.
    async fn cleared(&mut self) {
        let keys: Vec<Key> = (0..CLEARED).filter(|_| self.random.below(2) == 0).map(cleared).collect();
        match self.random.below(6) {
            0 => self.write(keys, true, false).await,
            1 | 3 => self.write(keys, true, true).await,
            2 => {
                self.settle().await;
                let cleared = self.engine.clear(&[CLEARED_SPACE], "FLUSHDB", || true).await;
                self.book.note(&self.runtime, &format!("{} cleared {cleared:?}", self.name));
                self.written.retain(|key, _| key.space() != CLEARED_SPACE);
                self.book.pages().marks.clears += u64::from(cleared.is_ok());
            }
            _ if keys.is_empty() => {}
            _ => self.read_ahead(&keys).await,
        }
    }

    async fn interactive(&mut self) {
        self.settle().await;
        let mut transaction = self.engine.begin(TxnKind::Interactive, Context::default());
        let mut done = Done::default();
        let mut increments = Vec::new();
        if let Err(error) = self.commands(&mut transaction, &mut done, &mut increments).await {
            return self.refused(&error);
        }
        if self.random.below(8) == 0 {
            return;
        }
        match transaction.commit().await {
            Ok(committing) => self.waits(done, committing, increments),
            Err(error) => self.refused(&error),
        }
    }

    /// The commands of an interactive transaction, its client thinking between them: now and then for so long that
    /// those that wait for its locks give up.
    async fn commands(
        &mut self,
        transaction: &mut Transaction,
        done: &mut Done,
        increments: &mut Vec<(Key, i64)>,
    ) -> Result<(), TxnError> {
        for _ in 0..1 + self.random.below(3) {
            let keys = self.keys(2);
            let write = self.random.below(2) == 0;
            let mode = if write { Mode::Exclusive } else { Mode::Shared };
            transaction.prepare_command(&plan(&keys, mode, true).locks, &mut Ahead::default()).await?;
            done.reads.extend(reads(transaction.documents(), &keys));
            if write {
                for key in keys {
                    add(transaction.documents_mut(), &key, 1);
                    increments.push((key.clone(), 1));
                    done.writes.push(key);
                }
            }
            let random = self.random.draw();
            match self.random.below(12) {
                0 => self.pause(40_000, random).await,
                1..=4 => self.pause(3000, random).await,
                _ => {}
            }
        }
        Ok(())
    }
}
