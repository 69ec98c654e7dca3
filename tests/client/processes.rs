//! Ten clients, each a process, against one server that is a process too. Clients and server are killed, and stopped
//! for a while. Connections are cut, replies lost, wall clocks moved by hours. Over PostgreSQL another program appends
//! to the same lists. What all of them saw is judged by the level of their transactions.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_client::mutation::Fault;
use forebay_client::{Level, Options};
use forebay_workload::checkers::{Event, Op, Outcome};

use super::common::process::{Forebay, forebay_command, signal, wait};
use super::judge;
use super::moved::{Clock, HOUR_SECONDS};
use super::postgres::Server;
use super::process::{Order, Said, nanoseconds};
use super::proxy::Proxy;
use super::tasks::{self, LISTS, Notes};
use super::work::seed;

const CLIENTS: u32 = 10;

/// A process has so long to end what it is doing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Elements of the other program; those of clients are greater.
const OUTSIDE_FIRST: u64 = 1;

/// How long the clients of one test are at work, at least: each trouble comes once.
fn length() -> Duration {
    Duration::from_secs(if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 200 } else { 2 })
}

/// What the clients have said.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    /// As in [`Said::Counted`], of all clients that ended by themselves.
    counted: [u64; 6],
}

impl Log {
    fn take(&mut self, said: Said) {
        match said {
            Said::Event(event) => self.events.push(event),
            Said::Counted(counts) => self.counted.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
        }
    }
}

struct Member {
    child: Child,
    reader: JoinHandle<()>,
}

struct World {
    forebay: Forebay,
    proxy: Proxy,
    /// Of the server and of the clients.
    clocks: [Clock; 2],
    members: Vec<Member>,
    order: Order,
    log: Arc<Mutex<Log>>,
    random: fastrand::Rng,
    _folder: tempfile::TempDir,
}

/// What happens while clients are at work.
const TROUBLES: [fn(&mut World); 9] = [
    World::client_stops,
    World::connections_are_cut,
    World::server_stops,
    World::clocks_are_moved,
    World::client_is_killed,
    World::replies_are_lost,
    World::server_is_killed,
    World::clocks_are_moved,
    World::all_clients_stop,
];

impl World {
    /// A server over `store`, and ten clients at work.
    fn new(store: &str, more: &[&str], level: Level, fault: Option<Fault>) -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clocks = ["server", "clients"].map(|name| Clock::new(&folder, name));
        let forebay = Forebay::start_in(&clocks[0].environment, store, more);
        let proxy = Proxy::to(forebay.address);
        let seed = seed();
        let lists_alone = more.contains(&"--map");
        let order = Order { address: proxy.address.to_string(), level, seed, number: 2, fault, lists_alone };
        let (members, log, random) = (Vec::new(), Arc::default(), fastrand::Rng::with_seed(seed));
        let mut world = World { forebay, proxy, clocks, members, order, log, random, _folder: folder };
        if !lists_alone {
            world.apart(async |client| tasks::prepare(client).await.expect("the keys are set"));
        }
        (0..CLIENTS).for_each(|_| world.start_client());
        world
    }

    /// Does something as a strict client of this process.
    fn apart(&self, something: impl AsyncFnOnce(&forebay_client::Client)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let options = Options::new(self.forebay.address.to_string()).level(Level::Strict);
            something(&options.connect().await.expect("the server listens")).await;
        });
    }

    fn start_client(&mut self) {
        self.order.number += 1;
        // Half of them have a clock that is moved.
        let environment: &[_] = if self.order.number.is_multiple_of(2) { &self.clocks[1].environment } else { &[] };
        let mut child = self.order.start(environment);
        let (output, log) = (child.stdout.take().expect("it is piped"), self.log.clone());
        let reader = std::thread::spawn(move || {
            let (mut output, mut line) = (BufReader::new(output), String::new());
            while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                // A process that was killed leaves half a line.
                if let Some(said) = line.ends_with('\n').then(|| Said::of_line(&line)).flatten() {
                    log.lock().unwrap().take(said);
                }
                line.clear();
            }
        });
        self.members.push(Member { child, reader });
    }

    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.random.u64(most_ms / 2..=most_ms)));
    }

    fn client_stops(&mut self) {
        let member = self.random.usize(..self.members.len());
        signal(&self.members[member].child, "STOP");
        self.pause(300);
        signal(&self.members[member].child, "CONT");
    }

    fn all_clients_stop(&mut self) {
        self.members.iter().for_each(|member| signal(&member.child, "STOP"));
        self.pause(200);
        self.members.iter().for_each(|member| signal(&member.child, "CONT"));
    }

    fn server_stops(&mut self) {
        self.forebay.signal("STOP");
        self.pause(300);
        self.forebay.signal("CONT");
    }

    fn client_is_killed(&mut self) {
        let member = self.random.usize(..self.members.len());
        let Member { mut child, reader } = self.members.swap_remove(member);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        reader.join().expect("what it said is read");
        self.start_client();
    }

    fn server_is_killed(&mut self) {
        self.forebay.restart();
        self.proxy.lead_to(self.forebay.address);
        self.proxy.cut();
    }

    fn connections_are_cut(&mut self) {
        self.proxy.cut();
    }

    fn replies_are_lost(&mut self) {
        self.proxy.drop_replies();
        self.pause(60);
        self.proxy.pass();
        self.proxy.cut();
    }

    fn clocks_are_moved(&mut self) {
        for clock in &mut self.clocks {
            clock.set(self.random.i64(-2..=2) * HOUR_SECONDS + self.random.i64(-2..=2));
        }
    }

    /// Has each trouble happen at least once, then any.
    fn trouble(&mut self) {
        let began = Instant::now();
        for at in 0.. {
            if at >= TROUBLES.len() && began.elapsed() > length() {
                return;
            }
            self.pause(100);
            let any = self.random.usize(..TROUBLES.len());
            TROUBLES[if at < TROUBLES.len() { at } else { any }](self);
        }
    }

    /// Has all clients end; what they have said, and the last look at all keys. `None` if a client has failed.
    fn end(&mut self) -> Option<Log> {
        let mut ended = true;
        for Member { mut child, reader } in self.members.drain(..) {
            drop(child.stdin.take());
            let status = wait(&mut child, PATIENCE).expect("a client ends");
            ended &= status.success();
            reader.join().expect("what it said is read");
        }
        if !ended {
            return None;
        }
        let notes = Notes::new(nanoseconds);
        self.apart(async |client| match self.order.lists_alone {
            true => tasks::look_at_lists(client, &notes).await,
            false => tasks::last_look(client, &notes).await,
        });
        let mut log = std::mem::take(&mut *self.log.lock().unwrap());
        log.events.extend(notes.history());
        Some(log)
    }
}

