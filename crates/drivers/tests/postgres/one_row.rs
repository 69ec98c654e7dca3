//! A commit of one row that was read before is one prepared statement, and means what a batch means.

use forebay::change::Change;
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Since, Store};
use forebay::{Read, Value, Version};
use forebay_drivers::postgres::Postgres;

use crate::mapping::{USERS, World, add, blob, commit_of, field, get, key, set};
use crate::server::psql;

/// Backends whose last statement was one for one row.
fn by_one_statement(world: &World) -> u64 {
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'WITH entered AS%VALUES (%u AS (UPDATE %'
        AND pid <> pg_backend_pid()";
    world.sql(asked).parse().expect("a count")
}

fn told(outcome: CommitOutcome) -> Result<Read, CommitOutcome> {
    match outcome {
        CommitOutcome::Committed(mut changed) if changed.len() == 1 => Ok(changed.remove(0).1),
        other => Err(other),
    }
}

/// Every change that such a commit may have, on two rows that are alike: with a check of its own row alone, and with
/// one more, which makes it a batch.
#[test]
fn one_statement_does_what_a_batch_does() {
    let object = Value::bytes(*b"{\"name\": \"Eve\", \"visits\": 12, \"price\": null, \"data\": {\"b\": 1.50}}");
    let changes: [(&[Change], bool); 14] = [
        (&[set("name", "it's \\ \u{e4} $1 :x")], true),
        (&[add("visits", 5), add("visits", -2)], true),
        (&[add("visits", 1), set("flag", "yes"), Change::UnsetField(blob("price"))], true),
        (&[Change::AddFloat { field: Some(blob("price")), delta: blob("0.126") }], true),
        (&[Change::SetField(blob("raw"), [0u8, 255, 39].as_slice().into()), set("price", "1.239")], true),
        (&[set("data", "{\"b\": 1, \"a\": 2}"), set("seen", "2026-01-02 03:04:05+01")], true),
        (&[Change::Put(object)], true),
        (&[Change::UnsetField(blob("data"))], true),
        (&[set("visits", "many")], true),
        (&[add("visits", -1_000_000)], true),
        (&[set("code", "too long")], true),
        (&[set("email", "taken@x")], true),
        (&[Change::Delete, set("name", "new")], false),
        (&[Change::Delete], false),
    ];
    for mode in ["none", "column", "side"] {
        let world = World::new(USERS, &[&format!("user:{{id}} -> users(id) version({mode})")]);
        let (store, mint) = world.open();
        world.sql("INSERT INTO users (id, name, email) VALUES (3, 'Cy', 'taken@x'); UPDATE users SET name = 'both'");
        for (changes, one) in &changes {
            let [alone, batched] = ["user:1", "user:2"].map(|name| {
                let more: &[(&str, Version)] = &[("user:3", get(&store, "user:3").version)];
                let own = [(name, get(&store, name).version)];
                let checks = if name == "user:1" { own.to_vec() } else { [own.as_slice(), more].concat() };
                let writes = [(name, changes.to_vec())];
                let outcome = block_on(store.commit(&[commit_of(&mint, &writes, &checks)])).remove(0);
                let by_one = name == "user:1" && *one && mode != "side";
                assert_eq!(by_one_statement(&world) > 0, by_one, "{mode}, {name}: {changes:?}");
                let read = told(outcome);
                if let Ok(read) = &read {
                    let now = get(&store, name);
                    // Absence gets a later number each time it is asked for.
                    let same = read.value == now.value && (read.version == now.version || now.value.is_none());
                    assert!(same, "{mode}, {changes:?}: {read:?} was told, {now:?} is read");
                }
                // A row's own number aside.
                read.map(|read| ["name", "visits", "price", "data", "raw", "seen", "flag"].map(|of| field(&read, of)))
                    .map_err(|error| match error {
                        CommitOutcome::Refused(why) => why.split(';').next().map(str::to_owned),
                        other => panic!("{mode}, {changes:?}: {other:?}"),
                    })
            });
            assert_eq!(alone, batched, "{mode}: {changes:?}");
        }
    }
}

