//! A commit that has its place in the commit order.

use hashbrown::HashMap;

use super::locks::Owner;
use super::settled::{self, Settled, Settlement, Teller};
use crate::cache::Context;
use crate::key::Key;
use crate::store::{Commit, Footprint};

/// As which vertex of its type a transaction has written each key; of several for one key the last counts.
pub(super) type Vertices = HashMap<Key, u16, foldhash::quality::RandomState>;

/// What is to become of a commit's keys in the cache when it is published.
#[derive(Clone, Debug, Default)]
pub(super) struct Caching {
    /// They leave the cache.
    pub(super) uncached: bool,
    /// What the policy may know of the writes.
    pub(super) context: Context,
    /// There only if the transaction named vertices: few do, and the others shall not pay for it.
    pub(super) vertices: Option<Box<Vertices>>,
}

impl Caching {
    /// What the policy may know of the write of `key`.
    pub(super) fn context_of(&self, key: &Key) -> Context {
        let vertex = self.vertices.as_ref().and_then(|vertices| vertices.get(key)).copied();
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
    /// Its room among those that may be on their way.
    pub(super) room: Footprint,
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
    /// Its room among those that may be on their way.
    pub(super) room: Footprint,
}

impl Rest {
    pub(super) fn split(placed: Placed) -> (Commit, Rest) {
        let Placed { commit, place, depends, settle, locked, caching, room } = placed;
        (commit, Rest { place, depends, settle, locked, caching, room })
    }

    pub(super) fn join(self, commit: Commit) -> Placed {
        let Rest { place, depends, settle, locked, caching, room } = self;
        Placed { commit, place, depends, settle, locked, caching, room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_entry_and_its_last_vertex_counts() {
        let key = |name: &str| Key::new(0, name.as_bytes());
        let mut vertices = Box::<Vertices>::default();
        (1..=1000).for_each(|vertex| vertices.extend([(key("a"), vertex), (key("b"), vertex / 2)]));
        assert_eq!(vertices.len(), 2, "a key that is written again takes no further room");
        let context = Context { vertex: 7, ..Context::default() };
        let caching = Caching { context, vertices: Some(vertices), ..Caching::default() };
        let of = |name: &str| caching.context_of(&key(name)).vertex;
        assert_eq!((of("a"), of("b"), of("c")), (1000, 500, 7));
        assert_eq!(Caching { context, ..Caching::default() }.context_of(&key("a")).vertex, 7);
    }
}
