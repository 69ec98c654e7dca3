//! `forebay sim --like-server` replays a trace that CACHE TRACE recorded from `forebay serve` through the server's
//! own cache. It has the hits that the server had, one by one. DeToX's live gain is what the simulator says.

mod common;

use std::path::Path;

use common::Connection;
use common::process::{Forebay, forebay_command};
use fastrand::Rng;
use forebay_protocol::Reply;
use forebay_workload::generate::{self, Options, Transaction};
use forebay_workload::popularity::Zipf;

/// A graph for the transactions of [`Client::transaction`].
const ORDER: &str = "[[type]]\nname = 'Order'\n[[type.vertex]]\nname = 'customer'\n[[type.vertex]]\nname = 'items'\n\
    after = ['customer']\n[[type.vertex]]\nname = 'stock'\nafter = ['customer']\n[[type.vertex]]\nname = 'total'\n\
    after = ['items', 'stock']\nwrites = true\n";

/// Keys of a kind; all of them together are several times as much as the smallest memory.
const KEYS: u64 = 3000;

/// One client that does a bit of everything.
struct Client {
    connection: Connection,
    rng: Rng,
    zipf: Zipf,
}

impl Client {
    fn new(forebay: &Forebay) -> Client {
        let connection = Connection::new(forebay.address);
        Client { connection, rng: Rng::with_seed(7), zipf: Zipf::new(KEYS, 0.9) }
    }

