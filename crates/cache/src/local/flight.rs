//! Loads that are under way, one for each key at most.
//!
//! A load is a *flight*. Who finds none for its key leads one; others wait for it, as threads or as tasks. The flight
//! stands in a list beside those of like hashes until it lands. A leader that panics or is dropped gives its flight
//! up, and all who wait look again: the next one leads.
//!
//! * **What lands is not older than a change.** A change of a key takes its flight out of the list before it changes
//!   the entry. A leader stores its value under the list's lock, if the flight still stands there. So a value that was
//!   loaded before a change is stored before it too, or not at all.
//! * **Nobody waits for itself.** While a loader runs, its thread has the flight's number in a list; a loader that
//!   waits adds that its flight waits for another. One that would close a circle is told so instead, also where it
//!   goes through several threads and caches.
//!
//! The list's lock is held while keys are compared and while a value is stored, never while a loader, a listener, or a
//! copy runs.

use std::any::Any;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Lists of flights.
const LISTS: usize = 16;

/// What a load came to.
pub(super) enum Outcome<V> {
    Value(V),
    Nothing,
    /// An error of some type.
    Failed(Arc<dyn Any + Send + Sync>),
}

impl<V: Clone> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Outcome::Value(value) => Outcome::Value(value.clone()),
            Outcome::Nothing => Outcome::Nothing,
            Outcome::Failed(error) => Outcome::Failed(error.clone()),
        }
    }
}

/// The loader waits for its own load, perhaps by way of others.
pub(super) struct Circle;

enum State<V> {
    /// With those who wait, each with a number.
    Loading(Vec<(u64, Waker)>),
    Landed(Outcome<V>),
    GivenUp,
}

/// See the module.
pub(super) struct Flight<K, V> {
    number: u64,
    hash: u64,
    key: K,
    state: Mutex<State<V>>,
    over: Condvar,
}

type List<K, V> = Vec<Arc<Flight<K, V>>>;

/// The flights of a cache.
pub(super) struct Flights<K, V> {
    lists: [Mutex<List<K, V>>; LISTS],
    /// Flights that stand in a list.
    listed: AtomicUsize,
}

/// What is to be done about a key that is not in the cache.
pub(super) enum Join<'f, K, V> {
    Lead(Leader<'f, K, V>),
    Wait(Arc<Flight<K, V>>),
    /// It came in meanwhile.
    There,
}

/// Of what is no longer needed to be right: no caller's code that changes it can panic half way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, V> Flights<K, V> {
    pub fn new() -> Flights<K, V> {
        Flights { lists: std::array::from_fn(|_| Mutex::new(Vec::new())), listed: AtomicUsize::new(0) }
    }

    fn list(&self, hash: u64) -> MutexGuard<'_, List<K, V>> {
        lock(&self.lists[hash as usize % LISTS])
    }

    /// Joins the flight of a key or begins one, unless the key `is_there`.
    pub fn join(&self, hash: u64, key: K, is_there: impl FnOnce(&K) -> bool) -> Join<'_, K, V>
    where
        K: Eq,
    {
        let mut list = self.list(hash);
        if let Some(flight) = list.iter().find(|flight| flight.hash == hash && flight.key == key) {
            return Join::Wait(flight.clone());
        }
        // What landed before the list was looked at is seen now.
        if is_there(&key) {
            return Join::There;
        }
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let state = Mutex::new(State::Loading(Vec::new()));
        let flight = Arc::new(Flight { number, hash, key, state, over: Condvar::new() });
        list.push(flight.clone());
        self.listed.fetch_add(1, Ordering::Relaxed);
        Join::Lead(Leader { flights: self, flight })
    }

    /// What is loaded for this key is old from now on.
    pub fn outdate<Q: Eq + ?Sized>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
    {
        if self.listed.load(Ordering::Acquire) > 0 {
            let out = |flight: &Flight<K, V>| flight.hash == hash && flight.key.borrow() == key;
            drop(self.take_out(&mut self.list(hash), out));
        }
    }

    /// What is loaded is old from now on.
    pub fn outdate_all(&self) {
        if self.listed.load(Ordering::Acquire) > 0 {
            self.lists.iter().for_each(|list| drop(self.take_out(&mut lock(list), |_| true)));
        }
    }

    fn take_out(&self, list: &mut List<K, V>, out: impl Fn(&Flight<K, V>) -> bool) -> List<K, V> {
        let taken: List<K, V> = list.extract_if(.., |flight| out(flight)).collect();
        self.listed.fetch_sub(taken.len(), Ordering::Release);
        taken
    }
}

/// What tests ask about.
#[cfg(all(test, not(feature = "loom")))]
impl<K, V> Flights<K, V> {
    /// Those who wait for flights with this hash.
    pub fn waiting(&self, hash: u64) -> usize {
        // The list and the leader hold a flight too.
        self.list(hash).iter().filter(|flight| flight.hash == hash).map(|flight| Arc::strong_count(flight) - 2).sum()
    }

    /// Whether a list is locked.
    pub fn is_locked(&self) -> bool {
        self.lists.iter().any(|list| list.try_lock().is_err())
    }

    pub fn is_empty(&self) -> bool {
        self.listed.load(Ordering::Relaxed) == 0 && self.lists.iter().all(|list| lock(list).is_empty())
    }
}

/// Who loads. Dropped, it gives the flight up.
pub(super) struct Leader<'f, K, V> {
    flights: &'f Flights<K, V>,
    flight: Arc<Flight<K, V>>,
}

