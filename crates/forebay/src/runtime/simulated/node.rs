//! Nodes of a simulated world: what runs on one of them has its clocks, waits while it is paused, and ends with it.
//!
//! **Invariant.** A task of a paused node is not polled until the pause is over. Timers go on, and messages arrive. The
//! tasks that they wake run after the pause. A task of a killed node is not polled again. A handle of the node's former
//! life starts no task.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::{Handle, Runtime, START_MS, World};

/// Drift below which a clock would stand still, or go back.
const DRIFT_PPM_MIN: i64 = -900_000;

/// The clocks of a node, by the time of the world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    /// So much the wall clock is ahead.
    pub offset_us: i64,
    /// So much more each clock shows after a second.
    pub drift_ppm: i64,
}

impl Clocks {
    /// What the monotonic clock shows.
    pub fn elapsed_us(self, now_us: u64) -> u64 {
        let drifted = i128::from(now_us) * i128::from(self.drift_ppm.max(DRIFT_PPM_MIN)) / 1_000_000;
        u64::try_from(i128::from(now_us) + drifted).unwrap_or(u64::MAX)
    }

    /// What the wall clock shows.
    pub fn wall_us(self, now_us: u64) -> u64 {
        (START_MS * 1000).saturating_add(self.elapsed_us(now_us)).saturating_add_signed(self.offset_us)
    }

    /// The first moment at which the monotonic clock shows at least `elapsed_us`.
    pub fn world_us(self, elapsed_us: u64) -> u64 {
        if self.drift_ppm == 0 {
            return elapsed_us;
        }
        let rate = u128::try_from(1_000_000 + self.drift_ppm.max(DRIFT_PPM_MIN)).unwrap_or(1);
        let mut at_us = u64::try_from(u128::from(elapsed_us) * 1_000_000 / rate).unwrap_or(u64::MAX);
        while at_us > 0 && self.elapsed_us(at_us - 1) >= elapsed_us {
            at_us -= 1;
        }
        while at_us < u64::MAX && self.elapsed_us(at_us) < elapsed_us {
            at_us += 1;
        }
        at_us
    }
}

/// What the world knows of a node.
#[derive(Default)]
pub(super) struct OnNode {
    pub clocks: Clocks,
    /// How often it was killed.
    pub life: u64,
    pub paused_until_us: u64,
    /// Tasks that can run when the pause is over.
    pub held: Vec<u64>,
}

/// A node; clones are one node.
#[derive(Clone)]
pub struct Node {
    world: Weak<World>,
    number: usize,
}

impl Node {
    pub(super) fn new(world: &Arc<World>, clocks: Clocks) -> Node {
        let mut state = world.lock();
        state.nodes.push(OnNode { clocks, ..OnNode::default() });
        Node { world: Arc::downgrade(world), number: state.nodes.len() - 1 }
    }

    /// The handle that code on this node gets. It is of no use any more once the node was killed: what runs afterwards
    /// gets another.
    pub fn runtime(&self) -> Runtime {
        let life = self.world.upgrade().map_or(0, |world| world.lock().nodes[self.number].life);
        Runtime::new(Handle { world: self.world.clone(), node: self.number, life })
    }

    /// Its number: the first node of a world has 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Sets the wall clock forward, or back.
    pub fn jump(&self, by_us: i64) {
        let Some(world) = self.world.upgrade() else { return };
        let mut state = world.lock();
        state.note(by_us as u64);
        let clocks = &mut state.nodes[self.number].clocks;
        clocks.offset_us = clocks.offset_us.saturating_add(by_us);
    }

    /// Polls none of its tasks until the world's clock shows `at`. A pause that is on is not shortened.
    pub fn pause_until(&self, at: Duration) {
        let Some(world) = self.world.upgrade() else { return };
        let (at_us, mut state) = (at.as_micros() as u64, world.lock());
        state.note(at_us);
        let tasks = &state.tasks;
        let is_here = |id: &u64| tasks.get(id).is_some_and(|task| task.node == self.number);
        let (mut held, ready) = state.ready.iter().copied().partition(is_here);
        state.ready = ready;
        let node = &mut state.nodes[self.number];
        node.paused_until_us = node.paused_until_us.max(at_us);
        node.held.append(&mut held);
        let timer = (at_us, state.new_id());
        let goes_on = GoesOn(self.clone());
        state.timers.insert(timer, Waker::from(Arc::new(goes_on)));
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.world.upgrade().is_some_and(|world| {
            let state = world.lock();
            state.now_us < state.nodes[self.number].paused_until_us
        })
    }

