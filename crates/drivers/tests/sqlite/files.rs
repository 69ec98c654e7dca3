//! A file that is locked, moved, replaced, put back, read-only, or another's.

use std::time::Duration;

use forebay::store::{CommitOutcome, Resolved, Store, suite};
use forebay_drivers::Options;
use forebay_drivers::sqlite::Sqlite;

use crate::{Place, commit, got, outcome, put, text};

fn quick(place: &Place) -> Sqlite {
    let options = Options { timeout: Duration::from_millis(200), ..place.options() };
    place.open(options).expect("it opens")
}

fn is_away(store: &Sqlite) -> bool {
    suite::block_on(store.ping()).is_err()
}

#[test]
fn a_locked_file_takes_no_commit_and_the_next_is_made() {
    let place = Place::new();
    let store = quick(&place);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![put("a", "1")])).is_applied());
    let other = place.other();
    other.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    let locked = outcome(&store, commit(mine, 2, vec![put("a", "2")]));
    assert!(matches!(&locked, CommitOutcome::Unavailable(why) if why.contains("locked")), "{locked:?}");
    assert!(is_away(&store));
    // Readers go on beside a writer, in WAL mode.
    assert_eq!(got(&store, "a"), Some(text("1")));
    other.execute_batch("ROLLBACK").expect("it is free");
    assert!(!is_away(&store));
    assert!(outcome(&store, commit(mine, 2, vec![put("a", "2")])).is_applied());
    assert_eq!(got(&store, "a"), Some(text("2")));
}

#[test]
fn a_file_that_is_moved_away_takes_nothing_until_it_is_back() {
    let place = Place::new();
    let store = quick(&place);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![put("a", "1")])).is_applied());
    let aside = place.folder.path().join("aside.db");
    let wal = |path: &std::path::Path| std::path::PathBuf::from(format!("{}-wal", path.display()));
    std::fs::rename(place.path(), &aside).expect("it is moved");
    std::fs::rename(wal(&place.path()), wal(&aside)).expect("its log is moved");
    let lost = outcome(&store, commit(mine, 2, vec![put("a", "2")]));
    assert!(matches!(&lost, CommitOutcome::Unavailable(why) if why.contains("no file")), "{lost:?}");
    assert!(suite::block_on(store.get(&[crate::key("a")])).is_err());
    assert!(!place.path().exists(), "it is not made again");
    std::fs::rename(wal(&aside), wal(&place.path())).expect("its log is moved back");
    std::fs::rename(&aside, place.path()).expect("it is moved back");
    assert_eq!(got(&store, "a"), Some(text("1")));
    assert!(outcome(&store, commit(mine, 2, vec![put("a", "2")])).is_applied());
}

#[test]
fn another_database_at_the_path_is_not_ours() {
    let place = Place::new();
    let store = quick(&place);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![put("a", "1")])).is_applied());
    let aside = place.folder.path().join("aside.db");
    std::fs::rename(place.path(), &aside).expect("it is moved");
    let elsewhere = Place::new();
    drop(elsewhere.open(elsewhere.options()).expect("it opens"));
    std::fs::copy(elsewhere.path(), place.path()).expect("it is copied");
    let other = outcome(&store, commit(mine, 2, vec![put("a", "2")]));
    assert!(matches!(&other, CommitOutcome::Unavailable(why) if why.contains("another database")), "{other:?}");
    place.other().execute_batch("DROP TABLE forebay_meta").expect("it goes");
    let none = outcome(&store, commit(mine, 2, vec![put("a", "2")]));
    assert!(matches!(&none, CommitOutcome::Unavailable(why) if why.contains("no tables")), "{none:?}");
    assert_eq!(store.fenced(), None, "it may come back");
}

#[test]
fn a_copy_that_is_put_back_while_it_is_served_raises_the_incarnation() {
    let place = Place::new();
    let store = quick(&place);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![put("a", "1")])).is_applied());
    let copy = place.folder.path().join("copy.db");
    place.other().execute("VACUUM INTO ?1", [copy.to_str()]).expect("it is copied");
    assert!(outcome(&store, commit(mine, 2, vec![put("a", "2")])).is_applied());
    std::fs::remove_file(format!("{}-wal", place.path().display())).expect("its log goes");
    std::fs::remove_file(format!("{}-shm", place.path().display())).expect("its index goes");
    std::fs::rename(&copy, place.path()).expect("it is put back");
    assert!(suite::block_on(store.get(&[crate::key("a")])).is_err(), "what is cached of it is dropped first");
    assert!(store.incarnation() > mine);
    assert_eq!(got(&store, "a"), Some(text("1")));
    assert!(outcome(&store, commit(store.incarnation(), 1, vec![put("a", "3")])).is_applied());
}

#[test]
fn another_owner_ends_this_one() {
    let place = Place::new();
    let store = quick(&place);
    let mine = store.incarnation();
    assert!(outcome(&store, commit(mine, 1, vec![put("a", "1")])).is_applied());
    // As one that does not see our lock: on another machine, or by another name of the file.
    std::fs::remove_file(format!("{}-forebay", place.path().display())).expect("the lock goes");
    let next = quick(&place);
    let refused = outcome(&store, commit(mine, 2, vec![put("a", "2")]));
    assert!(matches!(&refused, CommitOutcome::Unavailable(why) if why.contains("taken")), "{refused:?}");
    assert!(store.fenced().is_some_and(|why| why.contains("taken this database over")));
    assert_eq!(got(&next, "a"), Some(text("1")));
    let id = commit(mine, 1, vec![]).id;
    assert_eq!(suite::block_on(store.outcome(id)), Ok(Resolved::Applied), "what it did is told all the same");
    let id = commit(mine, 2, vec![]).id;
    assert_eq!(suite::block_on(store.outcome(id)), Ok(Resolved::NotApplied));
}
