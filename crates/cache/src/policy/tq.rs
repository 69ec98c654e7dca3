//! TQ: two queues for a cache behind a database's own (Li, Aboulnaga, Salem, Sachedina, Gao, FAST 2005), rebuilt from
//! what CLIC says of it. A *replacement write* tells that the database gives a page up, so it may soon ask for it.
//!
//! - Pages last requested by a replacement write are in the high queue, by the time at which the next read is
//!   expected. That is now plus the page's mean distance from such a write to the read after it. Where it has none,
//!   it is all pages' mean. The latest expected goes first.
//! - All others are in the low queue, by last request. A read moves a page there; a recovery write leaves a page that
//!   is high where it is.
//! - The low queue gives the victim while it has more than its share.
//!
//! A hint set is a replacement write if one of its values begins with `repl`.

use std::any::Any;
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};

use super::heap::Heap;
use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::{Access, AccessKind, Hit, Hits, Learned, Order, Parameter, Policy, Settings, Slot, Unit, Why};
use crate::hint::{HintMeaning, HintSet};

/// See the module.
pub static TQ: Policy = Policy {
    name: "tq",
    summary: "keeps what a database in front wrote to make room; needs hints that say so, for a cache behind a cache",
    source: "Li, Aboulnaga, Salem, Sachedina, Gao: Second-tier cache management using write hints, FAST 2005",
    hits: Hits::Accesses,
    entry_bytes: NODE_BYTES + Heap::<Expected>::BYTES + size_of::<Page>(),
    parameters: &[
        Parameter { name: "low", summary: "share of the low queue (tau)", default: 0.5, range: (0.0, 1.0) },
        Parameter {
            name: "history",
            summary: "keys whose distances are remembered after they left, as a share of the capacity",
            default: 1.0,
            range: (0.0, 100.0),
        },
    ],
    learned: |_| Arc::new(Writes::default()),
    order: |settings, learned| {
        let any: Arc<dyn Any + Send + Sync> = learned;
        Box::new(Tq::new(settings, any.downcast().unwrap_or_default()))
    },
};

const LOW: u32 = 0;
const HIGH: u32 = 1;
const PINNED: u32 = 2;

/// How a replacement write's hint value begins.
const REPLACEMENT: &[u8] = b"repl";

/// Hint sets beyond it are no replacement writes.
const SETS_MAX: u32 = 1 << 20;

/// When the next read is expected; of equal times the newer request goes first.
type Expected = Reverse<(u64, u64)>;

/// Which hint sets are replacement writes.
#[derive(Default)]
pub(super) struct Writes {
    /// By set, if it is defined.
    sets: Mutex<Vec<Option<bool>>>,
}

impl Writes {
    fn is_replacement(&self, set: HintSet) -> Option<bool> {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get(set.0 as usize).copied().flatten()
    }
}

impl Learned for Writes {
    fn bytes(&self) -> usize {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).capacity()
    }

    fn define_hints(&self, set: HintSet, meaning: &HintMeaning) {
        if set.0 < SETS_MAX {
            let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
            if set.0 as usize >= sets.len() {
                sets.resize(set.0 as usize + 1, None);
            }
            sets[set.0 as usize] = Some(meaning.values.iter().any(|value| value.starts_with(REPLACEMENT)));
        }
    }
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Page {
    /// The last replacement write, if no read came after it.
    pub written: Option<u64>,
    /// Mean of the distances from such a write to a read, and of how many.
    pub mean: f64,
    pub reads: u32,
}

impl Page {
    /// A read; the distance, if it is the first after a replacement write.
    pub fn read(&mut self, now: u64) -> Option<f64> {
        let distance = now.saturating_sub(self.written.take()?) as f64;
        self.reads = self.reads.saturating_add(1);
        self.mean += (distance - self.mean) / f64::from(self.reads);
        Some(distance)
    }
}

struct Tq {
    unit: Unit,
    capacity: u64,
    low_share: f64,
    history_share: f64,
    writes: Arc<Writes>,
    now: u64,
    lists: Lists,
    high: Heap<Expected>,
    pages: Vec<Page>,
    /// When the page is expected, by slot; counts while it is high.
    expected: Vec<Expected>,
    /// Pages that were evicted.
    gone: History<Page>,
    /// Mean of all distances, and of how many.
    mean: f64,
    reads: u64,
    /// The page of the miss at hand.
    returning: Option<(u64, Page)>,
}