    /// Drops all its tasks, in the order in which they began. Another life begins with the next [`Node::runtime`].
    pub fn kill(&self) {
        let Some(world) = self.world.upgrade() else { return };
        let tasks: Vec<_> = {
            let mut state = world.lock();
            state.note(self.number as u64);
            let node = &mut state.nodes[self.number];
            node.life += 1;
            node.paused_until_us = 0;
            node.held.clear();
            let on_it = state.tasks.iter().filter(|(_, task)| task.node == self.number);
            let ids: Vec<u64> = on_it.map(|(id, _)| *id).collect();
            state.ready.retain(|id| !ids.contains(id));
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect()
        };
        // Outside the lock: what a task drops may wake others, or try to start one.
        drop(tasks);
    }

    /// What was held goes on, unless the pause was made longer.
    fn go_on(&self) {
        let Some(world) = self.world.upgrade() else { return };
        let mut state = world.lock();
        if state.now_us >= state.nodes[self.number].paused_until_us {
            let held = std::mem::take(&mut state.nodes[self.number].held);
            held.into_iter().for_each(|id| state.wake(id));
        }
    }
}

/// The end of a pause.
struct GoesOn(Node);

impl Wake for GoesOn {
    fn wake(self: Arc<GoesOn>) {
        self.0.go_on();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{Ended, Simulation};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

    /// Notes the world's time each ms, until the node is killed.
    async fn ticks(log: Log, number: u64, world: Runtime, node: Runtime) {
        loop {
            node.sleep(MS).await;
            log.lock().unwrap().push((number, world.elapsed()));
        }
    }

    #[test]
    fn clocks_differ_drift_and_jump() {
        let simulation = Simulation::new(1);
        let (world, fast) = (simulation.runtime(), simulation.node(5_000, 200));
        let slow = simulation.node(-5_000, -200);
        let ended = simulation.run(async move {
            let runtime = fast.runtime();
            assert_eq!(runtime.now_us(), world.now_us() + 5_000);
            world.sleep(Duration::from_secs(100)).await;
            assert_eq!(runtime.elapsed(), Duration::from_micros(100_020_000));
            assert_eq!(runtime.now_us(), world.now_us() + 25_000);
            assert_eq!(slow.runtime().now_us(), world.now_us() - 25_000);
            fast.jump(-3_600_000_000);
            assert_eq!(runtime.now_ms(), world.now_ms() + 25 - 3_600_000);
            assert_eq!(runtime.elapsed(), Duration::from_micros(100_020_000), "it never goes back");
            // It sleeps by its clock: less than a second of the world's.
            runtime.sleep(Duration::from_secs(1)).await;
            assert_eq!(world.elapsed(), Duration::from_micros(100_999_801));
        });
        assert_eq!(ended, Ended::Done);
    }

    #[test]
    fn a_sleep_ends_at_the_first_moment_that_its_clock_allows() {
        for drift_ppm in [-1_000_000, -333_333, -200, -1, 0, 1, 7, 200, 1_000_000] {
            let clocks = Clocks { offset_us: 0, drift_ppm };
            for elapsed_us in (0..2000).chain(10_000_000_000..10_000_000_050) {
                let at_us = clocks.world_us(elapsed_us);
                assert!(clocks.elapsed_us(at_us) >= elapsed_us, "{drift_ppm} {elapsed_us}");
                assert!(at_us == 0 || clocks.elapsed_us(at_us - 1) < elapsed_us, "{drift_ppm} {elapsed_us}");
            }
        }
    }

    #[test]
    fn a_paused_node_does_nothing_and_then_goes_on() {
        let simulation = Simulation::new(1);
        let (world, log) = (simulation.runtime(), Log::default());
        let nodes = [simulation.node(0, 0), simulation.node(0, 0)];
        let seen = log.clone();
        let ended = simulation.run(async move {
            for (number, node) in (0..).zip(&nodes) {
                node.runtime().spawn(ticks(log.clone(), number, world.clone(), node.runtime()));
            }
            world.sleep(10 * MS).await;
            nodes[0].pause_until(50 * MS);
            nodes[0].pause_until(30 * MS);
            // What begins on a paused node begins after the pause.
            let (log, late, on) = (log.clone(), world.clone(), nodes[0].runtime());
            on.spawn(async move { log.lock().unwrap().push((9, late.elapsed())) });
            assert!(nodes[0].is_paused() && !nodes[1].is_paused());
            world.sleep(50 * MS).await;
            nodes.iter().for_each(Node::kill);
            world.sleep(50 * MS).await;
        });
        assert_eq!(ended, Ended::Done);
        let seen = seen.lock().unwrap();
        let of = |number| seen.iter().filter(move |(of, _)| *of == number).map(|(_, at)| *at);
        let between = |number, from: Duration, to: Duration| of(number).filter(|at| *at > from && *at < to).count();
        assert_eq!((between(0, 10 * MS, 50 * MS), between(1, 10 * MS, 50 * MS)), (0, 39));
        assert_eq!(of(0).find(|at| *at > 10 * MS), Some(50 * MS), "its timer fires afterwards");
        assert_eq!(of(9).collect::<Vec<_>>(), [50 * MS]);
        assert!(between(0, 50 * MS, 61 * MS) > 5);
        assert!(seen.iter().all(|(_, at)| *at <= 60 * MS), "killed");
    }

    /// What is ordered of nodes is part of the log.
    #[test]
    fn one_seed_is_one_run() {
        let log = |seed: u64, order: fn(&Node)| {
            let simulation = Simulation::new(seed);
            let (world, log, node) = (simulation.runtime(), Log::default(), simulation.node(7, -150));
            let ended = simulation.run(async move {
                node.runtime().spawn(ticks(log.clone(), 0, world.clone(), node.runtime()));
                world.sleep(5 * MS).await;
                order(&node);
                world.sleep(20 * MS).await;
            });
            (ended, simulation.log_hash())
        };
        let orders: [fn(&Node); 4] = [|_| {}, |node| node.jump(1), |node| node.pause_until(9 * MS), Node::kill];
        let logs = orders.map(|order| log(3, order));
        assert_eq!(logs, orders.map(|order| log(3, order)));
        assert!((1..4).all(|at| !logs[..at].contains(&logs[at])), "{logs:?}");
    }

    /// Starts a task when it is dropped.
    struct StartsMore(Runtime, Log);

    impl Drop for StartsMore {
        fn drop(&mut self) {
            let (log, at) = (self.1.clone(), self.0.elapsed());
            log.lock().unwrap().push((0, at));
            self.0.spawn(async move { log.lock().unwrap().push((1, at)) });
        }
    }

    #[test]
    fn a_killed_node_drops_its_tasks_and_starts_none_until_its_next_life() {
        let simulation = Simulation::new(1);
        let (world, log, node) = (simulation.runtime(), Log::default(), simulation.node(0, 0));
        let seen = log.clone();
        let ended = simulation.run(async move {
            let former = node.runtime();
            let guard = StartsMore(former.clone(), log.clone());
            former.spawn(async move {
                let _guard = guard;
                std::future::pending().await
            });
            // A task may kill the node that it runs on: it makes no further step.
            let (here, own, on) = (node.clone(), log.clone(), former.clone());
            former.spawn(async move {
                on.sleep(MS).await;
                here.kill();
                on.sleep(MS).await;
                own.lock().unwrap().push((2, on.elapsed()));
            });
            world.sleep(10 * MS).await;
            let later = log.clone();
            former.spawn(async move { later.lock().unwrap().push((3, MS)) });
            node.runtime().spawn(async move { log.lock().unwrap().push((4, MS)) });
            world.sleep(10 * MS).await;
        });
        assert_eq!(ended, Ended::Done);
        assert_eq!(seen.lock().unwrap().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 4]);
    }
}
