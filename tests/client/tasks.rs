//! What clients of the library do, and what must hold of what they saw. They append to lists, and have a bank, pairs
//! that must not be overdrawn, and a register that only grows. The lists make a history; all else is judged as it is
//! seen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_client::{Client, CommitId, End, Error, Level, Transaction};
use forebay_workload::checkers::{Event, Op, Outcome};

pub const LISTS: u64 = 8;
pub const ACCOUNTS: u64 = 6;
pub const PAIRS: u64 = 3;
const BALANCE_FIRST: i64 = 100;

/// What all clients of a run know of it.
pub struct Notes {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    tick: AtomicU64,
    element: AtomicU64,
    /// What the register is at least, by an answer that a client has had.
    register: AtomicI64,
    history: Mutex<Vec<Event>>,
    /// Those that have not ended, by when they began.
    underway: Mutex<BTreeMap<u64, Event>>,
    /// Is told of each when it begins, and when it has ended.
    told: Box<dyn Fn(&Event) + Send + Sync>,
}

/// A session, and what it has seen.
pub struct Worker {
    pub client: Client,
    /// It tells sessions apart.
    pub number: u32,
    pub level: Level,
    pub random: fastrand::Rng,
    /// What it saw of the register last.
    seen: i64,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Fate {
    Committed,
    Failed(String),
    Unknown(CommitId),
}

impl Notes {
    /// `clock`: nanoseconds since the run began.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Notes {
        let (tick, element, register) = (AtomicU64::new(0), AtomicU64::new(1), AtomicI64::new(0));
        let (history, underway) = Default::default();
        let told = Box::new(|_: &Event| {});
        Notes { clock: Box::new(clock), tick, element, register, history, underway, told }
    }

    /// Likewise of one of several processes: its elements begin with `first`, and `told` is told of each transaction.
    #[allow(dead_code, reason = "one of two test targets has several processes")]
    pub fn of_process(self, first: u64, told: impl Fn(&Event) + Send + Sync + 'static) -> Notes {
        Notes { element: AtomicU64::new(first), told: Box::new(told), ..self }
    }

    /// Nanoseconds since the run began; all differ.
    pub fn tick(&self) -> u64 {
        let now = (self.clock)();
        let later = |last: u64| Some(now.max(last + 1));
        self.tick.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).map_or(now, |last| now.max(last + 1))
    }

    /// An element that no other list has.
    pub fn element(&self) -> u64 {
        self.element.fetch_add(1, Ordering::SeqCst)
    }

    /// Adds a transaction that has ended, when it is known how.
    pub fn enter(&self, event: Event) {
        (self.told)(&event);
        self.underway().remove(&event.invoked);
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// All that were added, and those whose clients are gone: they may have committed.
    pub fn history(&self) -> Vec<Event> {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
        history.extend(self.underway().values().cloned());
        history
    }

    fn underway(&self) -> MutexGuard<'_, BTreeMap<u64, Event>> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How `answer` says that a transaction ended.
pub fn fate<T>(answer: &Result<T, Error>) -> Fate {
    match answer {
        Ok(_) => Fate::Committed,
        Err(Error::Unknown { id, .. }) => Fate::Unknown(*id),
        Err(Error::Lost { .. } | Error::Connect { .. } | Error::Contention { .. }) => Fate::Failed("LOST".into()),
        Err(other) => panic!("{other}"),
    }
}

/// Brings the keys into their first state.
pub async fn prepare(client: &Client) -> Result<(), Error> {
    let body = async |tx: Transaction| {
        (0..ACCOUNTS).try_for_each(|n| tx.set(format!("account:{n}"), BALANCE_FIRST.to_string()))?;
        (0..2 * PAIRS).try_for_each(|n| tx.set(format!("pair:{n}"), "10"))
    };
    client.transaction(body).await
}

impl Worker {
    pub fn new(client: Client, number: u32, level: Level, seed: u64) -> Worker {
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number.into()));
        Worker { client, number, level, random, seen: 0 }
    }

    /// Does something; a transaction on lists is given back, for the history.
    pub async fn step(&mut self, notes: &Notes) -> Option<(Event, Fate)> {
        match self.random.u8(..8) {
            0..4 => return Some(self.lists(notes).await),
            4 => self.transfer().await,
            5 => audit(&self.client).await,
            6 => self.pairs().await,
            _ => self.registers(notes).await,
        }
        None
    }

    /// Reads lists and appends to them.
    pub async fn lists(&mut self, notes: &Notes) -> (Event, Fate) {
        let reads_only = self.random.u8(..3) > 0;
        let mut ops = Vec::new();
        for _ in 0..self.random.usize(1..=4) {
            let key = self.random.u64(..LISTS);
            ops.push(match reads_only || self.random.bool() {
                true => Op::List { key, elements: Vec::new() },
                false => Op::Append { key, element: notes.element(), length: None },
            });
        }
        let (invoked, last) = (notes.tick(), AtomicU64::new(0));
        let writes: Vec<Op> = ops.iter().filter(|op| matches!(op, Op::Append { .. })).cloned().collect();
        let (outcome, completed) = (Outcome::Unknown("its client is gone".into()), u64::MAX - invoked);
        let begun = Event { client: self.number, name: "lists", invoked, completed, ops: writes.clone(), outcome };
        (notes.told)(&begun);
        notes.underway().insert(invoked, begun.clone());
        let body = async |tx: Transaction| {
            let seen = listed(&tx, &ops).await;
            last.store(notes.tick(), Ordering::SeqCst);
            seen
        };
        let answer = self.client.transaction(body).await;
        if reads_only {
            notes.underway().remove(&invoked);
        }
        // A bound counts back from the end of the body's last run.
        let is_bounded = reads_only && matches!(self.level, Level::Bounded(_));
        let invoked = if is_bounded { last.into_inner() } else { invoked };
        let fate = fate(&answer);
        // What it read is not known where only its outcome is.
        let (ops, completed, outcome) = (answer.unwrap_or(writes), notes.tick(), Outcome::Committed);
        (Event { invoked, completed, ops, outcome, ..begun }, fate)
    }

    async fn transfer(&mut self) {
        let (from, to) = (self.random.u64(..ACCOUNTS), self.random.u64(..ACCOUNTS));
        let amount = self.random.i64(1..20);
        let body = async |tx: Transaction| {
            let balance = tx.get_integer(format!("account:{from}")).await?.expect("it is there");
            if balance >= amount {
                tx.add(format!("account:{from}"), -amount)?;
                tx.add(format!("account:{to}"), amount)?;
            }
            Ok::<(), Error>(())
        };
        allowed(self.client.transaction(body).await);
    }

    /// Takes from one of two while both together have enough: their sum never falls below 0.
    async fn pairs(&mut self) {
        let pair = self.random.u64(..PAIRS);
        let names = [2 * pair, 2 * pair + 1].map(|n| format!("pair:{n}"));
        let (from, amount, looks) = (self.random.usize(..2), self.random.i64(1..15), self.random.bool());
        let body = async |tx: Transaction| {
            let mut sum = 0;
            for name in &names {
                sum += tx.get_integer(name).await?.expect("it is there");
            }
            match sum >= amount {
                _ if looks => {}
                true => tx.add(&names[from], -amount)?,
                false => names.iter().try_for_each(|name| tx.set(name, "10"))?,
            }
            Ok::<i64, Error>(sum)
        };
        match self.client.transaction(body).await {
            Ok(sum) => assert!(sum >= 0, "write skew: {sum}"),
            Err(error) => allowed(Err(error)),
        }
    }

    /// A register only grows. A session sees no less than it has seen. A strict transaction sees no less than was
    /// answered to any client before it began.
    async fn registers(&mut self, notes: &Notes) {
        let (before, writes) = (notes.register.load(Ordering::SeqCst), self.random.bool());
        let invoked = notes.tick();
        let body = async |tx: Transaction| {
            let number = tx.get_integer("register").await?.unwrap_or(0);
            if writes {
                tx.set("register", (number + 1).to_string())?;
            }
            Ok::<i64, Error>(number + i64::from(writes))
        };
        match self.client.transaction(body).await {
            Ok(number) => {
                notes.register.fetch_max(number, Ordering::SeqCst);
                let least = match self.level {
                    Level::Strict => before + i64::from(writes),
                    Level::Session => self.seen + i64::from(writes),
                    Level::Bounded(_) if writes => before + 1,
                    Level::Bounded(_) => 0,
                };
                let (completed, outcome) = (notes.tick(), Outcome::Committed);
                let mut ops = vec![Op::Read { key: 0, value: number }];
                ops.extend(writes.then_some(Op::Add { key: 0, delta: 1 }));
                (notes.told)(&Event { client: self.number, name: "register", invoked, completed, ops, outcome });
                assert!(number >= least, "{:?}: the register is {number}, and was {least}", self.level);
                self.seen = number;
            }
            Err(error) => allowed(Err(error)),
        }
    }
}

