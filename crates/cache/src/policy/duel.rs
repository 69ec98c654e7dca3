//! Which threshold of DeferredLRU suits the traffic. The thesis leaves that open (section 6.4).
//!
//! Set duelling (Qureshi and others: Adaptive insertion policies, 2007) has some sets of a hardware cache follow each
//! candidate, and the others follow the one that misses least. Shards are few, and one popular key decides what a shard
//! hits. So here each candidate serves the same sample of the keys, in a cache beside the shard that is smaller by as
//! much. What the candidates hit is summed up over all shards, and newer hits count more.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bare::{Bare, Served};
use super::{Access, Hits, Learned, Order, Settings, Unit};

/// The candidates: shares of the capacity at which the recent entries are moved.
pub(super) const PULLS: [f64; 6] = [0.0, 0.1, 0.5, 0.75, 0.9, 0.99];

/// The candidate that is followed until another one hits more.
pub(super) const FIRST: usize = 4;

/// Entries of a candidate's cache, about.
pub(super) const SAMPLE: usize = 128;

/// Requests of the sample after which hits are summed up, for each entry of a candidate's cache.
const WINDOW: usize = 4;

/// What earlier hits count when all shards have summed up theirs once more.
const KEPT: f64 = 0.9;

/// Bytes of an entry in a candidate's cache: in its index, its lists and its frame.
const ENTRY_BYTES: usize = 96;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the candidates hit in all shards.
#[derive(Default)]
pub(super) struct Scores(Mutex<State>);

struct State {
    hits: [f64; PULLS.len()],
    chosen: usize,
    /// Shards that sum up.
    orders: i32,
}

impl Default for State {
    fn default() -> State {
        State { hits: [0.0; PULLS.len()], chosen: FIRST, orders: 0 }
    }
}

impl Scores {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds hits of a shard; answers the candidate to follow.
    fn add(&self, hits: &[u32; PULLS.len()]) -> usize {
        let mut state = self.state();
        let kept = KEPT.powf(1.0 / f64::from(state.orders.max(1)));
        for (sum, hits) in state.hits.iter_mut().zip(hits) {
            *sum = *sum * kept + f64::from(*hits);
        }
        let most = (0..PULLS.len()).max_by(|one, other| state.hits[*one].total_cmp(&state.hits[*other]));
        if let Some(most) = most.filter(|most| state.hits[*most] > state.hits[state.chosen]) {
            state.chosen = most;
        }
        state.chosen
    }
}

impl Learned for Scores {
    fn bytes(&self) -> usize {
        size_of::<Scores>()
    }

    fn forget(&self) {
        let mut state = self.state();
        *state = State { orders: state.orders, ..State::default() };
    }

    fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        let state = self.state();
        let all: f64 = state.hits.iter().sum::<f64>().max(1.0);
        let chosen = ("pull".to_string(), PULLS[state.chosen].to_string());
        let each = PULLS.iter().zip(state.hits);
        let each = each.map(|(pull, hits)| (format!("hits with {pull}, %"), format!("{:.1}", 100.0 * hits / all)));
        std::iter::once(chosen).chain(each).take(lines_max).collect()
    }
}

/// The candidates of one shard.
pub(super) struct Duel {
    scores: Arc<Scores>,
    /// None until the shard is full.
    trials: Vec<Bare>,
    /// A key is in the sample if the highest bits of its hash, spread once more, are below.
    below: u64,
    window: usize,
    requests: usize,
    hits: [u32; PULLS.len()],
}

impl Duel {
    /// `None`: what the policy learned is of another policy.
    pub fn new(learned: Arc<dyn Learned>) -> Option<Box<Duel>> {
        let any: Arc<dyn Any + Send + Sync> = learned;
        let scores: Arc<Scores> = any.downcast().ok()?;
        scores.state().orders += 1;
        let (hits, window, requests) = ([0; PULLS.len()], 0, 0);
        Some(Box::new(Duel { scores, trials: Vec::new(), below: 0, window, requests, hits }))
    }

    pub fn is_idle(&self) -> bool {
        self.trials.is_empty()
    }

    /// The shard has so many entries, and no more room. `order` makes the order of a candidate.
    pub fn begin(
        &mut self,
        (unit, capacity): (Unit, u64),
        len: usize,
        order: impl Fn(f64, &Settings) -> Box<dyn Order>,
    ) {
        let share = (SAMPLE as f64 / len.max(1) as f64).min(1.0);
        self.below = (share * (1u64 << 32) as f64) as u64;
        self.window = WINDOW * SAMPLE.min(len.max(1));
        let capacity = ((capacity as f64 * share) as u64).max(1);
        let trial = |pull: &f64| {
            let settings = Settings { unit, capacity, values: Vec::new() };
            Bare::with_order(Hits::Sampled, &settings, order(*pull, &settings))
        };
        self.trials = PULLS.iter().map(trial).collect();
    }

    /// The shard has another capacity: all begins when it is full again.
    pub fn reset(&mut self) {
        (self.trials, self.requests, self.hits) = (Vec::new(), 0, [0; PULLS.len()]);
    }

    /// A request for a key, which the shard may have or not. After some it answers the threshold to follow.
    pub fn request(&mut self, access: &Access) -> Option<f64> {
        if self.is_idle() || access.hash.wrapping_mul(SPREAD) >> 32 >= self.below {
            return None;
        }
        for (trial, hits) in self.trials.iter_mut().zip(&mut self.hits) {
            *hits += u32::from(trial.access(Access { slot: None, ..*access }) == Served::Hit);
        }
        self.requests += 1;
        if self.requests < self.window {
            return None;
        }
        self.requests = 0;
        let chosen = self.scores.add(&std::mem::take(&mut self.hits));
        Some(PULLS[chosen])
    }

