//! List-append: transactions append unique elements to lists and read whole lists.
//!
//! The order of all writes to a key can be read from the key itself, so the version order is known and not guessed.
//! The version of a list is its length. A history becomes [`history::Record`]s that [`check_serializable`] judges in
//! linear time. An append tells the length too, so it counts as a read of what was there before.
//!
//! A list can't tell all. Elements whose append was acknowledged but that no later read shows come after everything
//! that was seen, in an order that is not known. Each gets a separate key in the records (see [`Unseen`]).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::txn::history::{self, check_serializable};
use forebay::{Key, Version};
use futures_util::future::BoxFuture;

use super::transact::{self, begin, call, commit, script};
use super::{Attempt, Event, Op, Outcome, Stopped, Summary, Violation, Workload};
use crate::client::{Client, ClientError, refused};

/// Elements of a list after which its place is taken by a new, empty one, so that reads stay small.
const ELEMENTS_MAX: u64 = 128;

/// Operations of one transaction at most.
const OPS_MAX: usize = 4;

/// Elements that an append's length may tell of beyond what is known; more is no length that a list can have.
const GAP_MAX: usize = 1 << 20;

/// The workload.
pub struct ListAppend {
    prefix: String,
    /// Per place, how many appends it has had.
    appends: Vec<AtomicU64>,
    next_element: AtomicU64,
}

impl ListAppend {
    /// Lists in `places` places; few make many conflicts. `prefix` must be new to the server: the lists under it are
    /// taken to be empty.
    pub fn new(prefix: &str, places: usize) -> ListAppend {
        let appends = (0..places.max(1)).map(|_| AtomicU64::new(0)).collect();
        ListAppend { prefix: prefix.to_owned(), appends, next_element: AtomicU64::new(1) }
    }

    fn key(&self, key: u64) -> String {
        format!("{}:{key}", self.prefix)
    }

    /// The list in a place; `append`: one that is to get one more element.
    fn list_in(&self, place: usize, append: bool) -> u64 {
        let appends = match append {
            true => self.appends[place].fetch_add(1, Ordering::Relaxed),
            false => self.appends[place].load(Ordering::Relaxed),
        };
        appends / ELEMENTS_MAX * self.appends.len() as u64 + place as u64
    }

    /// The operations of one transaction, with nothing seen yet.
    fn plan(&self, random: &mut fastrand::Rng) -> Vec<Op> {
        let count = random.usize(1..=OPS_MAX);
        let append = |_| {
            let (place, append) = (random.usize(..self.appends.len()), random.bool());
            let key = self.list_in(place, append);
            match append {
                true => {
                    let element = self.next_element.fetch_add(1, Ordering::Relaxed);
                    Op::Append { key, element, length: None }
                }
                false => Op::List { key, elements: Vec::new() },
            }
        };
        (0..count).map(append).collect()
    }

    fn command(&self, op: &Op) -> Vec<String> {
        match op {
            Op::Append { key, element, .. } => vec!["RPUSH".to_owned(), self.key(*key), element.to_string()],
            Op::List { key, .. } | Op::Read { key, .. } | Op::Add { key, .. } => {
                transact::command(["LRANGE", &self.key(*key), "0", "-1"])
            }
        }
    }

    async fn attempt(
        &self,
        client: &mut Client,
        random: &mut fastrand::Rng,
        attempt: &mut Attempt,
    ) -> Result<(), Stopped> {
        let plan = self.plan(random);
        let reads_only = plan.iter().all(|op| matches!(op, Op::List { .. }));
        match random.u8(..3) {
            0 if plan.len() == 1 => {
                attempt.name = "plain";
                attempt.submitted = true;
                note_writes(&plan, attempt);
                let reply = call(client, &self.command(&plan[0])).await?;
                attempt.ops = vec![seen(&plan[0], &reply)?];
                Ok(())
            }
            1 => {
                attempt.name = "multi";
                note_writes(&plan, attempt);
                let commands: Vec<_> = plan.iter().map(|op| self.command(op)).collect();
                let replies = script(client, attempt, &commands).await?;
                attempt.ops = plan.iter().zip(&replies).map(|(op, reply)| seen(op, reply)).collect::<Result<_, _>>()?;
                Ok(())
            }
            _ => {
                attempt.name = if reads_only { "txn readonly" } else { "txn" };
                begin(client, attempt, if reads_only { &["READONLY"] } else { &[] }).await?;
                for op in &plan {
                    let at = attempt.ops.len();
                    note_writes(std::slice::from_ref(op), attempt);
                    let reply = call(client, &self.command(op)).await?;
                    attempt.ops.truncate(at);
                    attempt.ops.push(seen(op, &reply)?);
                }
                commit(client, attempt).await
            }
        }
    }
}

