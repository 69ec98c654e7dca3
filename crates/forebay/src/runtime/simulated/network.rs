//! A simulated network: connections between the nodes of a world, whose bytes are late, cut off, or lost with them.
//!
//! Bytes of one connection stay in order; those of two overtake each other. What is written is split at random places,
//! and each piece has its own delay. A way from one host to another can be closed for a while, while the way back is
//! open: what is sent then arrives afterwards. A connection can be cut. What is under way is lost with it. Each end is
//! told so, or is told nothing and waits.
//!
//! **Invariant.** What an end reads is a beginning of what the other wrote, in its order. Nothing arrives before the
//! moment that was drawn for it. All draws are the world's, so one seed is one run.

mod pipe;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use self::pipe::Pipe;
pub use self::stream::Stream;
use super::Simulation;
use super::node::Node;
use crate::runtime::Runtime;

/// What the network is like.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// A usual delay is between these.
    pub delay_us: (u64, u64),
    /// Of 1,000 pieces so many are late.
    pub late_per_mille: u64,
    /// A late piece takes at most so long.
    pub late_us_max: u64,
    /// Bytes under way in one direction of a connection at most; at least 1.
    pub room_bytes: usize,
    /// What is written at once is split into at most so many pieces.
    pub pieces_max: u64,
    /// An end that was told nothing when its connection was cut is told of it after so long: its machine has asked.
    pub silence: Duration,
}

impl Default for Conditions {
    /// 50 to 1,000 us, 3 % up to 25 ms; two minutes of silence.
    fn default() -> Conditions {
        Conditions {
            delay_us: (50, 1000),
            late_per_mille: 30,
            late_us_max: 25_000,
            room_bytes: 16 << 10,
            pieces_max: 3,
            silence: Duration::from_secs(120),
        }
    }
}

/// What an end of a connection that was cut is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// That it was reset.
    Reset,
    /// Nothing, until it has been silent for long: what it writes is lost, and nothing comes.
    Nothing,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were made.
    pub connected: u64,
    /// Connections that were refused: none listened.
    pub refused: u64,
    /// Pieces that were sent, and those of them that were late.
    pub pieces: u64,
    /// See `pieces`.
    pub late: u64,
    /// Pieces that had to wait until a way was open again.
    pub stopped: u64,
    /// Connections that were cut.
    pub cut: u64,
    /// Bytes that were lost with them.
    pub lost_bytes: u64,
}

/// A network; clones are one network.
#[derive(Clone)]
pub struct Network {
    world: Runtime,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    conditions: Conditions,
    listeners: BTreeMap<String, Arrivals>,
    connections: BTreeMap<u64, Connection>,
    /// Ways from one host to another, and until when they are closed.
    closed_us: BTreeMap<(usize, usize), u64>,
    next: u64,
    counts: Counts,
}

/// Those that have come to one listener and are not accepted yet.
#[derive(Default)]
struct Arrivals {
    /// It changes with each listener of a name.
    number: u64,
    host: usize,
    waiting: VecDeque<Stream>,
    waker: Option<Waker>,
}

/// One connection: what its two ends have written.
struct Connection {
    hosts: [usize; 2],
    /// At `n` is what end `n` has written.
    pipes: [Pipe; 2],
    /// When the ends are told that it was cut.
    told_us: [Option<u64>; 2],
    /// Ends that are there.
    open: [bool; 2],
}

impl Network {
    /// A network of `simulation`'s world, of which no host is part yet.
    pub fn new(simulation: &Simulation, conditions: Conditions) -> Network {
        let state = State { conditions, ..State::default() };
        Network { world: simulation.runtime(), state: Arc::new(Mutex::new(state)) }
    }

    /// The part of the network that `node` sees.
    pub fn host(&self, node: &Node) -> Host {
        Host { network: self.clone(), node: node.clone() }
    }

    /// Changes what it is like, for what is sent from now on.
    pub fn set(&self, conditions: Conditions) {
        self.lock().conditions = conditions;
    }

    /// Nothing gets from one host to the other for that long; what is under way neither. The way back stays as it is.
    pub fn close(&self, from: &Host, to: &Host, length: Duration) {
        let (way, until_us) = ((from.number(), to.number()), self.now_us() + length.as_micros() as u64);
        let mut state = self.lock();
        let State { connections, closed_us, counts, .. } = &mut *state;
        let closed = closed_us.entry(way).or_default();
        *closed = until_us.max(*closed);
        for Connection { hosts, pipes, .. } in connections.values_mut() {
            for end in [0, 1] {
                if (hosts[end], hosts[1 - end]) == way {
                    counts.stopped += pipes[end].hold(*closed);
                }
            }
        }
    }

    /// Opens all ways: what is sent from now on arrives.
    pub fn open_all(&self) {
        self.lock().closed_us.clear();
    }

    /// Connections that are there, the oldest first.
    pub fn connections(&self) -> Vec<u64> {
        self.lock().connections.keys().copied().collect()
    }

    /// Cuts a connection; what is under way is lost. `told`: what its client is told, and its server.
    pub fn cut(&self, connection: u64, told: [Told; 2]) {
        let (now_us, mut state) = (self.now_us(), self.lock());
        let State { connections, counts, conditions, .. } = &mut *state;
        let Some(connection) = connections.get_mut(&connection) else { return };
        counts.cut += 1;
        let late_us = now_us + conditions.silence.as_micros() as u64;
        for (end, told) in told.into_iter().enumerate() {
            counts.lost_bytes += connection.pipes[end].lose() as u64;
            connection.told_us[end].get_or_insert(if told == Told::Reset { now_us } else { late_us });
        }
    }

