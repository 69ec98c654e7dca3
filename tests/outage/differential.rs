//! Random commands on rows, lists and documents, with outages and without. The tables are equal afterwards, columns
//! that no command names and defaults included. So are what triggers do and what foreign keys take along. Nothing is
//! set aside.
//!
//! What is refused in an outage since it is not known then is left out of the run without one. All other replies are
//! compared, those that tell of columns with defaults as well. What triggers note is compared row by row: what is
//! applied together may change rows in another order than one by one.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::lanes::away;
use crate::postgres::Server;
use crate::start;
use crate::state::{calm, figure, said};

const TABLES: &str = "\
CREATE TABLE carts (id integer PRIMARY KEY, items integer, visits integer DEFAULT 7, note text,
    hidden text DEFAULT 'new');
INSERT INTO carts (id, items, hidden) VALUES (1, 1, 'was'), (2, NULL, 'was'), (3, 3, 'was');
CREATE TABLE filled (id integer PRIMARY KEY, n integer DEFAULT 5, note text, twice integer
    GENERATED ALWAYS AS (coalesce(n, 0) * 2) STORED);
CREATE TABLE queues (id integer PRIMARY KEY, jobs text[], hidden text DEFAULT 'new');
INSERT INTO queues VALUES (1, NULL, 'was'), (2, '{a,b}', 'was');
CREATE TABLE pairs (id integer PRIMARY KEY, a integer, b text, xs text[]);
INSERT INTO pairs VALUES (1, 1, 'n', '{a}'), (2, NULL, NULL, NULL);
CREATE TABLE watched (id integer PRIMARY KEY, n integer, changed integer NOT NULL DEFAULT 0);
CREATE TABLE log (seq bigserial, what text, id integer, n integer);
CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF TG_OP = ''UPDATE'' THEN NEW.changed := OLD.changed + 1; END IF; RETURN NEW; END';
CREATE FUNCTION jot() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log (what, id, n)
    SELECT TG_OP, r.id, r.n FROM (SELECT (coalesce(NEW, OLD)).*) r; RETURN NULL; END';
CREATE TRIGGER bump BEFORE INSERT OR UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION bump();
CREATE TRIGGER jot AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION jot();
CREATE TABLE owners (id integer PRIMARY KEY, name text);
CREATE TABLE pets (id integer PRIMARY KEY, owner integer REFERENCES owners ON DELETE CASCADE, name text,
    hidden text DEFAULT 'new');
INSERT INTO owners VALUES (1, 'Ada'), (2, 'Bob');
INSERT INTO pets VALUES (1, 1, 'Rex', 'was'), (2, 2, 'Tom', 'was'), (3, NULL, 'Kim', 'was')";

const MAPS: [&str; 18] = [
    "--map",
    "cart:{id} -> carts(id) fields(items, visits, note) delete=row",
    "--map",
    "filled:{id} -> filled(id) fields(n, note) delete=row",
    "--map",
    "queue:{id} -> queues(id).jobs as list",
    "--map",
    "watch:{id} -> watched(id) fields(n) delete=row",
    "--map",
    "owner:{id} -> owners(id) delete=row",
    "--map",
    "pet:{id} -> pets(id) fields(owner, name) delete=row",
    "--map",
    "left:{id} -> pairs(id) fields(a) delete=row",
    "--map",
    "right:{id} -> pairs(id) fields(b) delete=row",
    "--map",
    "third:{id} -> pairs(id).xs as list",
];

/// All that they hold, but for what forebay keeps in them.
const ROWS: &str = "\
SELECT 'cart', id, items, visits, note, hidden FROM carts ORDER BY id;
SELECT 'filled', id, n, note, twice FROM filled ORDER BY id;
SELECT 'queue', id, jobs, hidden FROM queues ORDER BY id;
SELECT 'pair', id, a, b, xs FROM pairs ORDER BY id;
SELECT 'watch', id, n, changed FROM watched ORDER BY id;
SELECT 'log', what, id, n FROM log ORDER BY id, seq;
SELECT 'owner', id, name FROM owners ORDER BY id;
SELECT 'pet', id, owner, name, hidden FROM pets ORDER BY id";

