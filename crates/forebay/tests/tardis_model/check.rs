//! A protocol under budgets of faults, explored by stateright.

use std::fmt;
use std::sync::{Arc, Mutex};

use stateright::{Checker, Model as _, Path, Property};

use crate::state::{Actor, At, IDLE, Kind, Local, Numbers, Protocol, START, State, Violations};
use crate::{corrected, paper};

/// What may go wrong, and how many take part.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Store writes that are answered by a timeout and are, or will be, applied.
    pub ambiguous: u8,
    /// Leases that end under a holder that goes on.
    pub expiries: u8,
    /// Actors that stop in the middle.
    pub crashes: u8,
    /// Each writes once.
    pub writers: u8,
    /// Recovery workers.
    pub workers: u8,
    /// A writer starts when the one before it was acknowledged.
    pub sequential: bool,
}

/// One step of one actor, or of the world.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub actor: Option<Actor>,
    pub what: &'static str,
    pub next: State,
}

/// Wrong answers to a read that misses the cache, by how it merges what is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// The whole queue.
    pub whole_queue: usize,
    /// What has a token above the document's.
    pub above_token: usize,
}

#[derive(Default)]
struct Tally {
    terminal: usize,
    violations: Violations,
    readers: Readers,
}

/// What stateright explores.
#[derive(Clone)]
pub struct Model {
    protocol: Protocol,
    budget: Budget,
    tally: Arc<Mutex<Tally>>,
}

/// What was found.
pub struct Found {
    pub states: usize,
    pub terminal: usize,
    pub violations: Violations,
    pub readers: Readers,
    traces: Vec<(Kind, Path<State, Step>)>,
}

/// Never false, so the exploration goes on to its end; it sees every state once and counts.
const COUNTED: &str = "every state is counted";
const KINDS: [(Kind, &str); 4] =
    [(Kind::Lost, "LOST"), (Kind::Duplicate, "DUP"), (Kind::Orphan, "ORPHAN"), (Kind::Order, "ORDER")];

impl Model {
    pub fn new(protocol: Protocol, budget: Budget) -> Model {
        Model { protocol, budget, tally: Arc::default() }
    }

    /// Goes through all states.
    pub fn explore(self) -> Found {
        let tally = Arc::clone(&self.tally);
        let checker = self.checker().spawn_bfs().join();
        let traces = KINDS.iter().filter_map(|(kind, name)| Some((*kind, checker.discovery(name)?))).collect();
        let tally = tally.lock().unwrap();
        Found {
            states: checker.unique_state_count(),
            terminal: tally.terminal,
            violations: tally.violations,
            readers: tally.readers,
            traces,
        }
    }

    fn steps(&self, state: State, out: &mut Vec<Step>) {
        let mut world = |what, next| out.push(Step { actor: None, what, next });
        if state.up {
            for (payload, flights) in state.flights.landings() {
                world("a store write lands late", State { flights, ..state.apply(payload) });
            }
        } else {
            world("the store comes up", State { up: true, ..state });
        }
        self.leases_end(state, out);
        for index in 0..self.budget.writers {
            self.writer(state, index, out);
        }
        for index in 0..self.budget.workers {
            self.worker(state, index, out);
        }
    }

    /// A lease may expire under its holder; that of a crashed holder does in any case.
    fn leases_end(&self, state: State, out: &mut Vec<Step>) {
        let crashed = |holder| state.place(holder).0 == At::Crashed;
        let mut end = |holder: Option<Actor>, ended: State| {
            if holder.is_some() && state.expiries > 0 {
                let next = State { expiries: state.expiries - 1, ..ended };
                out.push(Step { actor: holder, what: "loses its lease, which expires", next });
            }
            if holder.is_some_and(crashed) {
                out.push(Step { actor: holder, what: "is gone, its lease expires", next: ended });
            }
        };
        end(state.lease, State { lease: None, ..state });
        end(state.tele_lease, State { tele_lease: None, ..state });
    }

    fn writer(&self, state: State, index: u8, out: &mut Vec<Step>) {
        let (at, _) = state.writers[index as usize];
        let waits = || {
            let before = index - 1;
            !state.acknowledged.contains(before) && state.writers[before as usize].0 != At::Crashed
        };
        if matches!(at, At::Done | At::Crashed) || at == At::Start && self.budget.sequential && index > 0 && waits() {
            return;
        }
        match self.protocol {
            Protocol::Corrected => corrected::writer(state, index, out),
            protocol => paper::writer(protocol, state, index, out),
        }
        if state.crashes > 0 && at != At::Start {
            let next = State { crashes: state.crashes - 1, ..state }.writer(index, At::Crashed, Local::Nothing);
            out.push(Step { actor: Some(Actor::Writer(index)), what: "crashes", next });
        }
    }

