//! Faults 4 and 5 at each step that can be told from outside, in front of a table. Forebay is killed when a request
//! waits in the database, when it is executed and not answered, and when it is on the journal's disk. It is also
//! killed in between.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::appends::connected;
use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::lanes::away;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::start_through;
use crate::state::{PATIENCE, calm, figure};

/// When it is killed.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The request waits for a lock in the database, which may go on with it when nobody listens any more.
    InDatabase,
    /// It was executed, and the answer is lost.
    Unheard,
    /// So many ms after it began.
    After(u64),
}

const STEPS: [Step; 8] = [
    Step::InDatabase,
    Step::Unheard,
    Step::After(0),
    Step::After(1),
    Step::After(2),
    Step::After(4),
    Step::After(8),
    Step::After(16),
];

/// What is written beside the row `count:1`, in one transaction with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// Another row.
    Row,
    /// A document in forebay's own table (`--keys`).
    Document,
}

impl Second {
    const BOTH: [Second; 2] = [Second::Row, Second::Document];

    fn get(self) -> &'static [&'static str] {
        match self {
            Second::Row => &["HGET", "count:2", "n"],
            Second::Document => &["GET", "n:2"],
        }
    }

    fn add(self, count: &'static str) -> Vec<&'static str> {
        match self {
            Second::Row => vec!["HINCRBY", "count:2", "n", count],
            Second::Document => vec!["INCRBY", "n:2", count],
        }
    }
}

struct World {
    second: Second,
    server: Server,
    database: String,
    network: Proxy,
    forebay: Forebay,
}

fn world(second: Second) -> World {
    let server = Server::start();
    let database = server.database();
    server.sql(
        &database,
        "CREATE TABLE counts (id integer PRIMARY KEY, n integer); INSERT INTO counts VALUES (1, 0), (2, 0)",
    );
    let map = ["--map", "count:{id} -> counts(id)", "--keys", "n:* -> documents"];
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database), "--store-timeout-ms", "400"]).args(map);
    assert!(init.status().expect("the binary runs").success());
    let network = Proxy::to_postgres(server.address());
    let forebay = start_through(&network, &server, &database, &map);
    assert_eq!(Connection::new(forebay.address).call(&["SET", "n:2", "0"]), Reply::Simple("OK".into()));
    World { second, server, database, network, forebay }
}

/// What has landed of commits, as the database knows it.
const LANDED: &str = "SELECT count(*) FROM forebay.applied WHERE applied";

/// What waits for a lock there.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

impl World {
    fn number(&self, statement: &str) -> u64 {
        self.server.sql(&self.database, statement).parse().expect("a number")
    }

    /// Has `begin` done, and forebay killed at that step of what follows from it; then it is started again.
    fn killed_at(&mut self, step: Step, begin: impl FnOnce()) {
        let before = self.number(LANDED);
        let World { server, database, network, forebay, .. } = self;
        let until_more = |statement: &str, before: u64| {
            let began = Instant::now();
            while server.sql(database, statement).parse::<u64>().expect("a number") <= before {
                assert!(began.elapsed() < PATIENCE, "{step:?}");
            }
        };
        match step {
            Step::InDatabase => server.while_locked(database, "LOCK TABLE counts IN EXCLUSIVE MODE", || {
                begin();
                until_more(WAITING, 0);
                forebay.kill9();
            }),
            Step::Unheard => {
                server.while_locked(database, "LOCK TABLE counts IN EXCLUSIVE MODE", || {
                    begin();
                    until_more(WAITING, 0);
                    network.drop_replies();
                });
                until_more(LANDED, before);
                forebay.kill9();
                network.pass();
            }
            Step::After(ms) => {
                begin();
                std::thread::sleep(Duration::from_millis(ms));
                forebay.kill9();
            }
        }
        forebay.restart();
        calm(forebay.address);
    }

    /// What both hold.
    fn held(&self) -> String {
        let Reply::Bulk(second) = Connection::new(self.forebay.address).call(self.second.get()) else {
            panic!("it is there");
        };
        let first = self.server.sql(&self.database, "SELECT n FROM counts WHERE id = 1");
        format!("{first} {}", String::from_utf8_lossy(&second))
    }
}

/// Fault 5: a drain that is killed is finished by the next; nothing comes twice.
#[test]
fn a_drain_is_killed_at_each_step() {
    Second::BOTH.into_iter().for_each(drain_is_killed);
}

fn drain_is_killed(second: Second) {
    let mut world = world(second);
    for (turn, step) in STEPS.into_iter().enumerate() {
        let mut client = Connection::new(world.forebay.address);
        // What a start has cached may leave once more, when it is known what others have written.
        loop {
            assert_eq!(client.call(&["HGET", "count:1", "n"]), Reply::bulk(turn.to_string().as_bytes()));
            assert_eq!(client.call(second.get()), Reply::bulk((3 * turn).to_string().as_bytes()));
            away(&mut client, true);
            client.call(&["MULTI"]);
            client.call(&["HINCRBY", "count:1", "n", "1"]);
            client.call(&second.add("1"));
            if matches!(client.call(&["EXEC"]), Reply::Array(_)) {
                break;
            }
            away(&mut client, false);
            calm(world.forebay.address);
        }
        assert_eq!(client.call(&second.add("2")), Reply::Integer(3 * turn as i64 + 3));
        world.killed_at(step, || away(&mut client, false));
        assert_eq!(world.held(), format!("{} {}", turn + 1, 3 * turn + 3), "{step:?}");
        assert_eq!(figure(&mut Connection::new(world.forebay.address), "quarantined"), 0);
    }
}

/// Fault 4: a writer that is killed is there once if it was told so, and at most once if not; all of it or nothing.
#[test]
fn a_writer_is_killed_at_each_step() {
    Second::BOTH.into_iter().for_each(writer_is_killed);
}

fn writer_is_killed(second: Second) {
    let mut world = world(second);
    let mut held = 0;
    for (step, buffers) in STEPS.into_iter().flat_map(|step| [(step, false), (step, true)]) {
        // While the database is away nothing is asked of it.
        if buffers && !matches!(step, Step::After(_)) {
            continue;
        }
        let address = world.forebay.address;
        let mut client = connected(address);
        assert_eq!(client.call(&["HGET", "count:1", "n"]), Reply::bulk(held.to_string().as_bytes()));
        client.call(second.get());
        if buffers {
            away(&mut client, true);
        }
        let replies = std::thread::scope(|scope| {
            let (sender, writer) = std::sync::mpsc::channel();
            world.killed_at(step, || {
                let begin = move || {
                    let request = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
                    let add = second.add("1").join(" ");
                    let both = ["MULTI", "HINCRBY count:1 n 1", add.as_str(), "EXEC"].map(request);
                    client.try_pipeline(&both).ok()
                };
                sender.send(scope.spawn(begin)).expect("it is waited for");
            });
            writer.recv().expect("it has begun").join().expect("it ends")
        });
        let told = replies.is_some_and(|replies| matches!(replies.last(), Some(Reply::Array(_))));
        let must = told || matches!(step, Step::Unheard);
        let now: u64 = world.number("SELECT n FROM counts WHERE id = 1");
        assert!(now == held + 1 || (now == held && !must), "{step:?}: {held} became {now}, told: {told}");
        assert_eq!(world.held(), format!("{now} {now}"), "{step:?}: half of it");
        held = now;
    }
}