const DOCUMENTS: &str = "SELECT convert_from(name, 'UTF8'), encode(value, 'hex') FROM forebay.documents ORDER BY name";

/// Commands in one window, half of which is an outage.
const COMMANDS: u64 = 60;

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A command, and whether its reply is the same with an outage.
type Drawn = (String, bool);

fn cart(draw: &mut Draw) -> Drawn {
    let (key, number) = (format!("cart:{}", 1 + draw.below(5)), draw.below(9));
    match draw.below(20) {
        0..=2 => (format!("HSET {key} items {number}"), true),
        3 => (format!("HMSET {key} items {number} note n{number}"), true),
        4 => (format!("HINCRBY {key} items {number}"), true),
        5 => (format!("HINCRBY {key} visits {number}"), true),
        6 => (format!("HSET {key} visits {number}"), true),
        7 => (format!("HDEL {key} items"), true),
        8 => (format!("HDEL {key} note"), true),
        9 => (format!("SET {key} {{\"items\":{number},\"note\":null}}"), true),
        10 => (format!("SETNX {key} {{\"items\":{number}}}"), true),
        11 => (format!("SETNX {key} {{}}"), true),
        12 | 13 => (format!("DEL {key}"), true),
        14 => (format!("UNLINK {key}"), true),
        15 => (format!("GETDEL {key}"), true),
        16 => (format!("HGET {key} items"), true),
        17 => (format!("HGET {key} visits"), true),
        18 => (format!("HSETNX {key} visits {number}"), true),
        _ => (format!("EXISTS {key}"), true),
    }
}

/// Rows that come and go, of which the database fills a column.
fn filled(draw: &mut Draw) -> Drawn {
    let (key, number) = (format!("filled:{}", 1 + draw.below(3)), draw.below(9));
    let text = match draw.below(14) {
        0 | 1 => format!("HSET {key} note n{number}"),
        2 => format!("HMSET {key} note m{number}"),
        3 => format!("HMSET {key} n {number}"),
        4 => format!("HINCRBY {key} n 1"),
        5 => format!("HSETNX {key} n {number}"),
        6 => format!("HDEL {key} n"),
        7 => format!("HGET {key} n"),
        8 => format!("HMGET {key} note n"),
        9 => format!("SETNX {key} {{\"note\":\"x\"}}"),
        10 => format!("SET {key} {{\"n\":{number},\"note\":\"y\"}}"),
        11 => format!("HLEN {key}"),
        _ => format!("DEL {key}"),
    };
    (text, true)
}

fn queue(draw: &mut Draw, key: &str) -> Drawn {
    let element = ["a", "b", "c"][draw.below(3) as usize];
    let text = match draw.below(10) {
        0..=2 => format!("RPUSH {key} {element}"),
        3 => format!("LPUSH {key} {element}"),
        4 => format!("LREM {key} 0 {element}"),
        5 | 6 => format!("LPOP {key}"),
        7 => format!("RPOP {key}"),
        8 => format!("DEL {key}"),
        _ => format!("LRANGE {key} 0 -1"),
    };
    (text, true)
}

fn watched(draw: &mut Draw) -> Drawn {
    let (key, number) = (format!("watch:{}", 1 + draw.below(2)), draw.below(9));
    let text = match draw.below(7) {
        0 | 1 => format!("HSET {key} n {number}"),
        2 => format!("HINCRBY {key} n 1"),
        3 => format!("HDEL {key} n"),
        4 => format!("SETNX {key} {{\"n\":{number}}}"),
        5 => format!("EXISTS {key}"),
        _ => format!("DEL {key}"),
    };
    (text, true)
}

fn document(draw: &mut Draw) -> Drawn {
    let (at, number) = (draw.below(3), draw.below(9));
    let text = match draw.below(14) {
        0 => format!("SET text:{at} {number}"),
        1 => format!("APPEND text:{at} {number}"),
        2 => format!("INCRBY text:{at} {number}"),
        3 => format!("SETRANGE text:{at} {number} x"),
        4 => format!("SETNX text:{at} {number}"),
        5 => format!("DEL text:{at}"),
        6 => format!("HSET hash:{at} f{number} {number}"),
        7 => format!("HDEL hash:{at} f{number}"),
        8 => format!("HINCRBY hash:{at} f{number} 1"),
        9 => format!("UNLINK hash:{at}"),
        10 => format!("SADD set:{at} {number}"),
        11 => format!("SREM set:{at} {number}"),
        12 => format!("EXISTS text:{at} hash:{at} set:{at} queue:{at}"),
        _ => return queue(draw, &format!("queue:{at}")),
    };
    (text, true)
}

