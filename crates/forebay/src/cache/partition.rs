//! One partition: what writes its part of the table, fences and the policy's order, all under one lock.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_cache::Writer;
use futures_channel::oneshot;

use super::fence::{Begin, Fence, Fill, Flight, Follow};
use super::hits::Hit;
use super::{Cache, CacheStats, Context, ENTRY_OVERHEAD_BYTES, Watcher};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::policy::{Access, AccessKind, Hits, Order, Policy, Slot, Why};
use crate::read::Read;
use crate::read::record::{Apart, Record, View};
use crate::version::Version;

/// A table that is less than one so-manyth full is made smaller.
const SHRINKS_UNDER: usize = 8;

/// Tables of what is going on at the moment have room for so many keys at least.
const FENCES_KEPT: usize = 256;

pub(super) struct Partition {
    pub(super) entries: Writer<Apart>,
    /// The order's tables are for so many slots.
    slots: usize,
    pub(super) order: Box<dyn Order>,
    pub(super) policy: &'static Policy,
    fences: HashMap<Key, Fence, foldhash::quality::RandomState>,
    /// How often each pinned slot is pinned.
    pins: HashMap<Slot, u32, foldhash::fast::RandomState>,
    tick: u64,
    /// What is charged for the policy's metadata beyond its entries.
    policy_bytes: usize,
    stats: CacheStats,
    /// What is told of accesses; nothing, as a rule.
    pub(super) watchers: Vec<Arc<dyn Watcher>>,
}

impl Partition {
    pub(super) fn new(entries: Writer<Apart>, policy: &'static Policy, order: Box<dyn Order>) -> Partition {
        Partition {
            entries,
            slots: 0,
            order,
            policy,
            fences: HashMap::default(),
            pins: HashMap::default(),
            tick: 0,
            policy_bytes: 0,
            stats: CacheStats::default(),
            watchers: Vec::new(),
        }
    }

    /// Where `key`, which has this hash, is cached.
    pub(super) fn slot(&self, hash: u64, key: KeyRef<'_>) -> Option<Slot> {
        self.entries.find(hash, |item| View::from(item).key() == key)
    }

