//! One transaction under strict two-phase locking (DeToX, section 7.1): locks are taken before anything is read, held
//! to the end, and handed on only with the commit's results beside them. Dropping a transaction rolls it back without
//! a trace; once its commit is handed over the committer owns it, locks and all.

mod held;
mod loading;
mod room;
mod taking;
mod told;
mod waiting;

use std::sync::Arc;

use held::Held;
pub use room::{LARGE_BYTES, take_long};
use smallvec::SmallVec;
pub(super) use waiting::Patience;

use super::ahead::Ahead;
use super::caller::Caller;
use super::committing::{Committing, Recorded};
use super::documents::Documents;
use super::group::{Admitted, Now, Submission};
use super::history::Record;
use super::locks::Owner;
use super::mode::Mode;
use super::placed::Vertices;
use super::plan::Overtaken;
use super::settled::Settled;
use super::turn::HeldTurn;
use super::yielding::Tenure;
use super::{Inner, OnWrite, Plan, PlannedLock, TxnError};
use crate::cache::{Context, Lent};
use crate::change::Change;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::{Commit, GivenId, Priority};
use crate::version::Version;

/// Keys that a transaction locks or loads before others have their turn.
const KEYS_PER_TURN: usize = 256;
/// Tables for more keys than this are made once, and not grown.
const MANY_KEYS: usize = 1024;

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnKind {
    /// One command or script, run again after a conflict.
    Plain,
    /// One script, run again after a conflict, that locks and loads more as it goes on.
    Script,
    /// Its client sees each answer before it sends the next command.
    Interactive,
    /// As `Interactive`, and changes are refused.
    ReadOnly,
    /// As `ReadOnly`, and where others write too all that it has read is compared at its end, at one moment.
    ReadOnlyChecked,
}

/// An open transaction.
pub struct Transaction {
    inner: Arc<Inner>,
    owner: Owner,
    kind: TxnKind,
    context: Context,
    documents: Documents,
    held: Held,
    /// One bit per key space that is held shared.
    spaces: u16,
    /// Commits whose unpublished results were read.
    depends: Vec<Settled>,
    began: Option<u64>,
    /// The store's incarnation when it began; what it has read may be lost under a later one.
    incarnation: u64,
    /// The store's last doubt when it began: what it has read may have been cached before a later one.
    doubts: u64,
    /// Its locks are the committer's now.
    handed_over: bool,
    /// Its end is to be told, and told here.
    ends: bool,
    /// The cache was asked for something in its name.
    asked: bool,
    /// As which vertex of its type it wrote its keys.
    vertices: Option<Box<Vertices>>,
    /// What it writes is not wanted in the cache.
    uncached: bool,
    /// What it writes must not be kept for later.
    strict: bool,
    priority: Priority,
    /// What can't be loaded may be changed unseen.
    blind: bool,
    /// The id that its client gave it.
    given: Option<GivenId>,
    /// Room for its commit, once it has some.
    room: Option<Admitted>,
    /// Bytes of documents behind which it loads no other.
    bytes_max: usize,
    /// Its caller takes its turn over.
    keeps_turn: bool,
    /// What the cache makes way with for the documents, of a transaction that nobody else counts.
    lent: Option<Lent>,
    /// Its turn to hold many documents, once it has taken it.
    turn: Option<HeldTurn>,
    /// What others see of it, if it is interactive and yields to them.
    tenure: Option<Arc<Tenure>>,
    /// Its client named versions that it has read: they are current at its commit, also where it writes nothing.
    validates: bool,
    /// How it waits.
    pub(super) patience: Patience,
}

