//! A value that is not there is loaded once, however many ask for it.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::sync::Arc;

use crate::engine::{Cause, Rule, Under};

use super::Cache;
use super::flight::{Circle, Join, Leader, Outcome, Waiting};

/// Times that a key is looked for before it is loaded. It may be there and gone again at each, or its comparison may
/// answer what it likes.
const LOOKS_MAX: usize = 8;

/// A loader asked for the key that it loads, or for one whose loader asks for this one in turn: it would wait for
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnKey;

impl Display for OwnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a loader asks the cache for the key that it loads; have it compute the value without the cache")
    }
}

impl std::error::Error for OwnKey {}

/// Why there is no value.
#[derive(Debug)]
pub enum LoadError<E> {
    /// The loader's error; who waited for that load is given the same.
    Failed(Arc<E>),
    /// See [`OwnKey`].
    OwnKey,
}

impl<E: Display> Display for LoadError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Failed(error) => Display::fmt(error, f),
            LoadError::OwnKey => Display::fmt(&OwnKey, f),
        }
    }
}

impl<E: Debug + Display> std::error::Error for LoadError<E> {}

impl<E> Clone for LoadError<E> {
    fn clone(&self) -> Self {
        match self {
            LoadError::Failed(error) => LoadError::Failed(error.clone()),
            LoadError::OwnKey => LoadError::OwnKey,
        }
    }
}

/// What a caller makes of an outcome; `None`: it is none that its loader could have had.
type Take<V, R> = fn(Outcome<V>) -> Option<R>;

fn value<V>(outcome: Outcome<V>) -> Option<V> {
    if let Outcome::Value(value) = outcome { Some(value) } else { None }
}

fn optional<V>(outcome: Outcome<V>) -> Option<Option<V>> {
    match outcome {
        Outcome::Value(value) => Some(Some(value)),
        Outcome::Nothing => Some(None),
        Outcome::Failed(_) => None,
    }
}

fn result<V, E: Any + Send + Sync>(outcome: Outcome<V>) -> Option<Result<V, LoadError<E>>> {
    match outcome {
        Outcome::Value(value) => Some(Ok(value)),
        Outcome::Nothing => None,
        Outcome::Failed(error) => Some(Err(LoadError::Failed(error.downcast().ok()?))),
    }
}

fn of_result<V, E: Any + Send + Sync>(result: Result<V, E>) -> Outcome<V> {
    result.map_or_else(|error| Outcome::Failed(Arc::new(error)), Outcome::Value)
}

fn of_option<V>(option: Option<V>) -> Outcome<V> {
    option.map_or(Outcome::Nothing, Outcome::Value)
}

