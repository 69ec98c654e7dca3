//! A column as a list.

use forebay::change::{Change, End, apply_all};
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Store};
use forebay::value::Data;
use forebay::{Read, Value};

use crate::mapping::{World, blob, commit_of, get, refused};

fn world() -> World {
    let tables =
        "CREATE TABLE members (id bigint PRIMARY KEY, friends integer[]); INSERT INTO members VALUES (1, '{5,6}')";
    World::new(tables, &["friends:{id} -> members(id).friends as list"])
}

fn list(read: &Read) -> Vec<String> {
    match &read.value {
        Some(Value { data: Data::List(list), .. }) => {
            list.iter().map(|element| String::from_utf8_lossy(element).into_owned()).collect::<Vec<_>>()
        }
        None => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn push(end: End, element: &str) -> Change {
    Change::Push(end, blob(element))
}

#[test]
fn a_column_is_a_list() {
    let world = world();
    let (store, mint) = world.open();
    assert_eq!(list(&get(&store, "friends:1")), ["5", "6"]);
    // Another program's element is not lost by a push that had not seen it.
    world.sql("UPDATE members SET friends = friends || 7 WHERE id = 1");
    let pushes = vec![push(End::Right, "8"), push(End::Left, "4")];
    let list_of = |elements: &[&str]| Value {
        data: Data::List(elements.iter().map(|element| blob(element)).collect()),
        expires_at_ms: None,
    };
    let with_after = |changes: Vec<Change>, after: Option<Value>| {
        let mut commit = commit_of(&mint, &[("friends:1", changes)], &[]);
        commit.writes[0].after = after;
        match block_on(store.commit(&[commit])).remove(0) {
            CommitOutcome::Committed(mut changed) => list(&changed.remove(0).1),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with_after(pushes, Some(list_of(&["4", "5", "6", "8"]))), ["4", "5", "6", "7", "8"]);
    // A pop takes what is there by then; what else happens to a list replaces it.
    assert_eq!(with_after(vec![Change::Pop(End::Left)], Some(list_of(&["5", "6"]))), ["5", "6", "7", "8"]);
    let whole = list_of(&["5", "6"]);
    assert_eq!(with_after(vec![Change::Put(whole.clone())], Some(whole)), ["5", "6"]);
    // Nor by a removal.
    world.sql("UPDATE members SET friends = friends || 9 WHERE id = 1");
    let removal = |count, element: &str| Change::RemoveEqual { count, element: blob(element) };
    let unseen = vec![removal(0, "6"), push(End::Right, "5"), removal(0, "05")];
    assert_eq!(with_after(unseen, Some(list_of(&["5"]))), ["5", "9", "5"]);
    assert_eq!(with_after(vec![removal(-1, "5")], None), ["5", "9"]);
    assert_eq!(with_after(vec![removal(1, "5"), removal(2, "1")], None), ["9"]);
    assert_eq!(with_after(vec![Change::Delete], None), Vec::<String>::new());
    assert_eq!(world.sql("SELECT friends FROM members"), "{}");
    assert!(refused(&store, &mint, "friends:1", vec![push(End::Left, "x")]).contains("22P02"));
}

/// Of rows that nobody has seen, those that are not there included.
#[test]
fn a_list_is_changed_unseen() {
    let world = world();
    let (store, mint) = world.open();
    let unseen = |key: &str, changes: Vec<Change>| {
        let mut commit = commit_of(&mint, &[(key, changes.clone())], &[]);
        let travels = !changes.contains(&Change::Delete);
        (commit.writes[0].unseen, commit.writes[0].after) = (travels, None);
        let outcome = block_on(store.commit(&[commit])).remove(0);
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        list(&get(&store, key))
    };
    world.sql("UPDATE members SET friends = '[0:2]={1,2,3}' WHERE id = 1");
    assert_eq!(unseen("friends:1", vec![Change::Pop(End::Right), push(End::Right, "4")]), ["1", "2", "4"]);
    assert_eq!(unseen("friends:1", vec![Change::Pop(End::Left), Change::Pop(End::Left)]), ["4"]);
    assert_eq!(unseen("friends:1", vec![Change::Pop(End::Left), Change::Pop(End::Right)]), Vec::<String>::new());
    assert_eq!(unseen("friends:7", vec![Change::Pop(End::Left)]), Vec::<String>::new());
    assert_eq!(world.sql("SELECT count(*) FROM members WHERE id = 7"), "0");
    assert_eq!(unseen("friends:7", vec![Change::Pop(End::Left), push(End::Left, "8")]), ["8"]);
    // A column that is NULL has no list: what takes from it leaves it as it is, and what comes and goes does not.
    let removal = || Change::RemoveEqual { count: 0, element: blob("8") };
    for (changes, is_null) in [
        (vec![Change::Delete], "t"),
        (vec![removal()], "t"),
        (vec![Change::Pop(End::Left), removal()], "t"),
        (vec![push(End::Left, "8"), Change::Pop(End::Left)], "f"),
        (vec![push(End::Left, "8"), removal()], "f"),
        (vec![push(End::Left, "8"), Change::Delete], "f"),
    ] {
        world.sql("UPDATE members SET friends = NULL WHERE id = 1");
        assert_eq!(unseen("friends:1", changes.clone()), Vec::<String>::new());
        assert_eq!(world.sql("SELECT friends IS NULL FROM members WHERE id = 1"), is_null, "{changes:?}");
    }
}

/// What an outage leaves of a busy list in one write, or `LPOP` with a count: PostgreSQL's stack is not its matter.
/// Each kind is made to a list of 1,000, to one that is shorter than what is popped, and to a row that is not there.
#[test]
fn any_number_of_changes_is_one_write() {
    let world = world();
    let (store, mint) = world.open();
    let (left, right) = (|| Change::Pop(End::Left), || Change::Pop(End::Right));
    let number = |number: usize| number.to_string();
    let many = |count: usize, of: &dyn Fn(usize) -> Vec<Change>| (0..count).flat_map(of).collect::<Vec<Change>>();
    let kinds: Vec<(&str, Vec<Change>)> = vec![
        ("pops", many(500, &|_| vec![left()])),
        ("pops at both ends", many(300, &|_| vec![left(), right()])),
        ("pushes", many(1_000, &|at| vec![push(End::Left, &number(at)), push(End::Right, &number(at + 1))])),
        ("a queue", many(300, &|at| vec![push(End::Right, &number(at)), left()])),
        ("a stack", many(300, &|at| vec![push(End::Left, &number(at)), push(End::Right, "3"), left(), left()])),
        (
            "all ends",
            many(100, &|at| vec![right(), push(End::Left, &number(at)), right(), push(End::Right, "8"), left()]),
        ),
        (
            "removals",
            many(300, &|at| {
                vec![Change::RemoveEqual { count: 1 - (at % 3) as i64, element: blob(&number(at)) }, left()]
            }),
        ),
    ];
    for (kind, changes) in &kinds {
        for length in [1_000, 7] {
            world.sql("TRUNCATE members");
            world.sql(&format!("INSERT INTO members SELECT 1, array_agg(n) FROM generate_series(1, {length}) AS n"));
            for key in ["friends:1", "friends:2"] {
                let mut expected = get(&store, key).value;
                apply_all(&mut expected, changes).unwrap();
                let mut commit = commit_of(&mint, &[(key, changes.clone())], &[]);
                (commit.writes[0].unseen, commit.writes[0].after) = (true, None);
                let outcome = block_on(store.commit(&[commit])).remove(0);
                assert!(matches!(outcome, CommitOutcome::Committed(_)), "{kind} of {length}, {key}: {outcome:?}");
                let expected = list(&Read { value: expected, version: get(&store, key).version });
                assert_eq!(list(&get(&store, key)), expected, "{kind} of {length}, {key}");
            }
        }
    }
}