    fn send(&mut self, lines: &[String]) {
        let requests: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        for (reply, line) in self.connection.pipeline(&requests).into_iter().zip(lines) {
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }

    fn key(&mut self) -> String {
        format!("key:{}", self.zipf.draw(&mut self.rng))
    }

    fn keys(&mut self, count: usize) -> String {
        (0..count).map(|_| self.key()).collect::<Vec<_>>().join(" ")
    }

    fn set(&mut self) -> String {
        let length = self.rng.usize(1..12_000);
        let expiry = if self.rng.u8(..8) == 0 { " EX 1000" } else { "" };
        format!("SET {} {}{expiry}", self.key(), "v".repeat(length))
    }

    fn transaction(&mut self) {
        let customer = self.rng.u64(0..200);
        self.send(&["TXN BEGIN TYPE Order".into(), "TXN STEP customer".into(), format!("GET customer:{customer}")]);
        let items = |what: &str| format!("MGET {what}:{customer}a {what}:{customer}b");
        let more = ["TXN STEP items".into(), items("item"), "TXN STEP stock".into(), items("stock")];
        self.send(&more);
        let total = format!("SET total:{customer} {}", "t".repeat(self.rng.usize(1..200)));
        let end = if self.rng.u8(..10) == 0 { "TXN ABORT" } else { "TXN COMMIT" };
        self.send(&["TXN STEP total".into(), total, end.into()]);
    }

    /// One thing that clients do.
    fn act(&mut self) {
        let (number, field) = (self.zipf.draw(&mut self.rng), self.rng.u16(..2000));
        match self.rng.u8(..20) {
            0..=6 => {
                let get = format!("GET {}", self.key());
                self.send(&["HINT USE hot".into(), get]);
            }
            7 => {
                let mget = format!("MGET {}", self.keys(9));
                self.send(&[mget]);
            }
            8 | 9 => {
                let gets: Vec<String> = (0..6).map(|_| format!("GET {}", self.key())).collect();
                self.send(&gets);
            }
            10..=12 => {
                let set = self.set();
                self.send(&["HINT USE cold".into(), set]);
            }
            13 => {
                let del = format!("DEL {}", self.key());
                self.send(&[del]);
            }
            14 => self.send(&[format!("HSET hash:{number} f{} {}", field % 40, "h".repeat(60))]),
            15 => self.send(&[format!("HGETALL hash:{number}"), format!("SADD set:{number} {field}")]),
            16 => self.send(&[format!("INCR count:{number}"), format!("RPUSH list:{number} {}", "e".repeat(40))]),
            17 => {
                let (get, set) = (format!("GET {}", self.key()), self.set());
                self.send(&["MULTI".into(), get, set, "EXEC".into()]);
            }
            _ => self.transaction(),
        }
    }
}

/// Figures of CACHE STATS.
fn figures<const N: usize>(forebay: &Forebay, names: [&str; N]) -> [u64; N] {
    names.map(|name| forebay.cache_figure(name))
}

/// What a replay says: hits and misses, and the transactional hit rate.
fn simulated(trace: &Path, policy: &str, budget: u64, graphs: &Path) -> (u64, u64, f64) {
    let mut command = forebay_command();
    command.arg("sim").arg(trace).args(["--like-server", "--policy", policy, "--format", "json", "--quiet"]);
    command.args(["--size", &budget.to_string(), "--graphs"]).arg(graphs);
    let output = command.output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let figure = |name: &str| rows[0][name].as_u64().expect("a number");
    (figure("hits"), figure("requests") - figure("hits"), rows[0]["thr"].as_f64().unwrap_or_default())
}

/// Records what one client does to a server of this policy, twice: from the start, and from a CACHE RESET; each time
/// the simulator counts the same hits.
fn equal(policy: &str, store: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (graphs, traces) = (folder.path().join("graphs"), folder.path().join("traces"));
    std::fs::create_dir(&graphs).expect("a folder");
    std::fs::write(graphs.join("order.toml"), ORDER).expect("a file");
    let (graphs_text, traces_text) = (graphs.display().to_string(), traces.display().to_string());
    let arguments = ["--memory", "1MiB", "--policy", policy, "--graphs", &graphs_text, "--trace-dir", &traces_text];
    let forebay = Forebay::start(store, &[&arguments[..], &["--durability", "never", "--measure-thr"]].concat());
    let mut client = Client::new(&forebay);
    client.send(&["HINT SCHEMA shop heat".into(), "HINT SET hot 1".into(), "HINT SET cold 2".into()]);
    for name in ["start.fbt", "reset.fbt"] {
        if name == "reset.fbt" {
            client.send(&["CACHE RESET".into()]);
        }
        client.send(&["CONFIG RESETSTAT".into(), format!("CACHE TRACE START {name}")]);
        if name == "start.fbt" {
            for customer in 0..200 {
                let pairs = ["customer:C", "item:Ca", "item:Cb", "stock:Ca", "stock:Cb"].map(|key| {
                    let key = key.replace('C', &customer.to_string());
                    format!("SET {key} {}", "s".repeat(200))
                });
                client.send(&pairs);
            }
        }
        (0..3000).for_each(|_| client.act());
        client.send(&["CACHE TRACE STOP".into()]);
        let names = ["hits", "misses", "evictions", "rejections", "transactional_hits", "critical_length"];
        let [hits, misses, evictions, rejections, saved, length] = figures(&forebay, names);
        assert!(hits > 1000 && misses > 500, "{policy}: {hits} hits, {misses} misses");
        assert!(evictions + rejections > 200, "{policy}: {evictions} evictions: the cache holds it all");
        let budget = forebay.cache_figure("budget_bytes");
        let (sim_hits, sim_misses, thr) = simulated(&traces.join(name), policy, budget, &graphs);
        assert_eq!((sim_hits, sim_misses), (hits, misses), "{policy} over {store}, {name}");
        let live = saved as f64 / length as f64;
        assert!((thr - live).abs() < 1e-9, "{policy} over {store}, {name}: thr {thr}, live {live}");
    }
}

#[test]
fn policies_for_single_objects_have_the_hits_that_the_server_had() {
    for policy in ["lru", "s3-fifo", "sieve", "w-tinylfu"] {
        equal(policy, "memory");
    }
    equal("s3-fifo", "embedded");
}

#[test]
fn clic_has_the_hits_that_the_server_had() {
    equal("clic:window=2000", "memory");
    for policy in ["clic-g:window=2000", "clic-g", "clic-tree:window=2000", "clic-top-k:k=1,window=2000"] {
        equal(policy, "memory");
    }
    equal("clic:window=2000", "embedded");
}

#[test]
fn detox_has_the_hits_that_the_server_had() {
    for policy in ["detox", "detox-levels", "t-detox", "detox+admit", "detox-paper-literal"] {
        equal(policy, "memory");
    }
    equal("detox", "embedded");
}

/// A SmallBank client: each level of a transaction is one batch.
struct Bank {
    connection: Connection,
    names: Vec<Vec<String>>,
    types: Vec<&'static str>,
    value: String,
}

impl Bank {
    fn new(forebay: &Forebay, scale: u64) -> Bank {
        let types = (generate::workload("smallbank").expect("in the table").types)(scale);
        let names = types.iter().map(|of_type| of_type.vertices.iter().map(|(name, _)| name.clone()).collect());
        Bank {
            connection: Connection::new(forebay.address),
            names: names.collect(),
            types: types.iter().map(|of_type| of_type.name).collect(),
            value: "b".repeat(2800),
        }
    }

