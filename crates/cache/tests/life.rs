//! LIFE over the bare policy: what goes first, and agreement with a naive model of levels.

use std::cmp::Reverse;

use forebay_cache::policy::bare::{Bare, Served};
use forebay_cache::policy::{Access, Unit, choose};
use proptest::prelude::*;

fn cache(policy: &str, capacity: u64) -> Bare {
    let choice = choose(policy).expect("in the table");
    Bare::new(choice.policy, &choice.settings(Unit::Entries, capacity))
}

fn ask(cache: &mut Bare, txn: u64, level: u16, keys: &[u64]) {
    for &hash in keys {
        cache.access(Access { txn, level, ..Access::read(hash, 1) });
        cache.validate();
    }
    cache.ended(txn, true);
}

#[test]
fn the_largest_goes_first_and_then_all_of_it() {
    let mut cache = cache("life:window=1000", 8);
    ask(&mut cache, 1, 0, &[1, 2]);
    ask(&mut cache, 2, 0, &[10, 11, 12, 13]);
    ask(&mut cache, 3, 0, &[20, 21]);
    // One key of the four goes, and then the rest before those who are whole.
    (100..104).for_each(|key| ask(&mut cache, key, 0, &[key]));
    assert!([1, 2, 20, 21, 100, 101, 102, 103].iter().all(|&key| cache.contains(key)));
    assert!(cache.explain(1).expect("cached").ends_with("2 came, complete"));
    // Of two whole ones of the same size the one that waited longest, though each alone is smaller than it.
    ask(&mut cache, 4, 0, &[104]);
    assert!(!(cache.contains(1) && cache.contains(2)) && cache.contains(20) && cache.contains(100));
}

#[test]
fn what_nobody_asked_for_goes_before_what_is_larger() {
    let mut cache = cache("life:window=2", 4);
    ask(&mut cache, 1, 0, &[1]);
    (2..12).for_each(|txn| ask(&mut cache, txn, 0, &[10, 11, 12]));
    ask(&mut cache, 20, 0, &[20]);
    assert!(!cache.contains(1) && cache.contains(10) && cache.contains(11) && cache.contains(12));
}

#[test]
fn the_artifact_drops_what_is_of_a_large_level() {
    let mut cache = cache("life-artifact:sample=1000", 6);
    ask(&mut cache, 1, 0, &[1, 2, 3, 4]);
    ask(&mut cache, 2, 0, &[5]);
    (10..13).for_each(|key| ask(&mut cache, key, 0, &[key]));
    assert!([5, 10, 11, 12].iter().all(|&key| cache.contains(key)), "{:?}", cache.evicted());
    assert_eq!((1..=4).filter(|&key| cache.contains(key)).count(), 2);
    // A level displaces nothing of its own.
    ask(&mut cache, 20, 0, &[20, 21, 22, 23, 24, 25]);
    assert!((20..26).all(|key| cache.contains(key)));
}

struct Naive {
    capacity: usize,
    window: f64,
    now: u64,
    levels: Vec<NaiveLevel>,
}

struct NaiveLevel {
    at: Option<(u64, u16)>,
    since: u64,
    asked: u32,
    came: u32,
    lost: bool,
    keys: Vec<u64>,
}

impl Naive {
    fn level(&mut self, at: Option<(u64, u16)>) -> usize {
        if let Some(known) = self.levels.iter().position(|level| at.is_some() && level.at == at) {
            return known;
        }
        self.end();
        self.levels.push(NaiveLevel { at, since: self.now, asked: 0, came: 0, lost: false, keys: Vec::new() });
        self.levels.len() - 1
    }

    /// Levels that were asked for are over.
    fn end(&mut self) {
        self.levels.iter_mut().for_each(|level| level.at = None);
    }

    fn len(&self) -> usize {
        self.levels.iter().map(|level| level.keys.len()).sum()
    }

    fn ask(&mut self, txn: u64, level: u16, key: u64) {
        self.now += 1;
        let to = self.level((txn != 0).then_some((txn, level)));
        let known = self.levels.iter().position(|level| level.keys.contains(&key));
        if known == Some(to) {
            return;
        }
        self.levels[to].asked += 1;
        if let Some(known) = known {
            self.levels[known].keys.retain(|&other| other != key);
        }
        while self.len() >= self.capacity && known.is_none() {
            let over = || (0..self.levels.len()).filter(|&at| at != to && !self.levels[at].keys.is_empty());
            let Some(oldest) = over().min_by_key(|&at| self.levels[at].since) else { return };
            let by_size = |at: &usize| {
                let level = &self.levels[*at];
                (!level.lost && level.came == level.asked, Reverse(level.asked), level.since)
            };
            let passed = (self.now - self.levels[oldest].since) as f64;
            let aged = passed > self.window * self.len() as f64;
            let goes = if aged { oldest } else { over().min_by_key(by_size).expect("one at least") };
            self.levels[goes].keys.pop();
            self.levels[goes].lost = true;
        }
        self.levels[to].keys.push(key);
        self.levels[to].came += 1;
    }
}

proptest! {
    #[test]
    fn equals_its_model(
        levels in prop::collection::vec((any::<bool>(), prop::collection::vec(0u64..20, 1..7)), 1..60),
        capacity in 1usize..12, window in 1u32..6,
    ) {
        let mut cache = cache(&format!("life:window={window}"), capacity as u64);
        let mut naive = Naive { capacity, window: f64::from(window), now: 0, levels: Vec::new() };
        for (txn, (alone, keys)) in (1..).zip(&levels) {
            for (place, &key) in keys.iter().enumerate() {
                // Three keys are a level, the next three another; or each stands for itself.
                let (txn, level) = if *alone { (0, 0) } else { (txn, place as u16 / 3) };
                let served = cache.access(Access { txn, level, ..Access::read(key, 1) });
                naive.ask(txn, level, key);
                cache.validate();
                let ours: Vec<u64> = (0..20).filter(|&key| cache.contains(key)).collect();
                let mut theirs: Vec<u64> = naive.levels.iter().flat_map(|level| level.keys.clone()).collect();
                theirs.sort_unstable();
                prop_assert_eq!(ours, theirs, "transaction {} key {} {:?}", txn, key, served);
                prop_assert!(served != Served::Refused || !cache.contains(key));
            }
            cache.ended(txn, true);
            naive.end();
        }
    }
}
