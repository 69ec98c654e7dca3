//! Rows as one text, rows that are made of nothing but their key, and what is surely refused.

use forebay::change::{Change, End};
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Store};
use forebay::value::{Data, Hash, Value};
use forebay_drivers::postgres::Postgres;

use crate::mapping::{World, blob, commit, commit_of, field, get, key, refused, set};

const WIDE: &str = "\
CREATE TABLE wide (
    id bigint PRIMARY KEY, n numeric, m numeric(6,2), f double precision, r real, j json, b jsonb, js json[],
    t text, v varchar(5), c char(4), raw bytea, flag boolean, uid uuid, d date, at timestamptz, xs integer[], ts text[]
);";

fn text_of(store: &Postgres, name: &str) -> String {
    let read = get(store, name);
    let text = store.text_of(key(name).borrow(), &read.value.expect("it is there")).expect("it has a text");
    String::from_utf8(text).expect("UTF-8")
}

fn put(text: &str) -> Vec<Change> {
    vec![Change::Put(Value::bytes(text.as_bytes()))]
}

/// What GET gave, given to SET, changes nothing, and nothing is lost on the way to the database either.
#[test]
fn a_row_as_text_is_exact() {
    let world = World::new(WIDE, &["t:{id} -> wide(id)"]);
    let (store, mint) = world.open();
    commit(&store, &mint, &[("t:1", put("{\"n\":12345678901234567890.1234,\"m\":1.10,\"id\":1}"))]);
    assert_eq!(world.sql("SELECT n, m FROM wide"), "12345678901234567890.1234|1.10");
    // A string is a JSON string where JSON is wanted, whatever it looks like; JSON keeps its text.
    commit(&store, &mint, &[("t:1", put("{\"j\":\"abc\",\"b\":\"5\"}"))]);
    assert_eq!(world.sql("SELECT j, b, jsonb_typeof(b) FROM wide"), "\"abc\"|\"5\"|string");
    let json = "{\"z\":1.10, \"a\":[12345678901234567890.1234,\"\\u00e4\"]}";
    let text = format!("{{\"j\":{json},\"b\":{json},\"js\":[{json},\"x\",null]}}");
    commit(&store, &mint, &[("t:1", put(&text))]);
    assert_eq!(world.sql("SELECT j FROM wide"), json);
    assert_eq!(
        world.sql("SELECT b->>'z', b->'a'->>0, js[2], js[3] IS NULL FROM wide"),
        "1.10|12345678901234567890.1234|\"x\"|t"
    );
    for values in [
        "1e400, -0.01, 1e20, 'NaN', 'null'",
        "'NaN', 0, '-Infinity', 1.5e-7, '\"a\\\"b\"'",
        "0.000000000000000000001, 9999.99, 0.1, 16777217, '{\"k\": [1, {\"k\": 1.50}], \"k\":2}'",
        "-12345678901234567890123456789012345678.9, 1, 1e-300, 3, '[]'",
    ] {
        world.sql(&format!(
            "UPDATE wide SET (n, m, f, r, j) = ROW({values}), b = '\"12\"', t = E'a \"b\"\\n\\\\ 12', v = '1.10',
             c = 'ab', raw = '\\x00ff', flag = true, uid = '0b9f6ff0-3dd6-4f3e-8a0a-0123456789ab', d = '2026-01-02',
             at = '2026-01-02 03:04:05+01', xs = '{{1,NULL,3}}', ts = E'{{\"a,b\",\"c\\\\\"d\",NULL,\"NULL\"}}'"
        ));
        let before = (world.sql("SELECT * FROM wide"), text_of(&store, "t:1"));
        serde_json::from_str::<serde::de::IgnoredAny>(&before.1).expect("it is JSON");
        // JSON's null and NULL read alike.
        let null = values.ends_with("'null'");
        commit(&store, &mint, &[("t:1", put(&before.1))]);
        let after = (world.sql("SELECT * FROM wide"), text_of(&store, "t:1"));
        assert_eq!(before.1, after.1);
        assert_eq!(before.0.replace("|null|", if null { "||" } else { "|null|" }), after.0);
    }
}

