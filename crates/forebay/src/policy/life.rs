//! LIFE (PACMan, section 4.2.1): a file that a job reads in parallel gains only when all of it is cached. So what was
//! not asked for lately goes first, then what is in the largest incomplete file, then in the largest complete one.
//!
//! What a transaction asks for at the same time, a level, stands for a file; a key belongs to the level that asked for
//! it last, and a level's size is the number of its keys. One that lacks a key is incomplete. What is asked for outside
//! transactions, and what is written or fetched ahead, is a level of its own. Each order knows its partition's part of
//! a level; with one partition that is all of it.
//!
//! `life-artifact`, which the DeToX authors compared with, is another rule: see `detox/`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::list::{LIST_BYTES, Lists, NODE_BYTES};
use super::{Access, AccessKind, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LIFE: Policy = Policy {
    name: "life",
    summary: "gives up the largest set of keys asked for together, incomplete ones first; to compare with",
    source: "Ananthanarayanan et al.: PACMan, coordinated memory caching for parallel jobs, NSDI 2012",
    hits: Hits::Accesses,
    entry_bytes: NODE_BYTES + size_of::<u32>(),
    parameters: &[Parameter {
        name: "window",
        summary: "accesses, for each entry, after which what was not asked for goes first",
        default: 10.0,
        range: (0.0, 1.0e6),
    }],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Life::new(settings)),
};

/// The list of pinned entries; the other lists are levels.
const PINNED: u32 = 0;
/// The level of what finds no place in one of its own.
const COMMON: u32 = 1;
/// Most levels at the same time.
const LEVELS_MAX: usize = 1 << 22;
/// Most transactions that are followed at the same time; of more, the one that began first is forgotten.
const OPEN_MAX: usize = 16_384;

#[derive(Clone, Copy, Default)]
struct Level {
    /// Keys that belong to it.
    width: u32,
    /// Those of them that are not cached.
    missing: u32,
    /// Those that are, pinned ones too.
    live: u32,
    /// Whether more keys may come: its transaction is open, or a key is on its way in.
    holds: u32,
    /// When it was asked for last.
    stamp: u64,
}

/// A level by what makes it go: the greatest first.
type Rank = (bool, u32, u64, u32);

struct Life {
    unit: Unit,
    window: f64,
    /// Accesses heard of.
    now: u64,
    lists: Lists,
    /// By list.
    levels: Vec<Level>,
    free: Vec<u32>,
    /// By slot.
    level_of: Vec<u32>,
    /// Entries.
    len: u64,
    /// Levels with entries that may go.
    ranked: BTreeSet<Rank>,
    by_age: BTreeSet<(u64, u32)>,
    /// The open level of each transaction: its number in the transaction, and the list.
    open: HashMap<u64, (u16, u32), foldhash::fast::FixedState>,
    began: VecDeque<u64>,
    /// A key that was missed and may come in, and its level.
    incoming: Option<(u64, u32)>,
}

impl Life {
    fn new(settings: &Settings) -> Life {
        let window = settings.values.first().copied().unwrap_or(LIFE.parameters[0].default);
        Life {
            unit: settings.unit,
            window,
            now: 0,
            lists: Lists::new(2),
            levels: vec![Level { holds: 1, ..Level::default() }; 2],
            free: Vec::new(),
            level_of: Vec::new(),
            len: 0,
            ranked: BTreeSet::new(),
            by_age: BTreeSet::new(),
            open: HashMap::default(),
            began: VecDeque::new(),
            incoming: None,
        }
    }

    fn rank(&self, level: u32) -> Rank {
        let Level { width, missing, stamp, .. } = self.levels[level as usize];
        (missing > 0, width, u64::MAX - stamp, level)
    }

    /// Does something to a level and its list, which the ranks then follow.
    fn change(&mut self, level: u32, act: impl FnOnce(&mut Lists, &mut Level)) {
        if !self.lists.is_empty(level) {
            self.ranked.remove(&self.rank(level));
            self.by_age.remove(&(self.levels[level as usize].stamp, level));
        }
        let of = &mut self.levels[level as usize];
        act(&mut self.lists, of);
        if of.live == 0 && of.holds == 0 {
            *of = Level::default();
            self.free.push(level);
        } else if !self.lists.is_empty(level) {
            self.by_age.insert((of.stamp, level));
            self.ranked.insert(self.rank(level));
        }
    }

