//! Faults that are real: a server that is stopped as in a crash, backends that are ended, processes that are asleep.
//! Each outcome must be true: what is `Unavailable` is not there, what is `Unknown` is what [`Store::outcome`] then
//! says, and what was acknowledged is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use forebay::change::Change;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};
use forebay_drivers::Options;
use forebay_drivers::postgres::Postgres;

use crate::server::{Server, Stop};
use crate::{open, options, tokio_runtime};

/// Time for one call where the server is made not to answer.
const IMPATIENT: Duration = Duration::from_millis(700);

/// How often each outcome came.
#[derive(Default, Debug)]
struct Tally {
    committed: AtomicU64,
    unavailable: AtomicU64,
    unknown_applied: AtomicU64,
    unknown_not: AtomicU64,
}

/// Commits one after the other to a key of its own until told to stop, and knows at the end what must be there.
struct Client {
    key: Key,
    there: Option<Value>,
    /// Commits reported as not applied, which must never be.
    refused: Vec<Commit>,
}

fn commit_of(mint: &Mint, key: &Key, number: u64) -> Commit {
    let value = Value::bytes(number.to_string().into_bytes());
    let writes = vec![write(key, None, vec![Change::Put(value)])];
    Commit::new(TxnId(mint.next()), mint.next(), writes)
}

