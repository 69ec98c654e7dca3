//! What a client is told, asked for and asks for in turn.

use super::Layout;
use super::commit::Reason;
use super::copies::Served;
use super::message::{Message, Node, Stamp};
use crate::key::Key;
use crate::lease::Leases;
use crate::value::Value;

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All that it reads was there together, at most so many microseconds ago.
    Bounded(u64),
    /// Nothing before the last commit that its session was told of.
    Session,
    /// All that was committed before it began. Holds among strict transactions, where all are strict.
    Strict,
}

/// Where forebay departs from the paper for speed. With all of them as in [`Rules::PAPER`], and validators that compare
/// as the paper's do, a client works as the paper says; then not all that commits is serializable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// A transaction that only reads commits without a message if its copies show one moment.
    pub local: bool,
    /// What is known to be fresh at the stamp is not asked about.
    pub known_fresh: bool,
    /// A commit begins the leases of what it has read again.
    pub renew: bool,
    /// Copies that were found stale are given up.
    pub evict: bool,
    /// What a commit has written is kept as a copy.
    pub own: bool,
    /// The home of a transaction decides it. Else its client does, as in the paper, and shards and validators are told
    /// at one time.
    pub home: bool,
    /// A full cache takes a copy only if its document is read more often than the oldest copy was of late.
    pub sooner: bool,
    /// A key is not kept any more once this share of the reads of its copies, or more, was stale: Sundial's rule.
    pub stale_share_max: f64,
}

impl Rules {
    /// What forebay does.
    pub const FOREBAY: Rules = Rules {
        local: true,
        known_fresh: true,
        renew: true,
        evict: true,
        own: true,
        home: true,
        sooner: true,
        ..Rules::PAPER
    };

    /// What the paper says (algorithms 2 and 3).
    pub const PAPER: Rules = Rules {
        local: false,
        known_fresh: false,
        renew: false,
        evict: false,
        own: false,
        home: false,
        sooner: false,
        stale_share_max: 1.0,
    };
}

/// What a client is told when it is made.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where keys are.
    pub layout: Layout,
    /// For how long copies are used.
    pub leases: Leases,
    /// Most copies; the one that was not used for longest makes room.
    pub copies_max: usize,
    /// Of which keys copies are kept.
    pub cacheable: fn(&Key) -> bool,
    /// What becomes of copies, and how a transaction ends.
    pub rules: Rules,
    /// A read-only transaction that is validated is so for the latest moment that one of its copies knows of. Else for
    /// the earliest that it can have: it aborts more rarely, and its copies are renewed for less.
    pub freshest: bool,
    /// What is not answered for so long is asked again.
    pub resend_us: u64,
    /// A transaction that only reads, and has met a key whose write is not decided yet, asks again after so long.
    pub wait_us: u64,
    /// After so long, a transaction that is not decided is given up.
    pub give_up_us: u64,
    /// After so long, the application is told that the outcome is unknown.
    pub unknown_us: u64,
    /// Leases that begin together end apart by this.
    pub seed: u64,
}

/// What a client is asked for. Transactions are named by numbers that the caller chooses.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A transaction of a session begins. The client remembers each session that it was told of.
    Begin(u64, u32, Level),
    /// It reads these, as one level.
    Read(u64, Vec<Key>),
    /// It writes this; `None` removes.
    Write(u64, Key, Option<Value>),
    /// It is to commit.
    Commit(u64),
    /// It is given up.
    Abort(u64),
    /// A message has come.
    Message(Node, Message),
    /// Time has passed.
    Tick,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It has committed, at this place in the order.
    Committed(Stamp),
    /// It has not.
    Aborted(Reason),
    /// It has committed, or it will not: no answer came.
    Unknown(Stamp),
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this.
    Send(Node, Message),
    /// Tell the transaction what it has read.
    Read(u64, Vec<(Key, Served)>),
    /// Tell it how it ended.
    Ended(u64, End),
}

/// What a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Reads that a copy served.
    pub hits: u64,
    /// Reads that a shard served.
    pub fetched: u64,
    /// Transactions that committed without a message.
    pub local: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that did not, for what they had read.
    pub stale: u64,
    /// Transactions that did not, for another reason.
    pub aborted: u64,
}
