//! Several documents of one row, while the database is away.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::Server;
use crate::state::{PATIENCE, calm, figure, said};
use crate::{ok, start};

/// Rows with the documents `left`, `right` and `list`.
fn open(server: &Server, more: &[&str]) -> (String, Forebay) {
    let database = server.database();
    server.sql(&database, "CREATE TABLE pairs (id integer PRIMARY KEY, a integer, b text, xs text[])");
    server.sql(&database, "INSERT INTO pairs SELECT id, 1, 'n', '{a}' FROM generate_series(1, 40) AS id");
    let maps = [
        "--map",
        "left:{id} -> pairs(id) fields(a) delete=row",
        "--map",
        "right:{id} -> pairs(id) fields(b) delete=row",
        "--map",
        "list:{id} -> pairs(id).xs as list",
    ];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(server, &database, &[&maps[..], more].concat());
    (database, forebay)
}

/// Has the database be away as soon as these commands are answered by the cache.
pub fn leave(client: &mut Connection, commands: &[[String; 2]]) {
    let all = |client: &mut Connection| {
        let call = |[name, key]: &[String; 2]| matches!(client.call(&[name, key]), Reply::Integer(_));
        commands.iter().map(call).filter(|answered| !answered).count() == 0
    };
    let began = Instant::now();
    loop {
        while !all(client) {
            assert!(began.elapsed() < PATIENCE, "the database is there");
        }
        assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "60"]), ok());
        if all(client) {
            return;
        }
        // What was read before the database was watched has left the cache.
        assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    }
}

/// A row that was deleted is there again when another of its documents is written unseen.
#[test]
fn what_is_written_unseen_beside_a_deleted_document_makes_its_row() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["EXISTS".into(), "left:1".into()]]);
    assert_eq!(client.call(&["DEL", "left:1"]), Reply::Integer(1));
    assert_eq!(client.call(&["EXISTS", "left:1"]), Reply::Integer(0));
    assert_eq!(client.call(&["HMSET", "right:1", "b", "x"]), ok());
    for asks in [&["EXISTS", "left:1"][..], &["DEL", "left:1"], &["HSETNX", "left:1", "a", "5"]] {
        let reply = said(&client.call(asks));
        assert!(reply.starts_with("STOREDOWN "), "{asks:?}: {reply}");
    }
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(client.call(&["EXISTS", "left:1"]), Reply::Integer(1));
    assert_eq!(server.sql(&database, "SELECT id, a, b, xs FROM pairs WHERE id = 1"), "1||x|");
}

