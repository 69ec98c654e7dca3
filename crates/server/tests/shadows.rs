//! What shadows foretell, and what comes of it: servers in virtual time, with several clients at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use fastrand::Rng;
use forebay::Key;
use forebay::cache::{CacheOptions, Sample};
use forebay::mutation::{self, Fault};
use forebay::policy::{Metered, choose};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_protocol::{Batch, Decoder, Limits, encode_command};
use forebay_server::shadow::{self, Figures, ShadowOptions, Waits};
use forebay_server::{ServerOptions, Session, Shared};
use forebay_workload::popularity::Zipf;

const KEYS: u64 = 3_000;
const CLIENTS: u64 = 4;
const STEPS: usize = 1_200;

/// A cache for about a fifth of the documents.
const BUDGET: usize = 256 << 10;

/// A read and a commit of the delayed store.
const TRIP_US: u64 = 2_000;

const ORDER: &str = "[[type]]\nname = 'Order'\n[[type.vertex]]\nname = 'customer'\n[[type.vertex]]\nname = 'items'\n\
    after = ['customer']\n[[type.vertex]]\nname = 'stock'\nafter = ['customer']\n";

#[derive(Clone, Copy, PartialEq)]
enum Over {
    /// The embedded store.
    Embedded,
    /// Memory, far away.
    Far,
}

/// One server and its clients.
#[derive(Clone)]
struct Run {
    over: Over,
    policy: &'static str,
    budget: usize,
    shadows: Vec<&'static str>,
    shadow_bytes: usize,
    sample: u64,
}

impl Run {
    fn of(policy: &'static str, over: Over) -> Run {
        Run { over, policy, budget: BUDGET, shadows: Vec::new(), shadow_bytes: 64 << 20, sample: 1 }
    }
}

/// What came of it.
#[derive(Clone, Default)]
struct Outcome {
    /// What the cache itself has counted.
    live: Metered,
    figures: Option<Figures>,
    /// How long transactions took, in ms.
    mean_ms: f64,
    advice: String,
}

struct Client {
    session: Session,
    decoder: Decoder,
    rng: Rng,
    zipf: Zipf,
    busy: Duration,
    transactions: u32,
    runtime: Runtime,
}

impl Client {
    fn new(shared: &Arc<Shared>, number: u64) -> Client {
        let client = shared.clients.add(format!("client {number}"), "server".into(), 0, 100).expect("room");
        Client {
            session: Session::new(shared.clone(), client),
            decoder: Decoder::new(Limits::default()),
            rng: Rng::with_seed(number),
            zipf: Zipf::new(KEYS, 0.9),
            busy: Duration::ZERO,
            transactions: 0,
            runtime: shared.engine.runtime().clone(),
        }
    }

    /// Sends requests, one a line, and waits for the replies.
    async fn say(&mut self, lines: &str) -> String {
        let mut input = BytesMut::new();
        for line in lines.lines() {
            encode_command(&mut input, &line.split(' ').collect::<Vec<_>>());
        }
        self.send(input).await
    }

    async fn send(&mut self, mut input: BytesMut) -> String {
        let mut batch = Batch::default();
        self.decoder.decode_batch(&mut input, 1000, &mut batch).expect("requests");
        self.session.serve(&batch).await;
        self.session.replies.settle().await;
        self.session.open.replies_written();
        let output = self.session.replies.ready_mut().split();
        String::from_utf8_lossy(&output).into_owned()
    }

    fn key(&mut self) -> u64 {
        self.zipf.draw(&mut self.rng)
    }

    /// One transaction, or plain command.
    async fn act(&mut self) {
        let (a, b, c) = (self.key(), self.key(), self.key());
        let began = self.runtime.elapsed();
        match self.rng.u8(..20) {
            0..9 => {
                self.say(&format!("TXN BEGIN TYPE Order\nTXN STEP customer\nGET key:{a}")).await;
                self.say(&format!("TXN STEP items\nGET item:{a}\nTXN STEP stock\nGET key:{b}\nTXN COMMIT")).await;
            }
            9 => {
                self.say(&format!("TXN BEGIN\nGET key:{a}\nGET item:{b}")).await;
                let end = if self.rng.bool() { "TXN COMMIT" } else { "TXN ABORT" };
                self.say(&format!("SET key:{c} {}\n{end}", "w".repeat(40 + c as usize % 300))).await;
            }
            10..15 => drop(self.say(&format!("HINT USE hot\nGET key:{a}")).await),
            15 => drop(self.say(&format!("HINT USE cold\nMGET key:{a} item:{b} key:{c}")).await),
            16 | 17 => drop(self.say(&format!("GET item:{a}\nGET item:{b}")).await),
            18 => drop(self.say(&format!("SET item:{a} {}", value(a))).await),
            _ => {
                // Another program has changed it.
                self.session.shared.engine.cache().remove(&Key::new(0, format!("key:{a}").as_bytes()));
                self.say(&format!("HINT USE hot\nGET key:{a}")).await;
            }
        }
        self.busy += self.runtime.elapsed() - began;
        self.transactions += 1;
    }
}

