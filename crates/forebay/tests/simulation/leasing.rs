//! Caches that stand outside: they keep what they have read. Transactions that only read end without a message where
//! the versions say that they may. Else the server compares what they know.
//!
//! A transaction that ends without a message is recorded as a read: it began with the request that brought the least of
//! its P, and ended with the answer (`docs/guarantees.md`, K). So the judge looks at real time too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::cache::Context;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::txn::history::{History, Record};
use forebay::txn::{Ahead, Documents, Engine, Executed, Mode, Plan, STALE_TOLD_MAX, Watched};
use forebay::{Change, Key, Version};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::book::{Book, broken, expect};
use crate::client::{CLEARED, COUNTERS, cleared, counter, lock};

/// Caches at work.
const CACHES: u64 = 3;
/// Transactions of each.
const STEPS: u64 = 20;
/// No record begins after this tick.
const LATER: u64 = u64::MAX / 2;

/// A document that is kept.
#[derive(Clone, Copy)]
struct Kept {
    version: Version,
    present: bool,
    as_of: Option<Version>,
    /// Before the request that brought `as_of`, and after the answer.
    took: (u64, u64),
}

/// One cache and the application that it is in.
struct Leasing {
    engine: Engine,
    random: SplitMix,
    book: Book,
    runtime: Runtime,
    history: Arc<History>,
    kept: BTreeMap<Key, Kept>,
    /// How many of four keys are of the space that is cleared.
    clears: u64,
    name: String,
}

/// The caches of one life.
pub fn caches(engine: &Engine, seed: u64, book: &Book, history: &Arc<History>) -> Vec<BoxFuture<'static, ()>> {
    let leasing = |number: u64| Leasing {
        engine: engine.clone(),
        random: SplitMix::new(seed.wrapping_mul(37).wrapping_add(number)),
        book: book.clone(),
        runtime: engine.runtime().clone(),
        history: history.clone(),
        kept: BTreeMap::new(),
        clears: 1 + 2 * (number % 2),
        name: format!("leasing {number}"),
    };
    (0..CACHES).map(|number| leasing(number).run().boxed()).collect()
}

impl Leasing {
    async fn run(mut self) {
        for _ in 0..STEPS {
            let keys = self.keys();
            self.evict();
            if self.fetch(&keys).await && self.random.below(6) > 0 && self.commits_alone(&keys) {
                continue;
            }
            let writes = self.random.below(4) == 0;
            self.validate(&keys, writes).await;
            let us = self.random.below(1500);
            self.runtime.sleep(Duration::from_micros(us)).await;
        }
    }

