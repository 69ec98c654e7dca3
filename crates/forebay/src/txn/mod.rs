//! Transactions over cache and store: on one node strict two-phase locking, strictly serializable.
//!
//! The path of a request: [`Engine::read_published`] serves a read whose keys are all cached without any lock. All else
//! is a [`Transaction`] (`locking.rs`): it locks keys (`locks.rs`), loads the missing ones of a level in one store
//! round trip, works on its [`Documents`] and hands its writes to the group committer (`group.rs`). The answer is a
//! [`Committing`]: nothing of the transaction is shown before [`Committing::wait`] is done.
//!
//! Plain commands and whole scripts (EXEC) go through [`Engine::execute`], which runs them again after a conflict.

mod absences;
mod ahead;
mod at_once;
mod caller;
mod clearing;
mod committing;
mod compare;
mod documents;
mod error;
mod freshness;
mod group;
pub mod history;
mod leasing;
mod limits;
mod locking;
mod locks;
mod long;
mod mode;
mod numbered;
#[doc(hidden)]
pub mod optimistic;
mod outside;
mod placed;
mod plan;
pub mod prefetch;
mod published;
mod reaper;
mod reload;
mod runs;
mod settled;
mod space;
mod sync;
mod turn;
mod unwatched;
#[doc(hidden)]
pub mod validator;
mod warm;
mod watching;
mod yielding;

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use absences::Absences;
pub use ahead::Ahead;
pub use caller::Caller;
pub use committing::Committing;
pub use compare::Compared;
pub use documents::{DocumentError, Documents};
pub use group::GROUP_COMMITS_MAX;
pub use leasing::Leased;
pub use limits::TxnLimits;
pub use locking::{LARGE_BYTES, Transaction, TxnKind, take_long};
pub use mode::Mode;
pub use plan::{OnWrite, Plan, PlannedLock, STALE_TOLD_MAX, Wanted, Watched};
pub use published::Published;
pub use runs::Runs;
pub use settled::{Landed, Settlement};
pub use turn::{HeldTurn, Turn};
pub use unwatched::UnwatchedFigures;
pub use warm::{Named, WarmError, WarmFile, Warmed, Warming};

use crate::cache::{Cache, CacheOptions, Context, LOOK_KEYS_MAX, Look};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::Store;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::{Mint, Version};
use at_once::AT_ONCE_KEYS_MAX;
pub use error::TxnError;
use group::Committer;
use history::History;
use locks::Locks;
use published::Reads;
use yielding::Yielding;

/// Looks without locks before a reader takes them.
const LOOKS_MAX: usize = 3;

/// How a run of a command or script ended.
#[derive(Debug)]
pub enum Executed<T> {
    /// The body ran; nothing of it may be shown before the commit is settled.
    Done(T, Committing),
    /// A watched key has changed; nothing ran.
    WatchFailed,
    /// Keys are at other versions than the client named, and are these now; nothing ran.
    Stale(Vec<Watched>),
}

/// What an engine is made of.
pub struct EngineOptions {
    /// Clock, timers, randomness, tasks.
    pub runtime: Runtime,
    /// Where the truth lives.
    pub store: Arc<dyn Store>,
    /// How much is cached, and by which policy.
    pub cache: CacheOptions,
    /// Limits of transactions.
    pub limits: TxnLimits,
    /// What becomes of the cached copy of what is written.
    pub on_write: OnWrite,
    /// How long what is cached of tables that nothing watches is believed without a question; `None`: until it leaves.
    pub unwatched_after: Option<Duration>,
    /// Records what transactions read and write, for tests.
    pub history: Option<Arc<History>>,
}

impl EngineOptions {
    /// Default limits, and no history.
    pub fn new(runtime: Runtime, store: Arc<dyn Store>, cache: CacheOptions) -> EngineOptions {
        EngineOptions {
            runtime,
            store,
            cache,
            limits: TxnLimits::default(),
            on_write: OnWrite::default(),
            unwatched_after: None,
            history: None,
        }
    }
}

