//! Each cache beside a naive model, asked by one thread: decision for decision.

use forebay_cache::policy::bare::{Bare, Served};
use forebay_cache::policy::{Unit, choose};
use forebay_thesis::{Binned, Cache, DeferredLru, FineLru, Hhvm, Lru, LruMutex, SequentialDeferredLru, Thresholds};
use proptest::prelude::*;

/// LRU over a vector, the newest first.
struct NaiveLru {
    capacity: usize,
    pairs: Vec<(u64, u64)>,
}

impl NaiveLru {
    fn get(&mut self, key: u64) -> Option<u64> {
        let at = self.pairs.iter().position(|pair| pair.0 == key)?;
        let pair = self.pairs.remove(at);
        self.pairs.insert(0, pair);
        Some(pair.1)
    }

    fn insert(&mut self, key: u64, value: u64) -> bool {
        if self.capacity == 0 || self.pairs.iter().any(|pair| pair.0 == key) {
            return false;
        }
        self.pairs.truncate(self.capacity - 1);
        self.pairs.insert(0, (key, value));
        true
    }
}

/// DeferredLRU over two vectors: the list, the newest first, and the Recent list, what was noted last first.
struct NaiveDeferred {
    capacity: usize,
    pull_at: usize,
    purge_count: usize,
    pairs: Vec<(u64, u64)>,
    recent: Vec<u64>,
}

