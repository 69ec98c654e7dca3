//! The documents that a transaction has read and changed: what commands work on. Reading them asks nobody; they were
//! loaded before. Changes stay here until the commit.

mod bytes;
mod clock;
mod durations;
mod fronted;
mod undo;
mod writes;

use std::sync::Arc;

use clock::Clock;
use fronted::{Fronted, MovedRow};
use smallvec::SmallVec;
use thiserror::Error;
use undo::Before;

use crate::change::{ApplyError, Change, Changes, apply, apply_all};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::runtime::Runtime;
use crate::store::forms::OnDelete;
use crate::store::{Store, remakes};
use crate::value::Value;
use crate::version::Version;

/// Documents above which look-ups go through an index.
const SCAN_MAX: usize = 16;

/// Why a command could not read or change a document.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentError {
    /// The change does not fit the document.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The command declared another set of keys than it uses.
    #[error("{0} was not loaded for this command")]
    NotLoaded(Key),
    /// The transaction was begun read-only.
    #[error("the transaction is read-only")]
    ReadOnly,
    /// The document is a row, whose mapping lets no command delete it.
    #[error(
        "{0} is a row, which is not deleted: CACHE INVALIDATE {0} drops its cached copy; with delete=row in its \
         mapping, DEL deletes the row"
    )]
    NotDeleted(Key),
    /// Its row was made or deleted by what the transaction did to another document of it, so only the store knows what
    /// it holds.
    #[error(
        "{0} is in the row that this transaction has made or deleted by {1}: what it holds is known after the commit"
    )]
    RowMoved(Key, Key),
    /// The store has no such document.
    #[error("{0}")]
    Refused(String),
}

/// The documents of one transaction.
#[derive(Debug, Default)]
pub struct Documents {
    list: SmallVec<[Document; 1]>,
    index: Option<hashbrown::HashMap<Key, usize, foldhash::quality::RandomState>>,
    clock: Clock,
    /// What is written gets it, where that is known before the commit.
    version: Option<Version>,
    read_only: bool,
    /// What the documents changed since the savepoint were before; `None` without a savepoint.
    undo: Option<Vec<Before>>,
    /// Number of the savepoint.
    savepoint: u64,
    fronted: Option<Fronted>,
    /// Copies that are to leave the cache at a moment, ms since the Unix epoch; whether that counts from the commit.
    fresh_until: Vec<(Key, u64, bool)>,
    /// How many of them there were at the savepoint.
    fresh_before: usize,
    /// Changes that were made.
    turns: usize,
    /// Bytes of all documents.
    held_bytes: usize,
}

#[derive(Debug)]
struct Document {
    key: Key,
    /// What cache or store said; `None` while only blind writes have touched it.
    base: Option<Read>,
    current: Option<Value>,
    changes: Changes,
    /// Nobody could say what it holds: `current` is what `changes` make of nothing.
    unseen: bool,
    /// Its expiry was told as a duration: it counts from the commit.
    relative: bool,
    /// What it holds was told, or decided what is written.
    told: bool,
    /// The savepoint since which it was changed, and its place in `undo`.
    saved: (u64, usize),
    /// Its place among all that were changed, by the first of its changes.
    turn: usize,
    /// Bytes of `changes`.
    changes_bytes: usize,
    /// One of `changes` [`remakes`] a list.
    remade: bool,
    /// What it counts for in the bytes of all.
    counted_bytes: usize,
}

impl Document {
    /// Of which nothing is known.
    fn new(key: Key) -> Document {
        Document {
            key,
            base: None,
            current: None,
            changes: Changes::new(),
            unseen: false,
            relative: false,
            told: false,
            saved: (0, 0),
            turn: 0,
            changes_bytes: 0,
            remade: false,
            counted_bytes: 0,
        }
    }

    /// Whether nothing was done to it, and it is absent since it has expired.
    fn has_expired(&self) -> bool {
        self.changes.is_empty() && self.current.is_none() && self.base.as_ref().is_some_and(|base| base.value.is_some())
    }

    /// What removes it, if it has expired, before the first change that does not take its place.
    fn removed_before(&self, is_record: bool, clock: &Clock) -> Option<Change> {
        match self.changes.is_empty() {
            true if self.has_expired() => Some(Change::Delete),
            // Whether it had expired by now will be seen when it is seen.
            true if self.unseen && !is_record => Some(Change::RemoveExpired(clock.now_ms())),
            _ => None,
        }
    }
}

