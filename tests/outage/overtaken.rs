//! What was read of a row with writes in the queue, and what others do to that row before they are applied. Others
//! write by psql.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::lanes::{World, away};
use crate::state::{PATIENCE, figure, mode, said};
use crate::tables::cache;
use crate::{ok, start};

const TABLE: &str = "\
CREATE TABLE items (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0), note text, touched integer DEFAULT 0);
INSERT INTO items SELECT number, number, 'new' FROM generate_series(1, 9) AS number";

/// The database notes each change itself.
const TOUCHED: &str = "\
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.touched := OLD.touched + 1; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION touch()";

const MAP: [&str; 2] = ["--map", "item:{id} -> items(id)"];
const BY_OTHERS: &str = "UPDATE items SET n = 50 WHERE id = 1";

fn world(more: &str) -> World {
    World::new(&format!("{TABLE};{more}"), &MAP)
}

/// What others write is not noticed: in an outage that an operator orders it would drop what is cached.
fn unwatched(more: &str) -> World {
    World::new(&format!("{TABLE};{more}"), &[&MAP[..], &["--outside", "off"]].concat())
}

fn call(client: &mut Connection, request: &str) -> Reply {
    client.call(&request.split(' ').collect::<Vec<_>>())
}

/// Notes in one item what another has.
fn copies(client: &mut Connection, from: u32, to: u32) -> Reply {
    assert_eq!(call(client, "TXN BEGIN"), ok());
    let read = said(&call(client, &format!("HGET item:{from} note")));
    call(client, &format!("HSET item:{to} note of-{read}"));
    call(client, "TXN COMMIT")
}

fn is_acknowledged(reply: &Reply) {
    assert!(said(reply).starts_with("BUFFERED"), "{reply:?}");
}

/// Until nothing can be applied any more.
fn drained(world: &World) -> Connection {
    let mut client = world.client();
    away(&mut client, false);
    settled(&mut client);
    client
}

/// What is left waits for an operator.
fn settled(client: &mut Connection) {
    let began = Instant::now();
    while mode(client) != "normal" || figure(client, "waiting") > 0 {
        assert!(began.elapsed() < PATIENCE, "{}", said(&call(client, "CACHE STATE")));
    }
}

fn notes(world: &World) -> String {
    world.sql("SELECT string_agg(concat(id, ':', n, ':', note), ' ' ORDER BY id) FROM items WHERE id <= 3")
}

/// Waits until so many are set aside, and the items are `expected`.
fn becomes(world: &World, quarantined: i64, expected: &str) {
    let (mut client, began) = (world.client(), Instant::now());
    while (figure(&mut client, "quarantined"), notes(world)) != (quarantined, expected.to_owned()) {
        assert!(began.elapsed() < PATIENCE, "{} {}", notes(world), said(&call(&mut client, "CACHE STATE")));
    }
}

/// What is done in an outage: item 1 changes twice, what it is then is noted in item 2, and of that in item 3.
fn chain(world: &World) {
    let mut client = world.client();
    cache(&mut client, &["item:1", "item:2", "item:3"]);
    away(&mut client, true);
    for note in ["a", "b"] {
        assert_eq!(call(&mut client, &format!("HSET item:1 note {note}")), Reply::Integer(0));
    }
    is_acknowledged(&copies(&mut client, 1, 2));
    assert_eq!(call(&mut client, "HSET item:1 note c"), Reply::Integer(0));
    is_acknowledged(&copies(&mut client, 2, 3));
}

/// Where nobody else writes, all of it is applied; whatever the database makes of each row itself.
#[test]
fn what_nobody_else_changes_is_carried_over() {
    for more in ["", TOUCHED] {
        let world = world(more);
        chain(&world);
        let mut client = drained(&world);
        assert_eq!(notes(&world), "1:1:c 2:2:of-b 3:3:of-of-b");
        assert_eq!(["conflicts", "quarantined"].map(|name| figure(&mut client, name)), [0, 0], "{more}");
        assert_eq!(said(&call(&mut client, "HGET item:1 note")), "c");
    }
}