    /// A host's machine is gone: all its connections are cut. `told` is what each other end is told.
    pub fn crash(&self, host: &Host, mut told: impl FnMut() -> Told) {
        let number = host.number();
        let of_it = |connection: &Connection| connection.hosts.iter().position(|host| *host == number);
        let ends: Vec<(u64, usize)> = {
            let state = self.lock();
            state.connections.iter().filter_map(|(id, connection)| Some((*id, of_it(connection)?))).collect()
        };
        for (id, end) in ends {
            let mut both = [told(); 2];
            both[end] = Told::Reset;
            self.cut(id, both);
        }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        self.world.elapsed().as_micros() as u64
    }

    /// When what goes from one host to another now arrives there.
    fn arrival_us(&self, state: &mut State, from: usize, to: usize) -> u64 {
        let draw = |bound: u64| self.world.random() % bound.max(1);
        let Conditions { delay_us: (least, most), late_per_mille, late_us_max, .. } = state.conditions;
        let late = draw(1000) < late_per_mille;
        let delay_us = if late { draw(late_us_max + 1) } else { least + draw(most.saturating_sub(least) + 1) };
        let (now_us, closed_us) = (self.now_us(), state.closed_us.get(&(from, to)).copied().unwrap_or_default());
        state.counts.pieces += 1;
        state.counts.late += u64::from(late);
        state.counts.stopped += u64::from(closed_us > now_us);
        now_us.max(closed_us) + delay_us
    }

    /// Takes one way through the network, which may be closed for a while.
    async fn travel(&self, from: usize, to: usize) {
        let at_us = self.arrival_us(&mut self.lock(), from, to);
        self.world.sleep(Duration::from_micros(at_us.saturating_sub(self.now_us()))).await;
    }
}

/// A node's part of a network; clones are one host.
#[derive(Clone)]
pub struct Host {
    network: Network,
    node: Node,
}

impl Host {
    /// The handle that code on its node gets.
    pub fn runtime(&self) -> Runtime {
        self.node.runtime()
    }

    fn number(&self) -> usize {
        self.node.number()
    }

    /// Takes connections to `name` from now on; who listened there before gets none any more.
    pub fn listen(&self, name: &str) -> Listener {
        let (number, former) = {
            let mut state = self.network.lock();
            state.next += 1;
            let number = state.next;
            let arrivals = Arrivals { number, host: self.number(), ..Arrivals::default() };
            (number, state.listeners.insert(name.to_owned(), arrivals))
        };
        // Outside the lock: it may hold streams.
        drop(former);
        Listener { network: self.network.clone(), name: name.to_owned(), number }
    }

    /// Connects to the listener at `name`.
    pub async fn connect(&self, name: &str) -> io::Result<Stream> {
        let (network, own) = (&self.network, self.number());
        let Some(to) = network.lock().listeners.get(name).map(|arrivals| arrivals.host) else {
            return self.refused(own).await;
        };
        network.travel(own, to).await;
        let made = {
            let mut state = network.lock();
            // It may listen no more.
            state.listeners.contains_key(name).then(|| state.connect(network, [own, to]))
        };
        let Some([stream, other]) = made else { return self.refused(to).await };
        let late = {
            let mut state = network.lock();
            match state.listeners.get_mut(name) {
                Some(arrivals) => {
                    arrivals.waiting.push_back(other);
                    arrivals.waker.take().into_iter().for_each(Waker::wake);
                    None
                }
                None => Some(other),
            }
        };
        drop(late);
        network.travel(to, own).await;
        Ok(stream)
    }

    /// What is said where none listens.
    async fn refused(&self, by: usize) -> io::Result<Stream> {
        self.network.travel(by, self.number()).await;
        self.network.lock().counts.refused += 1;
        Err(ErrorKind::ConnectionRefused.into())
    }
}

impl State {
    /// A connection between two hosts: its two ends.
    fn connect(&mut self, network: &Network, hosts: [usize; 2]) -> [Stream; 2] {
        self.next += 1;
        self.counts.connected += 1;
        let connection =
            Connection { hosts, pipes: [Pipe::default(), Pipe::default()], told_us: [None; 2], open: [true; 2] };
        self.connections.insert(self.next, connection);
        [0, 1].map(|end| Stream::new(network.clone(), self.next, end))
    }
}

/// Takes connections until it is dropped.
pub struct Listener {
    network: Network,
    name: String,
    number: u64,
}

impl Listener {
    /// The next connection; never, if another listens there now.
    pub async fn accept(&self) -> Stream {
        poll_fn(|context| {
            let mut state = self.network.lock();
            let arrivals = state.listeners.get_mut(&self.name).filter(|arrivals| arrivals.number == self.number);
            let Some(arrivals) = arrivals else { return Poll::Pending };
            match arrivals.waiting.pop_front() {
                Some(stream) => Poll::Ready(stream),
                None => {
                    arrivals.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let gone = {
            let mut state = self.network.lock();
            let is_own = state.listeners.get(&self.name).is_some_and(|arrivals| arrivals.number == self.number);
            if is_own { state.listeners.remove(&self.name) } else { None }
        };
        // Outside the lock: it may hold streams.
        drop(gone);
    }
}

#[cfg(test)]
mod tests;
