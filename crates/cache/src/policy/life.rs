//! LIFE of PACMan. What is asked for together is of use only as a whole, and small ones are finished sooner. Here
//! that is a level of a transaction, there a file's wave. So levels without a request within a window go first, then
//! the largest of which a key is missing already, then the largest. They go key by key, until the level is gone.
//!
//! `life-artifact` is what the DeToX artifact calls LIFE. A key scores 1 / (S + 1), where S keys of the last level
//! that it was in were cached when that was over. The lowest goes of ten drawn by chance and sixteen that were left
//! before, as in the Redis that the artifact changes.
//!
//! A key belongs to the level that asked for it last. Writes and what is fetched ahead belong to none; what comes in
//! by them is a separate level. Levels are followed in each partition by themselves.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::drawn::Drawn;
use super::random::Random;
use super::{Access, AccessKind, Hits, NothingLearned, Order, Parameter, Policy, Slot, Why};

const SOURCE: &str = "Ananthanarayanan et al.: PACMan, coordinated memory caching for parallel jobs, NSDI 2012";

/// See the module.
pub static LIFE: Policy = Policy {
    name: "life",
    summary: "drops the largest levels of transactions first, incomplete ones before all; knows no frequency",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: size_of::<Entry>() + size_of::<Slot>(),
    parameters: &[Parameter {
        name: "window",
        summary: "accesses, for each entry, after which a level without a request goes before others",
        default: 10.0,
        range: (0.01, 1.0e6),
    }],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| {
        let window = settings.values.first().copied().unwrap_or(LIFE.parameters[0].default);
        Box::new(Life::new(Rule::Paper { window }, Drawn::default(), 0))
    },
};