/// Notes the appends that are about to be sent: they may be seen even if their replies are not.
fn note_writes(plan: &[Op], attempt: &mut Attempt) {
    attempt.ops.extend(plan.iter().filter(|op| matches!(op, Op::Append { .. })).cloned());
}

/// The operation with what its reply told.
fn seen(op: &Op, reply: &forebay_protocol::Reply) -> Result<Op, Stopped> {
    match op {
        Op::Append { key, element, .. } => {
            let length = transact::number("RPUSH", reply)?;
            let length = u64::try_from(length).map_err(|_| refused("RPUSH", reply))?;
            Ok(Op::Append { key: *key, element: *element, length: Some(length) })
        }
        Op::List { key, .. } | Op::Read { key, .. } | Op::Add { key, .. } => {
            let elements = transact::numbers("LRANGE", reply)?;
            let elements: Result<_, _> = elements.into_iter().map(u64::try_from).collect();
            Ok(Op::List { key: *key, elements: elements.map_err(|_| refused("LRANGE", reply))? })
        }
    }
}

impl Workload for ListAppend {
    fn name(&self) -> &'static str {
        "list-append"
    }

    fn setup<'a>(&'a self, client: &'a mut Client) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            for place in 0..self.appends.len() as u64 {
                let reply = client.demand(&["EXISTS", &self.key(place)]).await?;
                if reply != forebay_protocol::Reply::Integer(0) {
                    return Err(refused("EXISTS of a list that must be new", &reply));
                }
            }
            Ok(())
        })
    }

    fn step<'a>(
        &'a self,
        client: &'a mut Client,
        random: &'a mut fastrand::Rng,
        attempt: &'a mut Attempt,
    ) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(self.attempt(client, random, attempt))
    }

    fn finish<'a>(&'a self, client: &'a mut Client, attempt: &'a mut Attempt) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(async move {
            attempt.name = "last look";
            let lists = self.appends.iter().enumerate().flat_map(|(place, appends)| {
                let places = self.appends.len() as u64;
                (0..=appends.load(Ordering::Relaxed) / ELEMENTS_MAX).map(move |round| round * places + place as u64)
            });
            let plan: Vec<Op> = lists.map(|key| Op::List { key, elements: Vec::new() }).collect();
            for op in &plan {
                client.queue(&self.command(op));
            }
            // Nobody else is there any more, so that these reads need no transaction around them.
            for (op, reply) in plan.iter().zip(client.replies().await?) {
                attempt.ops.push(seen(op, &transact::judge("LRANGE", reply)?)?);
            }
            Ok(())
        })
    }

    fn check(&self, history: &[Event]) -> Result<Summary, Violation> {
        check(history)
    }
}

/// Judges a history, twice where the feature `cross-check` is on: both must find it strictly serializable.
pub fn check(history: &[Event]) -> Result<Summary, Violation> {
    let ours = strictly_serializable(history);
    #[cfg(feature = "cross-check")]
    match (&ours, super::cross_check::strictly_serializable(history)) {
        (Ok(()), Err(theirs)) => {
            return Err(Violation::new(format!("our check passes, but adya does not: {theirs}")));
        }
        (Err(ours), Ok(())) => {
            return Err(Violation::new(format!("{ours} (adya, which sees no lengths of appends, passes)")));
        }
        _ => {}
    }
    ours.map(|()| Summary::of(history))
}

/// Whether the committed transactions of a history, and those of unknown outcome of which something was seen, could
/// have run one after the other, in an order that agrees with real time.
pub fn strictly_serializable(history: &[Event]) -> Result<(), Violation> {
    let orders = Orders::of(history)?;
    let unseen = Unseen::of(history, &orders);
    let happened = |event: &&Event| event.committed() || orders.shows(event);
    let records: Result<Vec<_>, _> =
        history.iter().filter(happened).map(|event| record(event, &orders, &unseen)).collect();
    let mut records = records?;
    records.extend(orders.holes().map(|(key, position)| hole(key, position)));
    check_serializable(&records, true, false).map_err(|anomaly| Violation::new(anomaly.to_string()))
}

/// What a transaction saw of one list before its own appends to it.
struct Base {
    length: u64,
    own: Vec<u64>,
}

