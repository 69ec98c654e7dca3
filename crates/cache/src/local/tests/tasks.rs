//! One load for each key, by tasks: they are polled by hand, so each order of events is chosen.

use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use super::*;

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'f>>,
    woken: Arc<Woken>,
}

impl<'f, T> Task<'f, T> {
    fn new(future: impl Future<Output = T> + Send + 'f) -> Task<'f, T> {
        Task { future: Box::pin(future), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(self.woken.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// Is ready when it is told so.
fn when<T: Copy>(ready: &AtomicU64, value: T) -> impl Future<Output = T> {
    std::future::poll_fn(move |_| if ready.load(Ordering::Relaxed) > 0 { Poll::Ready(value) } else { Poll::Pending })
}

#[test]
fn one_loads_and_the_others_are_woken() {
    let (cache, ready) = (Cache::<&str, u64>::new(10), AtomicU64::new(0));
    let mut tasks = [1, 2, 3].map(|value| Task::new(cache.get_with_async("key", when(&ready, value))));
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    assert!(tasks[1].poll().is_pending(), "a waker is kept once for each");
    ready.store(1, Ordering::Relaxed);
    assert_eq!(tasks[0].poll(), Poll::Ready(Ok(1)));
    assert_eq!(tasks.each_ref().map(Task::woken), [0, 1, 1]);
    assert_eq!((tasks[1].poll(), tasks[2].poll()), (Poll::Ready(Ok(1)), Poll::Ready(Ok(1))));
    assert_eq!(cache.get("key"), Some(1));
}

#[test]
fn when_the_leader_is_dropped_the_next_loads() {
    let (cache, ready) = (Cache::<&str, u64>::new(10), AtomicU64::new(0));
    let mut tasks = [1, 2, 3].map(|value| Some(Task::new(cache.get_with_async("key", when(&ready, value)))));
    tasks.iter_mut().flatten().for_each(|task| assert!(task.poll().is_pending()));
    tasks[0] = None;
    let woken = tasks.each_ref().map(|task| task.as_ref().map_or(0, Task::woken));
    assert_eq!(woken, [0, 1, 1]);
    // The third comes first, and the second waits for it now.
    let [_, Some(second), Some(third)] = &mut tasks else { unreachable!("they are there") };
    assert!(third.poll().is_pending() && second.poll().is_pending());
    ready.store(1, Ordering::Relaxed);
    assert_eq!((third.poll(), second.woken(), second.poll()), (Poll::Ready(Ok(3)), 2, Poll::Ready(Ok(3))));
}

/// One that waits and is dropped takes nothing with it.
#[test]
fn when_one_that_waits_is_dropped_nothing_happens() {
    let (cache, ready) = (Cache::<&str, u64>::new(10), AtomicU64::new(0));
    let mut leader = Task::new(cache.get_with_async("key", when(&ready, 1)));
    let mut waiter = Task::new(cache.get_with_async("key", when(&ready, 2)));
    assert!(leader.poll().is_pending() && waiter.poll().is_pending());
    let woken = waiter.woken.clone();
    drop(waiter);
    ready.store(1, Ordering::Relaxed);
    assert_eq!((leader.poll(), woken.0.load(Ordering::Relaxed)), (Poll::Ready(Ok(1)), 0));
    assert_eq!(Arc::strong_count(&woken), 1, "its waker is gone");
}

#[test]
fn a_task_that_asks_for_its_own_key() {
    let cache = Cache::<u64, u64>::new(10);
    let mut task = Task::new(cache.get_with_async(1, async {
        assert_eq!(cache.get_with_async(1, async { 0 }).await, Err(OwnKey));
        assert_eq!(cache.get_with(1, || 0), Err(OwnKey));
        7
    }));
    assert_eq!(task.poll(), Poll::Ready(Ok(7)));
}

/// Two tasks whose loaders wait for each other.
#[test]
fn a_circle_of_tasks() {
    let cache = Cache::<u64, u64>::new(10);
    let load = |own: u64, other: u64| {
        let cache = &cache;
        let mut first = true;
        let once_pending =
            std::future::poll_fn(move |_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) });
        Task::new(cache.get_with_async(own, async move {
            once_pending.await;
            cache.get_with_async(other, async { 0 }).await.map_or(100, |value| value + 1)
        }))
    };
    let (mut one, mut two) = (load(1, 2), load(2, 1));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    assert!(one.poll().is_pending(), "it waits for the other");
    assert_eq!(two.poll(), Poll::Ready(Ok(100)), "it is told");
    assert_eq!((one.woken(), one.poll()), (1, Poll::Ready(Ok(101))));
}

/// A thread waits for a task, and errors go from the one to the other.
#[test]
fn threads_and_tasks_wait_for_each_other() {
    let (cache, ready) = (Cache::<u64, u64>::new(10), AtomicU64::new(0));
    let load = async { when(&ready, Err("no")).await };
    let mut task = Task::new(cache.try_get_with_async(1, load));
    assert!(task.poll().is_pending());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| cache.try_get_with(1, || Err("never")));
        while cache.flights.waiting(cache.hash(&1)) == 0 {
            std::thread::yield_now();
        }
        ready.store(1, Ordering::Relaxed);
        assert!(matches!(task.poll(), Poll::Ready(Err(LoadError::Failed(error))) if *error == "no"));
        assert!(matches!(thread.join().expect("no panic"), Err(LoadError::Failed(error)) if *error == "no"));
    });
    let mut nothing = Task::new(cache.optionally_get_with_async(1, async { None }));
    assert_eq!(nothing.poll(), Poll::Ready(Ok(None)));
}
