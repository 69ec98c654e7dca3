//! Serializable over cache and PostgreSQL, through the real binary. The workloads are those of `serializability.rs`
//! on documents in the generic table and on rows of tables. They run without and with outages in between, and with
//! another program that writes these rows.
//!
//! While writes are buffered only forebay's clients see them; among these the history is strictly serializable all
//! the time. With another program only what was checked is judged. What a transaction that wrote had read, and what a
//! `TXN BEGIN READONLY CHECKED` has read, was current at its commit. With another program and outages that, and what
//! is in the table at last. `FOREBAY_NIGHTLY=1` runs each for ten minutes; `FOREBAY_SEED` repeats the clients'
//! choices.

mod common;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "common/proxy.rs"]
mod proxy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;
use forebay_workload::Client;
use forebay_workload::checkers::bank::Bank;
use forebay_workload::checkers::list_append::ListAppend;
use forebay_workload::checkers::write_skew::WriteSkew;
use forebay_workload::checkers::{
    Attempt, Event, Op, Outcome, RunOptions, Stopped, Style, Summary, Violation, Workload, run,
};
use forebay_workload::client::ClientError;
use futures_util::future::BoxFuture;
use postgres::{Server, Stop};
use proxy::Proxy;
use tokio::task::JoinHandle;

/// Clients of each workload.
const CLIENTS: u32 = 6;

/// How long one history is, without outages and with them.
const CALM: Duration = Duration::from_secs(2);
const TROUBLED: Duration = Duration::from_secs(5);

/// Longest wait for a drain on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the nightly run goes on with new histories.
const NIGHTLY: Duration = Duration::from_secs(600);

/// Transactions of one history at most: a larger one takes long to judge.
const EVENTS_MAX: usize = 40_000;

/// Accounts of the bank.
const ACCOUNTS: u64 = 8;

const TABLES: &str = "CREATE TABLE lists (run bigint, id bigint, elements bigint[], PRIMARY KEY (run, id));
    CREATE TABLE accounts (run bigint, id bigint, balance bigint CHECK (balance >= 0), PRIMARY KEY (run, id));
    CREATE TABLE tills (run bigint, id bigint, balance bigint, PRIMARY KEY (run, id));
    CREATE TABLE pairs (run bigint, pair bigint, side text, rest bigint, PRIMARY KEY (run, pair, side))";

const MAPS: [&str; 8] = [
    "--map",
    "list:{run}:{id} -> lists(run, id).elements as list",
    "--map",
    "bank:{run}:{id} -> accounts(run, id)",
    "--map",
    "till:{run}:{id} -> tills(run, id)",
    "--map",
    "skew:{run}:{pair}:{side} -> pairs(run, pair, side)",
];

fn nightly() -> bool {
    std::env::var_os("FOREBAY_NIGHTLY").is_some()
}

/// Whether there is to be another history: as long as this test is to take, and while too little was seen to say
/// anything, on a machine that is busy with other things.
fn goes_on(began: Instant, too_little: bool) -> bool {
    (nightly() && began.elapsed() < NIGHTLY) || (too_little && began.elapsed() < PATIENCE)
}

fn sums(counts: [usize; 3], more: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|at| counts[at] + more[at])
}

struct World {
    server: Server,
    database: String,
    network: Proxy,
    forebay: Forebay,
    mapped: bool,
    runtime: tokio::runtime::Runtime,
    seed: u64,
}

/// Finds out soon that the database is there again.
const QUICK: [&str; 4] = ["--breaker-pause-ms", "20", "--breaker-pause-ms-max", "200"];

