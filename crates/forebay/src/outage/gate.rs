//! The gate: the only code that knows whether the store is up. It is a [`Store`] that wraps one, so nothing above it
//! changes when the store fails.
//!
//! A commit goes straight to the store while that is up and nothing waits in its lanes. Else it is *buffered*: it
//! gets the next number, enters the journal, and is answered [`CommitOutcome::Buffered`] once it is safe there. All
//! of that happens under its transaction's locks, so numbers rise along every dependency. A commit that the store
//! does not answer is buffered under its own id. When it is applied, the store's table of ids decides whether it had
//! landed. So there are no ambiguous writes (the paper's first hole), and an id is never given a second time.
//!
//! A read finds what is buffered first (`pending.rs`), then asks the store; while that is away it is refused at once.
//!
//! **Invariants.** What is acknowledged is in the journal or in the store. What waits in a lane is overtaken by no
//! write of that lane. No call waits for a store that is known to be away: calls that do when it is found out are
//! given up. Nothing is acknowledged or applied once another owner is known to have the store ([`Store::fenced`]).
//! What was buffered stays in the journal, for an operator to decide.

mod commits;
mod journaled;
mod memory;
mod operator;
#[cfg(feature = "testing")]
mod print;
mod reads;
mod room;
mod settings;
mod suspended;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use futures_util::lock::Mutex as AsyncMutex;

use super::journal::{AppendError, Found, Journal, OpenError};
use super::mode::Mode;
use super::pending::Buffer;
use super::record::{Description, Dropped, Loss};
use super::recovery;
use super::state::{Counts, State};
use super::tickets::Tickets;
use super::write_back::WriteBack;
use crate::change::Change;
use crate::error::Unavailable;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::figures::StoreFigures;
use crate::store::{Caps, Commit, CommitOutcome, Doubt, Form, GivenId, Outside, ReadError, Resolved, Store};
use crate::tier::Tier;
use crate::value::Value;
use crate::version::{OwnerId, TxnId, Version};

pub use memory::{catalogue_of, incarnation_of, seen_incarnation_of};
pub(in crate::outage) use reads::Asker;
pub use settings::{GateSettings, GateState, OnConflict};

pub use operator::{DropError, GivenUp};
pub use suspended::{ApplyError, ResumeError};

/// What a gate is made of.
pub struct GateOptions<T = Journal> {
    /// Clock, timers, tasks.
    pub runtime: Runtime,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Where what is buffered is safe: the journal, or another tier.
    pub journal: T,
    /// What it held.
    pub found: Found,
    /// How the gate behaves.
    pub settings: GateSettings,
    /// What keys mean to the store, as the operator wrote it; pending changes have to be applied under the same.
    pub mapping: String,
    /// The store could not be reached: it will have another incarnation than now.
    pub opens_late: bool,
}

/// A store that may go away; cheap to clone.
#[derive(Clone)]
pub struct Gate {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) runtime: Runtime,
    pub(super) store: Arc<dyn Store>,
    pub(super) journal: Arc<dyn Tier>,
    /// What it may have lost, oldest first.
    losses: Vec<Loss>,
    /// Ids from clients of what had been given up before the start, with their tickets.
    dropped: Vec<(GivenId, u64)>,
    pub(super) settings: GateSettings,
    mapping: String,
    /// As whom it uses the store.
    owner: Option<OwnerId>,
    /// What the tier said of the store when it was opened.
    first: Description,
    /// The newest version that an earlier process is known to have given out.
    newest: Version,
    /// The incarnation of the store that is known here, and what waits has got sequence numbers up to the other one.
    given_out: memory::GivenOut,
    pub(super) state: Mutex<State>,
    /// The store's own word of what others write, once asked for: an answer must not be lost.
    outside: AsyncMutex<Option<BoxFuture<'static, Option<Outside>>>>,
    /// The number of the last doubt that the buffer knows.
    doubts: AtomicU64,
}

