//! Rows of mapped tables: read, changed, checked, and refused.

use forebay::change::{Change, apply_all};
use forebay::store::{Commit, CommitOutcome, Store, Write, suite};
use forebay::value::{Blob, Data};
use forebay::{Read, Value, Version};
use forebay_drivers::sqlite::{DRIVER, Sqlite};
use forebay_drivers::{OpenError, Options, VersionMode};
use rusqlite::Connection;

use crate::{Place, commit, key, outcome};

pub const USERS: &str = "\
CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT NOT NULL DEFAULT 'none', visits INTEGER,
    balance DECIMAL(10, 2), active BOOL, seen DATETIME, extra TEXT CHECK (json_valid(extra)), photo BLOB,
    upper TEXT GENERATED ALWAYS AS (upper(name)))";

/// Opens `place` in front of tables that `schema` makes, after `forebay store init`.
pub fn open(place: &Place, schema: &str, mappings: &[&str]) -> Sqlite {
    place.other().execute_batch(schema).expect("the tables are made");
    let options = mapped(place, mappings);
    init(place, options.clone()).expect("it is prepared");
    place.open(options).expect("it opens")
}

pub fn mapped(place: &Place, mappings: &[&str]) -> Options {
    let mappings = mappings.iter().map(|mapping| mapping.parse().expect("a mapping")).collect();
    Options { mappings, ..place.options() }
}

pub fn init(place: &Place, options: Options) -> Result<(), OpenError> {
    place.runtime.block_on((DRIVER.init)(options, VersionMode::Side))
}

pub fn read(store: &Sqlite, name: &str) -> Read {
    suite::block_on(store.get(&[key(name)])).expect("it reads").remove(0)
}

/// The fields of a row as texts.
pub fn fields(read: &Read) -> Option<Vec<(String, String)>> {
    let Some(Value { data: Data::Hash(hash), .. }) = &read.value else { return None };
    let text = |blob: &Blob| String::from_utf8_lossy(blob).into_owned();
    let mut fields: Vec<(String, String)> = hash.iter().map(|(field, value)| (text(field), text(value))).collect();
    fields.sort();
    Some(fields)
}

pub fn field(store: &Sqlite, name: &str, wanted: &str) -> Option<String> {
    fields(&read(store, name))?.into_iter().find(|(field, _)| field == wanted).map(|(_, value)| value)
}

pub fn set(field: &str, value: &str) -> Change {
    Change::SetField(Blob::from(field.as_bytes()), Blob::from(value.as_bytes()))
}

/// A write of a row that was not read.
pub fn unseen(name: &str, changes: Vec<Change>) -> Write {
    let mut after = None;
    // What it comes to where nothing was known.
    let _ = apply_all(&mut after, &changes);
    Write { key: key(name), changes: changes.into(), after, unseen: true, told: false }
}

fn one(store: &Sqlite, number: u64, name: &str, changes: Vec<Change>) -> CommitOutcome {
    outcome(store, commit(store.incarnation(), number, vec![unseen(name, changes)]))
}

