//! A seeded runtime for simulations: one thread, virtual time, and a random choice of the task that runs next. One
//! seed is one run: nothing here asks the machine for anything.
//!
//! Time stands still while any task can run, then jumps to the earliest timer. So an hour of waiting costs nothing,
//! and a run in which no task can ever run again ends at once with [`Ended::Stuck`]. So does one that goes on for
//! three hours: what looks again and again for what never comes would go on for ever.
//!
//! A world may have nodes ([`node`]): each has clocks that differ from others', and can be paused or killed. What they
//! say to each other goes over a [`network`].

pub mod network;
pub mod node;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;

use self::node::{Clocks, Node, OnNode};
use super::{Backend, Runtime};

/// Wall clock at the start of every simulation, ms since the Unix epoch.
pub const START_MS: u64 = 1_700_000_000_000;

/// Longest time that blocking work takes in virtual time, in microseconds.
const BLOCKING_US_MAX: u64 = 300;

/// Virtual time after which a run is stuck, in microseconds.
const RUN_US_MAX: u64 = 3 * 3600 * 1_000_000;

/// A simulated world; drop it to end all its tasks.
pub struct Simulation {
    world: Arc<World>,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The main future is done.
    Done,
    /// No task can run and no timer is set, or three hours are over, but the main future is not done.
    Stuck,
    /// It was stopped dead, as by a crash.
    Stopped,
}

struct World {
    state: Mutex<State>,
}

struct State {
    now_us: u64,
    /// Until when the run may last.
    until_us: u64,
    random: SplitMix,
    next_id: u64,
    tasks: BTreeMap<u64, Task>,
    /// Tasks that can run; those of paused nodes wait in their nodes.
    ready: Vec<u64>,
    /// The first is the world itself.
    nodes: Vec<OnNode>,
    timers: BTreeMap<(u64, u64), Waker>,
    steps: u64,
    /// Hash of all that was chosen and of what was noted, in order.
    log: u64,
}

struct Task {
    /// The node that it runs on.
    node: usize,
    /// `None` in the middle of a step.
    future: Option<BoxFuture<'static, ()>>,
}

impl State {
    fn draw(&mut self) -> u64 {
        let drawn = self.random.draw();
        self.note(drawn);
        drawn
    }

    fn note(&mut self, event: u64) {
        self.log = (self.log.rotate_left(23) ^ event).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A task can go on: now, or when its node does.
    fn wake(&mut self, id: u64) {
        let Some(task) = self.tasks.get(&id) else { return };
        let node = &mut self.nodes[task.node];
        let line = if self.now_us < node.paused_until_us { &mut node.held } else { &mut self.ready };
        if !line.contains(&id) {
            line.push(id);
        }
    }
}

/// The generator of all of a simulation's choices (splitmix64).
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

impl Simulation {
    /// A world in which every choice follows from `seed`.
    pub fn new(seed: u64) -> Simulation {
        let state = State {
            now_us: 0,
            until_us: 0,
            random: SplitMix::new(seed),
            next_id: 0,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            nodes: vec![OnNode::default()],
            timers: BTreeMap::new(),
            steps: 0,
            log: 0,
        };
        Simulation { world: Arc::new(World { state: Mutex::new(state) }) }
    }

    /// The handle that code under simulation gets.
    pub fn runtime(&self) -> Runtime {
        Runtime::new(Handle { world: Arc::downgrade(&self.world), node: 0, life: 0 })
    }

    /// A new node. Its wall clock is `offset_us` off the world's. Both of its clocks gain `drift_ppm` us in a second.
    pub fn node(&self, offset_us: i64, drift_ppm: i64) -> Node {
        Node::new(&self.world, Clocks { offset_us, drift_ppm })
    }

    /// Tasks polled so far: a figure that two runs of one seed must agree on.
    pub fn steps(&self) -> u64 {
        self.world.lock().steps
    }

    /// Hash of the log of events so far: which task ran when, and every number drawn.
    pub fn log_hash(&self) -> u64 {
        self.world.lock().log
    }