#[test]
fn a_row_of_nothing_but_its_key_is_made() {
    let tables = "CREATE TABLE bare (id integer PRIMARY KEY, v text, w integer DEFAULT 7);
        CREATE TABLE strict (id integer PRIMARY KEY, v text NOT NULL)";
    let world = World::new(tables, &["u:{id} -> bare(id)", "s:{id} -> strict(id)"]);
    let (store, mint) = world.open();
    for (name, text) in [("u:1", "{}"), ("u:2", "{\"v\":null}"), ("u:3", "{\"id\":3}"), ("u:1", "{}")] {
        // As a command has it, and as the store is given it.
        let changes = store.changes_of_text(key(name).borrow(), text.as_bytes()).expect("a row").expect("an object");
        assert!(!changes.is_empty(), "{text}: nothing would be committed");
        let read = commit(&store, &mint, &[(name, changes)]).remove(0);
        assert_eq!((field(&read, "w").as_deref(), field(&read, "v")), (Some("7"), None), "{text}");
        commit(&store, &mint, &[(name, put(text))]);
    }
    // One of them, and many at once, of which some are there.
    let many: Vec<_> = ["u:1", "u:4", "u:5"].into_iter().map(|name| (name, put("{}"))).collect();
    assert_eq!(commit(&store, &mint, &many).len(), 3);
    commit(&store, &mint, &[("u:5", [vec![Change::Delete], put("{}")].concat())]);
    assert_eq!(world.sql("SELECT string_agg(id::text, ',' ORDER BY id) FROM bare"), "1,2,3,4,5");
    assert!(refused(&store, &mint, "s:1", put("{}")).contains("23502"));
    assert!(refused(&store, &mint, "u:1", vec![set("id", "2")]).contains("of the key"));
}

const TYPED: &str = "\
CREATE DOMAIN code AS varchar(3);
CREATE TYPE mood AS ENUM ('sad', 'so so', 'true');
CREATE DOMAIN moods AS mood;
CREATE TABLE typed (
    id integer PRIMARY KEY, needed text NOT NULL, filled text NOT NULL DEFAULT 'x', s smallint, i integer, b bigint,
    n numeric, m numeric(6,2), p numeric(2,2), f double precision, flag boolean, uid uuid, j json, jb jsonb,
    v varchar(5), c char(3), dom code, d date, t timestamp, z timestamptz, raw bytea, w time,
    mood mood, moods moods
);
INSERT INTO typed (id, needed) VALUES (1, 'x');";

/// Texts that look like values of one type or another.
const TEXTS: &[&str] = &[
    "",
    " ",
    "0",
    "-0",
    "+7",
    " 7 ",
    "\t7\n",
    "7x",
    "xyz",
    "sad",
    "Sad",
    " sad",
    "so so",
    "1.5",
    "1.",
    ".5",
    ".",
    "-",
    "+-1",
    "1e3",
    "1e",
    "e1",
    "1e-3",
    "1_000",
    "0x1F",
    "0b1",
    "0o7",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "2147483647",
    "2147483648",
    "99999999999",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "00000000000000000000000007",
    "123456789012345678901234567890",
    "9999.99",
    "9999.994",
    "9999.995",
    "-9999.996",
    "10000",
    "010000.001",
    "99999",
    "0.994",
    "0.995",
    "0.99",
    ".999",
    "1",
    "NaN",
    "nan",
    "Infinity",
    "-inf",
    "infinit",
    "true",
    "t",
    "TRUE",
    "tr",
    "yes",
    "y",
    "o",
    "on",
    "of",
    "off",
    "no",
    "n",
    "truee",
    "1 1",
    "abc",
    "abcdef",
    "abc  ",
    "abcde     ",
    "\u{e4}\u{f6}\u{fc}",
    "\u{e4}\u{f6}\u{fc}\u{df}\u{e4}\u{f6}",
    "0b9f6ff0-3dd6-4f3e-8a0a-0123456789ab",
    "{0B9F6FF03DD64F3E8A0A0123456789AB}",
    "0b9f6ff0-3dd6-4f3e-8a0a-0123456789a",
    "0b9f6ff0-3dd6-4f3e-8a0a-0123456789ag",
    "{}",
    "[1,",
    "[1, 2]",
    "\"x\"",
    "null",
    "nul",
    "{\"a\":1.10}",
    "{\"a\":01}",
    "{'a':1}",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"a\u{1}b\"",
    "[1e999]",
    "-1",
    "2026-01-02",
    "2026-13-45",
    "Jan 2 2026",
    "January",
    "infinity",
    "-infinity",
    "epoch",
    "allballs",
    "12:30",
    "J2460000",
    "monday",
    "20260102",
    "\\x00ff",
    "\\xzz",
    "invalid",
    "bc",
    "2026-01-02 03:04:05 BC",
];

