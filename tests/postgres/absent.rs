//! A row that a commit has read as absent, and that another program inserts after the check, before the commit's own
//! statement. The commit is run again, or set aside. It never writes over that row.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::outside::Program;
use crate::postgres::Server;
use crate::start;

const TABLES: &str = "CREATE TABLE guards (id integer PRIMARY KEY, n integer);
    CREATE TABLE orders (id integer PRIMARY KEY, n integer, note text, xs text[]);";

const MAPS: [&str; 6] = [
    "--map",
    "guard:{id} -> guards(id) delete=row",
    "--map",
    "order:{id} -> orders(id) fields(n, note) delete=row",
    "--map",
    "list:{id} -> orders(id).xs as list",
];

/// What waits in the way of a commit's first statement, so that the row appears after the check.
struct World {
    server: Server,
    database: String,
    forebay: Forebay,
    holder: Program,
}

impl World {
    fn new() -> World {
        let server = Server::start();
        let database = server.database();
        server.sql(&database, TABLES);
        let forebay = start(&server, &database, &MAPS);
        let holder = Program::new(&server, &database);
        World { server, database, forebay, holder }
    }

    /// While row `id` is being inserted by another program: `meanwhile`, until forebay waits behind the guard.
    fn held<T: Send>(&self, id: usize, meanwhile: impl FnOnce() -> T + Send) -> T {
        self.holder.sql(&format!("BEGIN; INSERT INTO guards VALUES ({id}, 1)"));
        std::thread::scope(|scope| {
            let done = scope.spawn(meanwhile);
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            let began = Instant::now();
            while self.server.sql(&self.database, waits) == "0" {
                assert!(began.elapsed() < Duration::from_secs(30), "nothing waits behind the guard");
            }
            self.server.sql(&self.database, &format!("INSERT INTO orders VALUES ({id}, 100, 'theirs', '{{theirs}}')"));
            self.holder.sql("ROLLBACK");
            done.join().expect("it is done")
        })
    }

    fn row(&self, id: usize) -> String {
        self.server.sql(&self.database, &format!("SELECT n, note, xs FROM orders WHERE id = {id}"))
    }
}

fn told(reply: &Reply) -> String {
    match reply {
        Reply::Array(all) => all.iter().map(told).collect::<Vec<_>>().join(" "),
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

/// What the commands of these lines answer; `#` is the row.
fn run(client: &mut Connection, id: usize, lines: &[&str]) -> Vec<String> {
    let words = |line: &str| line.replace('#', &id.to_string()).split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut call = |line: &&str| told(&client.call(&words(line).iter().map(String::as_str).collect::<Vec<_>>()));
    lines.iter().map(&mut call).collect()
}

/// Commands, what the last of them answers, and the row behind them.
const CASES: [(&[&str], &str, &str); 7] = [
    (&["MULTI", "HSET guard:# n 1", "SETNX order:# {\"n\":5}", "EXEC"], "Integer(1) Integer(0)", "100|theirs|{theirs}"),
    (&["MULTI", "HSET guard:# n 1", "HSETNX order:# n 5", "EXEC"], "Integer(1) Integer(0)", "100|theirs|{theirs}"),
    (&["MULTI", "HSET guard:# n 1", "HINCRBY order:# n 5", "EXEC"], "Integer(1) Integer(105)", "105|theirs|{theirs}"),
    (&["MULTI", "HSET guard:# n 1", "RPUSH list:# x", "EXEC"], "Integer(1) Integer(2)", "100|theirs|{theirs,x}"),
    (
        &["TXN BEGIN", "HGETALL order:#", "HSET guard:# n 1", "HSET order:# n 5", "TXN COMMIT"],
        "TXCONFLICT",
        "100|theirs|{theirs}",
    ),
    (
        &["TXN BEGIN", "LLEN list:#", "HSET guard:# n 1", "RPUSH list:# x", "TXN COMMIT"],
        "TXCONFLICT",
        "100|theirs|{theirs}",
    ),
    (
        &["WATCH order:#", "HGETALL order:#", "MULTI", "HSET guard:# n 1", "HSET order:# n 5", "EXEC"],
        "Nil",
        "100|theirs|{theirs}",
    ),
];

#[test]
fn a_row_that_appears_after_the_check_is_not_written_over() {
    let world = World::new();
    for (id, (lines, told, row)) in CASES.iter().enumerate() {
        let mut client = Connection::new(world.forebay.address);
        let answers = world.held(id, || run(&mut client, id, lines));
        let last = answers.last().expect("there are commands");
        assert!(last.contains(told), "{lines:?}: {answers:?}");
        assert_eq!(world.row(id), *row, "{lines:?}: {answers:?}");
    }
}

/// Likewise where it was buffered, and rests on what was read.
#[test]
fn a_row_that_appears_after_the_drains_check_is_not_written_over() {
    let world = World::new();
    for (id, at) in [(1, 0), (2, 1), (3, 5)] {
        let mut client = Connection::new(world.forebay.address);
        run(&mut client, id, &["HGETALL order:#", "LLEN list:#", "HGETALL guard:#"]);
        run(&mut client, id, &["DEBUG STORE FAIL 600"]);
        let answers = world.held(id, || {
            let answers = run(&mut client, id, CASES[at].0);
            run(&mut client, id, &["DEBUG STORE FAIL 0"]);
            answers
        });
        let began = Instant::now();
        while !run(&mut client, id, &["CACHE QUARANTINE LIST"])[0].contains("it read") {
            assert!(began.elapsed() < Duration::from_secs(30), "{answers:?}: {}", world.row(id));
        }
        assert_eq!(world.row(id), "100|theirs|{theirs}", "{answers:?}");
        let ticket = run(&mut client, id, &["CACHE QUARANTINE LIST"])[0].clone();
        let ticket = ticket.split("Integer(").nth(1).and_then(|rest| rest.split(')').next()).expect("a ticket");
        let dropped = run(&mut client, id, &[&format!("CACHE QUARANTINE DROP {ticket} tested")]);
        assert!(dropped[0].contains("OK"), "{dropped:?}");
    }
}

/// What is only taken from a list makes no row where another program has deleted that.
#[test]
fn what_is_taken_from_a_list_makes_no_row() {
    let world = World::new();
    let mut client = Connection::new(world.forebay.address);
    world.server.sql(&world.database, "INSERT INTO orders VALUES (1, 1, 'mine', '{a,b}')");
    run(&mut client, 1, &["LRANGE list:# 0 -1", "DEBUG STORE FAIL 600"]);
    assert_eq!(run(&mut client, 1, &["LREM list:# 0 a"]), ["Integer(1)"]);
    world.server.sql(&world.database, "DELETE FROM orders WHERE id = 1");
    run(&mut client, 1, &["DEBUG STORE FAIL 0"]);
    let began = Instant::now();
    while !run(&mut client, 1, &["CACHE STATE"])[0].contains("mode normal") {
        assert!(began.elapsed() < Duration::from_secs(30), "it is applied");
    }
    assert_eq!(run(&mut client, 1, &["CACHE QUARANTINE LIST"]), [""]);
    assert_eq!(world.row(1), "");
}
