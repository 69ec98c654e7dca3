//! A client in a process: it does what the others do, and tells each transaction in a line of its output.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::mutation::{self, Fault};
use forebay_client::{Client, Leases, Level, Options};
use forebay_workload::checkers::{Event, Op, Outcome};

use super::tasks::{Notes, Worker};
use super::work::outcome;

/// Holds an [`Order`].
const ORDER: &str = "FOREBAY_CLIENT_PROCESS";

/// Elements that one process appends at most.
const ELEMENTS: u64 = 1_000_000_000;

/// How long a client tries to connect: the server may be away.
const PATIENCE: Duration = Duration::from_secs(20);

/// The names of transactions that are told.
const NAMES: [&str; 3] = ["lists", "register", "plain"];

/// What a process is to do.
#[derive(Clone)]
pub struct Order {
    pub address: String,
    pub level: Level,
    pub seed: u64,
    /// It tells sessions apart.
    pub number: u32,
    /// A rule that it leaves out.
    pub fault: Option<Fault>,
    /// Lists are all that there is.
    pub lists_alone: bool,
}

/// Nanoseconds on the one clock of all processes. It can't be moved.
pub fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Order {
    fn to_text(&self) -> String {
        let level = match self.level {
            Level::Bounded(most) => most.as_millis().to_string(),
            Level::Session => "session".into(),
            Level::Strict => "strict".into(),
        };
        let fault = self.fault.map_or("none".into(), |fault| format!("{fault:?}"));
        format!("{} {level} {} {} {fault} {}", self.address, self.seed, self.number, self.lists_alone)
    }

    fn of_text(text: &str) -> Order {
        let words: Vec<&str> = text.split(' ').collect();
        let [address, level, seed, number, fault, alone] = words[..] else { panic!("{text:?}") };
        let level = match level {
            "session" => Level::Session,
            "strict" => Level::Strict,
            most => Level::Bounded(Duration::from_millis(most.parse().expect("milliseconds"))),
        };
        let known = [Fault::FloorIgnored, Fault::StaleTakenForDone];
        let fault = known.into_iter().find(|known| format!("{known:?}") == fault);
        let (seed, number) = (seed.parse().expect("a number"), number.parse().expect("a number"));
        Order { address: address.to_owned(), level, seed, number, fault, lists_alone: alone == "true" }
    }

    /// Starts a process that works until its input ends.
    pub fn start(&self, environment: &[(String, String)]) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "process::a_client", "--ignored", "--nocapture", "--test-threads", "1"]);
        command.env(ORDER, self.to_text()).envs(environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("this test runs")
    }

    async fn connect(&self) -> Client {
        let options = Options::new(self.address.as_str()).level(self.level).cache_bytes(1 << 20);
        let options = options.reply_time_max(Duration::from_secs(2));
        // Some trust their copies for ever, so that checks find the most.
        let options = if self.number.is_multiple_of(2) { options.leases(Leases::Endless) } else { options };
        let began = Instant::now();
        loop {
            match options.clone().connect().await {
                Ok(client) => return client,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What a process says: its transactions, and at its end how many of them were of which kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Event(Event),
    /// Commits, reads by copies, transactions without a message, stale ones, lost ones, commits not known.
    Counted([u64; 6]),
}

impl Said {
    pub fn to_line(&self) -> String {
        let Event { client, name, invoked, completed, ops, outcome } = match self {
            Said::Event(event) => event,
            Said::Counted(counts) => return format!("@counted {}\n", counts.map(|count| count.to_string()).join(" ")),
        };
        let op = |op: &Op| match op {
            Op::Append { key, element, length } => {
                format!("append:{key}:{element}:{}", length.map_or(String::new(), |length| length.to_string()))
            }
            Op::List { key, elements } => {
                format!("list:{key}:{}", elements.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
            }
            Op::Read { key, value } => format!("read:{key}:{value}"),
            Op::Add { key, delta } => format!("add:{key}:{delta}"),
        };
        let ops = ops.iter().map(op).collect::<Vec<_>>().join(",");
        let outcome = match outcome {
            Outcome::Committed => "committed",
            Outcome::Failed(_) => "failed",
            Outcome::Unknown(_) => "unknown",
        };
        format!("@{name} {client} {invoked} {completed} {outcome} {ops}\n")
    }

    /// What a whole line says; `None` of a line of the test's frame.
    pub fn of_line(line: &str) -> Option<Said> {
        let words: Vec<&str> = line.trim_end_matches('\n').strip_prefix('@')?.split(' ').collect();
        if let ["counted", counts @ ..] = &words[..] {
            let counts: Vec<u64> = counts.iter().map(|count| count.parse().expect("a count")).collect();
            return Some(Said::Counted(counts.try_into().expect("six counts")));
        }
        let [name, client, invoked, completed, outcome, ops] = words[..] else { panic!("{line:?}") };
        let name = NAMES.into_iter().find(|known| *known == name).expect("a known name");
        let outcome = match outcome {
            "committed" => Outcome::Committed,
            "failed" => Outcome::Failed("FAILED".into()),
            _ => Outcome::Unknown("its client is gone".into()),
        };
        let ops = ops.split(',').filter(|op| !op.is_empty()).map(op_of).collect();
        let [invoked, completed] = [invoked, completed].map(|tick| tick.parse().expect("a tick"));
        let client = client.parse().expect("a number");
        Some(Said::Event(Event { client, name, invoked, completed, ops, outcome }))
    }
}

fn op_of(text: &str) -> Op {
    let words: Vec<&str> = text.split(':').collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let key = number(words[1]);
    match (words[0], &words[2..]) {
        ("append", [element, length]) => {
            let length = (!length.is_empty()).then(|| number(length));
            Op::Append { key, element: number(element), length }
        }
        ("list", [elements]) => {
            Op::List { key, elements: elements.split('.').filter(|text| !text.is_empty()).map(number).collect() }
        }
        ("read", [value]) => Op::Read { key, value: value.parse().expect("a number") },
        ("add", [delta]) => Op::Add { key, delta: delta.parse().expect("a number") },
        _ => panic!("{text:?}"),
    }
}

fn say(said: &Said) {
    // One write: a process that is killed leaves half a line at most.
    std::io::stdout().lock().write_all(said.to_line().as_bytes()).expect("the test reads it");
}

async fn at_work(order: Order, ended: Arc<AtomicBool>) {
    let notes = Notes::new(nanoseconds).of_process(u64::from(order.number) * ELEMENTS + 1, |event| {
        say(&Said::Event(event.clone()));
    });
    let client = order.connect().await;
    let mut worker = Worker::new(client.clone(), order.number, order.level, order.seed);
    while !ended.load(Ordering::SeqCst) {
        let done = match order.lists_alone {
            true => Some(worker.lists(&notes).await),
            false => worker.step(&notes).await,
        };
        if let Some((event, fate)) = done {
            let outcome = outcome(&client, fate).await;
            notes.enter(Event { completed: notes.tick(), outcome, ..event });
        }
        if worker.random.bool() {
            tokio::time::sleep(Duration::from_micros(worker.random.u64(..3000))).await;
        }
    }
    let counted = client.statistics();
    let lost = counted.lost_aborts;
    say(&Said::Counted([counted.committed, counted.fresh, counted.alone, counted.stale_aborts, lost, counted.unknown]));
}

/// The process itself.
#[test]
#[ignore = "a process that other tests start"]
fn a_client() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let order = Order::of_text(&order);
    let ended = Arc::new(AtomicBool::new(false));
    let ends = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ends.store(true, Ordering::SeqCst);
    });
    mutation::put_back(order.fault);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(at_work(order, ended));
}

#[test]
fn lines_say_what_was_said() {
    let ops = vec![
        Op::Append { key: 1, element: 2, length: Some(3) },
        Op::Append { key: 1, element: 2, length: None },
        Op::List { key: 4, elements: vec![5, 6] },
        Op::List { key: 4, elements: vec![] },
        Op::Read { key: 0, value: -7 },
        Op::Add { key: 0, delta: -1 },
    ];
    let event = Event { client: 8, name: "lists", invoked: 9, completed: 10, ops, outcome: Outcome::Committed };
    for said in [
        Said::Event(event.clone()),
        Said::Event(Event { ops: vec![], outcome: Outcome::Failed("FAILED".into()), ..event.clone() }),
        Said::Event(Event { outcome: Outcome::Unknown("its client is gone".into()), ..event }),
        Said::Counted([1, 2, 3, 4, 5, 6]),
    ] {
        assert_eq!(Said::of_line(&said.to_line()), Some(said));
    }
    assert_eq!(Said::of_line("running 1 test\n"), None);
}