    /// The tasks of this world, for code that lets others come in between in the middle of a step.
    pub fn others(&self) -> Others {
        Others(Arc::downgrade(&self.world))
    }

    /// Runs `main`, and whatever it starts, until `main` is done or nothing can run.
    pub fn run(&self, main: impl Future<Output = ()> + Send + 'static) -> Ended {
        self.run_to_step(u64::MAX, main)
    }

    /// The same, but stops dead once so many steps were made in all.
    pub fn run_to_step(&self, steps_max: u64, main: impl Future<Output = ()> + Send + 'static) -> Ended {
        self.run_until(|steps| steps >= steps_max, main)
    }

    /// The same, but stops dead as soon as `stops` says so, which is asked before each step with the steps so far.
    pub fn run_until(
        &self,
        mut stops: impl FnMut(u64) -> bool,
        main: impl Future<Output = ()> + Send + 'static,
    ) -> Ended {
        let main = self.world.spawn(0, 0, Box::pin(main));
        {
            let mut state = self.world.lock();
            state.until_us = state.now_us + RUN_US_MAX;
        }
        loop {
            if stops(self.steps()) {
                return Ended::Stopped;
            }
            let Some(id) = self.world.choose() else { return Ended::Stuck };
            self.world.poll(id);
            if !self.world.lock().tasks.contains_key(&main) {
                return Ended::Done;
            }
        }
    }
}

/// Tasks that are not in the middle of a step.
pub struct Others(Weak<World>);

impl Others {
    /// Has some of them make at most so many steps, in no time, now and then: as other threads would. Ends as soon as
    /// none can run.
    pub fn run(&self, steps_max: u64) {
        let Some(world) = self.0.upgrade() else { return };
        let steps = world.lock().draw() % (steps_max + 1);
        for _ in 0..steps {
            let Some(id) = world.choose_other() else { return };
            world.poll(id);
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Outside the lock: dropping a task may wake others.
        let tasks = std::mem::take(&mut self.world.lock().tasks);
        drop(tasks);
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task on a node; on one that was killed since, nothing begins any more.
    fn spawn(&self, node: usize, life: u64, future: BoxFuture<'static, ()>) -> u64 {
        let mut state = self.lock();
        let id = state.new_id();
        if state.nodes[node].life == life {
            state.tasks.insert(id, Task { node, future: Some(future) });
            state.wake(id);
        } else {
            drop(state);
            drop(future);
        }
        id
    }

    /// The next task to run; time goes on to the next timer if none can run now.
    fn choose(&self) -> Option<u64> {
        loop {
            let mut state = self.lock();
            if !state.ready.is_empty() {
                let bound = state.ready.len() as u64;
                let index = (state.draw() % bound) as usize;
                return Some(state.ready.swap_remove(index));
            }
            let ((at, _), waker) = state.timers.pop_first().filter(|((at, _), _)| *at <= state.until_us)?;
            state.now_us = state.now_us.max(at);
            drop(state);
            waker.wake();
        }
    }

    /// A task that can run and is not in the middle of a step.
    fn choose_other(&self) -> Option<u64> {
        let mut state = self.lock();
        let idle =
            |(at, id): (usize, &u64)| state.tasks.get(id).is_some_and(|task| task.future.is_some()).then_some(at);
        let ready: Vec<usize> = state.ready.iter().enumerate().filter_map(idle).collect();
        if ready.is_empty() {
            return None;
        }
        let at = ready[(state.draw() % ready.len() as u64) as usize];
        Some(state.ready.swap_remove(at))
    }

    fn poll(self: &Arc<World>, id: u64) {
        let task = {
            let mut state = self.lock();
            state.steps += 1;
            let now_us = state.now_us;
            state.note(id);
            state.note(now_us);
            state.tasks.get_mut(&id).and_then(|task| task.future.take())
        };
        let Some(mut task) = task else { return };
        let waker = Waker::from(Arc::new(TaskWaker { world: Arc::downgrade(self), id }));
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            drop(task);
            self.lock().tasks.remove(&id);
        } else if let Some(slot) = self.lock().tasks.get_mut(&id) {
            slot.future = Some(task);
        }
    }
}

struct TaskWaker {
    world: Weak<World>,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        if let Some(world) = self.world.upgrade() {
            world.lock().wake(self.id);
        }
    }
}

/// What runs on one node, from its start to its end.
struct Handle {
    world: Weak<World>,
    node: usize,
    life: u64,
}

impl Handle {
    /// The node's clocks, and the world's time.
    fn clocks(&self) -> (Clocks, u64) {
        self.world.upgrade().map_or((Clocks::default(), 0), |world| {
            let state = world.lock();
            (state.nodes[self.node].clocks, state.now_us)
        })
    }
}

impl Backend for Handle {
    fn now_us(&self) -> u64 {
        let (clocks, now_us) = self.clocks();
        clocks.wall_us(now_us)
    }

