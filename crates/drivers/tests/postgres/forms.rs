//! What a document of each form takes is what a real database takes of it.

use forebay::Value;
use forebay::change::{Change, End, apply_all};
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Form, Store};
use forebay::value::{Data, Hash, List, Set};
use forebay::version::Mint;
use forebay_drivers::postgres::Postgres;

use crate::mapping::{World, add, blob, commit_of, key, set};
use crate::server::Server;
use crate::{open, options, tokio_runtime};

/// Rows that are there, one for each kind of change.
const TABLES: &str = "\
CREATE TABLE rows (id integer PRIMARY KEY, n integer, x numeric, t text);
INSERT INTO rows SELECT id, 1, 1, 't' FROM generate_series(1, 100) AS id;
CREATE TABLE lists (id integer PRIMARY KEY, list text[]);
INSERT INTO lists SELECT id, '{a,b}' FROM generate_series(1, 100) AS id;";

/// A change of each kind, with its name.
fn kinds() -> Vec<Change> {
    let value = |data: Data, expires_at_ms: Option<u64>| Change::Put(Value { data, expires_at_ms });
    let hash = || Data::Hash([(blob("t"), blob("v"))].into_iter().collect::<Hash>());
    let list = || Data::List([blob("v")].into_iter().collect::<List>());
    let text = || Value::bytes(*b"{\"t\": \"v\"}").data;
    let float = |field: Option<&str>| Change::AddFloat { field: field.map(blob), delta: blob("0.5") };
    vec![
        Change::Delete,
        set("t", "v"),
        Change::UnsetField(blob("t")),
        add("n", 1),
        float(Some("x")),
        Change::AddInteger { field: None, delta: 1 },
        float(None),
        Change::Append(blob("v")),
        Change::WriteAt { offset: 1, bytes: blob("v") },
        Change::Push(End::Left, blob("v")),
        Change::Push(End::Right, blob("v")),
        Change::Pop(End::Left),
        Change::Pop(End::Right),
        Change::RemoveEqual { count: 0, element: blob("a") },
        Change::AddMember(blob("v")),
        Change::RemoveMember(blob("v")),
        Change::ExpireAt(u64::MAX >> 1),
        Change::Persist,
        Change::RemoveExpired(1),
        value(text(), None),
        value(text(), Some(u64::MAX >> 1)),
        value(hash(), None),
        value(hash(), Some(u64::MAX >> 1)),
        value(list(), None),
        value(list(), Some(u64::MAX >> 1)),
        value(Data::Set([blob("v")].into_iter().collect::<Set>()), None),
    ]
}

/// Whether the database takes `changes` of the document of `name`, which is `before`.
fn taken(store: &Postgres, mint: &Mint, name: &str, before: Option<Value>, changes: &[Change]) -> bool {
    let mut commit = commit_of(mint, &[(name, changes.to_vec())], &[]);
    let mut after = before.clone();
    commit.writes[0].after = if apply_all(&mut after, changes).is_ok() { after } else { before };
    match block_on(store.commit(&[commit])).remove(0) {
        CommitOutcome::Committed(_) => true,
        CommitOutcome::Refused(_) => false,
        other => panic!("{changes:?}: {other:?}"),
    }
}

fn read(store: &Postgres, name: &str) -> Option<Value> {
    block_on(store.get(&[key(name)])).expect("it is read").remove(0).value
}

/// Each kind alone, and behind another: a merge makes no list that the store does not take.
#[test]
fn rows_and_lists_take_what_their_forms_say() {
    let world = World::new(TABLES, &["row:{id} -> rows(id)", "list:{id} -> lists(id).list as list"]);
    let (store, mint) = world.open();
    for name in ["row", "list"] {
        let form = store.form(&key(&format!("{name}:1")));
        let (mut yes, mut no) = (0, 0);
        for (at, change) in kinds().into_iter().enumerate() {
            let key = format!("{name}:{}", at + 1);
            let takes = taken(&store, &mint, &key, read(&store, &key), std::slice::from_ref(&change));
            assert_eq!(form.takes(std::slice::from_ref(&change)), takes, "{name}: {change:?}");
            (yes, no) = (yes + i32::from(takes), no + i32::from(!takes));
        }
        assert!(yes > 5 && no > 5, "{name}: {yes} {no}");
    }
}

