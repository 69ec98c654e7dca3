//! Tables that others may write to and that nothing watches: what is cached of them is asked for its version again
//! before it is believed for longer than a limit, and read again only where that differs.
//!
//! **Invariant.** Unless the store is away, nothing cached of such a table is answered that was current neither at a
//! read nor at a comparison that began within the limit. A reader that finds it older takes locks and waits for the
//! comparison; readers that come while one is under way share the next, so there is one question at a time.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_channel::oneshot;
use hashbrown::HashMap;

use super::Inner;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::store::ReadError;
use crate::sync::{Mutex, MutexGuard};
use crate::version::Version;

/// Documents that are compared by one question.
const COMPARED_AT_ONCE: usize = 250;

/// Parts with a lock each.
const PARTS: usize = 16;

/// Documents per part of which it is known when they were current; with more, others are asked for again earlier.
const KNOWN_MAX: usize = 8192;

/// Questions that a store does not answer until readers are told; by then an outage is known to be one.
const TRIES: u32 = 10;

/// Wait before the next of these.
const AGAIN: Duration = Duration::from_millis(50);

/// What was counted of one table that nothing watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwatchedFigures {
    /// Its name.
    pub table: String,
    /// Cached documents whose version was asked for again.
    pub compared: u64,
    /// Those of them that others had written.
    pub changed: u64,
}

/// When documents were current, those of late in `newer`. By the time, not the number of documents, both are emptied.
#[derive(Default)]
struct Known {
    newer: HashMap<Key, Duration, foldhash::quality::RandomState>,
    older: HashMap<Key, Duration, foldhash::quality::RandomState>,
    began: Duration,
}

/// Documents that are to be compared, and who waits for it.
type Asked = (Vec<Key>, oneshot::Sender<Result<(), ReadError>>);

#[derive(Default)]
struct Batch {
    asked: Vec<Asked>,
    /// Somebody compares, and will come back for these.
    running: bool,
}

