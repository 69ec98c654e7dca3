//! Optimistic transactions over many nodes (KAIROS, section 4), as cores without input or output.
//!
//! Each core is a machine: `step(event, now) -> effects`. It has no clock, socket or chance. What drives it gives it
//! the moment by its own clock, and sends what the effects say. Messages may be lost, repeated, late, and out of order.
//!
//! * [`Client`] runs transactions: leased copies, buffered writes, the commit. It coordinates its own commits.
//! * [`Validator`](super::validator::Validator) knows the versions of its keys, and judges transactions.
//! * [`Shard`] keeps documents. It also keeps the decisions of the transactions whose home it is.
//!
//! Where this departs from the paper, and why, is in `docs/papers/kairos.md`.

mod client;
mod commit;
mod copies;
pub mod message;
mod options;
mod shard;
mod sharers;

use crate::key::Key;

pub use client::Client;
pub use commit::Reason;
pub use copies::Served;
pub use message::{Message, Node, Resolved, Stamp, TxnName};
pub use options::{ClientOptions, Effect, End, Event, Figures, Level, Rules};
pub use shard::{Shard, ShardOptions};
pub use sharers::Sharers;

/// How many validators and shards there are. All nodes have one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Validators, numbered from 0.
    pub validators: u16,
    /// Shards, numbered from 0.
    pub shards: u16,
    /// Each shard has its own validator: they know one set of keys, and there are as many of both.
    pub together: bool,
}

impl Layout {
    /// The validator of `key`.
    pub fn validator(self, key: &Key) -> u16 {
        let hash = key.borrow().hash64();
        let hash = if self.together { hash >> 32 } else { hash };
        (hash % u64::from(self.validators.max(1))) as u16
    }

    /// The shard of `key`.
    pub fn shard(self, key: &Key) -> u16 {
        ((key.borrow().hash64() >> 32) % u64::from(self.shards.max(1))) as u16
    }

    /// The shard that keeps what `validator` has promised.
    pub fn keeper(self, validator: u16) -> u16 {
        validator % self.shards.max(1)
    }
}