impl<K, V> Leader<'_, K, V> {
    /// As long as what is answered is there, this thread runs the loader.
    pub fn enter(&self) -> Inside {
        // A thread that is at its end has no list any more: it finds out about a circle by waiting.
        _ = INSIDE.try_with(|inside| inside.borrow_mut().push(self.flight.number));
        Inside
    }

    /// The flight has landed. `store` runs if what was loaded is not outdated, while it can't become so.
    pub fn land(&self, store: impl FnOnce()) {
        let mut list = self.flights.list(self.flight.hash);
        let is_ours = |flight: &Flight<K, V>| std::ptr::eq(flight, &*self.flight);
        if list.iter().any(|flight| is_ours(flight)) {
            store();
        }
        let taken = self.flights.take_out(&mut list, is_ours);
        drop(list);
        drop(taken);
    }

    /// Tells those who wait, if there are any, how it ended. No others can join.
    pub fn tell(self, outcome: &Outcome<V>)
    where
        V: Clone,
    {
        if Arc::strong_count(&self.flight) > 1 {
            self.flight.end(State::Landed(outcome.clone()));
        }
    }
}

impl<K, V> Drop for Leader<'_, K, V> {
    fn drop(&mut self) {
        let is_ours = |flight: &Flight<K, V>| std::ptr::eq(flight, &*self.flight);
        drop(self.flights.take_out(&mut self.flights.list(self.flight.hash), is_ours));
        self.flight.end(State::GivenUp);
    }
}

impl<K, V> Flight<K, V> {
    /// All who wait are told how it ended, once.
    fn end(&self, end: State<V>) {
        let mut state = lock(&self.state);
        if let State::Loading(waiting) = &mut *state {
            let waiting = std::mem::take(waiting);
            *state = end;
            drop(state);
            self.over.notify_all();
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// How it ended; `None`: it was given up.
    pub fn wait(&self) -> Result<Option<Outcome<V>>, Circle>
    where
        V: Clone,
    {
        let _waits = Waits::of_this_thread(self.number)?;
        let is_loading = |state: &mut State<V>| matches!(state, State::Loading(_));
        let state = self.over.wait_while(lock(&self.state), is_loading).unwrap_or_else(PoisonError::into_inner);
        Ok(ended(&state).flatten())
    }
}

/// `None`: it is loading; `Some(None)`: it was given up.
fn ended<V: Clone>(state: &State<V>) -> Option<Option<Outcome<V>>> {
    match state {
        State::Loading(_) => None,
        State::Landed(outcome) => Some(Some(outcome.clone())),
        State::GivenUp => Some(None),
    }
}

/// A task that waits for a flight.
pub(super) struct Waiting<K, V> {
    flight: Arc<Flight<K, V>>,
    waits: Option<Waits>,
    number: u64,
}

impl<K, V> Waiting<K, V> {
    pub fn new(flight: Arc<Flight<K, V>>) -> Waiting<K, V> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Waiting { flight, waits: None, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl<K, V: Clone> Future for Waiting<K, V> {
    type Output = Result<Option<Outcome<V>>, Circle>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waits.is_none() {
            match Waits::of_this_thread(self.flight.number) {
                Ok(waits) => self.waits = Some(waits),
                Err(circle) => return Poll::Ready(Err(circle)),
            }
        }
        let mut state = lock(&self.flight.state);
        if let State::Loading(waiting) = &mut *state {
            let waker = context.waker();
            match waiting.iter_mut().find(|(number, _)| *number == self.number) {
                Some((_, before)) => before.clone_from(waker),
                None => waiting.push((self.number, waker.clone())),
            }
        }
        ended(&state).map_or(Poll::Pending, |ended| Poll::Ready(Ok(ended)))
    }
}

impl<K, V> Drop for Waiting<K, V> {
    fn drop(&mut self) {
        let taken = match &mut *lock(&self.flight.state) {
            State::Loading(waiting) => waiting.extract_if(.., |(number, _)| *number == self.number).collect(),
            _ => Vec::new(),
        };
        // A waker is a program's: it is dropped without the lock.
        drop(taken);
    }
}

thread_local! {
    /// The flights whose loaders this thread runs, one inside the other.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A loader runs on this thread.
pub(super) struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }
}

/// Which flight waits for which, over all caches. Only loaders that ask for what others load stand there.
static WAITS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// That the flights whose loaders run on a thread wait for another one.
struct Waits {
    from: Vec<u64>,
    to: u64,
}

impl Waits {
    fn of_this_thread(to: u64) -> Result<Waits, Circle> {
        let from = INSIDE.try_with(|inside| inside.borrow().clone()).unwrap_or_default();
        if from.is_empty() {
            return Ok(Waits { from, to });
        }
        let mut waits = lock(&WAITS);
        let mut reached = vec![to];
        let mut at = 0;
        while let Some(&flight) = reached.get(at) {
            if from.contains(&flight) {
                return Err(Circle);
            }
            let next = waits.iter().filter(|wait| wait.0 == flight).map(|wait| wait.1);
            let new: Vec<u64> = next.filter(|next| !reached.contains(next)).collect();
            reached.extend(new);
            at += 1;
        }
        waits.extend(from.iter().map(|&from| (from, to)));
        Ok(Waits { from, to })
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if self.from.is_empty() {
            return;
        }
        let mut waits = lock(&WAITS);
        for from in &self.from {
            if let Some(at) = waits.iter().position(|wait| *wait == (*from, self.to)) {
                waits.swap_remove(at);
            }
        }
    }
}
