//! Who owns a database, and that nobody else commits to it.

use std::time::{Duration, Instant};

use forebay::change::Change;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::version::Mint;
use forebay::{Key, OwnerId, TxnId, Value};
use forebay_drivers::postgres::Postgres;
use forebay_drivers::{Known, Options};

use crate::mapping::{USERS, World, commit_of, get, set};
use crate::proxy::Proxy;
use crate::server::{Server, Stop};
use crate::{PATIENT, open, options, tokio_runtime};

fn key() -> Key {
    Key::new(0, b"k")
}

fn commit(mint: &Mint, changes: Vec<Change>) -> Commit {
    Commit::new(TxnId(mint.next()), mint.next(), vec![write(&key(), None, changes)])
}

fn put(mint: &Mint, value: &[u8]) -> Commit {
    commit(mint, vec![Change::Put(Value::bytes(value))])
}

fn known(owner: u128, incarnation: u64) -> Known {
    Known { owner: Some(OwnerId(owner)), incarnation, waiting: incarnation > 0, ..Known::default() }
}

fn value(store: &Postgres) -> Option<Value> {
    block_on(store.get(&[key()])).expect("it answers").remove(0).value
}

/// Cut off, replaced, and back: it notices by itself, and takes no commit any more.
#[test]
fn who_was_replaced_is_fenced() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let network = Proxy::to_postgres(server.address());
    let address = server.url_through(&database, network.address).parse().expect("a URL");
    let own = Options { address, timeout: Duration::from_secs(1), first: PATIENT, ..options(&server, &database) };
    let first = open(&runtime, Options { known: known(1, 0), ..own }).expect("it opens");
    let mint = Mint::new(first.incarnation());
    assert_eq!(block_on(first.commit(&[put(&mint, b"first")])), [CommitOutcome::Committed(Vec::new())]);
    network.close();
    let second = open(&runtime, Options { known: known(2, 0), ..options(&server, &database) });
    let second = second.expect("the first is cut off");
    let other = Mint::new(second.incarnation());
    assert_eq!(block_on(second.commit(&[put(&other, b"second")])), [CommitOutcome::Committed(Vec::new())]);
    assert_eq!((first.fenced(), second.fenced()), (None, None));
    network.pass();
    let began = Instant::now();
    while first.fenced().is_none() {
        assert!(began.elapsed() < PATIENT, "it never looks");
        std::thread::sleep(Duration::from_millis(10));
    }
    let refused = block_on(first.commit(&[put(&mint, b"late")])).remove(0);
    assert!(matches!(refused, CommitOutcome::Unavailable(_)), "{refused:?}");
    assert!(block_on(first.get(&[key()])).is_err());
    assert_eq!((value(&second), second.fenced()), (Some(Value::bytes(*b"second")), None));
}

/// Each kind of commit asks in its own transaction, whatever its connection was told when it was made.
#[test]
fn a_commit_asks_whose_the_database_is() {
    let server = Server::start();
    let runtime = tokio_runtime();
    for kind in 0..4 {
        let database = server.database();
        let store = open(&runtime, options(&server, &database)).expect("it opens");
        let mint = Mint::new(store.incarnation());
        assert_eq!(block_on(store.commit(&[put(&mint, b"1")])), [CommitOutcome::Committed(Vec::new())]);
        let read = block_on(store.get(&[key()])).expect("it answers").remove(0);
        server.sql(&database, "UPDATE forebay.owners SET run = 'another'");
        let mut next = put(&mint, b"2");
        match kind {
            1 => next.checks.push((key(), read.version)),
            2 => next = commit(&mint, vec![Change::Append(b"2".to_vec().into())]),
            _ => {}
        }
        if kind == 3 {
            assert!(block_on(store.clear(&[0], mint.next())).is_err());
        } else {
            let refused = block_on(store.commit(&[next])).remove(0);
            assert!(matches!(refused, CommitOutcome::Unavailable(_)), "{kind}: {refused:?}");
        }
        assert!(store.fenced().is_some(), "{kind}");
        assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "1");
    }
}

/// A new owner ends the connections that it finds, those among them that ask what became of the last commits.
#[test]
fn what_became_of_the_last_commits_is_asked_again() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let own = Options { timeout: PATIENT, ..options(&server, &database) };
    let store = open(&runtime, own).expect("it opens");
    let mint = Mint::new(store.incarnation());
    let (applied, unsent) = (put(&mint, b"1"), put(&mint, b"2"));
    assert_eq!(block_on(store.commit(std::slice::from_ref(&applied))), [CommitOutcome::Committed(Vec::new())]);
    server.sql(&database, "UPDATE forebay.owners SET run = 'another'");
    assert!(matches!(block_on(store.commit(&[put(&mint, b"3")]))[0], CommitOutcome::Unavailable(_)));
    assert!(store.fenced().is_some());
    // Those that ask, and nothing else that waits for the table.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name LIKE '%forebay %' AND wait_event_type = 'Lock'";
    let resolved = std::thread::scope(|scope| {
        let ids = [applied.id, unsent.id];
        let asking = server.while_locked(&database, "LOCK TABLE forebay.applied", || {
            let asking = scope.spawn(move || block_on(store.outcomes(&ids)));
            let mut ended = 0;
            while ended < 6 && !asking.is_finished() {
                ended += server.sql(&database, end).parse::<u64>().expect("a count");
                std::thread::sleep(Duration::from_millis(10));
            }
            asking
        });
        asking.join().expect("it asks")
    });
    assert_eq!(resolved, Ok(vec![Resolved::Applied, Resolved::NotApplied]));
}

