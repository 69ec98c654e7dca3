//! How a database is used, and what is known of it since an earlier run.

use std::time::Duration;

use forebay::{OwnerId, TxnId};

use crate::address::Address;
use crate::sql::keys::Keys;
use crate::sql::mapping::Mapping;
use crate::sql::remembered::Remembered;
use crate::sql::watching::OutsideBy;

/// Longest wait for the first connection when the program starts: a database that is only slow then is not away.
const FIRST: Duration = Duration::from_secs(5);

/// Most time for all that opening asks of the database after the first connection.
const OPENING: Duration = Duration::from_secs(30);

/// How a database is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is.
    pub address: Address,
    /// The password, if the server asks for one.
    pub password: Option<Vec<u8>>,
    /// Most time for one call, connecting and handshakes included.
    pub timeout: Duration,
    /// Most time for the first connection, where that is longer.
    pub first: Duration,
    /// Most time for all that opening asks after it.
    pub opening: Duration,
    /// Connections that share all reads.
    pub readers: usize,
    /// Commits at a time. Each has a connection that no other call uses meanwhile.
    pub writers: usize,
    /// Bytes of a row of a mapped table, at most.
    pub row_bytes_max: usize,
    /// Which keys are rows of which tables; none: all keys are documents in a table that forebay owns.
    pub mappings: Vec<Mapping>,
    /// Which keys that no mapping names are documents there all the same.
    pub keys: Vec<Keys>,
    /// How what others write is seen.
    pub outside: OutsideBy,
    /// Pause between two looks at what others have written.
    pub outside_pause: Duration,
    /// What is known of it since an earlier opening.
    pub known: Known,
}

impl Options {
    /// As the program has it by default.
    pub fn new(address: Address) -> Options {
        Options {
            address,
            password: None,
            timeout: Duration::from_millis(300),
            first: FIRST,
            opening: OPENING,
            readers: 4,
            writers: 16,
            row_bytes_max: usize::MAX,
            mappings: Vec::new(),
            keys: Vec::new(),
            outside: OutsideBy::Triggers,
            outside_pause: Duration::from_millis(50),
            known: Known::default(),
        }
    }
}

/// What an earlier opening of a database has left: by this a later one sees whether it was put back since.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its incarnation then; 0 if it was never opened.
    pub incarnation: u64,
    /// The newest incarnation under which versions were given out, be it for another database in its place; no less.
    pub minted: u64,
    /// The newest commits that it had acknowledged ([`Store::acknowledged`](forebay::store::Store::acknowledged)).
    pub acknowledged: Vec<TxnId>,
    /// What it was then ([`Store::catalogue`](forebay::store::Store::catalogue)), if that is known.
    pub remembered: Option<Remembered>,
    /// Writes wait for it.
    pub waiting: bool,
    /// The id of the journal that writes may wait in; none without a journal. It is safe there by now: a start that is
    /// killed must not be taken for another owner by the next.
    pub owner: Option<OwnerId>,
}
