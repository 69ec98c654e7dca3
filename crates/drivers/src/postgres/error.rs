//! Why a database can't be opened.

use thiserror::Error;

use crate::error::OtherDatabase;

/// A database that can't be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No connection.
    #[error("can't reach PostgreSQL at {place}: {why}; start it, or check --store")]
    Unreachable {
        /// Host, port and database.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// It let us in, and then did not answer.
    #[error(
        "PostgreSQL at {place} let forebay in and did not answer then, for {seconds} s: it hangs, or another session \
         has locked a table that is looked at; look at pg_stat_activity"
    )]
    Hangs {
        /// Host, port and database.
        place: String,
        /// For how long.
        seconds: u64,
    },
    /// It is there, and lets nobody in with this role, password or database.
    #[error(
        "PostgreSQL at {place} does not let role {role} in: {why}; check role and database in --store, and \
         --store-password-file"
    )]
    Denied {
        /// Host, port and database.
        place: String,
        /// As whom.
        role: String,
        /// What the server says.
        why: String,
    },
    /// Writes wait for another database.
    #[error(transparent)]
    OtherDatabase(#[from] OtherDatabase),
    /// Roots of certificates that can't be used.
    #[error("can't use the root certificates {file}: {why}; give sslrootcert=FILE.pem in --store, or sslmode=disable")]
    RootCertificates {
        /// Which file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate of our own that can't be used.
    #[error("can't use the client certificate {file}: {why}; give sslcert=FILE.pem and sslkey=FILE.pem in --store")]
    ClientCertificate {
        /// Which file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is connected to lends one backend to several sessions.
    #[error("{place} can't be opened: {}", super::pooled::WHY)]
    Pooled {
        /// Host, port and database.
        place: String,
    },
    /// An old server.
    #[error("{place} is {server}; forebay needs PostgreSQL 13 or newer")]
    TooOld {
        /// Host, port and database.
        place: String,
        /// What it is.
        server: String,
    },
    /// Another forebay serves it.
    #[error(
        "another forebay has {place} open since {since} (backend {pid}, from {from}); stop it first, or give another \
         database"
    )]
    Taken {
        /// Host, port and database.
        place: String,
        /// The backend that holds the lock.
        pid: String,
        /// Its client's address.
        from: String,
        /// When it began.
        since: String,
        /// Who has taken the database over since the opening that is known; none if the holder may be an earlier
        /// connection of this one.
        over: Option<String>,
    },
    /// A backend of an earlier forebay does not end.
    #[error(
        "backend {pid} of an earlier forebay, role {role}, is still at work in {place}; end it with SELECT \
         pg_terminate_backend({pid})"
    )]
    Leftover {
        /// Host, port and database.
        place: String,
        /// The backend.
        pid: i32,
        /// Its role.
        role: String,
    },
    /// The role may not do what is needed.
    #[error(
        "forebay's own schema in {place} can't be used: {why}; have its owner run the output of `forebay store init \
         --print`"
    )]
    Rights {
        /// Host, port and database.
        place: String,
        /// What the server says.
        why: String,
    },
    /// A table is in use.
    #[error(
        "a table in {place} was in use by others for {seconds} s, and who came meanwhile waited behind us: {why}; \
         nothing was changed, try again when no long transaction is open (pg_stat_activity)"
    )]
    InUse {
        /// Host, port and database.
        place: String,
        /// What the server says.
        why: String,
        /// How long it was waited for.
        seconds: u32,
    },
    /// The schema is of another forebay.
    #[error("forebay's schema in {place} has format {format}, this program has 1: use the forebay that made it")]
    Format {
        /// Host, port and database.
        place: String,
        /// What it has.
        format: i32,
    },
    /// Mappings that don't fit the tables.
    #[error("{}", .0.join("; "))]
    Mapping(
        /// What is wrong, one line each.
        Vec<String>,
    ),
    /// What others write can't be decoded.
    #[error("--outside decoding: {}", .0.join("; "))]
    Outside(
        /// What is in the way, one line each, with the fix.
        Vec<String>,
    ),
    /// Something failed while it was opened.
    #[error("can't open {place}: {why}; try again, or look at the server's log")]
    Failed {
        /// Host, port and database.
        place: String,
        /// What the server says.
        why: String,
    },
}