    fn elapsed(&self) -> Duration {
        let (clocks, now_us) = self.clocks();
        Duration::from_micros(clocks.elapsed_us(now_us))
    }

    fn random(&self) -> u64 {
        self.world.upgrade().map_or(0, |world| world.lock().draw())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (world, (clocks, now_us)) = (self.world.clone(), self.clocks());
        let at_us = clocks.world_us(clocks.elapsed_us(now_us).saturating_add(duration.as_micros() as u64));
        Box::pin(Sleep { world, at_us, timer: None })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some(world) = self.world.upgrade() {
            world.spawn(self.node, self.life, task);
        }
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let delay = Duration::from_micros(self.random() % (BLOCKING_US_MAX + 1));
        let sleep = self.sleep(delay);
        Box::pin(async move {
            sleep.await;
            work();
        })
    }
}

struct Sleep {
    world: Weak<World>,
    at_us: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
        let Some(world) = self.world.upgrade() else { return Poll::Pending };
        let mut state = world.lock();
        if state.now_us >= self.at_us {
            return Poll::Ready(());
        }
        if let Some(old) = self.timer.take() {
            state.timers.remove(&old);
        }
        let timer = (self.at_us, state.new_id());
        state.timers.insert(timer, context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(timer), Some(world)) = (self.timer, self.world.upgrade()) {
            world.lock().timers.remove(&timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tasks that sleep random times; the order in which they finish is the run's fingerprint.
    fn fingerprint(seed: u64) -> (Vec<u64>, u64, u64) {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (main_log, main_runtime) = (log.clone(), runtime.clone());
        let ended = simulation.run(async move {
            for id in 0..3 {
                let (log, runtime) = (main_log.clone(), main_runtime.clone());
                main_runtime.spawn(async move {
                    for _ in 0..4 {
                        runtime.sleep(Duration::from_micros(runtime.random() % 50)).await;
                        log.lock().unwrap().push(id);
                    }
                });
            }
            main_runtime.sleep(Duration::from_secs(3600)).await;
        });
        assert_eq!(ended, Ended::Done);
        let order = log.lock().unwrap().clone();
        (order, simulation.steps(), runtime.now_ms())
    }

    #[test]
    fn one_seed_is_one_run() {
        assert_eq!(fingerprint(7), fingerprint(7));
        assert!((0..20).any(|seed| fingerprint(seed).0 != fingerprint(seed + 1).0));
        assert_eq!(fingerprint(7).2, START_MS + 3_600_000);
    }

    #[test]
    fn a_run_that_cannot_go_on_says_so() {
        let simulation = Simulation::new(1);
        assert_eq!(simulation.run(std::future::pending()), Ended::Stuck);
    }

    #[test]
    fn blocking_work_answers() {
        let simulation = Simulation::new(1);
        let runtime = simulation.runtime();
        let ended = simulation.run(async move {
            assert_eq!(runtime.blocking(|| 6 * 7).await, 42);
        });
        assert_eq!(ended, Ended::Done);
    }
}