    fn worker(&self, state: State, index: u8, out: &mut Vec<Step>) {
        match self.protocol {
            Protocol::Corrected => corrected::worker(state, index, out),
            protocol => paper::worker(protocol, state, index, out),
        }
        if state.crashes > 0 && state.workers[index as usize] != IDLE {
            let me = Actor::Worker(index);
            let without = State { crashes: state.crashes - 1, ..state }.release(me);
            let tele_lease = without.tele_lease.filter(|holder| *holder != me);
            let next = State { tele_lease, ..without }.worker(index, At::Idle, Local::Nothing);
            out.push(Step { actor: Some(me), what: "crashes, another takes its place", next });
        }
    }

    /// Nothing changes any more.
    fn is_terminal(&self, state: State) -> bool {
        let mut steps = Vec::new();
        self.steps(state, &mut steps);
        steps.iter().all(|step| step.next == state)
    }

    fn count(&self, state: &State) -> bool {
        let mut tally = self.tally.lock().unwrap();
        if self.is_terminal(*state) {
            tally.terminal += 1;
            tally.violations.add(state.violations(self.budget.writers));
        }
        if state.up && self.protocol == Protocol::Corrected {
            let queued = |above: u8| {
                let waiting = state.queue.pairs().filter(|(_, token)| *token > above).map(|(id, _)| id);
                state.store.and(Numbers::of(waiting))
            };
            let twice = |seen: Numbers| seen.iter().any(|id| seen.count(id) > 1);
            let (whole, above) = (queued(0), queued(state.store_token));
            let missing = state.acknowledged.iter().any(|id| above.count(id) != 1);
            tally.readers.whole_queue += usize::from(twice(whole));
            tally.readers.above_token += usize::from(missing || twice(above));
        }
        true
    }

    /// Whether `kind` is still to be found: the first that breadth-first search meets has the shortest trace.
    fn holds(&self, kind: Kind, state: &State) -> bool {
        let here = state.violations(self.budget.writers);
        let count = |violations: Violations| violations.by_kind().into_iter().find(|(one, _)| *one == kind);
        let of_kind = |violations| count(violations).map_or(0, |(_, count)| count);
        let found = of_kind(here) > 0 && self.is_terminal(*state);
        // This state was counted just before.
        !found || of_kind(self.tally.lock().unwrap().violations) > of_kind(here)
    }
}

impl stateright::Model for Model {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            store: Numbers::default(),
            store_token: 0,
            up: false,
            flights: Default::default(),
            ambiguous: self.budget.ambiguous,
            expiries: self.budget.expiries,
            crashes: self.budget.crashes,
            delta: None,
            dirty: false,
            tele: false,
            snapshot: None,
            uids: 0,
            tele_lease: None,
            lease: None,
            queue: Numbers::default(),
            fence: 0,
            token: 0,
            writers: [START; 3],
            workers: [IDLE; 2],
            acknowledged: Numbers::default(),
            started: Numbers::default(),
            order: Numbers::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        self.steps(*state, actions);
    }

    fn next_state(&self, _: &State, step: Step) -> Option<State> {
        Some(step.next)
    }

    fn properties(&self) -> Vec<Property<Model>> {
        vec![
            Property::always(COUNTED, Model::count),
            Property::always(KINDS[0].1, |model, state| model.holds(Kind::Lost, state)),
            Property::always(KINDS[1].1, |model, state| model.holds(Kind::Duplicate, state)),
            Property::always(KINDS[2].1, |model, state| model.holds(Kind::Orphan, state)),
            Property::always(KINDS[3].1, |model, state| model.holds(Kind::Order, state)),
        ]
    }
}

impl Found {
    pub fn has_trace(&self, kind: Kind) -> bool {
        self.traces.iter().any(|(one, _)| *one == kind)
    }

    /// Whether on the way to `kind` a store write takes something out of the document that was there.
    pub fn unwrites(&self, kind: Kind) -> bool {
        let stores = |path: &Path<State, Step>| path.clone().into_states().into_iter().map(|state| state.store);
        let shrinks = |path| {
            let stores = stores(path).collect::<Vec<_>>();
            stores.windows(2).any(|pair| pair[0].iter().any(|id| !pair[1].contains(id)))
        };
        self.traces.iter().any(|(one, path)| *one == kind && shrinks(path))
    }

    /// A shortest way to each kind of violation.
    pub fn traces(&self) -> String {
        let mut text = String::new();
        for (kind, path) in &self.traces {
            let steps = path.clone().into_actions();
            let end = path.last_state();
            text += &format!("  {kind:?}, in {} steps; the store then holds {:?}\n", steps.len(), end.store);
            for step in steps {
                let who = match step.actor {
                    None => "world".to_owned(),
                    Some(Actor::Writer(index)) => format!("writer {index}"),
                    Some(Actor::Worker(index)) => format!("worker {index}"),
                };
                text += &format!("    {who:9} {}\n", step.what);
            }
        }
        text
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violations { lost, duplicate, orphan, order } = self.violations;
        write!(f, "{} states, {} terminal, ", self.states, self.terminal)?;
        write!(f, "LOST {lost}, DUP {duplicate}, ORPHAN {orphan}, ORDER {order}")
    }
}