impl Base {
    /// Walks the operations of one transaction; tells `each` the lengths of lists that others wrote and it saw.
    fn walk(event: &Event, mut each: impl FnMut(u64, u64)) -> Result<(), Violation> {
        let mut bases: HashMap<u64, Base> = HashMap::new();
        for op in &event.ops {
            match op {
                Op::Append { key, element, length } => {
                    let base = bases.entry(*key).or_insert(Base { length: 0, own: Vec::new() });
                    base.own.push(*element);
                    if let Some(length) = length {
                        let before = length.checked_sub(base.own.len() as u64);
                        base.length = before.ok_or_else(|| internal(event, op, &base.own))?;
                        each(*key, base.length);
                    }
                }
                Op::List { key, elements } => {
                    let base = bases.entry(*key).or_insert(Base { length: 0, own: Vec::new() });
                    let before = elements.strip_suffix(base.own.as_slice());
                    base.length = before.ok_or_else(|| internal(event, op, &base.own))?.len() as u64;
                    each(*key, base.length);
                }
                Op::Read { .. } | Op::Add { .. } => {}
            }
        }
        Ok(())
    }
}

fn internal(event: &Event, op: &Op, own: &[u64]) -> Violation {
    Violation::new(format!("{} does not see its own appends {own:?} in {op:?}", event.title()))
}

/// The order of the elements of each list, and who appended what.
struct Orders {
    /// Per list, its elements in order; `None` where only the length of a later append tells that there is one.
    orders: HashMap<u64, Vec<Option<u64>>>,
    positions: HashMap<(u64, u64), u64>,
}

impl Orders {
    fn of(history: &[Event]) -> Result<Orders, Violation> {
        let mut writers: HashMap<(u64, u64), &Event> = HashMap::new();
        for (event, key, element, _) in appends(history.iter()) {
            if let Some(other) = writers.insert((key, element), event) {
                let (one, two) = (other.title(), event.title());
                return Err(Violation::new(format!("{one} and {two} both append {element} to {key}")));
            }
        }
        let mut orders = longest(history)?;
        for (key, order) in &orders {
            known(*key, order, &writers)?;
        }
        for (event, key, element, length) in appends(history.iter().filter(|event| event.committed())) {
            let Some(length) = length else { continue };
            place(orders.entry(key).or_default(), event, element, length)?;
        }
        let mut positions = HashMap::new();
        for (key, order) in &orders {
            let elements = order.iter().enumerate();
            positions.extend(elements.filter_map(|(at, element)| Some(((*key, (*element)?), at as u64 + 1))));
        }
        let orders = Orders { orders, positions };
        orders.fillable(history)?;
        Ok(orders)
    }

    /// Positions of elements of which nothing is known but that they are there.
    fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.orders.iter().flat_map(|(key, order)| {
            order.iter().zip(1..).filter(|(element, _)| element.is_none()).map(|(_, position)| (*key, position))
        })
    }

    /// There must be an append without a position for each element of which nothing is known.
    fn fillable(&self, history: &[Event]) -> Result<(), Violation> {
        let mut left: HashMap<u64, usize> = HashMap::new();
        for (_, key, element, _) in appends(history.iter().filter(|event| event.committed() || event.unknown())) {
            *left.entry(key).or_default() += usize::from(self.position(key, element).is_none());
        }
        for (key, position) in self.holes() {
            let left = left.entry(key).or_default();
            let none =
                || Violation::new(format!("list {key} has an element at {position} that nobody can have put there"));
            *left = left.checked_sub(1).ok_or_else(none)?;
        }
        Ok(())
    }

    /// Where an element stands in its list, from 1.
    fn position(&self, key: u64, element: u64) -> Option<u64> {
        self.positions.get(&(key, element)).copied()
    }

    /// Whether somebody saw something of what `event` did.
    fn shows(&self, event: &Event) -> bool {
        event.unknown() && appends([event]).any(|(_, key, element, _)| self.position(key, element).is_some())
    }

    fn length(&self, key: u64) -> u64 {
        self.orders.get(&key).map_or(0, |order| order.len() as u64)
    }
}

/// All appends: who, list, element, length afterwards.
fn appends<'a>(
    events: impl IntoIterator<Item = &'a Event>,
) -> impl Iterator<Item = (&'a Event, u64, u64, Option<u64>)> {
    events.into_iter().flat_map(|event| {
        event.ops.iter().filter_map(move |op| match op {
            Op::Append { key, element, length } => Some((event, *key, *element, *length)),
            _ => None,
        })
    })
}