async fn listed(tx: &Transaction, ops: &[Op]) -> Result<Vec<Op>, Error> {
    let mut seen = Vec::new();
    for op in ops {
        seen.push(match op {
            Op::Append { key, element, .. } => {
                tx.push(format!("list:{key}"), End::Right, element.to_string())?;
                op.clone()
            }
            Op::List { key, .. } | Op::Read { key, .. } | Op::Add { key, .. } => {
                let list = tx.list(format!("list:{key}")).await?;
                let number = |element: &forebay_client::Blob| {
                    std::str::from_utf8(element).expect("UTF-8").parse().expect("a number")
                };
                Op::List { key: *key, elements: list.iter().map(number).collect() }
            }
        });
    }
    Ok(seen)
}

/// All keys once more, when no client is at work: part of the history.
pub async fn last_look(client: &Client, notes: &Notes) {
    look_at_lists(client, notes).await;
    audit(client).await;
}

/// Likewise of the lists alone.
pub async fn look_at_lists(client: &Client, notes: &Notes) {
    let ops: Vec<Op> = (0..LISTS).map(|key| Op::List { key, elements: Vec::new() }).collect();
    let invoked = notes.tick();
    let ops = client.transaction(async |tx: Transaction| listed(&tx, &ops).await).await.expect("it is read");
    let outcome = Outcome::Committed;
    notes.enter(Event { client: 1, name: "last look", invoked, completed: notes.tick(), ops, outcome });
}

fn allowed(answer: Result<(), Error>) {
    match fate(&answer) {
        Fate::Committed | Fate::Failed(_) | Fate::Unknown(_) => {}
    }
}

/// The sum is what it was at the beginning, and no account is overdrawn. A body that sees another sum fails: its error
/// must never come out.
async fn audit(client: &Client) {
    let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let body = async |tx: Transaction| {
        let mut balances = Vec::new();
        tx.get_many(&names).await?;
        for name in &names {
            balances.push(tx.get_integer(name).await?.expect("it is there"));
        }
        let is_sound = balances.iter().sum::<i64>() == ACCOUNTS as i64 * BALANCE_FIRST;
        match is_sound && balances.iter().all(|balance| *balance >= 0) {
            true => Ok(()),
            false => Err(Error::Option { name: "accounts", why: format!("{balances:?}") }),
        }
    };
    allowed(client.transaction(body).await);
}
