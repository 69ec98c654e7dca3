//! How a transaction takes its locks, and what it checks in front of a store that others write to as well.

use std::time::Duration;

use futures_util::future::{Either, select};

use super::super::locks::{Acquired, Refused};
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
        // Before the wait: whatever becomes of it, dropping the transaction gives the key up.
        self.held.set(key, mode);
        match self.inner.locks.acquire(self.owner, key, mode) {
            Acquired::Granted => {}
            Acquired::Wait(woken) => {
                let bounds = &self.inner.limits;
                let spread = bounds.lock_wait_ms_max.saturating_sub(bounds.lock_wait_ms_min) + 1;
                let wait_ms = bounds.lock_wait_ms_min + self.inner.runtime.random() % spread;
                let sleep = self.inner.runtime.sleep(Duration::from_millis(wait_ms));
                let timed_out = matches!(select(woken, sleep).await, Either::Right(_));
                // The lock may have been granted in the very moment.
                if timed_out && !self.inner.locks.holds(self.owner, key, mode) {
                    return Err(TxnError::Conflict(format!("waited {wait_ms} ms for the lock of {key}")));
                }
            }
            Acquired::Refused(Refused::Deadlock) => {
                return Err(TxnError::Conflict(format!("deadlock at {key}")));
            }
            Acquired::Refused(Refused::Upgrade) => {
                return Err(TxnError::Conflict(format!("{key} is being written by another transaction")));
            }
        }
        Ok(())
    }

    async fn lock_space(&mut self, space: u8) -> Result<(), TxnError> {
        if self.spaces & (1 << space) != 0 {
            return Ok(());
        }
        if let Some(wait) = self.inner.locks.acquire_space(space, false) {
            let sleep = self.inner.runtime.sleep(Duration::from_millis(self.inner.limits.lock_wait_ms_max));
            if let Either::Right(_) = select(std::pin::pin!(wait.granted()), sleep).await {
                return Err(TxnError::Conflict("the key space is being cleared".into()));
            }
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

    /// Forgets what is cached of what it has locked.
    pub(in crate::txn) fn forget_cached(&self) {
        self.held.keys.iter().for_each(|key| self.inner.cache.remove(key));
    }

    /// Compares all that was read with the store, if that was asked for.
    pub(super) async fn check_reads(&self) -> Result<(), TxnError> {
        let checks = if self.kind == TxnKind::ReadOnlyChecked { self.checks() } else { Vec::new() };
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
