//! The copies that a client keeps, and until when it uses them.

use std::collections::BTreeMap;

use super::message::{Document, Stamp};
use crate::key::Key;
use crate::lease::{Leases, ReadGap};
use crate::mutation::{Fault, on};
use crate::value::Value;

/// A document as a transaction reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The transaction that wrote it.
    pub version: Stamp,
    /// There is no write of it above `version` and up to this stamp, nor will there be.
    pub fresh: Stamp,
    /// What was written.
    pub value: Option<Value>,
    /// It comes from a copy.
    pub cached: bool,
}

#[derive(Debug)]
struct Copy {
    version: Stamp,
    fresh: Stamp,
    value: Option<Value>,
    /// By the client's clock.
    until_us: u64,
    /// Writes by others, per second.
    writes: f64,
}

/// All copies of one client.
#[derive(Debug)]
pub struct Copies {
    leases: Leases,
    copies_max: usize,
    copies: BTreeMap<Key, Copy>,
    /// How often documents are read, kept or not.
    gaps: BTreeMap<Key, ReadGap>,
    /// From which the lengths of leases are drawn.
    drawn: u64,
}

impl Copies {
    /// None yet.
    pub fn new(leases: Leases, copies_max: usize, seed: u64) -> Copies {
        Copies { leases, copies_max, copies: BTreeMap::new(), gaps: BTreeMap::new(), drawn: seed }
    }

    /// The copy of `key`, if its lease has not ended.
    pub fn serve(&mut self, key: &Key, now_us: u64) -> Option<Served> {
        if self.gaps.len() >= 4 * self.copies_max && !self.gaps.contains_key(key) {
            self.gaps.clear();
        }
        self.gaps.entry(key.clone()).or_default().read(seconds(now_us));
        let copy = self.copies.get(key).filter(|copy| now_us < copy.until_us)?;
        let Copy { version, fresh, value, .. } = copy;
        Some(Served { version: *version, fresh: *fresh, value: value.clone(), cached: true })
    }

    /// Keeps what was read or written, unless something newer is there.
    pub fn keep(&mut self, document: &Document, fresh: Stamp, now_us: u64) {
        let Document { key, version, value, writes } = document;
        let fresh = match self.copies.get(key) {
            Some(copy) if copy.version > *version => return,
            Some(copy) if copy.version == *version => fresh.max(copy.fresh),
            _ => fresh,
        };
        let Some(length_us) = self.length_us(key, *writes) else {
            self.copies.remove(key);
            return;
        };
        if self.copies.len() >= self.copies_max && !self.copies.contains_key(key) {
            let first = self.copies.iter().min_by_key(|(_, copy)| copy.until_us).map(|(key, _)| key.clone());
            first.and_then(|first| self.copies.remove(&first));
        }
        let until_us = now_us.saturating_add(length_us);
        let copy = Copy { version: *version, fresh, value: value.clone(), until_us, writes: *writes };
        self.copies.insert(key.clone(), copy);
    }

    /// Keeps what a transaction has written at `stamp`.
    pub fn keep_own(&mut self, key: &Key, value: Option<Value>, stamp: Stamp, now_us: u64) {
        let writes = self.copies.get(key).map_or(0.0, |copy| copy.writes);
        self.keep(&Document { key: key.clone(), version: stamp, value, writes }, stamp, now_us);
    }

    /// The copy at `version` was validated at `stamp`: no write comes between, and its lease begins again.
    pub fn renew(&mut self, key: &Key, version: Stamp, stamp: Stamp, now_us: u64) {
        let Some(writes) = self.copies.get(key).map(|copy| copy.writes) else { return };
        let length_us = self.length_us(key, writes).unwrap_or_default();
        let Some(copy) = self.copies.get_mut(key) else { return };
        if copy.version == version {
            copy.fresh = copy.fresh.max(stamp);
            copy.until_us = now_us.saturating_add(length_us);
        }
    }

    /// The copy at `version` is stale.
    pub fn evict(&mut self, key: &Key, version: Stamp) {
        if self.copies.get(key).is_some_and(|copy| copy.version == version) {
            self.copies.remove(key);
        }
    }

    /// What the copy has was replaced at `newest`, or before.
    pub fn evict_below(&mut self, key: &Key, newest: Stamp) {
        if self.copies.get(key).is_some_and(|copy| copy.version < newest) && !on(Fault::StaleKept) {
            self.copies.remove(key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.copies.len()
    }

    fn length_us(&mut self, key: &Key, writes: f64) -> Option<u64> {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = (self.drawn >> 11) as f64 / (1u64 << 53) as f64;
        let gap = self.gaps.get(key).and_then(ReadGap::gap);
        let length = self.leases.length(gap, writes, chance)?;
        Some((length * 1e6) as u64)
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
