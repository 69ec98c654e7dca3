//! What left the cache and is on its way to be dropped. It is kept until there is enough of it to look at all guards.
//! The listener is told before.

use super::super::boxed::{Own, Record};
use super::super::reclaim::Collector;
use super::super::segment::Old;
use super::Pointers;

/// Records that a shard keeps before they are retired together.
const LIMBO_MAX: usize = if cfg!(feature = "loom") { 3 } else { 64 };

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Others needed its room.
    Evicted,
    /// Its time was over.
    Expired,
    /// Its key was given another value, or one that could not be stored.
    Replaced,
    /// A program took it out.
    Removed,
}

impl Cause {
    /// All of them, each at the place of its number.
    pub const ALL: [Cause; 4] = [Cause::Evicted, Cause::Expired, Cause::Replaced, Cause::Removed];
}

/// Is told what left, without a lock.
pub(crate) type Listener<T> = Box<dyn Fn(&T, Cause) + Send + Sync>;

/// What is out of the readers' sight.
pub(super) enum Retired<T> {
    /// With the cause for which it left, if it was in.
    Record(Own<Record<T>>, Option<Cause>),
    #[expect(dead_code, reason = "it is kept to be dropped")]
    Table(Old<Record<T>>),
}

impl<T> From<Old<Record<T>>> for Retired<T> {
    fn from(old: Old<Record<T>>) -> Retired<T> {
        Retired::Table(old)
    }
}

/// What is out of sight and is retired soon.
pub(super) struct Limbo<T> {
    pub contents: Vec<Retired<T>>,
    pub weight: usize,
}

impl<T> Limbo<T> {
    pub const NEW: Limbo<T> = Limbo { contents: Vec::new(), weight: 0 };

    /// `cause`: why it left, if it was in.
    pub fn put(&mut self, record: Option<Own<Record<T>>>, cause: Option<Cause>) {
        debug_assert!(record.is_some(), "a record has an owner");
        self.weight += record.as_ref().map_or(0, |record| record.weight);
        self.contents.extend(record.map(|record| Retired::Record(record, cause)));
    }

    /// What is to be retired, once it is so much. Who listens is told of each at once.
    pub fn due<'c>(&mut self, cache: &'c Pointers<T>) -> Option<Due<'c, T>> {
        let weight_max = (cache.deferred_max() / (4 * cache.shards.len())).max(1);
        let most = if cache.listener.is_some() { 1 } else { LIMBO_MAX };
        let due = self.contents.len() >= most || self.weight >= weight_max;
        due.then(|| self.all(cache))
    }

    /// All there is.
    pub fn all<'c>(&mut self, cache: &'c Pointers<T>) -> Due<'c, T> {
        let limbo = std::mem::replace(self, Limbo::NEW);
        Due { limbo, never_in: None, collector: &cache.collector, listener: cache.listener.as_ref() }
    }
}

/// What is told and retired when it is dropped, which must be without a lock: so it comes to the collector even if a
/// caller's code panics.
pub(crate) struct Due<'c, T> {
    limbo: Limbo<T>,
    /// A newcomer that did not come in: no reader has seen it.
    never_in: Option<Own<Record<T>>>,
    collector: &'c Collector<Retired<T>>,
    listener: Option<&'c Listener<T>>,
}

impl<'c, T> Due<'c, T> {
    /// A newcomer that does not come in.
    pub(super) fn never_in(record: Own<Record<T>>, cache: &'c Pointers<T>) -> Due<'c, T> {
        Due { limbo: Limbo::NEW, never_in: Some(record), collector: &cache.collector, listener: None }
    }
}

impl<T> Drop for Due<'_, T> {
    fn drop(&mut self) {
        if self.never_in.is_some() {
            return self.never_in = None;
        }
        let Limbo { contents, weight } = std::mem::replace(&mut self.limbo, Limbo::NEW);
        if let Some(listener) = self.listener {
            contents.iter().for_each(|retired| tell(listener, retired));
        }
        self.collector.retire(contents, weight);
    }
}

/// A panic of the listener ends there. What it was told of has left, and the operation that sent it is done.
fn tell<T>(listener: &Listener<T>, retired: &Retired<T>) {
    let Retired::Record(record, Some(cause)) = retired else { return };
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(record.item(), *cause)));
    // What it panicked with may panic when it is dropped.
    told.unwrap_or_else(std::mem::forget);
}
