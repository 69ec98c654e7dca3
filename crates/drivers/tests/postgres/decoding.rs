//! What others write, out of the server's log.

use std::thread::spawn;

use forebay::change::Change;
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Outside, Store};
use forebay::version::Mint;
use forebay_drivers::postgres::{OpenError, Postgres, setup};
use forebay_drivers::{Options, OutsideBy};

use crate::mapping::{USERS, World, add, commit, commit_of, field, get, key, set, until_told};
use crate::server::{Server, Stop, psql};
use crate::{open, tokio_runtime};

pub const MAP: &str = "user:{id} -> users(id) version(none)";

/// Nothing is added to the tables.
pub fn world(tables: &str, maps: &[&str]) -> World {
    let mut world = World::new(tables, maps);
    world.options.outside = OutsideBy::Decoding;
    world
}

pub fn opened(world: &World) -> (Postgres, Mint) {
    let store = open(&world.runtime, world.options.clone()).expect("it opens");
    let mint = Mint::new(store.incarnation());
    (store, mint)
}

/// Up to the next time that everything is suspect.
fn until_everything(store: &Postgres) {
    while block_on(store.outside()) != Some(Outside::Everything) {}
}

/// From when on what is written is told: everything is suspect at a beginning, once more if transactions were open
/// then, and while there is no connection.
pub fn until_watched(world: &World, store: &Postgres) {
    loop {
        world.sql("INSERT INTO users (id, name) SELECT 1000 + count(*), 'x' FROM users");
        match block_on(store.outside()) {
            Some(Outside::Keys(_)) => return,
            Some(_) => {}
            None => panic!("it is watched"),
        }
    }
}

pub fn slots(world: &World) -> String {
    world.sql("SELECT count(*) FROM pg_replication_slots")
}

const PETS: &str = "
    CREATE TABLE pets (owner integer REFERENCES users ON DELETE CASCADE, name text, PRIMARY KEY (owner, name));
    INSERT INTO pets VALUES (2, 'cat''s'); CREATE ROLE other LOGIN; GRANT ALL ON users, pets TO other;
    CREATE TABLE unmapped (id integer PRIMARY KEY, x text)";

#[test]
fn what_others_write_is_told() {
    let world = world(&format!("{USERS}{PETS}"), &[MAP, "pet:{o}:{n} -> pets(owner, name) version(none)"]);
    let (store, mint) = opened(&world);
    assert_eq!(block_on(store.outside()), Some(Outside::Everything), "nothing is known of what was before");
    commit(&store, &mint, &[("user:1", vec![set("flag", "true")])]);
    world.sql("INSERT INTO unmapped VALUES (1, ''' new-tuple: table public.users: TRUNCATE: (no-flags)')");
    world.sql("SET ROLE other; UPDATE users SET name = 'table public.users: DELETE: id[integer]:1' WHERE id = 2");
    assert_eq!(until_told(&store, "user:2"), [key("user:2")], "neither what is ours nor what is no document");
    world.sql("SET session_replication_role = replica; INSERT INTO users (id, name) VALUES (20, 'x')");
    until_told(&store, "user:20");
    world.sql("UPDATE users SET id = 12 WHERE id = 1");
    let told = until_told(&store, "user:12");
    assert!(told.contains(&key("user:1")), "a transaction is told as a whole: {told:?}");
    world.sql("DELETE FROM users WHERE id = 12");
    until_told(&store, "user:12");
    // Our own delete reaches the other table by itself.
    commit(&store, &mint, &[("user:2", vec![Change::Delete])]);
    assert_eq!(until_told(&store, "pet:2:cat's"), [key("pet:2:cat's")]);
    world.sql("BEGIN; INSERT INTO users (id, name) VALUES (30, 'x'); ROLLBACK; TRUNCATE unmapped");
    world.sql("INSERT INTO users (id, name) VALUES (31, 'x')");
    assert_eq!(until_told(&store, "user:31"), [key("user:31")], "what is undone is not told");
    world.sql("TRUNCATE pets");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
}