/// Cache, locks, group commit and store of one node; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    store: Arc<dyn Store>,
    cache: Cache,
    locks: Arc<Locks>,
    committer: Arc<Committer>,
    mint: Arc<Mint>,
    limits: TxnLimits,
    on_write: OnWrite,
    /// Absent keys that are watched.
    absences: Arc<Absences>,
    /// The interactive transactions that yield to others.
    yielding: Yielding,
    turn: turn::Turn,
    /// Documents that are read in a turn alone.
    long: long::Long,
    next_owner: AtomicU64,
    /// The store commits without a wait.
    at_once: bool,
    /// The store, if others write to it too.
    fronted: Option<Arc<dyn Store>>,
    /// Cached copies that are to leave at some moment.
    freshness: Arc<AtomicU64>,
    /// Those whose moment came while the store was away; among those counted.
    overdue: Mutex<Vec<Key>>,
    /// Of what is cached with the store, after an outage.
    comparison: compare::Comparison,
    /// What is known of documents of tables that nothing watches.
    unwatched: Option<unwatched::Unwatched>,
    /// How far what was cached before the start is read again.
    warming: warm::Figures,
    /// Who waits for what others have written.
    syncs: sync::Syncs,
    history: Option<Arc<History>>,
}

impl Engine {
    /// An engine with an empty cache: after a crash nothing old is served (DeToX, section 7.1).
    pub fn new(options: EngineOptions) -> Engine {
        let EngineOptions { runtime, store, cache, limits, on_write, unwatched_after, history } = options;
        let (cache, at_once) = (Cache::new(&cache), store.commits_now());
        let drops = runtime.clone();
        cache.drop_large_with(move |given_up| drops.drop_elsewhere(given_up));
        let locks = Arc::new(Locks::default());
        let newest = Version { incarnation: store.incarnation(), sequence: store.minted() };
        let mint = Arc::new(Mint::behind(newest));
        let fronted = (!store.caps().owned).then(|| store.clone());
        let room = usize::try_from(limits.placed_bytes_max).unwrap_or(usize::MAX);
        let committer =
            Committer::new(runtime.clone(), cache.clone(), locks.clone(), store.clone(), mint.clone(), room);
        let inner = Inner {
            runtime,
            store,
            cache,
            locks,
            committer: Arc::new(committer),
            mint,
            limits,
            on_write,
            absences: Arc::default(),
            yielding: Yielding::default(),
            turn: turn::Turn::default(),
            long: long::Long::default(),
            next_owner: AtomicU64::new(1),
            at_once,
            fronted,
            freshness: Arc::new(AtomicU64::new(0)),
            overdue: Mutex::new(Vec::new()),
            comparison: compare::Comparison::default(),
            unwatched: unwatched_after.map(unwatched::Unwatched::new),
            warming: warm::Figures::default(),
            syncs: sync::Syncs::default(),
            history,
        };
        Engine { inner: Arc::new(inner) }
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Clock, timers, randomness, tasks.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Limits of transactions.
    pub fn limits(&self) -> &TxnLimits {
        &self.inner.limits
    }

    /// Keys that are locked, wanted or held now; 0 once all is quiet.
    pub fn locked_keys(&self) -> usize {
        self.inner.locks.keys()
    }

    /// How far the comparison of what is cached with a store that was away has come.
    pub fn compared(&self) -> Compared {
        self.inner.comparison.state()
    }

    /// The tables of the store that nothing watches, and what was asked of them again.
    pub fn unwatched(&self) -> Vec<UnwatchedFigures> {
        self.inner.unwatched_figures()
    }

    /// Panics if cache or lock table contradicts itself; for tests.
    pub fn validate(&self) {
        self.inner.cache.validate();
        self.inner.locks.validate();
    }

    /// Panics if the lock table contradicts itself: it never does, whatever is at work; for tests.
    pub fn validate_locks(&self) {
        self.inner.locks.validate();
    }

    /// Interactive transactions that were rolled back for others so far.
    pub fn wounded(&self) -> u64 {
        self.inner.yielding.wounded()
    }

    /// Keys with these hashes are about to be used, those of `written` to be written: has what is in memory of them
    /// fetched at the same time. Changes nothing.
    pub fn prefetch(&self, hashes: &[u64], written: &[KeyRef<'_>]) {
        self.inner.cache.prefetch(hashes);
        if !written.is_empty() {
            self.inner.store.expect_writes(written);
        }
    }

    /// Begins a transaction.
    pub fn begin(&self, kind: TxnKind, context: Context) -> Transaction {
        let number = self.inner.next_owner.fetch_add(1, Ordering::Relaxed);
        self.begin_as(number, kind, context)
    }

    /// Begins a transaction that is counted as `number`: a rerun keeps its number.
    fn begin_as(&self, number: u64, kind: TxnKind, context: Context) -> Transaction {
        let owner = self.inner.next_owner.fetch_add(1, Ordering::Relaxed);
        let ends = context.txn == 0;
        let txn = if ends { number } else { context.txn };
        Transaction::new(self.inner.clone(), owner, kind, Context { txn, ..context }, ends)
    }

    /// The documents of `keys` without any lock, if all are cached and none is being published: a read-only transaction
    /// at one moment (`docs/guarantees.md`, D). The caller's connection must have no unpublished commit, or it would
    /// not see it.
    pub fn read_published(&self, keys: &[KeyRef<'_>], context: &Context) -> Option<Documents> {
        let began = self.inner.history.as_ref().map(|history| history.tick());
        let mut documents = self.inner.documents();
        let reads = self.look_and_end(keys, context)?;
        documents.reserve(reads.len());
        keys.iter().zip(reads).for_each(|(key, read)| documents.load(key.to_key(), read));
        if let (Some(history), Some(began)) = (&self.inner.history, began) {
            let reads = documents.reads().map(|(key, version, present)| (key.clone(), version, present)).collect();
            history.push_read(began, reads);
        }
        Some(documents)
    }

    /// As [`Engine::read_published`], for a command that works on nothing else.
    pub fn published<'a>(&'a self, keys: &'a [KeyRef<'a>], context: &Context) -> Option<Published<'a>> {
        let began = self.inner.history.as_ref().map(|history| history.tick());
        let reads = match keys {
            [key] if self.inner.is_overdue(*key) => return None,
            [key] if !self.inner.cache.follows_transactions() => {
                smallvec![self.inner.cache.get_published(*key, context)?]
            }
            keys => self.look_and_end(keys, context)?,
        };
        if let (Some(history), Some(began)) = (&self.inner.history, began) {
            let read = |(key, read): (&KeyRef<'_>, &Read)| (key.to_key(), read.version, read.value.is_some());
            history.push_read(began, keys.iter().zip(&reads).map(read).collect());
        }
        Some(Published::new(keys, reads, &self.inner.runtime, self.inner.fronted.as_deref()))
    }

    /// What is read of each of `keys`.
    fn look_at_all(&self, keys: &[KeyRef<'_>], context: &Context) -> Option<Reads> {
        let cache = &self.inner.cache;
        if keys.iter().any(|key| self.inner.is_overdue(*key)) {
            return None;
        }
        if let [key] = keys {
            return Some(smallvec![cache.get_published(*key, context)?]);
        }
        if keys.len() > LOOK_KEYS_MAX {
            return None;
        }
        let mut hashes = SmallVec::<[u64; 16]>::new();
        keys.iter().for_each(|key| hashes.push(key.hash64()));
        cache.prefetch(&hashes);
        let hashed = || keys.iter().zip(hashes.iter().copied());
        // From the first look to the second: what was found stays.
        let reading = cache.reading();
        'again: for _ in 0..LOOKS_MAX {
            let mut reads = Reads::with_capacity(keys.len());
            let mut words = SmallVec::<[_; 16]>::new();
            for (key, hash) in hashed() {
                match cache.look(hash, *key, &reading) {
                    Look::Hit(read, word) => {
                        reads.push(read);
                        words.push(word);
                        mutation::interleave();
                    }
                    Look::Marked => continue 'again,
                    Look::Miss => return None,
                }
            }
            reading.looks_again();
            let unchanged = keys.iter().zip(&words).all(|(key, word)| cache.unchanged(*key, *word, &reading));
            if !unchanged && !mutation::on(Fault::SecondLookSkipped) {
                continue;
            }
            hashes.iter().zip(words).for_each(|(hash, word)| cache.touch(*hash, word, context, &reading));
            return Some(reads);
        }
        None
    }

    /// Runs `body` as one transaction: locks and loads what `plan` says, runs it on the documents, commits; again after
    /// a conflict, so `body` must change nothing but its documents. With `Err` the body rolls back and still answers.
    /// A `body` that may take long is for [`Engine::execute_locked`]: all others may have to wait for this one.
    pub async fn execute<T>(
        &self,
        plan: &Plan,
        context: Context,
        ahead: &mut Ahead,
        mut body: impl FnMut(&mut Documents) -> Result<T, T>,
    ) -> Result<Executed<T>, TxnError> {
        let wanted = || plan.locks.iter().map(PlannedLock::wanted).collect::<SmallVec<[Wanted<'_>; 8]>>();
        if plan.watched.is_empty()
            && plan.locks.len() <= AT_ONCE_KEYS_MAX
            && let Some(done) = self.execute_at_once(&wanted(), &context, &mut body)
        {
            return done.map(|(answer, version)| Executed::Done(answer, Committing::published(version)));
        }
        self.execute_locked(plan, context, ahead, body).await
    }

    /// As [`Engine::execute`], with locks in any case: nobody waits for it who wants none of its keys.
    pub async fn execute_locked<T>(
        &self,
        plan: &Plan,
        context: Context,
        ahead: &mut Ahead,
        mut body: impl FnMut(&mut Documents) -> Result<T, T>,
    ) -> Result<Executed<T>, TxnError> {
        let mut runs = self.runs(plan, context);
        loop {
            let mut transaction = runs.next(plan, TxnKind::Plain).await;
            let ran = transaction.run_in_room(plan, ahead, &mut body).await;
            runs.is_over(&mut transaction);
            let ended = match ran {
                Ok(Ok(Ok(answer))) => {
                    runs.hand_over(transaction).await.map(|committing| Executed::Done(answer, committing))
                }
                Ok(Ok(Err(answer))) => Ok(Executed::Done(answer, transaction.roll_back())),
                Ok(Err(overtaken)) => runs::overtaken_by(transaction, overtaken).await,
                Err(error) => Err(error),
            };
            match ended {
                Err(error) if runs.again(&error) => {}
                ended => return ended,
            }
        }
    }

    /// The runs of a request that does what `plan` says, and may wait in the middle of each.
    pub fn runs(&self, plan: &Plan, context: Context) -> Runs {
        Runs::new(self, plan, context)
    }

    /// Runs `body` as one transaction and commits it; again after a conflict, so `body` must change nothing else.
    pub async fn transaction<T>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        let number = self.inner.next_owner.fetch_add(1, Ordering::Relaxed);
        let mut attempt = 0;
        loop {
            let mut transaction = self.begin_as(number, TxnKind::Interactive, Context::default());
            let ended = match body(&mut transaction).await {
                Ok(answer) => match transaction.commit().await {
                    Ok(committing) => committing.wait().await.map(|_| answer),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            match ended {
                Err(TxnError::Conflict(_) | TxnError::Wounded(_)) if attempt < self.inner.limits.retries_max => {
                    attempt += 1
                }
                ended => return ended,
            }
        }
    }

    /// Reads `keys` that are not cached in one store round trip, before the commands that need them run.
    pub async fn fetch_ahead(&self, keys: &[Key]) -> Ahead {
        Ahead::fetch(&self.inner, keys).await
    }

    /// Has `work` done while nobody else reads or writes `keys`, and then forgets what is cached of them. Goes on to
    /// its end even if the caller does not wait for it.
    pub async fn alone_with<T: Send + 'static>(
        &self,
        keys: &[Key],
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, TxnError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let (done, told) = futures_channel::oneshot::channel();
        let engine = self.clone();
        self.inner.runtime.spawn(async move {
            // It must not yield while the work is done.
            let mut holder = engine.begin(TxnKind::Plain, Context::default());
            let locked = holder.lock_alone(&keys).await;
            let _ = done.send(match locked {
                Ok(()) => {
                    let answer = work.await;
                    holder.forget_cached();
                    Ok(answer)
                }
                Err(error) => Err(error),
            });
        });
        told.await.unwrap_or_else(|_| Err(TxnError::StoreDown("the server is stopping".into())))
    }

    /// Waits until all commits that have a place are settled.
    pub async fn drained(&self) {
        if let Err(why) = self.inner.committer.drained().await {
            tracing::warn!(%why, "not all commits are settled");
        }
    }
}