/// Another program changes what was read: what was noted of it is set aside, and what is built on that waits with it.
/// What only changed the row is merged with it.
#[test]
fn who_read_what_others_have_changed_is_set_aside() {
    for killed in [false, true] {
        let mut world = world("");
        chain(&world);
        world.sql(BY_OTHERS);
        if killed {
            world.forebay.kill9();
            world.forebay.restart();
        }
        let mut client = drained(&world);
        assert_eq!(notes(&world), "1:50:c 2:2:new 3:3:new", "{}", world.forebay.log());
        assert_eq!(figure(&mut client, "quarantined"), 1);
        let why = said(&call(&mut client, "CACHE QUARANTINE LIST"));
        assert!(why.contains("it read item:1, which has changed since"), "{why}");
        // It is compared again when it is tried again.
        assert_eq!(call(&mut client, "CACHE QUARANTINE RETRY ALL"), Reply::Integer(1));
        std::thread::sleep(Duration::from_millis(300));
        becomes(&world, 1, "1:50:c 2:2:new 3:3:new");
        assert_eq!(figure(&mut client, "behind"), 1);
    }
}

/// Tried again when the row is as it was read, it is applied.
#[test]
fn what_is_again_as_it_was_read_is_carried_over() {
    let world = world("");
    let mut client = world.client();
    cache(&mut client, &["item:1", "item:2"]);
    away(&mut client, true);
    assert_eq!(call(&mut client, "HSET item:1 note a"), Reply::Integer(0));
    is_acknowledged(&copies(&mut client, 1, 2));
    world.sql(BY_OTHERS);
    let mut client = drained(&world);
    assert_eq!(figure(&mut client, "quarantined"), 1);
    world.sql("UPDATE items SET n = 1 WHERE id = 1");
    assert_eq!(call(&mut client, "CACHE QUARANTINE RETRY ALL"), Reply::Integer(1));
    becomes(&world, 0, "1:1:a 2:2:of-a 3:3:new");
}

/// What was computed from a write that is set aside waits with it, and is applied with it or not at all.
#[test]
fn who_read_what_is_set_aside_waits_with_it() {
    for mended in [true, false] {
        let world = world("");
        let mut client = world.client();
        cache(&mut client, &["item:1", "item:2"]);
        away(&mut client, true);
        call(&mut client, "HSET item:1 note refused n -5");
        is_acknowledged(&copies(&mut client, 1, 2));
        let mut client = drained(&world);
        assert_eq!((figure(&mut client, "quarantined"), notes(&world)), (1, "1:1:new 2:2:new 3:3:new".into()));
        // One that reads it now, in normal mode, waits as well.
        is_acknowledged(&copies(&mut client, 1, 3));
        assert_eq!(notes(&world), "1:1:new 2:2:new 3:3:new");
        if mended {
            world.sql("ALTER TABLE items DROP CONSTRAINT items_n_check");
            assert_eq!(call(&mut client, "CACHE QUARANTINE RETRY ALL"), Reply::Integer(1));
            becomes(&world, 0, "1:-5:refused 2:2:of-refused 3:3:of-refused");
            continue;
        }
        assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "test"]), ok());
        becomes(&world, 2, "1:1:new 2:2:new 3:3:new");
    }
}

/// What was shown a row with a write that was pending, and writes after it, is compared as well, also where the row is
/// gone by then.
#[test]
fn who_read_what_is_there_no_more_is_refused() {
    let world = world("");
    for id in [1, 2, 3, 4] {
        let (mut client, mut reader) = (world.client(), world.client());
        cache(&mut client, &[&format!("item:{id}"), "item:9"]);
        away(&mut client, true);
        // So that versions are odd and even.
        for _ in 0..id {
            call(&mut client, &format!("HSET item:{id} note a"));
        }
        assert_eq!(call(&mut reader, "TXN BEGIN"), ok());
        assert_eq!(said(&call(&mut reader, &format!("HGET item:{id} note"))), "a");
        drained(&world);
        world.sql(&format!("DELETE FROM items WHERE id = {id}"));
        call(&mut reader, "HSET item:9 note seen");
        let told = said(&call(&mut reader, "TXN COMMIT"));
        assert!(told.starts_with("TXCONFLICT"), "{id}: {told}");
    }
}

/// With write-back as well, where the database is there.
#[test]
fn what_is_written_back_is_compared() {
    for others in [false, true] {
        let World { server, database, forebay } = world("");
        drop(forebay);
        let forebay = start(&server, &database, &[&MAP[..], &["--write-back-ms", "2000"]].concat());
        let world = World { server, database, forebay };
        let mut client = world.client();
        cache(&mut client, &["item:1", "item:2"]);
        assert_eq!(call(&mut client, "HSET item:1 note a"), Reply::Integer(0));
        is_acknowledged(&copies(&mut client, 1, 2));
        if others {
            world.sql(BY_OTHERS);
        }
        settled(&mut client);
        let (expected, quarantined) =
            if others { ("1:50:a 2:2:new 3:3:new", 1) } else { ("1:1:a 2:2:of-a 3:3:new", 0) };
        assert_eq!((notes(&world), figure(&mut client, "quarantined")), (expected.into(), quarantined));
    }
}