/// A transaction that began earlier and commits later, with the smaller number.
#[test]
fn a_long_transaction_stalls_nobody() {
    let world = world(USERS, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    world.beside_slow("UPDATE users SET name = 'slow' WHERE id = 1", || {
        world.sql("INSERT INTO users (id, name) VALUES (21, 'fast')");
        until_told(&store, "user:21");
    });
    until_told(&store, "user:1");
    assert_eq!(field(&get(&store, "user:1"), "name").as_deref(), Some("slow"));
}

/// A commit that waits for its standby is in the log, and nobody can see it: told then, it would be read as it was.
#[test]
fn what_nobody_can_see_yet_is_told_later() {
    let world = world(USERS, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    world.sql("ALTER SYSTEM SET synchronous_standby_names = 'ghost'");
    world.sql("SELECT pg_reload_conf()");
    let url = world.server.url(&world.database);
    let waits = spawn(move || psql(&url, "UPDATE users SET name = 'late' WHERE id = 1"));
    while world.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0" {}
    world.sql("SET synchronous_commit = local; INSERT INTO users (id, name) VALUES (21, 'x')");
    assert_eq!(until_told(&store, "user:21").last(), Some(&key("user:21")));
    assert_eq!(field(&get(&store, "user:1"), "name").as_deref(), Some("Ada"));
    world.sql("SET synchronous_commit = local; INSERT INTO users (id, name) VALUES (22, 'x')");
    assert!(!until_told(&store, "user:22").contains(&key("user:1")), "it is not visible");
    world.sql("ALTER SYSTEM RESET synchronous_standby_names");
    world.sql("SELECT pg_reload_conf()");
    until_told(&store, "user:1");
    assert_eq!(field(&get(&store, "user:1"), "name").as_deref(), Some("late"));
    waits.join().expect("psql ran").expect("it committed");
}

/// The same where the log had it before we began.
#[test]
fn what_nobody_could_see_at_the_beginning_is_not_missed() {
    let world = world(USERS, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    drop(store);
    // Our own beginning would wait as well.
    world.sql("ALTER ROLE app SET synchronous_commit = local");
    world.sql("ALTER SYSTEM SET synchronous_standby_names = 'ghost'");
    world.sql("SELECT pg_reload_conf()");
    let url = world.server.url(&world.database);
    let waits = spawn(move || psql(&url, "SET synchronous_commit = on; UPDATE users SET name = 'late' WHERE id = 1"));
    while world.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0" {}
    let (store, _) = opened(&world);
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    assert_eq!(field(&get(&store, "user:1"), "name").as_deref(), Some("Ada"), "who reads now keeps that");
    world.sql("ALTER SYSTEM RESET synchronous_standby_names");
    world.sql("SELECT pg_reload_conf()");
    until_everything(&store);
    assert_eq!(field(&get(&store, "user:1"), "name").as_deref(), Some("late"));
    waits.join().expect("psql ran").expect("it committed");
}

#[test]
fn nothing_is_missed_over_breaks() {
    let world = world(USERS, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    drop(store);
    world.sql("UPDATE users SET visits = 8 WHERE id = 1");
    let (store, _) = opened(&world);
    assert_eq!(slots(&world), "1", "it goes on with the same");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything), "another run of forebay");
    until_watched(&world, &store);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE '%decoding'";
    world.sql(&format!("UPDATE users SET visits = 9 WHERE id = 1; {end}"));
    until_everything(&store);
    until_watched(&world, &store);
    for how in [Stop::Fast, Stop::Immediate] {
        world.server.stop(how);
        world.server.start_again();
        until_everything(&store);
        until_watched(&world, &store);
    }
    // The slot goes, as with a server that took over: there is another one.
    while world
        .server
        .try_sql(
            &world.database,
            &format!("{end}; SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"),
        )
        .is_err()
    {}
    until_everything(&store);
    until_watched(&world, &store);
    assert_eq!(slots(&world), "1");
}

/// A new slot has to wait for transactions that write; forebay does not.
#[test]
fn a_slot_that_can_not_be_made_yet_is_made_later() {
    let world = world(USERS, &[MAP]);
    let url = world.server.url(&world.database);
    let slow =
        spawn(move || psql(&url, "BEGIN; UPDATE users SET name = 'slow' WHERE id = 1; SELECT pg_sleep(4); COMMIT"));
    while world.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {}
    let (store, _) = opened(&world);
    for _ in 0..2 {
        let told = block_on(store.outside());
        assert!(matches!(told, Some(Outside::Everything | Outside::OutOfSight)), "{told:?}");
    }
    slow.join().expect("psql ran").expect("it committed");
    until_watched(&world, &store);
}

/// Rows of a partitioned table lie in others, which come and go.
#[test]
fn partitions_are_watched() {
    let tables = "CREATE TABLE users (id integer, name text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
        CREATE TABLE \"Lo w\" PARTITION OF users FOR VALUES FROM (0) TO (10);
        CREATE TABLE high PARTITION OF users FOR VALUES FROM (10) TO (100000); INSERT INTO users VALUES (1, 'Ada')";
    let world = world(tables, &[MAP]);
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    world.sql("UPDATE users SET id = 12 WHERE id = 1");
    assert!(until_told(&store, "user:12").contains(&key("user:1")));
    world.sql("ALTER TABLE users DETACH PARTITION \"Lo w\"");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    world.sql("ALTER TABLE users ATTACH PARTITION \"Lo w\" FOR VALUES FROM (0) TO (10)");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    world.sql("INSERT INTO users VALUES (2, 'Bob')");
    until_told(&store, "user:2");
    world.sql("TRUNCATE high");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
}

/// Where the log does not have the key of the row before, everything is suspect; with more of it, nothing is.
#[test]
fn what_can_not_be_told_apart_is_everything() {
    let world = world(USERS, &["mail:{email} -> users(email) version(none)"]);
    let (store, _) = opened(&world);
    until_everything(&store);
    world.sql("INSERT INTO users (id, name, email) VALUES (3, 'Cy', 'cy@x')");
    until_told(&store, "mail:cy@x");
    world.sql("UPDATE users SET email = 'cy@y' WHERE id = 3");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    world.sql("DELETE FROM users WHERE id = 3");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    let checked = || world.runtime.block_on(setup::check(&world.options)).expect("it can be looked at").problems;
    assert!(checked().iter().any(|line| line.contains("ALTER TABLE public.users REPLICA IDENTITY FULL")));
    world.sql("ALTER TABLE public.users REPLICA IDENTITY FULL");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything), "what it was before is not known of all");
    assert!(!checked().iter().any(|line| line.contains("IDENTITY")));
    world.sql("UPDATE users SET email = 'bob@x' WHERE id = 2");
    assert_eq!(until_told(&store, "mail:bob@x"), [key("mail:bob@x")]);
    world.sql("UPDATE users SET email = 'bob@y' WHERE id = 2");
    let told = until_told(&store, "mail:bob@y");
    assert!(told.contains(&key("mail:bob@x")), "{told:?}");
    world.sql("UPDATE users SET email = NULL WHERE id = 2; DELETE FROM users WHERE id = 2");
    assert_eq!(until_told(&store, "mail:bob@y"), [key("mail:bob@y")]);
}

