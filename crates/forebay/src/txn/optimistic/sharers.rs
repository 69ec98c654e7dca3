//! Which clients hold a copy of a key: what explicit invalidation needs (KAIROS, section 3.2).

use std::collections::HashMap;

use smallvec::SmallVec;

use super::message::{Message, Node, Stamp};
use crate::key::Key;

/// The clients that have read each of some keys since its last write.
#[derive(Debug)]
pub struct Sharers {
    /// Of which keys they are known.
    of: fn(&Key) -> bool,
    clients: HashMap<Key, SmallVec<[u32; 8]>>,
}

impl Sharers {
    /// Of the keys of which `of` is true.
    pub fn new(of: fn(&Key) -> bool) -> Sharers {
        Sharers { of, clients: HashMap::new() }
    }

    /// A client has read these.
    pub fn read(&mut self, keys: &[Key], from: Node) {
        let Node::Client(client) = from else { return };
        for key in keys.iter().filter(|key| (self.of)(key)) {
            let clients = self.clients.entry(key.clone()).or_default();
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
    }

    /// These were written at `stamp`: all that hold copies are told, but for the writer.
    pub fn written(&mut self, keys: &[Key], stamp: Stamp) -> Vec<(Node, Message)> {
        let mut told: Vec<(Node, Message)> = Vec::new();
        for key in keys {
            let clients = self.clients.remove(key).unwrap_or_default();
            for client in clients.into_iter().filter(|client| *client != stamp.txn().client) {
                let to = Node::Client(client);
                match told.iter_mut().find(|(of, _)| *of == to) {
                    Some((_, Message::Invalidate(keys, _))) => keys.push(key.clone()),
                    _ => told.push((to, Message::Invalidate(vec![key.clone()], stamp))),
                }
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::optimistic::TxnName;

    #[test]
    fn readers_are_told_once_and_the_writer_is_not() {
        let keys: Vec<Key> = [b"a", b"b", b"c"].iter().map(|name| Key::new(0, *name)).collect();
        let mut sharers = Sharers::new(|key| key.name() != b"c");
        sharers.read(&keys, Node::Client(1));
        sharers.read(&keys[..1], Node::Client(2));
        sharers.read(&keys[..1], Node::Shard(0));
        let stamp = Stamp::new(5, TxnName { client: 2, number: 1 });
        let told = Message::Invalidate(keys[..2].to_vec(), stamp);
        assert_eq!(sharers.written(&keys, stamp), [(Node::Client(1), told)]);
        assert_eq!(sharers.written(&keys, stamp), []);
    }
}
