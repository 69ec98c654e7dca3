//! Where the truth lives. A driver implements [`Store`]; it knows its database and nothing of caching or locks.
//!
//! A commit comes as a *group*: the commits that one flush of the store may carry together, in order. A store that
//! says [`Caps::ordered`] gets one group at a time, in commit order. It makes what is left after a crash a prefix of
//! that order. That is what lets the transactions above hand a lock on before the flush (`txn/group.rs`).

#[macro_use]
mod forward;

pub mod delayed;
pub mod embedded;
pub mod faulty;
pub mod figures;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod forgetful;
pub mod forms;
pub mod late;
pub mod memory;
pub mod metered;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod rot;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod suite;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod survivors;

mod applied;
mod commit;
mod given;
mod outcome;
pub mod portion;
pub mod tombstones;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use thiserror::Error;

use crate::change::Change;
use crate::error::Unavailable;
use crate::key::{Key, KeyRef};
use crate::read::Read;
use crate::value::Value;
use crate::version::{TxnId, Version};

pub use commit::{Commit, GIVEN_IDS_KEPT, GivenId, Priority, Write};
pub(crate) use commit::{Footprint, copied_bytes, remakes};
pub use forms::Form;
pub use outcome::{Buffering, CommitOutcome, Resolved, Since};

/// A document as it was at some moment, and those of the commits asked about that were applied by then.
pub type ReadWithIds = (Read, Vec<TxnId>);

/// A read that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The store can't be asked now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The store answers, and can't read this now: what it is in is locked by somebody else. Nothing is wrong with all
    /// the rest.
    #[error("{0}")]
    Locked(Unavailable),
    /// What the store holds can't be understood.
    #[error("stored document of {key} is damaged: {why}; restore the store from a backup")]
    Damaged {
        /// Which document.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// The store has no place for such a key.
    #[error("{why}")]
    Refused {
        /// Which key.
        key: Key,
        /// Why it names nothing, for people.
        why: String,
    },
}

/// What others have written to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// These documents.
    Keys(Vec<Key>),
    /// Nobody knows which: the store could not be watched for a while, or a whole table went. From now on nothing is
    /// missed.
    Everything,
    /// The store can't be watched any more: nobody knows what others write. When it can, [`Outside::Everything`] says
    /// so.
    OutOfSight,
    /// Nobody knows which, but that the store was away was known, and what was cached had to do until now: it is
    /// compared with what the store holds now, where [`Outside::Everything`] would drop it. Only from an outage's gate.
    Doubtful,
    /// None, but these documents, shown under the first version while the store was away, stand there under the second
    /// as they were shown. Only from an outage's gate.
    Restamped(Vec<(Key, Version, Version)>),
    /// None, but these documents, of which something was applied, may be other in the store than they were shown. Only
    /// from an outage's gate.
    Applied(Vec<Key>),
    /// None, but all that was committed in the store before [`Store::sync`] answered this number has been told.
    Synced(u64),
}

/// Documents that others may have changed.
#[derive(Clone, Copy, Debug)]
pub enum Doubt<'a> {
    /// These.
    Keys(&'a [Key]),
    /// Those of tables that nothing watches ([`Store::unwatched_place`]).
    Unwatched,
    /// All.
    All,
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Takes one group after the other, in order; see the module's text.
    pub ordered: bool,
    /// Nobody else writes to it: it behaves as Redis does: FLUSHDB clears it, EXPIRE deletes.
    pub owned: bool,
    /// It applies changes to what it holds by then, and says what came of it: it needs no [`Write::after`].
    pub applies: bool,
}

impl Caps {
    /// Whether it may acknowledge what it has not flushed, and lose that when it is reopened. Only stores in this
    /// process do, and they take groups in order. A database has each commit on its disk before it answers.
    pub fn keeps_back(&self) -> bool {
        self.ordered
    }
}

/// Bytes of names with which an answer to [`Store::scan`] or [`Store::expired`] ends, whatever its limit.
pub const NAMES_BYTES_MAX: usize = 1 << 20;

