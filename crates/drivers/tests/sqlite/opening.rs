//! Opening: one forebay per file, and one that is refused changes nothing.

use forebay::store::{CommitOutcome, Store};
use forebay_drivers::{Known, OpenError, Options};

use crate::{Place, commit, got, outcome, put, text};

#[test]
fn a_second_forebay_is_refused_while_the_first_is_there() {
    let place = Place::new();
    let first = place.open(place.options()).expect("it opens");
    let second = place.open(place.options()).err().expect("it is taken");
    assert!(matches!(&second, OpenError::Taken { why, .. } if why.contains("process")), "{second}");
    assert!(outcome(&first, commit(first.incarnation(), 1, vec![put("a", "1")])).is_applied());
    let before = first.incarnation();
    drop(first);
    let third = place.open(place.options()).expect("it opens again");
    assert!(third.incarnation() > before);
    assert_eq!(got(&third, "a"), Some(text("1")));
}

#[test]
fn a_file_that_was_there_is_not_made_again() {
    let place = Place::new();
    drop(place.open(place.options()).expect("it opens"));
    std::fs::remove_file(place.path()).expect("it goes");
    let known = Known { incarnation: 1, ..Known::default() };
    let refused = place.open(Options { known, ..place.options() }).err().expect("it is gone");
    assert!(matches!(refused, OpenError::Unreachable(_)), "{refused}");
    assert!(!place.path().exists());
}

#[test]
fn what_is_no_database_is_refused() {
    let place = Place::new();
    std::fs::write(place.path(), vec![7; 4096]).expect("it is written");
    let refused = place.open(place.options()).err().expect("it is no database");
    assert!(matches!(&refused, OpenError::Refused(why) if why.contains("not a database")), "{refused}");
    assert_eq!(std::fs::read(place.path()).expect("it is there"), vec![7; 4096]);
}

#[test]
fn a_later_format_is_refused() {
    let place = Place::new();
    drop(place.open(place.options()).expect("it opens"));
    place.other().execute("UPDATE forebay_meta SET format = 2", []).expect("it is changed");
    let refused = place.open(place.options()).err().expect("it is of a later forebay");
    assert!(refused.to_string().contains("format 2"), "{refused}");
}

/// The newest acknowledged commit is missing: versions and ids of what was lost are never given again.
#[test]
fn a_restored_file_is_noticed_when_it_is_opened() {
    let place = Place::new();
    let store = place.open(place.options()).expect("it opens");
    assert!(outcome(&store, commit(store.incarnation(), 1, vec![put("a", "1")])).is_applied());
    place.other().execute("VACUUM INTO ?1", [place.folder.path().join("copy.db").to_str()]).expect("it is copied");
    assert!(outcome(&store, commit(store.incarnation(), 2, vec![put("a", "2")])).is_applied());
    let known = Known { incarnation: store.incarnation(), acknowledged: store.acknowledged(), ..Known::default() };
    drop(store);
    std::fs::rename(place.folder.path().join("copy.db"), place.path()).expect("it is put back");
    let store = place.open(Options { known: known.clone(), ..place.options() }).expect("it opens");
    assert!(store.went_back() && store.incarnation() > known.incarnation);
    assert_eq!(got(&store, "a"), Some(text("1")));
    assert_eq!(outcome(&store, commit(store.incarnation(), 1, vec![put("a", "3")])), CommitOutcome::Committed(vec![]));
}
