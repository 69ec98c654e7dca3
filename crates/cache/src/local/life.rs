//! How long entries live, and the clock that says so.
//!
//! An entry that may expire keeps its times in a box, with its tags. Another one pays a word for them.
//! A hit of an entry with an idle time moves the end of that time, but not for less than a thousandth of it. So most
//! hits store nothing.
//!
//! * **Time does not go back.** A given clock may; the cache then goes on with the latest time that it has seen.
//! * **No entry outlives a limit.** The end of the idle time never moves beyond the limits that writing and creation
//!   set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::engine::NEVER;

/// One so-manyth of an idle time is not worth a store.
const IDLE_GRAINS: u64 = 1024;

/// How long an entry may live. It expires when the first of the times is over; without any it does not expire.
///
/// ```
/// use std::time::Duration;
/// use forebay_cache::{Cache, Lifetime};
///
/// let cache = Cache::new(10);
/// let short = Lifetime { since_write: Some(Duration::from_millis(1)), ..Lifetime::ENDLESS };
/// cache.insert_with("session", 1, short);
/// cache.insert("setting", 2);
/// std::thread::sleep(Duration::from_millis(2));
/// assert_eq!((cache.get("session"), cache.get("setting")), (None, Some(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// From the moment when the key came in. Another value for the key does not prolong it.
    pub since_creation: Option<Duration>,
    /// From the moment when the value was stored.
    pub since_write: Option<Duration>,
    /// From the moment when the value was last asked for, or stored.
    pub since_access: Option<Duration>,
    /// So long after the value was stored it is loaded again, by the next that asks with a loader
    /// ([`Cache::get_with`](crate::Cache::get_with) and its kind). Others are given the value that is there, without
    /// a wait. It is no limit.
    pub refresh_after: Option<Duration>,
}

impl Lifetime {
    /// As long as there is room.
    pub const ENDLESS: Lifetime =
        Lifetime { since_creation: None, since_write: None, since_access: None, refresh_after: None };
}

/// Says what time it is: the time since some moment, which is always the same one.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use forebay_cache::Cache;
///
/// let seconds = Arc::new(AtomicU64::new(0));
/// let clock = { let seconds = seconds.clone(); move || Duration::from_secs(seconds.load(Ordering::Relaxed)) };
/// let cache = Cache::builder().capacity(10).time_to_live(Duration::from_secs(60)).clock(clock).build();
/// cache.insert(1, "one");
/// seconds.store(59, Ordering::Relaxed);
/// assert_eq!(cache.get(&1), Some("one"));
/// seconds.store(60, Ordering::Relaxed);
/// assert_eq!(cache.get(&1), None);
/// ```
pub trait Clock: Send + Sync {
    /// The time. If it is earlier than one that the cache has seen, the cache goes on with that one.
    fn now(&self) -> Duration;

    /// The time since 1970, by which a snapshot knows how long the program was away.
    fn wall(&self) -> Duration {
        wall()
    }
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// A system whose clock is set to before 1970 was never away.
fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The time of a cache, in nanoseconds.
pub(super) enum Time {
    Since(Instant),
    Given { clock: Box<dyn Clock>, latest: AtomicU64 },
}

impl Time {
    pub fn now(&self) -> u64 {
        match self {
            Time::Since(start) => nanos(start.elapsed()),
            Time::Given { clock, latest } => {
                let now = nanos(clock.now());
                latest.fetch_max(now, Ordering::Relaxed).max(now)
            }
        }
    }

    /// The time since 1970.
    pub fn wall(&self) -> u64 {
        match self {
            Time::Since(_) => nanos(wall()),
            Time::Given { clock, .. } => nanos(clock.wall()),
        }
    }
}

/// A time that never comes is none of them.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER).min(NEVER - 1)
}

/// When `span` after `from` is; what is beyond all time never comes.
fn after(from: u64, span: Option<Duration>) -> u64 {
    span.and_then(|span| from.checked_add(u64::try_from(span.as_nanos()).ok()?)).unwrap_or(NEVER)
}

/// What is kept of an entry that may expire or has tags.
pub(super) struct About {
    pub times: Times,
    pub tags: Box<[u64]>,
}

impl About {
    /// Of an entry that is stored now; `None`: there is nothing to keep.
    pub fn new(lifetime: Lifetime, now: u64, tags: Vec<u64>) -> Option<Box<About>> {
        let is_plain = lifetime == Lifetime::ENDLESS && tags.is_empty();
        (!is_plain).then(|| Box::new(About { times: Times::new(lifetime, now), tags: tags.into() }))
    }
}

/// The times of an entry.
pub(super) struct Times {
    /// When it expires, if it is not used.
    until: AtomicU64,
    /// Beyond it no use helps.
    limit: AtomicU64,
    created: AtomicU64,
    /// So long before the clock began it was created, if that was before.
    before: AtomicU64,
    /// From then on it is to be loaded again.
    refresh: AtomicU64,
    lifetime: Lifetime,
}

