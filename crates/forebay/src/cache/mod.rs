//! What is kept in memory: the last committed value of some keys, or the knowledge that a key is absent.
//!
//! **The invariant.** What the cache says of a key is what the store says of it. Or the key is *held*, or locked, by
//! a commit on its way, and the cache still says what was published last. (DeToX, section 7.1, with locks handed on
//! early.) Three mechanisms keep it:
//!
//! * *Fences* (`fence.rs`): a value read from the store enters only through a [`Fill`] that was begun before the read.
//!   A hold, an invalidation or a removal ends every fill begun before it, and while a key is held no fill begins. So
//!   no late fill installs an old value. A fill is also the key's *single flight*: who finds one open follows it.
//! * *Publication* ([`Cache::publish`]): a group of commits becomes visible as a whole. If it has more than one key,
//!   all are marked, then installed, then unmarked.
//! * *The second look* ([`Cache::look`], [`Cache::unchanged`]): a reader without locks takes each key's value and
//!   word and then looks at all the words again. Record and mark are one word, so one comparison tells.
//!   The proof is in `docs/guarantees.md`.
//!
//! Readers look into the table of `forebay-cache`, whose writers are the cache's partitions. A partition has the keys
//! of some hashes, its own lock and its own policy order. All share one byte budget. The cache never calls a store.

mod budget;
mod changes;
mod fence;
mod guard;
mod hits;
mod lent;
mod likeness;
mod options;
mod outside;
mod partition;
mod publishing;
mod reading;
mod show;
mod standing;
mod stats;
#[cfg(test)]
mod tests;
mod transactions;
mod watch;

use std::sync::Arc;

pub use budget::{ENTRY_OVERHEAD_BYTES, charge};
pub use changes::Changed;
pub use fence::{Begin, Fill, Follow};
pub use guard::GivenUp;
pub use lent::{LENT_UNNOTICED_BYTES, Lent};
pub use likeness::document_charged;
pub use options::{CacheOptions, Context};
pub use reading::{Look, Reading, Word};
pub use standing::{Line, Resumed, Standing};
pub use stats::CacheStats;
pub use watch::{Accessed, Sample, Watcher};

// What an access was is said to the cache as it is to the policy.
pub use crate::policy::AccessKind;

use crate::hint::{HintMeaning, HintSet};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::policy::{Access, Learned, Policy, Settings, Slot, Unit};
use crate::read::Read;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::version::Version;
use changes::Changes;
use forebay_cache::Readers;
use guard::{Beside, Guard, Guarded};
use hits::{Hits, Turns};
use partition::Partition;
use transactions::{Following, Told};

/// One so-manyth of the budget may be out of sight and not dropped, since readers may see it, before nothing new is
/// let in; at least [`DEFERRED_BYTES_MIN`].
const DEFERRED_SHARE: usize = 8;

/// See [`DEFERRED_SHARE`].
const DEFERRED_BYTES_MIN: usize = 1 << 20;

/// Keys that one look without locks may take together; a larger read takes locks.
pub const LOOK_KEYS_MAX: usize = 1024;

/// The cache; cheap to clone.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Box<[Guarded]>,
    beside: Beside,
    budget_bytes: usize,
    used_bytes: Alone<AtomicUsize>,
    lent_bytes: Alone<AtomicUsize>,
    policy: &'static Policy,
    learned: Arc<dyn Learned>,
    /// What is charged for it.
    learned_bytes: AtomicUsize,
    /// What each partition's order is made with.
    settings: Settings,
    next_fill: Alone<AtomicU64>,
    following: Following,
    /// There, if the policy hears of hits, and later than they are.
    turns: Option<Turns>,
    changes: Changes,
    /// Hits and misses when the counted figures were set back.
    counted_before: Mutex<(u64, u64)>,
}

/// Alone on its lines of memory: what is written for each miss is nothing that hits read.
#[repr(align(128))]
struct Alone<T>(T);

impl<T> std::ops::Deref for Alone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// How a value comes in.
struct Entering<'a> {
    context: &'a Context,
    kind: AccessKind,
    /// It is part of a publication that is not over.
    marked: bool,
}