/// The row has another version when another of its documents is applied: by our own hand, so what read this one is
/// applied as well.
#[test]
fn who_read_one_document_is_not_overtaken_by_our_own_write_of_another() {
    let server = Server::start();
    let (database, forebay) = open(&server, &["--drain", "serial"]);
    let mut client = Connection::new(forebay.address);
    let keys: Vec<[String; 2]> = (1..=40).map(|at| [format!("left:{at}"), format!("list:{at}")]).collect();
    let warm = keys.iter().flat_map(|[left, list]| [["EXISTS".into(), left.clone()], ["LLEN".into(), list.clone()]]);
    leave(&mut client, &warm.collect::<Vec<_>>());
    let mut each = |commands: &[&[&str]]| {
        for [left, list] in &keys {
            for command in commands {
                let name = |word: &&str| match *word {
                    "left" => left.clone(),
                    "list" => list.clone(),
                    word => word.to_owned(),
                };
                let words: Vec<String> = command.iter().map(name).collect();
                let reply = client.call(&words.iter().map(String::as_str).collect::<Vec<_>>());
                assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
            }
        }
    };
    each(&[&["RPUSH", "list", "b"]]);
    each(&[&["HMSET", "left", "a", "2"]]);
    each(&[&["MULTI"], &["HMSET", "left", "a", "3"], &["LLEN", "list"], &["EXEC"]]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(figure(&mut Connection::new(forebay.address), "quarantined"), 0);
    let left = server.sql(&database, "SELECT DISTINCT a, b, xs FROM pairs");
    assert_eq!(left, "3|n|{a,b}");
}

/// Commands on documents of one row, of which the first makes or deletes it. `#` is the row.
const MOVES: [&[&str]; 12] = [
    &["DEL left:#", "LRANGE list:# 0 -1"],
    &["DEL left:#", "LPOP list:#"],
    &["DEL left:#", "DEL right:#", "DEL list:#"],
    &["DEL left:#", "HGET right:# b", "EXISTS right:#"],
    &["DEL left:#", "LREM list:# 1 a"],
    &["DEL left:#", "LPUSHX list:# q"],
    &["DEL left:#", "RPUSH list:# c"],
    &["DEL left:#", "HSET left:# a 5", "LLEN list:#"],
    &["RPUSH list:# c", "HSET left:# a 5", "EXISTS right:#"],
    &["RPUSH list:# c", "DEL left:#"],
    &["HSET left:# a 5", "RPUSH list:# c", "HSET right:# b x"],
    &["RPUSH list:# c", "SETNX left:# {\"a\":5}", "LLEN list:#"],
];

fn made_to(client: &mut Connection, row: usize, commands: &[&str]) -> Vec<Reply> {
    let mut call = |command: &&str| client.call(&command.replace('#', &row.to_string()).split(' ').collect::<Vec<_>>());
    commands.iter().map(&mut call).collect()
}

/// In one transaction the documents of a row see what was done to each other, as they do one by one, or say that it is
/// known after the commit.
#[test]
fn documents_of_a_row_see_each_other_in_one_transaction() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    let row_of = |row: usize| server.sql(&database, &format!("SELECT a, b, xs FROM pairs WHERE id = {row}"));
    let (mut refused, mut rows) = (0, 100..);
    for commands in MOVES {
        for (there, txn) in [(true, false), (true, true), (false, false), (false, true)] {
            let [alone, row] = [(); 2].map(|()| rows.next().expect("there are more"));
            if there {
                let values = format!("({alone}, 1, 'n', '{{a}}'), ({row}, 1, 'n', '{{a}}')");
                server.sql(&database, &format!("INSERT INTO pairs VALUES {values}"));
            }
            let one_by_one = made_to(&mut client, alone, commands);
            let begin: &[&str] = if txn { &["TXN", "BEGIN"] } else { &["MULTI"] };
            client.call(begin);
            let replies = made_to(&mut client, row, commands);
            let before = row_of(row);
            let replies = match (client.call(if txn { &["TXN", "COMMIT"] } else { &["EXEC"] }), txn) {
                (Reply::Array(replies), false) => replies,
                (rolled_back, false) => {
                    assert!(said(&rolled_back).contains("is in the row that"), "{commands:?}: {rolled_back:?}");
                    assert_eq!(row_of(row), before, "{commands:?}");
                    refused += 1;
                    continue;
                }
                (committed, true) => {
                    assert!(said(&committed).starts_with("OK"), "{commands:?}: {committed:?}");
                    replies
                }
            };
            let moved = replies.iter().filter(|reply| said(reply).contains("is in the row that")).count();
            refused += moved;
            if moved == 0 {
                assert_eq!((replies, row_of(row)), (one_by_one, row_of(alone)), "{commands:?}, there: {there}");
            } else {
                let differ = |(one, other): &(&Reply, &Reply)| one != other && !said(one).contains("is in the row");
                assert_eq!(replies.iter().zip(&one_by_one).find(differ), None, "{commands:?}, there: {there}");
            }
        }
    }
    println!("{refused} commands were refused");
    assert!((2..40).contains(&refused), "{refused}");
}

/// What was written of a document before its row is deleted by another one is gone, in one EXEC as in two.
#[test]
fn what_stood_before_a_deletion_of_the_row_is_gone_with_it() {
    let server = Server::start();
    let (database, forebay) = open(&server, &["--write-back-ms", "4000"]);
    let mut client = Connection::new(forebay.address);
    let mut all = |lines: &[&str]| {
        let call = |line: &&str| said(&client.call(&line.split(' ').collect::<Vec<_>>()));
        lines.iter().map(call).collect::<Vec<_>>()
    };
    for (number, remade) in [(1, false), (2, true)] {
        let of = |text: &str| text.replace('#', &number.to_string());
        let script = ["MULTI", "RPUSH list:# x", "HSET right:# b m", "DEL left:#", "HSET left:# a 5", "EXEC"].map(of);
        let script: Vec<&str> =
            script.iter().map(String::as_str).filter(|line| remade || !line.contains(" a ")).collect();
        let told = all(&script);
        assert!(told.last().is_some_and(|told| !told.contains("ERR")), "{told:?}");
        let asked =
            [of("LLEN list:#"), of("EXISTS left:#"), of("HGET right:# b"), of("RPUSH list:# y"), of("LPOP list:#")];
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let there = format!("{:?}", Reply::Integer(remade.into()));
        assert_eq!(all(&asked), ["Integer(0)", &there, "Nil", "Integer(1)", "y"], "row {number}");
    }
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    let rows =
        "SELECT string_agg(concat_ws(':', id, a, b, array_length(xs, 1)), ' ' ORDER BY id) FROM pairs WHERE id < 3";
    assert_eq!(server.sql(&database, rows), "1 2:5");
}