/// Nothing is buffered, and a database on a busy machine is waited for: a transaction that was buffered and had read
/// what another program changed since would be set aside, though acknowledged.
const PATIENT: [&str; 8] =
    ["--on-outage", "refuse", "--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];

fn world(mapped: bool, more: &[&str]) -> World {
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let seed = given.unwrap_or(since % 1_000_000);
    eprintln!("FOREBAY_SEED={seed} repeats the clients' choices");
    let server = Server::start();
    let database = server.database();
    let mut arguments = [&["--log-level", "info"], more].concat();
    if mapped {
        server.sql(&database, TABLES);
        let mut init = forebay_command();
        init.args(["store", "init", "--store", &server.url(&database), "--store-timeout-ms", "400"]).args(MAPS);
        assert!(init.status().expect("the binary runs").success());
        arguments.extend(MAPS);
    }
    let network = Proxy::to_postgres(server.address());
    let forebay = Forebay::start(&server.url_through(&database, network.address), &arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    World { server, database, network, forebay, mapped, runtime: runtime.expect("a tokio runtime"), seed }
}

/// A workload that says when its keys are in their first state, for no outage may come before, and whose last look
/// waits until all has `settled`: what others write after it would not be in it.
struct Announced {
    workload: Arc<dyn Workload>,
    ready: Arc<AtomicUsize>,
    settled: Arc<AtomicBool>,
}

impl Workload for Announced {
    fn name(&self) -> &'static str {
        self.workload.name()
    }

    fn setup<'a>(&'a self, client: &'a mut Client) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            self.workload.setup(client).await?;
            self.ready.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn step<'a>(
        &'a self,
        client: &'a mut Client,
        random: &'a mut fastrand::Rng,
        attempt: &'a mut Attempt,
    ) -> BoxFuture<'a, Result<(), Stopped>> {
        self.workload.step(client, random, attempt)
    }

    fn finish<'a>(&'a self, client: &'a mut Client, attempt: &'a mut Attempt) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(async move {
            while !self.settled.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.workload.finish(client, attempt).await
        })
    }

    fn check(&self, history: &[Event]) -> Result<Summary, Violation> {
        self.workload.check(history)
    }
}

/// Runs a workload; what its clients saw.
async fn seen(workload: &Arc<dyn Workload>, options: RunOptions) -> Vec<Event> {
    run(workload.clone(), &options)
        .await
        .unwrap_or_else(|error| panic!("{}, seed {}: {error}", workload.name(), options.seed))
}

/// What is to be said of a history, which must be what it should be.
fn judged(workload: &Arc<dyn Workload>, history: &[Event], seed: u64) -> Summary {
    let summary = workload.check(history);
    let summary = summary.unwrap_or_else(|violation| panic!("{}, seed {seed}: {violation}", workload.name()));
    eprintln!("{}: {summary:?}", workload.name());
    summary
}

impl World {
    fn options(&self, duration: Duration, seed: u64) -> RunOptions {
        let address = self.forebay.address.to_string();
        RunOptions { clients: CLIENTS, duration, events_max: EVENTS_MAX, seed, ..RunOptions::new(&address) }
    }

    fn workloads(&self, seed: u64) -> [Arc<dyn Workload>; 3] {
        let both = [Style::Txn, Style::Multi];
        let lists = ListAppend::new(&format!("list:{seed}"), 8);
        let bank = Bank::new(&format!("bank:{seed}"), ACCOUNTS, &both);
        let skew = WriteSkew::new(&format!("skew:{seed}"), 4, &both);
        match self.mapped {
            false => [Arc::new(lists), Arc::new(bank), Arc::new(skew)],
            true => [Arc::new(lists), Arc::new(bank.in_field("balance")), Arc::new(skew.in_field("rest"))],
        }
    }