/// Never is anything refused beforehand that the database would take; and what a user would meet is refused.
#[test]
fn what_is_refused_beforehand_the_database_refuses() {
    let world = World::new(TYPED, &["t:{id} -> typed(id)"]);
    let (store, mint) = world.open();
    let columns = [
        "needed", "s", "i", "b", "n", "m", "p", "f", "flag", "uid", "j", "jb", "v", "c", "dom", "d", "t", "z", "raw",
        "w", "mood", "moods",
    ];
    let mut refusals = Vec::new();
    for column in columns {
        for text in TEXTS {
            let commit = commit_of(&mint, &[("t:1", vec![set(column, text)])], &[]);
            let Some(why) = store.refuses(&commit) else { continue };
            let outcome = block_on(store.commit(&[commit])).remove(0);
            assert!(matches!(outcome, CommitOutcome::Refused(_)), "{column} {text:?}: {why}: {outcome:?}");
            refusals.push((column, *text));
        }
    }
    for wanted in [
        ("i", "xyz"),
        ("i", "99999999999"),
        ("s", "32768"),
        ("b", "9223372036854775808"),
        ("i", "1.5"),
        ("v", "abcdef"),
        ("c", "abcdef"),
        ("dom", "abcdef"),
        ("m", "10000"),
        ("m", "9999.995"),
        ("p", "0.995"),
        ("p", "1"),
        ("n", "xyz"),
        ("f", "xyz"),
        ("flag", "o"),
        ("uid", "xyz"),
        ("j", "[1,"),
        ("jb", "xyz"),
        ("d", "xyz"),
        ("z", "January"),
        ("t", ""),
        ("mood", "xyz"),
        ("mood", "Sad"),
        ("moods", ""),
    ] {
        assert!(refusals.contains(&wanted), "{wanted:?} is not refused");
    }
}