    pub fn bytes(&self) -> usize {
        self.trials.iter().map(|trial| trial.len() * ENTRY_BYTES).sum::<usize>() + size_of::<Duel>()
    }
}

impl Drop for Duel {
    fn drop(&mut self) {
        self.scores.state().orders -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::policy::bare::{Bare, Served};
    use crate::policy::{Access, Unit, choose};

    use super::*;

    fn bare(text: &str, unit: Unit, capacity: u64) -> Bare {
        let choice = choose(text).expect("it is in the table");
        Bare::new(choice.policy, &choice.settings(unit, capacity))
    }

    /// Keys by chance, the lower the more often.
    fn skewed(random: &mut fastrand::Rng, keys: u64) -> u64 {
        let share = random.f64();
        (share * share * share * keys as f64) as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 40 }, ..ProptestConfig::default() })]

        /// Where all keys are in the sample, a candidate hits what a cache by its threshold hits. Before candidates
        /// have been summed up once, the cache is that of the first threshold.
        #[test]
        fn candidates_are_what_they_stand_for(seed: u64, capacity in 1..60u64, bytes: bool) {
            let unit = if bytes { Unit::Bytes } else { Unit::Entries };
            let mut random = fastrand::Rng::with_seed(seed);
            let mut adaptive = bare("deferred-lru:adapt=1", unit, capacity);
            let mut first = bare(&format!("deferred-lru:pull={},purge=0", PULLS[FIRST]), unit, capacity);
            for _ in 0..capacity {
                let (key, size) = (skewed(&mut random, 3 * capacity), 1 + random.u32(..4));
                prop_assert_eq!(adaptive.request(key, size), first.request(key, size));
            }
            let learned: Arc<dyn Learned> = Arc::new(Scores::default());
            let mut duel = Duel::new(learned).expect("they are scores");
            duel.begin((unit, capacity), capacity as usize, |pull, settings| {
                super::super::deferred_lru::candidate(pull, settings)
            });
            let mut caches = PULLS.map(|pull| bare(&format!("deferred-lru:pull={pull},purge=0"), unit, capacity));
            let mut hits = [0u32; PULLS.len()];
            for _ in 0..WINDOW * capacity as usize {
                let (key, size) = (skewed(&mut random, 3 * capacity), 1 + random.u32(..4));
                for (cache, hits) in caches.iter_mut().zip(&mut hits) {
                    *hits += u32::from(cache.request(key, size) == Served::Hit);
                }
                if let Some(pull) = duel.request(&Access::read(key, size)) {
                    let most = hits.iter().max().expect("there are some");
                    let chosen = PULLS.iter().position(|other| *other == pull).expect("one of them");
                    prop_assert_eq!(hits[chosen], *most);
                } else {
                    prop_assert_eq!(duel.hits, hits);
                }
            }
            prop_assert!(duel.bytes() <= 1000 + PULLS.len() * capacity as usize * ENTRY_BYTES);
        }
    }

    /// Traffic that changes its kind: no threshold suits all of it, and the one that is followed hits as much.
    #[test]
    fn follows_what_suits_the_traffic() {
        let (capacity, steps) = if cfg!(miri) { (50, 1000) } else { (1000, 60_000) };
        let mut random = fastrand::Rng::with_seed(11);
        let mut requests: Vec<u64> = Vec::new();
        for phase in 0..4 {
            for step in 0..steps {
                requests.push(match phase % 2 {
                    // What is popular stays popular.
                    0 => skewed(&mut random, 10 * capacity),
                    // What is popular changes.
                    _ => (1 << 32) * (phase + 1) + step / 2 + skewed(&mut random, 2 * capacity),
                });
            }
        }
        let hits = |text: &str| {
            let mut cache = bare(text, Unit::Entries, capacity);
            let hash = |key: &u64| key.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(20);
            requests.iter().filter(|key| cache.request(hash(key), 1) == Served::Hit).count()
        };
        let fixed = PULLS.map(|pull| hits(&format!("deferred-lru:pull={pull},purge=0")));
        let adaptive = hits("deferred-lru:adapt=1");
        println!("{fixed:?}, adaptive {adaptive}");
        let most = *fixed.iter().max().expect("there are some");
        assert!(cfg!(miri) || adaptive > most, "{adaptive} of {most}");
    }

    #[test]
    fn scores_are_shared_and_forgotten() {
        let scores = Arc::new(Scores::default());
        let duels = [0, 1].map(|_| Duel::new(scores.clone()).expect("they are scores"));
        assert_eq!(PULLS[scores.add(&[9, 0, 0, 0, 5, 0])], 0.0);
        assert_eq!(PULLS[scores.add(&[0, 0, 0, 0, 5, 0])], 0.9);
        assert_eq!(scores.report(2)[0], ("pull".to_string(), "0.9".to_string()));
        assert_eq!(scores.report(9).len(), 1 + PULLS.len());
        scores.forget();
        let State { hits, chosen, orders } = *scores.state();
        assert_eq!((hits, chosen, orders), ([0.0; PULLS.len()], FIRST, 2));
        drop(duels);
        assert_eq!(scores.state().orders, 0);
        assert!(Duel::new(Arc::new(super::super::NothingLearned)).is_none());
    }
}
