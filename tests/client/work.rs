//! Ten clients at work on lists, accounts, pairs and registers, and what they saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_client::{Client, End, Error, Leases, Level, Options, Outcome, Statistics, Transaction};
use forebay_protocol::Reply;
use forebay_workload::checkers::{self, Event, Op};

use super::judge;

const CLIENTS: u32 = 10;
const LISTS: u64 = 8;
const ACCOUNTS: u64 = 6;
const PAIRS: u64 = 3;
const BALANCE_FIRST: i64 = 100;

/// A client asks for its fate so long, while the server is away.
const PATIENCE: Duration = Duration::from_secs(20);

/// The seed of a run's choices.
pub fn seed() -> u64 {
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 % 1_000_000)
    });
    eprintln!("FOREBAY_SEED={seed} repeats the clients' choices");
    seed
}

/// One run.
pub struct Work {
    runtime: tokio::runtime::Runtime,
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    level: Level,
    seed: u64,
    began: Instant,
    tick: AtomicU64,
    element: AtomicU64,
    /// What the register is at least, by an answer that a client has had.
    register: AtomicI64,
    /// Runs that have begun.
    runs: AtomicU32,
    history: Mutex<Vec<Event>>,
    clients: Mutex<Vec<Client>>,
}

impl Shared {
    /// Nanoseconds since the run began; all differ.
    fn tick(&self) -> u64 {
        let now = self.began.elapsed().as_nanos() as u64;
        let later = |last: u64| Some(now.max(last + 1));
        self.tick.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).map_or(now, |last| now.max(last + 1))
    }

    async fn connect(&self, leases: Option<Leases>) -> Client {
        let options = Options::new(self.address.as_str()).level(self.level).cache_bytes(1 << 20);
        let options = options.reply_time_max(Duration::from_secs(2));
        let options = leases.map_or(options.clone(), |leases| options.leases(leases));
        options.connect().await.expect("the server listens")
    }
}

/// How an event ended.
enum Fate {
    Committed,
    Failed(String),
}