impl Tq {
    fn new(settings: &Settings, writes: Arc<Writes>) -> Tq {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(TQ.parameters[index].default);
        Tq {
            unit: settings.unit,
            capacity: settings.capacity,
            low_share: value(0),
            history_share: value(1),
            writes,
            now: 0,
            lists: Lists::new(3),
            high: Heap::new(),
            pages: Vec::new(),
            expected: Vec::new(),
            gone: History::new(),
            mean: 0.0,
            reads: 0,
            returning: None,
        }
    }

    /// What a request makes of a page: whether it is to be high now, `None` if it stays where it is.
    fn request(&mut self, page: &mut Page, access: &Access) -> Option<bool> {
        match access.kind {
            AccessKind::Read | AccessKind::Prefetch => {
                if let Some(distance) = page.read(self.now) {
                    self.reads += 1;
                    self.mean += (distance - self.mean) / self.reads as f64;
                }
                Some(false)
            }
            // A page that the tier in front hands down is one that it gives up.
            AccessKind::Demote => Some(true),
            AccessKind::Write => self.writes.is_replacement(access.hints).unwrap_or(false).then_some(true),
        }
    }

    fn next_read(&self, page: &Page) -> Expected {
        let distance = if page.reads > 0 { page.mean } else { self.mean };
        Reverse((self.now + distance as u64, self.now))
    }

    /// Places a slot that is in, high or low.
    fn place(&mut self, slot: Slot, high: bool) {
        if high {
            self.pages[slot as usize].written = Some(self.now);
            self.expected[slot as usize] = self.next_read(&self.pages[slot as usize]);
        }
        self.lists.set_note(slot, u8::from(high));
        if self.lists.list_of(slot) != Some(PINNED) {
            self.enter(slot, high);
        }
    }

    fn enter(&mut self, slot: Slot, high: bool) {
        self.lists.move_to(if high { HIGH } else { LOW }, slot);
        match high {
            true => self.high.set(slot, self.expected[slot as usize]),
            false => drop(self.high.remove(slot)),
        }
    }

    fn trim(&mut self) {
        self.gone.trim((self.capacity as f64 * self.history_share) as u64);
    }
}

impl Order for Tq {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        self.now += 1;
        let mut page = self.pages[slot as usize];
        let high = self.request(&mut page, access);
        self.pages[slot as usize] = page;
        let is_high = self.lists.note(slot) == 1;
        match high {
            Some(high) => self.place(slot, high),
            None if !is_high => self.place(slot, false),
            None => {}
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        let page = self.gone.take(access.hash).unwrap_or_default();
        self.returning = Some((access.hash, page));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let returning = self.returning.take().filter(|&(hash, _)| hash == access.hash);
        let mut page = returning.map_or(Page::default(), |(_, page)| page);
        let high = self.request(&mut page, access).unwrap_or(false);
        super::reach(&mut self.pages, slot, page);
        super::reach(&mut self.expected, slot, Reverse((0, 0)));
        self.pages[slot as usize] = page;
        self.lists.push(LOW, slot, self.unit.weight(access.size));
        self.place(slot, high);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        self.high.remove(slot);
        if why == Why::Evicted {
            self.gone.push(hash, weight, self.pages[slot as usize]);
            self.trim();
        }
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let low_max = self.capacity as f64 * self.low_share;
        let high = self.high.least().map(|(_, slot)| slot);
        match self.lists.oldest(LOW) {
            Some(low) if self.lists.weight(LOW) as f64 > low_max => Some(low),
            low => high.or(low),
        }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.high.remove(slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.enter(slot, self.lists.note(slot) == 1);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.trim();
    }

    fn ghost_bytes(&self) -> usize {
        self.gone.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        let high = || {
            let Reverse((at, _)) = self.expected[slot as usize];
            format!("high: written to make room in front, read expected in {} requests", at.saturating_sub(self.now))
        };
        match self.lists.list_of(slot) {
            Some(LOW) => "low: by last request".into(),
            Some(HIGH) => high(),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.high.validate();
        self.gone.validate();
        assert_eq!(self.high.len(), self.lists.len(HIGH), "what is high is expected some time");
        let expected = self.lists.iter(HIGH).all(|slot| self.high.key(slot) == Some(self.expected[slot as usize]));
        assert!(expected, "a page that is high has its own time");
        assert!(
            [LOW, HIGH]
                .iter()
                .all(|&list| { self.lists.iter(list).all(|slot| u32::from(self.lists.note(slot)) == list) })
        );
    }
}
