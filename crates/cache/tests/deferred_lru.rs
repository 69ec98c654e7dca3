//! The hit ratios of DeferredLRU beside LRU's (thesis, section 5.3).

use forebay_cache::policy::bare::{Bare, Served};
use forebay_cache::policy::{Unit, choose};

const KEYS: usize = 100_000;
const REQUESTS: usize = 1_000_000;

/// Keys by chance, the n-th of them asked for with a frequency of 1 / n^0.9.
fn zipf() -> Vec<u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut draw = || {
        let drawn = random.f64() * sum;
        sums.partition_point(|&below| below < drawn) as u64
    };
    (0..REQUESTS).map(|_| draw().wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// In percent, of a cache for a tenth of the keys that begins empty.
fn hit_ratio(policy: &str, requests: &[u64]) -> f64 {
    let choice = choose(policy).expect("in the table");
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, KEYS as u64 / 10));
    let hits = requests.iter().filter(|&&key| cache.request(key, 1) == Served::Hit).count();
    100.0 * hits as f64 / requests.len() as f64
}

#[test]
fn thresholds_near_one_beat_lru_where_popularity_is_steady() {
    let requests = zipf();
    let [lru, exact, early, late, lazy] = [
        "lru",
        "deferred-lru:pull=0,purge=0",
        "deferred-lru:pull=0.001,purge=0.1",
        "deferred-lru:pull=0.99,purge=0.99",
        "deferred-lru-lazy",
    ]
    .map(|policy| hit_ratio(policy, &requests));
    println!("lru {lru:.2}, 0|0 {exact:.2}, .001|.1 {early:.2}, .99|.99 {late:.2}, lazy {lazy:.2}");
    assert!((lru - exact).abs() < 0.01, "without thresholds it is LRU: {lru}, {exact}");
    assert!(early < lru, "a purge leaves the cache emptier: {lru}, {early}");
    assert!(late > lru + 4.0, "what was hit stays until nearly all was: {lru}, {late}");
    assert!(lazy > early, "{lazy}, {early}");
}