fn owner(draw: &mut Draw, owners: &[bool; 3]) -> Drawn {
    let (owner, pet) = (draw.below(3) as usize, 1 + draw.below(4));
    let text = match draw.below(6) {
        0 => format!("SET owner:{} {{\"name\":\"x\"}}", owner + 1),
        1 => format!("DEL owner:{}", owner + 1),
        2 | 3 if owners[owner] => format!("HSET pet:{pet} owner {}", owner + 1),
        4 => format!("DEL pet:{pet}"),
        _ => format!("HSET pet:{pet} name n{pet}"),
    };
    (text, false)
}

/// Two documents of one row, and a list in it.
fn pair(draw: &mut Draw) -> Drawn {
    let (at, number) = (1 + draw.below(3), draw.below(9));
    let (key, field) = if draw.below(2) == 0 { (format!("left:{at}"), "a") } else { (format!("right:{at}"), "b") };
    let text = match draw.below(12) {
        0..=2 => format!("HMSET {key} {field} {number}"),
        3 => format!("HSET {key} {field} {number}"),
        4 => format!("HDEL {key} {field}"),
        5 | 6 => format!("DEL {key}"),
        7 | 8 => format!("EXISTS {key}"),
        9 => format!("SETNX {key} {{\"{field}\":{number}}}"),
        _ => return queue(draw, &format!("third:{at}")),
    };
    (text, true)
}

/// What is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    Rows,
    /// Rows that are several documents, alone: elsewhere a command rarely meets what another has left of its row.
    Pairs,
    /// Rows with columns that the database fills, alone: elsewhere a new one is rarely met again.
    Filled,
    Documents,
    /// Rows, and documents beside them.
    Beside,
}

impl Ground {
    fn draw(self, draw: &mut Draw, owners: &[bool; 3]) -> Drawn {
        match (self, draw.below(10)) {
            (Ground::Documents, _) | (Ground::Beside, 5..) => document(draw),
            (Ground::Beside, _) => Ground::Rows.draw(draw, owners),
            (Ground::Pairs, _) => pair(draw),
            (Ground::Filled, _) => filled(draw),
            (Ground::Rows, 0..=3) => cart(draw),
            (Ground::Rows, 4) => {
                let key = format!("queue:{}", 1 + draw.below(3));
                queue(draw, &key)
            }
            (Ground::Rows, 5 | 6) => watched(draw),
            (Ground::Rows, 7 | 8) => pair(draw),
            (Ground::Rows, _) => owner(draw, owners),
        }
    }

    fn keys(self) -> Vec<String> {
        let named = |name: &str, most: u64| (0..=most).map(|at| format!("{name}:{at}")).collect::<Vec<_>>();
        match self {
            Ground::Documents => [named("text", 2), named("hash", 2), named("set", 2), named("queue", 2)].concat(),
            Ground::Filled => named("filled", 3),
            Ground::Beside => [Ground::Rows.keys(), Ground::Documents.keys()].concat(),
            Ground::Rows | Ground::Pairs => {
                let pairs = ["left", "right", "third"].map(|name| named(name, 3)).concat();
                let rest = [named("watch", 2), named("owner", 3), named("pet", 4), pairs];
                [named("cart", 5), named("queue", 3), rest.concat()].concat()
            }
        }
    }

    fn open(self, server: &Server, more: &[&str]) -> (String, Forebay) {
        let database = server.database();
        let maps = if self == Ground::Documents { &[] } else { &MAPS[..] };
        let keys = if self == Ground::Beside { &["--keys", "* -> documents"][..] } else { &[] };
        if self != Ground::Documents {
            server.sql(&database, TABLES);
            let mut init = forebay_command();
            init.args(["store", "init", "--store", &server.url(&database)]).args(maps);
            assert!(init.status().expect("the binary runs").success());
        }
        // However busy the machine is, that is no outage.
        let patient = ["--store-timeout-ms", "20000", "--lock-wait-ms-min", "30000", "--lock-wait-ms-max", "40000"];
        let forebay = start(server, &database, &[maps, keys, more, &patient, &["--durability", "never"]].concat());
        (database, forebay)
    }

