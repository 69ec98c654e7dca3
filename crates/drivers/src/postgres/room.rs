//! What commits and reads of large documents take in memory.

use forebay::Value;
use forebay::change::Change;
use forebay::store::{Commit, Write};
use forebay::value::DOCUMENT_BYTES_MAX;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::sql::LARGE_BYTES;
use crate::sql::document::is_blind;

/// Units in which room is counted.
const UNIT_BYTES: usize = 1 << 10;

/// What a document of our own table takes while it is read, as a multiple of its encoding: a collection is more in
/// memory, and is made of its parts.
pub(super) const READ_COPIES: usize = 2;

/// What the rows of a commit take, as a multiple: their texts, the message, the connection's buffer, and the answer.
const ROW_COPIES: usize = 4;

/// Bytes of rows from which on a connection is not used again: it keeps the buffers that it has grown.
pub(super) const GROWN_BYTES: usize = 1 << 20;

/// Room for what commits take in memory beside their documents, and for documents that are being read: as much as one
/// of the largest size.
pub(super) struct Room(Semaphore);

impl Default for Room {
    fn default() -> Room {
        Room(Semaphore::new(DOCUMENT_BYTES_MAX / UNIT_BYTES))
    }
}

impl Room {
    /// Waits for room for so many bytes, or for all of it. To be called by what has no connection and no time limit
    /// yet: whoever has room needs nothing of those that wait.
    pub(super) async fn take(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        match bytes.min(DOCUMENT_BYTES_MAX) / UNIT_BYTES {
            0 => None,
            units => self.0.acquire_many(units as u32).await.ok(),
        }
    }
}

/// What the large documents of `group` take that are read before they are changed.
pub(super) fn read_by(group: &[Commit]) -> usize {
    let is_read = |write: &&Write| !write.unseen && !is_blind(&write.changes);
    let writes = group.iter().flat_map(|commit| &commit.writes).filter(is_read);
    let sizes = writes.filter_map(|write| write.after.as_ref()).map(Value::size);
    sizes.filter(|bytes| *bytes > LARGE_BYTES).sum()
}

/// Bytes of the rows of `group`, if they are large.
pub(super) fn rows_of(group: &[Commit]) -> usize {
    let bytes = |write: &Write| {
        let changes: usize = write.changes.iter().map(Change::memory_bytes).sum();
        changes.max(write.after.as_ref().map_or(0, Value::size))
    };
    let bytes: usize = group.iter().flat_map(|commit| &commit.writes).map(bytes).sum();
    if bytes > LARGE_BYTES { bytes } else { 0 }
}

/// What they take while they are written.
pub(super) fn written_by(group: &[Commit]) -> usize {
    rows_of(group).saturating_mul(ROW_COPIES)
}