/// Commits check the transaction that wrote a row last, so nothing is lost, whenever what others write is told.
#[test]
fn commits_check_what_was_read() {
    let world = world(USERS, &[MAP]);
    let (store, mint) = opened(&world);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let work = "DO $$ BEGIN FOR i IN 1..300 LOOP UPDATE users SET visits = visits + 1 WHERE id = 1; COMMIT;
                END LOOP; END $$";
            psql(&world.server.url(&world.database), work).expect("it ran");
        });
        let mut ours = 0;
        while !others.is_finished() || ours < 20 {
            let read = get(&store, "user:1");
            let visits: i64 = field(&read, "visits").and_then(|text| text.parse().ok()).expect("a number");
            let write = [("user:1", vec![set("visits", &(visits + 1).to_string())])];
            let tried = commit_of(&mint, &write, &[("user:1", read.version)]);
            match block_on(store.commit(&[tried])).remove(0) {
                CommitOutcome::Committed(_) => ours += 1,
                CommitOutcome::Conflict(_) => {}
                other => panic!("{other:?}"),
            }
        }
        others.join().expect("psql ran");
        let there: i64 = world.sql("SELECT visits FROM users WHERE id = 1").parse().expect("a number");
        assert_eq!(there, 7 + 300 + ours);
    });
    commit(&store, &mint, &[("user:1", vec![add("visits", 1)])]);
}

