//! What is around an order: slots, and a capacity. And [`Replay`], by which requests are served in a row.

use super::super::{Access, AccessKind, Hits, MARKS_MAX, Order, Settings, Slot, Unit, Why};
use super::Served;
use super::index::{Entry, Hashed, Index, Numbered};

/// All of a bare cache but its order, which each method is given.
pub struct Frame<I> {
    pub(super) hits: Hits,
    pub(super) unit: Unit,
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) writes_allocate: bool,
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) free: Vec<Slot>,
    pub(super) slots: I,
    /// Number of entries.
    pub(super) len: usize,
    tick: u64,
    pub(super) evicted: Vec<u64>,
}

/// Requests for keys that have numbers, each a read or a write of a whole entry.
#[derive(Clone, Copy)]
pub struct NumberedRequests<'a> {
    /// By request: its key's number.
    pub numbers: &'a [u32],
    /// By request, one bit: whether it writes.
    pub writes: &'a [u64],
    /// By request: its client; empty if all are of client 0.
    pub clients: &'a [u32],
    /// By key's number.
    pub hashes: &'a [u64],
    /// By key's number.
    pub sizes: &'a [u32],
}

impl NumberedRequests<'_> {
    /// Whether the request at this place writes.
    #[inline]
    pub fn writes(&self, place: usize) -> bool {
        self.writes[place / 64] >> (place % 64) & 1 == 1
    }

    /// Which client sent it.
    #[inline]
    pub fn client(&self, place: usize) -> u32 {
        self.clients.get(place).copied().unwrap_or(0)
    }

    /// The size of its key.
    #[inline]
    pub fn size(&self, place: usize) -> u32 {
        self.sizes[self.numbers[place] as usize]
    }

    /// What a policy may know of it.
    #[inline]
    pub fn access(&self, place: usize) -> Access {
        let hash = self.hashes[self.numbers[place] as usize];
        let kind = if self.writes(place) { AccessKind::Write } else { AccessKind::Read };
        Access { kind, client: self.client(place), ..Access::read(hash, self.size(place)) }
    }
}

/// Serves requests one after the other, as [`super::Bare::serve`] does each. Every order has this: it is compiled for
/// each by itself, so that a replay makes no call through a table for each request, and tells an order no more of a
/// request than it looks at. That takes less time than what the simpler policies do.
pub trait Replay {
    /// Reads of keys by hash, with sizes; appends what became of each.
    fn replay(&mut self, frame: &mut Frame<Hashed>, requests: &[(u64, u32)], served: &mut Vec<Served>);

    /// The requests at these places.
    fn replay_numbered(
        &mut self,
        frame: &mut Frame<Numbered>,
        requests: NumberedRequests<'_>,
        places: std::ops::Range<usize>,
        served: &mut Vec<Served>,
    );
}

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
