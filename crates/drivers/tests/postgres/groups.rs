//! Groups of many commits, as a drain hands them over: one transaction, in order, as far as the database takes them.

use forebay::change::{Change, End};
use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::value::codec::encode_value;
use forebay::value::{Data, Hash};
use forebay::version::Mint;
use forebay::{TxnId, Value};
use forebay_drivers::postgres::Postgres;

use crate::mapping::{USERS, World, add, blob, commit_of, field, get, key, set};
use crate::server::psql;

fn group(mint: &Mint, count: usize, of: impl Fn(usize) -> (String, Vec<Change>)) -> Vec<Commit> {
    let commit = |number| {
        let (name, changes) = of(number);
        commit_of(mint, &[(&name, changes)], &[])
    };
    (0..count).map(commit).collect()
}

fn outcomes(store: &Postgres, group: &[Commit]) -> Vec<CommitOutcome> {
    block_on(store.commit(group))
}

fn committed(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Committed(_))
}

/// A hash as the generic table has it.
fn hash_of(fields: &[(&str, &str)]) -> Value {
    let hash: Hash = fields.iter().map(|(name, value)| (blob(name), blob(value))).collect();
    Value { data: Data::Hash(hash), expires_at_ms: None }
}

/// Writes a document around forebay.
fn write_around(world: &World, name: &str, value: &Value) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut encoded = Vec::new();
    encode_value(value, &mut encoded);
    let (name, value) = (hex(name.as_bytes()), hex(&encoded));
    world.sql(&format!("UPDATE forebay.documents SET value = '\\x{value}' WHERE name = '\\x{name}'"));
}