#[test]
fn a_row_is_a_hash_whose_values_keep_their_types() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    assert_eq!(read(&store, "user:1").value, None);
    let changes = [
        ("name", "ada"),
        ("visits", "007"),
        ("balance", "10.50"),
        ("active", "true"),
        ("seen", "2026-12-01 10:00:00"),
        ("extra", "{\"a\": [1]}"),
        ("photo", "\u{1}\u{2}"),
    ];
    let changes = changes.map(|(field, value)| set(field, value)).to_vec();
    assert!(one(&store, 1, "user:1", changes).is_applied());
    let row: (String, i64, f64, i64, String, Vec<u8>) = place
        .other()
        .query_row(
            "SELECT typeof(visits) || typeof(balance) || typeof(seen), visits, balance, active, extra, photo \
             FROM users WHERE id = 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)),
        )
        .expect("it is there");
    assert_eq!(row, ("integerrealtext".into(), 7, 10.5, 1, "{\"a\": [1]}".into(), vec![1, 2]));
    let expected = [
        ("active", "1"),
        ("balance", "10.5"),
        ("extra", "{\"a\": [1]}"),
        ("id", "1"),
        ("name", "ada"),
        ("photo", "\u{1}\u{2}"),
        ("seen", "2026-12-01 10:00:00"),
        ("upper", "ADA"),
        ("visits", "7"),
    ];
    let expected: Vec<(String, String)> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
    assert_eq!(fields(&read(&store, "user:1")), Some(expected));
    let text = store.text_of(key("user:1").borrow(), &read(&store, "user:1").value.expect("it is there"));
    let text: serde_json::Value = serde_json::from_slice(&text.expect("it has a text")).expect("JSON");
    assert_eq!((&text["extra"]["a"][0], &text["visits"], &text["email"]), (&1.into(), &7.into(), &().into()));
}

#[test]
fn increments_are_made_to_what_the_row_holds_and_never_lose_digits() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    let add = |delta| Change::AddInteger { field: Some(Blob::from(&b"visits"[..])), delta };
    let float = |delta: &str| Change::AddFloat {
        field: Some(Blob::from(&b"balance"[..])),
        delta: Blob::from(delta.as_bytes()),
    };
    assert!(one(&store, 1, "user:1", vec![add(5)]).is_applied());
    place.other().execute("UPDATE users SET visits = 9223372036854775800", []).expect("it is changed");
    assert!(one(&store, 2, "user:1", vec![add(7)]).is_applied());
    assert_eq!(field(&store, "user:1", "visits").as_deref(), Some("9223372036854775807"));
    let over = one(&store, 3, "user:1", vec![add(1)]);
    assert!(matches!(&over, CommitOutcome::Refused(why) if why.contains("out of range")), "{over:?}");
    assert!(one(&store, 4, "user:1", vec![float("1.25"), float("2")]).is_applied());
    assert_eq!(field(&store, "user:1", "balance").as_deref(), Some("3.25"));
    place.other().execute("UPDATE users SET visits = 'many'", []).expect("SQLite takes it");
    assert!(matches!(one(&store, 5, "user:1", vec![add(1)]), CommitOutcome::Refused(_)));
}

#[test]
fn what_a_column_does_not_take_is_refused_and_nothing_of_it_stays() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    for (number, changes, part) in [
        (1, vec![set("visits", "many")], "is no integer"),
        (2, vec![set("balance", "x")], "is no numeric"),
        (3, vec![set("extra", "{")], "is no json"),
        (4, vec![set("nothing", "1")], "has no field"),
        (5, vec![set("upper", "X")], "computes it"),
        (6, vec![Change::UnsetField(Blob::from(&b"name"[..]))], ""),
        (7, vec![set("name", "x"), Change::ExpireAt(5)], "don't expire"),
    ] {
        let refused = one(&store, number, "user:1", changes.clone());
        // An empty name is given no row: there is none.
        if part.is_empty() {
            assert!(refused.is_applied(), "{refused:?}");
            continue;
        }
        assert!(matches!(&refused, CommitOutcome::Refused(why) if why.contains(part)), "{part}: {refused:?}");
        let commit = commit(store.incarnation(), 50 + number, vec![unseen("user:1", changes)]);
        assert!(store.refuses(&commit).is_some(), "{part}: it is told without asking");
    }
    assert!(one(&store, 10, "user:1", vec![set("email", "a@x"), set("name", "ada")]).is_applied());
    let twice = one(&store, 11, "user:2", vec![set("email", "a@x")]);
    assert!(matches!(&twice, CommitOutcome::Refused(why) if why.contains("UNIQUE")), "{twice:?}");
    assert_eq!(read(&store, "user:2").value, None);
    assert!(matches!(suite::block_on(store.get(&[key("user:01")])), Err(forebay::store::ReadError::Refused { .. })));
}

