//! Several commands on a list of a row, as one transaction and one by one, with an outage and without: an element that
//! comes to a list makes its row, which stays when the list is emptied.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::lanes::away;
use crate::postgres::Server;
use crate::start;
use crate::state::{PATIENCE, calm, figure, said};

const MAPS: [&str; 4] =
    ["--map", "left:{id} -> pairs(id) fields(a) delete=row", "--map", "list:{id} -> pairs(id).xs as list"];

/// What follows a push to a list that has no row, and leaves nothing in it.
const EMPTIES: [&[&str]; 6] = [
    &["DEL list"],
    &["LPOP list"],
    &["RPOP list"],
    &["LREM list 0 x"],
    &["DEL list", "RPUSH list y", "DEL list"],
    &["LPOP list", "DEL list"],
];

fn call(client: &mut Connection, command: &str, row: usize) -> Reply {
    let words: Vec<String> =
        command.split(' ').map(|word| if word == "list" { format!("list:{row}") } else { word.to_owned() }).collect();
    client.call(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether the cache has it that the list is absent.
fn is_kept(client: &mut Connection, row: usize) -> bool {
    said(&call(client, "CACHE EXPLAIN list", row)).starts_with("absent")
}

/// The rows that are there when all is in the database.
fn rows(server: &Server, as_one: bool, in_outage: bool, more: &[&str]) -> String {
    let database = server.database();
    server.sql(&database, "CREATE TABLE pairs (id integer PRIMARY KEY, a integer DEFAULT 7, xs text[])");
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database)]).args(MAPS);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(server, &database, &[&MAPS[..], more].concat());
    let mut client = Connection::new(forebay.address);
    // The first look at what others write drops all that was read before it.
    assert_eq!(said(&client.call(&["CACHE", "SYNC"])), "OK");
    for row in 0..EMPTIES.len() {
        let began = Instant::now();
        // What is read before the connection that hears of others' writes is there is not kept.
        while !is_kept(&mut client, row) {
            assert!(began.elapsed() < PATIENCE, "row {row} is not cached");
            assert_eq!(call(&mut client, "LLEN list", row), Reply::Integer(0));
        }
    }
    if in_outage {
        away(&mut client, true);
    }
    for (row, empties) in EMPTIES.iter().enumerate() {
        let around = |word| if as_one { Some(word) } else { None };
        let commands = around("MULTI").into_iter().chain(["RPUSH list x"]).chain(empties.iter().copied());
        for command in commands.chain(around("EXEC")) {
            let reply = call(&mut client, command, row);
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
        }
        assert_eq!(call(&mut client, "LLEN list", row), Reply::Integer(0));
        // What is said of the row's other document is what will be so.
        let left = client.call(&["EXISTS", &format!("left:{row}")]);
        let buffers = in_outage || !more.is_empty();
        let away = buffers && said(&left).starts_with("STOREDOWN");
        assert!(left == Reply::Integer(1) || away, "row {row}: {left:?}");
    }
    if in_outage {
        away(&mut client, false);
    }
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    server.sql(&database, "SELECT id, a, xs FROM pairs ORDER BY id")
}

#[test]
fn a_list_that_is_emptied_at_once_leaves_its_row() {
    let server = Server::start();
    let expected = rows(&server, false, false, &[]);
    assert_eq!(expected.lines().count(), EMPTIES.len(), "{expected}");
    let write_back = ["--write-back-ms", "300"];
    for (as_one, in_outage, more) in
        [(true, false, &[][..]), (false, true, &[]), (true, true, &[]), (true, false, &write_back)]
    {
        assert_eq!(rows(&server, as_one, in_outage, more), expected, "{as_one} {in_outage} {more:?}");
    }
}

/// The elements of a row that a transaction makes by another document are not known where the column has a default.
/// What is refused for its key alone leaves the transaction as it is.
#[test]
fn a_list_of_a_row_that_was_just_made_is_not_guessed() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE pairs (id integer PRIMARY KEY, a integer, xs text[] DEFAULT '{z}', ys text[])");
    let maps = [&MAPS[..], &["--map", "plain:{id} -> pairs(id).ys as list"]].concat();
    let forebay = start(&server, &database, &maps);
    let mut client = Connection::new(forebay.address);
    let mut refused = |steps: &[&str]| {
        let last = steps.iter().map(|step| call(&mut client, step, 0)).last();
        last.is_some_and(|reply| said(&reply).contains("left:1"))
    };
    assert!(refused(&["MULTI", "HSET left:1 a 1", "RPUSH list:1 x", "LPOP list:1", "EXEC"]));
    assert!(refused(&["TXN BEGIN", "HSET left:1 a 1", "LRANGE list:1 0 -1"]) && !refused(&["TXN ABORT"]));
    assert!(!refused(&["MULTI", "HSET left:1 a 1", "RPUSH plain:1 x", "LPOP plain:1", "EXEC"]));
    assert!(!refused(&["MULTI", "RPUSH list:1 x", "EXEC"]));
    assert_eq!(server.sql(&database, "SELECT * FROM pairs").trim(), "1|1|{z,x}|{}");

    // A key that no mapping names is refused, and the transaction goes on.
    for (step, answer) in
        [("TXN BEGIN", "OK"), ("HSET left:1 a 2", "0"), ("GET other:1", "no mapping"), ("TXN COMMIT", "OK")]
    {
        let told = said(&call(&mut client, step, 0));
        assert!(told.contains(answer), "{step}: {told}");
    }
    assert_eq!(server.sql(&database, "SELECT a FROM pairs").trim(), "2");
}