impl Drop for World {
    /// A test that fails leaves no process.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// The transactions on lists, each once: those that have begun and did not end may have committed.
fn lists(events: &[Event]) -> Vec<Event> {
    let (begun, mut history): (Vec<&Event>, Vec<Event>) = {
        let lists = || events.iter().filter(|event| event.name != "register");
        (lists().filter(|event| event.unknown()).collect(), lists().filter(|event| !event.unknown()).cloned().collect())
    };
    let appended = |event: &Event| event.ops.iter().find(|op| matches!(op, Op::Append { .. })).cloned();
    let element = |op: Op| if let Op::Append { element, .. } = op { element } else { 0 };
    let ended: std::collections::HashSet<u64> = history.iter().filter_map(appended).map(element).collect();
    let open = begun.into_iter().filter(|event| appended(event).is_some_and(|op| !ended.contains(&element(op))));
    history.extend(open.cloned().collect::<Vec<_>>());
    history
}

/// No two transactions write one number to the register. What begins after one has ended sees its number, if it writes
/// or is strict.
fn judge_register(events: &[Event], level: Level) -> Result<usize, String> {
    let number = |event: &Event| {
        event.ops.iter().find_map(|op| if let Op::Read { value, .. } = op { Some(*value) } else { None })
    };
    let mut register: Vec<(&Event, i64)> = events
        .iter()
        .filter(|event| event.name == "register")
        .filter_map(|event| Some((event, number(event)?)))
        .collect();
    let wrote = |event: &Event| event.ops.len() > 1;
    let mut written: Vec<i64> = register.iter().filter(|(event, _)| wrote(event)).map(|(_, number)| *number).collect();
    written.sort_unstable();
    if let Some(twice) = written.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} was written twice", twice[0]));
    }
    register.sort_unstable_by_key(|(event, _)| event.completed);
    let mut newest = Vec::with_capacity(register.len());
    for (event, number) in &register {
        let before: i64 = newest.last().map_or(0, |(_, newest)| *newest);
        newest.push((event.completed, before.max(*number)));
    }
    for (event, number) in &register {
        let before = newest.partition_point(|(completed, _)| *completed < event.invoked);
        let least = newest[..before].last().map_or(0, |(_, newest)| *newest) + i64::from(wrote(event));
        if (wrote(event) || level == Level::Strict) && *number < least {
            return Err(format!("{number} where {least} was known, at {}", event.invoked));
        }
    }
    Ok(register.len())
}

/// Judges all that was said; how much that was.
fn verdict(log: &Log, level: Level) -> Result<[usize; 2], String> {
    let history = lists(&log.events);
    judge::at_level(&history, level).map_err(|violation| violation.to_string())?;
    let register = judge_register(&log.events, level)?;
    judge::finds_what_is_planted(&history, level);
    Ok([history.len(), register])
}

