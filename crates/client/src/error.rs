//! What a transaction can fail with. Each text says what to do.

use std::fmt;

use forebay::change::ApplyError;
use forebay_cache::policy::PolicyError;
use thiserror::Error;

/// The id that the library gives each commit, by which its outcome can be asked for: [`Client::outcome`].
///
/// [`Client::outcome`]: crate::Client::outcome
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitId(pub u128);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why there is no client, or no transaction. But for [`Error::Unknown`], nothing was changed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An option can't be used.
    #[error("option {name}: {why}")]
    Option {
        /// Which.
        name: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The policy's name is not known, or a parameter of it.
    #[error("option policy: {0}")]
    Policy(#[from] PolicyError),
    /// No connection can be made.
    #[error("can't connect to {address}: {why}; is forebay running, and is the address right?")]
    Connect {
        /// Where to.
        address: String,
        /// What the system, or TLS, says.
        why: String,
    },
    /// The connection broke, or an answer took too long, before anything was committed. Reads are repeated before this
    /// is told.
    #[error("the connection to {address} broke: {why}; nothing was changed, try again later")]
    Lost {
        /// Where to.
        address: String,
        /// What happened.
        why: String,
    },
    /// The answer to a commit was lost. It may have been applied or not, and is never repeated by the library.
    #[error("no answer to commit {id}: {why}; ask Client::outcome before you do it again")]
    Unknown {
        /// The commit.
        id: CommitId,
        /// What happened.
        why: String,
    },
    /// The server refused.
    #[error("the server refused {what}: {reply}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The server's text, which says what to do.
        reply: String,
    },
    /// The server's answer is none that LEASE gives.
    #[error("the answer to {what} is malformed: {why}; is the server a forebay of this version?")]
    Malformed {
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The document has another type than the read or write is for.
    #[error("key '{key}' holds a {held}, not a {wanted}; read it with the method for its type")]
    WrongKind {
        /// Its name, escaped.
        key: String,
        /// What it is.
        held: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The document can't be changed so.
    #[error("key '{key}': {why}")]
    Change {
        /// Its name, escaped.
        key: String,
        /// What the document says.
        why: ApplyError,
    },
    /// A transaction, or a key, is larger than it may be.
    #[error("{name} {most} exceeded; make the transaction or the key smaller")]
    Limit {
        /// The limit.
        name: &'static str,
        /// Its value.
        most: usize,
    },
    /// The transaction was used after its body had ended.
    #[error("the transaction is over; keep nothing of it beyond its body")]
    Over,
    /// Others were faster each time.
    #[error("given up after {attempts} attempts: others changed what was read each time; try again, or write less")]
    Contention {
        /// How often it ran.
        attempts: u32,
    },
}

/// A key's name for an error.
pub(crate) fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
