//! Each cache under threads that get and insert: no pair lost, doubled or of another key, and the bound kept.

use forebay_thesis::{Binned, Cache, DeferredLru, FineLru, Hhvm, LruMutex, Thresholds};

const THREADS: usize = 6;

fn value(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1
}

/// Keys of which few are asked for often. What is above the capacity at the end is at most `above`.
fn stress(name: &str, cache: &dyn Cache, capacity: usize, above: usize) {
    let keys = (capacity as u64 * 4).max(8);
    let inserted: u64 = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let mut random = fastrand::Rng::with_seed(thread as u64);
            let mut inserted = 0;
            for _ in 0..4_000 {
                let key = random.u64(..keys).min(random.u64(..keys));
                match cache.get(key) {
                    Some(found) => assert_eq!(found, value(key), "{name}: another key's value"),
                    None => inserted += u64::from(cache.insert(key, value(key))),
                }
                // Of a key that is there: refused, and nothing is doubled.
                if random.u32(..16) == 0 {
                    inserted += u64::from(cache.insert(key, value(key)));
                }
            }
            inserted
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let pairs = cache.check().unwrap_or_else(|broken| panic!("{name}, {capacity}: {broken}"));
    assert!(pairs.len() <= capacity + above, "{name}: {} pairs of {capacity}", pairs.len());
    assert!(pairs.iter().all(|&(key, found)| found == value(key)), "{name}");
    assert!(inserted >= pairs.len() as u64 && (capacity == 0) == (inserted == 0), "{name}: {inserted} inserted");
    for (key, _) in pairs {
        assert_eq!(cache.get(key), Some(value(key)), "{name}: what is there is found");
    }
}

const CAPACITIES: [usize; 6] = [0, 1, 2, 7, 100, 1000];

#[test]
fn lru_with_a_lock() {
    for capacity in CAPACITIES {
        stress("lru", &LruMutex::new(capacity), capacity, 0);
        stress("binned lru", &Binned::new(capacity, LruMutex::new), capacity, 0);
    }
}

#[test]
fn fine_grained_lru() {
    for capacity in CAPACITIES {
        stress("fine-grained lru", &FineLru::new(capacity), capacity, 0);
        stress("binned fine-grained lru", &Binned::new(capacity, FineLru::new), capacity, 0);
    }
}

#[test]
fn hhvm() {
    for capacity in CAPACITIES {
        stress("hhvm", &Hhvm::new(capacity), capacity, THREADS);
        stress("binned hhvm", &Binned::new(capacity, Hhvm::new), capacity, THREADS * capacity.min(64));
    }
}

#[test]
fn deferred_lru() {
    for (pull, purge) in [(0.001, 0.1), (0.1, 0.7), (0.99, 0.99), (0.9, 0.001), (1.0, 1.0), (0.0, 0.0)] {
        let thresholds = Thresholds { pull, purge };
        for capacity in CAPACITIES {
            let new = |capacity| DeferredLru::new(capacity, thresholds);
            stress("deferred lru", &new(capacity), capacity, 0);
            stress("binned deferred lru", &Binned::new(capacity, new), capacity, 0);
        }
    }
}
