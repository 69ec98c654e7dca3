//! Why a database can't be opened, by what a start may do about it.

use thiserror::Error;

/// A database that can't be opened. The texts are its driver's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It can't be reached, or does not answer: it may be there later.
    #[error("{0}")]
    Unreachable(String),
    /// It refuses the role, the password or the certificate that was given.
    #[error("{0}")]
    Denied(String),
    /// The mappings do not fit its tables.
    #[error("{0}")]
    Mapping(String),
    /// Another forebay has it.
    #[error("{why}")]
    Taken {
        /// What the driver says.
        why: String,
        /// Which other owner has taken it over since the opening that is known; none if the holder may be an earlier
        /// connection of this one.
        over: Option<String>,
    },
    /// Writes wait for another database.
    #[error(transparent)]
    OtherDatabase(#[from] OtherDatabase),
    /// Anything else: what was given, or the database, has to be changed first.
    #[error("{0}")]
    Refused(String),
}

/// Writes wait for another database than the one that was named.
#[derive(Debug, Error)]
#[error(
    "writes in the journal wait for the database {database}, and {place} is another one, to which none of them is \
     applied; name {database} in --store, or give another --journal"
)]
pub struct OtherDatabase {
    /// The place that was given.
    pub place: String,
    /// The name of the database that they wait for.
    pub database: String,
}