impl Times {
    /// Of an entry that is stored now.
    pub fn new(lifetime: Lifetime, now: u64) -> Times {
        let limit = after(now, lifetime.since_creation).min(after(now, lifetime.since_write));
        let until = limit.min(after(now, lifetime.since_access));
        let refresh = after(now, lifetime.refresh_after);
        let [until, limit, created, before, refresh] = [until, limit, now, 0, refresh].map(AtomicU64::new);
        Times { until, limit, created, before, refresh, lifetime }
    }

    /// What is left of them.
    pub fn left(&self, now: u64) -> Left {
        let load = |time: &AtomicU64| time.load(Ordering::Relaxed);
        let ahead = |time: &AtomicU64| if load(time) == NEVER { NEVER } else { load(time).saturating_sub(now) };
        let age = now.saturating_sub(load(&self.created)).saturating_add(load(&self.before));
        let Times { until, limit, refresh, lifetime, .. } = self;
        Left { lifetime: *lifetime, until: ahead(until), limit: ahead(limit), refresh: ahead(refresh), age }
    }

    /// The times of an entry of which this was left so long ago.
    pub fn resumed(left: &Left, now: u64, away: u64) -> Times {
        let at = |ahead: u64| if ahead == NEVER { NEVER } else { now.saturating_add(ahead.saturating_sub(away)) };
        let age = left.age.saturating_add(away);
        let (created, before) = (now.saturating_sub(age), age.saturating_sub(now));
        let [until, limit, created, before, refresh] =
            [at(left.until), at(left.limit), created, before, at(left.refresh)].map(AtomicU64::new);
        Times { until, limit, created, before, refresh, lifetime: left.lifetime }
    }

    pub fn until(&self) -> u64 {
        self.until.load(Ordering::Relaxed)
    }

    /// A use; whether the entry has not expired.
    pub fn touch(&self, now: u64) -> bool {
        let until = self.until();
        if until <= now {
            return false;
        }
        if self.lifetime.since_access.is_some() {
            let later = after(now, self.lifetime.since_access).min(self.limit.load(Ordering::Relaxed));
            let idle = later.saturating_sub(now);
            // The second part is for the last stretch before a limit.
            if later > until && (later - until > idle / IDLE_GRAINS || later == self.limit.load(Ordering::Relaxed)) {
                self.until.store(later, Ordering::Relaxed);
            }
        }
        true
    }

    /// Whether it is to be loaded again.
    pub fn is_old(&self, now: u64) -> bool {
        self.refresh.load(Ordering::Relaxed) <= now
    }

    /// It could not be loaded: the next one tries when as much time is over again.
    pub fn postpone(&self, now: u64) {
        self.refresh.store(after(now, self.lifetime.refresh_after), Ordering::Relaxed);
    }

    /// The entry takes the place of one of its key, which is not in sight yet: it was created when that one was.
    pub fn replaces(&self, old: &Times) {
        if old.lifetime == Lifetime::ENDLESS {
            return;
        }
        let (created, before) = (old.created.load(Ordering::Relaxed), old.before.load(Ordering::Relaxed));
        let span = self.lifetime.since_creation.map(|span| span.saturating_sub(Duration::from_nanos(before)));
        let limit = after(created, span).min(self.limit.load(Ordering::Relaxed));
        self.created.store(created, Ordering::Relaxed);
        self.before.store(before, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        self.until.store(self.until().min(limit), Ordering::Relaxed);
    }
}

/// What is left of an entry's times, in nanoseconds: [`NEVER`] where there is no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub lifetime: Lifetime,
    pub until: u64,
    pub limit: u64,
    pub refresh: u64,
    /// Since it was created.
    pub age: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_all_sizes() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(after(5, Some(Duration::ZERO)), 5);
        assert_eq!(after(5, second), 1_000_000_005);
        assert_eq!((after(5, Some(Duration::MAX)), after(NEVER - 1, second), after(5, None)), (NEVER, NEVER, NEVER));
        assert_eq!(nanos(Duration::MAX), NEVER - 1);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let times = std::sync::Mutex::new(vec![7, 9, 3]);
        let clock = move || Duration::from_nanos(times.lock().map_or(0, |mut times| times.pop().unwrap_or_default()));
        let time = Time::Given { clock: Box::new(clock), latest: AtomicU64::new(0) };
        assert_eq!([time.now(), time.now(), time.now(), time.now()], [3, 9, 9, 9]);
    }

    #[test]
    fn creation_is_a_limit_for_all_values_and_uses() {
        let span = |nanos| Some(Duration::from_nanos(nanos));
        let lifetime =
            Lifetime { since_creation: span(100), since_write: span(70), since_access: span(40), refresh_after: None };
        let times = |now| Times::new(lifetime, now);
        let old = times(0);
        assert!(old.touch(39) && old.until() == 70, "a use helps up to the limit");
        assert!(!old.touch(70));
        let new = times(60);
        new.replaces(&old);
        assert_eq!(new.until(), 100);
        let third = times(90);
        third.replaces(&new);
        assert!(third.touch(95) && third.until() == 100 && !third.touch(100));
    }
}
