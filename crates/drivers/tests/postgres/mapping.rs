//! Rows of tables that other programs write to as well.

use std::time::Duration;

use forebay::change::Change;
use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Outside, ReadError, Store, Write};
use forebay::value::{Blob, Data};
use forebay::version::Mint;
use forebay::{Key, Read, TxnId, Value, Version};
use forebay_drivers::postgres::{OpenError, Postgres, setup};
use forebay_drivers::{Mapping, Options, VersionMode};

use crate::server::Server;
use crate::{open, options, tokio_runtime};

pub const USERS: &str = "\
CREATE TABLE users (
    id integer PRIMARY KEY, name text NOT NULL, visits integer NOT NULL DEFAULT 7, price numeric(6,2), data jsonb,
    raw bytea, uid uuid, seen timestamptz, flag boolean, code varchar(3), email text UNIQUE,
    upper_name text GENERATED ALWAYS AS (upper(name)) STORED,
    CHECK (visits >= 0)
);
INSERT INTO users (id, name) VALUES (1, 'Ada'), (2, 'Bob');";

pub struct World {
    pub runtime: tokio::runtime::Runtime,
    pub server: Server,
    pub database: String,
    pub options: Options,
}

impl World {
    pub fn new(tables: &str, maps: &[&str]) -> World {
        let server = Server::start();
        let database = server.database();
        server.sql(&database, tables);
        let mappings = maps.iter().map(|map| map.parse::<Mapping>().expect("a mapping")).collect();
        let options = Options { mappings, ..options(&server, &database) };
        World { runtime: tokio_runtime(), server, database, options }
    }

    pub fn open(&self) -> (Postgres, Mint) {
        self.runtime.block_on(setup::init(&self.options, VersionMode::None)).expect("it is prepared");
        let store = open(&self.runtime, self.options.clone()).expect("it opens");
        let mint = Mint::new(store.incarnation());
        (store, mint)
    }

    /// Does `meanwhile` while a transaction of others has done `update` and has not committed; it commits afterwards.
    pub fn beside_slow(&self, update: &str, meanwhile: impl FnOnce()) {
        let url = self.server.url(&self.database);
        let script = format!("BEGIN; {update}; SELECT pg_advisory_xact_lock(7); COMMIT");
        let slow = self.server.while_locked(&self.database, "SELECT pg_advisory_lock(7)", || {
            let slow = std::thread::spawn(move || crate::server::psql(&url, &script));
            while self.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'") == "0" {
                std::thread::sleep(Duration::from_millis(5));
            }
            meanwhile();
            slow
        });
        slow.join().expect("psql ran").expect("it committed");
    }

    pub fn sql(&self, statement: &str) -> String {
        self.server.sql(&self.database, statement)
    }
}

pub fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

pub fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

pub fn get(store: &Postgres, name: &str) -> Read {
    block_on(store.get(&[key(name)])).expect("it can be read").remove(0)
}

pub fn field(read: &Read, name: &str) -> Option<String> {
    let Some(Value { data: Data::Hash(hash), .. }) = &read.value else { return None };
    hash.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
}

pub fn set(name: &str, value: &str) -> Change {
    Change::SetField(blob(name), blob(value))
}

pub fn add(name: &str, delta: i64) -> Change {
    Change::AddInteger { field: Some(blob(name)), delta }
}

pub fn commit_of(mint: &Mint, writes: &[(&str, Vec<Change>)], checks: &[(&str, Version)]) -> Commit {
    let write = |(name, changes): &(&str, Vec<Change>)| Write {
        key: key(name),
        changes: changes.clone().into(),
        after: None,
        unseen: false,
        told: false,
    };
    let checks = checks.iter().map(|(name, version)| (key(name), *version)).collect();
    let writes = writes.iter().map(write).collect();
    Commit { checks, ..Commit::new(TxnId(mint.next()), mint.next(), writes) }
}

/// Commits and answers what the rows are then.
pub fn commit(store: &Postgres, mint: &Mint, writes: &[(&str, Vec<Change>)]) -> Vec<Read> {
    match block_on(store.commit(&[commit_of(mint, writes, &[])])).remove(0) {
        CommitOutcome::Committed(changed) => {
            assert_eq!(changed.len(), writes.len(), "all rows are told");
            changed.into_iter().map(|(_, read)| read).collect()
        }
        other => panic!("{other:?}"),
    }
}