impl Documents {
    /// No documents, at the moment that counts for expiry in this transaction.
    pub fn new(now_ms: u64) -> Documents {
        Documents { clock: Clock::at(now_ms), ..Documents::default() }
    }

    /// No documents; that moment will be the one at which it is first asked for.
    pub(super) fn with_clock(runtime: &Runtime) -> Documents {
        Documents { clock: Clock::of(runtime), ..Documents::default() }
    }

    /// The same, in front of a store that others write to: documents there are records.
    pub(super) fn in_front_of(runtime: &Runtime, store: Option<&Arc<dyn Store>>) -> Documents {
        Documents { fronted: store.cloned().map(Fronted), ..Documents::with_clock(runtime) }
    }

    /// Whether an expiry is no part of the document of `key`: it bounds how long its copy in the cache is believed.
    pub fn expiry_is_freshness(&self, key: KeyRef<'_>) -> bool {
        self.fronted.as_ref().is_some_and(|fronted| !fronted.owns(key))
    }

    /// Has the cached copy of `key` leave the cache at this moment, if the transaction commits. `relative`: the moment
    /// was told as a duration, which counts from the commit.
    pub fn bound_freshness(&mut self, key: KeyRef<'_>, until_ms: u64, relative: bool) -> Result<(), DocumentError> {
        if self.read_only {
            return Err(DocumentError::ReadOnly);
        }
        self.fresh_until.push((key.to_key(), until_ms, relative));
        Ok(())
    }

    /// The copies whose freshness was bounded; they are taken out.
    pub(super) fn take_fresh_until(&mut self) -> Vec<(Key, u64)> {
        std::mem::take(&mut self.fresh_until).into_iter().map(|(key, until_ms, _)| (key, until_ms)).collect()
    }

