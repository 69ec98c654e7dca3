//! A document that is written again and again in an outage. What is buffered of it is merged, and becomes statements
//! that PostgreSQL takes, whatever was mixed with what.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::postgres::{Server, Stop};
use crate::start;
use crate::state::{calm, figure, said};
use crate::tables::cache;

/// Commands on each document: more than PostgreSQL takes as steps within steps, or as columns of one statement, and
/// than are merged into one transaction.
const COMMANDS: usize = 1_000;

/// Sent at once.
const PIPELINED: usize = 500;

type Command = Vec<String>;

/// A command as its words.
fn words(text: &str) -> Command {
    text.split(' ').map(str::to_owned).collect()
}

/// What is done to the document of `key`, turn by turn.
fn mixed(key: &str, kind: &str) -> Vec<Command> {
    let command = |turn: usize| {
        let text = match (kind, turn % 4) {
            ("one up and down", 0 | 2) => format!("HINCRBY {key} a 3"),
            ("one up and down", _) => format!("HINCRBY {key} a -2"),
            ("two", 0 | 2) => format!("HINCRBY {key} a 1"),
            ("two", _) => format!("HINCRBY {key} b 1"),
            ("sum and set", 0 | 2) => format!("HINCRBY {key} a 1"),
            ("sum and set", _) => format!("HSET {key} t {turn} b {turn}"),
            ("floats", 0) => format!("HINCRBYFLOAT {key} x 0.5"),
            ("floats", 1) => format!("HINCRBYFLOAT {key} y 0.25"),
            ("floats", 2) => format!("HINCRBYFLOAT {key} d 0.125"),
            ("floats", _) => format!("HINCRBYFLOAT {key} x -1"),
            ("one float", _) => format!("HINCRBYFLOAT {key} y 0.5"),
            ("all", 0) => format!("HSET {key} a {turn}"),
            ("all", 1) => format!("HINCRBY {key} a 5"),
            ("all", 2) => format!("HDEL {key} t"),
            ("all", _) => format!("HINCRBYFLOAT {key} x 1.5"),
            ("queue", 0) => format!("LPUSH {key} l{turn}"),
            ("queue", 1) => format!("RPUSH {key} r{turn}"),
            ("queue", 2) => format!("LREM {key} 0 r{}", turn.saturating_sub(5)),
            ("queue", _) => format!("LPOP {key}"),
            ("ends", 0 | 1) => format!("RPUSH {key} {turn}"),
            ("ends", 2) => format!("LPOP {key}"),
            ("ends", _) => format!("RPOP {key}"),
            ("both ends", 0) => format!("LPUSH {key} {turn}"),
            ("both ends", 1) => format!("RPUSH {key} {turn}"),
            ("both ends", 2) => format!("RPOP {key}"),
            ("both ends", _) => format!("LPUSH {key} {turn}"),
            ("members", 0 | 1) => format!("SADD {key} {turn}"),
            ("members", 2) => format!("SREM {key} {}", turn - 1),
            ("members", _) => format!("SADD {key} last{turn}"),
            ("text", 0) => format!("APPEND {key} {turn}"),
            ("text", _) => format!("SETRANGE {key} {} {turn}", turn % 100),
            _ => panic!("{kind}"),
        };
        words(&text)
    };
    (0..COMMANDS).map(command).collect()
}

/// Makes `commands`, none of which is refused.
fn run(client: &mut Connection, commands: &[Command]) {
    for some in commands.chunks(PIPELINED) {
        for (command, reply) in some.iter().zip(client.pipeline(some)) {
            assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {}", said(&reply));
        }
    }
}

