//! A start with a warm cache: the keys that were cached before are read again from the store, beside clients.
//!
//! **Invariant.** What comes in is what the store holds. A key is read under a fill that was begun before. Its value
//! enters while the key is locked beside other readers. So a commit or an invalidation that comes between ends the
//! fill (`docs/guarantees.md`, C). Of a commit that is on its way nothing is seen early. No value is in the file.
//!
//! One batch is read at a time, and then the store has as long a rest: clients come first. No entry makes way for one
//! that is read again. While the store is away it is waited for.

mod file;

use std::sync::Arc;
use std::time::Duration;

pub use file::{Named, WarmError, WarmFile};
use file::{Names, Part};

use super::{Engine, TxnKind};
use crate::cache::{Begin, Context, Fill, Resumed, Standing};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::ReadError;
use crate::store::portion::PORTION_BYTES_MAX;
use crate::sync::{AtomicU64, Ordering};

/// Documents that are asked for at once.
const READ_AT_ONCE: usize = 250;

/// Wait before a store that is away is asked again.
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// Tries after which a store that is there, and yet does not answer for several documents, is asked one by one.
const TRIES: u32 = 5;

/// How long the first look at what others write is waited for. At that look all that is cached leaves.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(10);

/// How far the reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warming {
    /// Documents that were read again and are cached since.
    pub documents: u64,
    /// Keys that are still to be read; 0 once all is done.
    pub left: u64,
}

/// The same, as it is counted.
#[derive(Default)]
pub(super) struct Figures {
    documents: AtomicU64,
    left: AtomicU64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Keys that the file named, as far as they came to be read.
    pub keys: u64,
    /// Documents that came in.
    pub documents: u64,
    /// Keys that clients had read or written before.
    pub known: u64,
    /// Keys without a document by now, though they had one.
    pub gone: u64,
    /// Keys that the store has no place for any more, or whose document can't be read.
    pub unnamed: u64,
    /// Keys that were being written, or that the policy kept out.
    pub passed: u64,
    /// The cache was full before all were read.
    pub full: bool,
    /// The order is the one that it was; else the policy is another.
    pub in_order: bool,
    /// Why some of what the file named is not known.
    pub damage: Option<String>,
    /// How long it took.
    pub took: Duration,
}

type NamedKey = (Key, Standing);

/// The store can't be asked.
struct Away;

impl Engine {
    /// How far the reading of what was cached before has come.
    pub fn warming(&self) -> Warming {
        let Figures { documents, left } = &self.inner.warming;
        Warming { documents: documents.load(Ordering::Relaxed), left: left.load(Ordering::Relaxed) }
    }

    /// Reads again what `file` names, until all is read or the cache is full. `None`: there is no such file, as before
    /// a first start.
    pub async fn warm(&self, file: &Arc<WarmFile>) -> Result<Option<Warmed>, WarmError> {
        let (runtime, file) = (&self.inner.runtime, file.clone());
        let began = runtime.elapsed();
        let Some(names) = runtime.blocking(move || file.read()).await? else { return Ok(None) };
        let mut warmed = Warmed { in_order: names.same_policy, ..Warmed::default() };
        self.inner.warming.left.store(names.keys, Ordering::Relaxed);
        self.wait_for_first_look().await;
        self.warm_all(names, &mut warmed).await;
        self.inner.warming.left.store(0, Ordering::Relaxed);
        warmed.took = runtime.elapsed().saturating_sub(began);
        Ok(Some(warmed))
    }

    /// Reads these once, without a rest; for tests.
    #[doc(hidden)]
    pub async fn resume(&self, keys: Vec<(Key, Standing)>) -> Warmed {
        let mut warmed = Warmed { keys: keys.len() as u64, ..Warmed::default() };
        warmed.full = self.read_some(&mut keys.clone(), false, &mut warmed).await.is_ok_and(|goes_on| !goes_on);
        warmed
    }

    async fn warm_all(&self, mut names: Names, warmed: &mut Warmed) {
        let cache = self.cache();
        let same = names.same_policy && names.partitions == cache.partitions();
        loop {
            let (part, back) = self.inner.runtime.blocking(move || (names.next(), names)).await;
            names = back;
            match part {
                Ok(Part::Ghosts(partition, ghosts)) => {
                    if same {
                        cache.add_ghosts(partition, &ghosts);
                    }
                }
                Ok(Part::Keys(keys)) => {
                    for chunk in keys.chunks(READ_AT_ONCE) {
                        warmed.keys += chunk.len() as u64;
                        if !self.read_again(chunk, warmed).await {
                            warmed.full = self.inner.store.fenced().is_none();
                            return;
                        }
                        let left = names.keys.saturating_sub(warmed.keys);
                        self.inner.warming.left.store(left, Ordering::Relaxed);
                    }
                }
                Ok(Part::End) => return,
                Err(damage) => return warmed.damage = Some(damage),
            }
        }
    }

    /// At the first look at what others write all that is cached leaves, so it is waited for.
    async fn wait_for_first_look(&self) {
        if let Some(number) = self.inner.store.sync() {
            // Where it does not come, what is read leaves with it.
            let _ = self.inner.wait_for_sync(number, FIRST_LOOK_MAX).await;
        }
    }