/// A row with a write that is set aside shows what others make of it, and CACHE CHECKED notices that it did not.
#[test]
fn what_is_shown_of_a_row_with_writes_follows_what_others_do() {
    let world = world("");
    let mut client = world.client();
    cache(&mut client, &["item:1", "item:2"]);
    away(&mut client, true);
    call(&mut client, "HSET item:1 note refused n -5");
    let mut client = drained(&world);
    assert_eq!(figure(&mut client, "quarantined"), 1);
    assert_eq!(said(&call(&mut client, "HGETALL item:1")), "id 1 n -5 note refused touched 0");
    let mut reader = world.client();
    assert_eq!(call(&mut reader, "TXN BEGIN READONLY CHECKED"), ok());
    assert_eq!(said(&call(&mut reader, "HGET item:1 touched")), "0");
    world.sql("UPDATE items SET touched = 7 WHERE id = 1");
    let told = said(&call(&mut reader, "TXN COMMIT"));
    assert!(told.starts_with("TXCONFLICT"), "{told}");
    let began = Instant::now();
    while said(&call(&mut client, "HGETALL item:1")) != "id 1 n -5 note refused touched 7" {
        assert!(began.elapsed() < PATIENCE, "{:?}", call(&mut client, "HGETALL item:1"));
    }
    // Nothing changes: what it reads was so at one moment.
    assert_eq!(call(&mut reader, "TXN BEGIN READONLY CHECKED"), ok());
    assert_eq!(said(&call(&mut reader, "HGET item:1 touched")), "7");
    assert_eq!(said(&call(&mut reader, "HGET item:2 note")), "new");
    let told = said(&call(&mut reader, "TXN COMMIT"));
    assert!(!told.starts_with("TX"), "{told}");
    // By the table's triggers alone, with nothing that checks.
    world.sql("UPDATE items SET touched = 8 WHERE id = 1");
    let began = Instant::now();
    while said(&call(&mut client, "HGET item:1 touched")) != "8" {
        assert!(began.elapsed() < PATIENCE, "{:?}", call(&mut client, "HGETALL item:1"));
    }
}

/// Who reads a row and writes that row for what it read does not write over what others have committed since. A change
/// that rests on nothing that was read is made to the row as it is.
#[test]
fn what_was_read_and_is_written_for_that_is_not_written_over_others() {
    let told: [&[&str]; 5] = [
        &["TXN BEGIN", "HGET item:1 n", "HSET item:1 n 2", "TXN COMMIT"],
        &["WATCH item:1", "HGET item:1 n", "MULTI", "HSET item:1 n 2", "EXEC"],
        &["MULTI", "HGET item:1 n", "HSET item:1 n 2", "EXEC"],
        &["MULTI", "HSETNX item:1 touched 7", "HSET item:1 n 2", "EXEC"],
        &["GETSET item:1 {\"n\":2}"],
    ];
    let more = "ALTER TABLE items ALTER touched DROP DEFAULT; UPDATE items SET touched = NULL";
    for commands in told {
        let world = unwatched(more);
        let mut client = world.client();
        cache(&mut client, &["item:1"]);
        away(&mut client, true);
        world.sql(BY_OTHERS);
        for command in commands {
            let reply = call(&mut client, command);
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
        }
        assert!(said(&call(&mut client, "CACHE OUTCOME")).contains("BUFFERED"), "{commands:?}");
        away(&mut client, false);
        becomes(&world, 1, "1:50:new 2:2:new 3:3:new");
    }
    for (command, expected) in [("HINCRBY item:1 n 2", "1:52:new"), ("HSET item:1 note x", "1:50:x")] {
        let world = unwatched(more);
        let mut client = world.client();
        cache(&mut client, &["item:1"]);
        away(&mut client, true);
        world.sql(BY_OTHERS);
        let reply = call(&mut client, command);
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
        away(&mut client, false);
        becomes(&world, 0, &format!("{expected} 2:2:new 3:3:new"));
    }
}