    /// All workloads at once, each with a history of its own, while `meanwhile` is done again and again.
    fn slice(&self, duration: Duration, seed: u64, meanwhile: impl Fn(u64)) {
        let ready = Arc::new(AtomicUsize::new(0));
        let runs = self.workloads(seed).map(|workload| {
            let settled = Arc::new(AtomicBool::new(true));
            let workload: Arc<dyn Workload> = Arc::new(Announced { workload, ready: ready.clone(), settled });
            let options = self.options(duration, seed);
            self.runtime.spawn(async move {
                let history = seen(&workload, options).await;
                let judge = tokio::task::spawn_blocking(move || {
                    let summary = judged(&workload, &history, seed);
                    assert!(summary.committed > 30, "{} hardly ran: {summary:?}", workload.name());
                });
                judge.await.expect("the judge passes it");
            })
        });
        let ended = |run: &JoinHandle<()>| run.is_finished();
        while ready.load(Ordering::SeqCst) < runs.len() && !runs.iter().any(ended) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (began, mut round) = (Instant::now(), 0);
        // Not in the last look at all keys.
        while began.elapsed() < duration && !runs.iter().all(ended) {
            meanwhile(round);
            round += 1;
        }
        for run in runs {
            self.runtime.block_on(run).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }

    /// The network goes away and comes back, replies get lost, and now and then the database is stopped as in a crash.
    fn trouble(&self, round: u64) {
        let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
        pause(300);
        match round % 4 {
            0 | 2 => self.network.close(),
            1 => self.network.drop_replies(),
            _ => {
                self.server.stop(Stop::Immediate);
                pause(300);
                self.server.start_again();
            }
        }
        pause(300);
        self.network.pass();
    }

    /// An entry of `CACHE STATE`.
    fn state(&self, name: &str) -> Reply {
        let Reply::Array(pairs) = Connection::new(self.forebay.address).call(&["CACHE", "STATE"]) else {
            panic!("CACHE STATE is a list in RESP2");
        };
        let pair = pairs.chunks(2).find(|pair| pair[0] == Reply::bulk(name.as_bytes()));
        pair.unwrap_or_else(|| panic!("no {name} in {pairs:?}"))[1].clone()
    }

    fn figure(&self, name: &str) -> i64 {
        match self.state(name) {
            Reply::Integer(figure) => figure,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// One history after the other, as long as this test is to take.
    fn serializable(self) {
        let (began, mut number) = (Instant::now(), 0);
        while number == 0 || (nightly() && began.elapsed() < NIGHTLY) {
            self.slice(CALM, self.seed + number, |_| std::thread::sleep(Duration::from_millis(20)));
            self.slice(TROUBLED, self.seed + number + 1, |round| self.trouble(round));
            self.until_carried_over();
            assert_eq!(self.figure("quarantined"), 0, "set aside, although nobody else writes");
            number += 2;
        }
        self.assert_carried_over();
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }

    /// Transfers that another program makes, until it is told to stop: as the bank knows them.
    fn transfers_outside(&self, table: &str, seed: u64, stop: &AtomicBool) -> Vec<Event> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut made = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let from = random.u64(..ACCOUNTS);
            let (to, amount) = ((from + random.u64(1..ACCOUNTS)) % ACCOUNTS, random.i64(1..=10));
            let transfer = format!(
                "WITH moved AS (UPDATE {table} SET balance = balance + CASE id WHEN {from} THEN -{amount} ELSE \
                 {amount} END WHERE run = {seed} AND id IN ({from}, {to}) AND 2 = (SELECT count(*) FROM {table}
                 WHERE run = {seed} AND id IN ({from}, {to})) RETURNING 1) SELECT count(*) FROM moved"
            );
            // Refused for want of means, or given up for one of ours.
            if self.server.try_sql(&self.database, &transfer).as_deref() == Ok("2") {
                let ops = vec![Op::Add { key: from, delta: -amount }, Op::Add { key: to, delta: amount }];
                let (name, outcome) = ("transfer of another program", Outcome::Committed);
                made.push(Event { client: u32::MAX, name, invoked: 0, completed: 0, ops, outcome });
            }
        }
        made
    }

    /// Likewise while what ours write is buffered again and again: every addition, of ours and of others, is in the
    /// table once, and a reader that has all that was read checked finds the sum. A TXN, whose client has seen each
    /// answer, would be set aside where another program was faster.
    fn beside_another_program_with_outages(self) {
        let (began, mut number, mut done) = (Instant::now(), 0, [0; 3]);
        let few = |[others, ours, audits]: [usize; 3]| others <= 10 || ours <= 10 || audits == 0;
        while goes_on(began, few(done)) {
            let (seed, stop) = (self.seed + number, AtomicBool::new(false));
            let bank = Bank::new(&format!("till:{seed}"), ACCOUNTS, &[Style::Multi]);
            let bank: Arc<dyn Workload> = Arc::new(bank.in_field("balance").checked().adding());
            let (ready, settled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let announced = Announced { workload: bank.clone(), ready: ready.clone(), settled: settled.clone() };
            let announced: Arc<dyn Workload> = Arc::new(announced);
            let options = self.options(TROUBLED, seed);
            let (made, history) = std::thread::scope(|scope| {
                let running = self.runtime.spawn(async move { seen(&announced, options).await });
                while ready.load(Ordering::SeqCst) == 0 && !running.is_finished() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let outside = scope.spawn(|| self.transfers_outside("tills", seed, &stop));
                let (began, mut round) = (Instant::now(), 0);
                while began.elapsed() < TROUBLED - Duration::from_millis(1_500) && !running.is_finished() {
                    self.trouble(round % 3);
                    round += 1;
                }
                stop.store(true, Ordering::SeqCst);
                let made = outside.join().expect("another program");
                self.until_normal();
                settled.store(true, Ordering::SeqCst);
                (made, self.runtime.block_on(running).expect("a history"))
            });
            self.until_carried_over();
            assert_eq!(self.figure("quarantined"), 0, "nothing stands in the way of what is added");
            let last = history.last().expect("the last look").reads().map(|(id, balance)| format!("{id}|{balance}"));
            let table = format!("SELECT id, balance FROM tills WHERE run = {seed} ORDER BY id");
            assert_eq!(self.server.sql(&self.database, &table), last.collect::<Vec<_>>().join("\n"));
            let others = made.len();
            let summary = judged(&bank, &[made, history].concat(), seed);
            let count = |name: &str| summary.by_name.get(name).copied().unwrap_or_default();
            let ours = count("transfer added by MULTI");
            // Most audits are refused, in an outage or for what others write at that time.
            done = sums(done, [others, ours, count("audit by TXN CHECKED")]);
            number += 1;
        }
        assert!(!few(done), "transfers outside, ours, audits: {done:?}");
        self.assert_carried_over();
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }

    fn until_normal(&self) {
        let began = Instant::now();
        while self.state("mode") != Reply::bulk(b"normal") {
            assert!(began.elapsed() < PATIENCE, "the database is there, and not used");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn until_carried_over(&self) {
        let began = Instant::now();
        while self.figure("waiting") > 0 {
            assert!(began.elapsed() < PATIENCE, "it is never carried over");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Something was.
    fn assert_carried_over(&self) {
        let log = self.forebay.log();
        let carried = |line: &str| line.contains("-> recovery (") && !line.contains("-> recovery (0 ");
        assert!(log.lines().any(carried), "nothing was ever carried over");
    }

    fn beside_another_program(self) {
        let (began, mut number, mut done) = (Instant::now(), 0, [0; 3]);
        let few = |done: [usize; 3]| done.iter().any(|count| *count <= 10);
        while goes_on(began, few(done)) {
            let (seed, stop) = (self.seed + number, AtomicBool::new(false));
            let bank = Bank::new(&format!("bank:{seed}"), ACCOUNTS, &[Style::Txn, Style::Multi]);
            let bank: Arc<dyn Workload> = Arc::new(bank.in_field("balance").checked());
            let (ready, settled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let options = self.options(CALM * 2, seed);
            let (made, history) = std::thread::scope(|scope| {
                let outside = scope.spawn(|| self.transfers_outside("accounts", seed, &stop));
                let announced = Announced { workload: bank.clone(), ready, settled: settled.clone() };
                let announced: Arc<dyn Workload> = Arc::new(announced);
                let running = self.runtime.spawn(async move { seen(&announced, options).await });
                std::thread::sleep(CALM * 2 - Duration::from_millis(500));
                stop.store(true, Ordering::SeqCst);
                let made = outside.join().expect("another program");
                settled.store(true, Ordering::SeqCst);
                (made, self.runtime.block_on(running).expect("a history"))
            });
            let others = made.len();
            let summary = judged(&bank, &[made, history].concat(), seed);
            let count = |name: &str| summary.by_name.get(name).copied().unwrap_or_default();
            done = sums(done, [others, count("transfer by TXN"), count("audit by TXN CHECKED")]);
            number += 1;
        }
        assert!(!few(done), "transfers outside, ours, audits: {done:?}");
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

#[test]
fn clients_of_documents_with_and_without_outages() {
    world(false, &QUICK).serializable();
}

#[test]
fn clients_of_rows_with_and_without_outages() {
    world(true, &QUICK).serializable();
}

#[test]
fn clients_of_rows_that_another_program_writes_too() {
    world(true, &PATIENT).beside_another_program();
}

#[test]
fn clients_of_rows_that_another_program_writes_too_with_outages() {
    world(true, &QUICK).beside_another_program_with_outages();
}