fn resolve(store: &Postgres, id: TxnId) -> Resolved {
    loop {
        match block_on(store.outcome(id)) {
            Ok(resolved) => return resolved,
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

/// What `key` holds, once the server can be asked: a restart may have begun behind the last commit.
fn read(store: &Postgres, key: &Key) -> Option<Value> {
    loop {
        match block_on(store.get(std::slice::from_ref(key))) {
            Ok(mut reads) => return reads.remove(0).value,
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

impl Client {
    fn run(mut self, store: &Postgres, mint: &Mint, stop: &AtomicBool, tally: &Tally) -> Client {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let commit = commit_of(mint, &self.key, number);
            let applied = match block_on(store.commit(std::slice::from_ref(&commit))).remove(0) {
                CommitOutcome::Committed(_) => {
                    tally.committed.fetch_add(1, Ordering::Relaxed);
                    true
                }
                CommitOutcome::Unavailable(_) => {
                    tally.unavailable.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(5));
                    false
                }
                CommitOutcome::Unknown(_) => match resolve(store, commit.id) {
                    Resolved::Applied => {
                        tally.unknown_applied.fetch_add(1, Ordering::Relaxed);
                        true
                    }
                    Resolved::NotApplied => {
                        tally.unknown_not.fetch_add(1, Ordering::Relaxed);
                        self.refused.push(commit.clone());
                        false
                    }
                },
                other => panic!("{other:?}"),
            };
            if applied {
                self.there = commit.writes[0].after.clone();
            }
        }
        self
    }
}

/// Runs clients while `trouble` is made, then compares what is there with what was answered.
fn with_clients(options: Options, trouble: impl FnOnce(&Postgres)) -> Tally {
    let runtime = tokio_runtime();
    let store = Arc::new(open(&runtime, options).expect("it opens"));
    let mint = Mint::new(store.incarnation());
    let (stop, tally) = (AtomicBool::new(false), Tally::default());
    let clients = std::thread::scope(|scope| {
        let client = |number: u8| Client { key: Key::new(0, &[b'k', number]), there: None, refused: Vec::new() };
        let run = |client: Client| scope.spawn(|| client.run(&store, &mint, &stop, &tally));
        let clients: Vec<_> = (0..6).map(client).map(run).collect();
        trouble(&store);
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("the client ends well")).collect::<Vec<_>>()
    });
    for client in &clients {
        assert_eq!(read(&store, &client.key), client.there, "{}", client.key);
        for commit in &client.refused {
            let again = block_on(store.commit(std::slice::from_ref(commit))).remove(0);
            assert!(matches!(again, CommitOutcome::Refused(_)), "{again:?}");
        }
    }
    eprintln!("{tally:?}");
    tally
}

/// Waits until so many commits are acknowledged: that there was load before, between and after what is done to it.
fn until_committed(store: &Postgres, more: u64) {
    let mut done = 0;
    while done < more {
        match block_on(store.commit(&[commit_beside(store)])).remove(0) {
            CommitOutcome::Committed(_) => done += 1,
            _ => sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits until a commit is surely not applied, since nobody listens.
fn until_unavailable(store: &Postgres) {
    while !matches!(block_on(store.commit(&[commit_beside(store)])).remove(0), CommitOutcome::Unavailable(_)) {}
}

/// A commit under an id of its own, beside those of the clients.
fn commit_beside(store: &Postgres) -> Commit {
    static SEQUENCE: AtomicU64 = AtomicU64::new(1 << 40);
    let mut commit = commit_of(&Mint::new(store.incarnation()), &Key::new(1, b"progress"), 0);
    commit.id.0.sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    commit
}

#[test]
fn an_immediate_stop_loses_nothing_acknowledged() {
    let server = Server::start();
    let database = server.database();
    // As a careless operator may have it: what forebay acknowledges is durable all the same.
    server.sql(&database, &format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    with_clients(options(&server, &database), |store| {
        for _ in 0..2 {
            until_committed(store, 20);
            server.stop(Stop::Immediate);
            until_unavailable(store);
            server.start_again();
        }
        until_committed(store, 20);
    });
}

#[test]
fn backends_are_ended_under_load() {
    let server = Server::start();
    let database = server.database();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'forebay %'";
    with_clients(options(&server, &database), |store| {
        for _ in 0..4 {
            until_committed(store, 10);
            assert_ne!(server.sql(&database, end), "0");
        }
        until_committed(store, 10);
    });
}

#[test]
fn one_backend_is_killed_under_load() {
    let server = Server::start();
    let database = server.database();
    with_clients(options(&server, &database), |store| {
        until_committed(store, 10);
        let one = "SELECT min(pid) FROM pg_stat_activity WHERE application_name ~ '^forebay [0-9]+[.][0-9]'";
        let backend: u32 = server.sql(&database, one).parse().expect("a process");
        // The postmaster restarts all others: their shared memory may be damaged.
        server.signal("KILL", &[backend]);
        until_committed(store, 10);
    });
}

#[test]
fn a_server_that_sleeps_is_not_waited_for() {
    let server = Server::start();
    let database = server.database();
    let options = Options { timeout: IMPATIENT, ..options(&server, &database) };
    let tally = with_clients(options, |store| {
        until_committed(store, 10);
        let processes = server.processes();
        server.signal("STOP", &processes);
        // Connecting takes no longer either: nobody answers the handshake.
        let read = block_on(store.get(&[Key::new(0, b"elsewhere")]));
        assert!(read.is_err(), "{read:?}");
        server.signal("CONT", &processes);
        until_committed(store, 10);
    });
    let unknown = tally.unknown_applied.into_inner() + tally.unknown_not.into_inner();
    assert!(unknown > 0, "no commit was on its way when it fell asleep");
}

/// The one backend that has a commit in its socket sleeps; its commit must not land once it was said not to have.
#[test]
fn a_late_commit_does_not_land() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let options = Options { timeout: IMPATIENT, writers: 1, ..options(&server, &database) };
    let store = open(&runtime, options).expect("it opens");
    let mint = Mint::new(store.incarnation());
    let key = Key::new(0, b"k");
    let committed = block_on(store.commit(&[commit_of(&mint, &key, 1)])).remove(0);
    assert_eq!(committed, CommitOutcome::Committed(Vec::new()));
    let writer =
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'forebay %' AND query LIKE 'WITH entered%'";
    let backend: u32 = server.sql(&database, writer).parse().expect("one writer");
    server.signal("STOP", &[backend]);
    let late = commit_of(&mint, &key, 2);
    let outcome = block_on(store.commit(std::slice::from_ref(&late))).remove(0);
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
    assert_eq!(resolve(&store, late.id), Resolved::NotApplied);
    server.signal("CONT", &[backend]);
    let listed = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}");
    while server.sql(&database, &listed) != "0" {
        sleep(Duration::from_millis(10));
    }
    let read = block_on(store.get(std::slice::from_ref(&key))).expect("it can be read").remove(0);
    assert_eq!(read.value, Some(Value::bytes(*b"1")));
    assert!(matches!(block_on(store.commit(&[late])).remove(0), CommitOutcome::Refused(_)));
}