    fn keys(&mut self) -> Vec<Key> {
        let drawn = (0..2 + self.random.below(3)).map(|_| match self.random.below(4) < self.clears {
            true => cleared(self.random.below(CLEARED)),
            false => counter(self.random.below(COUNTERS)),
        });
        let mut keys: Vec<Key> = drawn.collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// What is kept for long is never current.
    fn evict(&mut self) {
        let random = &mut self.random;
        self.kept.retain(|_, _| random.below(4) > 0);
    }

    /// Fetches what is missing, one after the other or together; false if that was refused.
    async fn fetch(&mut self, keys: &[Key]) -> bool {
        let missing: Vec<Key> = keys.iter().filter(|key| !self.kept.contains_key(*key)).cloned().collect();
        let at_a_time = 1 + self.random.below(2) as usize;
        for some in missing.chunks(at_a_time) {
            let began = self.history.tick();
            let locked = self.random.below(4) == 0;
            let leased = self.engine.lease(some, Context::default(), None, usize::MAX, locked).await;
            let Ok((leased, committing)) = leased else { return false };
            if committing.wait().await.is_err() {
                return false;
            }
            let took = (began, self.history.tick());
            self.book.note(&self.runtime, &format!("{} {some:?} {:?} {leased:?}", self.name, took));
            for (key, read) in some.iter().zip(leased.reads) {
                let (version, present) = (read.version, read.value.is_some());
                self.kept.insert(key.clone(), Kept { version, present, as_of: leased.as_of, took });
            }
            if self.random.below(3) == 0 {
                let us = self.random.below(700);
                self.runtime.sleep(Duration::from_micros(us)).await;
            }
        }
        true
    }

    /// Ends the transaction without a message, if what it has read was there at one moment.
    fn commits_alone(&self, keys: &[Key]) -> bool {
        let kept: Vec<(&Key, Kept)> = keys.iter().map(|key| (key, self.kept[key])).collect();
        let Some(as_of) = kept.iter().map(|(_, kept)| kept.as_of).collect::<Option<Vec<Version>>>() else {
            return false;
        };
        let (Some(least), Some(most)) = (as_of.iter().min().copied(), as_of.iter().max()) else { return false };
        let newest = kept.iter().map(|(_, kept)| kept.version).max().unwrap_or_default();
        if newest > least || least.incarnation != most.incarnation {
            return false;
        }
        let taken = kept.iter().filter(|(_, kept)| kept.as_of == Some(least)).map(|(_, kept)| kept.took);
        let Some((began, ended)) = taken.min() else { return false };
        // Its answer may have been late: the moment was before it.
        let reads = kept.iter().map(|(key, kept)| ((*key).clone(), kept.version, kept.present)).collect();
        let name = format!("{} as of {least}", self.name);
        self.book.note(&self.runtime, &name);
        self.book.pages().marks.alone += 1;
        self.history.push(Record { name, began, ended: ended.min(LATER), reads, writes: Vec::new() });
        true
    }

    /// Has the versions compared: what is current is so as of a moment that is taken before.
    async fn validate(&mut self, keys: &[Key], writes: bool) {
        let known: Vec<(Key, Kept)> = keys.iter().filter_map(|key| Some((key.clone(), *self.kept.get(key)?))).collect();
        // Only counters are written by those that may not clear.
        let writes = writes && known.iter().all(|(key, _)| key.space() == 0);
        let mode = if writes { Mode::Exclusive } else { Mode::Shared };
        let watched = known.iter().map(|(key, kept)| Watched::named(key.clone(), kept.version, kept.present));
        let plan = Plan {
            locks: known.iter().map(|(key, _)| lock(key.clone(), mode, true)).collect(),
            watched: watched.collect(),
            ..Plan::default()
        };
        let (began, as_of) = (self.history.tick(), self.engine.as_of());
        let mut ahead = Ahead::default();
        let executed = self.engine.execute(&plan, Context::default(), &mut ahead, |documents| {
            for (key, kept) in &known {
                let now = documents.version(key.borrow()).unwrap_or_default();
                expect(now == kept.version, "validation", || format!("{key} is at {now}, not {}", kept.version));
            }
            add(documents, &known, writes);
            Ok::<_, ()>(())
        });
        match executed.await {
            Ok(Executed::Done((), committing)) => self.valid(&known, writes, (began, as_of), committing).await,
            Ok(Executed::Stale(stale)) => self.stale(&known, &stale),
            Ok(Executed::WatchFailed) => broken("watch", "nothing was watched but by version"),
            Err(error) => self.book.pages().marks.error(&error),
        }
    }

    async fn valid(
        &mut self,
        known: &[(Key, Kept)],
        writes: bool,
        (began, as_of): (u64, Option<Version>),
        committing: forebay::txn::Committing,
    ) {
        let increments = if writes { known.iter().map(|(key, _)| (key.clone(), 1)).collect() } else { Vec::new() };
        let id = committing.id();
        self.book.began(id, increments);
        let outcome = committing.wait().await;
        self.book.note(&self.runtime, &format!("{} valid {outcome:?}", self.name));
        self.book.told(id, &outcome);
        let took = (began, self.history.tick());
        match outcome {
            Ok(_) if writes => self.kept.retain(|kept, _| known.iter().all(|(key, _)| key != kept)),
            Ok(_) => {
                for (key, kept) in known {
                    self.kept.insert(key.clone(), Kept { as_of, took, ..*kept });
                }
            }
            Err(_) => {}
        }
    }

    /// Gives up exactly what is stale.
    fn stale(&mut self, known: &[(Key, Kept)], stale: &[Watched]) {
        expect(!stale.is_empty() && stale.len() <= STALE_TOLD_MAX, "stale keys are named", || format!("{stale:?}"));
        for now in stale {
            let kept = known.iter().find(|(key, _)| *key == now.key).map(|(_, kept)| kept);
            let changed = kept.is_some_and(|kept| (kept.version, kept.present) != (now.version, now.present));
            expect(changed, "stale keys have changed", || format!("{now:?}"));
            self.kept.remove(&now.key);
        }
        self.book.note(&self.runtime, &format!("{} stale {stale:?}", self.name));
        self.book.pages().marks.stale += 1;
    }
}

fn add(documents: &mut Documents, known: &[(Key, Kept)], writes: bool) {
    for (key, _) in known.iter().filter(|_| writes) {
        let changed = documents.change(key.borrow(), Change::AddInteger { field: None, delta: 1 });
        changed.unwrap_or_else(|error| broken("values", error.to_string()));
    }
}
