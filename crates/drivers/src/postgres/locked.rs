//! Tables that another session has locked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use super::session::Session;

/// Stands for the table that forebay owns: no table has this number.
pub(super) const DOCUMENTS: u32 = 0;

/// The connection over which reads of a locked table go, one at a time.
pub(super) type Slot = Arc<AsyncMutex<Option<Arc<Session>>>>;

/// Tables that somebody has locked.
#[derive(Default)]
pub(super) struct Locked(Mutex<Vec<(Vec<u32>, Slot)>>);

impl Locked {
    fn all(&self) -> MutexGuard<'_, Vec<(Vec<u32>, Slot)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a read of `tables` goes, if some of them are locked.
    pub(super) fn slot_of(&self, tables: &[u32]) -> Option<Slot> {
        let locked = self.all();
        let found = locked.iter().find(|(some, _)| some.iter().all(|table| tables.contains(table)));
        found.map(|(_, slot)| slot.clone())
    }

    /// One of `tables` is locked, and nobody can say which.
    pub(super) fn note(&self, tables: &[u32]) {
        let mut locked = self.all();
        if !locked.iter().any(|(some, _)| some == tables) {
            tracing::warn!(?tables, "a table is locked in PostgreSQL: reads of it wait, or are refused");
            locked.push((tables.to_vec(), Slot::default()));
        }
    }

    pub(super) fn is_on(&self, slot: &Slot) -> bool {
        self.all().iter().any(|(_, other)| Arc::ptr_eq(slot, other))
    }

    /// A read got through.
    pub(super) fn is_over(&self, slot: &Slot) {
        self.all().retain(|(_, other)| !Arc::ptr_eq(slot, other));
    }
}