    fn holds(self, server: &Server, database: &str) -> Vec<String> {
        let asked: &[&str] = match self {
            Ground::Documents => &[DOCUMENTS],
            Ground::Beside => &[ROWS, DOCUMENTS],
            _ => &[ROWS],
        };
        asked
            .iter()
            .flat_map(|asked| asked.split(';'))
            .flat_map(|one| server.sql(database, one).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }
}

fn call(client: &mut Connection, command: &str) -> Reply {
    client.call(&command.split(' ').collect::<Vec<_>>())
}

/// Which owners are there behind `command`.
fn keep_owners(owners: &mut [bool; 3], command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    if let Some(Ok(at)) = words[1].strip_prefix("owner:").map(str::parse::<usize>) {
        owners[at - 1] = words[0] != "DEL";
    }
}

/// Runs `windows` windows of random commands with outages, then those that were taken without; what differs.
fn differs(server: &Server, ground: Ground, more: &[&str], seed: u64, windows: u64) {
    let (database, forebay) = ground.open(server, more);
    let (mut client, mut draw) = (Connection::new(forebay.address), Draw(seed));
    let (mut taken, mut owners, mut buffered) = (Vec::new(), [true, true, false], 0);
    for _ in 0..windows {
        for key in ground.keys() {
            client.call(&["EXISTS", &key]);
        }
        for at in 0..COMMANDS {
            match at {
                0 => away(&mut client, true),
                at if at == COMMANDS / 2 => {
                    buffered += figure(&mut client, "pending");
                    away(&mut client, false);
                }
                _ => {}
            }
            let (command, compared) = ground.draw(&mut draw, &owners);
            let reply = call(&mut client, &command);
            if !said(&reply).starts_with("STOREDOWN") {
                keep_owners(&mut owners, &command);
                taken.push((command, compared, reply));
            }
        }
        calm(forebay.address);
    }
    let what = format!("seed {seed}, {more:?}");
    assert!(buffered > 0, "{what}: nothing was buffered");
    assert!(taken.len() as u64 > windows * COMMANDS / 3, "{what}: {} were taken", taken.len());
    assert_eq!(
        figure(&mut client, "quarantined"),
        0,
        "{what}: {}",
        said(&client.call(&["CACHE", "QUARANTINE", "LIST"]))
    );
    let (other, plain) = ground.open(server, &[]);
    let mut client = Connection::new(plain.address);
    for (at, (command, compared, reply)) in taken.iter().enumerate() {
        let again = call(&mut client, command);
        let story = || taken[..=at].iter().map(|(command, ..)| command.as_str()).collect::<Vec<_>>().join("; ");
        assert!(!compared || again == *reply, "{what}: {reply:?}, without an outage {again:?}: {}", story());
    }
    let story = || taken.iter().map(|(command, ..)| command.as_str()).collect::<Vec<_>>().join("; ");
    assert_eq!(ground.holds(server, &database), ground.holds(server, &other), "{what}: {}", story());
}

const VARIANTS: [(Ground, &[&str]); 10] = [
    (Ground::Rows, &[]),
    (Ground::Rows, &["--drain", "serial"]),
    (Ground::Rows, &["--write-back-ms", "300"]),
    (Ground::Rows, &["--write-back-ms", "300", "--drain", "serial"]),
    (Ground::Documents, &[]),
    (Ground::Pairs, &[]),
    (Ground::Filled, &[]),
    (Ground::Filled, &["--write-back-ms", "300"]),
    (Ground::Beside, &[]),
    (Ground::Beside, &["--write-back-ms", "300"]),
];

#[test]
fn an_outage_leaves_the_tables_as_no_outage_would() {
    let server = Server::start();
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 40 } else { 1 };
    for seed in 0..seeds {
        for (at, (ground, more)) in VARIANTS.into_iter().enumerate() {
            differs(&server, ground, more, 100 * seed + at as u64, 2);
        }
    }
}
