//! How a cache is made.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use crate::engine::{Cause, HeldGuard, HeldListener, Life, Pointers};
use crate::policy::{Choice, PolicyError, Unit, choose};

use super::cache::{Cache, Entry, Lifetimes, Weigher};
use super::counters::Counters;
use super::flight::Flights;
use super::hashing::Hashing;
use super::life::{Clock, Lifetime, Time};
use super::tags::{Tagger, Tags};

/// Is told what left.
type Listener<K, V> = Box<dyn Fn(&K, &V, Cause) + Send + Sync>;

/// What a cache is to be; see [`Cache::builder`].
pub struct Builder<K, V, S = Hashing> {
    capacity: usize,
    pub(super) hasher: S,
    pub(super) hashing: Hashing,
    /// The hasher with the seeds of another one, if it is the built-in one.
    pub(super) rehash: Option<fn(&Hashing) -> S>,
    weigher: Option<Weigher<K, V>>,
    lifetime: Lifetime,
    lifetimes: Option<Box<Lifetimes<K, V>>>,
    listener: Option<Listener<K, V>>,
    guard_listener: Option<HeldListener>,
    clock: Option<Box<dyn Clock>>,
    counts: bool,
    policy: Option<Choice>,
    tagger: Option<Box<Tagger<K, V>>>,
}

impl<K, V> Builder<K, V> {
    pub(super) fn new() -> Builder<K, V> {
        let hashing = Hashing::default();
        Builder {
            capacity: 0,
            hasher: hashing.clone(),
            hashing,
            rehash: Some(Hashing::clone),
            weigher: None,
            lifetime: Lifetime::ENDLESS,
            lifetimes: None,
            listener: None,
            guard_listener: None,
            clock: None,
            counts: false,
            policy: None,
            tagger: None,
        }
    }
}

impl<K, V, S> Builder<K, V, S> {
    /// What the entries weigh together, at most: their number, if there is no weigher. It is 0 if it is not said, and
    /// then nothing is stored.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Says what an entry weighs, which is 1 at least. It is asked once, without a lock, when the entry is stored.
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> usize + Send + Sync + 'static) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// Hashes keys in place of the built-in hasher, which no client can choose colliding keys for.
    ///
    /// ```
    /// use std::hash::RandomState;
    /// use forebay_cache::Cache;
    ///
    /// let cache: Cache<u64, u64, RandomState> = Cache::builder().capacity(10).hasher(RandomState::new()).build();
    /// cache.insert(1, 2);
    /// assert_eq!(cache.get(&1), Some(2));
    /// ```
    pub fn hasher<H: BuildHasher>(self, hasher: H) -> Builder<K, V, H> {
        let Builder {
            capacity,
            hashing,
            weigher,
            lifetime,
            lifetimes,
            listener,
            guard_listener,
            clock,
            counts,
            policy,
            tagger,
            ..
        } = self;
        let rehash = None;
        Builder {
            capacity,
            hasher,
            hashing,
            rehash,
            weigher,
            lifetime,
            lifetimes,
            listener,
            guard_listener,
            clock,
            counts,
            policy,
            tagger,
        }
    }