/// A generated column of one document is computed from a field of another one. It is not known while both wait.
#[test]
fn what_is_computed_from_another_document_is_not_known_either() {
    let server = Server::start();
    let database = server.database();
    let table = "CREATE TABLE pairs (id integer PRIMARY KEY, a integer, b text,
        upper_b text GENERATED ALWAYS AS (upper(b)) STORED)";
    server.sql(&database, table);
    server.sql(&database, "INSERT INTO pairs VALUES (1, 1, 'n')");
    let maps =
        ["--map", "left:{id} -> pairs(id) fields(a, upper_b)", "--map", "right:{id} -> pairs(id) fields(b) delete=row"];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &[&maps[..], &["--write-back-ms", "4000"]].concat());
    let mut client = Connection::new(forebay.address);
    let mut told = |line: &str| said(&client.call(&line.split(' ').collect::<Vec<_>>()));
    assert_eq!(told("HGET left:1 upper_b"), "N");
    told("HGETALL right:1");
    for line in ["MULTI", "HSET right:1 b m", "HSET left:1 a 5", "EXEC"] {
        told(line);
    }
    assert_eq!(told("HGET left:1 upper_b"), "M", "it waits until both are applied");
    assert_eq!(told("HGET left:1 a"), "5");
}

/// A row is deleted by one document and made again by it: what another one has of it is not known.
#[test]
fn another_document_of_a_row_that_is_made_again_is_not_known() {
    let server = Server::start();
    let (_, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["EXISTS".into(), "left:1".into()], ["EXISTS".into(), "right:1".into()]]);
    let mut told = |line: &str| said(&client.call(&line.split(' ').collect::<Vec<_>>()));
    assert_eq!(told("DEL left:1"), "Integer(1)");
    for line in ["HGET right:1 b", "HGET right:1 id"] {
        assert_eq!(told(line), "Nil", "{line}: the row is gone");
    }
    assert_eq!(told("HMSET left:1 a 3"), "OK");
    for line in ["HGET right:1 b", "HMGET right:1 id b", "HGETALL right:1"] {
        assert!(told(line).starts_with("STOREDOWN"), "{line}: {}", told(line));
    }
}

/// A transaction that writes two documents of a row waits for an operator. What others write to the row is shown in
/// both all the same.
#[test]
fn what_others_write_is_shown_beside_what_waits_for_an_operator() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["EXISTS".into(), "left:1".into()], ["LLEN".into(), "list:1".into()]]);
    let mut told = |line: &str| said(&client.call(&line.split(' ').collect::<Vec<_>>()));
    for line in ["WATCH list:1", "MULTI", "HSET left:1 a 9", "RPUSH list:1 mine", "EXEC"] {
        told(line);
    }
    assert!(told("CACHE OUTCOME").starts_with("BUFFERED"));
    server.sql(&database, "UPDATE pairs SET a = 4, b = 'o', xs = xs || '{other}' WHERE id = 1");
    told("DEBUG STORE FAIL 0");
    let began = Instant::now();
    while figure(&mut Connection::new(forebay.address), "quarantined") == 0 {
        assert!(began.elapsed() < PATIENCE, "it waits for an operator");
    }
    for _ in 0..3 {
        assert_eq!(told("CACHE SYNC"), "OK");
        assert_eq!(told("LRANGE list:1 0 -1"), "a other mine");
        assert_eq!(told("HGET left:1 a"), "9");
    }
    assert!(told("CACHE QUARANTINE DROP 1 tested").starts_with("OK"), "{}", told("CACHE QUARANTINE LIST"));
    assert_eq!([told("LRANGE list:1 0 -1"), told("HGET left:1 a"), told("HGET right:1 b")], ["a other", "4", "o"]);
}