#[test]
fn what_is_in_the_way_is_one_line_with_the_fix() {
    let world = world(USERS, &[MAP]);
    world.sql("CREATE ROLE poor LOGIN; GRANT ALL ON users TO poor; GRANT CREATE ON DATABASE test0 TO poor");
    world.sql("CREATE UNLOGGED TABLE fleeting (id integer PRIMARY KEY)");
    let lines = |options: &Options| {
        let said = match open(&world.runtime, options.clone()) {
            Err(OpenError::Outside(lines)) => lines,
            other => panic!("{:?}", other.err()),
        };
        let checked = world.runtime.block_on(setup::check(options)).expect("it can be looked at");
        for line in &said {
            assert!(!line.contains('\n') && checked.problems.iter().any(|there| there.ends_with(line)), "{line}");
        }
        assert!(!checked.notes.iter().any(|line| line.contains("seen by decoding")), "{checked:?}");
        said.join("\n")
    };
    let fleeting = vec!["f:{id} -> fleeting(id)".parse().expect("a mapping")];
    let said = lines(&Options { mappings: fleeting, ..world.options.clone() });
    assert!(said.contains("ALTER TABLE public.fleeting SET LOGGED"), "{said}");
    world.sql("DROP SCHEMA forebay CASCADE");
    let poor = world.server.url(&world.database).replace("app@", "poor@").parse().expect("a URL");
    let poor = Options { address: poor, ..world.options.clone() };
    let said = lines(&poor);
    assert!(said.contains("ALTER ROLE \"poor\" REPLICATION"), "{said}");
    // With less it is done by triggers, which are not there.
    let auto = Options { outside: OutsideBy::Auto, ..poor.clone() };
    assert_eq!(block_on(open(&world.runtime, auto).expect("it opens").outside()), None);
    world.sql("ALTER ROLE poor REPLICATION");
    let store = open(&world.runtime, poor).expect("it opens");
    until_everything(&store);
    world.sql("UPDATE users SET visits = 8 WHERE id = 1");
    until_told(&store, "user:1");
}

#[test]
fn a_log_that_says_too_little_is_refused() {
    let (server, runtime) = (Server::start_without_decoding(), tokio_runtime());
    let database = server.database();
    server.sql(&database, USERS);
    let mappings = vec![MAP.parse().expect("a mapping")];
    let options = Options { mappings, outside: OutsideBy::Decoding, ..crate::options(&server, &database) };
    let said = open(&runtime, options).err().expect("it can't be").to_string();
    assert!(said.contains("wal_level is replica; ALTER SYSTEM SET wal_level = logical"), "{said}");
}

/// A slot that nobody reads makes the server keep its log.
#[test]
fn the_slot_is_dropped_when_it_is_not_needed() {
    let world = world(USERS, &[MAP]);
    let drop_slot = || world.runtime.block_on(setup::drop_slot(&world.options));
    let (store, _) = opened(&world);
    until_watched(&world, &store);
    let why = drop_slot().expect_err("it is in use").to_string();
    assert!(why.contains("another forebay has"), "{why}");
    drop(store);
    assert_eq!(slots(&world), "1");
    while drop_slot().is_err() {}
    assert!(slots(&world) == "0" && !drop_slot().expect("it can be asked"));
    drop(opened(&world).0);
    assert_eq!(slots(&world), "1");
    // Another way of looking has it dropped at the start.
    for outside in [OutsideBy::Off, OutsideBy::Triggers] {
        let options = Options { outside, ..world.options.clone() };
        let store = open(&world.runtime, options).expect("it opens");
        assert_eq!((slots(&world).as_str(), block_on(store.outside())), ("0", None));
        drop(store);
        drop(opened(&world).0);
    }
    let checked = world.runtime.block_on(setup::check(&world.options)).expect("it can be looked at");
    assert!(checked.notes.iter().any(|line| line.contains("the replication slot forebay_")), "{checked:?}");
    let endless = |lines: &[String]| lines.iter().any(|line| line.contains("max_slot_wal_keep_size is -1"));
    assert!(endless(&checked.warnings) && !endless(&checked.notes), "{checked:?}");
}
