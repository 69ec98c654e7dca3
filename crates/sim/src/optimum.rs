//! The most transactional hits that any policy could have, for small instances: all choices are tried (DeToX,
//! definition 10; the problem is NP-hard, appendix A.2).

use std::collections::BTreeMap;

use forebay::policy::AccessKind;

use crate::catalog::{Event, Request};

/// Most different keys of an instance.
pub const KEYS_MAX: usize = 64;

/// Most cache states that are followed at the same time.
pub const STATES_MAX: usize = 200_000;

/// What a transaction asks for at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Keys that it reads, one bit each.
    pub reads: u64,
    /// Keys that it writes.
    pub writes: u64,
    /// Keys that were deleted before it.
    pub deleted: u64,
    /// Its transaction.
    pub txn: u64,
    /// Bits and sizes of requests whose hits count.
    pub objects: Vec<(u64, u32)>,
    /// Whether it counts as a level; else it only warms the cache.
    pub counts: bool,
    /// It writes and so costs a round trip always.
    pub waits: bool,
}

/// The best that any policy could have: first the most levels, and of what has those the most objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Best {
    /// Levels that cost no round trip.
    pub levels: u64,
    /// Requests that were cached.
    pub objects: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
}

/// The best over these levels with `capacity` keys cached. After each level the cache may keep whatever it held and
/// whatever was asked for; a write comes in too where `writes_allocate`. `None` where there are more than
/// [`STATES_MAX`] states.
pub fn best(levels: &[Level], capacity: usize, writes_allocate: bool) -> Option<Best> {
    let mut later = vec![0; levels.len() + 1];
    for (at, level) in levels.iter().enumerate().rev() {
        later[at] = later[at + 1] | level.reads | level.writes;
    }
    let mut states: BTreeMap<u64, Best> = BTreeMap::from([(0, Best::default())]);
    for (level, later) in levels.iter().zip(&later[1..]) {
        let mut next: BTreeMap<u64, Best> = BTreeMap::new();
        for (cached, mut best) in states {
            let cached = cached & !level.deleted;
            best.levels += u64::from(level.counts && !level.waits && level.reads & !cached == 0);
            for (_, bytes) in level.objects.iter().filter(|(key, _)| key & cached != 0) {
                (best.objects, best.bytes) = (best.objects + 1, best.bytes + u64::from(*bytes));
            }
            let with = cached | level.reads | if writes_allocate { level.writes } else { 0 };
            // What is never asked for again need not be kept.
            subsets(with & later, capacity, &mut |kept| {
                let known = next.entry(kept).or_default();
                *known = best.max(*known);
            });
            if next.len() > STATES_MAX {
                return None;
            }
        }
        states = next;
    }
    states.into_values().max()
}

/// Most levels that can be hit, each a set of keys (bits) that are asked for together: [`best`] where all is read.
pub fn most_hits(levels: &[u64], capacity: usize) -> Option<u64> {
    let level = |&reads: &u64| Level { reads, counts: true, ..Level::default() };
    best(&levels.iter().map(level).collect::<Vec<_>>(), capacity, true).map(|best| best.levels)
}

/// Levels of a trace of at most [`KEYS_MAX`] keys, counted as a replay counts them.
#[derive(Default)]
pub struct Levels {
    /// So far.
    pub levels: Vec<Level>,
    /// Only reads, and levels that read, count.
    reads_only: bool,
    /// Requests before this one only warm the cache.
    from: u64,
    seen: u64,
    deleted: u64,
    /// The level of the last request, 0 for what is in no transaction.
    last: (u64, u16),
}

impl Levels {
    /// None yet. Requests before `from` only warm the cache.
    pub fn new(reads_only: bool, from: u64) -> Levels {
        Levels { reads_only, from, ..Levels::default() }
    }

    /// Takes an event in. `key` is the number of a deleted key.
    pub fn take(&mut self, event: &Event, key: impl Fn(u64) -> Option<u32>) {
        match event {
            Event::Request(request) if request.access.kind != AccessKind::Prefetch => self.ask(request),
            Event::Request(_) | Event::Hints(..) => {}
            Event::Delete { hash } => {
                self.deleted |= key(*hash).map_or(0, |key| 1 << key);
                self.last = (0, 0);
            }
            // Its rerun will count.
            Event::End { txn, committed: false } => {
                self.levels.iter_mut().filter(|level| level.txn == *txn).for_each(|level| level.counts = false);
            }
            Event::End { .. } => self.last = (0, 0),
        }
    }

    fn ask(&mut self, Request { access, key, .. }: &Request) {
        let (bit, reads) = (1 << key, access.kind == AccessKind::Read);
        if access.txn == 0 || self.last != (access.txn, access.level) {
            let deleted = std::mem::take(&mut self.deleted);
            self.levels.push(Level { deleted, txn: access.txn, ..Level::default() });
            self.last = (access.txn, access.level);
        }
        self.seen += 1;
        let counts = self.seen > self.from && (reads || !self.reads_only);
        let Some(level) = self.levels.last_mut() else { return };
        if reads {
            level.reads |= bit;
        } else {
            level.writes |= bit;
            level.waits |= !self.reads_only;
        }
        level.counts |= counts;
        level.objects.extend(counts.then_some((bit, access.size)));
    }
}

/// All largest subsets of at most `most` bits: to keep more never hurts.
fn subsets(of: u64, most: usize, meet: &mut impl FnMut(u64)) {
    fn choose(rest: u64, drop: u32, kept: u64, meet: &mut impl FnMut(u64)) {
        if drop == 0 {
            return meet(kept | rest);
        }
        if rest.count_ones() < drop {
            return;
        }
        let bit = rest & rest.wrapping_neg();
        choose(rest & !bit, drop - 1, kept, meet);
        choose(rest & !bit, drop, kept | bit, meet);
    }
    choose(of, of.count_ones().saturating_sub(most as u32), 0, meet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Likewise by trying every subset after every level.
    fn naive(levels: &[u64], capacity: u32, cached: u64) -> u64 {
        let Some((&level, rest)) = levels.split_first() else { return 0 };
        let with = cached | level;
        let kept = (0..=with).filter(|kept| kept & !with == 0 && kept.count_ones() <= capacity);
        u64::from(level & !cached == 0) + kept.map(|kept| naive(rest, capacity, kept)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn equals_trying_everything(levels in prop::collection::vec(1u64..32, 0..5), capacity in 0u32..4) {
            prop_assert_eq!(most_hits(&levels, capacity as usize), Some(naive(&levels, capacity, 0)));
        }
    }
}
