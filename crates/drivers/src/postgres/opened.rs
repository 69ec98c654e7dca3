//! A database that is open.

use forebay::Version;

use super::session::Session;
use crate::sql::identity::Opening;
use crate::sql::remembered::Place;

/// What opening found.
pub(super) struct Opened {
    /// It holds the database's lock for as long as it lives.
    pub(super) keeper: Session,
    /// As whom, in which incarnation and state it was opened.
    pub(super) opening: Opening,
    pub(super) floor: Version,
    /// `postgres 15.18`.
    pub(super) server: String,
    /// Which database it is.
    pub(super) place: Place,
    /// That is surely none of the copies of the one that was known.
    pub(super) another: bool,
}
