//! A runtime without chance. Tasks run until none can, in one of two orders. Time passes and the disk works only when
//! they are told to.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use forebay::runtime::{Backend, Runtime};
use futures_channel::oneshot;
use futures_util::future::BoxFuture;

/// Of the tasks that are ready at once, which one runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that is ready longest.
    First,
    /// The one that became ready last.
    Last,
}

/// Work on the disk, and what waits for it.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    done: oneshot::Sender<()>,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<u64, Option<BoxFuture<'static, ()>>>,
    ready: VecDeque<u64>,
    timers: BTreeMap<(u64, u64), Waker>,
    jobs: VecDeque<Job>,
    now_us: u64,
    next_id: u64,
    drawn: u64,
}

/// The machine; what runs on it ends when it is dropped.
pub struct Machine(Arc<Mutex<State>>);

/// More tasks in a row than any step needs.
const TASKS_MAX: usize = 10_000;

impl Machine {
    pub fn new() -> Machine {
        Machine(Arc::default())
    }

    pub fn runtime(&self) -> Runtime {
        Runtime::new(Handle(Arc::downgrade(&self.0)))
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.0, Box::pin(task));
    }

    /// Runs what is ready until nothing is. Whether there ever was a choice.
    pub fn run(&self, order: Order) -> bool {
        let mut chose = false;
        for _ in 0..TASKS_MAX {
            let id = {
                let mut state = lock(&self.0);
                chose |= state.ready.len() > 1;
                match order {
                    Order::First => state.ready.pop_front(),
                    Order::Last => state.ready.pop_back(),
                }
            };
            match id {
                Some(id) => self.poll(id),
                None => return chose,
            }
        }
        panic!("tasks run without an end and wait for nothing");
    }

    fn poll(&self, id: u64) {
        let task = lock(&self.0).tasks.get_mut(&id).and_then(Option::take);
        let Some(mut task) = task else { return };
        let waker = Waker::from(Arc::new(TaskWaker { state: Arc::downgrade(&self.0), id }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(task);
            lock(&self.0).tasks.remove(&id);
        } else if let Some(slot) = lock(&self.0).tasks.get_mut(&id) {
            *slot = Some(task);
        }
    }

    /// Jobs of the disk that wait.
    pub fn jobs(&self) -> usize {
        lock(&self.0).jobs.len()
    }

    /// The disk does its first job; whoever waits hears of it, unless it is `unheard`.
    pub fn work(&self, unheard: bool) {
        let Some(job) = lock(&self.0).jobs.pop_front() else { return };
        (job.work)();
        if !unheard {
            let _ = job.done.send(());
        }
    }

    /// How long each timer still runs, ascending, in microseconds.
    pub fn timers(&self) -> Vec<u64> {
        let state = lock(&self.0);
        state.timers.keys().map(|(at, _)| at - state.now_us).collect()
    }

    /// Time passes until the first timer ends.
    pub fn pass(&self) {
        let mut state = lock(&self.0);
        let Some(((at, _), waker)) = state.timers.pop_first() else { return };
        state.now_us = at;
        drop(state);
        waker.wake();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Outside the lock: what is dropped wakes others and takes its timers back.
        let (tasks, jobs) = {
            let mut state = lock(&self.0);
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.jobs))
        };
        drop((tasks, jobs));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn spawn(state: &Mutex<State>, task: BoxFuture<'static, ()>) {
    let mut state = lock(state);
    let id = state.next_id;
    state.next_id += 1;
    state.tasks.insert(id, Some(task));
    state.ready.push_back(id);
}

struct TaskWaker {
    state: Weak<Mutex<State>>,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        let Some(state) = self.state.upgrade() else { return };
        let mut state = lock(&state);
        if state.tasks.contains_key(&self.id) && !state.ready.contains(&self.id) {
            state.ready.push_back(self.id);
        }
    }
}

struct Handle(Weak<Mutex<State>>);

impl Handle {
    fn with<T: Default>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        self.0.upgrade().map_or_else(T::default, |state| look(&mut lock(&state)))
    }
}

impl Backend for Handle {
    fn now_us(&self) -> u64 {
        1_700_000_000_000_000
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.with(|state| state.now_us))
    }

    fn random(&self) -> u64 {
        self.with(|state| {
            state.drawn += 1;
            state.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let at_us = (self.elapsed() + duration).as_micros() as u64;
        Box::pin(Sleep { state: self.0.clone(), at_us, timer: None })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some(state) = self.0.upgrade() {
            spawn(&state, task);
        }
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (done, wait) = oneshot::channel();
        self.with(|state| state.jobs.push_back(Job { work, done }));
        Box::pin(async move {
            if wait.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

struct Sleep {
    state: Weak<Mutex<State>>,
    at_us: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
        let Some(state) = self.state.upgrade() else { return Poll::Pending };
        let mut state = lock(&state);
        if state.now_us >= self.at_us {
            return Poll::Ready(());
        }
        if let Some(old) = self.timer.take() {
            state.timers.remove(&old);
        }
        let timer = (self.at_us, state.next_id);
        state.next_id += 1;
        state.timers.insert(timer, context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(timer), Some(state)) = (self.timer, self.state.upgrade()) {
            lock(&state).timers.remove(&timer);
        }
    }
}