/// See the module.
pub static LIFE_ARTIFACT: Policy = Policy {
    name: "life-artifact",
    summary: "drops keys of large levels first, by sampling, as the DeToX artifact has LIFE; to compare with",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: size_of::<Entry>() + size_of::<Slot>(),
    parameters: &[
        Parameter { name: "sample", summary: "entries looked at for each victim", default: 10.0, range: (1.0, 1024.0) },
        Parameter {
            name: "pool",
            summary: "candidates kept between evictions; 0: only the sample",
            default: 16.0,
            range: (0.0, 64.0),
        },
        Parameter { name: "seed", summary: "seed of the samples", default: 0.0, range: (0.0, 1.0e9) },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| {
        let value =
            |index: usize| settings.values.get(index).copied().unwrap_or(LIFE_ARTIFACT.parameters[index].default);
        Box::new(Life::new(Rule::Artifact, Drawn::new(value(0) as usize, value(1) as usize), value(2) as u64))
    },
};

/// Most levels that are followed while they are asked for; of more, the one that began first counts as over.
const OPEN_MAX: usize = 64;

/// No slot, group or place.
const NONE: u32 = u32::MAX;

/// Bytes of one group in the two sorted sets, which are at least half full.
const LISTED_BYTES: usize = 2 * (size_of::<ByAge>() + size_of::<BySize>());

/// When a group was asked for, and its number.
type ByAge = (u64, u32);

/// Whether a group is complete, its keys, and the same.
type BySize = (bool, Reverse<u32>, u64, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Paper { window: f64 },
    Artifact,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The level that asked for it last, `NONE` when pinned or not in.
    group: u32,
    /// Neighbours in the group.
    before: u32,
    after: u32,
    /// Place among the candidates.
    place: u32,
}

const OUT: Entry = Entry { group: NONE, before: NONE, after: NONE, place: NONE };

/// A level, the last time that it was asked for.
#[derive(Clone, Copy)]
struct Group {
    /// A key of it that may go.
    first: Slot,
    /// When it was asked for.
    since: u64,
    /// Keys that were asked for, and how many of them were found cached or came in.
    asked: u32,
    came: u32,
    /// It lost a key since.
    lost: bool,
    open: bool,
}

#[derive(Clone, Copy)]
struct Open {
    txn: u64,
    level: u16,
    group: u32,
}

struct Life {
    rule: Rule,
    drawn: Drawn,
    random: Random,
    /// Accesses heard of.
    now: u64,
    entries: Vec<Entry>,
    candidates: Vec<Slot>,
    groups: Vec<Group>,
    free: Vec<u32>,
    open: VecDeque<Open>,
    /// By the paper's rule, groups that are over and have a key that may go: longest unused first.
    by_age: BTreeSet<ByAge>,
    /// These groups in order: incomplete ones first, of those the largest, of those the longest unused.
    by_size: BTreeSet<BySize>,
}

impl Life {
    fn new(rule: Rule, drawn: Drawn, seed: u64) -> Life {
        Life {
            rule,
            drawn,
            random: Random::new(seed),
            now: 0,
            entries: Vec::new(),
            candidates: Vec::new(),
            groups: Vec::new(),
            free: Vec::new(),
            open: VecDeque::new(),
            by_age: BTreeSet::new(),
            by_size: BTreeSet::new(),
        }
    }

    /// A new group of nothing.
    fn found_group(&mut self, open: bool) -> u32 {
        let group = Group { first: NONE, since: self.now, asked: 0, came: 0, lost: false, open };
        match self.free.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        }
    }

    /// The group of the level that is asked for, which is a new one for what belongs to none.
    fn group_of(&mut self, access: &Access) -> u32 {
        if access.txn == 0 || access.kind != AccessKind::Read {
            return self.found_group(false);
        }
        if let Some(at) = self.open.iter().rposition(|open| open.txn == access.txn) {
            if self.open[at].level == access.level {
                return self.open[at].group;
            }
            self.close(at);
        }
        if self.open.len() == OPEN_MAX {
            self.close(0);
        }
        let group = self.found_group(true);
        self.open.push_back(Open { txn: access.txn, level: access.level, group });
        group
    }

    fn close(&mut self, at: usize) {
        if let Some(Open { group, .. }) = self.open.remove(at) {
            self.groups[group as usize].open = false;
            self.list(group);
        }
    }

    /// By what a group is found in the sets, if it is to be.
    fn listed(&self, number: u32) -> Option<(ByAge, BySize)> {
        let group = &self.groups[number as usize];
        let complete = !group.lost && group.came == group.asked;
        let is_listed = matches!(self.rule, Rule::Paper { .. }) && !group.open && group.first != NONE;
        is_listed.then_some(((group.since, number), (complete, Reverse(group.asked), group.since, number)))
    }

    /// Before a group changes.
    fn unlist(&mut self, number: u32) {
        if let Some((age, size)) = self.listed(number) {
            self.by_age.remove(&age);
            self.by_size.remove(&size);
        }
    }

    /// After a group changed: a place in the sets, or none for one that is over and empty.
    fn list(&mut self, number: u32) {
        if let Some((age, size)) = self.listed(number) {
            self.by_age.insert(age);
            self.by_size.insert(size);
        } else if !self.groups[number as usize].open && self.groups[number as usize].first == NONE {
            self.free.push(number);
        }
    }

    /// Puts a slot that may go from now on into a group.
    fn join(&mut self, slot: Slot, number: u32) {
        super::reach(&mut self.entries, slot, OUT);
        self.unlist(number);
        let first = std::mem::replace(&mut self.groups[number as usize].first, slot);
        if let Some(next) = self.entries.get_mut(first as usize) {
            next.before = slot;
        }
        let place = self.candidates.len() as u32;
        super::grow(&mut self.candidates, 1);
        self.candidates.push(slot);
        self.entries[slot as usize] = Entry { group: number, before: NONE, after: first, place };
        self.list(number);
    }

    /// Takes a slot out of its group and from those that may go. `lost`: it is not cached any more.
    fn part(&mut self, slot: Slot, lost: bool) {
        let entry = std::mem::replace(&mut self.entries[slot as usize], OUT);
        if entry.group == NONE {
            return;
        }
        self.unlist(entry.group);
        match self.entries.get_mut(entry.before as usize) {
            Some(before) => before.after = entry.after,
            None => self.groups[entry.group as usize].first = entry.after,
        }
        if let Some(after) = self.entries.get_mut(entry.after as usize) {
            after.before = entry.before;
        }
        self.groups[entry.group as usize].lost |= lost;
        self.list(entry.group);
        self.candidates.swap_remove(entry.place as usize);
        if let Some(&moved) = self.candidates.get(entry.place as usize) {
            self.entries[moved as usize].place = entry.place;
        }
    }

    /// The group that a newcomer is in, which nothing is taken from for it.
    fn own(&self, incoming: &Access) -> u32 {
        let same = |open: &&Open| (open.txn, open.level) == (incoming.txn, incoming.level);
        let own = self.open.iter().rev().find(same).filter(|_| incoming.slot.is_none() && incoming.txn != 0);
        own.map_or(NONE, |open| open.group)
    }

    /// A key of the group that goes first.
    fn first_by_rule(&self, window: f64) -> Option<Slot> {
        let (since, oldest) = *self.by_age.first()?;
        let passed = (self.now - since) as f64;
        let number = match passed > window * self.candidates.len() as f64 {
            true => oldest,
            false => self.by_size.first()?.3,
        };
        Some(self.groups[number as usize].first)
    }

    /// Of some drawn by chance, the one of whose level most keys were cached.
    fn largest_drawn(&mut self, own: u32) -> Option<Slot> {
        let Life { drawn, random, candidates, entries, groups, .. } = self;
        let worth = |slot: Slot| match entries[slot as usize].group {
            group if group == own => f64::INFINITY,
            group => -f64::from(groups[group as usize].came),
        };
        drawn.lowest(candidates, random, worth).filter(|(worth, _)| worth.is_finite()).map(|(_, slot)| slot)
    }
}

