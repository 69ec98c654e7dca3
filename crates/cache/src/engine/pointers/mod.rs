//! Records that lie apart, found through a table of pointers: for what does not fit into the table itself.
//!
//! ```text
//! look    -> reclaim.rs: a guard -> segment.rs: directory, segment, words -> boxed.rs: the record -> marks.rs, or
//!            buffers.rs where a policy hears of hits
//! put     -> write.rs -> guarded.rs, under the shard's lock: wheel.rs (what has expired), budget.rs, ranks.rs (a
//!            victim: by queues.rs, or by a policy), slab.rs (owners), segment.rs (word)
//!         -> without it: limbo.rs tells who listens; reclaim.rs drops what no guard may see
//! ```
//!
//! What is done to the cache as a whole is in `upkeep.rs`. What holds entries in it is in `pins.rs`, and what a
//! snapshot asks for in `line.rs`.
//!
//! # The budget
//!
//! Entries have weights, and the sum of the weights of all that is in is never above the budget, at no moment. A
//! shard's entries never weigh more than the shard's credit. A shard takes credit from what is left, then from its own
//! victims. It *gathers* credit from the other shards while it has less than half of its share, or where all that it
//! has is not enough. Their entries are evicted in turn. So one entry may weigh the whole budget.
//!
//! What went out of sight and may still be seen by a guard is bounded too. While more than an eighth of the budget is
//! deferred, and the guards do not end soon, no newcomer is stored ([`Put::Refused`]). What is replaced is removed
//! then. So all records that there are weigh at most 37/32 of the budget, and one entry for each thread that inserts.
//! (That is the budget, an eighth, and a quarter of that in the shards' hands.) A guard for which newcomers are refused
//! is told once (`held.rs`).
//!
//! Growing replaces segments and directories. Replaced ones wait for guards as well, and have no weight. In a cache
//! that has not shrunk they are fewer than the segments in use. In one that has, the entries that left are bounded as
//! above. So under a guard the table takes at most twice its memory.
//!
//! # Publication
//!
//! [`Pointers::publish`] makes several entries visible as a whole to readers that look twice. It marks all their words,
//! replaces the records under marks, and takes the marks away. A reader looks at all its keys, gives up at a mark, then
//! asks of each whether its word is still the same ([`Pointers::unchanged`]).
//!
//! * **The same word is the same record, unmarked all the time.** The reader's guard keeps the record, so no other can
//!   have its address. A record is named once, by one word. A mark that came and went replaced its record.
//! * **No reader finds one key old and another new.** Let the reader have the new record of `b`. It has read a word
//!   that was stored when the marks were taken away (release, read behind an acquire fence). The mark of each key `a`
//!   was stored before that, so the second look at `a`, which follows the first look at `b`, sees the mark or what came
//!   later, and not the old word. What is not in is not marked. Until it is published, its key must not come
//!   in otherwise: that is the caller's part (fences, `docs/guarantees.md`, C).

mod guarded;
mod held;
mod limbo;
mod line;
mod pins;
mod upkeep;
#[cfg(all(test, not(feature = "loom")))]
pub(super) mod validate;
mod write;

use crate::mutation::{Fault, on};
use std::sync::Arc;

use crate::policy::{self, Choice, Learned, Policy, Settings, Unit};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};

use super::boxed::{Own, Record, Seen};
use super::budget::Budget;
use super::buffers::{Buffers, Full};
use super::marks::touch;
use super::queues::Queues;
use super::ranks::{ByPolicy, Ranks};
use super::reclaim::{Collector, Guard};
use super::segment::{Here, Index, Root};
use super::shard::Present;
use super::slab::Slab;
use super::{SHARDS_MAX, SHARDS_PER_CPU};
use guarded::Guarded;
use held::Waits;
use limbo::{Limbo, Retired};

pub(crate) use guarded::{Life, Rule};
pub use held::HeldGuard;
pub(crate) use held::HeldListener;
pub use limbo::Cause;
pub(crate) use limbo::{Due, Listener};
pub use pins::PINS_MAX;
pub(crate) use write::Under;