fn value(key: u64) -> String {
    "v".repeat(40 + key as usize % 300)
}

fn store(run: &Run, runtime: &Runtime, folder: &tempfile::TempDir) -> Arc<dyn Store> {
    match run.over {
        Over::Embedded => {
            let options = EmbeddedOptions { durability: Durability::Never, page_cache_bytes: 1 << 20 };
            Arc::new(Embedded::open(runtime.clone(), folder.path().join("store"), options).expect("it opens"))
        }
        Over::Far => {
            let delay = Delay { fixed: Duration::from_micros(TRIP_US), jitter: Duration::ZERO };
            Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay))
        }
    }
}

/// Clients that first fill the cache, and then are counted.
fn run(run: &Run) -> Outcome {
    let (simulation, folder) = (Simulation::new(7), tempfile::tempdir().expect("a folder"));
    let (runtime, told) = (simulation.runtime(), Arc::new(Mutex::new(Outcome::default())));
    let policy = choose(run.policy).expect("in the table");
    let cache = CacheOptions {
        budget_bytes: run.budget,
        partitions: 4,
        policy: policy.policy,
        policy_values: policy.values.clone(),
    };
    let engine = Engine::new(EngineOptions::new(runtime.clone(), store(run, &runtime, &folder), cache));
    let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
    let options = ShadowOptions {
        policies: run.shadows.iter().map(|name| choose(name).expect("in the table")).collect(),
        present: policy,
        memory: run.budget as u64,
        bytes_max: run.shadow_bytes,
        sample: Sample::one_in(run.sample),
    };
    let outcome = told.clone();
    let ended = simulation.run(async move {
        if !options.policies.is_empty() {
            shadow::start(&shared, &options);
        }
        let meter = shared.engine.cache().measure_transactions().clone();
        let mut clients: Vec<Client> = (0..CLIENTS).map(|number| Client::new(&shared, number)).collect();
        let mut types = BytesMut::new();
        encode_command(&mut types, &["TXN", "TYPE", ORDER]);
        assert!(clients[0].send(types).await.starts_with("+OK 1 new"));
        for client in &mut clients {
            client.say("HINT SCHEMA shop heat\nHINT SET hot 1\nHINT SET cold 2").await;
        }
        for key in 0..KEYS {
            clients[0].say(&format!("SET key:{key} {}\nSET item:{key} {}", value(key), value(key))).await;
        }
        for phase in 0..2 {
            if phase == 1 {
                shared.engine.cache().reset_stats();
                meter.reset();
                shared.shadows.figures(true).await;
            }
            clients.iter_mut().for_each(|client| (client.busy, client.transactions) = (Duration::ZERO, 0));
            let work = clients.into_iter().map(|mut client| async move {
                for _ in 0..STEPS {
                    client.act().await;
                }
                client
            });
            clients = futures_util::future::join_all(work).await;
        }
        let busy: Duration = clients.iter().map(|client| client.busy).sum();
        let transactions: u32 = clients.iter().map(|client| client.transactions).sum();
        let figures = shared.shadows.figures(false).await;
        let outcome = Outcome {
            live: meter.metered(),
            figures,
            mean_ms: busy.as_secs_f64() * 1000.0 / f64::from(transactions),
            advice: clients[0].say("CACHE ADVISE").await,
        };
        *told.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    });
    assert!(matches!(ended, Ended::Done), "{}: the run hung", run.policy);
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    outcome.clone()
}

fn rate(metered: &Metered) -> f64 {
    metered.thr.rate().expect("transactions")
}

/// Whether the shadow of what runs has what the cache has; why not, if it has not.
fn agrees(policy: &'static str, over: Over) -> Result<(), String> {
    let outcome = run(&Run { shadows: vec![policy], ..Run::of(policy, over) });
    let figures = outcome.figures.ok_or("no shadows")?;
    if figures.missed > 0 || figures.emptied > 0 {
        return Err(format!("{} missed, {} times emptied", figures.missed, figures.emptied));
    }
    if figures.live.metered != outcome.live {
        return Err(format!("{policy}: heard {:?}, counted {:?}", figures.live.metered, outcome.live));
    }
    let (live, shadow) = (&outcome.live, &figures.rows[0].metered);
    // Not nearly: access by access.
    if shadow != live {
        return Err(format!("{policy}: its shadow is {:+.4} off", rate(shadow) - rate(live)));
    }
    match live.transactions > 3_500 && rate(live) > 0.2 && rate(live) < 0.9 {
        true => Ok(()),
        false => Err(format!("{policy}: nothing to tell from: {live:?}")),
    }
}

