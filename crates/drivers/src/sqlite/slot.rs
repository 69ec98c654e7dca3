//! A place for a connection.

use rusqlite::Connection;

use super::file::FileId;

/// A place for a connection, and the file that it has open.
#[derive(Default)]
pub(super) struct Slot(pub(super) Option<(Connection, FileId)>);
