//! One partition: index, entries, fences and the policy's order, all under one lock.

use std::collections::HashMap;
use std::sync::Arc;

use futures_channel::oneshot;
use hashbrown::HashTable;

use super::entry::Entry;
use super::fence::{Begin, Fence, Fill, Flight, Follow};
use super::guard::GivenUp;
use super::slab::{CHUNK, Slab};
use super::slot::prefetch_record;
use super::{Cache, CacheStats, Context, Look, Watcher};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::policy::{Access, AccessKind, Hits, Order, Policy, Slot, Why};
use crate::read::Read;
use crate::read::record::Record;
use crate::version::Version;

/// An index that is less than one so-manyth full is made smaller.
const SHRINKS_UNDER: usize = 8;

/// Tables of what is going on at the moment have room for so many keys at least.
const FENCES_KEPT: usize = 256;

/// The state of a slot in one word: which occupant and which value of it, and whether it is being published. It changes
/// with every install and whenever the slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    slot: Slot,
    sequence: u64,
}

pub(super) struct Partition {
    index: HashTable<Slot>,
    pub(super) entries: Slab<Entry>,
    /// The order's tables are for so many slots.
    slots: usize,
    pub(super) order: Box<dyn Order>,
    pub(super) policy: &'static Policy,
    fences: HashMap<Key, Fence, foldhash::quality::RandomState>,
    /// How often each pinned slot is pinned.
    pins: HashMap<Slot, u32, foldhash::fast::RandomState>,
    next_sequence: u64,
    tick: u64,
    /// What is charged for the policy's metadata beyond its entries.
    policy_bytes: usize,
    stats: CacheStats,
    /// What is told of accesses; nothing, as a rule.
    pub(super) watchers: Vec<Arc<dyn Watcher>>,
    /// What is dropped when the mutex is not held any more.
    pub(super) given_up: GivenUp,
}

impl Partition {
    pub(super) fn new(policy: &'static Policy, order: Box<dyn Order>) -> Partition {
        Partition {
            index: HashTable::new(),
            entries: Slab::new(),
            slots: 0,
            order,
            policy,
            fences: HashMap::default(),
            pins: HashMap::default(),
            next_sequence: 0,
            tick: 0,
            policy_bytes: 0,
            stats: CacheStats::default(),
            watchers: Vec::new(),
            given_up: GivenUp::default(),
        }
    }

    /// Where `key`, which has this hash, is cached.
    pub(super) fn slot(&self, hash: u64, key: KeyRef<'_>) -> Option<Slot> {
        let same = |slot: &Slot| self.entries.get(*slot).is_some_and(|entry| entry.is_of(key));
        self.index.find(hash, same).copied()
    }

    fn find(&self, key: KeyRef<'_>) -> Option<Slot> {
        self.slot(key.hash64(), key)
    }

    fn entry(&self, key: KeyRef<'_>) -> Option<&Entry> {
        self.entries.get(self.find(key)?)
    }

    /// The access as the policy is told of it; counts a tick.
    pub(super) fn access(
        &mut self,
        hash: u64,
        slot: Option<Slot>,
        context: &Context,
        kind: AccessKind,
        size: usize,
    ) -> Access {
        self.tick += 1;
        Access {
            hash,
            slot: slot.map(|slot| (slot, 0)),
            kind,
            size: size as u32,
            cost_us: context.cost_us,
            client: context.client,
            hints: context.hints,
            txn: context.txn,
            txn_type: context.txn_type,
            level: context.level,
            vertex: context.vertex,
            tick: self.tick,
        }
    }