/// What a number is, however many zeros the database writes behind it.
fn without_zeros(text: &str) -> String {
    match text.contains('.') && text.parse::<f64>().is_ok() {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// The document, in an order that is always the same.
fn document(client: &mut Connection, (key, read): (&str, &str)) -> Vec<String> {
    let reply = client.call(&words(read).iter().map(String::as_str).collect::<Vec<_>>());
    let Reply::Array(parts) = reply else { panic!("{key}: {read}: {}", said(&reply)) };
    let mut parts: Vec<String> = parts.iter().map(said).collect();
    match read.split(' ').next() {
        Some("HGETALL") => {
            parts = parts.chunks(2).map(|pair| format!("{} {}", pair[0], without_zeros(&pair[1]))).collect();
            parts.sort();
        }
        Some("SMEMBERS") => parts.sort(),
        _ => {}
    }
    parts
}

/// The documents of `kinds` are written in an outage, each in its way; what is shown of them then is what the database
/// holds when it is back, and nothing of it was refused.
fn written_and_carried_over(server: &Server, database: &str, more: &[&str], documents: &[(&str, &str, &str)]) {
    let mut forebay = start(server, database, &[more, &["--durability", "never"]].concat());
    let mut client = Connection::new(forebay.address);
    let keys: Vec<&str> = documents.iter().map(|(key, ..)| *key).collect();
    cache(&mut client, &keys);
    server.stop(Stop::Immediate);
    for (key, kind, _) in documents {
        match kind.strip_prefix("at once: ") {
            Some(kind) => {
                let (mut commands, end) = (vec![words("MULTI")], vec![words("EXEC")]);
                commands.extend(mixed(key, kind).into_iter().chain(end));
                run(&mut client, &commands);
            }
            None => run(&mut client, &mixed(key, kind)),
        }
    }
    let shown: Vec<Vec<String>> = documents.iter().map(|(key, _, read)| document(&mut client, (key, read))).collect();
    server.start_again();
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(figure(&mut client, "conflicts"), 0);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    for ((key, kind, read), shown) in documents.iter().zip(shown) {
        assert_eq!(document(&mut client, (key, read)), shown, "{key}: {kind}");
    }
}

#[test]
fn rows_that_are_written_again_and_again() {
    let server = Server::start();
    let database = server.database();
    let sql = "CREATE TABLE rows (id integer PRIMARY KEY, a integer, b bigint NOT NULL, x numeric, y float8,
            d numeric(12,3), t text);
        INSERT INTO rows SELECT id, 0, 0, 0, 0, 0, '' FROM generate_series(1, 8) AS id;
        CREATE TABLE queues (id integer PRIMARY KEY, jobs text[]);
        INSERT INTO queues SELECT id, '{first}' FROM generate_series(1, 3) AS id";
    server.sql(&database, sql);
    let maps = ["--map", "row:{id} -> rows(id)", "--map", "queue:{id} -> queues(id).jobs as list"];
    let mut init = forebay_command();
    let url = server.url(&database);
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let documents = [
        ("row:1", "one up and down", "HGETALL row:1"),
        ("row:2", "two", "HGETALL row:2"),
        ("row:3", "sum and set", "HGETALL row:3"),
        ("row:4", "floats", "HGETALL row:4"),
        ("row:5", "one float", "HGETALL row:5"),
        ("row:6", "all", "HGETALL row:6"),
        ("row:7", "at once: floats", "HGETALL row:7"),
        ("row:8", "at once: one up and down", "HGETALL row:8"),
        ("queue:1", "queue", "LRANGE queue:1 0 -1"),
        ("queue:2", "ends", "LRANGE queue:2 0 -1"),
        ("queue:3", "both ends", "LRANGE queue:3 0 -1"),
    ];
    written_and_carried_over(&server, &database, &maps, &documents);
}

#[test]
fn documents_that_are_written_again_and_again() {
    let server = Server::start();
    let database = server.database();
    let documents = [
        ("h1", "one up and down", "HGETALL h1"),
        ("h2", "floats", "HGETALL h2"),
        ("h3", "all", "HGETALL h3"),
        ("l1", "queue", "LRANGE l1 0 -1"),
        ("l2", "both ends", "LRANGE l2 0 -1"),
        ("s1", "members", "SMEMBERS s1"),
        ("t1", "text", "MGET t1"),
    ];
    written_and_carried_over(&server, &database, &[], &documents);
}