impl Transaction {
    pub(super) fn new(inner: Arc<Inner>, owner: Owner, kind: TxnKind, context: Context, ends: bool) -> Transaction {
        let mut documents = inner.documents();
        if matches!(kind, TxnKind::ReadOnly | TxnKind::ReadOnlyChecked) {
            documents.set_read_only();
        }
        let began = inner.history.as_ref().map(|history| history.tick());
        let (incarnation, doubts) = (inner.mint.incarnation(), inner.store.doubts());
        let uncached = inner.on_write == OnWrite::Invalidate;
        let tenure = (!matches!(kind, TxnKind::Plain | TxnKind::Script)).then(|| inner.yielding.enter(owner));
        Transaction {
            inner,
            owner,
            kind,
            context,
            documents,
            held: Held::default(),
            spaces: 0,
            depends: Vec::new(),
            began,
            incarnation,
            doubts,
            handed_over: false,
            ends,
            asked: false,
            vertices: None,
            uncached,
            strict: false,
            priority: Priority::Normal,
            blind: false,
            given: None,
            room: None,
            bytes_max: usize::MAX,
            keeps_turn: false,
            lent: None,
            turn: None,
            tenure,
            validates: false,
            patience: Patience::default(),
        }
    }

    /// Has its waits for locks end when `caller` has gone.
    pub fn set_caller(&mut self, caller: Option<Arc<Caller>>) {
        self.patience.caller = caller;
    }

    /// Why it was rolled back for others that it kept waiting, if it was: nothing can be done in it any more.
    pub fn wounded(&self) -> Option<String> {
        self.tenure.as_ref().and_then(|tenure| tenure.wound())
    }

    /// Whether it refuses changes.
    pub fn is_read_only(&self) -> bool {
        matches!(self.kind, TxnKind::ReadOnly | TxnKind::ReadOnlyChecked)
    }

    /// An error if it was rolled back for others.
    fn stands(&self) -> Result<(), TxnError> {
        self.tenure.as_ref().map_or(Ok(()), |tenure| tenure.stands())
    }

    /// What it has read and changed.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// What it has read and changed; keys have to be locked and loaded before.
    pub fn documents_mut(&mut self) -> &mut Documents {
        &mut self.documents
    }

    /// Keys that it has locked.
    pub fn locked_keys(&self) -> usize {
        self.held.keys.len()
    }

    /// What it has locked, for a run that begins with that.
    pub fn locks(&self) -> Vec<PlannedLock> {
        let lock = |(key, mode): (&Key, Mode)| PlannedLock {
            key: key.clone(),
            mode,
            load: self.documents.loaded(key.borrow()),
        };
        self.held.all().map(lock).collect()
    }

    /// Those of `locks` that it would lock and has not.
    pub fn unlocked<'a>(&'a self, locks: &'a [PlannedLock]) -> impl Iterator<Item = &'a PlannedLock> {
        locks.iter().filter(|lock| self.held.mode(&lock.key).is_none())
    }

    /// How much it matters that what it writes is in the store at once.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Has its commit fail where it would be buffered: it is in the store when it is answered, or nowhere.
    pub fn set_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// Has its commit kept under an id that its client gave.
    pub fn set_given(&mut self, given: GivenId) {
        self.given = Some(given);
    }

    /// Has it load no other document once those that it holds are more than so many bytes.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Has the next commands change unseen what they can't load.
    pub fn set_blind(&mut self, blind: bool) {
        self.blind = blind;
    }

    /// The context that the policy is told with the reads that follow.
    pub fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Locks and loads what `plan` says, and compares what it watches. After an error the transaction is to be dropped.
    pub(super) async fn prepare(&mut self, plan: &Plan, ahead: &mut Ahead) -> Result<Option<Overtaken>, TxnError> {
        (self.strict, self.blind) = (plan.strict, plan.blind);
        self.given.clone_from(&plan.given);
        self.bytes_max = plan.bytes_max.unwrap_or(usize::MAX);
        self.keeps_turn = plan.keeps_turn;
        if plan.locks.len() > MANY_KEYS {
            self.held.reserve(plan.locks.len());
            self.documents.reserve(plan.locks.len());
        }
        for (n, lock) in plan.locks.iter().enumerate() {
            self.lock(&lock.key, lock.mode).await?;
            self.turn_after(n).await;
        }
        // After the waits, so that no earlier transaction has seen a later moment.
        self.documents.set_now(self.inner.runtime.now_ms());
        self.load(plan.locks.iter().filter(|lock| lock.load).map(|lock| &lock.key), ahead).await?;
        plan.locks.iter().filter(|lock| !lock.load).for_each(|lock| self.load_cached_record(&lock.key));
        plan.watched.iter().for_each(|watched| self.documents.tell(watched.key.borrow()));
        self.validates = plan.watched.iter().any(|watched| watched.checked);
        let overtaken = plan.overtaken(&self.documents);
        Ok(overtaken.filter(|_| !mutation::on(Fault::WatchIgnored)))
    }