#[test]
fn the_shadow_of_what_runs_has_what_the_cache_has() {
    for policy in ["lru", "s3-fifo", "detox", "clic:window=2000"] {
        assert_eq!(agrees(policy, Over::Embedded), Ok(()));
    }
}

#[test]
fn what_shadows_miss_unsaid_is_found() {
    for fault in [Fault::ShadowsMissAccesses, Fault::ShadowsKeepGone] {
        let _on = mutation::put_back(Some(fault));
        assert!(agrees("lru", Over::Far).is_err(), "{fault:?} is found");
        // And an operator sees it.
        let advice = run(&Run { shadows: vec!["lru"], ..Run::of("lru", Over::Far) }).advice;
        assert!(advice.contains("No advice: the shadow of what runs is "), "{fault:?}: {advice}");
    }
}

/// What a run under lru foretells of each policy and size is what a server with that has.
#[test]
fn what_is_foretold_comes() {
    let policies = ["lru", "detox"];
    let outcome = run(&Run { shadows: policies.to_vec(), ..Run::of("lru", Over::Far) });
    let figures = outcome.figures.expect("shadows");
    assert_eq!(figures.rows.len(), 8);
    let waits = Waits { fetch: figures.fetch_us, commit: Some(TRIP_US as f64) };
    for row in &figures.rows {
        let policy = policies.into_iter().find(|name| *name == row.policy).expect("one of them");
        let again = run(&Run { budget: row.budget_bytes as usize, ..Run::of(policy, Over::Far) });
        let (told, came) = (rate(&row.metered), rate(&again.live));
        let mean = waits.mean_ms(&row.metered).expect("a mean");
        // Of each transaction of the clients, which may be of several plain commands.
        let mean = mean * row.metered.transactions as f64 / (CLIENTS as usize * STEPS) as f64;
        println!("{policy} at {}: {told:.4} {came:.4}, {mean:.3} ms {:.3} ms", row.budget_bytes, again.mean_ms);
        assert!((told - came).abs() <= 0.015, "{policy} at {}: told {told}, came {came}", row.budget_bytes);
        assert!((mean / again.mean_ms - 1.0).abs() <= 0.15, "{policy}: told {mean} ms, came {} ms", again.mean_ms);
    }
    assert!(outcome.advice.contains(" would save ") && outcome.advice.contains(" in place of "), "{}", outcome.advice);
}

/// Shadows that would take more than they may go, the largest first; the last is that of what runs.
#[test]
fn shadows_keep_within_their_memory() {
    let sized = |shadow_bytes| {
        let of = Run { shadows: vec!["lru", "s3-fifo"], shadow_bytes, ..Run::of("lru", Over::Far) };
        run(&of)
    };
    let some = sized(1 << 20);
    let figures = some.figures.expect("shadows");
    assert!(figures.bytes <= figures.bytes_max, "{figures:?}");
    let left: Vec<u64> = figures.rows.iter().filter(|row| row.left_out).map(|row| row.memory).collect();
    let kept = figures.rows.iter().filter(|row| !row.left_out).map(|row| row.memory).max().expect("some");
    println!("{} of {}: {left:?}", figures.bytes, figures.bytes_max);
    assert!(!left.is_empty() && left.iter().all(|memory| *memory >= kept), "{left:?}, {kept}");
    assert!(!figures.rows[0].left_out && some.advice.contains("its shadow had to go"), "{}", some.advice);
    let none = sized(1 << 18);
    assert!(none.advice.contains("No advice: not even the shadow of what runs has room"), "{}", none.advice);
}

/// A sample of keys tells of reads, nearly; of transactions it tells nothing, and hits of other keys are not heard.
#[test]
fn a_sample_of_keys_tells_hits_of_reads() {
    let budget = 1 << 20;
    let run = run(&Run { budget, shadows: vec!["lru", "s3-fifo"], sample: 4, ..Run::of("lru", Over::Far) });
    let (figures, live) = (run.figures.expect("shadows"), run.live);
    let came = live.reads_hit as f64 / live.reads as f64;
    let told = [&figures.live, &figures.rows[0]].map(|row| row.saves.expect("reads"));
    println!("of all {came:.4}, told {told:.4?}: {}", run.advice);
    assert!((told[0] - came).abs() < 0.02 && (told[1] - told[0]).abs() < 0.03, "{told:?}, {came}");
    assert!(figures.heard * 3 < live.reads && figures.heard * 6 > live.reads, "{} of {}", figures.heard, live.reads);
    assert_eq!(figures.live.metered.transactions, 0, "of a sample none is whole");
    assert!(run.advice.contains(" of reads") && !run.advice.contains("round trips"), "{}", run.advice);
}
