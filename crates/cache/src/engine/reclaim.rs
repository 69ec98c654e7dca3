//! When what readers may still see is dropped.
//!
//! A reader that follows a pointer holds a [`Guard`]. What a writer takes out of the readers' sight is *retired*: it
//! is dropped when every guard that was there at that moment is gone. Guards are per cache: those of one cache never
//! keep another's memory.
//!
//! # The protocol
//!
//! The collector counts *ages*. A guard writes the age in which it begins into its thread's *seat*, issues a full
//! fence, and reads then. To retire a bag stamps it with the current age, begins the next age, issues a full fence,
//! and looks at all seats: a bag is dropped when no seat shows an age up to its stamp.
//!
//! * **A guard that may have seen the bag's contents keeps them.** Let a guard begin in age `a`. If `a` is later than
//!   the stamp, then the guard has read an age that was stored after the contents went out of sight (release and
//!   acquire):
//!   it can't find them. Else the two full fences stand in one order. If the guard's is first, then the look at the
//!   seats, which follows the collector's fence, sees the seat's age, and the bag stays. If the collector's is first,
//!   then what the guard reads behind its own fence is the state after the contents went out of sight.
//! * **All that a guard read was read before the drop.** A seat is left, and taken again, with release; the look at the
//!   seats is followed by an acquire fence. To take it needs release as well: the look may see the next guard's age
//!   in place of the empty seat.
//! * **No seat is overlooked.** A block of seats is published before the first guard that sits in it issues its fence,
//!   so the argument for the age holds for the block.
//!
//! # What a guard that is held for long costs
//!
//! Everything that is retired meanwhile stays. [`Collector::deferred`] counts its weight; a cache takes no newcomer
//! while more is deferred than its bound and the guards do not end soon (`pointers/mod.rs`). So all in all it never
//! weighs more than its budget, that bound, and one entry for each thread that is inserting.

use std::collections::VecDeque;
use std::sync::OnceLock;

use smallvec::SmallVec;

use crate::mutation::{Fault, on};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, FENCED, Mutex, MutexGuard, Ordering, fence};

/// Seats of the first block; each further one has twice as many.
const SEATS_FIRST: usize = if cfg!(feature = "loom") { 4 } else { 16 };

/// So many threads as that have a seat: 16 * 2^20.
const BLOCKS: usize = if cfg!(feature = "loom") { 1 } else { 20 };

/// The age of a seat in which no guard sits.
const EMPTY: u64 = 0;

/// The age of the oldest guard where there is none.
pub(super) const NO_GUARD: u64 = u64::MAX;

/// Where a thread says in which age its guard began. Alone on its lines of memory: only its thread writes it.
#[repr(align(128))]
struct Seat {
    since: AtomicU64,
    /// Guards of the thread, one inside the other. Only the seat's thread looks.
    guards: AtomicU32,
    /// What its threads have counted, ever.
    counts: [AtomicU64; COUNTS],
}

/// Things that threads count.
const COUNTS: usize = 2;

/// See the module.
pub(super) struct Collector<G> {
    age: AtomicU64,
    seats: [OnceLock<Box<[Seat]>>; BLOCKS],
    bags: Mutex<VecDeque<Bag<G>>>,
    /// The weight of all that is out of sight and not yet dropped.
    deferred: AtomicUsize,
}

/// Bags that are dropped when one is retired, at most: so a guard that has kept many costs no operation much when it
/// ends, and what it has kept is gone after a third as many more.
const BAGS_MAX: usize = 4;

/// What a step of collecting has found.
pub(super) struct Step {
    /// The age in which the oldest guard began, or [`NO_GUARD`].
    pub oldest: u64,
    /// Something was dropped, and more may be to drop.
    pub drops: bool,
}

/// What was retired together.
struct Bag<G> {
    stamp: u64,
    weight: usize,
    contents: Vec<G>,
}

impl<G> Collector<G> {
    pub fn new() -> Collector<G> {
        let collector = Collector {
            age: AtomicU64::new(EMPTY + 1),
            seats: std::array::from_fn(|_| OnceLock::new()),
            bags: Mutex::new(VecDeque::new()),
            deferred: AtomicUsize::new(0),
        };
        if cfg!(feature = "loom") {
            collector.seat(0);
        }
        collector
    }