impl Gate {
    /// Puts a gate before a store. What the journal holds is applied from now on.
    pub fn open<T: Tier>(options: GateOptions<T>) -> Result<Gate, OpenError> {
        let GateOptions { runtime, store, journal, found, settings, mapping, opens_late } = options;
        let mut buffer = Buffer::new(settings.bytes_max, store.caps(), found.next_number);
        let mut newest = Version { incarnation: incarnation_of(&found.description), sequence: 0 };
        for pending in found.pending {
            let pending = pending?;
            newest = newest.max(pending.buffered.version);
            let ties = pending.buffered.ties(settings.lanes, &*store);
            buffer.restore(pending, ties);
        }
        buffer.renew_versions(|key, version| store.as_read_now(key, version));
        store.keep_ids_from(buffer.oldest_id());
        let mut state = State::new(buffer, settings.breaker, store.incarnation());
        state.tickets = Tickets::new(found.losses.clone(), found.next_number);
        found.dropped.iter().for_each(|dropped| state.tickets.dropped(dropped.number, &dropped.reason));
        let ids = |one: Dropped| one.given.into_iter().map(move |given| (given, one.number));
        let dropped = found.dropped.into_iter().flat_map(ids).collect();
        let keeps = settings.write_back_ms.map(|age_ms| WriteBack::new(age_ms, settings.bytes_max));
        (state.opens_late, state.write_back) = (opens_late, keeps);
        let (owner, now_ms) = (found.remembered.owner, runtime.now_ms());
        let newest = memory::newest_of_earlier(newest, &found.remembered, now_ms);
        state.remembered = Some(found.remembered);
        if opens_late {
            state.writes.trip("it could not be reached at the start");
            state.reads.trip("it could not be reached at the start");
        }
        let given_out = memory::GivenOut::new(store.incarnation().max(newest.incarnation));
        let (state, outside) = (Mutex::new(state), AsyncMutex::new(None));
        let journal: Arc<dyn Tier> = Arc::new(journal);
        let inner = Arc::new(Inner {
            runtime,
            store,
            journal,
            losses: found.losses,
            dropped,
            settings,
            mapping,
            owner,
            first: found.description,
            newest,
            state,
            outside,
            doubts: AtomicU64::new(0),
            given_out,
        });
        {
            let mut state = inner.state();
            inner.doubt_earlier(&mut state);
            inner.suspend_if_earlier(&mut state, false);
            inner.settle(&mut state);
            if !opens_late {
                inner.describe(&mut state);
            }
        }
        recovery::start(&inner);
        Ok(Gate { inner })
    }

    /// What people are shown.
    pub fn state(&self) -> GateState {
        self.inner.look()
    }

    /// Looks at what is buffered.
    pub fn with_buffer<T>(&self, look: impl FnOnce(&Buffer) -> T) -> T {
        look(&self.inner.state().buffer)
    }

    /// The ids that clients gave to what is buffered or had been given up before the start, each with its ticket.
    pub fn given_ids(&self) -> Vec<(GivenId, u64)> {
        let pending =
            |buffer: &Buffer| buffer.given().map(|(given, number)| (given.clone(), number)).collect::<Vec<_>>();
        [self.inner.dropped.clone(), self.with_buffer(pending)].concat()
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        self.inner.state().buffer.validate();
    }

    /// Has what is buffered on purpose applied, if the store is there; waits as long as this. The rest stays.
    pub async fn carry_over(&self, at_most: Duration) {
        let inner = &self.inner;
        let mut over = inner.runtime.sleep(at_most);
        loop {
            let changed = {
                let mut state = inner.state();
                let waits = state.buffer.amount().waiting > 0 && state.suspended.is_none();
                let never = inner.fenced().is_some() || inner.settings.write_back_ms.is_none();
                if !waits || never || state.failing(inner.runtime.elapsed()) {
                    return;
                }
                if !std::mem::replace(&mut state.hurried, true) {
                    inner.settle(&mut state);
                }
                state.next_change()
            };
            match select(changed, over).await {
                Either::Left((_, rest)) => over = rest,
                Either::Right(_) => return,
            }
        }
    }

    /// Makes what is journaled safe, and ends it.
    pub async fn close(&self) -> Result<(), AppendError> {
        if !self.inner.state().unnoted.is_empty() {
            self.inner.note_rest().await;
        }
        self.inner.remember().await;
        let closed = self.inner.journal.close().await;
        self.inner.unless_empty(closed)
    }
}

impl Inner {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles the mode, and says so where it is another.
    pub(super) fn settle(&self, state: &mut State) {
        let now = self.runtime.elapsed();
        let lasted = now.saturating_sub(state.since).as_millis();
        let Some(before) = state.settle(now, self.runtime.now_ms()) else { return };
        let pending = state.buffer.amount().waiting;
        match (before, state.mode) {
            (_, Mode::Failed) => {
                tracing::warn!(why = state.writes.why(), pending, "{} -> failed: writes are buffered", before.name());
            }
            (_, Mode::Recovery) => tracing::info!("{} -> recovery ({pending} pending)", before.name()),
            (_, Mode::Normal) => {
                tracing::info!("{} -> normal ({})", before.name(), state.recovered(lasted));
            }
        }
    }

    /// What the tier answers when it is to be made safe: of nothing nothing can be lost.
    fn unless_empty(&self, answer: Result<(), AppendError>) -> Result<(), AppendError> {
        if self.state().buffer.is_empty() { Ok(()) } else { answer }
    }