fn checked(store: &Sqlite, number: u64, name: &str, version: Version) -> Commit {
    let changes = vec![set("name", "mine")];
    let commit = commit(store.incarnation(), number, vec![unseen(name, changes)]);
    Commit { checks: vec![(key(name), version)], ..commit }
}

/// What another program does.
type Way = fn(&Connection) -> rusqlite::Result<()>;

/// Every way in which another program may change a row between our read and our commit.
#[test]
fn whatever_others_do_to_a_row_is_noticed_by_a_commit_that_has_read_it() {
    let ways: [(&str, Way); 8] = [
        ("an update", |other| other.execute("UPDATE users SET visits = 5 WHERE id = 1", []).map(|_| ())),
        ("the same value again", |other| other.execute("UPDATE users SET name = name", []).map(|_| ())),
        ("a delete", |other| other.execute("DELETE FROM users WHERE id = 1", []).map(|_| ())),
        ("all rows deleted", |other| other.execute("DELETE FROM users", []).map(|_| ())),
        ("deleted and made again", |other| {
            other.execute_batch("DELETE FROM users; INSERT INTO users (id, email) VALUES (1, 'a@x')")
        }),
        ("replaced by its key", |other| {
            other.execute_batch("INSERT OR REPLACE INTO users (id, name) VALUES (1, 'other')")
        }),
        ("replaced by another key", |other| {
            other.execute_batch("INSERT OR REPLACE INTO users (id, email) VALUES (2, 'a@x')")
        }),
        ("replaced by an update of another row", |other| {
            other.execute_batch(
                "INSERT INTO users (id, email) VALUES (3, 'c@x');
                UPDATE OR REPLACE users SET email = 'a@x' WHERE id = 3",
            )
        }),
    ];
    for (what, change) in ways {
        let place = Place::new();
        let store = open(&place, USERS, &["user:{id} -> users(id)"]);
        place.other().execute("INSERT INTO users (id, email, name) VALUES (1, 'a@x', 'ada')", []).expect("a row");
        let before = read(&store, "user:1");
        assert!(suite::block_on(store.check(&[(key("user:1"), before.version)])).expect("it is told").is_empty());
        change(&place.other()).expect(what);
        let overtaken = suite::block_on(store.check(&[(key("user:1"), before.version)])).expect("it is told");
        assert_eq!(overtaken, [key("user:1")], "{what}");
        let conflict = outcome(&store, checked(&store, 1, "user:1", before.version));
        assert_eq!(conflict, CommitOutcome::Conflict(vec![key("user:1")]), "{what}");
        let now = read(&store, "user:1");
        assert!(now.version > before.version, "{what}: {} after {}", now.version, before.version);
        assert!(outcome(&store, checked(&store, 2, "user:1", now.version)).is_applied(), "{what}");
    }
}

#[test]
fn an_absence_is_overtaken_by_a_row() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    let absent = read(&store, "user:9");
    assert_eq!(absent.value, None);
    place.other().execute("INSERT INTO users (id) VALUES (9)", []).expect("a row");
    let conflict = outcome(&store, checked(&store, 1, "user:9", absent.version));
    assert_eq!(conflict, CommitOutcome::Conflict(vec![key("user:9")]));
}

#[test]
fn a_repeated_commit_tells_whether_its_rows_were_written_since() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    let visit = || {
        let add = |name| unseen(name, vec![Change::AddInteger { field: Some(Blob::from(&b"visits"[..])), delta: 1 }]);
        commit(store.incarnation(), 1, vec![add("user:1"), add("user:2")])
    };
    assert!(outcome(&store, visit()).is_applied());
    place.other().execute("UPDATE users SET visits = 10 WHERE id = 2", []).expect("another writes");
    let CommitOutcome::Repeated(since) = outcome(&store, visit()) else { panic!("it is told as repeated") };
    let told: Vec<(bool, Option<String>)> = since
        .iter()
        .map(|since| {
            let visits = fields(&since.read).and_then(|fields| fields.into_iter().find(|(name, _)| name == "visits"));
            (since.untouched, visits.map(|(_, value)| value))
        })
        .collect();
    assert_eq!(told, [(true, Some("1".into())), (false, Some("10".into()))]);
}