impl Order for Life {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let Some(group) = self.entries.get(slot as usize).map(|entry| entry.group).filter(|&group| group != NONE)
        else {
            return;
        };
        if access.kind != AccessKind::Read {
            return;
        }
        let to = self.group_of(access);
        if to != group {
            self.part(slot, false);
            let level = &mut self.groups[to as usize];
            (level.asked, level.came) = (level.asked + 1, level.came + 1);
            self.join(slot, to);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        if access.txn != 0 && access.kind == AccessKind::Read {
            let group = self.group_of(access);
            self.groups[group as usize].asked += 1;
        }
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let number = self.group_of(access);
        let group = &mut self.groups[number as usize];
        group.came += 1;
        // What belongs to no level was not counted when it was missed.
        group.asked = group.asked.max(group.came);
        self.join(slot, number);
    }

    fn resized(&mut self, _: Slot, _: u32) {}

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.drawn.forget(slot);
        self.part(slot, true);
    }

    fn fits(&mut self, slots: usize) {
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let own = self.own(incoming);
        let found = match self.rule {
            Rule::Paper { window } => self.first_by_rule(window),
            Rule::Artifact => self.largest_drawn(own),
        };
        // All else is being asked for, or a level is about as large as the cache.
        let other = |slot: &&Slot| self.entries[**slot as usize].group != own;
        found.or_else(|| self.candidates.iter().find(other).copied())
    }

    fn withdraw(&mut self, slot: Slot) {
        self.drawn.forget(slot);
        self.part(slot, false);
    }

    fn restore(&mut self, slot: Slot) {
        // A moment of its own, so that it is newer than what was let go before.
        self.now += 1;
        let alone = self.found_group(false);
        let group = &mut self.groups[alone as usize];
        (group.asked, group.came) = (1, 1);
        self.join(slot, alone);
    }

    fn ended(&mut self, txn: u64, _: bool) {
        while let Some(at) = self.open.iter().position(|open| open.txn == txn) {
            self.close(at);
        }
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        let groups = self.groups.capacity() * size_of::<Group>() + self.free.capacity() * size_of::<u32>();
        groups + self.by_age.len() * LISTED_BYTES
    }

    fn explain(&self, slot: Slot) -> String {
        let group = self.entries.get(slot as usize).and_then(|entry| self.groups.get(entry.group as usize));
        let Some(Group { asked, came, lost, since, .. }) = group else { return "pinned or not in".into() };
        let whole = if *lost || came < asked { "incomplete" } else { "complete" };
        format!("of {asked} keys asked for {} accesses ago, {came} came, {whole}", self.now - since)
    }

    fn validate(&self) {
        let mut members = 0;
        for (number, group) in (0..).zip(&self.groups) {
            let mut before = NONE;
            let mut slot = group.first;
            while slot != NONE {
                let entry = &self.entries[slot as usize];
                assert_eq!((entry.group, entry.before), (number, before), "slot {slot} is linked as it says");
                (before, slot) = (slot, entry.after);
                members += 1;
            }
            let sets =
                self.listed(number).map(|(age, size)| (self.by_age.contains(&age), self.by_size.contains(&size)));
            assert!(sets.is_none_or(|sets| sets == (true, true)), "group {number} is where it is looked for");
            let free = group.first == NONE && !group.open;
            assert_eq!(self.free.contains(&number), free, "group {number} is free if nothing is in it");
        }
        assert_eq!(members, self.candidates.len(), "all that may go is in a group");
        for (place, &slot) in self.candidates.iter().enumerate() {
            assert_eq!(self.entries[slot as usize].place as usize, place, "slot {slot} is not where it says");
        }
        self.drawn.validate(|slot| self.entries[slot as usize].group != NONE);
        assert_eq!(self.by_age.len(), self.by_size.len(), "both sets hold the same");
        assert!(self.open.len() <= OPEN_MAX, "levels beyond their bound");
        assert!(self.open.iter().all(|open| self.groups[open.group as usize].open), "open levels are open");
    }
}