#[test]
fn a_group_is_one_transaction_and_is_applied_once() {
    let world = World::new(USERS, &[]);
    let (store, mint) = world.open();
    let counts =
        group(&mint, 500, |number| (format!("n{}", number % 7), vec![Change::AddInteger { field: None, delta: 1 }]));
    for _ in 0..2 {
        let outcomes = outcomes(&store, &counts);
        assert!(outcomes.iter().all(committed), "{outcomes:?}");
        assert_eq!(get(&store, "n0").value, Some(Value::bytes(*b"72")));
    }
    assert_eq!(world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied"), "1", "one transaction");
    // Some of a group are there already, one twice in it.
    let more = group(&mint, 3, |_| ("n0".into(), vec![Change::AddInteger { field: None, delta: 100 }]));
    assert!(outcomes(&store, &more[1..2]).iter().all(committed));
    let twice = [&more[..], &more[..1]].concat();
    assert!(outcomes(&store, &twice).iter().all(committed));
    assert_eq!(get(&store, "n0").value, Some(Value::bytes(*b"372")));
}

#[test]
fn what_is_refused_is_told_and_stops_what_stands_behind_it() {
    let world = World::new(USERS, &[]);
    let (store, mint) = world.open();
    assert!(outcomes(&store, &group(&mint, 1, |_| ("hash".into(), vec![set("f", "1")]))).iter().all(committed));
    let poisoned = group(&mint, 300, |number| match number {
        211 => ("hash".into(), vec![Change::Append(blob("x"))]),
        number => (format!("k{number}"), vec![Change::Put(Value::bytes(*b"v"))]),
    });
    let outcomes = outcomes(&store, &poisoned);
    assert!(outcomes[..211].iter().all(committed));
    assert!(matches!(&outcomes[211], CommitOutcome::Refused(why) if why.contains("hash")), "{:?}", outcomes[211]);
    assert!(outcomes[212..].iter().all(|outcome| matches!(outcome, CommitOutcome::Unavailable(_))));
    assert_eq!(block_on(store.count(0)), Ok(212));
    // They are as if never sent.
    assert!(self::outcomes(&store, &poisoned[212..]).iter().all(committed));
}

/// A write travels as changes: what a document got from elsewhere, or that nobody knew whole, stays.
#[test]
fn changes_are_made_to_what_is_there_by_then() {
    let world = World::new(USERS, &[]);
    let (store, mint) = world.open();
    let first = group(&mint, 1, |_| ("h".into(), vec![set("a", "1"), set("b", "2")]));
    assert_eq!(outcomes(&store, &first), [CommitOutcome::Committed(vec![(key("h"), get(&store, "h"))])]);
    write_around(&world, "h", &hash_of(&[("a", "1"), ("b", "5"), ("c", "6")]));
    let mut changes = commit_of(&mint, &[("h", vec![add("a", 10), set("d", "x"), Change::UnsetField(blob("c"))])], &[]);
    // As computed over what was known: it is not what is written.
    changes.writes[0].after = Some(hash_of(&[("a", "11"), ("b", "2"), ("d", "x")]));
    let merged = hash_of(&[("a", "11"), ("b", "5"), ("d", "x")]);
    match outcomes(&store, &[changes]).remove(0) {
        CommitOutcome::Committed(changed) => assert_eq!(changed[0].1.value, Some(merged.clone()), "the after-image"),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&store, "h").value, Some(merged));
    let texts = [
        ("t", vec![Change::Put(Value::bytes(*b"ab")), Change::Append(blob("c"))], "abc"),
        ("t", vec![Change::Append(blob("d"))], "abcd"),
        ("t", vec![Change::WriteAt { offset: 1, bytes: blob("X") }], "aXcd"),
        ("f", vec![Change::AddFloat { field: None, delta: blob("0.5") }], "0.5"),
    ];
    for (name, changes, expected) in texts {
        assert!(outcomes(&store, &[commit_of(&mint, &[(name, changes)], &[])]).iter().all(committed));
        assert_eq!(get(&store, name).value, Some(Value::bytes(expected.as_bytes())));
    }
    // The last element takes the document along, whatever was thought of it.
    let push = commit_of(&mint, &[("l", vec![Change::Push(End::Left, blob("x"))])], &[]);
    let before = get(&store, "l").version;
    assert!(outcomes(&store, &[push]).iter().all(committed));
    let pop = commit_of(&mint, &[("l", vec![Change::Pop(End::Right)])], &[]);
    assert!(outcomes(&store, &[pop]).iter().all(committed));
    let gone = get(&store, "l");
    assert!(gone.value.is_none() && gone.version > before);
}

/// Nothing is concluded from not finding an id: who asks enters a refusal, or waits for who is on the way.
#[test]
fn many_ids_are_resolved_at_once() {
    let world = World::new(USERS, &[]);
    let (store, mint) = world.open();
    let commits = group(&mint, 6, |number| (format!("k{number}"), vec![Change::Put(Value::bytes(*b"v"))]));
    assert!(outcomes(&store, &commits[..2]).iter().all(committed));
    let hex = |id: TxnId| id.0.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // A late twin, which has entered its id and is not done.
    let url = world.server.url(&world.database);
    let script = format!(
        "BEGIN; INSERT INTO forebay.applied VALUES ('\\x{}', true); SELECT pg_sleep(0.7); COMMIT",
        hex(commits[4].id)
    );
    let late = std::thread::spawn(move || psql(&url, &script));
    while world
        .sql("SELECT count(*) FROM pg_locks WHERE relation = 'forebay.applied'::regclass AND mode = 'RowExclusiveLock'")
        == "0"
    {}
    let ids: Vec<TxnId> = [4, 0, 2, 1, 3, 0].iter().map(|at| commits[*at].id).collect();
    use Resolved::{Applied, NotApplied};
    assert_eq!(block_on(store.outcomes(&ids)), Ok(vec![Applied, Applied, NotApplied, Applied, NotApplied, Applied]));
    late.join().expect("psql ran").expect("it committed");
    let outcomes = outcomes(&store, &commits[1..]);
    assert!(committed(&outcomes[0]));
    assert!(matches!(&outcomes[1], CommitOutcome::Refused(why) if why.contains("not applied")), "{outcomes:?}");
    assert!(committed(&self::outcomes(&store, &commits[5..])[0]));
    assert_eq!(block_on(store.outcomes(&[])), Ok(Vec::new()));
}

