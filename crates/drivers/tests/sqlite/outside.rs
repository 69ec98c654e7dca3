//! What others write is told, what forebay writes is not, and a schema that changes is noticed.

use std::time::Duration;

use forebay::Key;
use forebay::store::{CommitOutcome, Outside, ReadError, Store, suite};
use forebay_drivers::sqlite::Sqlite;

use crate::rows::{USERS, field, init, mapped, open, read, set, unseen};
use crate::{Place, commit, key, outcome};

/// Waits until all that was committed by now is told: what was, unless all was.
fn told(place: &Place, store: &Sqlite) -> Option<Vec<Key>> {
    let wanted = store.sync().expect("it is watched");
    let mut keys = Vec::new();
    let mut everything = false;
    place.runtime.block_on(async {
        loop {
            let told = tokio::time::timeout(Duration::from_secs(20), store.outside()).await;
            match told.expect("it is told in time").expect("it is watched") {
                Outside::Keys(more) => keys.extend(more),
                Outside::Synced(number) if number >= wanted => break,
                Outside::Synced(_) => {}
                _ => everything = true,
            }
        }
    });
    (!everything).then_some(keys)
}

#[test]
fn what_others_write_is_told_and_what_we_write_is_not() {
    let place = Place::new();
    let mappings = ["user:{id} -> users(id) fields(name, visits)", "mail:{id} -> users(id) fields(email)"];
    let store = open(&place, USERS, &mappings);
    assert_eq!(told(&place, &store), None, "at first nothing is known");
    let other = place.other();
    other.execute("INSERT INTO users (id, name) VALUES (1, 'ada'), (2, 'bob')", []).expect("rows");
    let mut keys = told(&place, &store).expect("keys");
    keys.sort();
    assert_eq!(keys, [key("mail:1"), key("mail:2"), key("user:1"), key("user:2")]);
    let mine = commit(store.incarnation(), 1, vec![unseen("user:1", vec![set("visits", "1")])]);
    assert!(outcome(&store, mine).is_applied());
    assert_eq!(told(&place, &store), Some(vec![]), "neither it nor the document beside it");
    // Others write after us.
    other.execute("UPDATE users SET id = 3 WHERE id = 1", []).expect("its key is changed");
    let mut keys = told(&place, &store).expect("keys");
    keys.sort();
    assert_eq!(keys, [key("mail:1"), key("mail:3"), key("user:1"), key("user:3")]);
}

#[test]
fn a_commit_that_is_undone_leaves_no_number_to_others() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    told(&place, &store);
    let mine = store.incarnation();
    let writes = vec![unseen("user:1", vec![set("name", "x")]), unseen("user:2", vec![set("visits", "x")])];
    assert!(matches!(outcome(&store, commit(mine, 1, writes)), CommitOutcome::Refused(_)));
    // It has the number that the commit would have had.
    place.other().execute("INSERT INTO users (id) VALUES (1)", []).expect("a row");
    assert_eq!(told(&place, &store), Some(vec![key("user:1")]));
}

/// A copy that is put back gives numbers of ours again, to others.
#[test]
fn what_others_write_after_a_copy_is_put_back_is_told() {
    let place = Place::new();
    let store = open(&place, USERS, &["user:{id} -> users(id)"]);
    told(&place, &store);
    let copy = place.folder.path().join("copy.db");
    place.other().execute("VACUUM INTO ?1", [copy.to_str()]).expect("it is copied");
    let mine = commit(store.incarnation(), 1, vec![unseen("user:1", vec![set("name", "ada")])]);
    assert!(outcome(&store, mine).is_applied());
    std::fs::rename(&copy, place.path()).expect("it is put back");
    assert!(suite::block_on(store.get(&[key("user:1")])).is_err(), "it is found in an earlier state");
    told(&place, &store);
    place.other().execute("INSERT INTO users (id) VALUES (1)", []).expect("a row");
    assert_eq!(told(&place, &store), Some(vec![key("user:1")]));
}

/// As Django's migrations of SQLite do it: another table takes the name, and the triggers are gone.
#[test]
fn a_table_that_is_made_again_is_refused_until_its_triggers_are() {
    let place = Place::new();
    let mappings = ["user:{id} -> users(id)"];
    let store = open(&place, "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)", &mappings);
    told(&place, &store);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![unseen("user:1", vec![set("name", "ada")])])).is_applied());
    let before = read(&store, "user:1");
    place
        .other()
        .execute_batch(
            "BEGIN; CREATE TABLE new (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);
            INSERT INTO new (id, name) SELECT id, 'eve' FROM users; DROP TABLE users;
            ALTER TABLE new RENAME TO users; COMMIT",
        )
        .expect("it is migrated");
    let refused = suite::block_on(store.get(&[key("user:1")]));
    assert!(matches!(&refused, Err(ReadError::Refused { why, .. }) if why.contains("store init")), "{refused:?}");
    let refused = outcome(&store, commit(mine, 2, vec![unseen("user:1", vec![set("name", "x")])]));
    assert!(matches!(&refused, CommitOutcome::Refused(why) if why.contains("store init")), "{refused:?}");
    assert!(store.is_altered());
    init(&place, mapped(&place, &mappings)).expect("it is prepared again");
    assert_eq!(told(&place, &store), None, "all of it may be another");
    assert_eq!(field(&store, "user:1", "name").as_deref(), Some("eve"));
    assert!(read(&store, "user:1").version > before.version);
    assert!(outcome(&store, commit(mine, 3, vec![unseen("user:1", vec![set("age", "5")])])).is_applied());
}

/// Versions that were not kept for a while are not taken for those of before.
#[test]
fn triggers_that_were_gone_for_a_while_leave_no_old_version() {
    let place = Place::new();
    let mappings = ["user:{id} -> users(id)"];
    let store = open(&place, "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)", &mappings);
    place.other().execute("INSERT INTO users VALUES (1, 'ada')", []).expect("a row");
    let before = read(&store, "user:1");
    let other = place.other();
    other.execute_batch("DROP TRIGGER forebay_users_update; UPDATE users SET name = 'eve'").expect("unseen");
    init(&place, mapped(&place, &mappings)).expect("it is prepared again");
    let overtaken = suite::block_on(store.check(&[(key("user:1"), before.version)])).expect("it is told");
    assert_eq!(overtaken, [key("user:1")]);
    // What is as it has to be stays as it is.
    let now = read(&store, "user:1");
    init(&place, mapped(&place, &mappings)).expect("nothing is to be done");
    assert_eq!(read(&store, "user:1").version, now.version);
}
