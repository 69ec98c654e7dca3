//! A function that remembers its answers.

use std::hash::{BuildHasher, Hash};

use super::{Cache, OwnKey};

/// A function that asks `function` for what the cache does not hold. Of all threads that ask for one answer at once one
/// computes it.
///
/// A function that asks itself for the answer that it computes is called without the cache, and so recurses as it would
/// without one.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use forebay_cache::{Cache, memoize};
///
/// let calls = AtomicU32::new(0);
/// let square = memoize(Cache::new(1000), |n: &u64| {
///     calls.fetch_add(1, Ordering::Relaxed);
///     n * n
/// });
/// assert_eq!((square(12), square(12), square(3)), (144, 144, 9));
/// assert_eq!(calls.load(Ordering::Relaxed), 2);
/// ```
///
/// One that calls itself has its cache in a static:
///
/// ```
/// use std::sync::LazyLock;
/// use forebay_cache::{Cache, memoize};
///
/// static PATHS: LazyLock<Box<dyn Fn((u32, u32)) -> u64 + Send + Sync>> =
///     LazyLock::new(|| Box::new(memoize(Cache::new(10_000), |&(x, y): &(u32, u32)| paths(x, y))));
/// fn paths(x: u32, y: u32) -> u64 {
///     if x == 0 || y == 0 { 1 } else { PATHS((x - 1, y)) + PATHS((x, y - 1)) }
/// }
/// assert_eq!(paths(16, 16), 601_080_390);
/// ```
pub fn memoize<K, V, S>(cache: Cache<K, V, S>, function: impl Fn(&K) -> V) -> impl Fn(K) -> V
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    move |key| {
        let answer = cache.get_with(key.clone(), || function(&key));
        answer.unwrap_or_else(|OwnKey| function(&key))
    }
}