const SHOP: &str = "
CREATE TABLE orders (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES users ON DELETE CASCADE, total numeric);
CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL, hits integer NOT NULL DEFAULT 0, code char(4));";

const MAPS: [&str; 3] = ["user:{id} -> users(id)", "order:{id} -> orders(id)", "note:{id} -> notes(id)"];

#[test]
fn rows_of_a_group_are_changed_in_order() {
    let world = World::new(&format!("{USERS}{SHOP}"), &MAPS);
    let (store, mint) = world.open();
    // One frees what the other takes, a child comes behind its parent, a row is changed again, made anew and removed.
    let steps: Vec<Vec<(&str, Vec<Change>)>> = vec![
        vec![("user:1", vec![set("email", "a@b")])],
        vec![("user:1", vec![set("email", "c@d")])],
        vec![("user:2", vec![set("email", "a@b")])],
        vec![("user:3", vec![set("name", "Cleo")]), ("note:1", vec![set("text", "it's \"so\" \\ {x}")])],
        vec![("order:1", vec![set("owner", "3"), set("total", "5")])],
        vec![("order:2", vec![set("owner", "1"), set("total", "7")]), ("note:2", vec![set("text", "NULL")])],
        vec![("user:3", vec![add("visits", 3)]), ("note:1", vec![add("hits", 2)])],
        vec![("user:2", vec![Change::Delete]), ("note:2", vec![add("hits", 5), set("code", "ab")])],
        vec![("user:2", vec![set("name", "Bea"), set("email", "a@b")]), ("note:3", vec![set("text", "")])],
        vec![
            ("note:3", vec![Change::Delete, set("text", "again")]),
            ("note:1", vec![Change::UnsetField(blob("code"))]),
        ],
    ];
    let commits: Vec<Commit> = steps.iter().map(|writes| commit_of(&mint, writes, &[])).collect();
    let outcomes = outcomes(&store, &commits);
    assert!(outcomes.iter().all(committed), "{outcomes:?}");
    assert_eq!(world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied"), "1", "one transaction");
    let users = world.sql("SELECT id, name, visits, email FROM users ORDER BY id");
    assert_eq!(users, "1|Ada|7|c@d\n2|Bea|7|a@b\n3|Cleo|10|");
    assert_eq!(world.sql("SELECT id, owner, total FROM orders ORDER BY id"), "1|3|5\n2|1|7");
    let notes = world.sql("SELECT id, text, hits, code FROM notes ORDER BY id");
    assert_eq!(notes, "1|it's \"so\" \\ {x}|2|\n2|NULL|5|ab  \n3|again|0|");
    // Each row's last image is told once, with the commit that wrote it last.
    for (outcome, writes) in outcomes.iter().zip(&steps) {
        let CommitOutcome::Committed(changed) = outcome else { panic!("{outcome:?}") };
        for (name, read) in changed {
            assert!(writes.iter().any(|(written, _)| key(written) == *name), "{name}");
            assert_eq!(*read, get(&store, &name.to_string()));
        }
    }
    let told = |outcome: &CommitOutcome| match outcome {
        CommitOutcome::Committed(changed) => changed.len(),
        _ => 0,
    };
    assert_eq!(outcomes.iter().map(told).sum::<usize>(), 8, "eight rows");
    assert!(self::outcomes(&store, &commits).iter().all(committed));
    assert_eq!(field(&get(&store, "user:3"), "visits").as_deref(), Some("10"), "once");
}

#[test]
fn many_rows_of_one_shape_are_few_statements() {
    let world = World::new(&format!("{USERS}{SHOP}"), &MAPS);
    let (store, mint) = world.open();
    world.sql(
        "CREATE TABLE statements (n integer); CREATE FUNCTION count_them() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END';
        CREATE TRIGGER count_them AFTER INSERT OR UPDATE ON notes FOR EACH STATEMENT EXECUTE FUNCTION count_them()",
    );
    // The store has looked at the table before: its rows are still taken for independent.
    let mixed = group(&mint, 900, |number| match number % 3 {
        0 => (format!("note:{}", number / 3), vec![set("text", &number.to_string())]),
        1 => (format!("note:{}", number / 3), vec![add("hits", number as i64)]),
        _ => (format!("user:{}", 100 + number), vec![set("name", "x")]),
    });
    assert!(outcomes(&store, &mixed).iter().all(committed));
    assert_eq!(
        world.sql("SELECT count(*), sum(hits), min(text::integer), max(text::integer) FROM notes"),
        "300|134850|0|897"
    );
    assert_eq!(world.sql("SELECT count(*) FROM users WHERE name = 'x'"), "300");
    // An upsert is an UPDATE and an INSERT.
    assert_eq!(world.sql("SELECT count(*) FROM statements"), "4");
}

#[test]
fn a_poisoned_group_of_rows_is_halved() {
    let world = World::new(&format!("{USERS}{SHOP}"), &MAPS);
    let (store, mint) = world.open();
    let poisoned = group(&mint, 200, |number| match number {
        137 => ("user:1".into(), vec![add("visits", -100)]),
        number => (format!("note:{number}"), vec![set("text", "x")]),
    });
    let first = outcomes(&store, &poisoned);
    assert!(first[..137].iter().all(committed));
    assert!(matches!(&first[137], CommitOutcome::Refused(why) if why.contains("23514")), "{:?}", first[137]);
    assert!(first[138..].iter().all(|outcome| matches!(outcome, CommitOutcome::Unavailable(_))));
    assert_eq!(world.sql("SELECT count(*) FROM notes"), "137");
    let parts: i64 = world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied").parse().expect("a number");
    assert!(parts <= 9, "{parts} transactions for 137 commits");
    // What can't be a change of such a row is known before it is sent.
    let strange = group(&mint, 3, |number| match number {
        1 => ("note:1".into(), vec![set("nothing", "x")]),
        number => (format!("note:{}", 300 + number), vec![set("text", "x")]),
    });
    let outcomes = outcomes(&store, &strange);
    assert!(committed(&outcomes[0]) && matches!(&outcomes[1], CommitOutcome::Refused(why) if why.contains("no field")));
}

/// Checks of a group are made before its changes, so a commit that has read what an earlier one writes waits for it.
#[test]
fn a_group_checks_what_it_has_read() {
    let world = World::new(&format!("{USERS}{SHOP}"), &MAPS);
    let (store, mint) = world.open();
    let (ada, bob) = (get(&store, "user:1").version, get(&store, "user:2").version);
    let note = |number: usize| (format!("note:{number}"), vec![set("text", "x")]);
    let with = |number: usize, checks: &[(&str, forebay::Version)]| {
        let (name, changes) = note(number);
        commit_of(&mint, &[(&name, changes)], checks)
    };
    world.sql("UPDATE users SET visits = 8 WHERE id = 2");
    let commits =
        [with(1, &[("user:1", ada)]), with(2, &[]), with(3, &[("user:1", ada), ("user:2", bob)]), with(4, &[])];
    let checked = outcomes(&store, &commits);
    assert!(checked[..2].iter().all(committed), "{checked:?}");
    assert_eq!(checked[2], CommitOutcome::Conflict(vec![key("user:2")]));
    assert!(matches!(checked[3], CommitOutcome::Unavailable(_)));
    // The second has read what the first is about to write: by then it is overtaken.
    let write = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &[]);
    let checked = outcomes(&store, &[write, with(5, &[("user:1", ada)])]);
    assert!(committed(&checked[0]));
    assert_eq!(checked[1], CommitOutcome::Conflict(vec![key("user:1")]));
}