/// The same of rows: NULL, and what a new row lacks. And moments that are relative to when they are read.
#[test]
fn what_rows_lack_is_refused_beforehand() {
    let world = World::new(TYPED, &["t:{id} -> typed(id)"]);
    let (store, mint) = world.open();
    let there = get(&store, "t:1").value.expect("it is there");
    let after = |fields: &[(&str, &str)]| {
        let hash: Hash = fields.iter().map(|(name, value)| (blob(name), blob(value))).collect();
        Some(Value { data: Data::Hash(hash), expires_at_ms: None })
    };
    let with = |name: &str, changes: Vec<Change>, after: Option<Value>| {
        let mut commit = commit_of(&mint, &[(name, changes)], &[]);
        commit.writes[0].after = after;
        commit
    };
    let null = || Change::UnsetField(blob("needed"));
    for (commit, refused) in [
        (with("t:1", put("{\"needed\":null}"), None), true),
        (with("t:9", vec![set("i", "1")], after(&[("i", "1")])), true),
        (with("t:9", put("{\"needed\":\"x\",\"filled\":null}"), None), true),
        (with("t:1", vec![set("i", "1")], Some(there)), false),
        (with("t:9", vec![set("needed", "x")], after(&[("needed", "x")])), false),
        (with("t:1", vec![null(), set("needed", "x")], after(&[("needed", "x")])), false),
        (with("t:1", vec![set("i", "xyz"), set("i", "1")], after(&[("needed", "x")])), false),
    ] {
        assert_eq!(store.refuses(&commit).is_some(), refused, "{commit:?}: {:?}", store.refuses(&commit));
        let outcome = block_on(store.commit(&[commit])).remove(0);
        assert_eq!(matches!(outcome, CommitOutcome::Refused(_)), refused, "{outcome:?}");
    }
    let add = |field: &str, delta: i64| Change::AddInteger { field: Some(blob(field)), delta };
    let most = || vec![set("s", "32767"), set("i", "2147483647"), set("m", "9999.5")];
    let outcome = block_on(store.commit(&[commit_of(&mint, &[("t:1", most())], &[])])).remove(0);
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    for (change, seen, refused) in [
        (add("i", 1), Some(("i", "2147483648")), true),
        (add("s", 1), Some(("s", "32768")), true),
        (add("m", 1), Some(("m", "10000.5")), true),
        (add("i", -1), Some(("i", "2147483646")), false),
        // Nobody knows what it is added to.
        (add("s", 65_536), None, true),
        (add("i", -4_294_967_296), None, true),
        (add("b", 4_294_967_296), None, false),
    ] {
        let mut commit = with("t:1", vec![change], seen.and_then(|field| after(&[field, ("needed", "x")])));
        commit.writes[0].unseen = seen.is_none();
        assert_eq!(store.refuses(&commit).is_some(), refused, "{commit:?}: {:?}", store.refuses(&commit));
        let outcome = block_on(store.commit(&[commit])).remove(0);
        assert_eq!(matches!(outcome, CommitOutcome::Refused(_)), refused, "{outcome:?}");
    }
    // Taken now, these would be read when the database is back: refused only where nobody asks it.
    for (column, text) in [("d", "yesterday"), ("z", "NOW"), ("t", "tomorrow 10:00"), ("w", "now")] {
        let commit = commit_of(&mint, &[("t:1", vec![set(column, text)])], &[]);
        let why = store.refuses(&commit).expect(text);
        assert!(why.contains("give the moment itself"), "{why}");
        assert!(matches!(block_on(store.commit(&[commit])).remove(0), CommitOutcome::Committed(_)), "{text}");
    }
}

/// A trigger that fills a column makes NULL nothing that is surely refused.
#[test]
fn what_a_trigger_may_mend_is_left_to_the_database() {
    let tables = "CREATE TABLE mended (id integer PRIMARY KEY, needed text NOT NULL, i integer);
        CREATE FUNCTION mend() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.needed = coalesce(NEW.needed, ''mended''); RETURN NEW; END';
        CREATE TRIGGER mend BEFORE INSERT OR UPDATE ON mended FOR EACH ROW EXECUTE FUNCTION mend();";
    let world = World::new(tables, &["t:{id} -> mended(id)"]);
    let (store, mint) = world.open();
    let commit = commit_of(&mint, &[("t:1", put("{\"needed\":null}"))], &[]);
    assert_eq!(store.refuses(&commit), None);
    assert!(matches!(block_on(store.commit(&[commit])).remove(0), CommitOutcome::Committed(_)));
    let commit = commit_of(&mint, &[("t:1", vec![set("i", "xyz")])], &[]);
    assert!(store.refuses(&commit).is_some_and(|why| why.contains("'xyz' is no integer")));
}