    /// Nothing that the holder finds from now on is dropped before the guard.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let place = place::of_this_thread();
        let seat = self.seat(place.number());
        let guards = seat.guards.load(Ordering::Relaxed);
        seat.guards.store(guards + 1, Ordering::Relaxed);
        if guards == 0 {
            self.sit_down(seat);
        }
        Guard { seat, age: &self.age, place }
    }

    /// Whether it is a guard of this collector.
    #[inline(always)]
    pub fn is_guarded_by(&self, guard: &Guard<'_>) -> bool {
        std::ptr::eq(guard.age, &self.age)
    }

    #[inline]
    fn sit_down(&self, seat: &Seat) {
        let age = self.age.load(Ordering::Acquire);
        let release = if on(Fault::SeatTakenUnordered) { Ordering::Relaxed } else { Ordering::Release };
        if on(Fault::PinFenceMissing) {
            return seat.since.store(age, release);
        }
        // An exchange is a full fence on x86, and takes half of the time of `mfence`, which is what the portable form
        // becomes there. The compiler keeps its place too: nothing moves over a sequentially consistent exchange.
        if cfg!(all(target_arch = "x86_64", not(miri), not(feature = "loom"))) {
            seat.since.swap(age, Ordering::SeqCst);
        } else {
            seat.since.store(age, release);
            fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn seat(&self, number: usize) -> &Seat {
        let from_first = number + SEATS_FIRST;
        let block = (from_first.ilog2() - SEATS_FIRST.ilog2()) as usize;
        debug_assert!(block < BLOCKS, "there is a seat for each thread");
        let make = || {
            let counts = || std::array::from_fn(|_| AtomicU64::new(0));
            let seat = || Seat { since: AtomicU64::new(EMPTY), guards: AtomicU32::new(0), counts: counts() };
            std::iter::repeat_with(seat).take(SEATS_FIRST << block).collect()
        };
        &self.seats[block].get_or_init(make)[from_first - (SEATS_FIRST << block)]
    }

    /// The weight of all that is out of sight and not yet dropped.
    pub fn deferred(&self) -> usize {
        self.deferred.load(Ordering::Relaxed)
    }

    /// What all threads have counted, each at the place of its number.
    pub fn counts(&self) -> [u64; COUNTS] {
        let mut sum = [0; COUNTS];
        for seat in self.seats.iter().filter_map(OnceLock::get).flatten() {
            sum.iter_mut().zip(&seat.counts).for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
        }
        sum
    }

    /// Drops these contents, which are out of sight, when no guard may see them; and some of what can be dropped now.
    /// The caller holds no lock: what is dropped may be a program's own.
    pub fn retire(&self, contents: Vec<G>, weight: usize) {
        self.retire_with(contents, weight, drop);
    }

    /// Retires `contents`; `drops` is given some of what can be dropped now.
    pub fn retire_with(&self, contents: Vec<G>, weight: usize, drops: impl FnMut(Vec<G>)) {
        self.deferred.fetch_add(weight, Ordering::Relaxed);
        let mut bags = self.bags();
        let stamp = self.age.load(Ordering::Relaxed);
        self.age.store(stamp + 1, Ordering::Release);
        bags.push_back(Bag { stamp, weight, contents });
        self.drop_expired(bags, drops);
    }

    /// Drops some of what can be dropped now.
    pub fn collect_some(&self) -> Step {
        self.drop_expired(self.bags(), drop)
    }

    /// Looks for all that can be dropped now, and gives it to `drops`.
    pub fn collect_with(&self, mut drops: impl FnMut(Vec<G>)) {
        while self.drop_expired(self.bags(), &mut drops).drops {}
    }

    fn drop_expired(&self, mut bags: MutexGuard<'_, VecDeque<Bag<G>>>, mut drops: impl FnMut(Vec<G>)) -> Step {
        let oldest = self.oldest_guard();
        let expired = bags.iter().take(BAGS_MAX).take_while(|bag| bag.stamp < oldest).count();
        let step = Step { oldest, drops: expired > 0 };
        let expired: SmallVec<[Bag<G>; BAGS_MAX]> = bags.drain(..expired).collect();
        drop(bags);
        for bag in expired {
            // Even if a drop in it panics.
            let _counted = Counted { deferred: &self.deferred, weight: bag.weight };
            drops(bag.contents);
        }
        step
    }

    /// The age in which the oldest guard began.
    fn oldest_guard(&self) -> u64 {
        if on(Fault::DroppedUnderGuard) {
            return NO_GUARD;
        }
        if !on(Fault::LookFenceMissing) {
            fence(Ordering::SeqCst);
        }
        let ages = self.seats.iter().filter_map(OnceLock::get).flatten().map(|seat| seat.since.load(FENCED));
        let oldest = ages.filter(|&age| age != EMPTY).min().unwrap_or(NO_GUARD);
        if !on(Fault::LookUnordered) {
            fence(Ordering::Acquire);
        }
        oldest
    }

    /// A drop under this lock does not happen, so a panic in one does not leave anything half done.
    fn bags(&self) -> MutexGuard<'_, VecDeque<Bag<G>>> {
        self.bags.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Takes a weight off when it is dropped.
struct Counted<'c> {
    deferred: &'c AtomicUsize,
    weight: usize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let before = self.deferred.fetch_sub(self.weight, Ordering::Relaxed);
        debug_assert!(before >= self.weight, "what is dropped was deferred");
    }
}

