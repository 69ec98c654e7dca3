//! A function that remembers its answers: by a call, or by an attribute.

use std::hash::{BuildHasher, Hash};

use super::{Cache, OwnKey};

/// Has a function remember its answers: it is called for what its cache does not hold. Of all threads that ask for one
/// answer at once one computes it.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use forebay_cache::memoize;
///
/// static CALLS: AtomicU32 = AtomicU32::new(0);
///
/// #[memoize(capacity = 1000)]
/// fn distance(from: &str, to: &str) -> usize {
///     CALLS.fetch_add(1, Ordering::Relaxed);
///     from.len().abs_diff(to.len())
/// }
///
/// assert_eq!((distance("Brno", "Praha"), distance("Brno", "Praha")), (1, 1));
/// assert_eq!(CALLS.load(Ordering::Relaxed), 1);
/// ```
///
/// | setting | what it says |
/// |---|---|
/// | `capacity = 1000` | answers that are kept, at most; it must stand there |
/// | `time_to_live = Duration::from_secs(60)` | an answer is computed again after that |
/// | `time_to_idle = Duration::from_secs(60)` | an answer that is not asked for goes after that |
/// | `policy = "lru"` | by what an answer goes, as `Builder::policy` takes it; the compiler does not check it |
///
/// Values of settings are expressions. The key is a tuple of all arguments. An argument is `Clone`, `Hash` and `Eq`;
/// one that is a reference `&T` is kept as what `T` is owned as. The answer is `Clone`.
///
/// A function that calls itself with smaller arguments goes through the cache each time:
///
/// ```
/// use std::time::Duration;
/// use forebay_cache::memoize;
///
/// /// Ways through a grid.
/// #[memoize(capacity = 10_000, time_to_live = Duration::from_secs(3600), policy = "lru")]
/// pub fn paths(x: u32, y: u32) -> u64 {
///     if x == 0 || y == 0 { 1 } else { paths(x - 1, y) + paths(x, y - 1) }
/// }
/// assert_eq!(paths(16, 16), 601_080_390);
/// ```
///
/// What can't be remembered is refused when it is compiled, with what to do instead. So is a method:
///
/// ```compile_fail
/// struct Shop;
/// impl Shop {
///     #[forebay_cache::memoize(capacity = 10)]
///     fn price(&self, of: u32) -> u32 { of }
/// }
/// ```
///
/// A function whose answer is a reference, or that is generic or `async`:
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10)]
/// fn first(text: &str) -> &str { text }
/// ```
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10)]
/// fn same<T>(one: T) -> T { one }
/// ```
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10)]
/// async fn later(one: u32) -> u32 { one }
/// ```
///
/// An argument that is changed, or has no name:
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10)]
/// fn add(to: &mut u32) -> u32 { *to }
/// ```
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10)]
/// fn sum((a, b): (u32, u32)) -> u32 { a + b }
/// ```
///
/// A capacity that is missing, and a setting that there is not:
///
/// ```compile_fail
/// #[forebay_cache::memoize]
/// fn one() -> u32 { 1 }
/// ```
///
/// ```compile_fail
/// #[forebay_cache::memoize(capacity = 10, size = 3)]
/// fn one() -> u32 { 1 }
/// ```
#[cfg(feature = "memoize")]
pub use forebay_memoize::memoize;

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
/// With the feature `memoize` an attribute does that to a function: `#[memoize(capacity = 1000)]`.
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
