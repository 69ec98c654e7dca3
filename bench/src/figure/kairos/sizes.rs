//! Bytes of what machines send each other, by sizes that are written down here. Keys and documents are the paper's.

use forebay::txn::optimistic::Message;

/// Headers of a packet: Ethernet, IP and TCP.
pub(super) const PACKET: u64 = 66;
/// What a message is, and the transaction or request that it belongs to.
const HEAD: u64 = 24;
/// Of a key (section 5).
const KEY: u64 = 16;
/// Of a document (section 5).
const DOCUMENT: u64 = 1000;
/// Of a version, or of another moment in the order.
const STAMP: u64 = 16;
/// Of a rate of writes, or of a hash.
const NUMBER: u64 = 8;

/// Of a message. A transaction's nodes are counted with its head.
pub(super) fn bytes(message: &Message) -> u64 {
    let keys = |count: usize, each: u64| count as u64 * each;
    HEAD + match message {
        Message::Get(_, asked) | Message::Reads(asked) => keys(asked.len(), KEY),
        Message::Got(_, documents) => keys(documents.len(), KEY + STAMP + NUMBER + DOCUMENT),
        Message::Validate(asked) => STAMP + keys(asked.reads.len(), KEY + 2 * STAMP) + keys(asked.writes.len(), KEY),
        Message::Stage(stage) | Message::Commit(stage) => STAMP + keys(stage.writes.len(), KEY + DOCUMENT),
        Message::Invalidate(told, _) => STAMP + keys(told.len(), KEY),
        Message::Resolved(_, _, resolved) => STAMP + keys(resolved.held.len(), NUMBER + STAMP),
        _ => STAMP,
    }
}

/// What a shard sends to both its backups, beside their acknowledgements.
pub(super) fn copied(message: &Message) -> u64 {
    match message {
        Message::Stage(_) | Message::Commit(_) => 2 * (2 * PACKET + HEAD + bytes(message)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::popularity;
    use super::*;

    #[test]
    fn what_asks_is_small() {
        let asked = Message::Get(1, vec![popularity::key(1), popularity::key(2)]);
        assert_eq!((bytes(&asked), copied(&asked)), (56, 0));
    }
}
