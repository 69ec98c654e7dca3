//! What clients, validators and shards tell each other.

use std::fmt;

use crate::key::Key;
use crate::value::Value;

/// A transaction's name: the life of the client that runs it, and a number that it used once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnName {
    /// A client has another number after each start.
    pub client: u32,
    /// Rises with each transaction of the client.
    pub number: u32,
}

/// A moment in the order of all transactions, and the version of what is written then. It consists of microseconds by
/// the clock of a client, and the transaction's name. So no two transactions that write have one stamp.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u128);

impl Stamp {
    /// Before all transactions: the version of what was never written.
    pub const ZERO: Stamp = Stamp(0);

    /// After all transactions.
    pub const MAX: Stamp = Stamp(u128::MAX);

    /// The stamp of `txn` at `us`.
    pub fn new(us: u64, txn: TxnName) -> Stamp {
        Stamp(u128::from(us) << 64 | u128::from(txn.client) << 32 | u128::from(txn.number))
    }

    /// Before all transactions of that microsecond.
    pub fn at(us: u64) -> Stamp {
        Stamp(u128::from(us) << 64)
    }

    /// Its microseconds.
    pub fn us(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The transaction that has it.
    pub fn txn(self) -> TxnName {
        TxnName { client: (self.0 >> 32) as u32, number: self.0 as u32 }
    }

    /// The greatest stamp below it.
    pub fn before(self) -> Stamp {
        Stamp(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TxnName { client, number } = self.txn();
        write!(f, "{}.{client}.{number}", self.us())
    }
}

/// Where a message comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// One life of a client.
    Client(u32),
    /// A validator, whichever process it is now.
    Validator(u16),
    /// A shard.
    Shard(u16),
}

/// A document as a shard has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its key.
    pub key: Key,
    /// The transaction that wrote it; [`Stamp::ZERO`] if none did.
    pub version: Stamp,
    /// What was written; `None` where the key is absent.
    pub value: Option<Value>,
    /// How often others write it, per second.
    pub writes: f64,
}

/// A document that a transaction has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its key.
    pub key: Key,
    /// What was read of it.
    pub version: Stamp,
    /// No write of the key has a stamp above `version` and up to this one, nor ever will.
    pub fresh: Stamp,
}

/// The nodes that a transaction with writes needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// The shard that keeps its decision: that of its least written key.
    pub home: u16,
    /// The shards of its writes.
    pub shards: Vec<u16>,
    /// The validators of what it has read and writes, and the epoch of each as the client knows it.
    pub validators: Vec<(u16, u64)>,
}

/// A question to one validator: may the transaction commit?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validate {
    /// The transaction.
    pub name: TxnName,
    /// Its place in the order. If it writes, it is the stamp of `name`.
    pub stamp: Stamp,
    /// Whether what was read has to be the newest in real time, whatever the clocks say.
    pub strict: bool,
    /// The validator's epoch as the client knows it.
    pub epoch: u64,
    /// What was read of the validator's keys.
    pub reads: Vec<Seen>,
    /// The validator's keys that are written.
    pub writes: Vec<Key>,
    /// Its nodes; `None`: it writes nothing.
    pub parties: Option<Parties>,
}

/// A validator's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It may commit.
    Yes,
    /// These were read too old: there is this newer version, or (`None`) the validator has forgotten whether there is.
    Stale(Vec<(Key, Option<Stamp>)>),
    /// A transaction that may commit writes this key: ask again later.
    Wait(Key),
    /// This key was read or written at a later moment: use a stamp above this one.
    Later(Stamp),
    /// The stamp is beyond what the validator has promised so far.
    Early,
    /// The validator has another epoch.
    Epoch,
    /// The transaction is over.
    Over,
}

/// The writes of a transaction, of one shard.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The transaction's stamp.
    pub stamp: Stamp,
    /// Its nodes.
    pub parties: Parties,
    /// Each document as it is to be; `None`: absent.
    pub writes: Vec<(Key, Option<Value>)>,
}

/// A transaction whose writes a shard has staged, as a validator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its stamp.
    pub stamp: Stamp,
    /// Its nodes.
    pub parties: Parties,
    /// Its keys in the shard.
    pub keys: Vec<Key>,
}

/// Up to where all writes of a validator's keys are in the shards, and none will come. It is one stamp for all keys but
/// those whose writes up to there are not applied yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// No write that the validator has not seen will have a stamp up to this one.
    pub closed: Stamp,
    /// Hashes of keys, in order, and for each up to where its writes are in the shards.
    pub held: Vec<(u64, Stamp)>,
}

impl Resolved {
    /// Up to where all writes of `key` are in its shard, and none will come.
    pub fn of(&self, key: &Key) -> Stamp {
        let hash = key.borrow().hash64();
        self.held.binary_search_by_key(&hash, |(hash, _)| *hash).map_or(self.closed, |at| self.held[at].1)
    }
}

/// What one node tells another.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// To a shard: read these.
    Get(u64, Vec<Key>),
    /// To a shard: keep these writes until the transaction is decided.
    Stage(Stage),
    /// To the home of a transaction: all have agreed, so it is to commit, with these writes of the home. What was
    /// decided first holds.
    Commit(Stage),
    /// To its home: if it is not decided, it does not commit.
    GiveUp(Stamp),
    /// To a shard: the transaction has committed.
    Apply(Stamp),
    /// To a shard: it has not.
    Drop(Stamp),
    /// To its home: all know how it ended.
    Forget(Stamp),
    /// To a shard: the validator has begun this epoch.
    Fence(u16, u64),
    /// To a validator's keeper: the validator promises nothing above that stamp.
    Raise(u16, u64, Stamp),
    /// To a validator: may it commit?
    Validate(Validate),
    /// To a validator: it has committed, or not.
    Settle(Stamp, bool),
    /// To a validator that has begun this epoch: what is staged of its keys, and what it promised (from its keeper).
    Fenced(u16, u64, Stamp, Vec<Prepared>),
    /// To a validator: its keeper knows that it promises nothing above.
    Raised(u64, Stamp),
    /// To whichever node asked the home: whether it commits.
    Decided(Stamp, bool),
    /// To a client: what was read.
    Got(u64, Vec<Document>),
    /// To a client: the vote of a validator in its epoch.
    Vote(TxnName, u16, u64, Vote),
    /// To a client: the writes are staged, or (`false`) refused, since a validator has another epoch.
    Staged(Stamp, u16, bool),
    /// To whichever node said that it commits: its writes are in the shard.
    Applied(Stamp, u16),
    /// To a client: the validator knows how it ended.
    Settled(Stamp, u16),
    /// To a validator that tells of writes: the client has read these from shards.
    Reads(Vec<Key>),
    /// To a client: these were written at this stamp, or later.
    Invalidate(Vec<Key>, Stamp),
    /// To clients: what the validator knows to be resolved in its epoch.
    Resolved(u16, u64, Resolved),
}
