//! How entries stand in the order of their partition, and how they come to stand so again after a restart.
//!
//! A [`Line`] is copied under the partition's lock, as numbers of slots. The keys are looked at a few at a time. Those
//! that would stay longest come first. Read in this order, each goes to the oldest end of the order
//! ([`Order::stand_first`](crate::policy::Order::stand_first)). So what clients read meanwhile stands behind all of
//! them. A cache that becomes full has those that matter most.

use super::partition::Partition;
use super::{AccessKind, Cache, Context, charge};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::policy::{Hits, MARKS_MAX, Slot};
use crate::read::Read;
use crate::sync::Ordering;

/// A document of one so-manyth of the room, or more, does not say that the cache is full.
const LARGE_SHARE: usize = 16;

/// How an entry stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The section of its policy's line; `None` where nothing is known of it.
    pub section: Option<u8>,
    /// Touches that count.
    pub touches: u8,
    /// It is known that the key has no document.
    pub absent: bool,
}

/// The order of a partition's entries at some moment.
#[derive(Debug, Default)]
pub struct Line {
    partition: usize,
    sections: Vec<Vec<Slot>>,
}

impl Line {
    /// Entries that are left.
    pub fn len(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.sections.iter().all(Vec::is_empty)
    }

    /// The next `count` at most: those that would stay longest.
    fn take(&mut self, count: usize) -> Vec<(Slot, u8)> {
        let mut taken = Vec::with_capacity(count.min(self.len()));
        for (section, slots) in self.sections.iter_mut().enumerate().rev() {
            let rest = slots.len().saturating_sub(count - taken.len());
            taken.extend(slots.drain(rest..).rev().map(|slot| (slot, section as u8)));
        }
        taken
    }
}

/// What became of a document that was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It is cached.
    Cached,
    /// The policy keeps it out.
    KeptOut,
    /// What was read may be old: something has happened to the key since the fill was begun.
    Overtaken,
    /// There is no room left.
    Full,
}

impl Cache {
    /// How the entries of a partition stand now. Nothing of a partition that is not there.
    pub fn line(&self, partition: usize) -> Line {
        let Some(guarded) = self.inner.partitions.get(partition) else { return Line::default() };
        Line { partition, sections: guarded.lock(&self.inner.beside).sections() }
    }

    /// The keys that stand in the next `count` slots of a line, as they stand now.
    pub fn stand(&self, line: &mut Line, count: usize) -> Vec<(Key, Standing)> {
        let Some(guarded) = self.inner.partitions.get(line.partition) else { return Vec::new() };
        let slots = line.take(count);
        let partition = guarded.lock(&self.inner.beside);
        slots.into_iter().filter_map(|(slot, section)| partition.standing(slot, section)).collect()
    }

    /// What the policy remembers of keys that left a partition: prints and weights, oldest first.
    pub fn ghosts(&self, partition: usize) -> Vec<(u32, u32)> {
        let guarded = self.inner.partitions.get(partition);
        guarded.map_or_else(Vec::new, |guarded| guarded.lock(&self.inner.beside).order.ghosts())
    }

    /// Has the policy remember these as well, of a cache with the same policy and as many partitions.
    pub fn add_ghosts(&self, partition: usize, ghosts: &[(u32, u32)]) {
        let Some(guarded) = self.inner.partitions.get(partition) else { return };
        let mut partition = guarded.lock(&self.inner.beside);
        partition.order.add_ghosts(ghosts);
        let access = partition.access(0, None, &Context::default(), AccessKind::Prefetch, 0);
        self.charge_policy(&mut partition, &access);
    }

    /// Puts what was read again in, if the fill with this id is still open and there is room, and ends the fill.
    pub(super) fn resume(&self, key: &Key, id: u64, read: &Read, standing: Standing) -> Resumed {
        let hash = key.borrow().hash64();
        let mut partition = self.inner.partition_of(hash);
        if !partition.fetched(key, id, read) && !mutation::on(Fault::OvertakenFill) {
            return Resumed::Overtaken;
        }
        let resumed = self.resume_in(&mut partition, hash, key, read, standing);
        partition.end_flight(key, Some(id));
        resumed
    }

    fn resume_in(&self, partition: &mut Partition, hash: u64, key: &Key, read: &Read, standing: Standing) -> Resumed {
        if partition.slot(hash, key.borrow()).is_some() {
            return Resumed::Overtaken;
        }
        let charged = charge(key, read, self.inner.policy);
        if !self.reserve(charged) {
            // There may be room for the others.
            return if charged > self.room_bytes() / LARGE_SHARE { Resumed::KeptOut } else { Resumed::Full };
        }
        // No client asks for it, so watchers of accesses do not hear of it.
        let access = partition.access(hash, None, &Context::default(), AccessKind::Prefetch, charged);
        let has_come = partition.admit(&access) && partition.put(key, read, &access, 0, false);
        if has_come {
            partition.stand_first(hash, key, standing);
        } else {
            partition.reject(None);
            self.inner.used_bytes.fetch_sub(charged, Ordering::Relaxed);
        }
        self.charge_policy(partition, &access);
        if has_come { Resumed::Cached } else { Resumed::KeptOut }
    }
}

impl Partition {
    /// The slots by sections of the policy's line, in each those first that would go first.
    fn sections(&self) -> Vec<Vec<Slot>> {
        self.order.line().unwrap_or_else(|| vec![self.entries.iter().map(|(slot, _)| slot).collect()])
    }

    fn standing(&self, slot: Slot, section: u8) -> Option<(Key, Standing)> {
        let view = self.view(slot)?;
        let touches = (self.order.touches(slot) + self.entries.touches(slot)).min(MARKS_MAX);
        let absent = view.read().value.is_none();
        Some((view.to_key(), Standing { section: Some(section), touches, absent }))
    }

    /// Has an entry that has just come in stand before all others, as it stood before.
    fn stand_first(&mut self, hash: u64, key: &Key, standing: Standing) {
        let Some(slot) = self.slot(hash, key.borrow()) else { return };
        if !mutation::on(Fault::ResumedAsNew) {
            self.order.stand_first(slot, standing.section.map(usize::from));
        }
        if self.policy.hits == Hits::Marks {
            (0..standing.touches).for_each(|_| self.entries.touch(slot));
        }
    }
}
