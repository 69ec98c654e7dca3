//! How commits become visible: each group as a whole, its keys at one moment (`docs/guarantees.md`, B2).

use std::slice;

use smallvec::SmallVec;

use super::{AccessKind, Cache, Changed, Context, Entering};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;

/// What `contexts` say of the key at this place: of those beyond their end what the last says.
fn context_of(contexts: &[Context], at: usize) -> Context {
    contexts.get(at).or(contexts.last()).copied().unwrap_or_default()
}

impl Cache {
    /// Makes a group of commits visible as a whole and undoes one hold for each time its key stands in `held`. `group`
    /// names each key once, with its last value, or `None` where that is not known exactly: the entry is removed.
    pub fn publish(&self, group: &[(Key, Option<Read>)], held: &[Key]) {
        self.publish_group(group, &[], false);
        self.release(held);
    }

    /// As [`Cache::publish`], for a commit that was not held, since its keys stay locked until it is published: the
    /// fills that were begun without their locks end now, before anything of it is seen.
    pub fn publish_locked(&self, group: &[(Key, Option<Read>)], context: &Context) {
        self.publish_group(group, slice::from_ref(context), true);
    }

    /// Makes a group visible as a whole, and tells of it. `contexts` says of each key what the policy may know of its
    /// last write; of the keys beyond its end, what it says of its own last one.
    pub(crate) fn publish_group(&self, group: &[(Key, Option<Read>)], contexts: &[Context], ends_fills: bool) {
        if mutation::on(Fault::PublishedKeyByKey) && group.len() > 1 {
            let each = group.iter().enumerate();
            each.for_each(|(at, one)| {
                self.install_group(slice::from_ref(one), &[context_of(contexts, at)], ends_fills)
            });
        } else {
            self.install_group(group, contexts, ends_fills);
        }
        if !mutation::on(Fault::ToldBeforePublication) {
            let keys = group.iter().enumerate().map(|(at, (key, _))| (key, context_of(contexts, at).client));
            keys.for_each(|(key, client)| self.changed(Changed::Key(key, client)));
        }
    }

    fn install_group(&self, group: &[(Key, Option<Read>)], contexts: &[Context], ends_fills: bool) {
        if let [(key, Some(read))] = group {
            let hash = key.borrow().hash64();
            let mut partition = self.inner.partition_of(hash);
            if ends_fills {
                partition.end_flight(key, None);
            }
            // One key changes at one moment by itself.
            let entering = Entering { context: &context_of(contexts, 0), kind: AccessKind::Write, marked: false };
            return self.install(&mut partition, hash, key, read, entering);
        }
        let hashes: SmallVec<[u64; 8]> = group.iter().map(|(key, _)| key.borrow().hash64()).collect();
        for ((key, _), hash) in group.iter().zip(&hashes) {
            let mut partition = self.inner.partition_of(*hash);
            if ends_fills {
                partition.end_flight(key, None);
            }
            partition.set_marked(*hash, key.borrow(), true);
        }
        let marked = !mutation::on(Fault::UnmarkedEarly);
        if !marked {
            self.unmark(group, &hashes);
        }
        for (at, ((key, read), hash)) in group.iter().zip(&hashes).enumerate() {
            match read {
                Some(read) => {
                    let mut partition = self.inner.partition_of(*hash);
                    let entering = Entering { context: &context_of(contexts, at), kind: AccessKind::Write, marked };
                    self.install(&mut partition, *hash, key, read, entering);
                }
                None => self.remove_written(key, &context_of(contexts, at)),
            }
        }
        self.unmark(group, &hashes);
    }

    fn unmark(&self, group: &[(Key, Option<Read>)], hashes: &[u64]) {
        for ((key, _), hash) in group.iter().zip(hashes) {
            self.inner.partition_of(*hash).set_marked(*hash, key.borrow(), false);
        }
    }
}
