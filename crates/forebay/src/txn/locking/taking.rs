//! How a transaction takes its locks, and what it checks in front of a store that others write to as well.

use super::super::locks::{Acquired, Refused, Request};
use super::{Mode, Transaction, TxnError, TxnKind};
use crate::key::{KEY_BYTES_MAX, Key};
use crate::version::Version;

impl Transaction {
    /// Locks `key`, and with it the documents that share its place in the store.
    pub(super) async fn lock(&mut self, key: &Key, mode: Mode) -> Result<(), TxnError> {
        if self.held.mode(key).is_some_and(|held| held >= mode) {
            return Ok(());
        }
        let mut beside = match &self.inner.fronted {
            Some(store) => store.beside(key),
            None => Vec::new(),
        };
        if beside.is_empty() {
            return self.lock_one(key, mode).await;
        }
        // All take them in one order.
        beside.push(key.clone());
        beside.sort_unstable();
        for key in &beside {
            self.lock_one(key, mode).await?;
        }
        Ok(())
    }

    async fn lock_one(&mut self, key: &Key, mode: Mode) -> Result<(), TxnError> {
        if self.held.mode(key).is_some_and(|held| held >= mode) {
            return Ok(());
        }
        if key.name().len() > KEY_BYTES_MAX {
            return Err(TxnError::Refused(format!("a key of {} bytes: at most {KEY_BYTES_MAX}", key.name().len())));
        }
        self.lock_space(key.space()).await?;
        if let Some(tenure) = &self.tenure {
            tenure.asks(key)?;
        }
        let number = self.patience.place.as_ref().filter(|(waited, _)| waited == key).map(|(_, number)| *number);
        // Before the wait: whatever becomes of it, dropping the transaction gives the key up.
        let before = self.held.keys.len();
        self.held.set(key, mode);
        let held = &self.held.keys[..before];
        match self.inner.locks.acquire(Request { owner: self.owner, key, mode, held, number }) {
            Acquired::Granted => {}
            Acquired::Wait(_) if self.patience.no_wait => {
                return Err(TxnError::Conflict(format!("{key} is locked by another transaction")));
            }
            Acquired::Wait(wait) => self.wait_for(key, wait).await?,
            Acquired::Refused(Refused::Deadlock) => {
                return Err(TxnError::Conflict(format!("deadlock at {key}")));
            }
            Acquired::Refused(Refused::Upgrade) => {
                return Err(TxnError::Conflict(format!("{key} is being written by another transaction")));
            }
        }
        match &self.tenure {
            Some(tenure) => tenure.holds(key, self.inner.runtime.elapsed()),
            None => Ok(()),
        }
    }

    async fn lock_space(&mut self, space: u8) -> Result<(), TxnError> {
        if self.spaces & (1 << space) != 0 {
            return Ok(());
        }
        if let Some(wait) = self.inner.locks.acquire_space(self.owner, space) {
            self.wait_for_space(wait).await?;
        }
        if let Some(tenure) = &self.tenure
            && let Err(wounded) = tenure.holds_space(space, self.inner.runtime.elapsed())
        {
            self.inner.locks.release_space(self.owner, space);
            return Err(wounded);
        }
        self.spaces |= 1 << space;
        Ok(())
    }

    /// Locks `keys`, which ascend, against everybody.
    pub(in crate::txn) async fn lock_alone(&mut self, keys: &[Key]) -> Result<(), TxnError> {
        for key in keys {
            self.lock(key, Mode::Exclusive).await?;
        }
        Ok(())
    }

    /// Locks `key` beside its readers.
    pub(in crate::txn) async fn lock_beside(&mut self, key: &Key) -> Result<(), TxnError> {
        self.lock(key, Mode::Shared).await
    }

    /// Forgets what is cached of what it has locked.
    pub(in crate::txn) fn forget_cached(&self) {
        self.held.keys.iter().for_each(|key| self.inner.cache.remove(key));
    }

    /// Compares all that was read with the store, if that was asked for.
    pub(super) async fn check_reads(&self) -> Result<(), TxnError> {
        let validates = self.validates && self.documents.written().next().is_none();
        let checks = match self.kind {
            TxnKind::ReadOnlyChecked => self.checks(),
            _ if validates => self.checks(),
            _ => Vec::new(),
        };
        if checks.is_empty() {
            return Ok(());
        }
        let overtaken = self.inner.store.check(&checks).await?;
        let Some(first) = overtaken.first() else { return Ok(()) };
        overtaken.iter().for_each(|key| self.inner.cache.remove(key));
        Err(TxnError::Conflict(format!("{first} changed")))
    }

    /// Where others write too, what was read must still be current at the commit.
    pub(super) fn checks(&self) -> Vec<(Key, Version)> {
        match self.inner.store.caps().owned {
            true => Vec::new(),
            false => self.documents.reads().map(|(key, version, _)| (key.clone(), version)).collect(),
        }
    }
}