/// What is known of documents of tables that nothing watches.
pub(super) struct Unwatched {
    after: Duration,
    parts: [Mutex<Known>; PARTS],
    batch: Mutex<Batch>,
    /// By the place of the table: compared, and changed.
    counts: Mutex<Vec<(u64, u64)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unwatched {
    /// What is cached is believed so long.
    pub(super) fn new(after: Duration) -> Unwatched {
        let (parts, counts) = (std::array::from_fn(|_| Mutex::default()), Mutex::default());
        Unwatched { after, parts, batch: Mutex::default(), counts }
    }

    fn part(&self, key: KeyRef<'_>) -> MutexGuard<'_, Known> {
        lock(&self.parts[key.hash64() as usize % PARTS])
    }

    fn is_current(&self, key: KeyRef<'_>, now: Duration) -> bool {
        let (key, part) = (key.to_key(), self.part(key));
        let known = part.newer.get(&key).or_else(|| part.older.get(&key));
        known.is_some_and(|at| now.saturating_sub(*at) < self.after)
    }

    /// What is cached of `key` from now on was current `at` that moment, or later.
    fn note(&self, key: &Key, at: Duration) {
        let mut part = self.part(key.borrow());
        if at.saturating_sub(part.began) >= self.after || part.newer.len() >= KNOWN_MAX {
            (part.older, part.began) = (std::mem::take(&mut part.newer), at);
        }
        part.newer.insert(key.compact(), at);
    }
}

impl Inner {
    /// Whether what is cached of `key` may be too old to be answered.
    pub(super) fn is_overdue(&self, key: KeyRef<'_>) -> bool {
        let Some(unwatched) = &self.unwatched else { return false };
        self.store.unwatched_place(key).is_some()
            && !mutation::on(Fault::UnwatchedBelieved)
            && !unwatched.is_current(key, self.runtime.elapsed())
            && !self.store.is_away()
    }

    /// The store was asked for `key` at that moment; what it answered goes into the cache.
    pub(super) fn was_current(&self, key: &Key, at: Duration) {
        if let Some(unwatched) = &self.unwatched
            && self.store.unwatched_place(key.borrow()).is_some()
        {
            unwatched.note(key, at);
        }
    }

    /// Has those of `keys` that are cached and overdue compared with the store: what differs leaves the cache. While
    /// the store is away they are all there is.
    pub(super) async fn settle_overdue(self: &Arc<Inner>, keys: impl Iterator<Item = &Key>) -> Result<(), ReadError> {
        let Some(unwatched) = &self.unwatched else { return Ok(()) };
        let overdue: Vec<Key> = self.overdue(keys).into_iter().map(|(key, _)| key).collect();
        if overdue.is_empty() {
            return Ok(());
        }
        let (sender, compared) = oneshot::channel();
        let begins = {
            let mut batch = lock(&unwatched.batch);
            batch.asked.push((overdue, sender));
            !std::mem::replace(&mut batch.running, true)
        };
        if begins {
            let inner = self.clone();
            self.runtime.spawn(async move { inner.compare_overdue().await });
        }
        compared.await.unwrap_or(Ok(()))
    }

    /// Those of `keys` that are cached and overdue, with the versions that are cached.
    fn overdue<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<(Key, Version)> {
        let cached = |key: &Key| Some((key.clone(), self.cache.peek(key.borrow())?.version));
        keys.filter(|key| self.is_overdue(key.borrow())).filter_map(cached).collect()
    }

    /// Compares until no keys were given meanwhile.
    async fn compare_overdue(self: Arc<Inner>) {
        let Some(unwatched) = &self.unwatched else { return };
        loop {
            let asked = {
                let mut batch = lock(&unwatched.batch);
                batch.running = !batch.asked.is_empty();
                std::mem::take(&mut batch.asked)
            };
            if asked.is_empty() {
                return;
            }
            // What was asked for while another comparison ran may be settled by that, and read again since.
            let mut keys: Vec<&Key> = asked.iter().flat_map(|(keys, _)| keys).collect();
            keys.sort_unstable();
            keys.dedup();
            let checks: Vec<(Key, Version)> = self.overdue(keys.into_iter());
            let mut answer = Ok(());
            for chunk in checks.chunks(COMPARED_AT_ONCE) {
                answer = answer.and(self.compare_with_store(unwatched, chunk).await);
            }
            asked.into_iter().for_each(|(_, sender)| drop(sender.send(answer.clone())));
        }
    }

    async fn compare_with_store(&self, unwatched: &Unwatched, checks: &[(Key, Version)]) -> Result<(), ReadError> {
        let mut tries = 0;
        loop {
            let asked = self.runtime.elapsed();
            match self.store.check(checks).await {
                Ok(overtaken) => {
                    for (key, _) in checks {
                        let changed = overtaken.contains(key);
                        match changed {
                            true => self.cache.remove(key),
                            false => unwatched.note(key, asked),
                        }
                        self.count(unwatched, key, changed);
                    }
                    return Ok(());
                }
                Err(_) if self.store.is_away() => return Ok(()),
                Err(ReadError::Unavailable(_)) if tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
            self.runtime.sleep(AGAIN).await;
        }
    }

    fn count(&self, unwatched: &Unwatched, key: &Key, changed: bool) {
        let Some(place) = self.store.unwatched_place(key.borrow()) else { return };
        let mut counts = lock(&unwatched.counts);
        if counts.len() <= place {
            counts.resize(place + 1, (0, 0));
        }
        counts[place].0 += 1;
        counts[place].1 += u64::from(changed);
    }

    /// What was counted of each table that nothing watches.
    pub(super) fn unwatched_figures(&self) -> Vec<UnwatchedFigures> {
        let counts = self.unwatched.as_ref().map(|unwatched| lock(&unwatched.counts).clone()).unwrap_or_default();
        let figures = |(place, table)| {
            let (compared, changed) = counts.get(place).copied().unwrap_or_default();
            UnwatchedFigures { table, compared, changed }
        };
        self.store.unwatched().into_iter().enumerate().map(figures).collect()
    }
}