    /// A level with one hold.
    fn new_level(&mut self) -> u32 {
        let level = match self.free.pop() {
            Some(level) => level,
            None if self.levels.len() < LEVELS_MAX => {
                self.levels.push(Level::default());
                self.lists.add_list()
            }
            None => COMMON,
        };
        self.levels[level as usize].holds += 1;
        level
    }

    fn let_go(&mut self, level: u32) {
        self.change(level, |_, of| of.holds -= 1);
    }

    /// The level that an access belongs to, with one hold more.
    fn level(&mut self, access: &Access) -> u32 {
        if access.txn == 0 || access.kind != AccessKind::Read {
            return self.new_level();
        }
        if let Some(&(number, level)) = self.open.get(&access.txn) {
            if number == access.level {
                self.levels[level as usize].holds += 1;
                return level;
            }
            self.let_go(level);
        } else {
            while self.open.len() >= OPEN_MAX {
                let Some(first) = self.began.pop_front() else { break };
                self.close(first);
            }
            self.began.push_back(access.txn);
        }
        let level = self.new_level();
        self.levels[level as usize].holds += 1;
        self.open.insert(access.txn, (access.level, level));
        level
    }

    fn close(&mut self, txn: u64) {
        if let Some((_, level)) = self.open.remove(&txn) {
            self.let_go(level);
        }
        if self.began.len() > 2 * self.open.len() + 64 {
            self.began.retain(|txn| self.open.contains_key(txn));
        }
    }

    /// Nothing more is to be heard of a key that was missed.
    fn settle(&mut self) {
        if let Some((_, level)) = self.incoming.take() {
            self.let_go(level);
        }
    }
}

