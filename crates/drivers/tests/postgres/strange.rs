//! Tables and roles that are not what most are.

use forebay::change::Change;
use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Store};
use forebay_drivers::postgres::OpenError;

use crate::mapping::{USERS, World, add, commit, commit_of, field, get, key, refused, set};
use crate::open;

const TASKS: &str = "1|changed|\n2|second|5\n7|named|\n8||8";

/// Keys that the database would give out by itself are named by clients all the same; another such column is as the
/// database makes it.
#[test]
fn identity_columns() {
    let tables = "CREATE TABLE tasks (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text, n integer);
        CREATE TABLE notes (name text PRIMARY KEY, number integer GENERATED ALWAYS AS IDENTITY, note text);
        INSERT INTO tasks (title) VALUES ('first'), ('second')";
    for version in ["side", "column", "none"] {
        let maps =
            ["task:{id} -> tasks(id)", "note:{name} -> notes(name)"].map(|map| format!("{map} version({version})"));
        let world = World::new(tables, &[&maps[0], &maps[1]]);
        let (store, mint) = world.open();
        commit(&store, &mint, &[("task:1", vec![set("title", "changed")])]);
        commit(&store, &mint, &[("task:7", vec![set("title", "named")]), ("note:a", vec![set("note", "x")])]);
        // As many that are carried over together.
        let group: Vec<Commit> =
            [("task:2", 5), ("task:8", 8)].map(|(name, n)| commit_of(&mint, &[(name, vec![add("n", n)])], &[])).into();
        for outcome in block_on(store.commit(&group)) {
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        }
        assert_eq!(world.sql("SELECT id, title, n FROM tasks ORDER BY id"), TASKS, "{version}");
        let why = refused(&store, &mint, "note:a", vec![set("number", "3")]);
        assert!(why.contains("read-only") && field(&get(&store, "note:a"), "number").as_deref() == Some("1"), "{why}");
    }
}

/// Defaults of the role under which texts would mean something else.
const STRANGE: &str = "ALTER ROLE app SET array_nulls = off; ALTER ROLE app SET quote_all_identifiers = on;
    ALTER ROLE app SET datestyle = 'German'; ALTER ROLE app SET bytea_output = 'escape';
    ALTER ROLE app SET standard_conforming_strings = off; ALTER ROLE app SET timezone = 'Asia/Tokyo';
    ALTER ROLE app SET transform_null_equals = on; ALTER ROLE app SET lock_timeout = '1ms';
    ALTER ROLE app SET client_encoding = 'LATIN1'";

#[test]
fn what_the_role_is_used_to_changes_nothing() {
    let world = World::new(USERS, &["user:{id} -> users(id)"]);
    world.sql(STRANGE);
    let (store, mint) = world.open();
    let changes = vec![
        set("name", "it's \\ \u{20ac}"),
        set("data", "{\"a\": 1}"),
        set("seen", "2026-01-02 03:04:05+00"),
        set("raw", "\u{e9}"),
    ];
    let made = commit(&store, &mint, &[("user:9", changes)]).remove(0);
    for (name, value) in
        [("name", "it's \\ \u{20ac}"), ("seen", "2026-01-02 03:04:05+00"), ("raw", "\u{e9}"), ("visits", "7")]
    {
        assert_eq!(field(&made, name).as_deref(), Some(value), "{name}");
    }
    let value = made.value.expect("it is there");
    let text = store.text_of(key("user:9").borrow(), &value).expect("a row");
    assert!(String::from_utf8_lossy(&text).contains("\"data\":{\"a\": 1}"), "{}", String::from_utf8_lossy(&text));
    commit(&store, &mint, &[("user:9", vec![Change::Delete])]);
}

/// Under such a collation 'Ada' and 'ada' are one row, and would be cached as two documents.
#[test]
fn a_key_is_one_text() {
    let world = World::new("SELECT 1", &["name:{name} -> names(name)"]);
    let collation = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    if let Err(why) = world.server.try_sql(&world.database, collation) {
        eprintln!("skipped: this PostgreSQL has no ICU: {why}");
        return;
    }
    world.sql("CREATE TABLE names (name text COLLATE loose PRIMARY KEY, n integer)");
    let Some(OpenError::Mapping(lines)) = open(&world.runtime, world.options.clone()).err() else { panic!("it opens") };
    assert!(lines.iter().any(|line| line.contains("nondeterministic collation")), "{lines:?}");
}

/// An index may have more columns than those that it is unique on.
#[test]
fn a_key_whose_index_includes_more() {
    let table =
        "CREATE TABLE held (id integer, n integer, PRIMARY KEY (id) INCLUDE (n)); INSERT INTO held VALUES (1, 2)";
    let world = World::new(table, &["held:{id} -> held(id)", "pair:{id}:{n} -> held(id, n)"]);
    let Some(OpenError::Mapping(lines)) = open(&world.runtime, world.options.clone()).err() else { panic!("it opens") };
    assert!(lines.iter().all(|line| line.contains("'pair:")), "{lines:?}");
}
