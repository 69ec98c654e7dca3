//! A commit that has its place in the commit order.

use super::locks::Owner;
use super::settled::{self, Settled, Settlement, Teller};
use crate::key::Key;
use crate::store::Commit;

/// A commit in the hands of the committer.
pub(super) struct Placed {
    pub(super) commit: Commit,
    pub(super) place: u64,
    pub(super) depends: Vec<Settled>,
    pub(super) settle: Teller,
    /// With a store that is not ordered: the locks that go when it is published.
    pub(super) locked: Option<(Owner, Vec<Key>)>,
    /// Its keys leave the cache when it is published.
    pub(super) uncached: bool,
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
    pub(super) uncached: bool,
}

impl Rest {
    pub(super) fn split(placed: Placed) -> (Commit, Rest) {
        let Placed { commit, place, depends, settle, locked, uncached } = placed;
        (commit, Rest { place, depends, settle, locked, uncached })
    }

    pub(super) fn join(self, commit: Commit) -> Placed {
        let Rest { place, depends, settle, locked, uncached } = self;
        Placed { commit, place, depends, settle, locked, uncached }
    }
}
