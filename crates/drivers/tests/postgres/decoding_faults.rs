//! What stands in the way of decoding, at the start and later, on a real server. In each case it is said what to do,
//! `auto` takes triggers instead, and whoever caches is told that everything is suspect until the log can be read.

use std::thread::spawn;

use forebay::store::suite::block_on;
use forebay::store::{Outside, Store};
use forebay_drivers::postgres::{OpenError, Postgres, setup};
use forebay_drivers::{Options, OutsideBy, VersionMode};

use crate::decoding::{MAP, opened, slots, until_watched, world};
use crate::mapping::{USERS, World, key, until_told};
use crate::open;
use crate::server::{Stop, psql};

/// Triggers for those who take them instead.
const WITH_TRIGGERS: &str = "user:{id} -> users(id) version(side)";

/// Drops the slot of this database, as somebody may who sees what it costs.
const DROP: &str =
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'forebay%'";

/// Makes a slot that nobody reads.
const TAKE: &str = "SELECT pg_create_physical_replication_slot('others')";

/// Until it is done: a look of ours may be at it.
fn insist(world: &World, statement: &str) {
    while world.server.try_sql(&world.database, statement).is_err() {}
}

/// Refused in words that contain `fix`, which `store check` has as well; and `auto` sees the same writes by triggers.
fn refused_with(world: &World, fix: &str) {
    let said = match open(&world.runtime, world.options.clone()) {
        Err(OpenError::Outside(lines)) => lines.join("\n"),
        other => panic!("{:?}", other.err()),
    };
    assert!(said.contains(fix), "{said}");
    let auto = Options { outside: OutsideBy::Auto, ..world.options.clone() };
    let store = open(&world.runtime, auto).expect("it opens");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything), "the beginning");
    world.sql("UPDATE users SET visits = visits + 1 WHERE id = 2");
    assert_eq!(until_told(&store, "user:2"), [key("user:2")]);
}

fn with_triggers() -> World {
    let world = world(USERS, &[WITH_TRIGGERS]);
    world.runtime.block_on(setup::init(&world.options, VersionMode::None)).expect("it is prepared");
    world
}

/// Up to the next time that everything is suspect.
fn until_suspect(store: &Postgres) {
    while !matches!(block_on(store.outside()), Some(Outside::Everything | Outside::OutOfSight)) {}
}

/// Everything is suspect again and again, and not only once.
fn stays_suspect(store: &Postgres) {
    for _ in 0..3 {
        let told = block_on(store.outside());
        assert!(matches!(told, Some(Outside::Everything | Outside::OutOfSight)), "{told:?}");
    }
}

fn restart(world: &World, setting: &str) {
    world.sql(setting);
    world.server.stop(Stop::Fast);
    world.server.start_again();
}

#[test]
fn all_slots_are_taken() {
    let world = with_triggers();
    restart(&world, "ALTER SYSTEM SET max_replication_slots = 1");
    world.sql(TAKE);
    let checked = world.runtime.block_on(setup::check(&world.options)).expect("it can be looked at").problems;
    assert!(checked.iter().any(|line| line.contains("raise max_replication_slots")), "{checked:?}");
    refused_with(&world, "raise max_replication_slots");
    world.sql("SELECT pg_drop_replication_slot('others')");
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    // While it runs somebody drops the slot, and takes its place.
    insist(&world, &format!("{DROP}; {TAKE}"));
    until_suspect(&store);
    stays_suspect(&store);
    world.sql("UPDATE users SET visits = 9 WHERE id = 1; SELECT pg_drop_replication_slot('others')");
    until_suspect(&store);
    until_watched(&world, &store);
}

/// The library path says where plugins are looked for, so without it they are as if they were not installed.
#[test]
fn the_plugin_is_missing() {
    let world = with_triggers();
    let without = "ALTER SYSTEM SET dynamic_library_path = '/nowhere'; ";
    let reload = |setting: &str| {
        world.sql(setting);
        world.sql("SELECT pg_reload_conf()");
    };
    let fix = "the server has no plugin test_decoding; install the package";
    reload(without.trim_end_matches("; "));
    refused_with(&world, fix);
    // The same where a slot is there since it was installed.
    reload("ALTER SYSTEM RESET dynamic_library_path");
    while world.sql("SHOW dynamic_library_path") != "$libdir" {}
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    // Sessions that have it loaded keep it.
    reload(without.trim_end_matches("; "));
    while world.sql("SHOW dynamic_library_path") != "/nowhere" {}
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%decoding'");
    until_suspect(&store);
    stays_suspect(&store);
    reload("ALTER SYSTEM RESET dynamic_library_path");
    until_watched(&world, &store);
    reload(without.trim_end_matches("; "));
    while world.sql("SHOW dynamic_library_path") != "/nowhere" {}
    drop(store);
    refused_with(&world, fix);
}