    /// Gives others their turn after each [`KEYS_PER_TURN`] keys of a wide request. What is locked stays so.
    async fn turn_after(&self, n: usize) {
        if n % KEYS_PER_TURN == KEYS_PER_TURN - 1 {
            self.inner.runtime.turn().await;
        }
    }

    /// Locks and loads `locks` for one command of an interactive transaction or a script. A key to be written is locked
    /// for update, so that others may go on reading it until the commit. After an error the transaction is to be
    /// dropped, but for [`TxnError::TooLarge`]: then it holds what it held before, and more locks.
    pub async fn prepare_command(&mut self, locks: &[PlannedLock], ahead: &mut Ahead) -> Result<(), TxnError> {
        self.note_vertices(locks);
        for (n, lock) in locks.iter().enumerate() {
            let mode = if lock.mode == Mode::Exclusive { Mode::Update } else { lock.mode };
            self.lock(&lock.key, mode).await?;
            self.turn_after(n).await;
        }
        let before = self.documents.loaded_so_far();
        let loaded = self.load(locks.iter().filter(|lock| lock.load).map(|lock| &lock.key), ahead).await;
        if let Err(TxnError::TooLarge(_)) = loaded {
            self.documents.unload(before);
        }
        loaded?;
        // What was read is of one moment only if all locks were held to the end.
        self.stands()
    }

    /// Removes `key` if it has expired; for the reaper.
    pub(super) async fn remove_expired(mut self, key: &Key) -> Result<Committing, TxnError> {
        self.lock(key, Mode::Exclusive).await?;
        let read = match self.inner.locks.pending(key) {
            Some(_) => return Err(TxnError::Conflict(format!("{key} is being written"))),
            // Not through the cache: what nobody reads should not take room in it.
            None => self.inner.store.get(std::slice::from_ref(key)).await?.pop(),
        };
        let now_ms = self.documents.now_ms();
        let expired = |read: &Read| read.value.as_ref().is_some_and(|value| value.expired(now_ms));
        let Some(read) = read.filter(|read| expired(read) || mutation::on(Fault::ReapedUnseen)) else {
            return Ok(Committing::nothing());
        };
        self.documents.load(key.clone(), read);
        let deleted = self.documents.change(key.borrow(), Change::Delete);
        deleted.map_err(|error| TxnError::Refused(error.to_string()))?;
        // That it is gone is worth no place in the cache, where something is that somebody reads.
        self.uncached = true;
        self.take_room().await;
        self.submit()
    }

    /// Commits: exclusive locks on all that is written, then the committer takes over. A transaction that wrote nothing
    /// only waits for what it depends on.
    pub async fn commit(mut self) -> Result<Committing, TxnError> {
        let written: SmallVec<[Key; 4]> = self.documents.written().cloned().collect();
        if mutation::on(Fault::ReadLockReleasedEarly) {
            self.inner.locks.release(self.owner, &std::mem::take(&mut self.held).keys);
        }
        for key in &written {
            self.lock(key, Mode::Exclusive).await?;
        }
        self.check_reads().await?;
        self.take_room().await;
        if self.kind != TxnKind::Plain {
            self.documents.begin_durations(self.inner.runtime.now_ms());
        }
        self.submit()
    }

    /// What the answer to the command just run has to wait for: nothing that was read is shown before it is published.
    pub fn shown(&self) -> Committing {
        Committing::behind(self.depends.clone())
    }

    /// Gives up all changes; what it read is still to be shown only once it is published.
    pub(super) fn roll_back(mut self) -> Committing {
        if mutation::on(Fault::AbortLeavesWrites) {
            let _ = self.submit();
        }
        Committing::behind(std::mem::take(&mut self.depends))
    }