/// The share of the budget that a shard has at least, before there is another.
const SHARE_MIN: usize = 2048;

/// A buffer of hits has a note for so many entries of the shard, within bounds.
const ENTRIES_PER_NOTE: usize = 32;

/// One so-manyth of the capacity may have left and wait for guards to end, before newcomers are refused.
pub const DEFERRED_SHARE: usize = 8;

/// A cache of items that lie apart, for caches that give it their own keys and protocol: it is told hashes and asked
/// with comparisons. [`Cache`](crate::Cache) is the one for programs.
///
/// No key stands in it twice as long as items of one key have one hash. A comparison runs under a lock at times, and so
/// must not use the cache.
///
/// ```
/// use forebay_cache::{Pointers, Present, Put};
///
/// // Items are pairs of a number and a text; a number is its own hash, multiplied.
/// let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
/// let cache: Pointers<(u64, String)> = Pointers::new(1 << 20);
/// let put = |number, text: &str| {
///     let entry = (hash(number), text.len(), (number, text.to_string()));
///     cache.put(entry, |one, other| one.0 == other.0, (Present::Replaced, false), |put| put == Put::Inserted)
/// };
/// assert!(put(1, "one") && put(2, "two") && !put(2, "deux"));
/// let guard = cache.pin();
/// let look = cache.look(hash(2), &guard, |item| item.0 == 2);
/// assert_eq!(look.as_ref().map(|look| look.item.1.as_str()), Some("deux"));
/// assert!(look.is_some_and(|look| cache.unchanged(hash(2), &guard, look.word)));
/// ```
pub struct Pointers<T> {
    shards: Box<[Shard<T>]>,
    shards_log2: u32,
    budget: Budget,
    collector: Collector<Retired<T>>,
    waits: Waits,
    /// Held by the thread that gathers credit: two could wait for each other's.
    gathering: Mutex<()>,
    /// Held by the thread that changes the capacity.
    resizing: Mutex<()>,
    /// The shard that gives next.
    turn: AtomicUsize,
    listener: Option<Listener<T>>,
    /// Hits are to be told.
    hears: bool,
}

struct Shard<T> {
    root: Apart<Root<Record<T>>>,
    writers: Apart<Writers<T>>,
}

/// What writers have of a shard.
struct Writers<T> {
    guarded: Mutex<Guarded<T>>,
    /// Hits that the order has to hear of.
    hits: Option<Box<Hits>>,
}

/// What waits to be told to the order of a shard.
struct Hits {
    buffers: Buffers<1>,
    /// None is left out.
    every: bool,
    /// When the buffers were emptied last because one was full, notes of several threads waited.
    by_many: AtomicBool,
}

/// Alone on its lines of memory: what writers change is nothing that readers begin at.
#[repr(align(128))]
struct Apart<P>(P);

/// What became of an entry that was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put<V> {
    /// There was none with its key.
    Inserted,
    /// In place of this one.
    Replaced(V),
    /// This one was there, and stays.
    Kept(V),
    /// It weighs more than the budget, or there is no place, or a guard keeps too much, or the policy does not let it
    /// in. What was there is gone.
    Refused,
}

/// What a reader found.
pub struct Found<'g, T> {
    /// What was put in.
    pub item: &'g T,
    /// Its publication is not over.
    pub marked: bool,
    /// For the second look, [`Pointers::unchanged`].
    pub word: Seen<'g, T>,
}

impl<'g, T> From<Here<'g, Record<T>>> for Found<'g, T> {
    #[inline(always)]
    fn from(here: Here<'g, Record<T>>) -> Found<'g, T> {
        Found { item: here.entry.item(), marked: here.seen.is_marked(), word: Seen(here.seen) }
    }
}

impl<T> Root<Record<T>> {
    /// Looks for the record with this hash of which `is` says so, without a lock. That it has just this hash does not
    /// rest on `is`, which is a program's: by its hash a record is found again and taken out of sight.
    #[inline(always)]
    fn look_for<'g>(&self, hash: u64, guard: &'g Guard<'_>, is: impl Fn(&T) -> bool) -> Option<Here<'g, Record<T>>> {
        self.look(hash, guard, |record| record.hash == hash && is(record.item()))
    }
}