pub fn refused(store: &Postgres, mint: &Mint, name: &str, changes: Vec<Change>) -> String {
    match block_on(store.commit(&[commit_of(mint, &[(name, changes)], &[])])).remove(0) {
        CommitOutcome::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_is_a_hash_of_what_the_database_made_of_it() {
    let world = World::new(USERS, &["user:{id} -> users(id)"]);
    let (store, mint) = world.open();
    assert!(!store.caps().owned);
    let ada = get(&store, "user:1");
    assert_eq!(field(&ada, "name").as_deref(), Some("Ada"));
    assert_eq!((field(&ada, "id").as_deref(), field(&ada, "visits").as_deref()), (Some("1"), Some("7")));
    assert_eq!(field(&ada, "upper_name").as_deref(), Some("ADA"));
    assert_eq!(field(&ada, "price"), None, "NULL is an absent field");
    assert_eq!(get(&store, "user:3").value, None);
    let changes = vec![
        set("price", "1.239"),
        set("data", "{\"b\": 1, \"a\": 2}"),
        Change::SetField(blob("raw"), Blob::from([0u8, 255, 39].as_slice())),
        set("uid", "0B9F6FF0-3DD6-4F3E-8A0A-0123456789AB"),
        set("seen", "2026-01-02 03:04:05+01"),
        set("flag", "yes"),
        set("code", "it's"),
    ];
    assert!(refused(&store, &mint, "user:1", changes.clone()).contains("too long"), "nothing is cut off");
    let fits =
        changes.into_iter().map(|change| if change == set("code", "it's") { set("code", "o'k") } else { change });
    let ada = commit(&store, &mint, &[("user:1", fits.collect())]).remove(0);
    for (name, value) in [
        ("price", "1.24"),
        ("data", "{\"a\": 2, \"b\": 1}"),
        ("uid", "0b9f6ff0-3dd6-4f3e-8a0a-0123456789ab"),
        ("seen", "2026-01-02 02:04:05+00"),
        ("flag", "true"),
        ("code", "o'k"),
    ] {
        assert_eq!(field(&ada, name).as_deref(), Some(value), "{name}");
    }
    let Some(Value { data: Data::Hash(hash), .. }) = &ada.value else { panic!("a hash") };
    assert_eq!(hash.get(b"raw").map(|value| value.to_vec()), Some(vec![0, 255, 39]));
    assert_eq!(get(&store, "user:1"), ada, "what was told is what is read");
    let after = commit(&store, &mint, &[("user:1", vec![Change::UnsetField(blob("price"))])]).remove(0);
    assert_eq!(field(&after, "price"), None);
    assert!(after.version > ada.version);
    assert_eq!(block_on(store.count(0)), Ok(2));
}

#[test]
fn rows_are_made_changed_and_removed() {
    let world = World::new(USERS, &["user:{id} -> users(id) readonly(email)"]);
    let (store, mint) = world.open();
    // An UPDATE first: an upsert of some columns would fail for want of the name.
    commit(&store, &mint, &[("user:1", vec![set("flag", "true")])]);
    let made = commit(&store, &mint, &[("user:3", vec![set("name", "Cleo"), add("visits", 2), add("visits", 3)])]);
    assert_eq!(field(&made[0], "visits").as_deref(), Some("5"), "an absent one counts as 0");
    let made = commit(&store, &mint, &[("user:4", vec![set("name", "Dora")])]).remove(0);
    assert_eq!(field(&made, "visits").as_deref(), Some("7"), "the database's default");
    let gone = commit(&store, &mint, &[("user:4", vec![Change::Delete])]).remove(0);
    assert!(gone.value.is_none() && gone.version > made.version);
    let again = commit(&store, &mint, &[("user:4", vec![set("name", "Dana")])]).remove(0);
    assert!(again.version > gone.version && get(&store, "user:4") == again);
    let anew = commit(&store, &mint, &[("user:4", vec![Change::Delete, set("name", "Dina")])]).remove(0);
    assert_eq!(field(&anew, "name").as_deref(), Some("Dina"));
    let json = Value::bytes(*b"{\"name\": \"Eve\", \"visits\": 12, \"price\": null, \"flag\": true}");
    let put = commit(&store, &mint, &[("user:4", vec![Change::Put(json)])]).remove(0);
    assert_eq!((field(&put, "name").as_deref(), field(&put, "visits").as_deref()), (Some("Eve"), Some("12")));
    assert_eq!(field(&put, "flag").as_deref(), Some("true"));
    assert_eq!(block_on(store.scan(0, None, 3)), Ok(["user:1", "user:2", "user:3"].map(key).to_vec()));
    assert_eq!(block_on(store.scan(0, Some(&key("user:3")), 3)), Ok(vec![key("user:4")]));
    for (name, changes, part) in [
        ("user:9", vec![set("flag", "true")], "name"),
        ("user:1", vec![set("nothing", "x")], "no field"),
        ("user:1", vec![set("id", "2")], "read-only"),
        ("user:1", vec![set("email", "x")], "read-only"),
        ("user:1", vec![set("upper_name", "X")], "read-only"),
        ("user:1", vec![set("visits", "many")], "22P02"),
        ("user:1", vec![add("visits", -100)], "23514"),
        ("user:1", vec![add("visits", i64::from(i32::MAX))], "22003"),
        ("user:1", vec![add("name", 1)], "does not fit"),
        ("user:1", vec![Change::UnsetField(blob("name"))], "23502"),
        ("user:1", vec![Change::Put(Value::bytes(*b"hello"))], "JSON"),
        ("user:1", vec![Change::ExpireAt(1)], "expire"),
        ("user:1", vec![Change::Append(blob("x"))], "hash"),
    ] {
        let why = refused(&store, &mint, name, changes);
        assert!(why.contains(part), "{name}: {why}");
    }
    assert_eq!(world.sql("SELECT id, visits, flag FROM users WHERE id = 1"), "1|7|t");
}

#[test]
fn one_row_has_one_key() {
    let world = World::new(USERS, &["user:{id} -> users(id)"]);
    let (store, mint) = world.open();
    for name in ["user:01", "user:", "user:x", "user:1 ", "users:1", "user:99999999999"] {
        let read = block_on(store.get(&[key(name)]));
        assert!(matches!(read, Err(ReadError::Refused { .. })), "{name}: {read:?}");
        refused(&store, &mint, name, vec![set("name", "x")]);
    }
    assert!(matches!(block_on(store.get(&[Key::new(1, b"user:1")])), Err(ReadError::Refused { .. })));
    assert!(block_on(store.clear(&[0], mint.next())).is_err(), "tables are not cleared");
}

/// Increments are added to what is there, and what was read must still be so, whoever has written since.
#[test]
fn others_write_too() {
    for mode in ["none", "column", "side"] {
        let world = World::new(USERS, &[&format!("user:{{id}} -> users(id) version({mode})")]);
        let (store, mint) = world.open();
        let read = get(&store, "user:1");
        let absent = get(&store, "user:5");
        world.sql("UPDATE users SET visits = visits + 100 WHERE id = 1");
        let seen = get(&store, "user:1");
        assert!(seen.version > read.version, "{mode}");
        let after = commit(&store, &mint, &[("user:1", vec![add("visits", 1)])]).remove(0);
        assert_eq!(field(&after, "visits").as_deref(), Some("108"), "{mode}");
        let try_with = |writes: &[(&str, Vec<Change>)], checks: &[(&str, Version)]| {
            block_on(store.commit(&[commit_of(&mint, writes, checks)])).remove(0)
        };
        let write = [("user:2", vec![set("flag", "true")])];
        let stale = try_with(&write, &[("user:1", seen.version), ("user:5", absent.version)]);
        assert_eq!(stale, CommitOutcome::Conflict(vec![key("user:1")]), "{mode}");
        let bob = get(&store, "user:2");
        let good = try_with(&write, &[("user:1", after.version), ("user:2", bob.version), ("user:5", absent.version)]);
        assert!(matches!(good, CommitOutcome::Committed(_)), "{mode}: {good:?}");
        world.sql("INSERT INTO users (id, name) VALUES (5, 'Eve')");
        let stale = try_with(&[("user:5", vec![set("name", "Eva")])], &[("user:5", absent.version)]);
        assert_eq!(stale, CommitOutcome::Conflict(vec![key("user:5")]), "{mode}");
        let eve = get(&store, "user:5");
        world.sql("DELETE FROM users WHERE id = 5");
        let gone = get(&store, "user:5");
        world.sql("INSERT INTO users (id, name) VALUES (5, 'Eva')");
        let eva = get(&store, "user:5");
        assert!(absent.version < eve.version && eve.version < gone.version && gone.version < eva.version, "{mode}");
        drop(store);
        let store = open(&world.runtime, world.options.clone()).expect("it opens again");
        assert!(get(&store, "user:5").version > eva.version, "{mode}");
    }
}

/// What the store says that others have written, up to the key that is waited for.
pub fn until_told(store: &Postgres, name: &str) -> Vec<Key> {
    let mut told = Vec::new();
    while !told.contains(&key(name)) {
        match block_on(store.outside()) {
            Some(Outside::Keys(keys)) => told.extend(keys),
            other => panic!("{other:?}"),
        }
    }
    told
}

#[test]
fn what_others_write_is_told() {
    let tables = format!(
        "{USERS}
        CREATE TABLE pets (owner integer REFERENCES users ON DELETE CASCADE, name text, PRIMARY KEY (owner, name));
         INSERT INTO pets VALUES (2, 'cat'); CREATE ROLE other LOGIN; GRANT ALL ON users, pets TO other;"
    );
    for mode in ["column", "side"] {
        let maps = [
            format!("user:{{id}} -> users(id) version({mode})"),
            format!("pet:{{o}}:{{n}} -> pets(owner, name) version({mode})"),
        ];
        let world = World::new(&tables, &[&maps[0], &maps[1]]);
        let (store, mint) = world.open();
        assert_eq!(block_on(store.outside()), Some(Outside::Everything), "nothing is known of what was before");
        commit(&store, &mint, &[("user:1", vec![set("flag", "true")])]);
        // Another program's role needs no right on anything of forebay's.
        world.sql("SET ROLE other; UPDATE users SET name = 'Bo' WHERE id = 2");
        assert_eq!(until_told(&store, "user:2"), [key("user:2")], "{mode}: what is ours is not told");
        world.sql("UPDATE users SET id = 12 WHERE id = 1");
        let mut told = until_told(&store, "user:12");
        told.extend(if told.contains(&key("user:1")) { Vec::new() } else { until_told(&store, "user:1") });
        // A transaction that began earlier and commits later, with the smaller number.
        world.sql("INSERT INTO users (id, name) VALUES (20, 'x')");
        until_told(&store, "user:20");
        world.beside_slow("UPDATE users SET name = 'slow' WHERE id = 20", || {
            world.sql("INSERT INTO users (id, name) VALUES (21, 'fast')");
            until_told(&store, "user:21");
        });
        until_told(&store, "user:20");
        // Our own delete reaches the other table by itself.
        commit(&store, &mint, &[("user:2", vec![Change::Delete])]);
        until_told(&store, "pet:2:cat");
        world.sql("TRUNCATE pets");
        assert_eq!(block_on(store.outside()), Some(Outside::Everything), "{mode}");
    }
}

/// A unique column may be NULL: such a row is no document, and others may write it all the same.
#[test]
fn a_row_without_a_key_is_no_document() {
    for mode in ["column", "side"] {
        let map = format!("mail:{{email}} -> users(email) version({mode})");
        let world = World::new(USERS, &[&map]);
        let (store, _) = world.open();
        assert_eq!(block_on(store.outside()), Some(Outside::Everything));
        assert_eq!(block_on(store.scan(0, None, 10)).expect("it can be read"), [], "{mode}");
        world.sql("INSERT INTO users (id, name) VALUES (3, 'Cy'); UPDATE users SET visits = 8 WHERE id = 3");
        world.sql("UPDATE users SET email = 'bob@x' WHERE id = 2");
        assert_eq!(until_told(&store, "mail:bob@x"), [key("mail:bob@x")], "{mode}");
        assert_eq!(block_on(store.scan(0, None, 10)).expect("it can be read"), [key("mail:bob@x")], "{mode}");
        world.sql("UPDATE users SET email = NULL WHERE id = 2; DELETE FROM users WHERE id = 3");
        assert_eq!(until_told(&store, "mail:bob@x"), [key("mail:bob@x")], "{mode}");
    }
}

#[test]
fn what_is_wrong_with_a_mapping_is_one_line_with_the_fix() {
    let tables = "CREATE TABLE plain (id integer, name text); CREATE TABLE good (id date PRIMARY KEY);
        CREATE VIEW v AS SELECT * FROM plain; CREATE ROLE poor LOGIN; GRANT CREATE ON DATABASE test0 TO poor;
        CREATE TABLE closed (id integer PRIMARY KEY); CREATE TABLE bare (id integer PRIMARY KEY);
        GRANT SELECT ON bare TO poor;
        CREATE TABLE orders (id integer PRIMARY KEY, buyer integer REFERENCES bare (id));";
    let world = World::new(tables, &[]);
    let lines = |map: &str, role: &str| {
        let address = world.server.url(&world.database).replace("app@", &format!("{role}@"));
        let options = Options {
            mappings: vec![map.parse().expect("a mapping")],
            address: address.parse().expect("a URL"),
            ..world.options.clone()
        };
        let checked = world.runtime.block_on(setup::check(&options)).expect("it can be looked at");
        let lines: Vec<String> = checked.problems.into_iter().filter(|line| line.contains("--map")).collect();
        assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
        // The other role may not use the schema that this one has made, which is said first.
        if role == "poor" {
            return lines.join("\n");
        }
        match open(&world.runtime, options) {
            Err(OpenError::Mapping(said)) => assert_eq!(said, lines),
            other => panic!("{map}: {:?}", other.err()),
        }
        lines.join("\n")
    };
    for (map, role, part) in [
        ("a:{x} -> nowhere(id)", "app", "no table"),
        ("a:{x} -> plain(idd)", "app", "no column idd; it has id, name"),
        ("a:{x} -> plain(id)", "app", "CREATE UNIQUE INDEX ON public.plain (id)"),
        ("a:{x} -> orders(buyer)", "app", "refers to bare; map the primary key: public.orders(id)"),
        ("a:{x} -> v(id)", "app", "not a table"),
        ("a:{x} -> good(id)", "app", "integers, text, varchar or uuid"),
        ("a:{x} -> closed(id)", "poor", "GRANT SELECT ON public.closed TO poor"),
        ("a:{x} -> bare(id) version(column)", "app", "forebay store init --version column"),
        ("a:{x} -> bare(id) version(side)", "poor", "have app run"),
        ("a:{x} -> bare(id).id as list", "app", "an array"),
    ] {
        let said = lines(map, role);
        assert!(said.contains(part), "{map}: {said}");
        assert!(!map.contains("v(id)") || !said.contains("INDEX"), "a view takes none: {said}");
    }
}

/// A commit that is sent again is told what the row is now.
#[test]
fn a_repeated_commit_is_not_applied_again() {
    let world = World::new(USERS, &["user:{id} -> users(id)"]);
    let (store, mint) = world.open();
    let once = commit_of(&mint, &[("user:1", vec![add("visits", 1)])], &[]);
    for again in [false, true] {
        let read = match block_on(store.commit(std::slice::from_ref(&once))).remove(0) {
            CommitOutcome::Committed(changed) if !again => changed[0].1.clone(),
            CommitOutcome::Repeated(since) if again => since[0].read.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&read, "visits").as_deref(), Some("8"));
    }
    // T1 frees what T2 takes, in one go; a child with its parent; both in the order of the writes.
    commit(&store, &mint, &[("user:1", vec![set("email", "a@b")])]);
    commit(&store, &mint, &[("user:1", vec![set("email", "c@d")]), ("user:2", vec![set("email", "a@b")])]);
    let why = refused(&store, &mint, "user:1", vec![set("email", "a@b")]);
    assert!(why.contains("23505"), "{why}");
}

/// Rows are bound to others by what the catalogue says of their table and of those that foreign keys join to it.
#[test]
fn tables_that_foreign_keys_join_are_one_lane() {
    let tables = "
        CREATE TABLE plain (id integer PRIMARY KEY, x text NOT NULL, f integer[]);
        CREATE TABLE checked (id integer PRIMARY KEY, x integer CHECK (x > 0));
        CREATE TABLE named (id integer PRIMARY KEY, x text UNIQUE);
        CREATE TABLE partial (id integer PRIMARY KEY, x text); CREATE UNIQUE INDEX ON partial (x) WHERE x <> '';
        CREATE TABLE ranges (id integer PRIMARY KEY, x int4range, EXCLUDE USING gist (x WITH &&));
        CREATE TABLE watched (id integer PRIMARY KEY, x text);
        CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER look BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION look();
        CREATE TABLE parents (id integer PRIMARY KEY);
        CREATE TABLE children (id integer PRIMARY KEY, p integer REFERENCES parents);
        CREATE TABLE lefts (id integer PRIMARY KEY); CREATE TABLE rights (id integer PRIMARY KEY);
        CREATE TABLE pairs (l integer REFERENCES lefts, r integer REFERENCES rights);
        CREATE TABLE trees (id integer PRIMARY KEY, up integer REFERENCES trees);
        CREATE TABLE parts (id integer PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (9);";
    let names = [
        "plain", "checked", "named", "partial", "ranges", "watched", "parents", "children", "lefts", "rights", "trees",
        "parts", "low",
    ];
    let mut maps: Vec<String> = names.iter().map(|name| format!("{name}:{{id}} -> {name}(id)")).collect();
    maps.push("list:{id} -> plain(id).f as list".into());
    let world = World::new(tables, &maps.iter().map(String::as_str).collect::<Vec<_>>());
    let (store, _) = world.open();
    let lane = |name: &str| store.lane(&key(&format!("{name}:1")));
    assert_eq!((lane("plain"), lane("list"), lane("nothing")), (None, None, None));
    let joined = [("parents", "children"), ("lefts", "rights"), ("parts", "low")];
    joined.iter().for_each(|(one, other)| assert_eq!(lane(one), lane(other), "{one} {other}"));
    let mut numbers: Vec<u32> = names[1..].iter().map(|name| lane(name).expect(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), names.len() - 1 - joined.len(), "all others have one of their own");
}

/// What a change makes a row name is told as far as the change and the key say, as the other row's key is written.
#[test]
fn rows_name_others_by_foreign_keys() {
    let tables = "
        CREATE TABLE parents (a integer, b uuid, code text UNIQUE, f integer[], PRIMARY KEY (a, b));
        CREATE TABLE children (a bigint, n integer, b uuid, code text REFERENCES parents (code), x text,
            up bigint, up_n integer, PRIMARY KEY (a, n),
            FOREIGN KEY (b, a) REFERENCES parents (b, a), FOREIGN KEY (up, up_n) REFERENCES children);";
    let maps = [
        "parent:{b}:{a} -> parents(b, a) fields(code)",
        "list:{b}/{a} -> parents(b, a).f as list",
        "child:{a}:{n} -> children(a, n)",
    ];
    let world = World::new(tables, &maps);
    let (store, _) = world.open();
    let named = |name: &str, changes: &[Change]| {
        let found = store.references(&key(name), changes);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let uuid = "0b9f6ff0-3dd6-4f3e-8a0a-0123456789ab";
    let (parent, json) =
        (format!("parent:{uuid}:3 list:{uuid}/3"), |text: &str| Change::Put(Value::bytes(text.as_bytes())));
    let strange = set("b", "{0B9F6FF03DD64F3E8A0A0123456789AB}");
    assert_eq!(named("child:3:1", &[strange]), parent);
    assert_eq!(named("child:3:1", &[json(&format!("{{\"b\": \"{uuid}\", \"x\": 1}}"))]), parent);
    assert_eq!(named("child:3:1", &[set("b", uuid), Change::UnsetField(blob("b"))]), "");
    assert_eq!(named("child:3:1", &[set("b", uuid), Change::Delete]), "");
    assert_eq!(named("child:3:1", &[Change::Delete, set("b", uuid)]), parent);
    assert_eq!(named("child:3:1", &[set("up", " +05"), json("{\"up_n\": 7}")]), "child:5:7");
    assert_eq!(named("child:3:1", &[set("up", "5"), add("up_n", 1)]), "");
    assert_eq!(named("child:3:1", &[set("x", "y"), set("code", "c"), set("up", "five")]), "", "no key is a code");
    assert_eq!(named(&format!("parent:{uuid}:3"), &[set("code", "c")]), "");
    assert_eq!(named("nothing:3", &[set("b", uuid)]), "");
}
