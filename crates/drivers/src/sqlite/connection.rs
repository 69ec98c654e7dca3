//! One connection to the file.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags};

/// Memory for pages that a connection keeps, KiB: the operating system keeps the file's pages anyway.
pub(super) const PAGES_KIB: usize = 512;

/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 64;

/// Opens the file at `path`, which is there already unless it is to be made. A statement waits for locks of other
/// programs for at most `timeout`.
pub(super) fn open(path: &Path, timeout: Duration, make: bool) -> Result<Connection, Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if make {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.busy_timeout(timeout)?;
    // Commits are on the disk when they are answered, and foreign keys hold, whatever the library's defaults are.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -(PAGES_KIB as i64))?;
    Ok(connection)
}
