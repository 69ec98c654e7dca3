//! The mapped tables, as the file has them now.
//!
//! **Invariant.** A transaction uses the tables as they are in its snapshot. It compares the number of the schema
//! first, and looks the tables up again where that is another. Where a mapping no longer fits, or
//! the triggers are gone that keep versions, all that is asked of rows is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::Connection;

use super::rows::catalogue::{self, Looked};
use crate::sql::keys::Named;
use crate::sql::mapping::Mapping;
use crate::sql::remembered::Remembered;
use crate::sql::watching::OutsideBy;

/// What was asked for, by settings.
pub(super) struct Wanted {
    /// Which keys are rows of which tables.
    pub(super) mappings: Vec<Mapping>,
    /// Which keys are documents beside these.
    pub(super) named: Option<Arc<Named>>,
    /// Bytes of their rows, at most.
    pub(super) row_bytes_max: usize,
    /// How what others write is seen.
    pub(super) outside: OutsideBy,
}

/// The tables, and what was asked for.
pub(super) struct Mapped {
    pub(super) wanted: Wanted,
    looked: RwLock<Arc<Looked>>,
    altered: AtomicBool,
}

impl Wanted {
    /// Looks the tables up; the inner error lists what is wrong.
    pub(super) fn look_up(
        &self,
        connection: &Connection,
        remembered: Option<&Remembered>,
    ) -> Result<Result<Looked, Vec<String>>, rusqlite::Error> {
        let looked = catalogue::look_up(connection, &self.mappings, remembered)?;
        Ok(looked.map(|looked| {
            let tables = looked.tables.up_to(self.row_bytes_max).seen_by(self.outside);
            Looked { tables: tables.beside_documents(self.named.clone()), ..looked }
        }))
    }
}

impl Mapped {
    pub(super) fn new(wanted: Wanted, looked: Looked) -> Mapped {
        Mapped { wanted, looked: RwLock::new(Arc::new(looked)), altered: AtomicBool::new(false) }
    }

    /// The tables as they were when they were looked up last.
    pub(super) fn looked(&self) -> Arc<Looked> {
        self.looked.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tables as they are in the snapshot of `connection`; the inner error says why they can't be used.
    pub(super) fn current(&self, connection: &Connection) -> Result<Result<Arc<Looked>, String>, rusqlite::Error> {
        let looked = self.looked();
        if looked.schema == catalogue::schema(connection)? {
            return Ok(Ok(looked));
        }
        self.altered.store(true, Ordering::Relaxed);
        Ok(match self.wanted.look_up(connection, None)? {
            Ok(looked) => {
                let looked = Arc::new(looked);
                *self.looked.write().unwrap_or_else(PoisonError::into_inner) = looked.clone();
                Ok(looked)
            }
            Err(lines) => Err(lines.join("; ")),
        })
    }

    /// Whether the schema was found to be another since this was asked last.
    pub(super) fn is_altered(&self) -> bool {
        self.altered.swap(false, Ordering::Relaxed)
    }
}
