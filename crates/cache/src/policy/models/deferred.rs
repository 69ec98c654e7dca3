//! Models of DeferredLRU.

use super::frame::{Row, Rows, Rule};
use crate::policy::{Access, Slot, Why};

/// As written.
pub struct Deferred {
    pull: f64,
    purge: f64,
    /// By first hit since they were last moved.
    recent: Vec<Slot>,
    purged: usize,
}

/// How many may go: those in the queue, and of them those that are not recent.
fn queued(rows: &Rows, recent: &[Slot]) -> (usize, usize) {
    let queued = rows.rows.iter().filter(|row| !row.pinned).count();
    (queued, queued - recent.len())
}

impl Deferred {
    pub fn new(pull: f64, purge: f64) -> Deferred {
        Deferred { pull, purge, recent: Vec::new(), purged: 0 }
    }

    fn pull(&mut self, rows: &mut Rows) {
        let newest = rows.rows.iter().rfind(|row| !row.pinned).map(|row| row.slot);
        for slot in std::mem::take(&mut self.recent) {
            if Some(slot) != newest {
                rows.place(rows.at(slot), 0);
            }
        }
    }
}

impl Rule for Deferred {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        let slot = rows.rows[at].slot;
        if !self.recent.contains(&slot) {
            self.recent.push(slot);
            self.settle_recent(rows);
        }
    }

    fn missed(&mut self, _: &mut Rows, _: &Access) -> bool {
        self.purged = 0;
        true
    }

    fn resized(&mut self, _: &mut Rows, _: Slot) {}

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let other = rows.rows.iter().position(|row| !row.pinned && !self.recent.contains(&row.slot));
        other.or_else(|| {
            self.pull(rows);
            rows.oldest(0)
        })
    }

    fn batch(&self, rows: &Rows) -> u32 {
        let (queued, others) = queued(rows, &self.recent);
        if others == 0 { 0 } else { ((queued + self.purged) as f64 * self.purge) as u32 }
    }

    fn left(&mut self, _: &mut Rows, row: &Row, why: Why) {
        self.purged += usize::from(why == Why::Evicted);
        self.recent.retain(|&slot| slot != row.slot);
    }

    fn pinned(&mut self, _: &mut Rows, slot: Slot, _: bool) {
        self.recent.retain(|&other| other != slot);
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.purged = 0;
        self.settle_recent(rows);
    }
}

impl Deferred {
    fn settle_recent(&mut self, rows: &mut Rows) {
        let weight: u64 = self.recent.iter().map(|&slot| u64::from(rows.rows[rows.at(slot)].weight)).sum();
        if weight > 0 && weight as f64 >= self.pull * rows.capacity as f64 {
            self.pull(rows);
        }
    }
}

/// A second chance for what was touched, and three tenths at once.
pub struct Lazy {
    pub purged: usize,
}

impl Rule for Lazy {
    fn missed(&mut self, _: &mut Rows, _: &Access) -> bool {
        self.purged = 0;
        true
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        loop {
            let at = rows.oldest(0)?;
            if marks(rows.rows[at].slot) == 0 {
                return Some(at);
            }
            rows.place(at, 0);
        }
    }

    fn batch(&self, rows: &Rows) -> u32 {
        let (queued, _) = queued(rows, &[]);
        ((queued + self.purged) as f64 * 0.3) as u32
    }

    fn left(&mut self, _: &mut Rows, _: &Row, why: Why) {
        self.purged += usize::from(why == Why::Evicted);
    }

    fn resized(&mut self, _: &mut Rows, _: Slot) {}

    fn settle(&mut self, _: &mut Rows) {
        self.purged = 0;
    }
}
