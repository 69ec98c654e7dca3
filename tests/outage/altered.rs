//! Tables that their owner alters while writes wait for them. What forebay knows of them is of its last look.
//! Whatever does not fit any more waits for an operator, or is refused.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::Stop;
use crate::state::{calm, figure, said};
use crate::tables::cache;
use crate::{ok, start};

const TABLES: &str = "CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE TABLE people (id integer PRIMARY KEY, mood mood, code varchar(3), age smallint, shoe text);
    CREATE TABLE others (id integer PRIMARY KEY, n integer);
    INSERT INTO people VALUES (1, 'sad', 'abc', 1, 'l'), (2, 'sad', 'abc', 1, 'l')";

const MAPS: [&str; 4] = ["--map", "p:{id} -> people(id)", "--map", "o:{id} -> others(id)"];

const PEOPLE: &str = "SELECT id, mood, code, age FROM people ORDER BY id";

/// While writes wait a column goes, and one comes that wants a value: what can't be applied is set aside, what can is
/// applied, and all of it is when the table is mended. Labels and lengths are those of the start.
#[test]
fn a_table_that_is_altered_loses_nothing() {
    let server = crate::postgres::Server::start();
    let database = server.database();
    server.sql(&database, TABLES);
    let forebay = start(&server, &database, &MAPS);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["p:1", "p:2", "o:1"]);
    // Wider while the database is there: no matter.
    server.sql(&database, "ALTER TYPE mood ADD VALUE 'new'; ALTER TABLE people ALTER code TYPE varchar(9)");
    assert_eq!(client.call(&["HSET", "p:1", "mood", "new", "code", "abcdef"]), Reply::Integer(0));
    cache(&mut client, &["p:1", "p:2", "o:1"]);
    server.stop(Stop::Immediate);
    // Behind its start it is known as it was: refused, not lost.
    for (field, value) in [("mood", "new"), ("code", "abcdef")] {
        let refused = said(&client.call(&["HSET", "p:2", field, value]));
        assert!(refused.contains("ERR the store refuses it"), "{refused}");
    }
    assert_eq!(client.call(&["HSET", "p:1", "shoe", "xl"]), Reply::Integer(0));
    assert_eq!(client.call(&["HINCRBY", "p:1", "age", "1"]), Reply::Integer(2));
    assert_eq!(client.call(&["HINCRBY", "p:2", "age", "4"]), Reply::Integer(5));
    assert_eq!(client.call(&["HMSET", "p:3", "age", "3"]), ok());
    assert_eq!(client.call(&["HSET", "o:1", "n", "7"]), Reply::Integer(1));
    server.start_again();
    server.sql(
        &database,
        "ALTER TABLE people DROP COLUMN shoe, ADD COLUMN need integer NOT NULL DEFAULT 0;
         ALTER TABLE people ALTER need DROP DEFAULT",
    );
    // It may have been applied before that.
    while figure(&mut client, "waiting") > 0 || crate::state::mode(&mut client) != "normal" {}
    assert_eq!(server.sql(&database, "SELECT * FROM others"), "1|7");
    server.sql(&database, "ALTER TABLE people ADD COLUMN IF NOT EXISTS shoe text, ALTER need SET DEFAULT 1");
    client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]);
    calm(forebay.address);
    assert_eq!(server.sql(&database, PEOPLE), "1|new|abcdef|2\n2|sad|abc|5\n3|||3");
    // What it does not know any more is looked up again.
    server.sql(&database, "ALTER TABLE people DROP COLUMN shoe");
    let refused = said(&client.call(&["HGETALL", "p:9"]));
    assert!(refused.contains("42703") && refused.contains("CACHE RELOAD"), "{refused}");
    assert_eq!(client.call(&["CACHE", "RELOAD"]), ok());
    assert_eq!(client.call(&["HSET", "p:2", "code", "x"]), Reply::Integer(0));
}
