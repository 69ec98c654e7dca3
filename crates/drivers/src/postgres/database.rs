//! What the driver's tasks share of one database.

use std::sync::Arc;
use std::time::Duration;

use forebay::Key;
use forebay::error::Unavailable;
use forebay::store::ReadError;
use tokio::sync::Notify;

use super::clears::Clears;
use super::locked::Locked;
use super::pool::Pool;
use super::room::Room;
use super::rows::mapped::Rows;
use super::watch::Watch;
use crate::sql::counted::Counted;
use crate::sql::identity::Identity;
use crate::sql::ids::Ids;
use crate::sql::keys::Named;
use crate::sql::mapping::Mapping;
use crate::sql::remembered::Place;

/// Time for what goes over a whole table: counting and clearing.
pub(super) const WHOLE_TABLE_TIME: Duration = Duration::from_secs(60);

/// What the driver's tasks share.
pub(super) struct Inner {
    pub(super) pool: Pool,
    pub(super) identity: Arc<Identity>,
    pub(super) ids: Ids,
    pub(super) timeout: Duration,
    pub(super) room: Room,
    pub(super) name: String,
    pub(super) keeper_woken: Arc<Notify>,
    pub(super) clears: Clears,
    pub(super) watch: Watch,
    pub(super) counted: Counted,
    /// Tables that another session has locked.
    pub(super) locked: Locked,
    /// Which database it is.
    pub(super) place: Place,
    /// It is surely none of the copies of the one that was known.
    pub(super) another: bool,
    /// Documents are rows of mapped tables; else they lie in a table of our own.
    pub(super) is_mapped: bool,
    /// Which keys are documents beside these.
    pub(super) named: Option<Arc<Named>>,
    /// As they were given, with what was to be found out.
    pub(super) mappings: Vec<Mapping>,
    /// Bytes of their rows, at most.
    pub(super) row_bytes_max: usize,
}

impl Drop for Inner {
    /// The keeper ends at once, and gives up the database's lock: the next opening waits for that.
    fn drop(&mut self) {
        self.keeper_woken.notify_one();
    }
}

pub(super) fn no_answer_in(time: Duration) -> String {
    format!("PostgreSQL did not answer in {} ms", time.as_millis())
}

impl Inner {
    pub(super) fn no_connection(&self) -> String {
        format!("PostgreSQL gave no connection in {} ms", self.timeout.as_millis())
    }

    pub(super) fn no_answer(&self) -> String {
        no_answer_in(self.timeout)
    }

    /// The mapped tables, if there are any.
    pub(super) fn rows(&self) -> Option<Arc<Rows>> {
        self.pool.rows()
    }

    /// Which keys are documents beside rows, if some are.
    pub(super) fn named(&self) -> Option<&Arc<Named>> {
        self.named.as_ref()
    }

    /// Whether `key` is a document in the table of our own.
    pub(super) fn is_document(&self, key: &Key) -> bool {
        !self.is_mapped || self.named().is_some_and(|named| named.has(key))
    }
}

pub(super) fn unavailable(why: String) -> ReadError {
    ReadError::Unavailable(Unavailable(why))
}
