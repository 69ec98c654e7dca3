//! A database that is open.

use forebay::Version;

use super::own::Own;
use super::session::Session;
use crate::sql::remembered::Place;

/// What opening found.
pub(super) struct Opened {
    /// It holds the database's lock for as long as it lives.
    pub(super) keeper: Session,
    pub(super) incarnation: u64,
    pub(super) floor: Version,
    /// As whom it was opened.
    pub(super) own: Own,
    /// The runs of all owners before.
    pub(super) earlier: Vec<String>,
    /// Other owners since it was opened last with the journal that is known.
    pub(super) owned_since: Option<String>,
    /// It is in an earlier state than was known.
    pub(super) went_back: bool,
    /// `postgres 15.18`.
    pub(super) server: String,
    /// Which database it is.
    pub(super) place: Place,
    /// That is surely none of the copies of the one that was known.
    pub(super) another: bool,
}
