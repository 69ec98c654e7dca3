//! The world explored by stateright. A state is the sequence of events that leads to it. Two are equal if all that
//! decides what comes next is equal ([`World::print`]). To know what follows from one, the world is built again and
//! lives through its events once more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use forebay::mutation::Fault;
use stateright::{Checker, HasDiscoveries, Model as _, Property};

use crate::judge::{Kind, judge};
use crate::machine::Order;
use crate::world::{Event, Setup, World, with_fault};

/// An event, and in which order the tasks run that it sets going.
pub type Chosen = (Event, Order);

#[derive(Debug)]
pub struct State {
    path: Vec<Chosen>,
    /// Hash of what decides what comes next.
    print: u64,
    /// By what stateright tells it from others.
    identity: u64,
    events: Vec<Event>,
    /// What is wrong here, if more may happen, and if not.
    wrong: Vec<Kind>,
    wrong_at_end: Vec<Kind>,
    /// Some write found no room.
    full: bool,
    next: OnceLock<Vec<Step>>,
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.identity == other.identity
    }
}

/// To another state.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    chosen: Chosen,
    next: Arc<State>,
}

#[derive(Default)]
struct Tally {
    terminal: usize,
    full: usize,
    wrong: BTreeMap<Kind, usize>,
    /// A shortest way to each kind.
    traces: BTreeMap<Kind, Vec<Chosen>>,
    prints: BTreeSet<u64>,
}

/// What stateright explores.
#[derive(Clone)]
pub struct Model {
    setup: Setup,
    fault: Option<Fault>,
    /// States are told apart by how they came about, and none has more steps behind it: nothing is merged.
    tree: Option<usize>,
    tally: Arc<Mutex<Tally>>,
}

/// What was found.
pub struct Found {
    pub states: usize,
    pub terminal: usize,
    /// States in which a write has found no room.
    pub full: usize,
    pub wrong: BTreeMap<Kind, usize>,
    /// What decides what comes next, of each state.
    pub prints: BTreeSet<u64>,
    traces: BTreeMap<Kind, Vec<Chosen>>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.identity.hash(hasher);
    }
}

impl Model {
    pub fn new(setup: Setup) -> Model {
        Model { setup, fault: None, tree: None, tally: Arc::default() }
    }

    /// Likewise with a rule left out.
    pub fn without(self, fault: Fault) -> Model {
        Model { fault: Some(fault), ..self }
    }

    /// Likewise without merging states, up to so many steps.
    pub fn unmerged(self, steps_max: usize) -> Model {
        Model { tree: Some(steps_max), ..self }
    }

    /// Goes through all states, or with a rule left out to the first violation.
    pub fn explore(self) -> Found {
        let (tally, broken) = (Arc::clone(&self.tally), self.fault.is_some());
        let until = if broken { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
        let checker = self.checker().finish_when(until).spawn_bfs().join();
        let tally = std::mem::take(&mut *tally.lock().unwrap());
        Found {
            states: checker.unique_state_count(),
            terminal: tally.terminal,
            full: tally.full,
            wrong: tally.wrong,
            prints: tally.prints,
            traces: tally.traces,
        }
    }

    /// The state behind `path`, and whether the last event left a choice of what runs first.
    fn live(&self, path: Vec<Chosen>) -> (State, bool) {
        let lived = with_fault(self.fault, || {
            catch_unwind(AssertUnwindSafe(|| {
                let mut world = World::new(self.setup);
                let chose = path.iter().fold(false, |_, (event, order)| world.happen(*event, *order));
                let (print, events, full) = (world.print(), world.events(), world.book().full > 0);
                let wrong_at_end = judge(&world, true);
                let end = [Kind::Lost, Kind::Orphan, Kind::Unanswered];
                let wrong = wrong_at_end.iter().copied().filter(|kind| !end.contains(kind)).collect();
                (print, events, wrong, wrong_at_end, full, chose)
            }))
        });
        let (print, events, wrong, wrong_at_end, full, chose) = lived.unwrap_or_else(|panic| {
            assert!(self.fault.is_some(), "a sound core panicked: {panic:?} after {path:?}");
            (format!("{path:?}"), Vec::new(), vec![Kind::Panic], vec![Kind::Panic], false, false)
        });
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        let print = hash(&print);
        let identity = if self.tree.is_some() { hash(&format!("{path:?}")) } else { print };
        let next = OnceLock::new();
        (State { path, print, identity, events, wrong, wrong_at_end, full, next }, chose)
    }

    /// What is wrong when the events of `path` happen, as far as they can.
    pub fn wrong_behind(&self, path: &[Chosen]) -> Vec<Kind> {
        let mut lived = Vec::new();
        for chosen in path {
            let (state, _) = self.live(lived.clone());
            if !state.events.contains(&chosen.0) {
                break;
            }
            lived.push(*chosen);
        }
        self.live(lived).0.wrong
    }

    fn next<'a>(&self, state: &'a State) -> &'a [Step] {
        state.next.get_or_init(|| {
            let mut steps = Vec::new();
            if self.tree.is_some_and(|steps_max| state.path.len() >= steps_max) {
                return steps;
            }
            for event in &state.events {
                let mut go = |order| {
                    let mut path = state.path.clone();
                    path.push((*event, order));
                    let (next, chose) = self.live(path);
                    steps.push(Step { chosen: (*event, order), next: Arc::new(next) });
                    chose
                };
                if go(Order::First) {
                    go(Order::Last);
                }
            }
            steps
        })
    }

    /// Counts a state, and whether all is well in it.
    fn is_well(&self, state: &State) -> bool {
        let ends = self.tree.is_some_and(|steps_max| state.path.len() >= steps_max);
        let terminal = !ends && self.next(state).iter().all(|step| step.next.print == state.print);
        let wrong = if terminal { &state.wrong_at_end } else { &state.wrong };
        let mut tally = self.tally.lock().unwrap();
        tally.terminal += usize::from(terminal);
        tally.full += usize::from(state.full);
        tally.prints.insert(state.print);
        for kind in wrong {
            *tally.wrong.entry(*kind).or_default() += 1;
            tally.traces.entry(*kind).or_insert_with(|| state.path.clone());
        }
        // Without a fault the exploration goes on to its end, and counts.
        wrong.is_empty() || self.fault.is_none()
    }
}

impl stateright::Model for Model {
    type State = Arc<State>;
    type Action = Step;

    fn init_states(&self) -> Vec<Arc<State>> {
        vec![Arc::new(self.live(Vec::new()).0)]
    }

    fn actions(&self, state: &Arc<State>, actions: &mut Vec<Step>) {
        actions.extend_from_slice(self.next(state));
    }

    fn next_state(&self, _: &Arc<State>, step: Step) -> Option<Arc<State>> {
        Some(step.next)
    }

    fn properties(&self) -> Vec<Property<Model>> {
        vec![Property::always("nothing breaks its word", |model, state: &Arc<State>| model.is_well(state))]
    }
}

impl Found {
    /// The way to the first violation that was met.
    pub fn trace(&self) -> Option<&[Chosen]> {
        self.traces.values().min_by_key(|path| path.len()).map(Vec::as_slice)
    }

    /// A shortest way to each kind of violation.
    pub fn traces(&self) -> String {
        let mut text = String::new();
        for (kind, path) in &self.traces {
            text += &format!("  {kind:?}, in {} steps\n", path.len());
            for (event, order) in path {
                let last = if *order == Order::Last { ", last first" } else { "" };
                text += &format!("    {event:?}{last}\n");
            }
        }
        text
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} terminal, {} full, {:?}", self.states, self.terminal, self.full, self.wrong)
    }
}
