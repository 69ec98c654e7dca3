//! Groups of many commits, as a drain hands them over: one transaction, in order, as far as the database takes them.

use forebay::change::{Change, End, apply_all};
use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Outside, Resolved, Store};
use forebay::value::codec::encode_value;
use forebay::value::{Data, Hash};
use forebay::version::Mint;
use forebay::{TxnId, Value};
use forebay_drivers::postgres::Postgres;

use crate::mapping::{USERS, World, add, blob, commit_of, field, get, key, set, until_told};
use crate::server::psql;

fn group(mint: &Mint, count: usize, of: impl Fn(usize) -> (String, Vec<Change>)) -> Vec<Commit> {
    let commit = |number| {
        let (name, changes) = of(number);
        commit_of(mint, &[(&name, changes)], &[])
    };
    (0..count).map(commit).collect()
}

pub fn outcomes(store: &Postgres, group: &[Commit]) -> Vec<CommitOutcome> {
    block_on(store.commit(group))
}

pub fn committed(outcome: &CommitOutcome) -> bool {
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

/// Rows of several tables, with the ids that each is asked for: whichever others are asked for beside it.
#[test]
fn rows_are_read_with_their_ids() {
    let world = World::new(&format!("{USERS}{SHOP}"), &MAPS);
    let (store, mint) = world.open();
    let write = |name: &str, change: Change| {
        let commit = commit_of(&mint, &[(name, vec![change])], &[]);
        assert!(outcomes(&store, std::slice::from_ref(&commit)).iter().all(committed));
        commit.id
    };
    let notes: Vec<TxnId> = (1..40).map(|number| write(&format!("note:{number}"), set("text", "a"))).collect();
    let user = write("user:1", add("visits", 1));
    let (denied, unheard) = (TxnId(mint.next()), TxnId(mint.next()));
    assert_eq!(block_on(store.outcome(denied)).ok(), Some(Resolved::NotApplied));
    let mut asked = vec![
        (key("note:90"), vec![denied]),
        (key("user:1"), vec![unheard, notes[3], user]),
        (key("user:2"), Vec::new()),
        (key("note:1"), vec![user]),
    ];
    asked.extend((1..40).map(|number| (key(&format!("note:{number}")), vec![denied, notes[number - 1], unheard])));
    for _ in 0..2 {
        let told = block_on(store.get_with_ids(&asked)).expect("it can be read").expect("it can tell");
        assert_eq!(told.len(), asked.len());
        for (at, ((key, _), (read, applied))) in asked.iter().zip(told).enumerate() {
            let expected = match at {
                0 | 2 => Vec::new(),
                1 => vec![notes[3], user],
                3 => vec![user],
                at => vec![notes[at - 4]],
            };
            assert_eq!(applied, expected, "{key}");
            let name = std::str::from_utf8(key.name()).expect("text");
            assert_eq!(read.value, get(&store, name).value, "{key}");
            assert_eq!(read.value.is_none(), at == 0, "{key}");
        }
    }
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
    // Each commit is told what its rows are behind all of the group.
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
    assert_eq!(outcomes.iter().map(told).sum::<usize>(), 16, "for each what it wrote");
    assert!(self::outcomes(&store, &commits).iter().all(CommitOutcome::is_applied));
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

/// A commit as a client makes it of a row that it has read.
pub fn read_and_changed(store: &Postgres, mint: &Mint, name: &str, changes: Vec<Change>) -> Commit {
    let read = get(store, name);
    let mut after = read.value;
    apply_all(&mut after, &changes).expect("they fit");
    let mut commit = commit_of(mint, &[(name, changes)], &[(name, read.version)]);
    commit.writes[0].after = after;
    commit
}

/// Notes with other triggers than `independent` knows: they come later.
pub fn notes(mode: &str) -> (World, Postgres, Mint) {
    let rows = "INSERT INTO notes SELECT n, 'a', 0 FROM generate_series(1, 60) AS n;";
    let maps = MAPS.map(|map| format!("{map} version({mode})"));
    let world = World::new(&format!("{USERS}{SHOP}{rows}"), &maps.each_ref().map(String::as_str));
    let (store, mint) = world.open();
    world.sql(
        "CREATE TABLE statements (n integer); CREATE FUNCTION count_them() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END';
        CREATE TRIGGER count_them AFTER INSERT OR UPDATE ON notes FOR EACH STATEMENT EXECUTE FUNCTION count_them()",
    );
    (world, store, mint)
}

#[test]
fn rows_that_were_read_are_checked_and_changed_by_one_statement() {
    for mode in ["none", "column", "side"] {
        let (world, store, mint) = notes(mode);
        let changes = |number: usize| match number {
            41 => vec![add("hits", 2)],
            // The database makes four characters of it.
            42 => vec![set("code", "ab")],
            43 => vec![set("code", "abcd"), Change::UnsetField(blob("code"))],
            number => vec![set("text", &format!("it's \"{number}\" \\"))],
        };
        let commit = |number| read_and_changed(&store, &mint, &format!("note:{number}"), changes(number));
        let commits: Vec<Commit> = (1..44).map(commit).collect();
        let outcomes = outcomes(&store, &commits);
        for (number, outcome) in (1..44).zip(&outcomes) {
            let name = format!("note:{number}");
            assert_eq!(*outcome, CommitOutcome::Committed(vec![(key(&name), get(&store, &name))]), "{mode}");
        }
        assert_eq!(world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied"), "1", "one transaction");
        assert_eq!(world.sql("SELECT count(*) FROM notes WHERE text LIKE 'it''s%'"), "40");
        assert_eq!(world.sql("SELECT hits, code, id FROM notes WHERE id IN (41, 42) ORDER BY id"), "2||41\n0|ab  |42");
        // An UPDATE of each kind; of versions beside the table an INSERT, too, of those that may be missing.
        let statements = if mode == "side" { "8" } else { "4" };
        assert_eq!(world.sql("SELECT count(*) FROM statements"), statements, "{mode}");
        let noted = if mode == "side" { "43" } else { "0" };
        assert_eq!(world.sql("SELECT count(*) FROM forebay.changes"), noted, "{mode}");
    }
}

#[test]
fn rows_that_others_have_changed_since_stop_the_group() {
    for mode in ["none", "column"] {
        let (world, store, mint) = notes(mode);
        let commit = |number: usize| read_and_changed(&store, &mint, &format!("note:{number}"), vec![add("hits", 1)]);
        let commits: Vec<Commit> = (1..20).map(commit).collect();
        world.sql("UPDATE notes SET text = 'b' WHERE id = 12");
        world.sql("DELETE FROM notes WHERE id = 15");
        let stopped = outcomes(&store, &commits);
        assert!(stopped[..11].iter().all(committed), "{stopped:?}");
        assert_eq!(stopped[11], CommitOutcome::Conflict(vec![key("note:12")]), "{mode}");
        let stopped = outcomes(&store, &commits[12..]);
        assert_eq!(stopped[2], CommitOutcome::Conflict(vec![key("note:15")]), "{mode}");
        assert!(outcomes(&store, &commits[15..]).iter().all(committed));
        assert_eq!(world.sql("SELECT sum(hits), count(*) FROM notes"), "17|59");
        // What one commit reads and another writes is checked before anything is changed.
        let mut reader = read_and_changed(&store, &mint, "note:30", vec![add("hits", 1)]);
        reader.checks.push((key("note:31"), get(&store, "note:31").version));
        let writer = read_and_changed(&store, &mint, "note:31", vec![add("hits", 1)]);
        assert!(outcomes(&store, &[reader, writer]).iter().all(committed), "{mode}");
    }
}

/// Of one table and one kind: prepared once, and what comes of it is what comes of a text.
#[test]
fn a_group_of_one_kind_is_one_prepared_statement() {
    for mode in ["none", "column"] {
        let (world, store, mint) = notes(mode);
        assert_eq!(block_on(store.outside()).is_some(), mode == "column");
        let prepared = || {
            world.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
                    AND query LIKE 'WITH entered AS%unnest($1::bytea[])%UPDATE public.notes%'",
            )
        };
        let commit =
            |number: usize, change: Change| read_and_changed(&store, &mint, &format!("note:{number}"), vec![change]);
        let texts = ["it's", "\"{}, \\", "", "NULL", "\u{e4}\n"];
        let said: Vec<Commit> = (1..30).map(|number| commit(number, set("text", texts[number % 5]))).collect();
        // What the database makes of a value is read back.
        let padded: Vec<Commit> = (1..30).map(|number| commit(number + 30, set("code", "ab"))).collect();
        for group in [said, padded] {
            let outcomes = outcomes(&store, &group);
            for (commit, outcome) in group.iter().zip(&outcomes) {
                let key = &commit.writes[0].key;
                let read = get(&store, std::str::from_utf8(key.name()).expect("text"));
                assert_eq!(*outcome, CommitOutcome::Committed(vec![(key.clone(), read)]), "{mode}");
            }
            assert_eq!(prepared(), "1", "{mode}");
        }
        assert_eq!(world.sql("SELECT DISTINCT octet_length(code) FROM notes WHERE code = 'ab'"), "4");
        assert_eq!(world.sql("SELECT text FROM notes WHERE id IN (1, 5) ORDER BY id"), "\"{}, \\\nit's");
        // Two copies at once, and one later, are made once; none is told that it overtook itself.
        let group: Vec<Commit> = (1..30).map(|number| commit(number, add("hits", 1))).collect();
        let copies = world.runtime.block_on(async { futures_util::join!(store.commit(&group), store.commit(&group)) });
        for outcomes in [copies.0, copies.1, outcomes(&store, &group)] {
            let applied = |outcome| committed(outcome) || matches!(outcome, CommitOutcome::Repeated(_));
            assert!(outcomes.iter().all(applied), "{mode}: {outcomes:?}");
        }
        assert_eq!(world.sql("SELECT sum(hits) FROM notes"), "29", "{mode}");
        // An id that is there already keeps all of it away, whatever the rows have.
        let group: Vec<Commit> = (1..30).map(|number| commit(number, add("hits", 1))).collect();
        assert_eq!(block_on(store.outcome(group[20].id)).ok(), Some(Resolved::NotApplied));
        let stopped = outcomes(&store, &group);
        assert!(stopped[..20].iter().all(committed) && !stopped[20..].iter().any(committed), "{mode}: {stopped:?}");
        assert_eq!(world.sql("SELECT sum(hits) FROM notes"), "49", "{mode}");
        assert_eq!(world.sql("SELECT count(*) FROM forebay.changes"), "0", "{mode}");
    }
}

/// Only what the group itself changes is not noted.
#[test]
fn what_triggers_do_behind_a_group_is_noted() {
    let (world, store, mint) = notes("column");
    world.sql(
        "CREATE FUNCTION visit() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN UPDATE users SET visits = visits + 1 WHERE id = 2; RETURN NULL; END';
        CREATE TRIGGER visit AFTER UPDATE ON notes FOR EACH STATEMENT EXECUTE FUNCTION visit()",
    );
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    let commit = |number: usize| read_and_changed(&store, &mint, &format!("note:{number}"), vec![add("hits", 1)]);
    assert!(outcomes(&store, &(1..9).map(commit).collect::<Vec<_>>()).iter().all(committed));
    assert_eq!(until_told(&store, "user:2"), [key("user:2")]);
    assert_eq!(field(&get(&store, "user:2"), "visits").as_deref(), Some("8"));
    // What others write is, as ever.
    world.sql("UPDATE notes SET hits = 9 WHERE id = 3");
    assert_eq!(until_told(&store, "note:3"), [key("note:3"), key("user:2")]);
}