impl Cache {
    /// An empty cache.
    pub fn new(options: &CacheOptions) -> Cache {
        let partitions = options.partitions.max(1);
        let values = match options.policy_values.as_slice() {
            [] => options.policy.parameters.iter().map(|parameter| parameter.default).collect(),
            values => values.to_vec(),
        };
        let capacity = (options.budget_bytes / partitions) as u64;
        let settings = Settings { unit: Unit::Bytes, capacity, values };
        let learned = (options.policy.learned)(&settings);
        let (readers, writers) = Readers::new(partitions);
        let wait = hits::wait(options.policy, &*learned);
        let partition = |entries| {
            let order = (options.policy.order)(&settings, learned.clone());
            Guarded::new(Partition::new(entries, options.policy, order), wait.then(|| Hits::of(options.policy)))
        };
        let deferred_max = (options.budget_bytes / DEFERRED_SHARE).max(DEFERRED_BYTES_MIN);
        let cache = Cache {
            inner: Arc::new(Inner {
                partitions: writers.into_iter().map(partition).collect(),
                beside: Beside::new(readers, deferred_max),
                budget_bytes: options.budget_bytes,
                used_bytes: Alone(AtomicUsize::new(0)),
                lent_bytes: Alone(AtomicUsize::new(0)),
                policy: options.policy,
                learned,
                learned_bytes: AtomicUsize::new(0),
                settings,
                next_fill: Alone(AtomicU64::new(0)),
                following: Following::default(),
                turns: wait.then(Turns::new),
                changes: Changes::default(),
                counted_before: Mutex::new((0, 0)),
            }),
        };
        cache.charge_learned();
        cache.follow_policy();
        cache
    }

    /// Has very large documents that the cache gives up dropped by `drops`, which must not do that on a thread that
    /// others wait for. The first that is named stays.
    pub fn drop_large_with(&self, drops: impl Fn(GivenUp) + Send + Sync + 'static) {
        self.inner.beside.drop_large_with(Box::new(drops));
    }

