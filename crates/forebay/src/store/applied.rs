//! Which commits a store has applied: the ids of the last [`APPLIED_IDS_MAX`], and a floor. An id below the floor may
//! have been applied or not; it is refused, never applied again.

use std::collections::{HashSet, VecDeque};

use smallvec::SmallVec;

use crate::mutation::{self, Fault};
use crate::version::{TxnId, Version};

/// Ids of applied commits that a store remembers.
pub(crate) const APPLIED_IDS_MAX: usize = 65_536;

/// Ids reported as not applied that are remembered as refused for good.
const DENIED_IDS_MAX: usize = 4_096;

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its commit was applied.
    Applied,
    /// Its commit was reported as not applied, so it must never be.
    Denied,
    /// Nothing is known any more.
    BelowFloor,
    /// Its commit was not applied.
    New,
}

/// The ids of the last applied commits, in groups as they were applied. Some 24 to 40 bytes for each: it is full
/// whenever the store is written to, whatever the size of the memory.
///
/// Ids are minted one after the other and applied in nearly the same order. So both deques are written at their ends,
/// and a new id is told from all others by one comparison: no table of hashes would be as near. The second deque is
/// made when an id comes out of order: a store that never waits has ascending ids alone.
#[derive(Debug)]
pub(crate) struct AppliedIds {
    /// As they were applied, oldest first, each with the number of its group.
    ids: VecDeque<(u64, TxnId)>,
    /// The ids in ascending order, once `ids` is in another; until then empty.
    sorted: VecDeque<TxnId>,
    /// Whether each id came after all smaller ones, from the first on.
    ascending: bool,
    floor: TxnId,
    denied: HashSet<TxnId, foldhash::fast::RandomState>,
    denied_order: VecDeque<TxnId>,
    limit: usize,
}

/// What has to go so that a group's ids fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    /// Numbers of the groups to be forgotten, the oldest.
    pub groups: SmallVec<[u64; 4]>,
    /// The floor afterwards.
    pub floor: TxnId,
}

impl AppliedIds {
    /// Nothing applied yet, and the floor as it was stored.
    pub fn new(floor: TxnId) -> AppliedIds {
        AppliedIds::with_limit(floor, APPLIED_IDS_MAX)
    }

    pub(super) fn with_limit(floor: TxnId, limit: usize) -> AppliedIds {
        AppliedIds {
            ids: VecDeque::new(),
            sorted: VecDeque::new(),
            ascending: true,
            floor,
            denied: HashSet::default(),
            denied_order: VecDeque::new(),
            limit,
        }
    }

    /// The floor of a store that has applied nothing.
    pub const LOWEST: TxnId = TxnId(Version::ZERO);

    /// What is known of `id`.
    pub fn known(&self, id: TxnId) -> Known {
        let forgotten = mutation::on(Fault::AppliedIdsIgnored)
            || mutation::on(Fault::IdsTrimmedByAge) && self.ids.back().is_none_or(|(_, newest)| *newest != id);
        if self.newest().is_some_and(|newest| id <= newest) && self.is_known(id) && !forgotten {
            Known::Applied
        } else if !self.denied.is_empty() && self.denied.contains(&id) {
            Known::Denied
        } else if id <= self.floor {
            Known::BelowFloor
        } else {
            Known::New
        }
    }

    fn newest(&self) -> Option<TxnId> {
        if self.ascending { self.ids.back().map(|(_, id)| *id) } else { self.sorted.back().copied() }
    }

    fn is_known(&self, id: TxnId) -> bool {
        if self.ascending {
            self.ids.binary_search_by(|(_, known)| known.cmp(&id)).is_ok()
        } else {
            self.sorted.binary_search(&id).is_ok()
        }
    }

    /// What [`AppliedIds::add`] of so many ids is going to forget.
    pub fn eviction(&self, adding: usize) -> Eviction {
        let excess = (self.ids.len() + adding).saturating_sub(self.limit);
        let mut eviction = Eviction { groups: SmallVec::new(), floor: self.floor };
        for (at, &(number, id)) in self.ids.iter().enumerate() {
            if eviction.groups.last() != Some(&number) {
                if at >= excess {
                    break;
                }
                eviction.groups.push(number);
            }
            eviction.floor = eviction.floor.max(id);
        }
        eviction
    }

