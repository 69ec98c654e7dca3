//! What the tasks of a store share: the file, the connections to it, and what is known of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Key;
use forebay::store::ReadError;
use rusqlite::Connection;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::last_look::Last;
use super::lock::Lock;
use super::mapped::Mapped;
use super::read_failed::{ReadEnd, ReadFailed, unavailable};
use super::slot::Slot;
use crate::sql::counted::Counted;
use crate::sql::failure::Failure;
use crate::sql::identity::Identity;
use crate::sql::ids::Ids;
use crate::sql::remembered::Place;
use crate::sql::watch::Watch;

/// What is told where the file was found in an earlier state.
pub(super) const JUST_NOW: &str = "the database was found in an earlier state just now; ask again";

/// The file, and what is known of it.
pub(super) struct Database {
    pub(super) path: PathBuf,
    /// As people call it: `sqlite 3.50.2 shop.db`.
    pub(super) name: String,
    /// Most time for one call.
    pub(super) timeout: Duration,
    pub(super) identity: Identity,
    pub(super) ids: Ids,
    pub(super) counted: Counted,
    /// Which database it is.
    pub(super) place: Place,
    /// That is surely none of the copies of the one that was known.
    pub(super) another: bool,
    /// The mapped tables; without them all keys are documents in a table of forebay's.
    pub(super) mapped: Option<Mapped>,
    pub(super) watch: Watch,
    pub(super) last_look: AsyncMutex<Last>,
    /// Connections that read, as many as may be in use at a time.
    pub(super) readers_max: usize,
    readers: Arc<Semaphore>,
    idle: Mutex<Vec<Slot>>,
    writer: Arc<AsyncMutex<Slot>>,
    _lock: Lock,
}

/// What opening has found.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) timeout: Duration,
    pub(super) identity: Identity,
    pub(super) ids: Ids,
    pub(super) place: Place,
    pub(super) another: bool,
    pub(super) mapped: Option<Mapped>,
    pub(super) watch: Watch,
    pub(super) readers: usize,
    pub(super) lock: Lock,
}

impl Database {
    pub(super) fn new(opened: Opened) -> Database {
        let Opened { path, name, timeout, identity, ids, place, another, mapped, watch, readers, lock } = opened;
        let readers_max = readers.max(1);
        Database {
            path,
            name,
            timeout,
            identity,
            ids,
            counted: Counted::default(),
            place,
            another,
            mapped,
            watch,
            last_look: AsyncMutex::default(),
            readers_max,
            readers: Arc::new(Semaphore::new(readers_max)),
            idle: Mutex::default(),
            writer: Arc::default(),
            _lock: lock,
        }
    }

    /// Whether `key` is a document in forebay's table.
    pub(super) fn is_document(&self, key: &Key) -> bool {
        let Some(mapped) = &self.mapped else { return true };
        mapped.wanted.named.as_ref().is_some_and(|named| named.has(key))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn no_answer(&self) -> String {
        format!("SQLite did not answer in {} ms: another program has the file locked", self.timeout.as_millis())
    }

    /// Has `work` read in one transaction, in a thread that may wait.
    pub(super) async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Database, &Connection) -> Result<T, ReadFailed> + Send + 'static,
    ) -> Result<T, ReadError> {
        let permit = timeout(self.timeout, self.readers.clone().acquire_owned()).await;
        let permit =
            permit.map_err(|_| unavailable(self.no_answer()))?.map_err(|error| unavailable(error.to_string()))?;
        let database = self.clone();
        let read = spawn_blocking(move || {
            let _permit = permit;
            let mut slot = database.idle().pop().unwrap_or_default();
            let read = database.read(&mut slot, |connection| work(&database, connection));
            database.idle().push(slot);
            read
        });
        match read.await.map_err(|error| unavailable(error.to_string()))? {
            Ok(read) => Ok(read),
            Err(ReadEnd::Failed(error)) => Err(error),
            Err(ReadEnd::Earlier) => {
                let found = self.writing(self.timeout, |database, slot| database.write(slot, |_| Ok(()))).await;
                Err(match found {
                    Ok(Err(Failure::NotOwned(why))) => unavailable(why),
                    _ => unavailable(JUST_NOW.to_owned()),
                })
            }
        }
    }

    /// Has `work` use the connection that writes, in a thread that may wait; an error if it is not free in `patience`.
    pub(super) async fn writing<T: Send + 'static>(
        self: &Arc<Self>,
        patience: Duration,
        work: impl FnOnce(&Database, &mut Slot) -> T + Send + 'static,
    ) -> Result<T, String> {
        let slot = timeout(patience, self.writer.clone().lock_owned()).await;
        let mut slot = slot.map_err(|_| self.no_answer())?;
        let database = self.clone();
        spawn_blocking(move || work(&database, &mut slot)).await.map_err(|error| error.to_string())
    }
}
