//! A frame for naive models. Entries are rows of one vector, from oldest to newest, and a rule says only what its
//! policy does with them. Lists are numbers on rows; their order is that of the rows.

use crate::policy::{Access, MARKS_MAX, Order, Settings, Slot, Unit, Why};

/// One entry.
#[derive(Clone, Debug)]
pub struct Row {
    pub slot: Slot,
    pub hash: u64,
    pub weight: u32,
    pub pinned: bool,
    /// The list that it is in, or will be in again when it is not pinned any more.
    pub list: u32,
}

/// All entries.
pub struct Rows {
    pub unit: Unit,
    pub capacity: u64,
    pub rows: Vec<Row>,
}

impl Rows {
    /// The oldest of a list that is not pinned.
    pub fn oldest(&self, list: u32) -> Option<usize> {
        self.rows.iter().position(|row| !row.pinned && row.list == list)
    }

    /// What the entries of a list weigh, without the pinned ones.
    pub fn weight(&self, list: u32) -> u64 {
        let rows = self.rows.iter().filter(|row| !row.pinned && row.list == list);
        rows.map(|row| u64::from(row.weight)).sum()
    }

    /// Makes a row the newest of `list`; its new place.
    pub fn place(&mut self, at: usize, list: u32) -> usize {
        let row = self.rows.remove(at);
        self.rows.push(Row { list, ..row });
        self.rows.len() - 1
    }

    pub fn at(&self, slot: Slot) -> usize {
        self.rows.iter().position(|row| row.slot == slot).expect("is in")
    }

    /// A share of the capacity, rounded down.
    pub fn share(&self, share: f64) -> u64 {
        (self.capacity as f64 * share) as u64
    }
}

/// What a policy does. Rows that are pinned have left its lists.
pub trait Rule: Send {
    /// A hit on a row that is not pinned.
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        let _ = (rows, at, access);
    }

    /// A hit on a pinned row.
    fn hit_pinned(&mut self, rows: &mut Rows, access: &Access) {
        let _ = (rows, access);
    }

    /// A row, pinned or not, has another weight.
    fn resized(&mut self, rows: &mut Rows, slot: Slot) {
        let _ = slot;
        self.settle(rows);
    }

    fn missed(&mut self, rows: &mut Rows, access: &Access) -> bool {
        let _ = (rows, access);
        true
    }

    /// The newest row has come in, with list 0.
    fn entered(&mut self, rows: &mut Rows, access: &Access) {
        let _ = (rows, access);
    }

    fn choose(&mut self, rows: &mut Rows, incoming: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<usize>;

    /// How many rows should go at once.
    fn batch(&self, rows: &Rows) -> u32 {
        let _ = rows;
        1
    }

    /// A row has left the cache.
    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        let _ = (rows, row, why);
    }

    /// A row was pinned, or let go and put at the newest end.
    fn pinned(&mut self, rows: &mut Rows, slot: Slot, pinned: bool) {
        let _ = (rows, slot, pinned);
    }

    /// A transaction has ended.
    fn ended(&mut self, rows: &mut Rows, txn: u64, committed: bool) {
        let _ = (rows, txn, committed);
    }

    /// Weights or the capacity have changed.
    fn settle(&mut self, rows: &mut Rows) {
        let _ = rows;
    }
}

/// A rule as an order.
pub struct Naive<R> {
    rows: Rows,
    rule: R,
}

/// An order that decides by `rule`.
pub fn order<R: Rule + 'static>(settings: &Settings, rule: R) -> Box<dyn Order> {
    let rows = Rows { unit: settings.unit, capacity: settings.capacity, rows: Vec::new() };
    Box::new(Naive { rows, rule })
}

impl<R: Rule> Order for Naive<R> {
    fn access(&mut self, slot: Slot, access: &Access) {
        let at = self.rows.at(slot);
        if self.rows.rows[at].pinned {
            self.rule.hit_pinned(&mut self.rows, access);
        } else {
            self.rule.hit(&mut self.rows, at, access);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.rule.missed(&mut self.rows, access)
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.rows.unit.weight(access.size);
        self.rows.rows.push(Row { slot, hash: access.hash, weight, pinned: false, list: 0 });
        self.rule.entered(&mut self.rows, access);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        let at = self.rows.at(slot);
        self.rows.rows[at].weight = self.rows.unit.weight(size);
        self.rule.resized(&mut self.rows, slot);
    }

    fn removed(&mut self, slot: Slot, _: u64, why: Why) {
        let at = self.rows.at(slot);
        let row = self.rows.rows.remove(at);
        self.rule.left(&mut self.rows, &row, why);
    }

    fn victim(&mut self, incoming: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let at = self.rule.choose(&mut self.rows, incoming, marks)?;
        Some(self.rows.rows[at].slot)
    }

    fn batch(&self) -> u32 {
        self.rule.batch(&self.rows)
    }

    fn withdraw(&mut self, slot: Slot) {
        let at = self.rows.at(slot);
        self.rows.rows[at].pinned = true;
        self.rule.pinned(&mut self.rows, slot, true);
    }

    fn restore(&mut self, slot: Slot) {
        let at = self.rows.at(slot);
        self.rows.rows[at].pinned = false;
        let list = self.rows.rows[at].list;
        self.rows.place(at, list);
        self.rule.pinned(&mut self.rows, slot, false);
    }

    fn ended(&mut self, txn: u64, committed: bool) {
        self.rule.ended(&mut self.rows, txn, committed);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.rows.capacity = capacity;
        self.rule.settle(&mut self.rows);
    }

    fn explain(&self, slot: Slot) -> String {
        format!("row {}", self.rows.at(slot))
    }

    fn validate(&self) {}
}

/// Keys that are remembered, oldest first, with their weights and what is known of them.
#[derive(Default)]
pub struct Gone<T> {
    pub keys: Vec<(u64, u32, T)>,
}

impl<T> Gone<T> {
    pub fn new() -> Gone<T> {
        Gone { keys: Vec::new() }
    }

    pub fn take(&mut self, hash: u64) -> Option<T> {
        let at = self.keys.iter().position(|key| key.0 == hash)?;
        Some(self.keys.remove(at).2)
    }

    pub fn push(&mut self, hash: u64, weight: u32, item: T) {
        self.take(hash);
        self.keys.push((hash, weight, item));
    }

    pub fn weight(&self) -> u64 {
        self.keys.iter().map(|key| u64::from(key.1)).sum()
    }

    pub fn trim(&mut self, weight_max: u64) {
        while self.weight() > weight_max {
            self.keys.remove(0);
        }
    }
}

/// First in, first out.
pub struct Fifo;

impl Rule for Fifo {
    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        rows.oldest(0)
    }
}

/// A second chance for what was touched.
pub struct Clock;

impl Rule for Clock {
    fn choose(&mut self, rows: &mut Rows, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        loop {
            let at = rows.oldest(0)?;
            if marks(rows.rows[at].slot).min(MARKS_MAX) == 0 {
                return Some(at);
            }
            rows.place(at, 0);
        }
    }
}