    /// `value`, which `key` holds, as one text; `None` where it has none.
    pub fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.fronted.as_ref().and_then(|fronted| fronted.0.text_of(key, value))
    }

    /// The transaction's one reading of the wall clock, ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Sets that moment; to be called before anything is loaded.
    pub(super) fn set_now(&mut self, now_ms: u64) {
        self.clock.set(now_ms);
    }

    /// From now on changes are refused.
    pub fn set_read_only(&mut self) {
        self.read_only = true;
    }

    /// Makes room for `count` documents.
    pub(super) fn reserve(&mut self, count: usize) {
        self.list.reserve_exact(count.saturating_sub(self.list.len()));
    }

    fn position(&self, key: KeyRef<'_>) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&key).copied(),
            None => self.list.iter().position(|document| document.key.borrow() == key),
        }
    }

    #[inline]
    fn push(&mut self, document: Document) -> usize {
        let at = self.list.len();
        if let Some(index) = &mut self.index {
            index.insert(document.key.clone(), at);
        }
        self.list.push(document);
        if self.index.is_none() && self.list.len() > SCAN_MAX {
            self.index = Some(self.list.iter().enumerate().map(|(at, doc)| (doc.key.clone(), at)).collect());
        }
        at
    }

    /// Whether the transaction knows what `key` holds.
    pub fn loaded(&self, key: KeyRef<'_>) -> bool {
        self.position(key).is_some_and(|at| {
            let document = &self.list[at];
            document.base.is_some() || !(document.changes.is_empty() || document.unseen)
        })
    }

    /// Takes in that nobody can say what `key` holds: it can be changed, by what does not look.
    pub(super) fn load_unseen(&mut self, key: Key) {
        if self.position(key.borrow()).is_none() {
            self.push(Document { unseen: true, ..Document::new(key) });
        }
    }

    /// Whether anything is.
    pub fn any_unseen(&self) -> bool {
        self.list.iter().any(|document| document.unseen)
    }

    /// Whether `key` is changed without being known: what is read of it is not what it holds.
    pub fn unseen(&self, key: KeyRef<'_>) -> bool {
        self.position(key).is_some_and(|at| self.list[at].unseen)
    }

    /// Takes in what cache or store says of `key`.
    pub fn load(&mut self, key: Key, read: Read) {
        let expires = |value: &Value| value.expires_at_ms.is_some() && value.expired(self.now_ms());
        let current = read.value.clone().filter(|value| !expires(value));
        let known = self.position(key.borrow());
        match known {
            Some(at) if self.list[at].changes.is_empty() => {
                self.list[at].unseen = false;
                (self.list[at].base, self.list[at].current) = (Some(read), current);
            }
            // Changed unseen, and seen now.
            Some(at) if self.list[at].unseen => {
                let mut seen = current;
                if apply_all(&mut seen, &self.list[at].changes).is_ok() {
                    self.remember(at);
                    let document = &mut self.list[at];
                    (document.base, document.current, document.unseen) = (Some(read), seen, false);
                }
            }
            // Own writes come first.
            Some(at) => self.list[at].base = Some(read),
            None => {
                let at = self.push(Document { base: Some(read), current, ..Document::new(key) });
                return self.weigh(at);
            }
        }
        if let Some(at) = known {
            self.weigh(at);
        }
    }

    /// Whether one that was read is absent since it has expired, and not by a write.
    pub fn any_expired(&self) -> bool {
        self.list.iter().any(Document::has_expired)
    }

    /// What `key` holds in the eyes of this transaction, own writes included.
    pub fn value(&self, key: KeyRef<'_>) -> Result<Option<&Value>, DocumentError> {
        match self.position(key) {
            Some(at) if mutation::on(Fault::OwnWritesHidden) => {
                Ok(self.list[at].base.as_ref().and_then(|base| base.value.as_ref()))
            }
            Some(at) => match self.moved_row(at) {
                None => Ok(self.list[at].current.as_ref()),
                Some(moved) if moved.gone => Ok(None),
                Some(moved) => Err(moved.refused(key)),
            },
            None => Err(DocumentError::NotLoaded(key.to_key())),
        }
    }

    /// What was done to the row of the document at `at` by way of its others.
    fn moved_row(&self, at: usize) -> Option<MovedRow<'_>> {
        let fronted = self.fronted.as_ref().filter(|_| self.turns > 0 && self.list.len() > 1)?;
        let others = fronted.0.beside(&self.list[at].key);
        let others = others.iter().filter_map(|other| self.position(other.borrow())).map(|other| &self.list[other]);
        fronted.moved_row(&self.list[at], others)
    }

    /// The version that `key` had when it was loaded.
    pub fn version(&self, key: KeyRef<'_>) -> Option<Version> {
        self.position(key).and_then(|at| self.list[at].base.as_ref()).map(|read| read.version)
    }

    /// Changes `key`. A document that has expired is removed first. Only `Put` and `Delete` work on one not loaded.
    pub fn change(&mut self, key: KeyRef<'_>, change: Change) -> Result<(), DocumentError> {
        if self.read_only {
            return Err(DocumentError::ReadOnly);
        }
        let deletes = matches!(change, Change::Delete);
        if deletes && self.on_delete(key) != OnDelete::Row {
            return Err(DocumentError::NotDeleted(key.to_key()));
        }
        if let Some(changes) = self.fronted.as_ref().and_then(|fronted| fronted.changes_of_text(key, &change)) {
            let changes = changes?;
            if let Some(moved) = self.deleted_beside(key) {
                return Err(moved.refused(key));
            }
            // The text of a record says nothing of the fields that it does not name.
            self.load_unseen(key.to_key());
            return changes.into_iter().try_for_each(|change| self.change(key, change));
        }
        let change = match &self.fronted {
            Some(fronted) => fronted.as_stored(key, change),
            None => change,
        };
        let Some(at) = self.place_to_change(key, &change)? else { return Ok(()) };
        self.change_at(at, change)?;
        if deletes {
            self.void_others(at);
        }
        Ok(())
    }

    fn change_at(&mut self, at: usize, change: Change) -> Result<(), DocumentError> {
        let deletes = matches!(change, Change::Delete);
        let blind = deletes || matches!(change, Change::Put(_));
        self.remember(at);
        let document = &mut self.list[at];
        let fronted = self.fronted.as_ref();
        let is_record = fronted.is_some_and(|fronted| document.unseen && !fronted.owns(document.key.borrow()));
        let made =
            fronted.map(|fronted| fronted.made_by(&document.key, document.current.as_ref(), document.unseen, &change));
        if matches!(made, Some(None)) {
            return Ok(());
        }
        let made = made.flatten();
        let removes = if blind { None } else { document.removed_before(is_record, &self.clock) };
        let (earlier, before) = (document.changes.len(), document.current.is_none());
        if let Some(removes) = removes {
            document.changes.push(removes);
        }
        let mut apply_next = |change: &Change| apply(&mut document.current, change);
        if let Err(error) = made.iter().flatten().try_for_each(&mut apply_next).and_then(|()| apply_next(&change)) {
            // Only what stands there for this change's sake: an own DELETE before it stays.
            document.changes.truncate(earlier);
            document.current.take_if(|_| before);
            return Err(error.into());
        }
        // A row that was there before stays without that.
        let fronted = fronted.filter(|_| deletes && document.base.as_ref().is_none_or(|base| base.value.is_none()));
        let left = fronted.and_then(|fronted| fronted.emptied(&document.key, &document.changes));
        if blind {
            // Nothing that came before shows any more.
            document.unseen = false;
            (document.changes_bytes, document.remade) = (change.memory_bytes(), false);
            if !document.changes.is_empty() {
                let replaced = std::mem::take(&mut document.changes);
                self.keep_replaced(at, replaced);
            }
        } else {
            document.changes.extend(made.into_iter().flatten());
            let more = document.changes[earlier..].iter().chain([&change]);
            document.changes_bytes += more.map(Change::memory_bytes).sum::<usize>();
        }
        let document = &mut self.list[at];
        document.remade |= remakes(&change);
        document.relative &= !matches!(change, Change::Put(_) | Change::Delete | Change::ExpireAt(_) | Change::Persist);
        self.turns += 1;
        if blind || earlier == 0 {
            document.turn = self.turns;
        }
        match left {
            Some(left) => {
                document.changes_bytes = left.iter().map(Change::memory_bytes).sum();
                document.changes.extend(left);
            }
            None => document.changes.push(change),
        }
        self.weigh(at);
        Ok(())
    }

    /// The document at `at` is deleted. If that is its row, what was changed before of the others of the row comes to
    /// nothing. It is no write: it would seem to stand after the deletion.
    fn void_others(&mut self, at: usize) {
        let Some(fronted) = self.fronted.as_ref().filter(|_| !mutation::on(Fault::BesideUnmoved)) else { return };
        let others = fronted.gone_with(&self.list[at].key);
        let changed = |at: &usize| !self.list[*at].changes.is_empty();
        let others = others.iter().filter_map(|other| self.position(other.borrow())).filter(changed);
        for at in others.collect::<Vec<usize>>() {
            self.remember(at);
            let document = &mut self.list[at];
            document.current = document.base.as_ref().and_then(|base| base.value.clone());
            document.unseen = document.base.is_none();
            (document.changes_bytes, document.remade) = (0, false);
            let void = std::mem::take(&mut document.changes);
            self.keep_replaced(at, void);
            self.weigh(at);
        }
    }

    /// Who has deleted the row of `key` by another of its documents, whether that of `key` was read or not.
    fn deleted_beside(&self, key: KeyRef<'_>) -> Option<MovedRow<'_>> {
        let fronted = self.fronted.as_ref().filter(|_| self.turns > 0)?;
        let others = fronted.0.beside(&key.to_key());
        let others = others.iter().filter_map(|other| self.position(other.borrow()));
        fronted.deleted_by(others.map(|at| &self.list[at]))
    }

    /// The place of what `change` changes; none where that is a deletion and the document is gone with its row.
    fn place_to_change(&mut self, key: KeyRef<'_>, change: &Change) -> Result<Option<usize>, DocumentError> {
        let at = match self.position(key) {
            Some(at) => at,
            None if matches!(change, Change::Put(_) | Change::Delete) => self.push(Document::new(key.to_key())),
            None => return Err(DocumentError::NotLoaded(key.to_key())),
        };
        // Of what was not read it is known only that its row was deleted.
        let moved = if self.list[at].base.is_none() { self.deleted_beside(key) } else { self.moved_row(at) };
        match moved {
            None => Ok(Some(at)),
            Some(moved) if moved.gone && *change == Change::Delete => Ok(None),
            Some(moved) => Err(moved.refused(key)),
        }
    }

    /// What comes of it that `key` is deleted.
    pub fn on_delete(&self, key: KeyRef<'_>) -> OnDelete {
        self.fronted.as_ref().map_or(OnDelete::Row, |fronted| fronted.on_delete(key))
    }

    /// What was read from cache or store, with the version and whether it was there; for histories.
    pub fn reads(&self) -> impl Iterator<Item = (&Key, Version, bool)> {
        self.list.iter().filter_map(|document| {
            let base = document.base.as_ref()?;
            Some((&document.key, base.version, base.value.is_some()))
        })
    }
}

#[cfg(test)]
mod tests;