/// What a row is after two of its changes is what it is after their merge: columns outside the mapping, too.
#[test]
fn a_merge_is_taken_and_comes_to_the_same() {
    let tables = "CREATE TABLE rows (id integer PRIMARY KEY, n integer DEFAULT 7, t text DEFAULT 'x', hidden text
        DEFAULT 'new')";
    let world = World::new(tables, &["row:{id} -> rows(id) fields(n, t)"]);
    let (store, mint) = world.open();
    let form = |id: usize| store.form(&key(&format!("row:{id}")));
    let there = |id: usize| set("id", &id.to_string());
    let lists = |id: usize| {
        vec![
            vec![Change::Delete],
            vec![there(id), set("n", "3")],
            vec![Change::UnsetField(blob("t"))],
            vec![there(id), add("n", 1)],
            vec![Change::Delete, there(id), set("t", "v")],
        ]
    };
    let (mut id, mut joined) = (1, 0);
    for first in 0..5 {
        for second in 0..5 {
            for present in [false, true] {
                let (apart, together) = (id, id + 1_000);
                let (old, new) = (lists(together)[first].clone(), lists(together)[second].clone());
                id += 1;
                world.sql(&format!(
                    "INSERT INTO rows SELECT id, 1, 't', 'was' FROM unnest(ARRAY[{apart}, {together}]) AS id
                        WHERE {present}"
                ));
                let Some(both) = form(together).join(old, new, false, 256) else { continue };
                joined += 1;
                for changes in [&lists(apart)[first], &lists(apart)[second]] {
                    assert!(taken(&store, &mint, &format!("row:{apart}"), None, changes));
                }
                assert!(taken(&store, &mint, &format!("row:{together}"), None, &both), "{both:?}");
                let row = |id: usize| world.sql(&format!("SELECT n, t, hidden FROM rows WHERE id = {id}"));
                assert_eq!(row(together), row(apart), "{both:?}");
            }
        }
    }
    assert!(joined > 30, "{joined} were joined");
}

/// The same of a list: a push makes its row, and a deletion leaves it.
#[test]
fn a_merge_of_lists_comes_to_the_same() {
    let tables = "CREATE TABLE lists (id integer PRIMARY KEY, list text[], hidden text DEFAULT 'new')";
    let world = World::new(tables, &["list:{id} -> lists(id).list as list"]);
    let (store, mint) = world.open();
    let push = || Change::Push(End::Right, blob("v"));
    let remove = |element| Change::RemoveEqual { count: 0, element: blob(element) };
    let emptied = || Form::List.join(vec![push()], vec![Change::Delete], false, 256).expect("one list");
    let ways = [
        vec![push()],
        vec![Change::Delete],
        vec![remove("v")],
        vec![remove("a")],
        vec![Change::Delete, push()],
        emptied(),
    ];
    let mut id = 0;
    for first in &ways {
        for second in &ways {
            for present in [false, true] {
                id += 1;
                let (apart, together) = (id, id + 1_000);
                world.sql(&format!(
                    "INSERT INTO lists SELECT id, '{{a}}', 'was' FROM unnest(ARRAY[{apart}, {together}]) AS id
                        WHERE {present}"
                ));
                let both = Form::List.join(first.clone(), second.clone(), false, 256).expect("one list");
                for (id, changes) in [(apart, first), (apart, second), (together, &both)] {
                    let name = format!("list:{id}");
                    assert!(taken(&store, &mint, &name, read(&store, &name), changes), "{changes:?}");
                }
                let row = |id: usize| world.sql(&format!("SELECT list, hidden FROM lists WHERE id = {id}"));
                assert_eq!(row(together), row(apart), "{first:?}, {second:?} of {present}: {both:?}");
            }
        }
    }
}

#[test]
fn a_document_takes_everything() {
    let (server, runtime) = (Server::start(), tokio_runtime());
    let store = open(&runtime, options(&server, &server.database())).expect("it opens");
    let mint = Mint::new(store.incarnation());
    assert_eq!(store.form(&key("d")), Form::Document);
    for (at, change) in kinds().into_iter().enumerate() {
        let name = format!("d{at}");
        assert!(Form::Document.takes(std::slice::from_ref(&change)));
        assert!(taken(&store, &mint, &name, None, std::slice::from_ref(&change)), "{change:?}");
    }
}