/// How a caller goes on.
enum Next<'f, K, V> {
    /// With the value that is there and is to be loaded again.
    Lead(Leader<'f, K, V>, Option<V>),
    Wait(Arc<super::flight::Flight<K, V>>),
    Done(V),
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// The value of a key; if there is none, what `load` answers. Of all threads and tasks that ask for one key at once
    /// one loads, and the others wait for it. If it panics, the next one loads.
    ///
    /// `load` runs without a lock. If the key is inserted or removed meanwhile, then what was loaded is the answer, and
    /// is not stored. A loader that asks for its own key is told so:
    ///
    /// ```
    /// use forebay_cache::{Cache, OwnKey};
    ///
    /// let cache: Cache<u32, u64> = Cache::new(100);
    /// fn factorial(cache: &Cache<u32, u64>, n: u32) -> Result<u64, OwnKey> {
    ///     cache.get_with(n, || if n == 0 { 1 } else { u64::from(n) * factorial(cache, n - 1).unwrap_or(0) })
    /// }
    /// assert_eq!(factorial(&cache, 5), Ok(120));
    /// assert_eq!(cache.get(&4), Some(24));
    /// let mut inside = None;
    /// cache.get_with(7, || { inside = Some(cache.get_with(7, || 0)); 1 })?;
    /// assert_eq!(inside, Some(Err(OwnKey)));
    /// # Ok::<(), OwnKey>(())
    /// ```
    pub fn get_with(&self, key: K, load: impl FnOnce() -> V) -> Result<V, OwnKey> {
        self.load(key, || Outcome::Value(load()), value).map_err(|Circle| OwnKey)
    }

    /// The same with a loader that may fail. An error is not stored; all who waited for the load are given it. If the
    /// value was to be loaded again ([`Lifetime::refresh_after`](crate::Lifetime::refresh_after)), then the old one is
    /// the answer.
    ///
    /// ```
    /// use forebay_cache::{Cache, LoadError};
    ///
    /// let cache = Cache::new(100);
    /// let parse = |text: &str| cache.try_get_with(text.to_string(), || text.parse::<u32>());
    /// assert_eq!(parse("12").ok(), Some(12));
    /// assert!(matches!(parse("x"), Err(LoadError::Failed(_))) && !cache.contains("x"));
    /// ```
    pub fn try_get_with<E: Any + Send + Sync>(
        &self,
        key: K,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, LoadError<E>> {
        self.load(key, || of_result(load()), result).unwrap_or(Err(LoadError::OwnKey))
    }

    /// The same with a loader that may find nothing, which is not stored. If it finds nothing where the value was to be
    /// loaded again, then that is removed.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(100);
    /// assert_eq!(cache.optionally_get_with("a", || None), Ok(None));
    /// assert_eq!(cache.optionally_get_with("a", || Some(1)), Ok(Some(1)));
    /// assert_eq!(cache.get("a"), Some(1));
    /// ```
    pub fn optionally_get_with(&self, key: K, load: impl FnOnce() -> Option<V>) -> Result<Option<V>, OwnKey> {
        self.load(key, || of_option(load()), optional).map_err(|Circle| OwnKey)
    }

    /// [`Cache::get_with`] for tasks. `load` is polled by the task that loads, and needs no runtime. If the task drops
    /// what is answered here, then the next that waits loads.
    ///
    /// ```
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) { return value; }
    /// #     }
    /// # }
    /// use forebay_cache::Cache;
    ///
    /// let cache = Cache::new(100);
    /// assert_eq!(block_on(cache.get_with_async("key", async { 1 })), Ok(1));
    /// assert_eq!(block_on(cache.get_with_async("key", async { 2 })), Ok(1));
    /// ```
    pub async fn get_with_async(&self, key: K, load: impl Future<Output = V>) -> Result<V, OwnKey> {
        self.load_async(key, async { Outcome::Value(load.await) }, value).await.map_err(|Circle| OwnKey)
    }

    /// [`Cache::try_get_with`] for tasks.
    ///
    /// ```
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) { return value; }
    /// #     }
    /// # }
    /// use forebay_cache::Cache;
    ///
    /// let cache: Cache<&str, u32> = Cache::new(100);
    /// let failed = block_on(cache.try_get_with_async("key", async { Err("no network") }));
    /// assert_eq!(failed.map_err(|error| error.to_string()), Err("no network".to_string()));
    /// ```
    pub async fn try_get_with_async<E: Any + Send + Sync>(
        &self,
        key: K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, LoadError<E>> {
        self.load_async(key, async { of_result(load.await) }, result).await.unwrap_or(Err(LoadError::OwnKey))
    }

    /// [`Cache::optionally_get_with`] for tasks.
    ///
    /// ```
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) { return value; }
    /// #     }
    /// # }
    /// let cache: forebay_cache::Cache<&str, u32> = forebay_cache::Cache::new(100);
    /// assert_eq!(block_on(cache.optionally_get_with_async("key", async { None })), Ok(None));
    /// ```
    pub async fn optionally_get_with_async(
        &self,
        key: K,
        load: impl Future<Output = Option<V>>,
    ) -> Result<Option<V>, OwnKey> {
        self.load_async(key, async { of_option(load.await) }, optional).await.map_err(|Circle| OwnKey)
    }

    fn load<R>(&self, key: K, load: impl FnOnce() -> Outcome<V>, take: Take<V, R>) -> Result<R, Circle> {
        loop {
            match self.next(&key) {
                Next::Done(value) => return take(Outcome::Value(value)).ok_or(Circle),
                Next::Wait(flight) => {
                    if let Some(answer) = flight.wait()?.and_then(take) {
                        return Ok(answer);
                    }
                }
                Next::Lead(leader, old) => {
                    let from = self.counters.is_some().then(|| self.time.now());
                    let inside = leader.enter();
                    let loaded = load();
                    drop(inside);
                    return self.landed(leader, key, (old, loaded), from, take);
                }
            }
        }
    }

    async fn load_async<R>(
        &self,
        key: K,
        load: impl Future<Output = Outcome<V>>,
        take: Take<V, R>,
    ) -> Result<R, Circle> {
        let mut load = pin!(load);
        loop {
            match self.next(&key) {
                Next::Done(value) => return take(Outcome::Value(value)).ok_or(Circle),
                Next::Wait(flight) => {
                    if let Some(answer) = Waiting::new(flight).await?.and_then(take) {
                        return Ok(answer);
                    }
                }
                Next::Lead(leader, old) => {
                    let from = self.counters.is_some().then(|| self.time.now());
                    let loaded = std::future::poll_fn(|context| {
                        let _inside = leader.enter();
                        load.as_mut().poll(context)
                    });
                    let loaded = loaded.await;
                    return self.landed(leader, key, (old, loaded), from, take);
                }
            }
        }
    }

    fn next(&self, key: &K) -> Next<'_, K, V> {
        let hash = self.hash(key);
        if let Some((value, is_old)) = self.get_with_age(hash, key) {
            if !is_old {
                return Next::Done(value);
            }
            return match self.flights.join(hash, key.clone(), |_| false) {
                Join::Lead(leader) => Next::Lead(leader, Some(value)),
                Join::Wait(_) | Join::There => Next::Done(value),
            };
        }
        let mut looks = 0;
        loop {
            looks += 1;
            // The key is copied without the list's lock: a copy is a program's code.
            let is_there = |key: &K| looks < LOOKS_MAX && self.contains(key);
            match self.flights.join(hash, key.clone(), is_there) {
                Join::Lead(leader) => return Next::Lead(leader, None),
                Join::Wait(flight) => return Next::Wait(flight),
                Join::There => {
                    if let Some(value) = self.peek(key) {
                        return Next::Done(value);
                    }
                }
            }
        }
    }

    /// The value of a key as a hit, and whether it is to be loaded again.
    fn get_with_age(&self, hash: u64, key: &K) -> Option<(V, bool)> {
        let guard = self.entries.pin();
        let entry = self.find(hash, key, &guard)?;
        let is_old = entry.about.as_ref().is_some_and(|about| about.times.is_old(self.time.now()));
        Some((entry.value.clone(), is_old))
    }

    /// Stores what was loaded, unless it is outdated, and hands it to all who wait.
    fn landed<R>(
        &self,
        leader: Leader<'_, K, V>,
        key: K,
        (old, loaded): (Option<V>, Outcome<V>),
        from: Option<u64>,
        take: Take<V, R>,
    ) -> Result<R, Circle> {
        if let (Some(counters), Some(from)) = (&self.counters, from) {
            let failed = matches!(loaded, Outcome::Failed(_));
            counters.loaded(self.entries.pin().place(), self.time.now().saturating_sub(from), failed);
        }
        let mut due = Vec::new();
        let hash = self.hash(&key);
        let is_refresh = old.is_some();
        match &loaded {
            Outcome::Value(value) => {
                let newcomer = self.newcomer(key, value.clone(), None, &[]);
                let rule = if is_refresh { Rule::Always } else { Rule::IfAbsent };
                let ready = self.entries.may_defer();
                let guard = self.entries.pin();
                leader.land(|| _ = self.put((&guard, ready), hash, newcomer, rule, &mut due).ok());
            }
            Outcome::Nothing if is_refresh => {
                let guard = self.entries.pin();
                let under = Under { guard: &guard, now: self.now(), ready: true };
                let is = |entry: &super::Entry<K, V>| entry.key == key;
                let why = (hash, Cause::Removed);
                leader.land(|| _ = self.entries.remove_under(under, why, is, None, &mut due));
            }
            Outcome::Nothing => leader.land(|| ()),
            Outcome::Failed(_) => {
                let guard = self.entries.pin();
                let now = self.time.now();
                let found = self.entries.look(hash, &guard, |entry| entry.key == key);
                let about = found.and_then(|found| found.item.about.as_ref());
                about.into_iter().for_each(|about| about.times.postpone(now));
                leader.land(|| ());
            }
        }
        leader.tell(&loaded);
        let answer = match (old, loaded) {
            (Some(old), Outcome::Failed(_)) => Outcome::Value(old),
            (_, loaded) => loaded,
        };
        // A loader's own outcome is always one that it can have.
        take(answer).ok_or(Circle)
    }
}