impl<T> Pointers<T> {
    /// A cache of entries that weigh at most `capacity` together.
    pub fn new(capacity: usize) -> Pointers<T> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let useful = (capacity / SHARE_MIN).clamp(1, SHARDS_MAX);
        Pointers::build(capacity, (SHARDS_PER_CPU * cpus).next_power_of_two().min(1 << useful.ilog2()).ilog2())
    }

    /// The same, whose entries have a life and a listener.
    pub(crate) fn with_life(mut self, life: Life<T>, listener: Option<Listener<T>>) -> Pointers<T> {
        self.listener = listener;
        self.shards.iter().for_each(|shard| shard.lock().life = life);
        self
    }

    /// This cache with a listener, which is told of each guard for which newcomers are refused.
    pub(crate) fn with_held_listener(mut self, listener: Option<HeldListener>) -> Pointers<T> {
        self.waits.listened_to(listener);
        self
    }

    /// The same, which is empty, by a policy of the table.
    pub(crate) fn with_policy(self, choice: &Choice, unit: Unit) -> Pointers<T> {
        let settings = choice.settings(unit, (self.capacity() / self.shards.len()) as u64);
        self.by(choice.policy, &settings, &(choice.policy.learned)(&settings))
    }

    /// By any policy, with what its orders learn together.
    pub(super) fn by(mut self, policy: &Policy, settings: &Settings, learned: &Arc<dyn Learned>) -> Pointers<T> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.hears = policy.hits != policy::Hits::Marks;
        let notes = self.capacity() / self.shards.len() / ENTRIES_PER_NOTE;
        for shard in &mut self.shards {
            let order = (policy.order)(settings, learned.clone());
            shard.lock().ranks = Ranks::Policy(Box::new(ByPolicy::new(order, policy.hits)));
            let every = policy.hits == policy::Hits::Accesses;
            let hits = || Hits { buffers: Buffers::new(cpus, notes), every, by_many: AtomicBool::new(false) };
            shard.writers.0.hits = self.hears.then(|| Box::new(hits()));
        }
        self
    }

    /// In `1 << shards_log2` shards.
    pub(super) fn build(capacity: usize, shards_log2: u32) -> Pointers<T> {
        // So that a sum of two weights is no overflow.
        let capacity = capacity.min(isize::MAX as usize);
        let count = 1 << shards_log2;
        let share = capacity / count;
        let shards = (0..count).map(|_| {
            let (index, root) = Index::new(shards_log2);
            let (records, ranks, limbo) = (Slab::new(), Ranks::Queues(Queues::new(share)), Limbo::NEW);
            let left = [0; Cause::ALL.len()];
            let life = Life::ENDLESS;
            let (wheel, tagged) = (None, None);
            let (used, pinned, credit) = (0, 0, 0);
            let guarded = Guarded { index, records, ranks, used, pinned, credit, limbo, wheel, tagged, life, left };
            let writers = Writers { guarded: Mutex::new(guarded), hits: None };
            Shard { root: Apart(root), writers: Apart(writers) }
        });
        Pointers {
            shards: shards.collect(),
            shards_log2,
            budget: Budget::weights(capacity, count),
            collector: Collector::new(),
            waits: Waits::new(),
            gathering: Mutex::new(()),
            resizing: Mutex::new(()),
            turn: AtomicUsize::new(0),
            listener: None,
            hears: false,
        }
    }

    /// What is found under it stays until it is dropped.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.collector.pin()
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard<T> {
        &self.shards[(hash >> 1 >> (63 - self.shards_log2)) as usize]
    }

    /// Looks for the entry with this hash of which `is` says so. It counts no hit.
    #[inline(always)]
    pub fn look<'g>(&'g self, hash: u64, guard: &'g Guard<'_>, is: impl Fn(&T) -> bool) -> Option<Found<'g, T>> {
        self.find(hash, guard, is).map(Found::from)
    }

    /// The same, as a hit.
    #[inline(always)]
    pub fn get<'g>(&'g self, hash: u64, guard: &'g Guard<'_>, is: impl Fn(&T) -> bool) -> Option<&'g T> {
        let record = self.find(hash, guard, is)?.entry;
        if self.hears {
            self.note(record, guard);
        } else {
            touch(&record.mark);
        }
        Some(record.item())
    }

    /// Leaves a note of a hit. If several threads hit entries of the shard and the policy need not hear of every one, a
    /// note that waits stands for the next ones like it.
    #[inline]
    fn note(&self, record: &Record<T>, guard: &Guard<'_>) {
        let shard = self.shard(record.hash);
        let Some(hits) = &shard.writers.0.hits else { return };
        let slot = record.slot.load(Ordering::Relaxed);
        let note = u64::from(slot + 1) << 32 | u64::from(record.hash as u32);
        let left = if hits.by_many.load(Ordering::Relaxed) || on(Fault::SampledOfOneThread) {
            hits.buffers.push_once(guard.place(), note)
        } else {
            hits.buffers.push(guard.place(), [note])
        };
        if left == Err(Full) {
            shard.tell(hits, guard.place(), note);
        }
    }

    /// Under the guard of another cache nothing is found: it would not keep what is.
    #[inline(always)]
    fn find<'g>(&'g self, hash: u64, guard: &'g Guard<'_>, is: impl Fn(&T) -> bool) -> Option<Here<'g, Record<T>>> {
        let ours = self.collector.is_guarded_by(guard);
        debug_assert!(ours, "the guard is this cache's");
        if ours { self.shard(hash).root.0.look_for(hash, guard, is) } else { None }
    }

    /// Asks for the memory in which a search for this hash begins; goes on at once.
    pub fn ahead(&self, hash: u64, guard: &Guard<'_>) {
        if self.collector.is_guarded_by(guard) {
            self.shard(hash).root.0.ahead(hash, guard);
        }
    }

    /// Second look: whether what was seen under the same guard is as it was, and not being published.
    pub fn unchanged<'g>(&'g self, hash: u64, guard: &'g Guard<'_>, word: Seen<'g, T>) -> bool {
        let Seen(at) = word;
        !at.is_marked() && self.collector.is_guarded_by(guard) && self.shard(hash).root.0.holds(hash, guard, at)
    }

    /// Puts an entry in, or does with the one of its key what `present` says; `same` says of the newcomer and another
    /// whether they have one key. `then` is told what became of it, without a lock.
    pub fn put<R>(
        &self,
        entry: (u64, usize, T),
        same: impl Fn(&T, &T) -> bool,
        (present, marked): (Present, bool),
        then: impl FnOnce(Put<&T>) -> R,
    ) -> R {
        let mut due = Vec::new();
        let ready = self.may_defer();
        let guard = self.pin();
        let rule = match present {
            Present::Replaced => Rule::Always,
            Present::Kept => Rule::IfAbsent,
        };
        let put = self.put_under(Under { guard: &guard, now: 0, ready }, entry, same, (rule, marked), &mut due);
        let answer = then(put.unwrap_or(Put::Refused));
        drop(guard);
        answer
    }

    /// Removes the entry with this hash of which `is` says so; `then` is told it, without a lock.
    pub fn remove<R>(&self, hash: u64, is: impl Fn(&T) -> bool, then: impl FnOnce(Option<&T>) -> R) -> R {
        let mut due = Vec::new();
        let guard = self.pin();
        let under = Under { guard: &guard, now: 0, ready: true };
        let (item, _) = self.remove_under(under, (hash, Cause::Removed), is, None, &mut due);
        let answer = then(item);
        drop(guard);
        answer
    }

    /// Makes entries, with their hashes and weights, visible as a whole. Each key stands there once, and is not written
    /// by another thread meanwhile. `is` says of the number of an entry and another whether they have one key.
    pub fn publish(&self, group: Vec<(u64, usize, T)>, is: impl Fn(usize, &T) -> bool) {
        let hashes: Vec<u64> = group.iter().map(|entry| entry.0).collect();
        let mark = |marked| {
            let each = hashes.iter().enumerate();
            each.for_each(|(at, &hash)| self.set_marked(hash, |other| is(at, other), marked));
        };
        let marks = !on(Fault::PublishedUnmarked);
        if marks {
            mark(true);
        }
        if on(Fault::UnmarkedEarly) {
            mark(false);
        }
        for (at, entry) in group.into_iter().enumerate() {
            let marked = marks && !on(Fault::UnmarkedEarly);
            self.put(entry, |_, other| is(at, other), (Present::Replaced, marked), |_| ());
        }
        mark(false);
    }

    /// Sets the mark of an entry's publication, if it is in.
    pub fn set_marked(&self, hash: u64, is: impl Fn(&T) -> bool, marked: bool) {
        let guard = self.pin();
        let guarded = self.lock(hash);
        if let Some(here) = self.shard(hash).root.0.look_for(hash, &guard, is) {
            guarded.index.set_marked(here.entry, marked);
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries, counted shard after shard.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().records.len()).sum()
    }

    /// Their weight, summed up shard after shard.
    pub fn weight(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().used).sum()
    }

    /// What the entries may weigh.
    pub fn capacity(&self) -> usize {
        self.budget.capacity()
    }

    /// The weight of what is out of sight and not yet dropped, but for what is still in shards' hands.
    pub fn deferred(&self) -> usize {
        self.collector.deferred()
    }

    /// Guards that operations have waited for in vain.
    pub(crate) fn held_guards(&self) -> u64 {
        self.waits.guards()
    }

    /// Credit that a shard may have before it evicts for itself rather than gathers.
    fn floor(&self) -> usize {
        self.capacity() >> (self.shards_log2 + 1)
    }

    /// What may be deferred before newcomers are refused.
    fn deferred_max(&self) -> usize {
        self.capacity() / DEFERRED_SHARE
    }

    /// Memory of tables and orders; entries come in addition.
    pub fn bytes(&self) -> usize {
        let of = |shard: &Shard<T>| {
            let guarded = shard.lock();
            let owners = guarded.records.bound() * size_of::<Own<Record<T>>>();
            let wheel = guarded.wheel.as_ref().map_or(0, |wheel| wheel.bytes());
            let tagged = guarded.tagged.as_ref().map_or(0, |tagged| tagged.bytes());
            let hits = shard.writers.0.hits.as_ref().map_or(0, |hits| hits.buffers.bytes());
            guarded.index.bytes() + guarded.ranks.bytes() + owners + wheel + tagged + hits
        };
        self.shards.iter().map(of).sum::<usize>() + size_of_val(&*self.shards)
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Guarded<T>> {
        self.shard(hash).lock()
    }
}

impl<T> std::fmt::Debug for Pointers<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pointers").field("capacity", &self.capacity()).field("len", &self.len()).finish()
    }
}

impl<T> Shard<T> {
    /// Tells the notes, since there is no place for another one, and leaves it then. While another thread holds the
    /// lock, the hit is left out, or waits if the policy hears of every one.
    #[cold]
    fn tell(&self, hits: &Hits, thread: usize, note: u64) {
        if hits.every {
            while hits.buffers.push(thread, [note]) == Err(Full) {
                drop(self.lock());
            }
        } else if let Ok(mut guarded) = self.writers.0.guarded.try_lock() {
            let by_many = hits.buffers.drain(|notes| guarded.hear(notes)) > 1;
            if by_many != hits.by_many.load(Ordering::Relaxed) {
                hits.by_many.store(by_many, Ordering::Relaxed);
            }
            let _ = hits.buffers.push(thread, [note]);
        }
    }

    /// A panic under the lock can only come from a key's comparison, before anything is changed.
    fn lock(&self) -> MutexGuard<'_, Guarded<T>> {
        let mut guarded = self.writers.0.guarded.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(hits) = &self.writers.0.hits {
            hits.buffers.drain(|notes| guarded.hear(notes));
        }
        guarded
    }
}
