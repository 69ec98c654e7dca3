//! SIGKILL at random moments under load, then a start on that file. Every acknowledged write is there, and no half of
//! a transaction is. What was under way is there wholly or not at all.
//!
//! Each client pipelines batches of operations on separate keys, of which one connection's server runs one after the
//! other. So what a crash leaves must be the state after some first part of them, one that holds all that was
//! acknowledged (`mine.rs`). Purchases of all clients meet on one counter and one list, which tell the order of all
//! of them. `FOREBAY_SEED` repeats a run's choices, `FOREBAY_NIGHTLY=1` runs many more rounds.

mod common;
#[path = "crash/mine.rs"]
mod mine;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::process::Forebay;
use forebay_protocol::Reply;
use forebay_workload::Client;
use forebay_workload::client::Says;
use mine::Mine;
use tokio::runtime::Runtime;

/// Clients at the same time.
const CLIENTS: u32 = 8;

/// Rounds of SIGKILL in the default run.
const ROUNDS: u32 = 50;

/// The longest time under load, in ms.
const LOAD_MS_MAX: u64 = 250;

/// A run: a server on one file, its clients, and what must be left.
struct Run {
    forebay: Forebay,
    runtime: Runtime,
    random: fastrand::Rng,
    clients: Vec<Mine>,
    /// What the shared counter held when the round began.
    tickets: u64,
    /// The greatest version seen.
    version: (u64, u64),
    acknowledged: usize,
    lost: usize,
}

/// How a round ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
}

impl Run {
    fn new(arguments: &[&str]) -> Run {
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let seed = given.unwrap_or(now % 1_000_000);
        eprintln!("FOREBAY_SEED={seed} {arguments:?}");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Run {
            forebay: Forebay::start("embedded", &[&["--memory", "4MiB"], arguments].concat()),
            runtime: runtime.expect("a tokio runtime"),
            random: fastrand::Rng::with_seed(seed),
            clients: (0..CLIENTS).map(Mine::new).collect(),
            tickets: 0,
            version: (0, 0),
            acknowledged: 0,
            lost: 0,
        }
    }

    /// Load, the end, a new start, and the look at what is left. With `whole` nothing acknowledged may be missing.
    fn round(&mut self, round: u32, end: End, whole: bool) {
        for client in &mut self.clients {
            client.begin(round);
        }
        let address = self.forebay.address.to_string();
        let mut tasks = tokio::task::JoinSet::new();
        for mut client in std::mem::take(&mut self.clients) {
            let (address, random) = (address.clone(), fastrand::Rng::with_seed(self.random.u64(..)));
            tasks.spawn_on(
                async move {
                    client.load(&address, random).await;
                    client
                },
                self.runtime.handle(),
            );
        }
        std::thread::sleep(Duration::from_millis(self.random.u64(..LOAD_MS_MAX)));
        match end {
            End::Kill => self.forebay.kill9(),
            End::Terminate => self.forebay.terminate(),
        }
        self.clients = self.runtime.block_on(tasks.join_all());
        self.clients.sort_by_key(|client| client.number);
        self.forebay.restart();
        let looked = self.runtime.block_on(look(&self.forebay.address.to_string(), self.tickets, round));
        for client in &mut self.clients {
            let number = client.number as usize;
            let left = client.settle(&looked.states[number], &looked.purchases, self.tickets, whole);
            let left = left.unwrap_or_else(|why| panic!("round {round}, client {number}: {why}"));
            self.acknowledged += client.acknowledged();
            self.lost += client.acknowledged().saturating_sub(left);
        }
        let bought: u64 = self.clients.iter().map(Mine::bought).sum();
        assert_eq!(looked.tickets - self.tickets, bought, "round {round}: purchases that nobody made, or half of some");
        self.tickets = looked.tickets;
        for version in looked.versions {
            assert!(version > self.version, "round {round}: version {version:?} after {:?}", self.version);
            self.version = version;
        }
    }
}

/// What is left after a round.
struct Looked {
    states: Vec<mine::State>,
    tickets: u64,
    /// The round's purchases in their order: which client, and which of its operations.
    purchases: Vec<(u32, u64)>,
    /// Versions of one key in the order in which it got them.
    versions: Vec<(u64, u64)>,
}

async fn look(address: &str, tickets_before: u64, round: u32) -> Looked {
    let mut client = Client::connect(address).await.expect("it listens");
    let mut states = Vec::new();
    for number in 0..CLIENTS {
        states.push(mine::State::read(&mut client, number, round).await);
    }
    let reply = client.demand(&["GET", "tickets"]).await.expect("GET is answered");
    let tickets = if reply.is_nil() { 0 } else { reply.number().expect("a number") as u64 };
    let list = client.demand(&["LRANGE", &mine::purchases(round), "0", "-1"]).await.expect("LRANGE is answered");
    let purchase = |item: &Reply| {
        let text = String::from_utf8_lossy(item.bytes().expect("a string")).into_owned();
        let (client, number) = text.split_once(':').expect("two numbers");
        (client.parse().expect("a number"), number.parse().expect("a number"))
    };
    let purchases: Vec<(u32, u64)> = list.items().expect("a list").into_iter().map(purchase).collect();
    assert_eq!(purchases.len() as u64, tickets - tickets_before, "round {round}: counter and list of one transaction");
    let mut versions = Vec::new();
    for _ in 0..2 {
        client.demand(&["INCR", "versions"]).await.expect("INCR is answered");
        versions.push(version(&mut client, "versions").await);
    }
    Looked { states, tickets, purchases, versions }
}

/// The version of a cached key.
async fn version(client: &mut Client, key: &str) -> (u64, u64) {
    client.demand(&["GET", key]).await.expect("GET is answered");
    let reply = client.demand(&["CACHE", "EXPLAIN", key]).await.expect("CACHE EXPLAIN is answered");
    let text = String::from_utf8_lossy(reply.bytes().expect("a string")).into_owned();
    let version = text.split(" | ").find_map(|part| part.strip_prefix("version ")).expect("it is cached");
    let (incarnation, sequence) = version.split_once('-').expect("two numbers");
    (incarnation.parse().expect("a number"), sequence.parse().expect("a number"))
}

#[test]
fn sigkill_loses_nothing_acknowledged_and_leaves_no_halves() {
    let mut run = Run::new(&["--durability", "always"]);
    let rounds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 20 * ROUNDS } else { ROUNDS };
    for round in 0..rounds {
        run.round(round, End::Kill, true);
    }
    eprintln!("{rounds} rounds, {} operations acknowledged, {} purchases", run.acknowledged, run.tickets);
    assert!(run.acknowledged > 20 * rounds as usize, "only {} were acknowledged", run.acknowledged);
}

/// A process that is killed loses what it had not handed to the system yet: with `interval` up to `--sync-ms` of it.
#[test]
fn sigkill_with_interval_leaves_a_first_part() {
    let mut run = Run::new(&["--durability", "interval", "--sync-ms", "100"]);
    for round in 0..8 {
        run.round(round, End::Kill, false);
    }
    eprintln!("{} operations acknowledged, {} of them lost", run.acknowledged, run.lost);
    assert!(run.acknowledged > 200, "only {} were acknowledged", run.acknowledged);
}

#[test]
fn sigterm_loses_nothing_at_any_durability() {
    for durability in ["always", "interval", "never"] {
        let mut run = Run::new(&["--durability", durability]);
        for round in 0..3 {
            run.round(round, End::Terminate, true);
        }
        eprintln!("{durability}: {} operations acknowledged", run.acknowledged);
        assert!(run.acknowledged > 20, "{durability}: only {} were acknowledged", run.acknowledged);
    }
}