    fn run(&mut self, transaction: &Transaction) {
        let of_type = usize::from(transaction.txn_type) - 1;
        let mut requests: Vec<Vec<String>> = vec![request(&["TXN", "BEGIN", "TYPE", self.types[of_type]])];
        let levels = transaction.asks.chunk_by(|a, b| a.level == b.level);
        let last = levels.clone().count() - 1;
        for (at, level) in levels.enumerate() {
            for ask in level {
                let key = ask.key.to_string();
                requests.push(request(&["TXN", "STEP", &self.names[of_type][usize::from(ask.vertex) - 1]]));
                requests.push(match ask.writes {
                    true => request(&["SET", &key, &self.value]),
                    false => request(&["GET", &key]),
                });
            }
            if at == last {
                requests.push(request(&["TXN", "COMMIT"]));
            }
            let replies = self.connection.pipeline(&std::mem::take(&mut requests));
            assert!(!replies.iter().any(|reply| matches!(reply, Reply::Error(_))), "{replies:?}");
        }
    }
}

fn request(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// What a live run of SmallBank gave: the rate of its later part, of all of it, and its budget.
struct Live {
    late: f64,
    all: f64,
    budget: u64,
}

fn bank(policy: &str, graphs: &Path, traces: &Path) -> Live {
    let (graphs_text, traces_text) = (graphs.display().to_string(), traces.display().to_string());
    let arguments = ["--memory", "1MiB", "--policy", policy, "--graphs", &graphs_text, "--trace-dir", &traces_text];
    let forebay = Forebay::start("memory", &[&arguments[..], &["--measure-thr"]].concat());
    const SCALE: u64 = 400;
    let mut client = Bank::new(&forebay, SCALE);
    let preload: Vec<Vec<String>> = (1..4u64)
        .flat_map(|table| (0..SCALE).map(move |row| table << 40 | row))
        .map(|key| request(&["SET", &key.to_string(), &client.value]))
        .collect();
    preload.chunks(50).for_each(|chunk| drop(client.connection.pipeline(chunk)));
    let name = format!("{}.fbt", policy);
    let started = [request(&["CACHE", "RESET"]), request(&["CONFIG", "RESETSTAT"])];
    client.connection.pipeline(&started);
    client.connection.call(&["CACHE", "TRACE", "START", &name]);
    let workload = generate::workload("smallbank").expect("in the table");
    let mut generator = (workload.new)(&Options { transactions: 0, scale: SCALE, seed: 5 });
    let (mut transaction, mut half) = (Transaction::default(), [0; 2]);
    for number in 0..12_000 {
        if number == 7000 {
            half = figures(&forebay, ["transactional_hits", "critical_length"]);
        }
        generator.next(&mut transaction);
        client.run(&transaction);
    }
    client.connection.call(&["CACHE", "TRACE", "STOP"]);
    let [saved, length] = figures(&forebay, ["transactional_hits", "critical_length"]);
    let [by_graph, transactions] = figures(&forebay, ["transactions_by_graph", "transactions"]);
    assert_eq!((by_graph, transactions), (12_000, 12_000), "all of them have a graph");
    Live {
        late: (saved - half[0]) as f64 / (length - half[1]) as f64,
        all: saved as f64 / length as f64,
        budget: forebay.cache_figure("budget_bytes"),
    }
}

#[test]
fn detox_saves_more_round_trips_than_lru_and_as_many_as_the_simulator_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (graphs, traces) = (folder.path().join("bank.toml"), folder.path().join("traces"));
    let workload = generate::workload("smallbank").expect("in the table");
    std::fs::write(&graphs, generate::types_toml(workload, 400)).expect("a file");
    let [lru, detox] = std::thread::scope(|scope| {
        let runs = ["lru", "detox"].map(|policy| scope.spawn(|| bank(policy, &graphs, &traces)));
        runs.map(|run| run.join().expect("a run"))
    });
    eprintln!("live, behind 7,000 transactions: lru {:.4}, detox {:.4}", lru.late, detox.late);
    assert!(detox.late > lru.late + 0.04, "lru {}, detox {}", lru.late, detox.late);
    let simulate = |trace: &str, policy: &str| simulated(&traces.join(trace), policy, lru.budget, &graphs).2;
    for (policy, live) in [("lru", &lru), ("detox", &detox)] {
        let thr = simulate(&format!("{policy}.fbt"), policy);
        assert!((thr - live.all).abs() < 1e-9, "{policy}: live {}, simulated {thr}", live.all);
    }
    // What LRU's trace says that DeToX would have had; only the order within levels is another.
    let foretold = simulate("lru.fbt", "detox");
    eprintln!("detox: live {:.4}, foretold from lru's trace {foretold:.4}", detox.all);
    assert!((foretold - detox.all).abs() < 0.01, "foretold {foretold}, live {}", detox.all);
}

/// What one client's transactions do: an account tells a customer's number, by which two balances are asked for at the
/// same time, and one of them is written.
fn deposits(client: &mut Client, count: u64) {
    for n in 0..count {
        let (name, id) = (n % 40, 1000 + n % 40 * 7919 % 5000);
        client.send(&["TXN BEGIN TYPE Deposit".into(), "TXN STEP account".into(), format!("HGETALL account:n{name}")]);
        let balance = |what: &str| [format!("TXN STEP {what}"), format!("GET {what}:{id}")];
        client.send(&[balance("savings"), balance("checking")].concat());
        client.send(&["TXN STEP w:savings".into(), format!("SET savings:{id} {}", n * 31), "TXN COMMIT".into()]);
    }
}

/// Types are proposed from what a server recorded, and the simulator takes them.
#[test]
fn graphs_are_inferred_from_what_clients_did() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let traces = folder.path().join("traces");
    let forebay = Forebay::start("memory", &["--trace-dir", &traces.display().to_string()]);
    let mut client = Client::new(&forebay);
    for n in 0..40 {
        let id = 1000 + n * 7919 % 5000;
        client.send(&[
            format!("HSET account:n{n} custid {id}"),
            format!("SET savings:{id} 5"),
            format!("SET checking:{id} 7"),
        ]);
    }
    for (name, more) in [("bank.fbt", "10m RETURNED"), ("plain.fbt", "10m"), ("again.fbt", "RETURNED")] {
        // Misses and hits tell alike.
        client.send(&["CACHE RESET".into(), format!("CACHE TRACE START {name} {more}")]);
        deposits(&mut client, 200);
        client.send(&["CACHE TRACE STOP".into()]);
    }
    let infer = |trace: &str, more: &[&str]| {
        let mut command = forebay_command();
        command.current_dir(&traces).args(["graph", "--infer", trace]).args(more).output().expect("the binary runs")
    };
    let edges = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("name") || line.starts_with("after")).map(str::to_owned).collect()
    };
    let wanted = [
        "name = \"Deposit\"",
        "name = \"account\"",
        "name = \"savings\"",
        "after = [\"account\"]",
        "name = \"checking\"",
        "after = [\"account\"]",
        "name = \"w:savings\"",
        "after = [\"account\", \"savings\"]",
    ];
    for trace in ["bank.fbt", "again.fbt"] {
        let output = infer(trace, &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(edges(&text), wanted, "{text}");
    }
    let refused = infer("plain.fbt", &[]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && why.contains("CACHE TRACE START name RETURNED"), "{why}");
    assert!(infer("bank.fbt", &["--out", "bank.toml"]).status.success());
    let budget = forebay.cache_figure("budget_bytes");
    let (hits, misses, thr) = simulated(&traces.join("bank.fbt"), "detox", budget, &traces.join("bank.toml"));
    assert!(hits > 0 && misses > 0 && thr > 0.0, "{hits} hits, {misses} misses, {thr}");
    let wrong = client.connection.call(&["CACHE", "TRACE", "START", "x.fbt", "5m", "RETURNS"]);
    assert!(matches!(wrong, Reply::Error(_)), "{wrong:?}");
}