    /// Adds the ids that group `number` applied, each once. No other group has that number.
    pub fn add(&mut self, number: u64, ids: &[TxnId]) {
        // What `eviction` says, done one by one.
        while self.ids.len() + ids.len() > self.limit {
            let Some(&(oldest, _)) = self.ids.front() else { break };
            while self.ids.front().is_some_and(|(number, _)| *number == oldest) {
                self.forget_oldest();
            }
        }
        for &id in ids {
            let newer = self.newest().is_none_or(|newest| newest < id);
            if self.ascending && !newer {
                self.sorted.extend(self.ids.iter().map(|(_, known)| *known));
                self.ascending = false;
            }
            self.ids.push_back((number, id));
            if !self.ascending {
                let place = if newer { self.sorted.len() } else { self.sorted.partition_point(|other| *other < id) };
                self.sorted.insert(place, id);
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, id)) = self.ids.pop_front() else { return };
        self.floor = self.floor.max(id);
        if self.ascending {
            return;
        }
        if self.sorted.front() == Some(&id) {
            self.sorted.pop_front();
        } else if let Ok(place) = self.sorted.binary_search(&id) {
            self.sorted.remove(place);
        }
    }

    /// Makes sure that `id`, about which "not applied" is being answered, is never applied.
    pub fn deny(&mut self, id: TxnId) {
        if self.denied.insert(id) {
            self.denied_order.push_back(id);
        }
        if self.denied_order.len() > DENIED_IDS_MAX
            && let Some(oldest) = self.denied_order.pop_front()
        {
            self.denied.remove(&oldest);
        }
    }

    /// The denied ids, oldest first, to carry them over a reopening.
    pub fn denied(&self) -> impl Iterator<Item = TxnId> {
        self.denied_order.iter().copied()
    }

    /// Bytes that the table of applied ids occupies.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<(u64, TxnId)>() + self.sorted.capacity() * size_of::<TxnId>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(sequence: u64) -> TxnId {
        TxnId(Version { incarnation: 1, sequence })
    }

    proptest! {
        /// Whatever was applied is never seen as new again, and the last ids are exact.
        #[test]
        fn what_was_applied_is_never_new_again(groups in prop::collection::vec(1usize..6, 1..60), limit in 6usize..20) {
            let mut applied = AppliedIds::with_limit(AppliedIds::LOWEST, limit);
            let mut all = Vec::new();
            for (number, size) in groups.into_iter().enumerate() {
                let ids = (0..size).map(|at| id((all.len() + at) as u64 + 1)).collect::<Vec<_>>();
                all.extend(ids.iter().copied());
                let eviction = applied.eviction(ids.len());
                let kept = applied.ids.iter().filter(|(number, _)| !eviction.groups.contains(number));
                let expected = kept.copied().chain(ids.iter().map(|id| (number as u64, *id))).collect::<Vec<_>>();
                applied.add(number as u64, &ids);
                prop_assert_eq!(applied.floor, eviction.floor);
                prop_assert!(applied.ids.iter().eq(&expected), "a group goes as a whole");
                prop_assert!(applied.ids.len() <= limit);
                for (age, &one) in all.iter().rev().enumerate() {
                    let known = applied.known(one);
                    prop_assert!(known != Known::New && known != Known::Denied);
                    prop_assert!(age + 6 > limit || known == Known::Applied, "{} is too young to be forgotten", one);
                }
            }
            prop_assert_eq!(applied.known(id(all.len() as u64 + 1)), Known::New);
        }
    }

    proptest! {
        /// In whatever order ids come, those of the groups that are kept are known, and no other.
        #[test]
        fn ids_in_any_order_are_known_as_in_a_set(
            steps in prop::collection::vec((0u64..6, 1u64..4), 1..60),
            late_from in 0u64..60,
            limit in 6usize..20,
        ) {
            let mut applied = AppliedIds::with_limit(AppliedIds::LOWEST, limit);
            let (mut kept, mut all) = (VecDeque::new(), Vec::new());
            for (number, (back, size)) in (0..).zip(steps) {
                // No two ids of a group or of two groups are alike: the last two digits name the group.
                let back = if number >= late_from { back } else { 0 };
                let ids: Vec<TxnId> = (0..size).map(|at| id((60 + number - back + at) * 100 + number)).collect();
                let groups = applied.eviction(ids.len()).groups.len();
                applied.add(number, &ids);
                kept.drain(..groups);
                all.extend(ids.iter().copied());
                kept.push_back(ids);
                for one in &all {
                    let is_kept = kept.iter().flatten().any(|kept| kept == one);
                    let known = applied.known(*one);
                    prop_assert_eq!(known, if is_kept { Known::Applied } else { Known::BelowFloor });
                    let other = id(one.0.sequence + 70);
                    prop_assert!(applied.known(other) != Known::Applied);
                }
            }
        }
    }

    #[test]
    fn denied_ids_stay_denied_up_to_the_limit() {
        let mut applied = AppliedIds::new(AppliedIds::LOWEST);
        for sequence in 1..=DENIED_IDS_MAX as u64 + 1 {
            applied.deny(id(sequence));
            applied.deny(id(sequence));
        }
        assert_eq!(applied.known(id(1)), Known::New);
        assert_eq!(applied.known(id(2)), Known::Denied);
        assert_eq!(applied.denied().count(), DENIED_IDS_MAX);
    }
}