    /// The policy that decides.
    pub fn policy(&self) -> &'static Policy {
        self.inner.policy
    }

    /// Begins to fill `key`, or joins the fill that has begun. To be called *before* the store is read.
    pub fn begin_fill(&self, key: &Key) -> Begin {
        let id = self.inner.next_fill.fetch_add(1, Ordering::Relaxed);
        self.inner.partition(key.borrow()).begin_fill(key, id, self)
    }

    /// Commits to `keys` are on their way: their open fills end and none begins until they are published or released.
    pub fn hold<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            self.inner.partition(key.borrow()).hold(key);
        }
    }

    /// Undoes one [`Cache::hold`] of each key without publishing anything: its commit was not applied.
    pub fn release<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            self.inner.partition(key.borrow()).release(key);
        }
    }

    /// Someone else wrote `key`: drops what is older than `version` and ends the fills begun before.
    pub fn invalidate(&self, key: &Key, version: Version) {
        let freed = self.inner.partition(key.borrow()).invalidate(key, version);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.changed(Changed::Key(key, 0));
    }

    /// Drops `key` and ends the fills begun before.
    pub fn remove(&self, key: &Key) {
        let mut partition = self.inner.partition(key.borrow());
        partition.tell_gone(key.borrow(), None);
        let freed = partition.remove(key);
        drop(partition);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.changed(Changed::Key(key, 0));
    }

    /// Likewise for a key that was written, where what came of it is not known or not wanted.
    fn remove_written(&self, key: &Key, context: &Context) {
        let mut partition = self.inner.partition(key.borrow());
        partition.tell_gone(key.borrow(), Some(context));
        let freed = partition.remove(key);
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    /// Ends all fills: what they read may be out of date. What is cached stays.
    pub fn end_fills(&self) {
        self.inner.all().for_each(|mut partition| partition.end_fills(&|_| true));
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.inner.partitions.len()
    }

    /// The keys that are cached in one partition; `None` beyond the last.
    pub fn keys_of(&self, partition: usize) -> Option<Vec<Key>> {
        Some(self.inner.partitions.get(partition)?.lock(&self.inner.beside).keys())
    }

    /// Drops the entries of all keys for which `of` is true, and ends their fills. A partition changes as a whole.
    pub fn clear(&self, of: impl Fn(KeyRef<'_>) -> bool) {
        for mut partition in self.inner.all() {
            let freed = partition.clear(&of);
            self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        }
        self.tell_cleared(false);
        self.changed(Changed::Everything);
    }

    /// Drops all entries, ends all fills and has the policy begin again: no ghost, frequency or statistic of what went
    /// before decides about what comes. The counted figures go on.
    pub fn reset(&self) {
        // With all of them at a stand, so that nothing of before is taught any more, and the new orders begin as those
        // of a new cache. No holder of one waits for another.
        let mut partitions: Vec<_> = self.inner.all().collect();
        // An order that loses its entries teaches what became of them: all of that is forgotten, so it comes first.
        let freed: usize = partitions.iter_mut().map(|partition| partition.clear(&|_| true)).sum();
        self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.inner.learned.forget();
        for partition in &mut partitions {
            let order = (self.inner.policy.order)(&self.inner.settings, self.inner.learned.clone());
            self.inner.used_bytes.fetch_sub(partition.begin_anew(order), Ordering::Relaxed);
        }
        drop(partitions);
        self.charge_learned();
        self.tell_cleared(true);
        self.changed(Changed::Everything);
    }

    /// Tells the policy what a hint set stands for; to be called before the first access that has it.
    pub fn define_hints(&self, set: HintSet, meaning: &HintMeaning) {
        self.inner.learned.define_hints(set, meaning);
        self.charge_learned();
        self.tell_hints(set, meaning);
    }

    /// Charges what is learned over all partitions; whether that has changed.
    fn charge_learned(&self) -> bool {
        let now = self.inner.learned.bytes();
        if now == self.inner.learned_bytes.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.inner.learned_bytes.swap(now, Ordering::Relaxed);
        self.inner.used_bytes.fetch_add(now, Ordering::Relaxed);
        self.inner.used_bytes.fetch_sub(before, Ordering::Relaxed);
        true
    }

    /// Keeps `key`, if it is cached, from being evicted until [`Cache::unpin`]; whether it is cached.
    pub fn pin(&self, key: KeyRef<'_>) -> bool {
        self.inner.partition(key).pin(key)
    }

    /// Undoes one [`Cache::pin`].
    pub fn unpin(&self, key: KeyRef<'_>) {
        self.inner.partition(key).unpin(key);
    }

    /// Panics if the structure contradicts itself; for tests and fuzzing.
    pub fn validate(&self) {
        let used: usize = self.inner.all().map(|partition| partition.validate()).sum();
        let used = used + self.inner.learned_bytes.load(Ordering::Relaxed);
        assert_eq!(used, self.inner.used_bytes.load(Ordering::Relaxed), "bytes charged");
        // A policy whose own metadata passes the budget leaves no room for any entry.
        let within = used <= self.inner.budget_bytes || self.stats().entries == 0;
        assert!(within, "{used} bytes charged to a budget of {}", self.inner.budget_bytes);
    }

    /// Puts what was fetched in, if the fill with this id is still open, and ends it.
    fn complete(&self, key: &Key, id: u64, read: &Read, entering: Entering<'_>) -> bool {
        let hash = key.borrow().hash64();
        let mut partition = self.inner.partition_of(hash);
        if !partition.fetched(key, id, read) && !mutation::on(Fault::OvertakenFill) {
            return false;
        }
        partition.tell(key.borrow(), read, Told::of(entering.kind), entering.context);
        self.install(&mut partition, hash, key, read, entering);
        partition.end_flight(key, Some(id));
        true
    }

    /// Puts a value in, making room first; an entry that can't or may not have room is left out, and what was cached
    /// of it is dropped, since it is older.
    fn install(&self, partition: &mut Partition, hash: u64, key: &Key, read: &Read, entering: Entering<'_>) {
        if entering.kind == AccessKind::Write {
            partition.tell(key.borrow(), read, Told::of(entering.kind), entering.context);
        }
        let charged = charge(key, read, self.inner.policy);
        let slot = partition.slot(hash, key.borrow());
        let old = slot.map_or(0, |slot| partition.charged(slot));
        let access = partition.access(hash, slot, entering.context, entering.kind, charged);
        let admitted = slot.is_some() || partition.admit(&access);
        let growth = charged.saturating_sub(old);
        let room = admitted && !self.inner.beside.is_overdue();
        let room = room && self.make_room_for(partition, &access, growth);
        let given_up = match room && partition.put(key, read, &access, old, entering.marked) {
            true => old.saturating_sub(charged),
            false => partition.reject(slot) + if room { growth } else { 0 },
        };
        // All threads that write share this word: what changes nothing leaves it alone.
        if given_up > 0 {
            self.inner.used_bytes.fetch_sub(given_up, Ordering::Relaxed);
        }
        // A policy may remember what it kept out, too.
        self.charge_policy(partition, &access);
    }

    /// Charges what the policy keeps beyond its entries, and makes room for its growth.
    fn charge_policy(&self, partition: &mut Partition, access: &Access) {
        let (before, now) = partition.policy_bytes();
        if before != now {
            self.inner.used_bytes.fetch_add(now, Ordering::Relaxed);
            self.inner.used_bytes.fetch_sub(before, Ordering::Relaxed);
        }
        if self.charge_learned() || before != now {
            self.make_room(partition, &forced(access), 0);
        }
    }

    fn is_within_budget(&self) -> bool {
        self.inner.used_bytes.load(Ordering::Relaxed) <= self.room_bytes()
    }

    /// Charges `bytes`, if the budget has room for them. Asking and charging are one step: two partitions that fill at
    /// once would both take the last room else.
    fn reserve(&self, bytes: usize) -> bool {
        let used_bytes = &self.inner.used_bytes;
        if bytes == 0 {
            return self.is_within_budget();
        }
        if mutation::on(Fault::RoomTakenTwice) {
            let fits = used_bytes.load(Ordering::Relaxed) + bytes <= self.room_bytes();
            used_bytes.fetch_add(if fits { bytes } else { 0 }, Ordering::Relaxed);
            return fits;
        }
        let charged = |used| Some(used + bytes).filter(|charged| *charged <= self.room_bytes());
        used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged).is_ok()
    }

    /// Room for `bytes` more, which are charged then. What is to be replaced must not be evicted to make room for
    /// itself.
    fn make_room_for(&self, partition: &mut Partition, access: &Access, bytes: usize) -> bool {
        if self.reserve(bytes) {
            return true;
        }
        if let Some((slot, _)) = access.slot {
            partition.pin_slot(slot);
        }
        let room = self.make_room(partition, access, bytes);
        if let Some((slot, _)) = access.slot {
            partition.unpin_slot(slot);
        }
        room
    }

    /// Evicts until `bytes` more fit the budget, and charges them: from this partition first, in batches of the
    /// policy's choice, then from the others.
    fn make_room(&self, own: &mut Partition, access: &Access, bytes: usize) -> bool {
        if bytes > self.room_bytes() {
            return false;
        }
        let (mut evicted, mut has_room) = (0, self.reserve(bytes));
        while !has_room || (0 < evicted && evicted < own.order.batch()) {
            let Some(freed) = own.evict(access) else { break };
            self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
            evicted += 1;
            has_room = has_room || self.reserve(bytes);
        }
        if has_room || access.slot.is_none() && own.has_candidates() {
            // Without room the policy would rather keep all that it has: the newcomer lost, and takes no place of
            // another partition's.
            return has_room;
        }
        // There is no newcomer in the other partitions: they must name a victim if they can.
        let forced = forced(access);
        let start = self.inner.index(access.hash);
        for step in 1..self.inner.partitions.len() {
            // Only a lock that is free: two partitions making room in each other must not wait for each other.
            let other = &self.inner.partitions[(start + step) % self.inner.partitions.len()];
            let Some(mut other) = other.try_lock(&self.inner.beside) else { continue };
            while let Some(freed) = other.evict(&forced) {
                self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
                if self.reserve(bytes) {
                    return true;
                }
            }
        }
        self.reserve(bytes)
    }
}

impl Inner {
    fn index(&self, hash: u64) -> usize {
        // Bits 16 to 48, scaled: the index within the partition takes its bucket from the low bits and its tag from
        // the top seven, and a tag that all entries share tells nothing.
        ((((hash >> 16) & 0xffff_ffff) * self.partitions.len() as u64) >> 32) as usize
    }

    /// All partitions, one after the other.
    fn all(&self) -> impl Iterator<Item = Guard<'_>> {
        self.partitions.iter().map(|partition| partition.lock(&self.beside))
    }

    fn partition(&self, key: KeyRef<'_>) -> Guard<'_> {
        self.partition_of(key.hash64())
    }

    fn partition_of(&self, hash: u64) -> Guard<'_> {
        self.partitions[self.index(hash)].lock(&self.beside)
    }
}

/// As a need of room that no newcomer has: a policy must name a victim if it can.
fn forced(access: &Access) -> Access {
    Access { slot: access.slot.or(Some((Slot::MAX, 0))), ..*access }
}
