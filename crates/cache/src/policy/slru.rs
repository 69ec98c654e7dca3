//! Segmented LRU: an entry climbs one segment with each hit, and what a full segment pushes out sinks one. So what was
//! asked for once is cheap to give up, and what was asked for often outlives a scan.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static SLRU: Policy = Policy {
    name: "slru",
    summary: "LRU in segments, one step up for each hit; resists scans, slow to forget",
    source: "Karedla, Love, Wherry: Caching strategies to improve disk system performance, IEEE Computer 1994",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + 1,
    parameters: &[
        Parameter {
            name: "segments",
            summary: "number of segments, all of one size",
            default: 4.0,
            range: (2.0, 16.0),
        },
        Parameter {
            name: "bypass",
            summary: "1: do not let in an entry heavier than a segment; 0: let it in",
            default: 0.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Slru::new(settings)),
};

struct Slru {
    unit: Unit,
    /// Number of segments; the list of that number is for what is pinned.
    segments: u32,
    bypass: bool,
    capacity: u64,
    lists: Lists,
    /// Each entry's segment, for when it is pinned.
    homes: Vec<u8>,
}

impl Slru {
    fn new(settings: &Settings) -> Slru {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(SLRU.parameters[index].default);
        let segments = value(0) as u32;
        Slru {
            unit: settings.unit,
            segments,
            bypass: value(1) >= 0.5,
            capacity: settings.capacity,
            lists: Lists::new(segments as usize + 1),
            homes: Vec::new(),
        }
    }

    fn segment_max(&self) -> u64 {
        self.capacity / u64::from(self.segments)
    }

    fn pinned(&self) -> u32 {
        self.segments
    }

    fn place(&mut self, slot: Slot, segment: u32) {
        self.homes[slot as usize] = segment as u8;
        self.lists.move_to(segment, slot);
    }

    /// Passes down what segments have too much of; the lowest may have more, it is where victims come from.
    fn sink(&mut self) {
        for segment in (1..self.segments).rev() {
            while self.lists.weight(segment) > self.segment_max() {
                let Some(slot) = self.lists.oldest(segment) else { break };
                self.place(slot, segment - 1);
            }
        }
    }
}

impl Order for Slru {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        match self.lists.list_of(slot) {
            Some(list) if list < self.segments => {
                self.place(slot, (list + 1).min(self.segments - 1));
                self.sink();
            }
            _ => {}
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        !self.bypass || u64::from(self.unit.weight(access.size)) <= self.segment_max()
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        // As long as there is room, newcomers fill the segments from below.
        let has_room = |&segment: &u32| self.lists.weight(segment) + u64::from(weight) <= self.segment_max();
        let segment = (0..self.segments).find(has_room).unwrap_or(0);
        super::reach(&mut self.homes, slot, 0);
        self.homes[slot as usize] = segment as u8;
        self.lists.push(segment, slot, weight);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
        self.sink();
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.lists.remove(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.homes, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        (0..self.segments).find_map(|segment| self.lists.oldest(segment))
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(self.pinned(), slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(u32::from(self.homes[slot as usize]), slot);
        self.sink();
    }

    fn line(&self) -> Option<Vec<Vec<Slot>>> {
        Some((0..self.segments).map(|segment| self.lists.iter(segment).collect()).collect())
    }

    fn stand_first(&mut self, slot: Slot, section: Option<usize>) {
        let home = u32::from(self.homes[slot as usize]);
        let segment = section.map_or(home, |section| (section as u32).min(self.segments - 1));
        self.homes[slot as usize] = segment as u8;
        self.lists.move_to_oldest(segment, slot);
        self.sink();
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.sink();
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            None => "not in".into(),
            Some(list) if list == self.pinned() => "pinned".into(),
            Some(list) => format!("segment {} of {}, {} entries in it", list + 1, self.segments, self.lists.len(list)),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        for segment in 0..self.segments {
            let at_home = self.lists.iter(segment).all(|slot| u32::from(self.homes[slot as usize]) == segment);
            assert!(at_home, "segment {segment}: a slot from elsewhere");
            assert!(segment == 0 || self.lists.weight(segment) <= self.segment_max(), "segment {segment} overflows");
        }
    }
}