/// Types of which the driver knows how their values are shown, and others.
const SHOWN_TYPES: [&str; 19] = [
    "smallint",
    "integer",
    "bigint",
    "numeric(8,2)",
    "numeric(4,0)",
    "numeric",
    "boolean",
    "uuid",
    "text",
    "real",
    "double precision",
    "date",
    "time",
    "time(2)",
    "timestamp",
    "timestamp(0)",
    "timestamptz",
    "timestamptz(3)",
    "timetz",
];

/// Texts of their values.
const SHOWN: [&str; 47] = [
    "7",
    "007",
    "+7",
    " 7 ",
    "-0",
    "0",
    "-12",
    "1.5",
    "1.255",
    "-1.255",
    "999.995",
    ".5",
    "5.",
    "1e2",
    "yes",
    "T",
    "1",
    "off",
    "n",
    "o",
    "0AB70000-0000-0000-0000-00000000000F",
    "0ab70000000000000000000000000000",
    "NaN",
    "Infinity",
    "x",
    "2026-01-05",
    " 2026-01-05 ",
    "2026-01-05T10:00",
    "2026-01-05 23:59:59",
    "2026-01-05T10:00:00Z",
    "2026-01-05T10:00:00.500Z",
    "2026-01-05T10:00:00.123456+00:00",
    "2026-01-05 10:00:00.1234567",
    "2026-01-05 23:59:59.9999",
    "2026-01-05 10:00:00+02",
    "2026-01-05 24:00:00",
    "2026-01-05T10:00:60",
    "2026-1-5",
    "0001-01-01",
    "12026-01-05",
    "2026-02-29",
    "10:00",
    "10:00:00.120",
    "24:00",
    "Jan 5 2026",
    "infinity",
    "2026.01.05",
];

/// Texts of many types: what the driver says that the database will show is what it shows, and the rest it leaves.
#[test]
fn a_text_is_shown_as_the_database_shows_it() {
    let columns: Vec<String> = SHOWN_TYPES.iter().enumerate().map(|(at, of)| format!("c{at} {of}")).collect();
    let tables = format!("CREATE TABLE rows (id integer PRIMARY KEY, {}, list integer[])", columns.join(", "));
    let fields: Vec<String> = (0..SHOWN_TYPES.len()).map(|at| format!("c{at}")).collect();
    let map = format!("row:{{id}} -> rows(id) fields({})", fields.join(", "));
    let world = World::new(&tables, &[&map, "list:{id} -> rows(id).list as list"]);
    let (store, _) = world.open();
    let mut changed = 0;
    for (at, of) in SHOWN_TYPES.iter().enumerate() {
        for text in SHOWN {
            let statement = format!("SET timezone = UTC; SELECT '{text}'::{of}::text");
            let Ok(shown) = world.server.try_sql(&world.database, &statement) else { continue };
            let shown = shown.trim_end_matches('\n');
            let field = format!("c{at}");
            let Change::SetField(_, made) = store.as_stored(key("row:1").borrow(), set(&field, text)) else {
                panic!("{of}")
            };
            changed += usize::from(*made != *text.as_bytes());
            let is_left = *made == *text.as_bytes();
            assert!(is_left || *made == *shown.as_bytes(), "{of} '{text}': {made:?}, it is {shown}");
            let is_number = !of.starts_with("time") && *of != "date";
            let sure = !["1e2", "NaN", "Infinity", "infinity", "-0"].contains(&text)
                && !["numeric", "text"].contains(of)
                && is_number;
            assert!(!sure || *made == *shown.as_bytes(), "{of} '{text}': {made:?} is not {shown}");
        }
    }
    let moment = Change::SetField(blob("c14"), blob("2026-01-05T10:00:00.500Z"));
    assert_eq!(store.as_stored(key("row:1").borrow(), moment), set("c14", "2026-01-05 10:00:00.5"));
    assert!(changed > 30, "{changed}");
    let push = |text: &str| Change::Push(End::Right, blob(text));
    assert_eq!(store.as_stored(key("list:1").borrow(), push("08")), push("8"));
}