/// Likewise, and of the register at least so much.
fn judge(log: &Log, level: Level, register_least: usize) {
    let [lists, register] = verdict(log, level).unwrap_or_else(|wrong| panic!("{wrong}"));
    let [committed, fresh, alone, stale, lost, unknown] = log.counted;
    eprintln!(
        "{level:?}: {lists} transactions on lists, {register} on the register; {committed} committed, {fresh} fresh \
         reads, {alone} without a message, {stale} found stale, {lost} lost, {unknown} not known"
    );
    assert!(
        lists > 50 && register >= register_least && committed > 20 && fresh > 10 && stale > 0 && lost > 0,
        "too few"
    );
}

#[test]
fn sessions_over_embedded_in_trouble() {
    let mut world = World::new("embedded", &[], Level::Session, None);
    world.trouble();
    judge(&world.end().expect("no client fails"), Level::Session, 20);
}

#[test]
fn strict_over_embedded_in_trouble() {
    let mut world = World::new("embedded", &[], Level::Strict, None);
    world.trouble();
    judge(&world.end().expect("no client fails"), Level::Strict, 20);
}

#[test]
fn bounded_over_embedded_in_trouble() {
    let level = Level::Bounded(Duration::from_millis(30));
    let mut world = World::new("embedded", &[], level, None);
    world.trouble();
    judge(&world.end().expect("no client fails"), level, 20);
}

const MAPS: [&str; 2] = ["--map", "list:{id} -> lists(id).elements as list"];

/// Nothing is buffered, and a database on a busy machine is waited for.
const PATIENT: [&str; 8] =
    ["--on-outage", "refuse", "--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];

/// Appends to the lists by SQL until `ended`.
fn outside(server: &Server, database: &str, ended: &AtomicBool, seed: u64) -> Vec<Event> {
    let (mut random, mut events) = (fastrand::Rng::with_seed(seed), Vec::new());
    for element in OUTSIDE_FIRST.. {
        if ended.load(Ordering::SeqCst) {
            break;
        }
        let (key, invoked) = (random.u64(..LISTS), nanoseconds());
        let length = server.sql(
            database,
            &format!(
                "INSERT INTO lists VALUES ({key}, '{{{element}}}') ON CONFLICT (id) DO UPDATE
                 SET elements = lists.elements || EXCLUDED.elements RETURNING cardinality(elements)"
            ),
        );
        let length = length.lines().next().map(|length| length.parse().expect("a length"));
        let (ops, completed) = (vec![Op::Append { key, element, length }], nanoseconds());
        events.push(Event { client: 0, name: "plain", invoked, completed, ops, outcome: Outcome::Committed });
        std::thread::sleep(Duration::from_millis(random.u64(..30)));
    }
    events
}

/// Each transaction is validated there, so all is as strict as can be.
#[test]
fn strict_over_postgres_in_trouble_beside_another_program() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE lists (id bigint PRIMARY KEY, elements bigint[])");
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(MAPS);
    assert!(init.status().expect("the binary runs").success());
    let mut world = World::new(&url, &[&MAPS[..], &PATIENT[..]].concat(), Level::Strict, None);
    let ended = AtomicBool::new(false);
    let (log, events) = std::thread::scope(|scope| {
        let outside = scope.spawn(|| outside(&server, &database, &ended, 7));
        world.trouble();
        ended.store(true, Ordering::SeqCst);
        let events = outside.join().expect("another program writes");
        (world.end().expect("no client fails"), events)
    });
    assert!(events.len() > 10, "{} by another program", events.len());
    let events = log.events.into_iter().chain(events).collect();
    judge(&Log { events, counted: log.counted }, Level::Strict, 0);
}

/// Whether clients that leave out this rule are found, by the judge or by what they see themselves.
fn is_found(fault: Option<Fault>) -> bool {
    let (level, mut world) = (Level::Session, World::new("memory", &[], Level::Session, fault));
    std::thread::sleep(Duration::from_secs(1));
    let log = world.end();
    log.is_none_or(|log| verdict(&log, level).is_err())
}

/// Without that rule lost updates are seen; with it, none.
#[test]
fn a_rule_left_out_is_found() {
    assert!(is_found(Some(Fault::StaleTakenForDone)) && !is_found(None));
}

#[test]
fn a_register_that_goes_back_is_found() {
    let event = |invoked, completed, number, writes: bool| {
        let mut ops = vec![Op::Read { key: 0, value: number }];
        ops.extend(writes.then_some(Op::Add { key: 0, delta: 1 }));
        Event { client: 1, name: "register", invoked, completed, ops, outcome: Outcome::Committed }
    };
    let sound = [event(1, 2, 1, true), event(3, 9, 1, false), event(4, 5, 2, true)];
    assert_eq!(judge_register(&sound, Level::Strict), Ok(3));
    let twice = [event(1, 4, 1, true), event(2, 3, 1, true)];
    assert!(judge_register(&twice, Level::Session).is_err());
    let older = [event(1, 2, 5, true), event(3, 4, 4, false)];
    assert!(judge_register(&older, Level::Strict).is_err() && judge_register(&older, Level::Session).is_ok());
    assert!(judge_register(&[event(1, 2, 5, true), event(3, 4, 5, true)], Level::Session).is_err());
}