/// The longest committed read of each list; all others must be its beginnings.
fn longest(history: &[Event]) -> Result<HashMap<u64, Vec<Option<u64>>>, Violation> {
    let mut longest: HashMap<u64, (&Event, &[u64])> = HashMap::new();
    let reads = || {
        history.iter().filter(|event| event.committed()).flat_map(|event| {
            event.ops.iter().filter_map(move |op| match op {
                Op::List { key, elements } => Some((event, *key, elements.as_slice())),
                _ => None,
            })
        })
    };
    for (event, key, elements) in reads() {
        let best = longest.entry(key).or_insert((event, elements));
        if elements.len() > best.1.len() {
            *best = (event, elements);
        }
    }
    for (event, key, elements) in reads() {
        let (other, whole) = longest[&key];
        if !whole.starts_with(elements) {
            let (one, two) = (event.title(), other.title());
            let why = format!("{one} saw list {key} as {elements:?}, {two} as {whole:?}: not one order");
            return Err(Violation::new(why));
        }
    }
    Ok(longest.into_iter().map(|(key, (_, whole))| (key, whole.iter().copied().map(Some).collect())).collect())
}

/// What was seen must have been appended, once, by somebody who did not fail.
fn known(key: u64, order: &[Option<u64>], writers: &HashMap<(u64, u64), &Event>) -> Result<(), Violation> {
    let mut before = HashSet::new();
    for element in order.iter().flatten() {
        if !before.insert(*element) {
            return Err(Violation::new(format!("{element} is in list {key} twice")));
        }
        match writers.get(&(key, *element)) {
            None => return Err(Violation::new(format!("{element} is in list {key}, but nobody appended it"))),
            Some(Event { outcome: Outcome::Failed(why), .. }) => {
                let writer = writers[&(key, *element)].title();
                return Err(Violation::new(format!("{element} is in list {key}, but {writer} failed: {why}")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Puts an acknowledged element where its append said it went.
fn place(order: &mut Vec<Option<u64>>, event: &Event, element: u64, length: u64) -> Result<(), Violation> {
    let wrong = |other| Violation::new(format!("{} put {element} at {length}, where {other} is", event.title()));
    let at = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
    let Some(at) = at.filter(|at| *at <= order.len() + GAP_MAX) else { return Err(wrong("nothing can be".to_owned())) };
    if order.len() <= at {
        order.resize(at + 1, None);
    }
    match order[at] {
        None => order[at] = Some(element),
        Some(other) if other == element => {}
        Some(other) => return Err(wrong(other.to_string())),
    }
    Ok(())
}

/// Elements that were certainly, or with other writes of their transaction, appended but that no order shows. All that
/// is known: they come after what was seen. Each is a key of its own in the records: whoever wrote the last seen
/// element wrote its first version, whoever saw the whole order read that, and its writer wrote its second.
struct Unseen {
    elements: HashMap<u64, Vec<u64>>,
}

impl Unseen {
    fn of(history: &[Event], orders: &Orders) -> Unseen {
        let mut elements: HashMap<u64, Vec<u64>> = HashMap::new();
        let happened = history.iter().filter(|event| event.committed() || orders.shows(event));
        for (_, key, element, _) in appends(happened) {
            if orders.position(key, element).is_none() {
                elements.entry(key).or_default().push(element);
            }
        }
        Unseen { elements }
    }

    fn keys(&self, key: u64) -> impl Iterator<Item = Key> {
        self.elements.get(&key).into_iter().flatten().map(move |element| unseen_key(key, *element))
    }
}

fn unseen_key(key: u64, element: u64) -> Key {
    Key::new(0, format!("{key} after which {element}").as_bytes())
}

fn version(length: u64) -> Version {
    match length {
        0 => Version::ZERO,
        length => Version { incarnation: 1, sequence: length },
    }
}

/// Whoever wrote an element of which nothing is known, at whatever time.
fn hole(key: u64, position: u64) -> history::Record {
    let writes = vec![(list_key(key), version(position))];
    let name = format!("somebody of unknown outcome who put element {position} into list {key}");
    history::Record { name, began: 0, ended: u64::MAX, reads: Vec::new(), writes }
}

fn list_key(key: u64) -> Key {
    Key::new(0, key.to_string().as_bytes())
}

fn record(event: &Event, orders: &Orders, unseen: &Unseen) -> Result<history::Record, Violation> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    // What a transaction of unknown outcome read may be from a run that came to nothing.
    if event.committed() {
        Base::walk(event, |key, length| {
            reads.push((list_key(key), version(length), length > 0));
            if length == orders.length(key) {
                reads.extend(unseen.keys(key).map(|unseen| (unseen, version(length.min(1)), length > 0)));
            }
        })?;
    }
    for (_, key, element, _) in appends([event]) {
        match orders.position(key, element) {
            Some(position) => {
                writes.push((list_key(key), version(position)));
                if position == orders.length(key) {
                    writes.extend(unseen.keys(key).map(|unseen| (unseen, version(1))));
                }
            }
            None => writes.push((unseen_key(key, element), version(2))),
        }
    }
    let ended = if event.committed() { event.completed } else { u64::MAX };
    Ok(history::Record { name: event.title(), began: event.invoked, ended, reads, writes })
}
