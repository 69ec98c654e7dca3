//! Ten clients at work, and what they saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_client::{Client, Leases, Level, Options, Outcome, Statistics};
use forebay_protocol::Reply;
use forebay_workload::checkers::{self, Event, Op};

use super::judge;
use super::tasks::{self, Fate, LISTS, Notes, Worker};

const CLIENTS: u32 = 10;

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
    /// Runs that have begun.
    runs: AtomicU32,
    notes: Notes,
    clients: Mutex<Vec<Client>>,
}

impl Shared {
    async fn connect(&self, leases: Option<Leases>) -> Client {
        let options = Options::new(self.address.as_str()).level(self.level).cache_bytes(1 << 20);
        let options = options.reply_time_max(Duration::from_secs(2));
        let options = leases.map_or(options.clone(), |leases| options.leases(leases));
        options.connect().await.expect("the server listens")
    }
}

/// Waits until it is known what became of a transaction.
pub async fn outcome(client: &Client, fate: Fate) -> checkers::Outcome {
    let (id, began) = match fate {
        Fate::Committed => return checkers::Outcome::Committed,
        Fate::Failed(why) => return checkers::Outcome::Failed(why),
        Fate::Unknown(id) => (id, Instant::now()),
    };
    loop {
        match client.outcome(id).await {
            Ok(Outcome::Committed(_)) => return checkers::Outcome::Committed,
            Ok(Outcome::NotKnown) => return checkers::Outcome::Failed("UNKNOWN".into()),
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
        let began = Instant::now();
        let notes = Notes::new(move || began.elapsed().as_nanos() as u64);
        let (runs, clients) = (AtomicU32::new(0), Mutex::default());
        let shared = Arc::new(Shared { address: address.to_string(), level, seed, runs, notes, clients });
        runtime.block_on(async {
            let client = shared.connect(None).await;
            tasks::prepare(&client).await.expect("the keys are set");
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
        self.runtime.block_on(async {
            let client = self.shared.connect(None).await.at(Level::Strict);
            tasks::last_look(&client, &self.shared.notes).await;
        });
    }

    /// Judges the lists by the level. All else was judged as it was seen.
    pub fn judge(&self) {
        let history = self.shared.notes.history();
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
    let mut worker = Worker::new(client.clone(), number, shared.level, shared.seed);
    while Instant::now() < until {
        if let Some((event, fate)) = worker.step(&shared.notes).await {
            let outcome = outcome(&client, fate).await;
            shared.notes.enter(Event { completed: shared.notes.tick(), outcome, ..event });
        }
        // Others' turn: between what a client does and does next, the world changes.
        if worker.random.bool() {
            tokio::time::sleep(Duration::from_micros(worker.random.u64(..1500))).await;
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
            let (key, element) = (random.u64(..LISTS), shared.notes.element());
            let invoked = shared.notes.tick();
            let reply = client.call(&["RPUSH", &format!("list:{key}"), &element.to_string()]).await;
            let (length, outcome) = match &reply {
                Ok(Reply::Integer(length)) => (Some(*length as u64), checkers::Outcome::Committed),
                Ok(other) => panic!("RPUSH got {other:?}"),
                Err(error) => (None, checkers::Outcome::Unknown(error.to_string())),
            };
            let (ops, completed) = (vec![Op::Append { key, element, length }], shared.notes.tick());
            let event = Event { client: 0, name: "plain", invoked, completed, ops, outcome };
            shared.notes.enter(event);
            if reply.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(random.u64(..10_000))).await;
        }
    }
}
