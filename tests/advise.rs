//! CACHE ADVISE through the real binary. What a run under lru foretells of other policies and sizes is what a server
//! with these has.

mod common;

use common::Connection;
use common::process::{Forebay, forebay_command};
use fastrand::Rng;
use forebay_protocol::Reply;
use forebay_workload::popularity::Zipf;

const KEYS: u64 = 2_000;
const TRANSACTIONS: usize = 4_000;

/// Transactions of two levels, and plain commands.
struct Client {
    connection: Connection,
    rng: Rng,
    zipf: Zipf,
}

impl Client {
    fn new(forebay: &Forebay) -> Client {
        Client { connection: Connection::new(forebay.address), rng: Rng::with_seed(11), zipf: Zipf::new(KEYS, 0.9) }
    }

    fn send(&mut self, lines: &[String]) {
        let requests: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        for (reply, line) in self.connection.pipeline(&requests).into_iter().zip(lines) {
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }

    fn key(&mut self) -> u64 {
        self.zipf.draw(&mut self.rng)
    }

    fn act(&mut self) {
        let (a, b) = (self.key(), self.key());
        match self.rng.u8(..10) {
            0..5 => {
                self.send(&["TXN BEGIN".into(), format!("GET key:{a}")]);
                self.send(&[format!("GET item:{a}"), format!("GET key:{b}"), "TXN COMMIT".into()]);
            }
            5..8 => self.send(&[format!("GET key:{a}")]),
            8 => self.send(&[format!("MGET key:{a} item:{b}")]),
            _ => self.send(&[format!("SET item:{a} {}", value(a))]),
        }
    }

    fn fill(&mut self) {
        let keys: Vec<u64> = (0..KEYS).collect();
        for keys in keys.chunks(100) {
            let sets = keys.iter().flat_map(|key| ["key", "item"].map(|of| format!("SET {of}:{key} {}", value(*key))));
            self.send(&sets.collect::<Vec<_>>());
        }
        (0..TRANSACTIONS).for_each(|_| self.act());
    }
}

fn value(key: u64) -> String {
    "v".repeat(2_000 + key as usize * 7 % 4_000)
}

/// The answer's lines.
fn advice(client: &mut Client) -> Vec<String> {
    let Reply::Array(lines) = client.connection.call(&["CACHE", "ADVISE"]) else { panic!("no lines") };
    let text = |line: Reply| match line {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("no text: {other:?}"),
    };
    lines.into_iter().map(text).collect()
}

/// What a line foretells: `lru at 4 MiB: saves 61.2 % of round trips, ..`.
fn foretold<'a>(lines: &'a [String], name: &str) -> (&'a str, f64) {
    let line = lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {lines:#?}"));
    let (_, rest) = line.split_once(": saves ").expect("a share");
    (line, rest.split(' ').next().and_then(|share| share.parse::<f64>().ok()).expect("a number"))
}

/// Transactional hits of a server with this policy and memory, in percent.
fn measured(policy: &str, memory_mib: u64, shadow_kib: u64) -> f64 {
    // What the shadows take they take of the memory, so here as there: a share.
    let (memory, shadow) = (format!("{memory_mib}MiB"), format!("{shadow_kib}KiB"));
    let arguments = ["--memory", &memory, "--policy", policy, "--measure-thr", "--shadow", "lru"];
    let forebay = Forebay::start("memory", &[&arguments[..], &["--shadow-memory", &shadow]].concat());
    let mut client = Client::new(&forebay);
    client.fill();
    client.send(&["CONFIG RESETSTAT".into()]);
    (0..TRANSACTIONS).for_each(|_| client.act());
    let [saved, length] = ["transactional_hits", "critical_length"].map(|name| forebay.cache_figure(name));
    100.0 * saved as f64 / length as f64
}

#[test]
fn what_is_advised_comes() {
    let arguments = ["--memory", "8MiB", "--policy", "lru", "--shadow", "s3-fifo,detox", "--shadow", "lru"];
    let forebay = Forebay::start("memory", &[&arguments[..], &["--shadow-memory", "4MiB"]].concat());
    let mut client = Client::new(&forebay);
    client.fill();
    client.send(&["CACHE ADVISE RESET".into()]);
    (0..TRANSACTIONS).for_each(|_| client.act());
    let lines = advice(&mut client);
    assert!(lines[0].starts_with("lru at 8 MiB (now): saves "), "{lines:#?}");
    assert!(lines[1].starts_with("its shadow: saves ") && lines[1].contains("+0.0 points"), "{lines:#?}");
    assert!(lines[lines.len() - 2].contains(" 0 missed"), "{lines:#?}");
    println!("{}", lines.join("\n"));
    for (policy, memory) in [("s3-fifo", 8), ("lru", 4), ("lru", 16), ("detox", 16), ("detox", 32)] {
        let (line, told) = foretold(&lines, &format!("{policy} at {memory} MiB: "));
        let came = measured(policy, memory, memory * 512);
        println!("{line}\n  came: {came:.1}");
        assert!((told - came).abs() <= 1.5, "{line}; came: {came:.2}");
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let refused = |arguments: &[&str], said: &str| {
        let output = forebay_command().args(["serve", "--listen", "127.0.0.1:0"]).args(arguments).output();
        let output = output.expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.trim().lines().count() == 1 && text.contains(said), "{text}");
    };
    refused(&["--shadow", "lru,nothing"], "--shadow 'lru,nothing': no policy 'nothing'; choose one of lru, ");
    let more = "--shadow-memory '40MiB': give from 1MiB to 32MiB, half of --memory, which is 64MiB";
    refused(&["--shadow", "lru", "--memory", "64MiB", "--shadow-memory", "40MiB"], more);
    let little = "shadows need 1MiB, and half of --memory, which is 1MiB, is less";
    refused(&["--shadow", "lru", "--memory", "1MiB", "--partitions", "4"], little);
    let many: Vec<String> = (1..20).map(|small| format!("s3-fifo:small=0.{small:02}")).collect();
    refused(&["--shadow", &many.join(",")], "give at most 15 policies");
    let forebay = Forebay::start("memory", &[]);
    let mut connection = Connection::new(forebay.address);
    let Reply::Error(error) = connection.call(&["CACHE", "ADVISE"]) else { panic!("no shadows") };
    let error = String::from_utf8_lossy(&error).into_owned();
    assert!(error.contains("start the server with --shadow POLICY,.."), "{error}");
}