#[test]
fn foreign_keys_hold_and_join_the_lanes_of_their_tables() {
    let place = Place::new();
    let schema = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, user INTEGER REFERENCES users DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE items (id INTEGER PRIMARY KEY, n INTEGER)";
    let mappings = ["user:{id} -> users(id)", "order:{id} -> orders(id)", "item:{id} -> items(id)"];
    let store = open(&place, schema, &mappings);
    let lane = |name: &str| store.lane(&key(name));
    assert!(lane("user:1").is_some());
    assert_eq!((lane("user:1"), lane("item:1")), (lane("order:5"), None));
    assert_eq!(store.references(&key("order:5"), &[set("user", "7")]), [key("user:7")]);
    // It is found at COMMIT, when commits before it are in the same transaction.
    let mine = store.incarnation();
    let group = [
        commit(mine, 1, vec![unseen("item:1", vec![set("n", "1")])]),
        commit(mine, 2, vec![unseen("order:5", vec![set("user", "7")])]),
        commit(mine, 3, vec![unseen("item:2", vec![set("n", "2")])]),
    ];
    let outcomes = suite::block_on(store.commit(&group));
    assert!(outcomes[0].is_applied(), "{outcomes:?}");
    assert!(matches!(&outcomes[1], CommitOutcome::Refused(why) if why.contains("FOREIGN KEY")), "{outcomes:?}");
    assert!(matches!(&outcomes[2], CommitOutcome::Unavailable(_)), "{outcomes:?}");
    assert_eq!(field(&store, "item:1", "n").as_deref(), Some("1"));
    assert_eq!(read(&store, "order:5").value, None);
    let both =
        commit(mine, 4, vec![unseen("order:5", vec![set("user", "7")]), unseen("user:7", vec![set("name", "ada")])]);
    assert!(outcome(&store, both).is_applied());
}

#[test]
fn a_trigger_that_rolls_back_takes_no_other_commit_along() {
    let place = Place::new();
    let schema = "CREATE TABLE items (id INTEGER PRIMARY KEY, n INTEGER);
        CREATE TRIGGER never BEFORE INSERT ON items WHEN NEW.n = 13 BEGIN SELECT RAISE(ROLLBACK, 'no 13'); END";
    let store = open(&place, schema, &["item:{id} -> items(id)"]);
    let item = |number: u64, n: &str| {
        commit(store.incarnation(), number, vec![unseen(&format!("item:{number}"), vec![set("n", n)])])
    };
    let outcomes = suite::block_on(store.commit(&[item(1, "1"), item(2, "2"), item(3, "13"), item(4, "4")]));
    assert!(outcomes[0].is_applied() && outcomes[1].is_applied(), "{outcomes:?}");
    assert!(matches!(&outcomes[2], CommitOutcome::Refused(why) if why.contains("no 13")), "{outcomes:?}");
    assert_eq!(field(&store, "item:2", "n").as_deref(), Some("2"));
}