/// A server is started again with a log that says less; it does not start while the slot is there.
#[test]
fn the_log_says_less_than_it_did() {
    let world = with_triggers();
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    insist(&world, DROP);
    world.server.stop(Stop::Fast);
    world.server.start_again_with("-c wal_level=replica");
    until_suspect(&store);
    stays_suspect(&store);
    world.sql("UPDATE users SET visits = 9 WHERE id = 1");
    until_suspect(&store);
    drop(store);
    refused_with(&world, "wal_level is replica; ALTER SYSTEM SET wal_level = logical");
    let (store, _) = {
        world.server.stop(Stop::Fast);
        world.server.start_again();
        opened(&world)
    };
    until_watched(&world, &store);
}

/// A transaction that stays open keeps the log for the slot; more than the server may keep is given up.
#[test]
fn the_server_gives_up_what_it_kept_for_the_slot() {
    let world = world(USERS, &[MAP]);
    world.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'");
    world.sql("SELECT pg_reload_conf()");
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    let url = world.server.url(&world.database);
    let slow = spawn(move || psql(&url, "BEGIN; UPDATE users SET name = 'x' WHERE id = 2; SELECT pg_sleep(600)"));
    while world.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {}
    for _ in 0..4 {
        world.sql("INSERT INTO users (id, name) SELECT 100000 + count(*), 'x' FROM users");
        world.sql("SELECT pg_switch_wal()");
    }
    world.sql("UPDATE users SET visits = 9 WHERE id = 1");
    let status = || world.sql("SELECT wal_status FROM pg_replication_slots");
    // As soon as it is lost, forebay drops it.
    while ["reserved", "extended", "unreserved"].contains(&&*status()) {
        world.sql("INSERT INTO users (id, name) SELECT 100000 + count(*), 'x' FROM users");
        world.sql("CHECKPOINT");
    }
    until_suspect(&store);
    // A new one waits for that transaction.
    stays_suspect(&store);
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    slow.join().expect("psql ran").expect_err("it was ended");
    until_watched(&world, &store);
    assert_eq!(slots(&world), "1");
    // The same while no forebay runs: the next one makes it anew.
    drop(store);
    for _ in 0..4 {
        world.sql("INSERT INTO users (id, name) SELECT 200000 + count(*), 'x' FROM users");
        world.sql("SELECT pg_switch_wal()");
    }
    while status() != "lost" {
        world.sql("INSERT INTO users (id, name) SELECT 200000 + count(*), 'x' FROM users");
        world.sql("CHECKPOINT");
    }
    let checked = world.runtime.block_on(setup::check(&world.options)).expect("it can be looked at").notes;
    assert!(checked.iter().any(|line| line.contains("is lost: it will be made again")), "{checked:?}");
    let (store, _) = opened(&world);
    until_watched(&world, &store);
}

/// The slot is dropped, made anew by somebody, or read in our place: what that took we never see, so everything is
/// suspect.
#[test]
fn somebody_else_is_at_the_slot() {
    let world = world(USERS, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    let write = "UPDATE users SET visits = visits + 1 WHERE id = 1";
    let read = "SELECT count(*) FROM (SELECT pg_logical_slot_get_changes(slot_name, NULL, NULL)
        FROM pg_replication_slots WHERE slot_name LIKE 'forebay%') AS taken";
    let again = "SELECT pg_create_logical_replication_slot('forebay_' || oid, 'test_decoding') FROM pg_database
        WHERE datname = current_database()";
    // As one: the write is committed when the slot has gone.
    insist(&world, &format!("{write}; {DROP}"));
    until_suspect(&store);
    until_watched(&world, &store);
    insist(&world, &format!("{DROP}; {again}"));
    until_suspect(&store);
    until_watched(&world, &store);
    for _ in 0..10 {
        world.sql(write);
        insist(&world, read);
        until_suspect_or_told(&store);
    }
    until_watched(&world, &store);
    assert_eq!(slots(&world), "1");
}

/// Either the write is told, or everything is suspect.
fn until_suspect_or_told(store: &Postgres) {
    loop {
        match block_on(store.outside()) {
            Some(Outside::Everything | Outside::OutOfSight) => return,
            Some(Outside::Keys(keys)) if keys.contains(&key("user:1")) => return,
            _ => {}
        }
    }
}

/// Notes of triggers that can't be read are no better than a log that can't.
#[test]
fn notes_that_can_not_be_read_leave_everything_suspect() {
    let mut world = with_triggers();
    world.options.outside = OutsideBy::Triggers;
    let store = open(&world.runtime, world.options.clone()).expect("it opens");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything), "the beginning");
    world.sql("ALTER TABLE forebay.changes RENAME TO away");
    stays_suspect(&store);
    world.sql("ALTER TABLE forebay.away RENAME TO changes");
    loop {
        world.sql("UPDATE users SET visits = visits + 1 WHERE id = 2");
        if matches!(block_on(store.outside()), Some(Outside::Keys(_))) {
            break;
        }
    }
}