/// Keeps what its thread finds in the cache from being dropped.
pub struct Guard<'c> {
    seat: &'c Seat,
    /// Says whose guard it is.
    age: &'c AtomicU64,
    /// Of this thread alone, and of no later one as long as the guard is there, even if that outlives what the thread
    /// keeps.
    place: place::Held,
}

impl Guard<'_> {
    /// Counts one more of the thing with this number. Only this thread writes to its seat.
    #[inline]
    pub(super) fn count(&self, of: usize) {
        let count = &self.seat.counts[of];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A small number that no other thread has as long as the guard is there.
    #[inline]
    pub fn place(&self) -> usize {
        self.place.number()
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        let guards = self.seat.guards.load(Ordering::Relaxed);
        debug_assert!(guards > 0, "the guard was counted");
        self.seat.guards.store(guards - 1, Ordering::Relaxed);
        if guards == 1 {
            let order = if on(Fault::SeatLeftUnordered) { Ordering::Relaxed } else { Ordering::Release };
            self.seat.since.store(EMPTY, order);
        }
    }
}

impl std::fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// Small numbers for threads, used again when a thread and its guards have ended.
#[cfg(not(feature = "loom"))]
mod place {
    use std::collections::BTreeSet;
    use std::rc::Rc;

    use std::sync::Mutex;

    #[cfg(feature = "shuttle")]
    use shuttle::thread_local;

    struct Places {
        free: BTreeSet<usize>,
        next: usize,
    }

    static PLACES: Mutex<Places> = Mutex::new(Places { free: BTreeSet::new(), next: 0 });

    thread_local! {
        static PLACE: Held = Rc::new(Place::take());
    }

    /// A number that no other thread has.
    pub(super) struct Place(usize);

    /// What is held by a thread and by its guards. It does not go to another thread.
    pub(super) type Held = Rc<Place>;

    impl Place {
        fn take() -> Place {
            let mut places = PLACES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let number = places.free.pop_first().unwrap_or(places.next);
            places.next = places.next.max(number + 1);
            Place(number)
        }

        #[inline]
        pub fn number(&self) -> usize {
            self.0
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            PLACES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).free.insert(self.0);
        }
    }

    /// A thread that is at its end keeps none any more: then it is the guard's.
    #[inline]
    pub(super) fn of_this_thread() -> Held {
        PLACE.try_with(Held::clone).unwrap_or_else(|_| Rc::new(Place::take()))
    }
}

/// Threads of a model say which number they have.
#[cfg(feature = "loom")]
pub(super) mod place {
    use std::cell::Cell;

    loom::thread_local! {
        static PLACE: Cell<usize> = Cell::new(0);
    }

    pub(super) struct Held(usize);

    impl Held {
        pub fn number(&self) -> usize {
            self.0
        }
    }

    pub(super) fn of_this_thread() -> Held {
        Held(PLACE.with(Cell::get))
    }

    #[cfg(test)]
    pub(in crate::engine) fn set(number: usize) {
        PLACE.with(|place| place.set(number));
    }
}