    /// What is cached in a slot.
    pub(super) fn view(&self, slot: Slot) -> Option<View<'_>> {
        self.entries.get(slot).map(View::from)
    }

    fn find(&self, key: KeyRef<'_>) -> Option<Slot> {
        self.slot(key.hash64(), key)
    }

    pub(super) fn peek(&self, key: KeyRef<'_>) -> Option<Read> {
        self.view(self.find(key)?).map(View::read)
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

    /// A hit of the entry in this slot.
    pub(super) fn touch(&mut self, slot: Slot, hash: u64, context: &Context) {
        if self.watchers.iter().any(|watcher| watcher.sample().has(hash)) {
            self.tell_hit(slot, context);
        }
        match self.policy.hits {
            Hits::Marks => self.entries.touch(slot),
            Hits::Sampled | Hits::Accesses => {
                let size = self.charged(slot);
                let access = self.access(hash, Some(slot), context, AccessKind::Read, size);
                self.order.access(slot, &access);
            }
        }
    }

    /// A hit that has waited, unless its entry has left since.
    pub(super) fn hear(&mut self, hit: &Hit) {
        let there = self.entries.has(hit.slot, hit.generation);
        let same = |view: View<'_>| view.key().hash64() == hit.hash;
        debug_assert!(!there || self.view(hit.slot).is_some_and(same), "it is told of the entry that was hit");
        if there || mutation::on(Fault::HeardOfAnother) {
            self.touch(hit.slot, hit.hash, &hit.context());
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
            fence.flight = Some(Box::new(Flight { id, fetched: None, followers: Vec::new() }));
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

    /// The store has answered the fill with this id: its followers get it now. False if the fill was ended.
    pub(super) fn fetched(&mut self, key: &Key, id: u64, read: &Read) -> bool {
        let Some(flight) = self.flight(key, id) else { return false };
        flight.fetched = Some(read.clone());
        for follower in flight.followers.drain(..) {
            let _ = follower.send(read.clone());
        }
        true
    }

    /// The open fill of `key`, if it is still the one with this id.
    pub(super) fn flight(&mut self, key: &Key, id: u64) -> Option<&mut Flight> {
        self.fences.get_mut(key)?.flight.as_deref_mut().filter(|flight| flight.id == id)
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
        if let Some(slot) = self.slot(hash, key) {
            self.entries.set_marked(slot, marked);
        }
    }

    /// Bytes charged for what is in a slot.
    pub(super) fn charged(&self, slot: Slot) -> usize {
        self.view(slot).map_or(0, |view| self.charge_of(view))
    }

    fn charge_of(&self, view: View<'_>) -> usize {
        ENTRY_OVERHEAD_BYTES + self.policy.entry_bytes + view.charged_bytes()
    }

    pub(super) fn admit(&mut self, access: &Access) -> bool {
        self.order.admit(access)
    }

    /// Counts what was kept out, and drops what was cached of it.
    pub(super) fn reject(&mut self, slot: Option<Slot>) -> usize {
        self.stats.rejections += 1;
        slot.map_or(0, |slot| self.take(slot, Why::Invalidated))
    }

    /// Puts a value in, where `access` says that its key is cached, and `before` what is charged for that. Room has
    /// been made. False: there is no place.
    pub(super) fn put(&mut self, key: &Key, read: &Read, access: &Access, before: usize, marked: bool) -> bool {
        let record = Record::new(key, read).into();
        if let Some((slot, _)) = access.slot {
            if self.entries.replace(slot, record, marked, before).is_err() {
                return false;
            }
            if before != access.size as usize {
                self.order.resized(slot, access.size);
            }
            match self.policy.hits {
                Hits::Marks => self.entries.touch(slot),
                Hits::Sampled | Hits::Accesses => self.order.access(slot, access),
            }
            return true;
        }
        let Ok(slot) = self.entries.insert(access.hash, record, marked) else { return false };
        self.slots = self.slots.max(self.entries.bound());
        self.order.inserted(slot, access);
        self.stats.insertions += 1;
        true
    }

    /// Whether anything in here may be evicted: not all is pinned.
    pub(super) fn has_candidates(&self) -> bool {
        self.entries.len() > self.pins.len()
    }

    /// What was charged for the policy's metadata beyond its entries, and what is to be charged from now on.
    pub(super) fn policy_bytes(&mut self) -> (usize, usize) {
        let now = self.order.ghost_bytes();
        (std::mem::replace(&mut self.policy_bytes, now), now)
    }

    /// Evicts one entry to make room for `incoming`; the bytes freed, `None` if nothing may go.
    pub(super) fn evict(&mut self, incoming: &Access) -> Option<usize> {
        let entries = &mut self.entries;
        let mut marks = |slot: Slot| entries.take_touches(slot);
        let slot = self.order.victim(incoming, &mut marks)?;
        self.stats.evictions += 1;
        Some(self.take(slot, Why::Evicted))
    }

    /// Removes an entry; the bytes freed.
    fn take(&mut self, slot: Slot, why: Why) -> usize {
        let Some(view) = crate::error::there(self.view(slot)) else { return 0 };
        let (hash, charged) = (view.key().hash64(), self.charge_of(view));
        self.entries.remove(slot, hash, charged);
        if self.pins.remove(&slot).is_some() {
            self.order.restore(slot);
        }
        self.order.removed(slot, hash, why);
        let bound = self.entries.bound();
        if bound < self.slots {
            self.slots = bound;
            self.order.fits(bound);
        }
        charged
    }

    pub(super) fn remove(&mut self, key: &Key) -> usize {
        self.end_overtaken(key);
        self.find(key.borrow()).map_or(0, |slot| self.take(slot, Why::Invalidated))
    }

    pub(super) fn invalidate(&mut self, key: &Key, version: Version) -> usize {
        self.end_overtaken(key);
        let Some(slot) = self.find(key.borrow()) else { return 0 };
        if self.view(slot).is_none_or(|view| view.version() >= version) {
            return 0;
        }
        self.tell_gone(key.borrow(), None);
        self.take(slot, Why::Invalidated)
    }

    /// The bytes freed. Versions are not all of one length: a record that would be charged more goes, as no room was
    /// made for it.
    pub(super) fn restamp(&mut self, key: &Key, shown: Version, stored: Version) -> usize {
        self.end_overtaken(key);
        let Some(slot) = self.find(key.borrow()) else { return 0 };
        let Some(read) = self.view(slot).map(View::read).filter(|read| read.version == shown) else { return 0 };
        let (record, before) = (Record::new(key, &Read { version: stored, ..read }), self.charged(slot));
        let charged = self.charge_of(record.view());
        if charged > before {
            self.tell_gone(key.borrow(), None);
            return self.take(slot, Why::Invalidated);
        }
        let kept = self.entries.replace(slot, record.into(), false, before);
        // The place has had the like of it.
        debug_assert!(kept.is_ok(), "a record that is no longer is kept");
        if charged < before {
            self.order.resized(slot, charged as u32);
        }
        before - charged
    }

    /// The cached keys, in the order of their names: what comes of them must not hang on the seed of a table.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.views().map(|(_, view)| view.to_key()).collect();
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
        let slots: Vec<Slot> = self.views().filter(|(_, view)| of(view.key())).map(|(slot, _)| slot).collect();
        for view in slots.iter().filter_map(|slot| self.view(*slot)).filter(|_| !self.watchers.is_empty()) {
            self.tell_gone(view.key(), None);
        }
        slots.into_iter().map(|slot| self.take(slot, Why::Invalidated)).sum()
    }

    fn views(&self) -> impl Iterator<Item = (Slot, View<'_>)> {
        self.entries.iter().map(|(slot, item)| (slot, View::from(item)))
    }

    /// Goes on with `order`, behind a [`Partition::clear`] of all spaces; the bytes freed.
    pub(super) fn begin_anew(&mut self, order: Box<dyn Order>) -> usize {
        (self.order, self.tick) = (order, 0);
        self.entries.begin_anew();
        self.slots = 0;
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
        stats.entries += self.entries.len() as u64;
    }

    pub(super) fn reset_stats(&mut self) {
        self.stats = CacheStats::default();
    }

    /// Bytes charged to this partition, counted again; panics if the structure contradicts itself.
    pub(super) fn validate(&self) -> usize {
        self.order.validate();
        self.entries.validate();
        assert_eq!(self.slots, self.entries.bound(), "slots that the order knows of");
        for (slot, view) in self.views() {
            assert_eq!(self.find(view.key()), Some(slot), "{} is found where it is", view.key());
        }
        for slot in self.pins.keys() {
            assert!(self.view(*slot).is_some(), "slot {slot} is pinned and empty");
        }
        assert!(self.fences.values().all(|fence| !fence.idle()), "no idle fence is kept");
        let (fences, places) = (self.fences.len(), self.fences.capacity());
        assert!(places <= (2 * SHRINKS_UNDER * fences).max(2 * FENCES_KEPT), "{places} places for {fences} fences");
        let entries: usize = self.views().map(|(_, view)| self.charge_of(view)).sum();
        entries + self.policy_bytes
    }
}
