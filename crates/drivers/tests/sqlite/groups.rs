//! Groups of commits: what is refused takes nothing along that stands before it.

use forebay::store::{CommitOutcome, Resolved, Store, suite};
use forebay::{Change, TxnId, Version};

use crate::{Place, commit, got, key, outcome, put, text};

#[test]
fn what_stands_before_a_refused_commit_is_applied() {
    let place = Place::new();
    let store = place.open(place.options()).expect("it opens");
    let mine = store.incarnation();
    assert_eq!(outcome(&store, commit(mine, 1, vec![put("a", "text")])), CommitOutcome::Committed(vec![]));
    // An increment does not fit a text. Only the store can tell: the document was not read before.
    let mut unseen = suite::write(&key("a"), None, vec![Change::AddInteger { field: None, delta: 1 }]);
    unseen.unseen = true;
    let group =
        [commit(mine, 2, vec![put("b", "2")]), commit(mine, 3, vec![unseen]), commit(mine, 4, vec![put("c", "4")])];
    let outcomes = suite::block_on(store.commit(&group));
    assert_eq!(outcomes[0], CommitOutcome::Committed(vec![]));
    assert!(matches!(outcomes[1], CommitOutcome::Refused(_)), "{outcomes:?}");
    assert!(matches!(outcomes[2], CommitOutcome::Unavailable(_)), "{outcomes:?}");
    assert_eq!((got(&store, "b"), got(&store, "c")), (Some(text("2")), None));
}

#[test]
fn a_commit_is_applied_once_and_a_tombstone_keeps_it_out() {
    let place = Place::new();
    let store = place.open(place.options()).expect("it opens");
    let mine = store.incarnation();
    let add = |number| {
        let mut write = suite::write(&key("n"), None, vec![Change::AddInteger { field: None, delta: 5 }]);
        write.unseen = true;
        commit(mine, number, vec![write])
    };
    for _ in 0..3 {
        assert!(outcome(&store, add(1)).is_applied());
    }
    assert_eq!(got(&store, "n"), Some(text("5")), "an increment that is sent three times is made once");
    let id = TxnId(Version { incarnation: mine, sequence: 2 });
    assert_eq!(suite::block_on(store.outcome(id)), Ok(Resolved::NotApplied));
    assert!(matches!(outcome(&store, add(2)), CommitOutcome::Refused(_)));
    let id = TxnId(Version { incarnation: mine, sequence: 1 });
    assert_eq!(suite::block_on(store.outcome(id)), Ok(Resolved::Applied));
}
