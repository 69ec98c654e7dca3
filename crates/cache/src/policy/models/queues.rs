//! Models of policies that are queues: SLRU, 2Q, ARC, LIRS.

use super::frame::{Gone, Row, Rows, Rule};
use crate::policy::{Access, Slot, Why};

/// Four segments of one size.
pub struct Slru;

impl Rule for Slru {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        let list = (rows.rows[at].list + 1).min(3);
        rows.place(at, list);
        self.settle(rows);
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let row = rows.rows.pop().expect("the newest");
        let list = (0..4).find(|&list| rows.weight(list) + u64::from(row.weight) <= rows.capacity / 4).unwrap_or(0);
        rows.rows.push(Row { list, ..row });
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        (0..4).find_map(|list| rows.oldest(list))
    }

    fn pinned(&mut self, rows: &mut Rows, _: Slot, _: bool) {
        self.settle(rows);
    }

    fn settle(&mut self, rows: &mut Rows) {
        for list in [3, 2, 1] {
            while rows.weight(list) > rows.capacity / 4 {
                let at = rows.oldest(list).expect("it weighs something");
                rows.place(at, list - 1);
            }
        }
    }
}

/// List 0 is A1in, 1 is Am.
pub struct TwoQ {
    pub out: Gone<()>,
    pub returning: bool,
}

impl Rule for TwoQ {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        if rows.rows[at].list == 1 {
            rows.place(at, 1);
        }
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.returning = self.out.take(access.hash).is_some();
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let newest = rows.rows.len() - 1;
        rows.rows[newest].list = u32::from(self.returning);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        let first = u32::from(rows.weight(0) <= rows.share(0.25));
        rows.oldest(first).or_else(|| rows.oldest(1 - first))
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        if why == Why::Evicted && row.list == 0 && u64::from(row.weight) <= rows.share(0.5) {
            self.out.push(row.hash, row.weight, ());
            self.settle(rows);
        }
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.out.trim(rows.share(0.5));
    }
}

/// Lists and ghosts 0 are T1 and B1, 1 are T2 and B2 of figure 4.
pub struct Arc {
    pub p: f64,
    /// `p` moves by whole numbers.
    pub whole: bool,
    pub ghosts: [Gone<()>; 2],
    /// The ghosts among which the newcomer was found.
    pub returns_to: Option<usize>,
    pub without_ghost: bool,
}

impl Arc {
    pub fn new(whole: bool) -> Arc {
        Arc { p: 0.0, whole, ghosts: [Gone::new(), Gone::new()], returns_to: None, without_ghost: false }
    }

    fn replace(&self, rows: &Rows) -> Option<usize> {
        let t1 = rows.weight(0) as f64;
        let first = u32::from(!(t1 > self.p || (t1 == self.p && self.returns_to == Some(1))));
        rows.oldest(first).or_else(|| rows.oldest(1 - first))
    }
}

impl Rule for Arc {
    fn hit(&mut self, rows: &mut Rows, at: usize, _: &Access) {
        rows.place(at, 1);
    }

    fn missed(&mut self, rows: &mut Rows, access: &Access) -> bool {
        let [b1, b2] = [0, 1].map(|list| self.ghosts[list].weight() as f64);
        self.returns_to = (0..2).find(|&list| self.ghosts[list].take(access.hash).is_some());
        let rounded = |ratio: f64| if self.whole { ratio as u64 as f64 } else { ratio };
        match self.returns_to {
            Some(0) => self.p = (self.p + rounded(b2 / b1).max(1.0)).min(rows.capacity as f64),
            Some(_) => self.p = (self.p - rounded(b1 / b2).max(1.0)).max(0.0),
            None => {}
        }
        true
    }

    fn entered(&mut self, rows: &mut Rows, _: &Access) {
        let newest = rows.rows.len() - 1;
        rows.rows[newest].list = u32::from(self.returns_to.take().is_some());
    }

