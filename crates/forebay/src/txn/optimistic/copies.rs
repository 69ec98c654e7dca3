//! The copies that a client keeps, and until when it uses them.

use std::collections::{BTreeMap, HashMap};

use super::message::{Document, Stamp};
use super::options::ClientOptions;
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
    /// When it was last used: its place in the order, and the client's clock.
    used: u64,
    used_us: u64,
}

/// What is known of a key, whether there is a copy of it or not.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    gap: ReadGap,
    /// Reads that a copy served, and those of them that were found stale.
    served: u32,
    stale: u32,
}

/// What is known of keys, of those that were read last. A key is in the younger half once it was read; when that is
/// full, it becomes the older half.
#[derive(Debug, Default)]
struct Pasts {
    younger: HashMap<Key, Past>,
    older: HashMap<Key, Past>,
}

impl Pasts {
    fn get(&self, key: &Key) -> Option<&Past> {
        self.younger.get(key).or_else(|| self.older.get(key))
    }

    /// That of `key`, where it is known. A half has at most `most`.
    fn entry(&mut self, key: &Key, most: usize) -> &mut Past {
        if self.younger.len() >= most && !self.younger.contains_key(key) {
            self.older = std::mem::take(&mut self.younger);
        }
        let older = &mut self.older;
        self.younger.entry(key.clone()).or_insert_with(|| older.remove(key).unwrap_or_default())
    }
}

/// All copies of one client.
#[derive(Debug)]
pub struct Copies {
    leases: Leases,
    copies_max: usize,
    cacheable: fn(&Key) -> bool,
    stale_share_max: f64,
    sooner: bool,
    copies: HashMap<Key, Copy>,
    /// By when they were used, the last one at the end.
    order: BTreeMap<u64, Key>,
    uses: u64,
    pasts: Pasts,
    /// From which the lengths of leases are drawn.
    drawn: u64,
}

/// Reads that copies of a key served before its share of stale ones counts.
const SERVED_MIN: u32 = 16;

impl Copies {
    /// None yet.
    pub fn new(options: &ClientOptions) -> Copies {
        Copies {
            leases: options.leases,
            copies_max: options.copies_max,
            cacheable: options.cacheable,
            stale_share_max: options.rules.stale_share_max,
            sooner: options.rules.sooner,
            copies: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            pasts: Pasts::default(),
            drawn: options.seed,
        }
    }

    /// The copy of `key`, if its lease has not ended.
    pub fn serve(&mut self, key: &Key, now_us: u64) -> Option<Served> {
        if !(self.cacheable)(key) || self.leases == Leases::None {
            return None;
        }
        let past = self.pasts.entry(key, 2 * self.copies_max);
        past.gap.read(seconds(now_us));
        let copy = self.copies.get_mut(key).filter(|copy| now_us < copy.until_us)?;
        past.served = past.served.saturating_add(1);
        self.uses += 1;
        copy.used_us = now_us;
        self.order.remove(&std::mem::replace(&mut copy.used, self.uses));
        self.order.insert(self.uses, key.clone());
        Some(Served { version: copy.version, fresh: copy.fresh, value: copy.value.clone(), cached: true })
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
            self.remove(key);
            return;
        };
        self.remove(key);
        if self.copies.len() >= self.copies_max {
            if !self.is_read_sooner(key, now_us) {
                return;
            }
            if let Some((_, oldest)) = self.order.pop_first() {
                self.copies.remove(&oldest);
            }
        }
        let until_us = now_us.saturating_add(length_us);
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        let (version, value, writes, used) = (*version, value.clone(), *writes, self.uses);
        self.copies.insert(key.clone(), Copy { version, fresh, value, until_us, writes, used, used_us: now_us });
    }

    /// Whether `key` is read again, as far as is known, before it has lain unread for as long as the oldest copy has.
    fn is_read_sooner(&self, key: &Key, now_us: u64) -> bool {
        let oldest = self.order.values().next().and_then(|oldest| self.copies.get(oldest));
        let unread = oldest.map_or(f64::INFINITY, |oldest| seconds(now_us.saturating_sub(oldest.used_us)));
        let gap = self.pasts.get(key).and_then(|past| past.gap.gap());
        !self.sooner || gap.is_some_and(|gap| gap < unread)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(copy) = self.copies.remove(key) {
            self.order.remove(&copy.used);
        }
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

    /// What was read of `key` at `version` was found stale. With `evict`, a copy of that version is given up.
    pub fn stale(&mut self, key: &Key, version: Stamp, evict: bool) {
        if (self.cacheable)(key) {
            let past = self.pasts.entry(key, 2 * self.copies_max);
            past.stale = past.stale.saturating_add(1);
        }
        if evict && self.copies.get(key).is_some_and(|copy| copy.version == version) {
            self.remove(key);
        }
    }

    /// What the copy has was replaced at `newest`, or before.
    pub fn evict_below(&mut self, key: &Key, newest: Stamp) {
        if self.copies.get(key).is_some_and(|copy| copy.version < newest) && !on(Fault::StaleKept) {
            self.remove(key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.copies.len()
    }

    fn length_us(&mut self, key: &Key, writes: f64) -> Option<u64> {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = (self.drawn >> 11) as f64 / (1u64 << 53) as f64;
        if !(self.cacheable)(key) {
            return None;
        }
        let past = self.pasts.get(key).copied().unwrap_or_default();
        let stale_share = f64::from(past.stale) / f64::from(past.served.max(SERVED_MIN));
        if self.stale_share_max < 1.0 && stale_share >= self.stale_share_max {
            return None;
        }
        let length = self.leases.length(past.gap.gap(), writes, chance)?;
        Some((length * 1e6) as u64)
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::{ClientOptions, Layout, Rules};
    use super::*;

    fn copies(rules: Rules) -> Copies {
        Copies::new(&ClientOptions {
            layout: Layout { validators: 1, shards: 1, together: false },
            leases: Leases::Endless,
            copies_max: 2,
            cacheable: |_| true,
            rules,
            freshest: false,
            resend_us: 0,
            wait_us: 0,
            give_up_us: 0,
            unknown_us: 0,
            seed: 1,
        })
    }

    /// Reads a key, and keeps it where there is no copy; whether there was one.
    fn read(copies: &mut Copies, name: &str, now_us: u64) -> bool {
        let key = Key::new(0, name.as_bytes());
        let served = copies.serve(&key, now_us).is_some();
        if !served {
            let document = Document { key, version: Stamp::ZERO, value: None, writes: 0.0 };
            copies.keep(&document, Stamp::ZERO, now_us);
        }
        served
    }

    #[test]
    fn what_is_read_once_displaces_nothing() {
        for (rules, kept) in [(Rules::FOREBAY, true), (Rules { sooner: false, ..Rules::FOREBAY }, false)] {
            let mut copies = copies(rules);
            assert!(!read(&mut copies, "a", 0) && !read(&mut copies, "b", 1));
            assert!((2..9).all(|now_us| !read(&mut copies, &format!("once {now_us}"), now_us)));
            assert_eq!(read(&mut copies, "a", 9), kept);
        }
        // Read twice within less time than the other lies unread, it takes its place.
        let mut copies = copies(Rules::FOREBAY);
        let reads = [("a", 0), ("b", 1), ("c", 20), ("c", 25), ("c", 26), ("b", 27), ("a", 28)];
        let served = reads.map(|(name, now_us)| read(&mut copies, name, now_us));
        assert_eq!(served, [false, false, false, false, true, true, false]);
    }
}