/// A row that another transaction has locked: it is waited for, and what became of it counts.
#[test]
fn a_row_that_changes_meanwhile_is_overtaken() {
    for mode in ["none", "column"] {
        let world = World::new(USERS, &[&format!("user:{{id}} -> users(id) version({mode})")]);
        let (store, mint) = world.open();
        for (end, overtaken) in [("COMMIT", true), ("ROLLBACK", false)] {
            let read = get(&store, "user:1");
            let url = world.server.url(&world.database);
            let script = format!(
                "BEGIN; UPDATE users SET visits = visits + 100 WHERE id = 1;
                 DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP
                     PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$; {end}"
            );
            let other = std::thread::spawn(move || psql(&url, &script));
            let locked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%granted) LOOP%'
                AND pid <> pg_backend_pid()";
            while world.sql(locked) == "0" {}
            let commit = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &[("user:1", read.version)]);
            let outcome = block_on(store.commit(std::slice::from_ref(&commit))).remove(0);
            other.join().expect("psql ran").expect("it ended");
            match overtaken {
                true => assert_eq!(outcome, CommitOutcome::Conflict(vec![key("user:1")]), "{mode}"),
                false => {
                    let after = told(outcome).expect("it is committed");
                    assert_eq!(field(&after, "visits").as_deref(), Some("108"), "{mode}");
                    assert!(after.version > read.version);
                }
            }
        }
        // Gone, under its key.
        let read = get(&store, "user:1");
        world.sql("DELETE FROM users WHERE id = 1");
        let commit = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &[("user:1", read.version)]);
        let outcome = block_on(store.commit(&[commit])).remove(0);
        assert_eq!(outcome, CommitOutcome::Conflict(vec![key("user:1")]), "{mode}");
    }
}

/// A commit that comes again is told what became of it the first time: never that it overtook itself.
#[test]
fn a_commit_that_comes_twice_is_made_once() {
    for mode in ["none", "column"] {
        let world = World::new(USERS, &[&format!("user:{{id}} -> users(id) version({mode})")]);
        let (store, mint) = world.open();
        let checks = [("user:1", get(&store, "user:1").version)];
        let commit = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &checks);
        let group = std::slice::from_ref(&commit);
        let first = told(block_on(store.commit(group)).remove(0)).expect("it is committed");
        let again = block_on(store.commit(group)).remove(0);
        let since = Since { key: key("user:1"), read: first, untouched: true };
        assert_eq!(again, CommitOutcome::Repeated(vec![since]), "{mode}");
        // Two copies at once.
        let read = get(&store, "user:1");
        let commit = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &[("user:1", read.version)]);
        let group = std::slice::from_ref(&commit);
        let copies = world.runtime.block_on(async { futures_util::join!(store.commit(group), store.commit(group)) });
        for outcomes in [copies.0, copies.1] {
            assert!(outcomes[0].is_applied(), "{mode}: {outcomes:?}");
        }
        assert_eq!(world.sql("SELECT visits FROM users WHERE id = 1"), "9", "{mode}");
    }
}

/// A trigger behind the change has the last word: such a table's rows are read back.
#[test]
fn what_a_trigger_makes_of_it_is_told() {
    let tables = format!(
        "{USERS}
        CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE users SET code = 'x' WHERE id = NEW.id AND code IS NULL; RETURN NULL; END $$;
        CREATE TRIGGER later AFTER UPDATE ON users FOR EACH ROW EXECUTE FUNCTION later();"
    );
    let world = World::new(&tables, &["user:{id} -> users(id)"]);
    let (store, mint) = world.open();
    let checks = [("user:1", get(&store, "user:1").version)];
    let outcome = block_on(store.commit(&[commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &checks)]));
    let after = told(outcome.into_iter().next().expect("an outcome")).expect("it is committed");
    assert_eq!((field(&after, "code").as_deref(), by_one_statement(&world)), (Some("x"), 0));
    assert_eq!(get(&store, "user:1"), after);
}

/// Clients that set other fields each time do not fill the server with statements.
#[test]
fn statements_are_prepared_up_to_a_limit() {
    let columns: Vec<String> = (0..8).map(|at| format!("f{at} text")).collect();
    let tables =
        format!("CREATE TABLE wide (id integer PRIMARY KEY, {}); INSERT INTO wide VALUES (1)", columns.join(", "));
    let world = World::new(&tables, &["w:{id} -> wide(id)"]);
    let (store, mint): (Postgres, _) = world.open();
    let mut by_one = Vec::new();
    for fields in 1..=80u32 {
        let changes = (0..8).filter(|at| fields & (1 << at) != 0);
        let changes: Vec<Change> = changes.map(|at| set(&format!("f{at}"), &fields.to_string())).collect();
        let (last, checks) = (changes.len(), [("w:1", get(&store, "w:1").version)]);
        let outcome = block_on(store.commit(&[commit_of(&mint, &[("w:1", changes)], &checks)])).remove(0);
        let after = told(outcome).expect("it is committed");
        let written = (0..8).filter(|at| field(&after, &format!("f{at}")) == Some(fields.to_string())).count();
        assert_eq!(written, last);
        by_one.push(by_one_statement(&world) > 0);
    }
    assert!(by_one[..64].iter().all(|one| *one) && by_one[64..].iter().all(|one| !one), "{by_one:?}");
}
