//! Transactions as their levels: the keys that one asks for at the same time. A level costs a round trip unless all that
//! it reads is cached; one that writes costs one always (DeToX, definitions 5 to 7, for chains of levels).

use std::collections::VecDeque;

use forebay::policy::AccessKind;
use hashbrown::HashMap;

use crate::catalog::Request;

/// Most transactions open at the same time; the one that began first then counts as ended.
pub const OPEN_MAX: usize = 100_000;

/// Keys of a level that can be said to have helped.
pub const LEVEL_KEYS_MAX: usize = 10_000;

#[derive(Default)]
struct Open {
    level: u16,
    /// All of the present level was cached so far.
    all_hit: bool,
    /// Keys of the present level.
    keys: Vec<u32>,
    levels: u64,
    levels_hit: u64,
    /// Keys of levels that were hit.
    helped: Vec<u32>,
}

impl Open {
    fn close_level(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        self.levels += 1;
        if self.all_hit {
            self.levels_hit += 1;
            self.helped.append(&mut self.keys);
        }
        self.keys.clear();
    }
}

/// Follows transactions through a replay.
pub struct Levels {
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    levels: u64,
    levels_hit: u64,
    /// By key: it was in a level that was hit since it came in.
    helped: Vec<u64>,
}

impl Levels {
    /// Nothing yet.
    pub fn new() -> Levels {
        Levels { open: HashMap::default(), began: VecDeque::new(), levels: 0, levels_hit: 0, helped: Vec::new() }
    }

    /// One access. A request outside of transactions is a transaction of its own.
    pub fn access(&mut self, request: &Request, hit: bool) {
        let access = &request.access;
        if access.kind == AccessKind::Prefetch {
            return;
        }
        let hit = hit && access.kind == AccessKind::Read;
        if !hit {
            self.set_helped(request.key, false);
        }
        if access.txn == 0 {
            self.levels += 1;
            self.levels_hit += u64::from(hit);
            self.set_helped(request.key, hit);
            return;
        }
        if !self.open.contains_key(&access.txn) {
            self.began.push_back(access.txn);
            while self.open.len() >= OPEN_MAX {
                let Some(first) = self.began.pop_front() else { break };
                self.end(first, true);
            }
        }
        let open = self.open.entry(access.txn).or_default();
        if open.keys.is_empty() || open.level != access.level {
            open.close_level();
            (open.level, open.all_hit) = (access.level, true);
        }
        open.all_hit &= hit;
        if open.keys.len() < LEVEL_KEYS_MAX {
            open.keys.push(request.key);
        }
    }

    /// A transaction ended. One that was aborted does not count: its rerun will.
    pub fn end(&mut self, txn: u64, committed: bool) {
        let Some(mut open) = self.open.remove(&txn) else { return };
        open.close_level();
        if committed {
            self.levels += open.levels;
            self.levels_hit += open.levels_hit;
            open.helped.iter().for_each(|&key| self.set_helped(key, true));
        }
        // Numbers of ended transactions go once they are the most.
        if self.began.len() > 2 * self.open.len() + OPEN_MAX {
            self.began.retain(|txn| self.open.contains_key(txn));
        }
    }

    /// What is still open at the end of the trace counts as committed.
    pub fn finish(&mut self) {
        let mut open: Vec<u64> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|txn| self.end(txn, true));
    }

    /// Levels hit per level; none without levels.
    pub fn ratio(&self) -> Option<f64> {
        (self.levels > 0).then(|| self.levels_hit as f64 / self.levels as f64)
    }

    /// Whether a key was in a level that was hit, since it came in.
    pub fn has_helped(&self, key: u32) -> bool {
        self.helped.get(key as usize / 64).is_some_and(|bits| bits >> (key % 64) & 1 == 1)
    }

    fn set_helped(&mut self, key: u32, helped: bool) {
        let word = key as usize / 64;
        if word >= self.helped.len() {
            self.helped.resize(word + 1, 0);
        }
        self.helped[word] = self.helped[word] & !(1 << (key % 64)) | u64::from(helped) << (key % 64);
    }
}

impl Default for Levels {
    fn default() -> Levels {
        Levels::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::NEVER;
    use forebay::policy::Access;

    fn request(txn: u64, level: u16, key: u32, kind: AccessKind) -> Request {
        let access = Access { txn, level, kind, ..Access::read(u64::from(key), 1) };
        Request { access, key, next: NEVER, next_reads: false }
    }

    #[test]
    fn a_level_is_hit_when_all_of_it_is() {
        let mut levels = Levels::new();
        for (level, key, kind, hit) in [
            (0, 1, AccessKind::Read, true),
            (0, 2, AccessKind::Read, true),
            (1, 3, AccessKind::Read, true),
            (1, 4, AccessKind::Read, false),
            (2, 1, AccessKind::Write, true),
        ] {
            levels.access(&request(7, level, key, kind), hit);
        }
        // Another one is aborted, a third never ends.
        levels.access(&request(8, 0, 5, AccessKind::Read), true);
        levels.end(8, false);
        levels.access(&request(9, 0, 6, AccessKind::Read), true);
        levels.end(7, true);
        levels.finish();
        assert_eq!(levels.ratio(), Some(2.0 / 4.0));
        let helped = [1, 2, 3, 4, 5, 6].map(|key| levels.has_helped(key));
        assert_eq!(helped, [true, true, false, false, false, true]);
    }

    #[test]
    fn plain_requests_are_transactions_of_one_level_and_open_ones_are_bounded() {
        let mut levels = Levels::new();
        levels.access(&request(0, 0, 1, AccessKind::Read), true);
        levels.access(&request(0, 0, 2, AccessKind::Read), false);
        assert_eq!(levels.ratio(), Some(0.5));
        for txn in 1..=OPEN_MAX as u64 + 5 {
            levels.access(&request(txn, 0, 3, AccessKind::Read), true);
        }
        assert!(levels.open.len() <= OPEN_MAX);
    }
}