/// Bytes that a store's tables of deleted keys' versions (65,536 of them, their names 8 MiB) and of applied commits'
/// ids (65,536) take at most. They grow from nothing, so a cache's budget does not count them beforehand.
pub const BOOKKEEPING_BYTES_MAX: usize = 32 << 20;

/// Whether `keys`, answered to a question for at most `limit`, are the last there are.
pub fn ended(keys: &[Key], limit: usize) -> bool {
    keys.len() < limit && keys.iter().map(|key| key.name().len()).sum::<usize>() < NAMES_BYTES_MAX
}

/// The front of `keys` that one answer may have.
fn bounded(keys: impl Iterator<Item = Key>, limit: usize) -> Vec<Key> {
    let mut bytes = 0;
    let within = |key: &Key| {
        let before = bytes;
        bytes += key.name().len();
        before < NAMES_BYTES_MAX
    };
    keys.take(limit).take_while(within).collect()
}

/// A data store.
pub trait Store: Send + Sync + 'static {
    /// What it can do; constant.
    fn caps(&self) -> Caps;

    /// Whether it has documents that only we write: all of them where it is owned, or some beside the rows of others.
    /// Of these FLUSHDB clears all, and what has expired is removed; all key spaces have some. Constant.
    fn has_documents(&self) -> bool {
        self.caps().owned
    }

    /// Whether only we write the document of `key`; told without asking the store.
    fn owns(&self, key: &Key) -> bool {
        let _ = key;
        self.caps().owned
    }

    /// What to call it where people look: `embedded shop.redb`.
    fn name(&self) -> String;

    /// A number that no earlier opening of this store had; versions and ids are minted under it. It rises while the
    /// store is in use only if the store had to be reopened and lost what was acknowledged but not yet flushed: then
    /// whoever caches must drop the cache, and commits minted before are refused.
    fn incarnation(&self) -> u64;

    /// Sequence numbers up to this one may have been given out under its incarnation before.
    fn minted(&self) -> u64 {
        0
    }

    /// Reads `keys` in one round trip; the answers are in the order of `keys`. There is one at least, and none behind
    /// the document that makes them more than `bytes_max` bytes ([`Value::size`]); [`portion`] has the contract.
    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>>;

    /// All of `keys`, however large: for few keys. No store has another.
    fn get<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.get_within(keys, usize::MAX)
    }

    /// As [`Store::get_within`], while no client waits: the cache looks whether what it has is what the store holds. At
    /// the outage's gate it is not counted, and fails where it would have to wait.
    fn peek<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.get_within(keys, bytes_max)
    }

    /// Reads documents that commits wait for, each with those of their ids whose commits were applied by the moment of
    /// which the read tells: what they did is in it, what the others do is not. `None` from a store that can't tell.
    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        let _ = asked;
        Box::pin(futures_util::future::ready(Ok(None)))
    }

    /// Commits a group; answers one outcome per commit, in order. An ordered store applies a prefix of the group.
    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>>;

    /// As [`Store::commit`], for a store that hands the group to another thread: it need not copy it. Until it answers
    /// it may keep the group, afterwards it must not.
    fn commit_shared(&self, group: Arc<Vec<Commit>>) -> BoxFuture<'_, Vec<CommitOutcome>> {
        Box::pin(async move { self.commit(&group).await })
    }

    /// These keys are about to be written, one after the other: a store in memory may have what it needs of all of
    /// them fetched at the same time. Changes nothing.
    fn expect_writes(&self, keys: &[KeyRef<'_>]) {
        let _ = keys;
    }

    /// Whether [`Store::commit_now`] ever commits; constant.
    fn commits_now(&self) -> bool {
        false
    }

    /// Commits at once, if the store never has to wait for anything: then a commit needs no group, and whoever commits
    /// goes on without handing it over. `None` from all others, always. Never [`CommitOutcome::Unknown`]: who does not
    /// wait knows what it has done.
    fn commit_now(&self, commit: &Commit) -> Option<CommitOutcome> {
        let _ = commit;
        None
    }

    /// What became of a commit that answered [`CommitOutcome::Unknown`]. Reopens what has to be reopened first.
    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>>;

    /// As [`Store::outcome`] for many commits of a group that was not answered; one answer each, in the order of `ids`.
    /// Those that were not applied never will be, under these ids.
    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        Box::pin(async move {
            let mut resolved = Vec::with_capacity(ids.len());
            for id in ids {
                resolved.push(self.outcome(*id).await?);
            }
            Ok(resolved)
        })
    }

    /// The ids that clients gave their transactions, with the versions under which they were committed, oldest first:
    /// at least the last [`GIVEN_IDS_KEPT`], or those of the last ten minutes, if the store outlives its process.
    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        Box::pin(futures_util::future::ready(Ok(Vec::new())))
    }

    /// Why the store would surely refuse `commit`, as far as it can tell without being asked: a key that names
    /// nothing, a field that is not there.
    fn refuses(&self, commit: &Commit) -> Option<String> {
        let _ = commit;
        None
    }

    /// Which store it is and what it takes, as a text for whoever starts while it is away; `None` from a store that
    /// never is.
    fn catalogue(&self) -> Option<String> {
        None
    }

    /// Commits with ids from `oldest` on are kept elsewhere and may still come, however many others come before: so
    /// whether they were applied must not be forgotten. `None`: none is kept any more.
    fn keep_ids_from(&self, oldest: Option<TxnId>) {
        let _ = oldest;
    }

    /// The newest commits that it has acknowledged, oldest first, as far as it takes to recognise it when it is opened
    /// again: where one of them is missing then, it was put back to an earlier state. Empty from a store that can't be.
    fn acknowledged(&self) -> Vec<TxnId> {
        Vec::new()
    }

    /// A version of the document of `key` that it has given out in an earlier incarnation, as it gives it out now: the
    /// number of a row of a table that others write to stays, and the incarnation is the one in which it is read.
    fn as_read_now(&self, key: &Key, version: Version) -> Version {
        let _ = key;
        version
    }

    /// It was opened in an earlier state than its opener knew ([`Store::acknowledged`]). Constant once it is open.
    fn went_back(&self) -> bool {
        false
    }

    /// That is so because it is another one, and no copy of the one that its opener knew. Constant once it is open.
    fn is_another(&self) -> bool {
        false
    }

    /// Which other owners had it since the journal that its opener knew did. Constant once it is open.
    fn owned_since(&self) -> Option<&str> {
        None
    }

    /// Another owner has taken it over: it takes no commit of ours any more, what is cached of it is worth nothing, and
    /// nothing changes that but another start. The text names that owner. Once said, it stays.
    fn fenced(&self) -> Option<&str> {
        None
    }

    /// It is known to be away, so that what is cached has to do; from the outage's gate alone.
    fn is_away(&self) -> bool {
        false
    }

    /// At most `limit` keys of `space` in the store's order, after `after`, and none after their names pass
    /// [`NAMES_BYTES_MAX`]; fewer than these bounds allow means the end ([`ended`]).
    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>>;

    /// Number of documents in `space`, expired ones that were not reaped included.
    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>>;

    /// Removes all documents of `spaces`, durably; `version`, newly minted, is that of their absence, so that who
    /// watches one sees it go. Repeating it is harmless.
    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>>;

    /// At most `limit` keys whose expiry is at or before `now_ms`, earliest first, and none after their names pass
    /// [`NAMES_BYTES_MAX`].
    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>>;

    /// Whether it can be asked and answers; an error that it answers with counts as an answer.
    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async {
            match self.get(&[Key::new(0, b"forebay:ping")]).await {
                Err(ReadError::Unavailable(error)) => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// Documents whose order among each other matters to the store beyond their own have the same number: their tables
    /// are joined by constraints, or their rows are. None: only the order of changes to the same document matters.
    fn lane(&self, key: &Key) -> Option<u32> {
        let _ = key;
        None
    }

    /// The documents that `key` names, once `changes` are made to it, in the store's own sense (a foreign key): it
    /// refuses the changes where one of these is not there. As far as it can tell without being asked.
    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        let _ = (key, changes);
        Vec::new()
    }

    /// Bytes of memory that the store may hold for itself (page cache), to be counted in the cache's budget.
    fn memory_bytes(&self) -> usize;

    /// What operators want to know of it, if it is a database of its own.
    fn figures(&self) -> Option<figures::StoreFigures> {
        None
    }

    /// Which of `checks` have another version by now, all compared at one moment. For stores that others write to.
    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            let keys: Vec<Key> = checks.iter().map(|(key, _)| key.clone()).collect();
            let reads = self.get(&keys).await?;
            let overtaken = checks.iter().zip(reads).filter(|((_, version), read)| read.version != *version);
            Ok(overtaken.map(|((key, _), _)| key.clone()).collect())
        })
    }

    /// What the document of `key` is in the store, and so which changes it takes; told without asking the store.
    fn form(&self, key: &Key) -> Form {
        let _ = key;
        Form::Document
    }

    /// The documents that share their place in the store with this one, and so lock and version: what changes one may
    /// change the others. It is one of theirs in turn.
    fn beside(&self, key: &Key) -> Vec<Key> {
        let _ = key;
        Vec::new()
    }

    /// A document that is a record in the store, as one text; `None` where a document of this kind has none.
    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        let _ = (key, value);
        None
    }

    /// What it comes to that a document which is a record is set by one text, or why that can't be. `None`: the text
    /// is the document.
    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        let _ = (key, text);
        None
    }

    /// `change` of `key` with its values in the form in which the store will show them, as far as that is sure without
    /// asking it: `7` for `007` in a column of integers.
    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        let _ = key;
        change
    }

    /// Waits until others have written something, and says what; what is cached of it is out of date. `None`, at once
    /// and always, from a store that nobody else writes to, or that can't tell. The first answer is
    /// [`Outside::Everything`]: from then on nothing is missed.
    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(futures_util::future::ready(None))
    }

    /// Has [`Store::outside`] look soon; its [`Outside::Synced`] of the number answered, or of a greater one, says when
    /// all is told that was committed before this call. `None` from a store that nothing watches.
    fn sync(&self) -> Option<u64> {
        None
    }

    /// Looks again at what it knows of its tables; what is cached of them is out of date then. Why they stay as known.
    fn reload(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(futures_util::future::ready(Err("this store has no tables that could be altered".into())))
    }

    /// Whether it has answered since this was asked last that a table is not as it is known.
    fn is_altered(&self) -> bool {
        false
    }

    /// The tables that others may write to and that [`Store::outside`] does not tell of.
    fn unwatched(&self) -> Vec<String> {
        Vec::new()
    }

    /// The place in [`Store::unwatched`] of the table that `key` is in; `None` if it is in none of these.
    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        let _ = key;
        None
    }

    /// Others may have changed these documents, and what was cached of them is dropped: what waits here for one is made
    /// to what the store holds by then before it is shown again. Only the outage's gate keeps writes.
    fn doubt(&self, what: Doubt<'_>) {
        let _ = what;
    }

    /// The number of the last [`Store::doubt`]. A transaction asks before it reads, for [`Commit::doubts`].
    fn doubts(&self) -> u64 {
        0
    }

    /// Makes all that was acknowledged durable, whatever the durability setting; for a graceful stop.
    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>>;
}

/// Answers a group with `apply`, in order, up to the first commit that is not applied: what stands behind it may have
/// been built on it, so it is surely not applied either.
fn in_order(group: &[Commit], mut apply: impl FnMut(&Commit) -> CommitOutcome) -> Vec<CommitOutcome> {
    let mut stopped_by = None;
    let answer = |commit: &Commit| {
        if let Some(id) = stopped_by {
            return CommitOutcome::Unavailable(behind(id));
        }
        let outcome = apply(commit);
        if !outcome.is_applied() {
            stopped_by = Some(commit.id);
        }
        outcome
    };
    group.iter().map(answer).collect()
}

fn behind(id: TxnId) -> String {
    format!("commit {id}, ahead in the same group, was not applied; run the transaction again")
}

fn denied(id: TxnId) -> String {
    format!("commit {id} was reported as not applied; run the transaction again under a new id")
}

fn below_floor(id: TxnId) -> String {
    let remembered = applied::APPLIED_IDS_MAX;
    format!("commit {id} is older than the last {remembered}, so whether it was applied is no longer known")
}