    pub(super) fn get(&mut self, hash: u64, key: KeyRef<'_>, context: &Context) -> Option<Read> {
        let Some(slot) = self.slot(hash, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.touch_slot(slot, hash, context);
        self.entries.get(slot).map(|entry| entry.record.read())
    }

    pub(super) fn get_published(&mut self, hash: u64, key: KeyRef<'_>, context: &Context) -> Option<Read> {
        let slot = self.slot(hash, key)?;
        let read = self.entries.get(slot).filter(|entry| !entry.marked())?.record.read();
        self.touch_slot(slot, hash, context);
        Some(read)
    }

    /// Asks for the memory of the entry that a key with this hash probably has; its slot.
    pub(super) fn prefetch_entry(&self, hash: u64) -> Option<Slot> {
        let slot = *self.index.find(hash, |_| true)?;
        self.entries.prefetch(slot);
        Some(slot)
    }

    /// Asks for the memory of the record in `slot`.
    pub(super) fn prefetch_record(&self, slot: Slot) {
        if let Some(entry) = self.entries.get(slot) {
            prefetch_record(&entry.record);
        }
    }

    pub(super) fn peek(&self, key: KeyRef<'_>) -> Option<Read> {
        self.entry(key).map(|entry| entry.record.read())
    }

    pub(super) fn look(&self, hash: u64, key: KeyRef<'_>) -> Look {
        let Some(slot) = self.slot(hash, key) else { return Look::Miss };
        match self.entries.get(slot) {
            Some(entry) if !entry.marked() => Look::Hit(entry.record.read(), Word { slot, sequence: entry.sequence() }),
            Some(_) => Look::Marked,
            None => Look::Miss,
        }
    }

    pub(super) fn unchanged(&self, key: KeyRef<'_>, word: Word) -> bool {
        let entry = self.entries.get(word.slot);
        let wrong = |entry: &Entry| mutation::on(Fault::WrongSequence) && entry.sequence() >= word.sequence;
        let same = |entry: &Entry| entry.sequence() == word.sequence || wrong(entry);
        entry.is_some_and(|entry| same(entry) && !entry.marked() && entry.is_of(key))
    }

    pub(super) fn touch(&mut self, hash: u64, word: Word, context: &Context) {
        match self.entries.get(word.slot).is_some_and(|entry| entry.sequence() == word.sequence) {
            true => self.touch_slot(word.slot, hash, context),
            // Replaced since: a hit all the same, but nothing that the order should hear of.
            false => self.stats.hits += 1,
        }
    }

    fn touch_slot(&mut self, slot: Slot, hash: u64, context: &Context) {
        self.stats.hits += 1;
        if !self.watchers.is_empty() {
            self.tell_hit(slot, context);
        }
        match self.policy.hits {
            Hits::Marks => {
                if let Some(entry) = self.entries.get_mut(slot) {
                    entry.touch();
                }
            }
            Hits::Sampled | Hits::Accesses => {
                let size = self.entries.get(slot).map_or(0, |entry| entry.charged(self.policy));
                let access = self.access(hash, Some(slot), context, AccessKind::Read, size);
                self.order.access(slot, &access);
            }
        }
    }

    /// **Invariant.** No fill is open beside an entry: ended, it would have shown its reader more than the entry does.
    pub(super) fn begin_fill(&mut self, key: &Key, id: u64, cache: &Cache) -> Begin {
        if self.is_held(key) && !mutation::on(Fault::FillWhileHeld) {
            return Begin::Held;
        }
        if let Some(cached) = self.peek(key.borrow()).filter(|_| !mutation::on(Fault::FillBesideEntry)) {
            return Begin::Follow(Follow::told(cached));
        }
        let fence = self.fences.entry(key.clone()).or_default();
        let Some(flight) = &mut fence.flight else {
            fence.flight = Some(Flight { id, fetched: None, followers: Vec::new() });
            return Begin::Lead(Fill::new(cache.clone(), key.clone(), id));
        };
        self.stats.followers += 1;
        let (sender, receiver) = oneshot::channel();
        match &flight.fetched {
            Some(read) => drop(sender.send(read.clone())),
            None => flight.followers.push(sender),
        }
        Begin::Follow(Follow::new(receiver))
    }

    /// The open fill of `key`, if it is still the one with this id.
    pub(super) fn flight(&mut self, key: &Key, id: u64) -> Option<&mut Flight> {
        self.fences.get_mut(key)?.flight.as_mut().filter(|flight| flight.id == id)
    }

    /// Ends the open fill of `key`, or only the one with this id; its followers wake empty-handed.
    pub(super) fn end_flight(&mut self, key: &Key, id: Option<u64>) {
        if self.fences.is_empty() {
            return;
        }
        let Some(fence) = self.fences.get_mut(key) else { return };
        let same = fence.flight.as_ref().is_some_and(|flight| id.is_none_or(|id| flight.id == id));
        if same {
            fence.flight = None;
            self.stats.fills_ended += u64::from(id.is_none());
        }
        if fence.idle() {
            self.fences.remove(key);
            self.shrink_fences();
        }
    }

    /// Gives the memory of fences back that a burst has left behind; as rarely as the table grew.
    fn shrink_fences(&mut self) {
        if self.fences.capacity() > FENCES_KEPT && self.fences.len() < self.fences.capacity() / SHRINKS_UNDER {
            self.fences.shrink_to((2 * self.fences.len()).max(FENCES_KEPT / 2));
        }
    }

    /// Ends the fill of a key that is removed or known to have changed.
    fn end_overtaken(&mut self, key: &Key) {
        if !mutation::on(Fault::FillSurvivesInvalidation) {
            self.end_flight(key, None);
        }
    }

    pub(super) fn hold(&mut self, key: &Key) {
        self.end_flight(key, None);
        self.fences.entry(key.clone()).or_default().held += 1;
    }

    pub(super) fn is_held(&self, key: &Key) -> bool {
        self.fences.get(key).is_some_and(|fence| fence.held > 0)
    }

    pub(super) fn release(&mut self, key: &Key) {
        let Some(fence) = crate::error::there(self.fences.get_mut(key)) else { return };
        fence.held = fence.held.saturating_sub(1);
        if fence.idle() {
            self.fences.remove(key);
            self.shrink_fences();
        }
    }

    /// Marks `key`, if it is cached, as being published, or as published.
    pub(super) fn set_marked(&mut self, hash: u64, key: KeyRef<'_>, marked: bool) {
        let slot = self.slot(hash, key);
        if let Some(entry) = slot.and_then(|slot| self.entries.get_mut(slot)) {
            entry.set_marked(marked);
        }
    }

    pub(super) fn charged(&self, slot: Slot) -> usize {
        self.entries.get(slot).map_or(0, |entry| entry.charged(self.policy))
    }

    pub(super) fn admit(&mut self, access: &Access) -> bool {
        self.order.admit(access)
    }

    /// Counts what was kept out, and drops what was cached of it.
    pub(super) fn reject(&mut self, slot: Option<Slot>) -> usize {
        self.stats.rejections += 1;
        slot.map_or(0, |slot| self.take(slot, Why::Invalidated))
    }

    /// Puts a value in, where `access` says that its key is cached; room has been made.
    pub(super) fn put(&mut self, key: &Key, read: &Read, access: &Access, marked: bool) {
        self.next_sequence += 1;
        let sequence = self.next_sequence;
        if let Some((slot, _)) = access.slot {
            if let Some(entry) = self.entries.get_mut(slot) {
                let before = entry.charged(self.policy);
                self.given_up.keep(&entry.record, before);
                entry.replace(key, read, sequence);
                if marked {
                    entry.set_marked(true);
                }
                if before != access.size as usize {
                    self.order.resized(slot, access.size);
                }
                match self.policy.hits {
                    Hits::Marks => entry.touch(),
                    Hits::Sampled | Hits::Accesses => self.order.access(slot, access),
                }
            }
            return;
        }
        let record = Record::new(key, read);
        let slot = self.entries.insert(Entry::new(record, sequence, key.space(), marked));
        self.slots = self.slots.max(self.entries.bound());
        let entries = &self.entries;
        let hash = |slot: &Slot| entries.get(*slot).map_or(0, |entry| entry.hash64());
        self.index.insert_unique(access.hash, slot, hash);
        self.order.inserted(slot, access);
        self.stats.insertions += 1;
    }

    /// Whether anything in here may be evicted: not all is pinned.
    pub(super) fn has_candidates(&self) -> bool {
        self.index.len() > self.pins.len()
    }

    /// What was charged for the policy's metadata beyond its entries, and what is to be charged from now on.
    pub(super) fn policy_bytes(&mut self) -> (usize, usize) {
        let now = self.order.ghost_bytes();
        (std::mem::replace(&mut self.policy_bytes, now), now)
    }

    /// Evicts one entry to make room for `incoming`; the bytes freed, `None` if nothing may go.
    pub(super) fn evict(&mut self, incoming: &Access) -> Option<usize> {
        let entries = &mut self.entries;
        let mut marks = |slot: Slot| entries.get_mut(slot).map_or(0, Entry::take_touches);
        let slot = self.order.victim(incoming, &mut marks)?;
        self.stats.evictions += 1;
        Some(self.take(slot, Why::Evicted))
    }

    /// Removes an entry; the bytes freed.
    fn take(&mut self, slot: Slot, why: Why) -> usize {
        let Some(entry) = crate::error::there(self.entries.remove(slot)) else { return 0 };
        let hash = entry.hash64();
        if let Ok(found) = self.index.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        if self.pins.remove(&slot).is_some() {
            self.order.restore(slot);
        }
        self.order.removed(slot, hash, why);
        self.shrink();
        let charged = entry.charged(self.policy);
        self.given_up.gone(entry.record, charged);
        charged
    }

    /// Makes tables smaller that many small entries have left behind. Each step is short: entries give back a chunk at
    /// a time, and an index that is under an eighth full has at most an eighth to move of what it moved when it grew.
    fn shrink(&mut self) {
        let bound = self.entries.bound();
        if bound < self.slots {
            self.slots = bound;
            self.order.fits(bound);
        }
        if self.index.len() < self.index.capacity() / SHRINKS_UNDER && self.index.capacity() > CHUNK {
            let entries = &self.entries;
            let hash = |slot: &Slot| entries.get(*slot).map_or(0, |entry| entry.hash64());
            self.index.shrink_to(2 * self.index.len(), hash);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> usize {
        self.end_overtaken(key);
        self.find(key.borrow()).map_or(0, |slot| self.take(slot, Why::Invalidated))
    }

    pub(super) fn invalidate(&mut self, key: &Key, version: Version) -> usize {
        self.end_overtaken(key);
        let Some(slot) = self.find(key.borrow()) else { return 0 };
        if self.entries.get(slot).is_none_or(|entry| entry.record.version() >= version) {
            return 0;
        }
        self.tell_gone(key.borrow(), None);
        self.take(slot, Why::Invalidated)
    }

    pub(super) fn restamp(&mut self, key: &Key, shown: Version, stored: Version) {
        self.end_overtaken(key);
        let Some(entry) = self.find(key.borrow()).and_then(|slot| self.entries.get_mut(slot)) else { return };
        let read = entry.record.read();
        if read.version == shown {
            self.next_sequence += 1;
            entry.replace(key, &Read { version: stored, ..read }, self.next_sequence);
        }
    }

    /// The cached keys, in the order of their names: what comes of them must not hang on the seed of a table.
    pub(super) fn keys(&self) -> Vec<Key> {
        let key = |entry: &Entry| KeyRef { space: entry.space(), name: entry.record.name() }.to_key();
        let mut keys: Vec<Key> = self.entries.iter().map(|(_, entry)| key(entry)).collect();
        keys.sort_unstable();
        keys
    }

    /// Ends the fills of the keys for which `of` is true.
    pub(super) fn end_fills(&mut self, of: &impl Fn(KeyRef<'_>) -> bool) {
        let mut keys: Vec<Key> = self.fences.keys().filter(|key| of(key.borrow())).cloned().collect();
        // Followers wake in an order that the seed of a table has nothing to do with: one seed is one run.
        keys.sort_unstable();
        for key in keys {
            self.end_overtaken(&key);
        }
    }

    pub(super) fn clear(&mut self, of: &impl Fn(KeyRef<'_>) -> bool) -> usize {
        self.end_fills(of);
        let goes = |entry: &Entry| of(KeyRef { space: entry.space(), name: entry.record.name() });
        let slots: Vec<Slot> = self.entries.iter().filter(|(_, entry)| goes(entry)).map(|(slot, _)| slot).collect();
        for entry in slots.iter().filter_map(|slot| self.entries.get(*slot)).filter(|_| !self.watchers.is_empty()) {
            self.tell_gone(entry.record.key(entry.space()).borrow(), None);
        }
        self.given_up.all = true;
        let freed = slots.into_iter().map(|slot| self.take(slot, Why::Invalidated)).sum();
        self.given_up.all = false;
        freed
    }

    /// Goes on with `order`, behind a [`Partition::clear`] of all spaces; the bytes freed. Sequences go on, so that no
    /// word of before holds again.
    pub(super) fn begin_anew(&mut self, order: Box<dyn Order>) -> usize {
        (self.order, self.tick) = (order, 0);
        (self.index, self.entries, self.slots) = (HashTable::new(), Slab::new(), 0);
        std::mem::take(&mut self.policy_bytes)
    }

    pub(super) fn pin(&mut self, key: KeyRef<'_>) -> bool {
        self.find(key).map(|slot| self.pin_slot(slot)).is_some()
    }

    pub(super) fn pin_slot(&mut self, slot: Slot) {
        let pins = self.pins.entry(slot).or_default();
        *pins += 1;
        if *pins == 1 {
            self.order.withdraw(slot);
        }
    }

    pub(super) fn unpin(&mut self, key: KeyRef<'_>) {
        if let Some(slot) = self.find(key) {
            self.unpin_slot(slot);
        }
    }

    pub(super) fn unpin_slot(&mut self, slot: Slot) {
        let Some(pins) = self.pins.get_mut(&slot) else { return };
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&slot);
            self.order.restore(slot);
            if self.pins.capacity() > FENCES_KEPT && self.pins.len() < self.pins.capacity() / SHRINKS_UNDER {
                self.pins.shrink_to((2 * self.pins.len()).max(FENCES_KEPT / 2));
            }
        }
    }

    pub(super) fn add_to(&self, stats: &mut CacheStats) {
        stats.add(&self.stats);
        stats.entries += self.index.len() as u64;
    }

    pub(super) fn reset_stats(&mut self) {
        self.stats = CacheStats::default();
    }

    /// Bytes charged to this partition, counted again; panics if the structure contradicts itself.
    pub(super) fn validate(&self) -> usize {
        self.order.validate();
        self.entries.validate();
        assert_eq!(self.slots, self.entries.bound(), "slots that the order knows of");
        let (kept, places) = (self.index.len(), self.index.capacity());
        assert!(places <= (SHRINKS_UNDER * 2 * kept).max(2 * CHUNK), "{places} places for {kept}");
        assert_eq!(self.index.len(), self.entries.iter().count(), "index and entries");
        for (slot, entry) in self.entries.iter() {
            let key = entry.record.key(entry.space());
            assert_eq!(self.find(key.borrow()), Some(slot), "{key} is found where it is");
        }
        for slot in self.pins.keys() {
            assert!(self.entries.get(*slot).is_some(), "slot {slot} is pinned and empty");
        }
        assert!(self.fences.values().all(|fence| !fence.idle()), "no idle fence is kept");
        let (fences, places) = (self.fences.len(), self.fences.capacity());
        assert!(places <= (2 * SHRINKS_UNDER * fences).max(2 * FENCES_KEPT), "{places} places for {fences} fences");
        let entries: usize = self.entries.iter().map(|(_, entry)| entry.charged(self.policy)).sum();
        entries + self.policy_bytes
    }
}