    /// An entry expires so long after it was stored: [`Lifetime::since_write`].
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.lifetime.since_write = Some(time);
        self
    }

    /// An entry expires so long after it was used: [`Lifetime::since_access`].
    pub fn time_to_idle(mut self, time: Duration) -> Self {
        self.lifetime.since_access = Some(time);
        self
    }

    /// An entry expires so long after its key came in: [`Lifetime::since_creation`]. A listener is told so.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex, atomic::{AtomicU64, Ordering}};
    /// use std::time::Duration;
    /// use forebay_cache::{Cache, Cause};
    ///
    /// let (seconds, left) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    /// let (clock, log) = (seconds.clone(), left.clone());
    /// let cache = Cache::builder()
    ///     .capacity(10)
    ///     .time_from_creation(Duration::from_secs(60))
    ///     .clock(move || Duration::from_secs(clock.load(Ordering::Relaxed)))
    ///     .listener(move |key: &&'static str, value: &i32, cause| log.lock().unwrap().push((*key, *value, cause)))
    ///     .build();
    /// cache.insert("a", 1);
    /// seconds.store(50, Ordering::Relaxed);
    /// cache.insert("a", 2);
    /// seconds.store(61, Ordering::Relaxed);
    /// assert_eq!(cache.get("a"), None, "another value does not prolong it");
    /// cache.run_pending();
    /// assert_eq!(*left.lock().unwrap(), [("a", 1, Cause::Replaced), ("a", 2, Cause::Expired)]);
    /// ```
    pub fn time_from_creation(mut self, time: Duration) -> Self {
        self.lifetime.since_creation = Some(time);
        self
    }

    /// So long after it was stored an entry is loaded again by who asks for it with a loader. Who asks while that one
    /// loads is given the value that is there: [`Lifetime::refresh_after`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use forebay_cache::Cache;
    ///
    /// let cache = Cache::builder().capacity(10).refresh_after(Duration::ZERO).build();
    /// cache.insert("price", 1);
    /// assert_eq!(cache.try_get_with("price", || Err("no network")).ok(), Some(1), "the old one is better than none");
    /// assert_eq!(cache.try_get_with("price", || Ok::<i32, i32>(2)).ok(), Some(2));
    /// assert_eq!(cache.get("price"), Some(2));
    /// ```
    pub fn refresh_after(mut self, time: Duration) -> Self {
        self.lifetime.refresh_after = Some(time);
        self
    }

    /// Says of each entry how long it lives, in place of the times for all. It is asked without a lock when the entry
    /// is stored.
    ///
    /// ```
    /// use std::time::Duration;
    /// use forebay_cache::{Cache, Lifetime};
    ///
    /// // Values say themselves for how many seconds they hold.
    /// let lifetime = |_: &&str, seconds: &u64| Lifetime {
    ///     since_write: Some(Duration::from_secs(*seconds)),
    ///     ..Lifetime::ENDLESS
    /// };
    /// let cache = Cache::builder().capacity(10).lifetimes(lifetime).build();
    /// cache.insert("long", 3600);
    /// cache.insert("none", 0);
    /// assert_eq!((cache.get("long"), cache.get("none")), (Some(3600), None));
    /// ```
    pub fn lifetimes(mut self, of: impl Fn(&K, &V) -> Lifetime + Send + Sync + 'static) -> Self {
        self.lifetimes = Some(Box::new(of));
        self
    }

    /// Is told of each entry that leaves, and why, by the thread whose operation made it leave, without a lock. It may
    /// use the cache. Of two entries that leave at about the same time it is told in any order. What it panics with is
    /// dropped, and the operation goes on. It is not told of what is there when the cache is dropped.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use forebay_cache::{Cache, Cause};
    ///
    /// let left = Arc::new(Mutex::new(Vec::new()));
    /// let log = left.clone();
    /// let listener = move |key: &&'static str, value: &i32, cause| log.lock().unwrap().push((*key, *value, cause));
    /// let cache = Cache::builder().capacity(10).listener(listener).build();
    /// cache.insert("a", 1);
    /// cache.insert("a", 2);
    /// cache.remove("a");
    /// assert_eq!(*left.lock().unwrap(), [("a", 1, Cause::Replaced), ("a", 2, Cause::Removed)]);
    /// ```
    pub fn listener(mut self, listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Is told of a guard that is held so long that nothing more is stored (see [`Cache::guard`]): once for each such
    /// guard, by a thread that waited for it in vain, without a lock. It may use the cache. What it panics with is
    /// dropped. A program writes a warning here: as long as the guard is held, the cache answers and does not change.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use forebay_cache::Cache;
    ///
    /// let warnings = Arc::new(Mutex::new(Vec::new()));
    /// let log = warnings.clone();
    /// let cache = Cache::builder().capacity(80).guard_listener(move |held| log.lock().unwrap().push(held)).build();
    /// (0..80).for_each(|key| _ = cache.insert(key, "old"));
    /// let guarded = cache.guard();
    /// let stored = (0..80).filter(|key| cache.insert(*key, "new")).count();
    /// assert!(stored < 20, "an eighth of the capacity, and what is on its way");
    /// let warnings = warnings.lock().unwrap();
    /// assert_eq!((warnings.len(), warnings[0].deferred_max), (1, 10));
    /// ```
    ///
    /// [`Cache::guard`]: crate::Cache::guard
    pub fn guard_listener(mut self, listener: impl Fn(HeldGuard) + Send + Sync + 'static) -> Self {
        self.guard_listener = Some(Box::new(listener));
        self
    }

    /// Says what time it is in place of the system's clock, which does not go back.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Evicts by a policy of the table [`POLICIES`](crate::policy::POLICIES) in place of the built-in S3-FIFO, whose
    /// hits cost least: `name` or `name:parameter=value,parameter=value`. A policy that hears of hits is told of them
    /// later, but before it decides anything.
    ///
    /// ```
    /// use forebay_cache::Cache;
    ///
    /// let cache = Cache::builder().capacity(2).policy("lru")?.build();
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// assert_eq!(cache.get("a"), Some(1));
    /// cache.insert("c", 3);
    /// assert!(cache.contains("a") && !cache.contains("b"));
    ///
    /// let unknown = Cache::<u64, u64>::builder().policy("newest");
    /// assert!(unknown.is_err_and(|error| error.to_string().contains("choose one of lru")));
    /// # Ok::<(), forebay_cache::policy::PolicyError>(())
    /// ```
    pub fn policy(mut self, text: &str) -> Result<Self, PolicyError> {
        self.policy = Some(choose(text)?);
        Ok(self)
    }

    /// Says which tags an entry has, by which many are invalidated at once ([`Cache::invalidate_tag`]). It is asked
    /// without a lock when the entry is stored, also by a loader.
    ///
    /// ```
    /// use forebay_cache::{Cache, Tags};
    ///
    /// let author = |_: &u32, post: &(&str, &str), tags: &mut Tags| tags.add(post.0);
    /// let cache = Cache::builder().capacity(10).tags(author).build();
    /// cache.insert(1, ("ann", "hello"));
    /// cache.insert(2, ("bob", "hi"));
    /// assert_eq!((cache.invalidate_tag("ann"), cache.contains(&1), cache.contains(&2)), (1, false, true));
    /// ```
    pub fn tags(mut self, of: impl Fn(&K, &V, &mut Tags<'_>) + Send + Sync + 'static) -> Self {
        self.tagger = Some(Box::new(of));
        self
    }

    /// Has the cache count hits, misses and loads: see [`Cache::statistics`].
    pub fn statistics(mut self) -> Self {
        self.counts = true;
        self
    }
}

impl<K: Hash + Eq + 'static, V: 'static, S: BuildHasher> Builder<K, V, S> {
    /// The cache, which is empty.
    pub fn build(self) -> Cache<K, V, S> {
        let tell = |listener: Listener<K, V>| -> crate::engine::Listener<Entry<K, V>> {
            Box::new(move |entry: &Entry<K, V>, cause| listener(&entry.key, &entry.value, cause))
        };
        self.made(tell)
    }
}

impl<K, V, S> Builder<K, V, S> {
    pub(super) fn made(
        self,
        tell: impl FnOnce(Listener<K, V>) -> crate::engine::Listener<Entry<K, V>>,
    ) -> Cache<K, V, S> {
        let life = Life {
            until: Entry::until,
            replaces: |old, new| {
                if let (Some(old), Some(new)) = (&old.about, &new.about) {
                    new.times.replaces(&old.times);
                }
            },
            tags: |entry| entry.about.as_ref().map_or(&[], |about| &about.tags),
        };
        let time = match self.clock {
            Some(clock) => Time::Given { clock, latest: AtomicU64::new(0) },
            None => Time::Since(Instant::now()),
        };
        let lifetime = self.lifetime;
        let unit = if self.weigher.is_some() { Unit::Bytes } else { Unit::Entries };
        let entries = Pointers::new(self.capacity)
            .with_life(life, self.listener.map(tell))
            .with_held_listener(self.guard_listener);
        Cache {
            entries: match &self.policy {
                Some(choice) => entries.with_policy(choice, unit),
                None => entries,
            },
            hasher: self.hasher,
            weigher: self.weigher,
            lifetime,
            lifetimes: self.lifetimes,
            has_times: AtomicBool::new(false),
            is_plain: AtomicBool::new(!self.counts),
            time,
            flights: Flights::new(),
            counters: self.counts.then(|| Box::new(Counters::new())),
            hashing: self.hashing,
            tagger: self.tagger,
            policy: self.policy.map_or(String::new(), |choice| choice.to_string()),
        }
    }
}

impl<K, V, S> std::fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
