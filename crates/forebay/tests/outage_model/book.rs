//! What clients were told, and what is known of them.

use forebay::{Read, TxnId, Value};
use futures_channel::oneshot;

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// It has not begun.
    Waits,
    /// It holds its locks.
    AtWork,
    /// Its commit may have landed; it holds its locks.
    InDoubt,
    /// In the database, or buffered.
    Acknowledged,
    /// Nothing was changed.
    Failed,
    /// The process ended before.
    Nothing,
    /// An operator gave the acknowledged write up.
    GivenUp,
}

/// What is known of clients and by them.
pub struct Book {
    pub told: Vec<Told>,
    /// Whose writes were acknowledged when each began.
    pub before: Vec<u16>,
    pub ids: Vec<Option<TxnId>>,
    /// What those that only read the hash have read, once they commit.
    pub read_b: Vec<Option<Option<Value>>>,
    /// Numbers of those buffered.
    pub tickets: Vec<Option<u64>>,
    /// The cache.
    pub cached: [Option<Read>; 2],
    /// Whom to tell that it may ask again.
    pub asks: Vec<Option<oneshot::Sender<()>>>,
    pub minted: u64,
    /// Buffered when the database was found in another state, and not released.
    pub held: Vec<TxnId>,
    /// Something was set aside by the database's word alone.
    pub full: u8,
}