#[test]
fn documents_beside_rows_are_of_one_transaction() {
    let place = Place::new();
    place.other().execute_batch(USERS).expect("a table");
    let keys = vec!["cart:* -> documents".parse().expect("keys")];
    let options = Options { keys, ..mapped(&place, &["user:{id} -> users(id)"]) };
    init(&place, options.clone()).expect("it is prepared");
    let store = place.open(options).expect("it opens");
    let mine = store.incarnation();
    let put = |value: &str| suite::write(&key("cart:1"), None, vec![Change::Put(crate::text(value))]);
    let both = commit(mine, 1, vec![put("book"), unseen("user:1", vec![set("visits", "1")])]);
    assert!(outcome(&store, both).is_applied());
    let refused = commit(mine, 2, vec![put("lamp"), unseen("user:1", vec![set("visits", "x")])]);
    assert!(matches!(outcome(&store, refused), CommitOutcome::Refused(_)));
    assert_eq!(crate::got(&store, "cart:1"), Some(crate::text("book")));
    assert_eq!(suite::block_on(store.count(0)), Ok(2));
    let all = suite::block_on(store.scan(0, None, 10)).expect("they are listed");
    assert_eq!(all, [key("user:1"), key("cart:1")]);
    assert_eq!(suite::block_on(store.scan(0, Some(&all[0]), 10)).expect("they are listed"), all[1..]);
    suite::block_on(store.clear(&[0], Version { incarnation: mine, sequence: 9 })).expect("documents are cleared");
    assert_eq!(suite::block_on(store.scan(0, None, 10)).expect("they are listed"), all[..1]);
}

#[test]
fn keys_of_several_columns_are_listed_in_their_order() {
    let place = Place::new();
    let schema = "CREATE TABLE members (org TEXT, id INTEGER, name TEXT, PRIMARY KEY (org, id)) WITHOUT ROWID";
    let store = open(&place, schema, &["member:{org}:{id} -> members(org, id)"]);
    let rows = [("b", 2), ("a'c", 10), ("a'c", 9)];
    for (number, (org, id)) in (1..).zip(rows) {
        assert!(one(&store, number, &format!("member:{org}:{id}"), vec![set("name", "x")]).is_applied());
    }
    let found = suite::block_on(store.scan(0, None, 2)).expect("they are listed");
    assert_eq!(found, [key("member:a'c:9"), key("member:a'c:10")]);
    assert_eq!(suite::block_on(store.scan(0, found.last(), 2)).expect("they are listed"), [key("member:b:2")]);
    place.other().execute("UPDATE members SET id = 11 WHERE id = 10", []).expect("its key is changed");
    assert_eq!(read(&store, "member:a'c:10").value, None);
    assert_eq!(field(&store, "member:a'c:11", "name").as_deref(), Some("x"));
}

#[test]
fn mappings_that_do_not_fit_are_refused_with_the_fix() {
    let place = Place::new();
    let schema = "CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT, any);
        CREATE TABLE free (a INTEGER, b TEXT);
        CREATE TABLE loose (a TEXT COLLATE NOCASE PRIMARY KEY);
        CREATE TABLE part (a INTEGER, b INTEGER);
        CREATE UNIQUE INDEX some ON part (a) WHERE b > 0;
        CREATE VIEW seen AS SELECT * FROM plain";
    place.other().execute_batch(schema).expect("tables");
    for (mapping, part) in [
        ("k:{id} -> gone(id)", "there is no table"),
        ("k:{id} -> plain(nope)", "has no column nope; it has id, name, any"),
        ("k:{id} -> free(a)", "CREATE UNIQUE INDEX \"free_key\" ON \"free\" (\"a\")"),
        ("k:{id} -> loose(a)", "several keys"),
        ("k:{id} -> part(a)", "leaves rows out"),
        ("k:{id} -> seen(id)", "is not a table"),
        ("k:{id} -> other.plain(id)", "SQLite has no schemas"),
        ("k:{id} -> plain(id).any as list", "no arrays"),
        ("k:{id} -> plain(id) version(column)", "leave version(column) out"),
    ] {
        let refused = init(&place, mapped(&place, &[mapping])).expect_err(mapping).to_string();
        assert!(refused.contains(part), "{mapping}: {refused}");
    }
    let refused = place.open(mapped(&place, &["k:{id} -> plain(id)"])).err().expect("it is not prepared");
    assert!(refused.to_string().contains("forebay store init"), "{refused}");
}
