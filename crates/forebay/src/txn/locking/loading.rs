//! How documents come to a transaction that has locked them: from a commit on its way, the cache, the store.

use smallvec::{SmallVec, smallvec};

use super::{LARGE_BYTES, Transaction, TxnError, TxnKind};
use crate::cache::{AccessKind, Begin, Context, Fill, Follow, Look};
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::portion::PORTION_BYTES_MAX;
use crate::txn::ahead::Ahead;
use crate::txn::locks::Pending;
use crate::txn::settled::Settlement;

/// Keys that are fetched in one store round trip.
const FETCHED_KEYS_MAX: usize = 1024;

impl Transaction {
    /// Loads the keys that are not loaded yet, all locked. A transaction that has to wait for its turn to hold many
    /// gives up what it has, which nobody has seen, and loads all again.
    pub(super) async fn load<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a Key> + Clone,
        ahead: &mut Ahead,
    ) -> Result<(), TxnError> {
        while !self.load_in_turn(keys.clone(), ahead).await? {
            debug_assert!(!self.documents.changed(), "only what is loaded can be given up");
            self.documents = self.inner.documents();
            self.lent = None;
            self.depends.clear();
            ahead.give_up();
            self.turn = Some(self.inner.turn.take().await);
            self.documents.set_now(self.inner.runtime.now_ms());
        }
        Ok(())
    }

    /// Loads them from the results beside their locks, from the cache, and the rest from the store, in one round trip
    /// if it is not much, but for what was fetched ahead. False if it has to wait for its turn.
    async fn load_in_turn<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a Key> + Clone,
        ahead: &mut Ahead,
    ) -> Result<bool, TxnError> {
        self.inner.settle_overdue(keys.clone()).await?;
        self.inner.settle_doubts(keys.clone()).await;
        let mut missing: SmallVec<[Key; 4]> = SmallVec::new();
        // A key that stands twice is missed twice; its second fetch follows the first.
        for (n, key) in keys.enumerate() {
            self.turn_after(n).await;
            if self.documents.loaded(key.borrow()) {
                continue;
            }
            self.has_room_for_more()?;
            if let Some(pending) = self.inner.locks.pending(key) {
                self.load_pending(key, pending)?;
                continue;
            }
            self.asked = true;
            if let Some(read) = self.inner.cache.get(key.borrow(), &self.context) {
                self.documents.load(key.clone(), read);
            } else if let Some(read) = ahead.take(key, &self.context) {
                self.documents.load(key.clone(), read);
            } else {
                missing.push(key.clone());
            }
        }
        // A great many not all together: what is kept of each while it is fetched is more than the document of many.
        let mut later = missing.drain(missing.len().min(FETCHED_KEYS_MAX)..).collect::<Vec<Key>>();
        while !missing.is_empty() {
            // What is known to be long is read by none who would give it up then.
            if !self.has_turn(self.inner.long.bytes_of(&missing)) {
                return Ok(false);
            }
            let asked = self.blind.then(|| missing.clone());
            missing = match (self.fetch(missing).await, asked) {
                (Err(TxnError::StoreDown(_)), Some(asked)) => {
                    self.load_each(asked).await?;
                    SmallVec::new()
                }
                (fetched, _) => fetched?,
            };
            if missing.is_empty() {
                missing.extend(later.drain(later.len().saturating_sub(FETCHED_KEYS_MAX)..));
            }
        }
        if mutation::on(Fault::AbsentNotLocked) {
            let absent = self.documents.reads().filter(|(_, _, present)| !present).map(|(key, ..)| key.clone());
            self.inner.locks.release(self.owner, &absent.collect::<Vec<_>>());
        }
        // What one document is was not known before it came.
        Ok(self.has_turn(0))
    }

    /// Loads what is cached of a record, which a command changes without having to know it: the text of a record names
    /// some fields, and says nothing of the others. Were it buffered unseen, the record would be known to nobody until
    /// the store is back, although it was cached whole.
    pub(super) fn load_cached_record(&mut self, key: &Key) {
        let is_record = || self.inner.store.changes_of_text(key.borrow(), b"{}").is_some();
        if !self.documents.expiry_is_freshness(key.borrow()) || self.documents.loaded(key.borrow()) || !is_record() {
            return;
        }
        let reading = self.inner.cache.reading();
        // What is on its way is cached when it has arrived.
        if self.inner.locks.pending(key).is_none()
            && let Look::Hit(read, _) = self.inner.cache.look(key.borrow().hash64(), key.borrow(), &reading)
        {
            self.documents.load(key.clone(), read);
        }
    }

    /// Loads each of `keys` by itself, since together they can't be: what is known of some, since it is buffered, must
    /// not be taken for unknown because others are. Those that can't be loaded may be changed unseen.
    async fn load_each(&mut self, keys: SmallVec<[Key; 4]>) -> Result<(), TxnError> {
        let several = keys.len() > 1;
        for key in keys {
            while several && !self.documents.loaded(key.borrow()) {
                match self.fetch(smallvec![key.clone()]).await {
                    Err(TxnError::StoreDown(_)) => break,
                    fetched => drop(fetched?),
                }
            }
            if !self.documents.loaded(key.borrow()) {
                self.documents.load_unseen(key);
            }
        }
        Ok(())
    }

    fn load_pending(&mut self, key: &Key, pending: Pending) -> Result<(), TxnError> {
        if let Some(Settlement::Unknown(id)) = pending.settled.told() {
            let why = format!("{key} waits for commit {id}, whose outcome is unknown");
            return Err(TxnError::StoreDown(why));
        }
        // Locks go on when the commit has its place.
        let Some(version) = there(pending.settled.version()) else {
            return Err(TxnError::Conflict(format!("{key} is being written")));
        };
        if version.incarnation != self.incarnation && !mutation::on(Fault::VersionFenceOff) {
            return Err(TxnError::Conflict("the store was reopened".into()));
        }
        self.documents.load(key.clone(), Read { value: pending.value, version });
        if !mutation::on(Fault::PendingShown) {
            self.depends.push(pending.settled);
        }
        Ok(())
    }

    /// An error if what it has loaded leaves no room for another document. The first always has room.
    fn has_room_for_more(&self) -> Result<(), TxnError> {
        match self.documents.held_bytes() > self.bytes_max {
            true => Err(TxnError::TooLarge(self.bytes_max)),
            false => Ok(()),
        }
    }

    /// Whether it has to wait for its turn (`txn/turn.rs`) before it holds so many bytes.
    fn needs_turn(&self, bytes: usize) -> bool {
        let much = bytes > self.inner.limits.turnless_bytes_max;
        let has_turn = self.turn.as_ref().is_some_and(|turn| turn.is_for(bytes));
        much && self.kind == TxnKind::Plain && !has_turn && self.room.is_none()
    }

    /// Whether it may hold what it holds and what is `coming`: little, or in its turn, which it takes if it needs not
    /// wait for it.
    fn has_turn(&mut self, coming: usize) -> bool {
        let bytes = self.documents.held_bytes() + coming;
        if self.needs_turn(bytes) {
            // What it has is for less.
            self.turn = None;
            self.turn = self.inner.turn.try_take(bytes, self.inner.limits.documents_bytes_max);
        }
        !self.needs_turn(bytes)
    }

    /// Has the cache make way for what it holds. What an interactive transaction holds its connection counts.
    fn lend_for_documents(&mut self) {
        let held = self.documents.held_bytes();
        if matches!(self.kind, TxnKind::Plain | TxnKind::Script) && held > LARGE_BYTES {
            self.lent = None;
            self.lent = Some(self.inner.cache.lend_while(held));
        }
    }

    /// Fetches missing keys, a portion at a time: leads the fills that nobody leads, then waits for those that others
    /// lead. Gives back the keys whose leader gave up, and those for which it has to wait for its turn. All own fills
    /// are completed before the first wait, so no two wait for each other.
    async fn fetch(&mut self, missing: SmallVec<[Key; 4]>) -> Result<SmallVec<[Key; 4]>, TxnError> {
        let mut wanted: Vec<Key> = Vec::new();
        let mut fills: Vec<Option<Fill>> = Vec::new();
        let mut follows: Vec<(Key, Follow)> = Vec::new();
        for key in missing {
            match self.inner.cache.begin_fill(&key) {
                Begin::Lead(fill) => fills.push(Some(fill)),
                Begin::Held => fills.push(None),
                Begin::Follow(follow) => {
                    follows.push((key, follow));
                    continue;
                }
            }
            wanted.push(key);
        }
        let (mut left, mut fills, mut again) = (wanted.as_slice(), fills.into_iter(), SmallVec::new());
        while !left.is_empty() {
            self.has_room_for_more()?;
            let bytes_max = PORTION_BYTES_MAX.min(self.bytes_max - self.documents.held_bytes());
            let asked = self.inner.runtime.elapsed();
            let reads = self.inner.store.get_within(left, bytes_max).await?;
            // Reading may have reopened a store that lost something: what is cached, and was read, may be lost too.
            self.inner.committer.follow_incarnation();
            if self.inner.mint.incarnation() != self.incarnation && !mutation::on(Fault::VersionFenceOff) {
                return Err(TxnError::Conflict("the store was reopened".into()));
            }
            let cost_us = (self.inner.runtime.elapsed() - asked).as_micros().min(u128::from(u32::MAX)) as u32;
            let context = Context { cost_us, ..self.context };
            let Some((told, rest)) = left.split_at_checked(reads.len()).filter(|_| !reads.is_empty()) else {
                debug_assert!(false, "{} answers to {} questions", reads.len(), left.len());
                return Err(TxnError::StoreDown("the store gave no answer".into()));
            };
            for ((key, fill), read) in told.iter().zip(fills.by_ref()).zip(reads) {
                self.inner.was_current(key, asked);
                match fill {
                    Some(fill) => drop(fill.complete(&read, &context, AccessKind::Read)),
                    None => self.inner.cache.read_beside(key.borrow(), &read, &context),
                }
                self.inner.long.note(key.borrow(), read.value.as_ref());
                self.documents.load(key.clone(), read);
            }
            left = rest;
            self.lend_for_documents();
            if !left.is_empty() && !self.has_turn(0) {
                if mutation::on(Fault::TurnAwaitedWithFills) {
                    self.turn = Some(self.inner.turn.take().await);
                    continue;
                }
                again.extend(left.iter().cloned());
                break;
            }
        }
        // Whoever waits for its turn leads no fill: others would wait for it.
        drop(fills);
        for (key, follow) in follows {
            self.has_room_for_more()?;
            match follow.read().await {
                Some(read) => {
                    self.inner.cache.read_beside(key.borrow(), &read, &self.context);
                    self.documents.load(key, read);
                }
                None => again.push(key),
            }
        }
        Ok(again)
    }
}