/// Waits until it is known what became of a transaction.
async fn fate<T>(client: &Client, answer: &Result<T, Error>) -> Fate {
    let (id, began) = match answer {
        Ok(_) => return Fate::Committed,
        Err(Error::Unknown { id, .. }) => (*id, Instant::now()),
        Err(Error::Lost { .. } | Error::Connect { .. } | Error::Contention { .. }) => {
            return Fate::Failed("LOST".into());
        }
        Err(other) => panic!("{other}"),
    };
    loop {
        match client.outcome(id).await {
            Ok(Outcome::Committed(_)) => return Fate::Committed,
            Ok(Outcome::NotKnown) => return Fate::Failed("UNKNOWN".into()),
            other => assert!(began.elapsed() < PATIENCE, "{id}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Work {
    /// Prepares the keys.
    pub fn new(address: SocketAddr, level: Level, seed: u64) -> Work {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a tokio runtime");
        let shared = Arc::new(Shared {
            address: address.to_string(),
            level,
            seed,
            began: Instant::now(),
            tick: AtomicU64::new(0),
            element: AtomicU64::new(1),
            register: AtomicI64::new(0),
            runs: AtomicU32::new(0),
            history: Mutex::default(),
            clients: Mutex::default(),
        });
        runtime.block_on(async {
            let client = shared.connect(None).await;
            let body = async |tx: Transaction| {
                (0..ACCOUNTS).try_for_each(|n| tx.set(format!("account:{n}"), BALANCE_FIRST.to_string()))?;
                (0..2 * PAIRS).try_for_each(|n| tx.set(format!("pair:{n}"), "10"))
            };
            client.transaction(body).await.expect("the keys are set");
        });
        Work { runtime, shared }
    }

    /// Has new clients work for that long, and `meanwhile` happen.
    pub fn run(&self, length: Duration, meanwhile: impl FnOnce()) {
        let until = Instant::now() + length;
        // Their numbers tell sessions apart, over all runs.
        let first = (CLIENTS + 2) * self.shared.runs.fetch_add(1, Ordering::SeqCst) + 2;
        let tasks: Vec<_> =
            (first..first + CLIENTS).map(|n| self.runtime.spawn(at_work(self.shared.clone(), n, until))).collect();
        let plain = self.runtime.spawn(plain_writer(self.shared.clone(), until));
        meanwhile();
        self.runtime.block_on(plain).unwrap_or_else(|error| panic!("seed {}: {error}", self.shared.seed));
        for task in tasks {
            self.runtime.block_on(task).unwrap_or_else(|error| panic!("seed {}: {error}", self.shared.seed));
        }
        self.runtime.block_on(last_look(&self.shared));
    }

    /// Judges the lists by the level. All else was judged as it was seen.
    pub fn judge(&self) {
        let history = self.shared.history.lock().unwrap();
        let judged = judge::at_level(&history, self.shared.level);
        judged.unwrap_or_else(|violation| panic!("seed {}: {violation}", self.shared.seed));
        judge::finds_what_is_planted(&history, self.shared.level);
    }

    /// The counts of all clients together.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        for client in self.shared.clients.lock().unwrap().iter() {
            let one = client.statistics();
            (all.fresh, all.stale) = (all.fresh + one.fresh, all.stale + one.stale);
            (all.alone, all.validated) = (all.alone + one.alone, all.validated + one.validated);
            (all.committed, all.stale_aborts) = (all.committed + one.committed, all.stale_aborts + one.stale_aborts);
            (all.lost_aborts, all.unknown) = (all.lost_aborts + one.lost_aborts, all.unknown + one.unknown);
        }
        all
    }
}

async fn at_work(shared: Arc<Shared>, number: u32, until: Instant) {
    // Some trust their copies for ever, so that checks find the most.
    let client = shared.connect(number.is_multiple_of(2).then_some(Leases::Endless)).await;
    shared.clients.lock().unwrap().push(client.clone());
    let mut random = fastrand::Rng::with_seed(shared.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number.into()));
    let mut register = 0;
    while Instant::now() < until {
        match random.u8(..8) {
            0..4 => lists(&shared, &client, number, &mut random).await,
            4 => transfer(&client, &mut random).await,
            5 => audit(&client).await,
            6 => pairs(&client, &mut random).await,
            _ => registers(&shared, &client, &mut random, &mut register).await,
        }
        // Others' turn: between what a client does and does next, the world changes.
        if random.bool() {
            tokio::time::sleep(Duration::from_micros(random.u64(..1500))).await;
        }
    }
}

/// A client without the library appends to the lists, one command at a time.
async fn plain_writer(shared: Arc<Shared>, until: Instant) {
    let mut random = fastrand::Rng::with_seed(shared.seed);
    while Instant::now() < until {
        let Ok(mut client) = forebay_workload::Client::connect(&shared.address).await else { continue };
        client.set_reply_time_max(Duration::from_secs(2));
        while Instant::now() < until {
            let (key, element) = (random.u64(..LISTS), shared.element.fetch_add(1, Ordering::SeqCst));
            let invoked = shared.tick();
            let reply = client.call(&["RPUSH", &format!("list:{key}"), &element.to_string()]).await;
            let (length, outcome) = match &reply {
                Ok(Reply::Integer(length)) => (Some(*length as u64), checkers::Outcome::Committed),
                Ok(other) => panic!("RPUSH got {other:?}"),
                Err(error) => (None, checkers::Outcome::Unknown(error.to_string())),
            };
            let (ops, completed) = (vec![Op::Append { key, element, length }], shared.tick());
            let event = Event { client: 0, name: "plain", invoked, completed, ops, outcome };
            shared.history.lock().unwrap().push(event);
            if reply.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(random.u64(..10_000))).await;
        }
    }
}

