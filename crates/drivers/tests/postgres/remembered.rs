//! What an opened database tells for those who start without it.

use forebay::Value;
use forebay::change::Change;
use forebay::store::Store;
use forebay_drivers::postgres::{DRIVER, OpenError};
use forebay_drivers::{Known, Mapping, Options, Remembered};

use crate::mapping::{World, add, commit_of, key, set};
use crate::open;

const TABLES: &str = "\
CREATE TABLE albums (id integer PRIMARY KEY, name text UNIQUE, tags text[], raw bytea);
CREATE TABLE photos (album integer REFERENCES albums, id integer, views bigint, kept numeric GENERATED ALWAYS AS (1)
    STORED, PRIMARY KEY (album, id));
CREATE TABLE \"a \"\"b\" (id uuid PRIMARY KEY, v text);";

const MAPS: [&str; 4] = [
    "album:{id} -> albums(id)",
    "tags:{id} -> albums(id).tags as list",
    "photo:{a}:{id} -> photos(album, id) readonly(views)",
    "b/{id} -> \"a \"\"b\"(id) fields(v)",
];

const KEYS: [&str; 9] = [
    "album:1",
    "album:01",
    "album:x",
    "tags:1",
    "photo:1:2",
    "photo:1",
    "b/6f1f9a52-8f27-4c4b-9bb1-7c1b8f1b0d11",
    "b/1",
    "other:1",
];

fn changes() -> Vec<Vec<Change>> {
    vec![
        vec![set("name", "x")],
        vec![set("views", "1")],
        vec![set("v", "1")],
        vec![add("name", 1)],
        vec![set("kept", "1")],
        vec![Change::Put(Value::bytes(*b"{\"name\": \"x\"}"))],
        vec![Change::Put(Value::bytes(*b"[]"))],
        vec![Change::Push(forebay::change::End::Left, forebay::value::Blob::from(&b"t"[..]))],
        vec![Change::Delete],
    ]
}

/// What was remembered answers as the database that it was remembered of.
#[test]
fn it_answers_as_the_database() {
    let mut world = World::new(TABLES, &MAPS);
    for keys in [&[][..], &["* -> documents"], &["other:* -> documents"]] {
        world.options.keys = keys.iter().map(|keys| keys.parse().expect("keys")).collect();
        answers_as(&world);
    }
}

fn answers_as(world: &World) {
    let (store, mint) = world.open();
    let text = store.catalogue().expect("it is known");
    let remembered = Remembered::read(&text).expect("it reads back");
    assert_eq!(remembered.database(), world.database);
    let catalogue = (DRIVER.catalogue)(Some(remembered), &world.options.mappings, &world.options.keys);
    assert_eq!(catalogue.has_documents(), store.has_documents());
    let (mut refused, mut taken, mut named) = (0, 0, 0);
    for name in KEYS {
        let key = key(name);
        assert_eq!((catalogue.lane(&key), catalogue.beside(&key)), (store.lane(&key), store.beside(&key)), "{name}");
        assert_eq!((catalogue.owns(&key), catalogue.form(&key)), (store.owns(&key), store.form(&key)), "{name}");
        for changes in changes() {
            let commit = commit_of(&mint, &[(name, changes.clone())], &[]);
            let answers = (catalogue.refuses(&commit), catalogue.references(&key, &changes));
            assert_eq!(answers, (store.refuses(&commit), store.references(&key, &changes)), "{name} {changes:?}");
            *(if answers.0.is_some() { &mut refused } else { &mut taken }) += 1;
            named += answers.1.len();
        }
        for text in [&b"{\"name\": \"x\", \"raw\": null}"[..], b"{}", b"x"] {
            let both = (catalogue.changes_of_text(key.borrow(), text), store.changes_of_text(key.borrow(), text));
            assert_eq!(both.0, both.1, "{name}");
        }
    }
    assert!(refused > 20 && taken > 5 && named > 0, "{refused} {taken} {named}: it distinguishes nothing");
}

fn mappings(texts: &[&str]) -> Vec<Mapping> {
    texts.iter().map(|text| text.parse().expect("a mapping")).collect()
}

/// Of other mappings than those it was seen under nothing is known but their keys.
#[test]
fn other_mappings_are_patterns() {
    let world = World::new(TABLES, &MAPS);
    let (store, mint) = world.open();
    let remembered = || Remembered::read(&store.catalogue().expect("it is known"));
    let commit = |name: &str| commit_of(&mint, &[(name, vec![set("nothing", "x")])], &[]);
    let of = |maps: &[&str]| (DRIVER.catalogue)(remembered(), &mappings(maps), &[]);
    let other = of(&["picture:{id} -> photos(id)"]);
    let why = other.refuses(&commit("album:1")).expect("no mapping names it");
    assert!(why.contains("no mapping names album:1; there is picture:{id}"), "{why}");
    assert_eq!((other.refuses(&commit("picture:01")), other.lane(&key("picture:1"))), (None, Some(u32::MAX)));
    // A mapping that says where versions come from is the one where that was found.
    let same = MAPS.map(|map| format!("{map} version(column)"));
    let same = of(&same.each_ref().map(String::as_str));
    assert_eq!(same.lane(&key("album:1")), store.lane(&key("album:1")));
    assert!(same.refuses(&commit("album:1")).is_some());
    let keys = ["s:* -> documents".parse().expect("keys")];
    let beside = (DRIVER.catalogue)(remembered(), &mappings(&["picture:{id} -> photos(id)"]), &keys);
    assert_eq!((beside.refuses(&commit("s:1")), beside.lane(&key("s:1"))), (None, None));
    assert!(beside.owns(&key("s:1")) && !beside.owns(&key("picture:1")) && beside.has_documents());
    assert!(beside.refuses(&commit("t:1")).expect("neither names it").contains("--keys 't:* -> documents'"));
    let none = of(&[]);
    assert_eq!((none.refuses(&commit("any")), none.lane(&key("any"))), (None, None));
    assert!(Remembered::read("users").is_none() && Remembered::read("").is_none());
}

/// A database is known again under another host and name; another one is none, whatever its name.
#[test]
fn a_database_is_recognised() {
    let world = World::new("", &[]);
    let (store, _) = world.open();
    let (remembered, incarnation) = (Remembered::read(&store.catalogue().expect("it is known")), store.incarnation());
    drop(store);
    let known = |waiting: bool| Known { incarnation, waiting, remembered: remembered.clone(), ..Known::default() };
    let at = |database: &str, waiting: bool| {
        let address = world.server.url(database).parse().expect("a URL");
        open(&world.runtime, Options { address, known: known(waiting), ..world.options.clone() })
    };
    let went_back = |database: &str, waiting: bool| at(database, waiting).expect("it opens").went_back();
    assert!(!went_back(&world.database, true));
    let other = world.server.database();
    let refused = at(&other, true).err().expect("writes wait for another");
    assert!(matches!(&refused, OpenError::OtherDatabase(other) if other.database == world.database), "{refused}");
    assert!(went_back(&other, false), "nothing waits, and what is known is not of this one");
    let rename = format!("ALTER DATABASE {} RENAME TO renamed; ALTER DATABASE {other} RENAME TO {0}", world.database);
    world.server.sql("postgres", &rename);
    assert!(!went_back("renamed", true));
    assert!(went_back(&world.database, true), "another under the name");
}