/// A database that was put back is raised; where the answer to that is lost, we are not taken for another.
#[test]
fn an_incarnation_of_our_own_that_we_have_not_heard_of_is_ours() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let store = open(&runtime, options(&server, &database)).expect("it opens");
    let (mint, before) = (Mint::new(store.incarnation()), store.incarnation());
    assert_eq!(block_on(store.commit(&[put(&mint, b"lost")])), [CommitOutcome::Committed(Vec::new())]);
    // What raising it has left.
    let raised = "TRUNCATE forebay.applied, forebay.documents; UPDATE forebay.meta SET incarnation = incarnation + 1;
        UPDATE forebay.owners SET incarnation = incarnation + 1";
    server.sql(&database, raised);
    server.stop(Stop::Fast);
    server.start_again();
    (0..100).find_map(|_| block_on(store.get(&[key()])).ok()).expect("it can be read");
    assert_eq!((store.incarnation(), store.fenced()), (before + 1, None));
    let mint = Mint::new(store.incarnation());
    assert_eq!(block_on(store.commit(&[put(&mint, b"new")])), [CommitOutcome::Committed(Vec::new())]);
}

/// What a start is told: who had the database since its journal noted an opening, until it notes another.
#[test]
fn a_start_knows_who_came_between() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let opened = |known: Known| {
        let store = open(&runtime, Options { known, ..options(&server, &database) }).expect("it opens");
        (store.incarnation(), store.owned_since().map(str::to_owned))
    };
    let (noted, since) = opened(known(1, 0));
    assert_eq!(since, None);
    // Starts of our own that were killed before anything was noted.
    for _ in 0..3 {
        assert_eq!(opened(known(1, noted)).1, None);
    }
    let (second, since) = opened(known(2, 0));
    assert_eq!(since, None, "nothing of its own can wait");
    let (third, since) = opened(known(1, noted));
    let named = format!("owner {}", OwnerId(2));
    assert!(since.as_ref().is_some_and(|since| since.contains(&named)), "{since:?}");
    assert_eq!(opened(known(1, noted)).1.is_some(), since.is_some(), "it was killed before that was noted");
    assert_eq!(opened(known(1, third)).1, None);
    assert!(opened(known(2, second)).1.is_some_and(|since| since.contains(&OwnerId(1).to_string())));
    // An older forebay notes no owner.
    let (noted, _) = opened(known(1, third + 10));
    server.sql(&database, "UPDATE forebay.meta SET incarnation = incarnation + 1");
    assert!(opened(known(1, noted)).1.is_some_and(|since| since.contains("older version")));
    // Only the last are kept.
    for owner in 10..80 {
        opened(known(owner, 0));
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.owners"), "64");
}

/// A database that an older forebay has prepared: it is completed where the role may, and else it is said who can.
#[test]
fn a_schema_without_owners_is_completed() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let (incarnation, older) = {
        let store = open(&runtime, options(&server, &database)).expect("it opens");
        (store.incarnation(), "DROP FUNCTION forebay.owned(); DROP TABLE forebay.owners")
    };
    server.sql(&database, older);
    let store = open(&runtime, Options { known: known(1, incarnation), ..options(&server, &database) });
    let store = store.expect("it opens");
    assert_eq!((store.incarnation(), store.owned_since(), store.went_back()), (incarnation + 1, None, false));
    drop(store);
    server.sql(&database, &format!("{older}; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA forebay TO poor"));
    server.sql(&database, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA forebay TO poor");
    let address = server.url(&database).replace("app@", "poor@").parse().expect("a URL");
    let refused = open(&runtime, Options { address, ..options(&server, &database) });
    let refused = refused.err().expect("it may not make a table").to_string();
    assert!(refused.contains("forebay store init --print"), "{refused}");
}

/// The same of rows: as one statement for one row, as one for many, and as a batch.
#[test]
fn a_commit_of_rows_asks_whose_the_database_is() {
    for kind in 0..3 {
        let world = World::new(USERS, &["user:{id} -> users(id) version(none)"]);
        let (store, mint) = world.open();
        // Over connections that were made before.
        let before = commit_of(&mint, &[("user:1", vec![set("name", "early")])], &[]);
        assert!(matches!(block_on(store.commit(&[before])).remove(0), CommitOutcome::Committed(_)));
        let versions = ["user:1", "user:2"].map(|name| (name, get(&store, name).version));
        world.sql("UPDATE forebay.owners SET run = 'another'");
        let row = |at: usize| {
            let checks = if kind < 2 { &versions[at..at + 1] } else { &[] };
            commit_of(&mint, &[(versions[at].0, vec![set("name", "late")])], checks)
        };
        let group = if kind == 1 { vec![row(0), row(1)] } else { vec![row(0)] };
        let outcomes = block_on(store.commit(&group));
        let refused = |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Unavailable(_));
        assert!(outcomes.iter().all(refused) && store.fenced().is_some(), "{kind}: {outcomes:?}");
        assert_eq!(world.sql("SELECT count(*) FROM users WHERE name = 'late'"), "0");
    }
}