/// What one transaction has read as absent says nothing of the row for those behind it: another document made it again.
#[test]
fn a_deletion_behind_what_made_the_row_again_deletes_it() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    leave(&mut client, &[["EXISTS".into(), "left:1".into()]]);
    assert_eq!(client.call(&["DEL", "left:1"]), Reply::Integer(1));
    for queued in [&["MULTI"][..], &["HMSET", "right:2", "b", "z"], &["EXISTS", "left:1"]] {
        client.call(queued);
    }
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![ok(), Reply::Integer(0)]));
    assert_eq!(client.call(&["RPUSH", "list:1", "x"]), Reply::Nil);
    assert_eq!(client.call(&["DEL", "left:1"]), Reply::Nil);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(server.sql(&database, "SELECT id, b FROM pairs WHERE id < 3"), "2|z");
}

/// In one transaction a document of a row that it has deleted is not written, be it known or not, as with the database.
#[test]
fn what_is_not_known_is_not_written_beside_a_deletion_of_its_row() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["EXISTS".into(), "left:1".into()]]);
    for queued in [&["MULTI"][..], &["DEL", "left:1"], &["HMSET", "right:1", "b", "x"], &["DEL", "left:1"]] {
        client.call(queued);
    }
    let reply = said(&client.call(&["EXEC"]));
    assert!(reply.starts_with("EXECABORT ") && reply.contains("made or deleted by left:1"), "{reply}");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT id, b FROM pairs WHERE id = 1"), "1|n");
}

/// Where another document may have made the row, the store has filled it: what is added to that is not known.
#[test]
fn what_is_added_to_a_column_that_the_store_fills_is_not_guessed() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    server.sql(&database, "ALTER TABLE pairs ALTER a SET DEFAULT 5");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["CACHE", "RELOAD"]), ok());
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    leave(&mut client, &[["EXISTS".into(), "left:1".into()]]);
    client.call(&["DEL", "left:1"]);
    assert_eq!(client.call(&["HMSET", "right:1", "b", "x"]), ok());
    assert_eq!(client.call(&["HINCRBY", "left:1", "a", "15"]), Reply::Nil);
    for asks in [&["HGET", "left:1", "a"][..], &["HGETALL", "left:1"]] {
        let reply = said(&client.call(asks));
        assert!(reply.starts_with("STOREDOWN "), "{asks:?}: {reply}");
    }
    assert_eq!(client.call(&["HINCRBY", "left:1", "a", "1"]), Reply::Nil);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(server.sql(&database, "SELECT id, a, b FROM pairs WHERE id = 1"), "1|21|x");
}

/// A table's trigger may say what a database says of transactions that are in each other's way. That is no word on what
/// a transaction has read: it is tried again.
#[test]
fn what_is_given_up_for_another_transaction_is_tried_again() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    server.sql(
        &database,
        "CREATE TABLE busy (held boolean); INSERT INTO busy VALUES (true); CREATE SEQUENCE tries; \
         CREATE FUNCTION gives_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF (SELECT held FROM busy) THEN PERFORM nextval('tries'); RAISE 'busy' USING ERRCODE = '40001'; END IF; \
         RETURN NEW; END $$; \
         CREATE TRIGGER gives_up BEFORE UPDATE ON pairs FOR EACH ROW EXECUTE FUNCTION gives_up()",
    );
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["EXISTS".into(), "left:1".into()]]);
    assert_eq!(client.call(&["TXN", "BEGIN"]), ok());
    assert_eq!(said(&client.call(&["HGET", "left:1", "a"])), "1");
    assert_eq!(client.call(&["HSET", "left:1", "a", "7"]), Reply::Integer(0));
    client.call(&["TXN", "COMMIT"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    let began = Instant::now();
    while server.sql(&database, "SELECT last_value > 2 FROM tries") != "t" {
        assert!(began.elapsed() < PATIENCE, "it is tried once");
    }
    server.sql(&database, "UPDATE busy SET held = false");
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(server.sql(&database, "SELECT a FROM pairs WHERE id = 1"), "7");
}