impl NaiveDeferred {
    fn new(capacity: usize, thresholds: Thresholds) -> NaiveDeferred {
        let nodes = |share: f64| ((capacity as f64 * share).floor() as usize).max(1);
        NaiveDeferred {
            capacity,
            pull_at: nodes(thresholds.pull),
            purge_count: nodes(thresholds.purge),
            pairs: Vec::new(),
            recent: Vec::new(),
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let value = self.pairs.iter().find(|pair| pair.0 == key)?.1;
        if !self.recent.contains(&key) {
            self.recent.insert(0, key);
            if self.recent.len() >= self.pull_at {
                self.pull();
            }
        }
        Some(value)
    }

    /// All that are noted go to the front, in the order of the Recent list; but the first stays, after them.
    fn pull(&mut self) {
        let first = self.pairs[0].0;
        let moved: Vec<u64> = self.recent.drain(..).filter(|&key| key != first).collect();
        let value = |key: &u64| *self.pairs.iter().find(|pair| pair.0 == *key).expect("noted is in the list");
        let front: Vec<(u64, u64)> = moved.iter().map(value).collect();
        let rest = self.pairs.iter().copied().filter(|pair| !moved.contains(&pair.0));
        self.pairs = front.iter().copied().chain(rest).collect();
    }

    /// The oldest that are not noted go, but never the first.
    fn purge(&mut self) {
        let mut left = self.purge_count;
        for at in (1..self.pairs.len()).rev() {
            if left > 0 && !self.recent.contains(&self.pairs[at].0) {
                self.pairs.remove(at);
                left -= 1;
            }
        }
    }

    fn insert(&mut self, key: u64, value: u64) -> bool {
        if self.pairs.len() >= self.capacity {
            let before = self.pairs.len();
            self.purge();
            if self.pairs.len() == before && before > 0 {
                self.pull();
                self.purge();
            }
        }
        let fits = self.pairs.len() < self.capacity && self.pairs.iter().all(|pair| pair.0 != key);
        if fits {
            self.pairs.insert(0, (key, value));
        }
        fits
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(u64),
    /// Whether it is there or not.
    Insert(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => (0u64..30).prop_map(Step::Get), 2 => (0u64..30).prop_map(Step::Insert)];
    prop::collection::vec(step, 0..400)
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64]
}

/// What a look-up found, whether an insertion was done, and all pairs after that.
type Answer = (Option<u64>, bool, Vec<(u64, u64)>);

/// The answers of a cache to all steps.
fn answers(cache: &dyn Cache, steps: &[Step]) -> Vec<Answer> {
    let answer = |(at, step): (usize, &Step)| {
        let (found, inserted) = match *step {
            Step::Get(key) => (cache.get(key), false),
            Step::Insert(key) => (None, cache.insert(key, at as u64)),
        };
        (found, inserted, cache.check().unwrap())
    };
    steps.iter().enumerate().map(answer).collect()
}

proptest! {
    #[test]
    fn lru_in_three_forms(capacity in 0usize..20, steps in steps()) {
        let mut model = NaiveLru { capacity, pairs: Vec::new() };
        let expected: Vec<_> = steps.iter().enumerate().map(|(at, step)| {
            let (found, inserted) = match *step {
                Step::Get(key) => (model.get(key), false),
                Step::Insert(key) => (None, model.insert(key, at as u64)),
            };
            (found, inserted, model.pairs.clone())
        }).collect();
        prop_assert_eq!(&answers(&LruMutex::new(capacity), &steps), &expected);
        prop_assert_eq!(&answers(&Hhvm::new(capacity), &steps), &expected, "no other thread has the lock");
        let mut plain = Lru::new(capacity);
        for ((at, step), expected) in steps.iter().enumerate().zip(&expected) {
            match *step {
                Step::Get(key) => prop_assert_eq!(plain.get(key), expected.0),
                Step::Insert(key) => prop_assert_eq!(plain.insert(key, at as u64), expected.1),
            }
            prop_assert_eq!(&plain.pairs(), &expected.2);
        }
    }

    /// Its insertion takes a node first, and looks for the key then. So an insertion of a key that is there evicts.
    #[test]
    fn fine_grained_lru(capacity in 0usize..20, steps in steps()) {
        let cache = FineLru::new(capacity);
        let mut model = NaiveLru { capacity, pairs: Vec::new() };
        for (at, step) in steps.iter().enumerate() {
            match *step {
                Step::Get(key) => prop_assert_eq!(cache.get(key), model.get(key)),
                Step::Insert(key) => {
                    if model.capacity > 0 && model.pairs.len() == model.capacity {
                        model.pairs.pop();
                    }
                    prop_assert_eq!(cache.insert(key, at as u64), model.insert(key, at as u64));
                }
            }
            prop_assert_eq!(cache.check().unwrap(), model.pairs.clone());
        }
    }

    #[test]
    fn deferred_lru_in_two_forms(capacity in 0usize..20, pull in share(), purge in share(), steps in steps()) {
        let thresholds = Thresholds { pull, purge };
        let cache = DeferredLru::new(capacity, thresholds);
        let mut plain = SequentialDeferredLru::new(capacity, thresholds);
        let mut model = NaiveDeferred::new(capacity, thresholds);
        for (at, step) in steps.iter().enumerate() {
            match *step {
                Step::Get(key) => {
                    let expected = model.get(key);
                    prop_assert_eq!(cache.get(key), expected);
                    prop_assert_eq!(plain.get(key), expected);
                }
                Step::Insert(key) => {
                    let expected = model.insert(key, at as u64);
                    prop_assert_eq!(cache.insert(key, at as u64), expected);
                    prop_assert_eq!(plain.insert(key, at as u64), expected);
                }
            }
            prop_assert_eq!(cache.check().unwrap(), model.pairs.clone());
            prop_assert_eq!(plain.pairs(), model.pairs.clone());
            let counts = plain.counts();
            prop_assert_eq!(counts.inserted - counts.evicted, model.pairs.len());
            prop_assert_eq!(plain.noted(), model.recent.len());
        }
    }

    /// A part is a cache of its share, and has the thresholds of the whole.
    #[test]
    fn bins_are_caches_by_themselves(capacity in 0usize..2000, pull in share(), purge in share(), seed in 0u64..1000) {
        let mut random = fastrand::Rng::with_seed(seed);
        let thresholds = Thresholds { pull, purge };
        let shares = std::cell::RefCell::new(Vec::new());
        let cache = Binned::new(capacity, |share| {
            shares.borrow_mut().push(share);
            DeferredLru::new(share, thresholds)
        });
        prop_assert_eq!(shares.borrow().iter().sum::<usize>(), capacity);
        for _ in 0..2000 {
            let key = random.u64(..3000);
            match cache.get(key) {
                Some(value) => prop_assert_eq!(value, key + 1),
                None => _ = cache.insert(key, key + 1),
            }
        }
        let pairs = cache.check().unwrap();
        prop_assert!(pairs.len() <= capacity);
        prop_assert!(pairs.iter().all(|&(key, value)| value == key + 1));
    }
}

/// The policy of the library decides alike, but for what stands beside the head and for rounding.
#[test]
fn the_policy_of_the_library_hits_as_often() {
    let mut random = fastrand::Rng::with_seed(7);
    let requests: Vec<u64> = (0..200_000).map(|_| (10_000.0 * random.f64().powi(4)) as u64).collect();
    for (pull, purge) in [(0.001, 0.1), (0.1, 0.7), (0.99, 0.99), (0.9, 0.01)] {
        let cache = DeferredLru::new(1000, Thresholds { pull, purge });
        let choice = choose(&format!("deferred-lru:pull={pull},purge={purge}")).unwrap();
        let mut policy = Bare::new(choice.policy, &choice.settings(Unit::Entries, 1000));
        let (mut hits, mut policy_hits) = (0, 0);
        for &key in &requests {
            policy_hits += usize::from(policy.request(key, 1) == Served::Hit);
            match cache.get(key) {
                Some(_) => hits += 1,
                None => _ = cache.insert(key, key),
            }
        }
        let points = 100.0 * (hits as f64 - policy_hits as f64) / requests.len() as f64;
        assert!(points.abs() < 0.5, "{pull}|{purge}: {hits} and {policy_hits} hits");
    }
}
