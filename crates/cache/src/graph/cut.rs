//! The cheapest units of a prime whose caching brings its critical length down to a target, by one minimum cut.
//!
//! It is the discrete time/cost trade-off with durations 0 and 1. Variables `start(v) >= i` and `end(v) >= i` for i
//! in 1..=target are nodes, true on the source's side. Infinite arcs say that a larger bound implies a smaller one.
//! They also say that a unit ends no sooner than it starts, and that a successor starts no sooner than its
//! predecessor ends. An arc of the unit's cost from `start(v) >= i` to `end(v) >= i + 1` is cut where the unit takes
//! no time. Then the unit is cached.

use super::shape::Prime;
use super::{VERTICES_MAX, VertexSet};

/// A cost that can't be paid.
pub(super) const NEVER: u64 = 1 << 60;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Arc {
    to: u32,
    capacity: u64,
}

#[cfg(test)]
thread_local! {
    /// Arcs that this thread has looked at, in all cuts.
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[inline]
fn count_step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// Dinic's maximum flow. Arc `2 n + 1` is the reverse of arc `2 n`.
#[derive(Default)]
struct Flow {
    arcs: Vec<Arc>,
    out: Vec<Vec<u32>>,
    level: Vec<u32>,
    next: Vec<usize>,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Flow {
    fn add(&mut self, from: usize, to: usize, capacity: u64) {
        self.out[from].push(self.arcs.len() as u32);
        self.arcs.push(Arc { to: to as u32, capacity });
        self.out[to].push(self.arcs.len() as u32);
        self.arcs.push(Arc { to: from as u32, capacity: 0 });
    }

    /// Distances from the source over arcs with room; whether the sink is reached.
    fn measure(&mut self) -> bool {
        self.level.clear();
        self.level.resize(self.out.len(), NONE);
        self.level[SOURCE] = 0;
        let mut queue = vec![SOURCE as u32];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &arc in &self.out[node as usize] {
                count_step();
                let Arc { to, capacity } = self.arcs[arc as usize];
                if capacity > 0 && self.level[to as usize] == NONE {
                    self.level[to as usize] = self.level[node as usize] + 1;
                    queue.push(to);
                }
            }
        }
        self.level[SINK] != NONE
    }

    /// One path that gets nearer to the sink with each arc; what it carries. A walk, since a recursion could be as deep
    /// as there are nodes.
    fn push(&mut self) -> u64 {
        let (mut path, mut node): (Vec<u32>, usize) = (Vec::new(), SOURCE);
        while node != SINK {
            count_step();
            let Some(&arc) = self.out[node].get(self.next[node]) else {
                // A dead end: back, and past the arc that led here.
                let Some(arc) = path.pop() else { return 0 };
                node = self.arcs[(arc ^ 1) as usize].to as usize;
                self.next[node] += 1;
                continue;
            };
            let Arc { to, capacity } = self.arcs[arc as usize];
            if capacity > 0 && self.level[to as usize] == self.level[node] + 1 {
                path.push(arc);
                node = to as usize;
            } else {
                self.next[node] += 1;
            }
        }
        let flow = path.iter().map(|&arc| self.arcs[arc as usize].capacity).min().unwrap_or(0);
        for arc in path {
            self.arcs[arc as usize].capacity -= flow;
            self.arcs[(arc ^ 1) as usize].capacity += flow;
        }
        flow
    }

    /// The maximum flow, or [`NEVER`] if it is as much.
    fn run(&mut self) -> u64 {
        let mut flow = 0;
        while self.measure() {
            self.next.clear();
            self.next.resize(self.out.len(), 0);
            loop {
                let pushed = self.push();
                if pushed == 0 {
                    break;
                }
                flow += pushed;
                if flow >= NEVER {
                    return NEVER;
                }
            }
        }
        flow
    }
}

/// What caching a unit costs: 0 if it takes no time anyhow, [`NEVER`] if it may not be cached.
pub(super) type Costs<'a> = &'a dyn Fn(u16) -> u64;

/// The least cost, and the places in `prime.units` that have to be cached (none of cost 0 among them); `None` if
/// nothing helps.
pub(super) fn cheapest(prime: &Prime, target: usize, cost: Costs<'_>) -> Option<(u64, VertexSet)> {
    let count = prime.units.len();
    let node = |of: usize, i: usize| match i {
        0 => SOURCE,
        i if i > target => SINK,
        i => 2 + of * target + i - 1,
    };
    let (start, end) = (|v: usize, i: usize| node(2 * v, i), |v: usize, i: usize| node(2 * v + 1, i));
    let mut flow = Flow { out: vec![Vec::new(); 2 + 2 * count * target], ..Flow::default() };
    let costs: Vec<u64> = prime.units.iter().map(|&unit| cost(unit)).collect();
    for (v, &cost) in costs.iter().enumerate() {
        for i in 1..=target {
            if i < target {
                flow.add(start(v, i + 1), start(v, i), NEVER);
                flow.add(end(v, i + 1), end(v, i), NEVER);
            }
            flow.add(start(v, i), end(v, i), NEVER);
        }
        if cost > 0 {
            (0..=target).for_each(|i| flow.add(start(v, i), end(v, i + 1), cost));
        }
    }
    for &(from, to) in &prime.edges {
        (1..=target).for_each(|i| flow.add(end(usize::from(from), i), start(usize::from(to), i), NEVER));
    }
    let total = flow.run();
    if total >= NEVER {
        return None;
    }
    let last = |node: &dyn Fn(usize) -> usize| (1..=target).rfind(|&i| flow.level[node(i)] != NONE).unwrap_or(0);
    let mut cached = VertexSet::EMPTY;
    for v in (0..count.min(VERTICES_MAX)).filter(|&v| costs[v] > 0) {
        if last(&|i| end(v, i)) <= last(&|i| start(v, i)) {
            cached.insert(v);
        }
    }
    Some((total, cached))
}