    fn look(&self) -> GateState {
        let state = self.state();
        let now = self.runtime.elapsed();
        let amount = state.buffer.amount();
        let memory = self.settings.bytes_max.saturating_sub(amount.bytes);
        let disk = self.journal.room().map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX));
        let (room, short) = (memory.min(disk), disk < memory);
        let lasted = now.saturating_sub(state.since);
        let rate = amount.bytes as f64 / lasted.as_secs_f64().max(0.001);
        let known = amount.bytes > 0 && state.mode == Mode::Failed;
        let outage = Counts {
            buffered: state.counts.buffered - state.before.buffered,
            merged: state.counts.merged - state.before.merged,
            applied: state.counts.applied - state.before.applied,
            conflicts: state.counts.conflicts - state.before.conflicts,
            quarantined: state.counts.quarantined - state.before.quarantined,
            dropped: state.counts.dropped - state.before.dropped,
            full: state.counts.full - state.before.full,
            reads_refused: state.counts.reads_refused - state.before.reads_refused,
            reads_merged: state.counts.reads_merged - state.before.reads_merged,
            outages: state.counts.outages - state.before.outages,
        };
        GateState {
            mode: state.mode,
            since_ms: state.since_ms,
            lasted,
            amount,
            room,
            room_time: known.then(|| Duration::from_secs_f64((room as f64 / rate).min(1e9))),
            oldest_ms: state.buffer.oldest_ms(),
            why: state.writes.why().to_owned(),
            suspended: state.suspended.clone(),
            fenced: self.fenced().map(|Unavailable(why)| why),
            unnoted: state.unnoted.count(),
            short,
            closed: self.journal.closed().map(|why| why.to_string()),
            losses: self.losses.clone(),
            counts: state.counts,
            outage,
        }
    }

    /// Why nothing is answered for the store any more, if another owner has it.
    pub(super) fn fenced(&self) -> Option<Unavailable> {
        let why = self.store.fenced().filter(|_| !mutation::on(Fault::FencedOwnerWrites));
        why.map(|why| Unavailable(why.to_owned()))
    }
}

impl Store for Gate {
    /// Not ordered: commits that come at a time do not depend on each other, so each can be buffered or not.
    fn caps(&self) -> Caps {
        Caps { ordered: false, ..self.inner.store.caps() }
    }

    fn has_documents(&self) -> bool {
        self.inner.store.has_documents()
    }

    fn owns(&self, key: &Key) -> bool {
        self.inner.store.owns(key)
    }

    fn name(&self) -> String {
        self.inner.store.name()
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn minted(&self) -> u64 {
        self.inner.minted()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(self.inner.get(keys, bytes_max, Asker::Client))
    }

    fn peek<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(self.inner.get(keys, bytes_max, Asker::Ourselves))
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(self.inner.commit(group))
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        match self.inner.check_unkept(&[id]) {
            Ok(()) => self.inner.store.outcome(id),
            Err(kept) => Box::pin(std::future::ready(Err(kept))),
        }
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        match self.inner.check_unkept(ids) {
            Ok(()) => self.inner.store.outcomes(ids),
            Err(kept) => Box::pin(std::future::ready(Err(kept))),
        }
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        Box::pin(async move {
            self.inner.check_up("whether a transaction with this id has ended before is not known")?;
            self.inner.store.given().await
        })
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.inner.check_up("keys can't be listed")?;
            self.inner.store.scan(space, after, limit).await
        })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(async move {
            self.inner.check_up("keys can't be counted")?;
            self.inner.store.count(space).await
        })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move {
            self.inner.check_up("nothing can be cleared")?;
            let pending = self.inner.state().pending();
            if pending > 0 {
                let why = format!("{pending} buffered writes wait for the store; clear it when they are carried over");
                return Err(Unavailable(why));
            }
            self.inner.store.clear(spaces, version).await
        })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.inner.check_up("what has expired can't be listed")?;
            self.inner.store.expired(now_ms, limit).await
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        match self.inner.check_up("not asked") {
            Ok(()) => self.inner.store.ping(),
            Err(away) => Box::pin(std::future::ready(Err(away))),
        }
    }

    fn lane(&self, key: &Key) -> Option<u32> {
        self.inner.store.lane(key)
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        self.inner.store.references(key, changes)
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(self.inner.check(checks))
    }

    fn form(&self, key: &Key) -> Form {
        self.inner.store.form(key)
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.inner.store.beside(key)
    }

    fn fenced(&self) -> Option<&str> {
        self.inner.store.fenced()
    }

    fn figures(&self) -> Option<StoreFigures> {
        self.inner.store.figures()
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.inner.store.text_of(key, value)
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        self.inner.store.changes_of_text(key, text)
    }

    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        self.inner.store.as_stored(key, change)
    }

    fn memory_bytes(&self) -> usize {
        self.inner.store.memory_bytes()
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(self.inner.outside())
    }

    fn sync(&self) -> Option<u64> {
        self.inner.store.sync()
    }

    fn reload(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.inner.reload())
    }

    fn is_altered(&self) -> bool {
        self.inner.store.is_altered()
    }

    fn unwatched(&self) -> Vec<String> {
        self.inner.store.unwatched()
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        self.inner.store.unwatched_place(key)
    }

    fn doubt(&self, what: Doubt<'_>) {
        self.inner.doubt(what);
    }

    fn doubts(&self) -> u64 {
        self.inner.doubts.load(Ordering::SeqCst)
    }

    fn is_away(&self) -> bool {
        self.inner.check_up("").is_err()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async {
            let flushed = self.inner.journal.flush().await;
            self.inner.unless_empty(flushed).map_err(|error| Unavailable(error.to_string()))?;
            match self.inner.check_up("the store can't be flushed") {
                // What it has not got is in the journal.
                Err(_) => Ok(()),
                Ok(()) => self.inner.store.flush().await,
            }
        })
    }
}
