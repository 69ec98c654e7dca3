//! The commits that have a place, and why none may get one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::room::Room;
use super::unsure::Unsure;
use crate::mutation::{self, Fault};
use crate::txn::placed::Placed;
use crate::txn::settled::Settled;
use crate::version::Version;

/// Commits that one flush of the store may carry; to publish more writes than that takes long.
pub const GROUP_COMMITS_MAX: usize = 1024;

/// Writes of such commits, all together.
const GROUP_WRITES_MAX: usize = 4096;

/// See the module.
pub(super) struct Queue {
    pub(super) placed: VecDeque<Placed>,
    pub(super) room: Room,
    pub(super) next_place: u64,
    /// Commits that are done at once under their locks, and clearings: what is at work and has no place.
    pub(super) at_work: BTreeSet<Version>,
    /// The loop is at work, or about to be.
    pub(super) running: bool,
    /// Commits that are not settled, by place.
    pub(super) unsettled: BTreeMap<u64, Settled>,
    /// By place: commits of which the store can't say what became, and why; new ones are refused with that. With a
    /// store that is not ordered there may be several, and one that is cleared up says nothing about the others.
    pub(super) unknown: BTreeMap<u64, String>,
    /// What is said of those.
    pub(super) unsure: Unsure,
    /// Why no commit is taken until the server is started again: a bug showed that leaves one half done.
    pub(super) broken: Option<String>,
}

impl Queue {
    pub(super) fn new(placed_bytes_max: usize, ordered: bool) -> Queue {
        Queue {
            placed: VecDeque::new(),
            room: Room::new(placed_bytes_max, ordered),
            next_place: 0,
            at_work: BTreeSet::new(),
            running: false,
            unsettled: BTreeMap::new(),
            unknown: BTreeMap::new(),
            unsure: Unsure::default(),
            broken: None,
        }
    }

    /// The commits that go to the store next, all together: one at least. A commit of more than [`GROUP_COMMITS_MAX`]
    /// writes goes by itself: those placed before it do not wait for it.
    pub(super) fn take_group(&mut self) -> Vec<Placed> {
        let mut writes = 0;
        let fits = |placed: &&Placed| {
            let count = placed.commit.writes.len();
            writes += count;
            writes <= GROUP_WRITES_MAX && (count <= GROUP_COMMITS_MAX || mutation::on(Fault::WideTogether))
        };
        let count = self.placed.iter().take(GROUP_COMMITS_MAX).take_while(fits).count();
        self.placed.drain(..count.max(1).min(self.placed.len())).collect()
    }

    /// Whether no commit is on its way, and commits are taken.
    pub(super) fn is_idle(&self) -> bool {
        self.broken.is_none() && self.unknown.is_empty() && self.unsettled.is_empty()
    }

    /// The least version under which something may still be published.
    pub(super) fn least_at_work(&self) -> Option<Version> {
        let placed = self.unsettled.values().next().and_then(Settled::version);
        placed.into_iter().chain(self.at_work.first().copied()).min()
    }

    /// Why no commit is taken now.
    pub(super) fn refuses(&self) -> Option<String> {
        self.broken.as_ref().or(self.unknown.values().next()).cloned()
    }

    /// The same for a store that is not ordered: there a commit whose outcome is unknown keeps its locks, so it is in
    /// the way of nobody else. (One of a strict client must not keep all others' writes from being buffered.)
    pub(super) fn refuses_unordered(&self) -> Option<String> {
        self.broken.clone()
    }
}