/// Reads lists and appends to them.
async fn lists(shared: &Shared, client: &Client, number: u32, random: &mut fastrand::Rng) {
    let reads_only = random.u8(..3) > 0;
    let mut ops = Vec::new();
    for _ in 0..random.usize(1..=4) {
        let key = random.u64(..LISTS);
        ops.push(match reads_only || random.bool() {
            true => Op::List { key, elements: Vec::new() },
            false => Op::Append { key, element: shared.element.fetch_add(1, Ordering::SeqCst), length: None },
        });
    }
    let invoked = shared.tick();
    let answer = client.transaction(async |tx: Transaction| listed(&tx, &ops).await).await;
    let fate = fate(client, &answer).await;
    let outcome = match fate {
        // What it read is not known where only its outcome is.
        Fate::Committed => checkers::Outcome::Committed,
        Fate::Failed(why) => checkers::Outcome::Failed(why),
    };
    let ops = answer.unwrap_or_else(|_| ops.into_iter().filter(|op| matches!(op, Op::Append { .. })).collect());
    let event = Event { client: number, name: "lists", invoked, completed: shared.tick(), ops, outcome };
    shared.history.lock().unwrap().push(event);
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

/// All lists once more, when no client is at work: part of the history.
async fn last_look(shared: &Shared) {
    let client = shared.connect(None).await.at(Level::Strict);
    let ops: Vec<Op> = (0..LISTS).map(|key| Op::List { key, elements: Vec::new() }).collect();
    let invoked = shared.tick();
    let ops = client.transaction(async |tx: Transaction| listed(&tx, &ops).await).await.expect("it is read");
    let outcome = checkers::Outcome::Committed;
    let event = Event { client: 1, name: "last look", invoked, completed: shared.tick(), ops, outcome };
    shared.history.lock().unwrap().push(event);
    audit(&client).await;
}

fn allowed(answer: Result<(), Error>) {
    match answer {
        Ok(()) | Err(Error::Lost { .. } | Error::Connect { .. } | Error::Contention { .. } | Error::Unknown { .. }) => {
        }
        Err(other) => panic!("{other}"),
    }
}

async fn transfer(client: &Client, random: &mut fastrand::Rng) {
    let (from, to, amount) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS), random.i64(1..20));
    let body = async |tx: Transaction| {
        let balance = tx.get_integer(format!("account:{from}")).await?.expect("it is there");
        if balance >= amount {
            tx.add(format!("account:{from}"), -amount)?;
            tx.add(format!("account:{to}"), amount)?;
        }
        Ok::<(), Error>(())
    };
    allowed(client.transaction(body).await);
}

/// The sum is what it was at the beginning, and no account is overdrawn.
async fn audit(client: &Client) {
    let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let body = async |tx: Transaction| {
        let mut balances = Vec::new();
        tx.get_many(&names).await?;
        for name in &names {
            balances.push(tx.get_integer(name).await?.expect("it is there"));
        }
        Ok::<Vec<i64>, Error>(balances)
    };
    match client.transaction(body).await {
        Ok(balances) => {
            assert_eq!(balances.iter().sum::<i64>(), ACCOUNTS as i64 * BALANCE_FIRST, "{balances:?}");
            assert!(balances.iter().all(|balance| *balance >= 0), "{balances:?}");
        }
        Err(error) => allowed(Err(error)),
    }
}

/// Takes from one of two while both together have enough: their sum never falls below 0.
async fn pairs(client: &Client, random: &mut fastrand::Rng) {
    let pair = random.u64(..PAIRS);
    let names = [2 * pair, 2 * pair + 1].map(|n| format!("pair:{n}"));
    let (from, amount, looks) = (random.usize(..2), random.i64(1..15), random.bool());
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
    match client.transaction(body).await {
        Ok(sum) => assert!(sum >= 0, "write skew: {sum}"),
        Err(error) => allowed(Err(error)),
    }
}

/// A register only grows. A session sees no less than it has seen. A strict transaction sees no less than was answered
/// to any client before it began.
async fn registers(shared: &Shared, client: &Client, random: &mut fastrand::Rng, seen: &mut i64) {
    let (before, writes) = (shared.register.load(Ordering::SeqCst), random.bool());
    let body = async |tx: Transaction| {
        let number = tx.get_integer("register").await?.unwrap_or(0);
        if writes {
            tx.set("register", (number + 1).to_string())?;
        }
        Ok::<i64, Error>(number + i64::from(writes))
    };
    match client.transaction(body).await {
        Ok(number) => {
            shared.register.fetch_max(number, Ordering::SeqCst);
            match shared.level {
                Level::Strict => assert!(number >= before + i64::from(writes), "{number} after {before}"),
                Level::Session => assert!(number >= *seen + i64::from(writes), "{number} after {seen}"),
                Level::Bounded(_) => assert!(!writes || number > before, "{number} after {before}"),
            }
            *seen = number;
        }
        Err(error) => allowed(Err(error)),
    }
}
