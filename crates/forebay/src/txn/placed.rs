//! A commit that has its place in the commit order.

use super::locks::Owner;
use super::settled::{self, Settled, Settlement, Teller};
use crate::cache::Context;
use crate::key::Key;
use crate::store::Commit;

/// What is to become of a commit's keys in the cache when it is published.
#[derive(Clone, Debug, Default)]
pub(super) struct Caching {
    /// They leave the cache.
    pub(super) uncached: bool,
    /// What the policy may know of the writes.
    pub(super) context: Context,
    /// As which vertex of its type the transaction has written a key; of several for one key the last counts.
    pub(super) vertices: Vec<(Key, u16)>,
}

impl Caching {
    /// What the policy may know of the write of `key`.
    pub(super) fn context_of(&self, key: &Key) -> Context {
        let vertex = self.vertices.iter().rev().find(|(other, _)| other == key).map(|(_, vertex)| *vertex);
        Context { vertex: vertex.unwrap_or(self.context.vertex), ..self.context }
    }
}

/// A commit in the hands of the committer.
pub(super) struct Placed {
    pub(super) commit: Commit,
    pub(super) place: u64,
    pub(super) depends: Vec<Settled>,
    pub(super) settle: Teller,
    /// With a store that is not ordered: the locks that go when it is published.
    pub(super) locked: Option<(Owner, Vec<Key>)>,
    /// What is to become of its keys in the cache.
    pub(super) caching: Caching,
}

impl Placed {
    /// Lets those who wait go; what becomes of the commit later is told to nobody.
    pub(super) fn tell_unknown(&mut self) {
        let (unheard, _) = settled::pair();
        std::mem::replace(&mut self.settle, unheard).tell(Settlement::Unknown(self.commit.id));
    }
}

/// A placed commit while the store has its commit.
pub(super) struct Rest {
    pub(super) place: u64,
    pub(super) depends: Vec<Settled>,
    pub(super) settle: Teller,
    pub(super) locked: Option<(Owner, Vec<Key>)>,
    /// What is to become of its keys in the cache.
    pub(super) caching: Caching,
}

impl Rest {
    pub(super) fn split(placed: Placed) -> (Commit, Rest) {
        let Placed { commit, place, depends, settle, locked, caching } = placed;
        (commit, Rest { place, depends, settle, locked, caching })
    }

    pub(super) fn join(self, commit: Commit) -> Placed {
        let Rest { place, depends, settle, locked, caching } = self;
        Placed { commit, place, depends, settle, locked, caching }
    }
}