impl Order for Life {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        if access.kind != AccessKind::Read {
            return;
        }
        let (now, level, before) = (self.now, self.level(access), self.level_of[slot as usize]);
        let pinned = self.lists.list_of(slot) == Some(PINNED);
        if before != level {
            let weight = self.lists.weight_of(slot);
            self.change(before, |lists, of| {
                (of.width, of.live) = (of.width - 1, of.live - 1);
                if !pinned {
                    lists.remove(slot);
                }
            });
            self.level_of[slot as usize] = level;
            self.change(level, |lists, of| {
                (of.width, of.live) = (of.width + 1, of.live + 1);
                if !pinned {
                    lists.push(level, slot, weight);
                }
            });
        }
        self.change(level, |_, of| (of.stamp, of.holds) = (now, of.holds - 1));
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        self.settle();
        let (now, level) = (self.now, self.level(access));
        self.change(level, |_, of| (of.width, of.missing, of.stamp) = (of.width + 1, of.missing + 1, now));
        self.incoming = Some((access.hash, level));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let expected = self.incoming.filter(|&(hash, _)| hash == access.hash);
        let level = match expected {
            Some((_, level)) => level,
            None => {
                let level = self.new_level();
                self.change(level, |_, of| (of.width, of.missing) = (of.width + 1, of.missing + 1));
                level
            }
        };
        if slot as usize >= self.level_of.len() {
            self.level_of.resize(slot as usize + 1, COMMON);
        }
        self.level_of[slot as usize] = level;
        self.len += 1;
        self.change(level, |lists, of| {
            (of.missing, of.live) = (of.missing - 1, of.live + 1);
            lists.push(level, slot, weight);
        });
        match expected {
            Some(_) => self.settle(),
            None => self.let_go(level),
        }
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.len -= 1;
        self.change(self.level_of[slot as usize], |lists, of| {
            lists.remove(slot);
            (of.missing, of.live) = (of.missing + 1, of.live - 1);
        });
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.level_of, slots);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let own = self.incoming.filter(|&(hash, _)| incoming.slot.is_none() && hash == incoming.hash);
        let other = |level: &u32| own.is_none_or(|(_, own)| own != *level);
        let old = |&(stamp, _): &(u64, u32)| (self.now - stamp) as f64 > self.window * self.len as f64;
        let old = self.by_age.iter().take_while(|age| old(age)).map(|age| age.1).find(other);
        let level = old.or_else(|| self.ranked.iter().rev().map(|rank| rank.3).find(other));
        // All else is gone: a level larger than the cache makes room for itself.
        self.lists.oldest(level.or(own.map(|(_, own)| own))?)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.change(self.level_of[slot as usize], |lists, _| lists.move_to(PINNED, slot));
    }

    fn restore(&mut self, slot: Slot) {
        let level = self.level_of[slot as usize];
        self.change(level, |lists, _| lists.move_to(level, slot));
    }

    fn ended(&mut self, txn: u64, _: bool) {
        self.close(txn);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        let ranks = self.ranked.len() * (size_of::<Rank>() + size_of::<(u64, u32)>());
        let open = self.open.len() * size_of::<(u64, (u16, u32))>() + self.began.capacity() * size_of::<u64>();
        self.levels.capacity() * (size_of::<Level>() + LIST_BYTES) + self.free.capacity() * 4 + ranks + open
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(list) = self.lists.list_of(slot) else { return "not in".into() };
        let Level { width, missing, stamp, .. } = self.levels[self.level_of[slot as usize] as usize];
        let pinned = if list == PINNED { ", pinned" } else { "" };
        let ago = self.now - stamp;
        format!("one of {width} keys asked for together {ago} accesses ago, of which {missing} are not cached{pinned}")
    }

    fn validate(&self) {
        self.lists.validate();
        assert_eq!(self.levels.iter().map(|of| u64::from(of.live)).sum::<u64>(), self.len, "every entry has a level");
        for (level, of) in self.levels.iter().enumerate().skip(1) {
            let level = level as u32;
            assert_eq!(of.width, of.live + of.missing, "level {level}: a key is cached or not");
            assert!(self.lists.len(level) <= of.live as usize, "level {level}: entries that are not its own");
            let is_own = |slot: Slot| self.level_of[slot as usize] == level;
            assert!(self.lists.iter(level).all(is_own), "level {level}: a slot from elsewhere");
            let may_go = !self.lists.is_empty(level);
            assert_eq!(self.ranked.contains(&self.rank(level)), may_go, "level {level} is ranked if something may go");
            assert_eq!(self.by_age.contains(&(of.stamp, level)), may_go, "level {level} stands by its age");
        }
        assert_eq!(self.ranked.len(), self.by_age.len(), "both know the same levels");
        assert!(self.open.len() <= OPEN_MAX, "transactions beyond their bound");
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::bare::Bare;
    use crate::policy::{Access, Unit, choose};

    fn ask(cache: &mut Bare, txn: u64, keys: &[u64]) {
        for &key in keys {
            cache.access(Access { txn, ..Access::read(key, 1) });
        }
        cache.ended(txn, true);
    }

    /// The largest goes first, and the rest of it before anything else, as it is no use any more.
    #[test]
    fn large_levels_go_and_go_whole() {
        let choice = choose("life").expect("known");
        let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 8));
        ask(&mut cache, 1, &[1, 2, 3, 4]);
        ask(&mut cache, 2, &[10, 11]);
        ask(&mut cache, 3, &[20, 21]);
        ask(&mut cache, 4, &[30]);
        assert_eq!(cache.evicted(), [1]);
        assert!(cache.explain(2).expect("cached").contains("one of 4 keys"), "{:?}", cache.explain(2));
        ask(&mut cache, 5, &[40, 41, 42]);
        assert!((1..5).all(|key| !cache.contains(key)), "all of the first level are gone");
        assert!([10, 11, 20, 21, 30].into_iter().all(|key| cache.contains(key)));
    }

    /// What nobody asks for any more goes before what is large.
    #[test]
    fn the_old_go_first() {
        let choice = choose("life:window=2").expect("known");
        let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, 4));
        ask(&mut cache, 1, &[1]);
        for txn in 2..8 {
            ask(&mut cache, txn, &[10, 11, 12]);
        }
        ask(&mut cache, 9, &[20]);
        assert_eq!(cache.evicted(), [1]);
    }
}