    fn submit(&mut self) -> Result<Committing, TxnError> {
        if let Some(tenure) = &self.tenure {
            tenure.end()?;
        }
        if self.depends.iter().any(Settled::has_failed) {
            return Err(TxnError::Conflict("it read what a failed commit had written".into()));
        }
        if self.inner.mint.incarnation() != self.incarnation && !mutation::on(Fault::VersionFenceOff) {
            return Err(TxnError::Conflict("the store was reopened".into()));
        }
        let record = self.record();
        let fresh_until = self.documents.take_fresh_until();
        if !fresh_until.is_empty() {
            self.inner.bound_freshness(fresh_until);
        }
        let depends = std::mem::take(&mut self.depends);
        if matches!(self.kind, TxnKind::Interactive | TxnKind::Script) {
            // Its client, or its script, has seen each answer before it sent the next command.
            self.documents.tell_all();
        }
        let held_bytes = self.documents.held_bytes();
        let writes = self.documents.take_writes();
        self.inner.long.note_written(&writes, held_bytes);
        if writes.is_empty() {
            self.tell_end(true);
            // Nobody waits for others in its turn.
            let turn = self.turn.take().filter(|_| depends.is_empty() && self.keeps_turn);
            return Ok(Committing { published: None, commit: None, depends, record, turn });
        }
        let given = self.given.take().into_iter().collect();
        let mut commit = Commit {
            checks: self.checks(),
            strict: self.strict,
            priority: self.priority,
            given,
            doubts: self.doubts,
            ..Commit::unplaced(writes)
        };
        let caching = self.caching();
        if depends.is_empty() {
            // A panic in there may leave the commit half published: then its keys stay locked until the restart.
            (self.handed_over, self.asked) = (true, true);
            let now = self.inner.committer.commit_now(commit, &caching);
            self.handed_over = matches!(now, Now::Unknown(_));
            commit = match now {
                Now::Published(version) => {
                    self.tell_end(true);
                    let record = record.written_under(Some(version));
                    return Ok(Committing { record, ..Committing::published(Some(version)) });
                }
                Now::Failed(failure) => return Err(failure.into()),
                Now::Unknown(id) => {
                    drop(record.written_under(Some(id.0)));
                    return Err(TxnError::Unknown(id));
                }
                Now::Later(commit) => *commit,
            };
        }
        let held = std::mem::take(&mut self.held).keys.into_vec();
        let room = self.room.take();
        // Whoever publishes it tells its end.
        (self.handed_over, self.ends) = (true, false);
        let (owner, incarnation) = (self.owner, self.incarnation);
        let submission = Submission { owner, held, commit, incarnation, depends: depends.clone(), caching, room };
        let settled = self.inner.committer.submit(submission);
        let record = record.written_under(settled.version());
        Ok(Committing { commit: Some(settled), depends, record, published: None, turn: None })
    }

    /// What it does, under no version yet.
    fn record(&self) -> Recorded {
        let Some(history) = self.inner.history.clone() else { return Recorded::default() };
        let reads = self.documents.reads().map(|(key, version, present)| (key.clone(), version, present)).collect();
        let writes = self.documents.written().map(|key| (key.clone(), Version::ZERO)).collect();
        let began = self.began.unwrap_or_default();
        let record = Record { name: format!("t{}", self.owner), began, ended: u64::MAX, reads, writes };
        Recorded(Some(Box::new((history, record))))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.tell_end(false);
        if self.documents.held_bytes() > LARGE_BYTES {
            // It may have the last of them.
            let documents = std::mem::replace(&mut self.documents, self.inner.documents());
            // It is another's turn when they are gone.
            self.inner.runtime.drop_elsewhere((documents, self.turn.take()));
        }
        if !self.handed_over {
            self.inner.locks.release(self.owner, &self.held.keys);
        }
        if let Some(tenure) = &self.tenure {
            self.inner.yielding.leave(self.owner);
            self.spaces &= !tenure.close();
        }
        for space in 0..u16::BITS as u8 {
            if self.spaces & (1 << space) != 0 {
                self.inner.locks.release_space(self.owner, space);
            }
        }
    }
}