    fn choose(&mut self, rows: &mut Rows, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        self.without_ghost = false;
        if incoming.slot.is_some() {
            self.returns_to = None;
        } else if self.returns_to.is_none() {
            let l1 = rows.weight(0) + self.ghosts[0].weight();
            let l2 = rows.weight(1) + self.ghosts[1].weight();
            let fills_l1 = l1 + u64::from(rows.unit.weight(incoming.size)) > rows.capacity;
            if fills_l1 && self.ghosts[0].keys.is_empty() {
                self.without_ghost = rows.oldest(0).is_some();
                return rows.oldest(0).or_else(|| rows.oldest(1));
            } else if fills_l1 {
                self.ghosts[0].keys.remove(0);
            } else if l1 + l2 >= 2 * rows.capacity && !self.ghosts[1].keys.is_empty() {
                self.ghosts[1].keys.remove(0);
            }
        }
        self.replace(rows)
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        if why == Why::Evicted && !self.without_ghost {
            self.ghosts[row.list as usize].push(row.hash, row.weight, ());
            self.settle(rows);
        }
        self.without_ghost &= why != Why::Evicted;
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.p = self.p.min(rows.capacity as f64);
        self.ghosts.iter_mut().for_each(|ghosts| ghosts.trim(4 * rows.capacity));
    }
}

/// List 0 is Q with the HIR entries, 1 has the LIR entries.
pub struct Lirs {
    /// S: hashes, oldest first, each with whether it is cached.
    pub stack: Vec<(u64, bool)>,
    /// Those in S that were evicted, in the order of their eviction.
    pub gone: Gone<()>,
    pub returning: bool,
    pub last: Option<u64>,
}

impl Lirs {
    fn touch(&mut self, hash: u64) {
        self.stack.retain(|place| place.0 != hash);
        self.stack.push((hash, true));
    }

    fn lir_max(rows: &Rows) -> u64 {
        rows.capacity.saturating_sub(rows.share(0.01).max(2))
    }

    fn is_lir(rows: &Rows, hash: u64) -> bool {
        rows.rows.iter().any(|row| row.hash == hash && row.list == 1 && !row.pinned)
    }

    fn prune(&mut self, rows: &Rows) {
        while let Some(&(hash, _)) = self.stack.first() {
            if Lirs::is_lir(rows, hash) {
                break;
            }
            self.stack.remove(0);
            self.gone.take(hash);
        }
    }

    fn demote(&mut self, rows: &mut Rows) {
        self.prune(rows);
        if !self.stack.is_empty() {
            let (hash, _) = self.stack.remove(0);
            let at = rows.rows.iter().position(|row| row.hash == hash).expect("LIR entries are cached");
            rows.place(at, 0);
            self.prune(rows);
        }
    }
}

impl Rule for Lirs {
    fn hit(&mut self, rows: &mut Rows, at: usize, access: &Access) {
        if self.last.replace(access.hash) == Some(access.hash) {
            return;
        }
        let in_stack = self.stack.iter().any(|place| place.0 == access.hash);
        self.touch(access.hash);
        let list = u32::from(rows.rows[at].list == 1 || in_stack);
        rows.place(at, list);
        self.settle(rows);
    }

    fn hit_pinned(&mut self, _: &mut Rows, access: &Access) {
        self.last = Some(access.hash);
    }

    fn missed(&mut self, _: &mut Rows, access: &Access) -> bool {
        self.last = Some(access.hash);
        self.returning = self.gone.take(access.hash).is_some();
        self.stack.retain(|place| place.0 != access.hash);
        true
    }

    fn entered(&mut self, rows: &mut Rows, access: &Access) {
        let newest = rows.rows.len() - 1;
        let fills = rows.weight(0) + rows.weight(1) <= Lirs::lir_max(rows);
        rows.rows[newest].list = u32::from(self.returning || fills);
        self.touch(access.hash);
        self.settle(rows);
    }

    fn choose(&mut self, rows: &mut Rows, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<usize> {
        if rows.oldest(0).is_none() {
            self.demote(rows);
        }
        rows.oldest(0)
    }

    fn left(&mut self, rows: &mut Rows, row: &Row, why: Why) {
        match self.stack.iter_mut().find(|place| place.0 == row.hash) {
            Some(place) if why == Why::Evicted => {
                place.1 = false;
                self.gone.push(row.hash, row.weight, ());
            }
            _ => self.stack.retain(|place| place.0 != row.hash),
        }
        self.settle(rows);
    }

    fn pinned(&mut self, rows: &mut Rows, slot: Slot, pinned: bool) {
        let hash = rows.rows[rows.at(slot)].hash;
        if pinned {
            self.stack.retain(|place| place.0 != hash);
        } else {
            self.touch(hash);
        }
        self.settle(rows);
    }

    fn settle(&mut self, rows: &mut Rows) {
        self.prune(rows);
        while rows.weight(1) > Lirs::lir_max(rows) {
            self.demote(rows);
        }
        while self.gone.weight() > rows.capacity {
            let (hash, ..) = self.gone.keys.remove(0);
            self.stack.retain(|place| place.0 != hash);
        }
    }
}
