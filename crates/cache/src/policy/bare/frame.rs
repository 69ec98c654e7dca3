//! How requests are served: slots, and a capacity, around an order.

use super::super::access::{Access, AccessKind, MARKS_MAX, Slot, Why};
use super::super::order::Order;
use super::super::record::Settings;
use super::super::unit::Hits;
use super::index::Index;
use super::parts::{Entry, Frame, Hashed, Numbered, Served};
use super::replay::{NumberedRequests, Replay};

impl<O: Order> Replay for O {
    fn replay(&mut self, frame: &mut Frame<Hashed>, requests: &[(u64, u32)], served: &mut Vec<Served>) {
        served.extend(requests.iter().map(|&(hash, size)| frame.serve(self, hash, || Access::read(hash, size))));
    }

    fn replay_numbered(
        &mut self,
        frame: &mut Frame<Numbered>,
        requests: NumberedRequests<'_>,
        places: std::ops::Range<usize>,
        served: &mut Vec<Served>,
    ) {
        served.extend(places.map(|place| frame.serve(self, requests.numbers[place], || requests.access(place))));
    }
}

impl<I: Index> Frame<I> {
    pub(super) fn new(hits: Hits, settings: &Settings, order: &mut dyn Order, slots: I) -> Frame<I> {
        slots.begin(order);
        Frame {
            hits,
            unit: settings.unit,
            capacity: order.room(settings.capacity),
            used: 0,
            writes_allocate: true,
            entries: Vec::new(),
            free: Vec::new(),
            slots,
            len: 0,
            tick: 0,
            evicted: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn find<O: Order + ?Sized>(&self, order: &O, key: I::Key) -> Option<Slot> {
        self.slots.find(order, key, &self.entries)
    }

    /// See [`super::Bare::serve`].
    #[inline]
    pub(super) fn serve<O: Order + ?Sized>(
        &mut self,
        order: &mut O,
        key: I::Key,
        access: impl FnOnce() -> Access,
    ) -> Served {
        self.tick += 1;
        self.evicted.clear();
        let Some(slot) = self.find(order, key) else {
            return self.miss(order, key, &Access { tick: self.tick, ..access() });
        };
        match (self.hits, &mut self.entries[slot as usize]) {
            (Hits::Marks, Some(entry)) => entry.marks = (entry.marks + 1).min(MARKS_MAX),
            _ => order.access(slot, &Access { tick: self.tick, slot: Some((slot, 0)), ..access() }),
        }
        Served::Hit
    }

    fn miss<O: Order + ?Sized>(&mut self, order: &mut O, key: I::Key, access: &Access) -> Served {
        let weight = u64::from(self.unit.weight(access.size));
        let allocates = self.writes_allocate || access.kind != AccessKind::Write;
        if weight > self.capacity || !order.admit(access) || !allocates || !self.make_room(order, access, weight) {
            return Served::Refused;
        }
        let entry = Entry { hash: access.hash, size: access.size, marks: 0, pinned: false };
        let slot = self.free.pop().unwrap_or(self.entries.len() as Slot);
        match self.entries.get_mut(slot as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.slots.insert(order, key, slot, &self.entries);
        self.len += 1;
        self.used += weight;
        order.inserted(slot, access);
        Served::Inserted
    }

    /// Evicts until `weight` fits, in batches of the policy's choice; whether it fits.
    pub(super) fn make_room<O: Order + ?Sized>(&mut self, order: &mut O, incoming: &Access, weight: u64) -> bool {
        let mut taken = 0;
        while self.used + weight > self.capacity || (0 < taken && taken < order.batch()) {
            let entries = &mut self.entries;
            let mut marks = |slot: Slot| {
                let entry = entries.get_mut(slot as usize).and_then(Option::as_mut);
                std::mem::take(&mut entry.expect("a policy asks for marks of live slots only").marks)
            };
            let Some(slot) = order.victim(incoming, &mut marks) else { break };
            let entry = self.entry(slot).expect("a victim is live");
            assert!(!entry.pinned, "a victim is not pinned");
            self.evicted.push(entry.hash);
            self.leave(order, slot, Why::Evicted);
            taken += 1;
        }
        self.used + weight <= self.capacity
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(super) fn leave<O: Order + ?Sized>(&mut self, order: &mut O, slot: Slot, why: Why) {
        if let Some(entry) = self.entries[slot as usize].take() {
            self.len -= 1;
            self.used -= u64::from(self.unit.weight(entry.size));
            self.free.push(slot);
            order.removed(slot, entry.hash, why);
            self.slots.remove(order, entry.hash, slot);
        }
    }

    /// Panics if the accounts contradict themselves.
    pub(super) fn validate(&self) {
        let weights = self.entries.iter().flatten().map(|entry| u64::from(self.unit.weight(entry.size)));
        assert_eq!(weights.sum::<u64>(), self.used, "used is the sum of the weights");
        assert_eq!(self.len + self.free.len(), self.entries.len(), "each slot is live or free");
    }
}