    /// Reads `chunk`, whatever time that takes, and rests as long; false once the cache is full, or the store is
    /// another's.
    async fn read_again(&self, chunk: &[NamedKey], warmed: &mut Warmed) -> bool {
        let (runtime, store) = (&self.inner.runtime, &self.inner.store);
        let (mut left, mut tries, mut said) = (chunk.to_vec(), 0, false);
        loop {
            let began = runtime.elapsed();
            match self.read_some(&mut left, tries >= TRIES, warmed).await {
                Ok(goes_on) => {
                    runtime.sleep(runtime.elapsed().saturating_sub(began)).await;
                    return goes_on;
                }
                Err(Away) if store.fenced().is_some() => return false,
                Err(Away) => {
                    let is_there = store.ping().await.is_ok();
                    if !is_there && !std::mem::replace(&mut said, true) {
                        tracing::info!("the store is away: what was cached before is read when it is back");
                    }
                    tries = if is_there { tries + 1 } else { 0 };
                    runtime.sleep(AWAY_PAUSE).await;
                    self.wait_for_first_look().await;
                }
            }
        }
    }

    /// Reads all of `left`, one after the other if `alone`; false once the cache is full.
    async fn read_some(&self, left: &mut Vec<NamedKey>, mut alone: bool, warmed: &mut Warmed) -> Result<bool, Away> {
        let (inner, mut is_second) = (&self.inner, false);
        loop {
            let mut fills = Vec::new();
            left.retain(|(key, _)| {
                if alone && !fills.is_empty() {
                    return true;
                }
                let fill = self.begin_reading(key);
                warmed.known += u64::from(fill.is_none());
                fill.map(|fill| fills.push(fill)).is_some()
            });
            if left.is_empty() {
                return Ok(true);
            }
            let asked_for = fills.len();
            let keys: Vec<Key> = left[..asked_for].iter().map(|(key, _)| key.clone()).collect();
            let asked = inner.runtime.elapsed();
            let reads = match inner.store.peek(&keys, PORTION_BYTES_MAX).await {
                Ok(reads) => reads,
                Err(ReadError::Refused { key, .. } | ReadError::Damaged { key, .. }) => {
                    let at = left[..asked_for].iter().position(|(other, _)| *other == key).unwrap_or_default();
                    left.remove(at);
                    warmed.unnamed += 1;
                    continue;
                }
                Err(ReadError::Unavailable(_)) if !alone || inner.store.ping().await.is_err() => return Err(Away),
                Err(ReadError::Locked(_)) if !alone => {
                    alone = true;
                    continue;
                }
                // It can't be read: a client that wants it is told.
                Err(ReadError::Unavailable(_) | ReadError::Locked(_)) => {
                    left.remove(0);
                    warmed.passed += 1;
                    continue;
                }
            };
            inner.committer.follow_incarnation();
            mutation::meanwhile();
            let count = reads.len().clamp(1, asked_for);
            if mutation::on(Fault::ResumedByLateFill) {
                fills.clear();
                fills.extend(left.iter().filter_map(|(key, _)| self.begin_reading(key)));
            }
            // Others may wait for what follows: nobody waits for the rest of the fills.
            fills.truncate(count);
            fills.iter().zip(&reads).for_each(|(fill, read)| _ = fill.fetched(read));
            let mut overtaken = Vec::new();
            for ((named, fill), read) in left.drain(..count).zip(fills).zip(&reads) {
                match self.take_in(&named, fill, read, asked, warmed).await {
                    Some(Resumed::Full) => return Ok(false),
                    // Perhaps all that was cached has left: a store that is back was opened anew.
                    Some(Resumed::Overtaken) if !is_second => overtaken.push(named),
                    Some(Resumed::Overtaken | Resumed::KeptOut) => warmed.passed += 1,
                    Some(Resumed::Cached) | None => {}
                }
            }
            is_second |= !overtaken.is_empty();
            left.append(&mut overtaken);
        }
    }

    /// The right to put `key` in, unless it is cached, or others see to it.
    fn begin_reading(&self, key: &Key) -> Option<Fill> {
        if self.cache().peek(key.borrow()).is_some() {
            return None;
        }
        match self.cache().begin_fill(key) {
            Begin::Lead(fill) => Some(fill),
            Begin::Follow(_) | Begin::Held => None,
        }
    }

    /// Puts what was read in; what became of it, unless that is counted.
    async fn take_in(
        &self,
        (key, standing): &NamedKey,
        fill: Fill,
        read: &Read,
        asked: Duration,
        warmed: &mut Warmed,
    ) -> Option<Resumed> {
        let now_ms = self.inner.runtime.now_ms();
        let is_gone = read.value.as_ref().map_or(!standing.absent, |value| value.expired(now_ms));
        if is_gone {
            warmed.gone += 1;
            return None;
        }
        let mut holder = self.begin_beside();
        if !mutation::on(Fault::ResumedUnlocked) && holder.lock_beside(key).await.is_err() {
            warmed.passed += 1;
            return None;
        }
        self.inner.was_current(key, asked);
        let resumed = fill.resume(read, *standing);
        if resumed == Resumed::Cached {
            warmed.documents += 1;
            self.inner.warming.documents.fetch_add(1, Ordering::Relaxed);
        }
        Some(resumed)
    }

    /// A transaction that waits for no lock.
    fn begin_beside(&self) -> super::Transaction {
        let mut holder = self.begin(TxnKind::Plain, Context::default());
        holder.patience.no_wait = true;
        holder
    }
}
