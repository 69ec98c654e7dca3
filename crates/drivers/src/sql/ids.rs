//! How long the ids of commits are remembered.
//!
//! The table of ids is what makes a commit exactly-once, so an id may be forgotten only when no copy of its commit can
//! still arrive. A commit whose answer came has been executed, and its one copy is gone. A copy that was sent on a
//! connection that broke may lie in its socket; so nothing is forgotten while a backend of such a connection is listed
//! ([`Pool::nothing_lost`](super::pool::Pool::nothing_lost)). Whatever is forgotten lies at or below a floor, and an id
//! at or below the floor is refused, never applied anew.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::{TxnId, Version};

/// Ids that are remembered, at least.
pub(crate) const APPLIED_IDS_MAX: usize = 65_536;

/// New ids after which the oldest are forgotten, all at once.
const FORGET_EVERY: usize = 8_192;

/// The floor and the commits on their way.
pub(crate) struct Ids(Mutex<Inside>);

struct Inside {
    floor: TxnId,
    on_their_way: BTreeSet<TxnId>,
    /// Those from here on are kept elsewhere and may still come.
    kept_from: Option<TxnId>,
    /// Entered since ids were last forgotten.
    entered: usize,
}

impl Inside {
    fn oldest_to_come(&self) -> Option<TxnId> {
        self.on_their_way.first().copied().into_iter().chain(self.kept_from).min()
    }
}

/// A commit on its way, until dropped.
pub(crate) struct OnItsWay<'a> {
    ids: &'a Ids,
    those: Vec<TxnId>,
}

impl Ids {
    pub(crate) fn new(floor: Version) -> Ids {
        Ids(Mutex::new(Inside { floor: TxnId(floor), on_their_way: BTreeSet::new(), kept_from: None, entered: 0 }))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is no longer known what became of `id`.
    pub(crate) fn is_forgotten(&self, id: TxnId) -> bool {
        id <= self.inside().floor
    }

    /// Notes that commits are about to be sent.
    pub(crate) fn begin(&self, those: impl IntoIterator<Item = TxnId>) -> OnItsWay<'_> {
        let those: Vec<TxnId> = those.into_iter().collect();
        let mut inside = self.inside();
        inside.entered += those.len();
        inside.on_their_way.extend(those.iter().copied());
        OnItsWay { ids: self, those }
    }

    /// How many have no outcome yet.
    pub(crate) fn on_their_way(&self) -> usize {
        self.inside().on_their_way.len()
    }

    /// How many have come since some were forgotten, if it is time to forget some again.
    pub(crate) fn many(&self) -> Option<usize> {
        Some(self.inside().entered).filter(|entered| *entered >= FORGET_EVERY)
    }

    /// From `oldest` on nothing is to be forgotten.
    pub(crate) fn keep_from(&self, oldest: Option<TxnId>) {
        self.inside().kept_from = oldest;
    }

    /// The oldest id that is on its way, or may come.
    pub(crate) fn oldest_to_come(&self) -> Option<TxnId> {
        self.inside().oldest_to_come()
    }

    /// From now on `floor` and all below count as forgotten; to be said before they are. False, and nothing said, if
    /// one of them is on its way.
    pub(crate) fn raise_floor(&self, floor: TxnId) -> bool {
        let mut inside = self.inside();
        if inside.oldest_to_come().is_some_and(|oldest| oldest <= floor) {
            return false;
        }
        inside.floor = inside.floor.max(floor);
        true
    }

    /// The oldest are forgotten, of as many as had come by then. The next round comes after as many ids again, those
    /// that came meanwhile included.
    pub(crate) fn forgotten(&self, entered: usize) {
        let mut inside = self.inside();
        inside.entered = inside.entered.saturating_sub(entered);
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let mut inside = self.ids.inside();
        for id in &self.those {
            inside.on_their_way.remove(id);
        }
    }
}

/// The bytes of an id, as the table has them.
pub(crate) fn bytes(id: TxnId) -> Vec<u8> {
    id.0.to_bytes().to_vec()
}

/// The version that `bytes` are.
pub(crate) fn version(bytes: &[u8]) -> Option<Version> {
    bytes.try_into().ok().map(Version::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> TxnId {
        TxnId(Version { incarnation: 1, sequence })
    }

    #[test]
    fn what_is_on_its_way_is_not_forgotten() {
        let ids = Ids::new(Version::ZERO);
        let on_their_way = ids.begin([id(5), id(6)]);
        assert_eq!(ids.oldest_to_come(), Some(id(5)));
        assert!(!ids.raise_floor(id(5)) && !ids.is_forgotten(id(5)));
        assert!(ids.raise_floor(id(4)) && ids.is_forgotten(id(4)) && !ids.is_forgotten(id(5)));
        drop(on_their_way);
        assert!(ids.raise_floor(id(6)) && ids.is_forgotten(id(6)));
        assert!(ids.raise_floor(id(2)) && ids.is_forgotten(id(6)), "the floor never falls");
        ids.keep_from(Some(id(8)));
        assert_eq!(ids.oldest_to_come(), Some(id(8)));
        assert!(!ids.raise_floor(id(8)) && ids.raise_floor(id(7)));
        ids.keep_from(None);
        assert!(ids.raise_floor(id(9)) && ids.is_forgotten(id(8)));
    }
}
