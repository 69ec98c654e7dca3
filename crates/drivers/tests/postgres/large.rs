//! Documents of the generic table that are sent by COPY, and read in pieces.

use forebay::change::{Change, End, apply_all};
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Store};
use forebay::value::{Data, Hash};
use forebay::version::Mint;
use forebay::{Blob, TxnId, Value};
use forebay_drivers::postgres::Postgres;

use crate::groups::{committed, outcomes};
use crate::mapping::{World, commit_of, get, key};

/// More than a statement takes, and no multiple of a piece.
const LARGE: usize = 700_001;

fn bytes(len: usize, seed: usize) -> Blob {
    (0..len).map(|at| (at.wrapping_mul(seed) >> 3) as u8).collect()
}

fn put(len: usize, seed: usize) -> Vec<Change> {
    vec![Change::Put(Value::bytes(bytes(len, seed)))]
}

/// A commit of changes to documents that are as they were read.
fn commit(store: &Postgres, mint: &Mint, writes: Vec<(&str, Vec<Change>)>) -> Commit {
    let version = mint.next();
    let of = |(name, changes): (&str, Vec<Change>)| write(&key(name), get(store, name).value.as_ref(), changes);
    Commit::new(TxnId(version), version, writes.into_iter().map(of).collect())
}

fn done(outcomes: &[CommitOutcome]) {
    assert!(outcomes.iter().all(committed), "{:?}", outcomes.iter().find(|outcome| !committed(outcome)));
}

#[test]
fn large_documents_are_written_changed_and_deleted() {
    let world = World::new("", &[]);
    let (store, mint) = world.open();
    let fields: Hash = (0..20_000).map(|n| (bytes(8, n * 31 + 7), bytes(40, n))).collect();
    let hash = Value { data: Data::Hash(fields), expires_at_ms: Some(4_000_000_000_000) };
    let elements = (0..9_000).map(|n| Change::Push(End::Right, bytes(60, n))).collect();
    let first = commit(
        &store,
        &mint,
        vec![("s", put(LARGE, 5)), ("small", put(3, 5)), ("h", vec![Change::Put(hash)]), ("l", elements)],
    );
    for _ in 0..2 {
        done(&outcomes(&store, std::slice::from_ref(&first)));
        for write in &first.writes {
            let read = get(&store, std::str::from_utf8(write.key.name()).expect("a name"));
            assert!(read.value == write.after && read.version == first.version, "{}", write.key);
        }
    }
    assert_eq!(block_on(store.expired(5_000_000_000_000, 9)).expect("told").len(), 1, "its expiry is written");
    // Some are changed, one goes, one comes; all of them are read at once.
    let more = vec![Change::Append(bytes(10, 3)), Change::WriteAt { offset: LARGE / 2, bytes: bytes(80_000, 9) }];
    let field = vec![Change::SetField(bytes(8, 7), bytes(300_000, 1)), Change::Persist];
    let second =
        commit(&store, &mint, vec![("s", more), ("h", field), ("l", vec![Change::Delete]), ("new", put(LARGE, 2))]);
    done(&outcomes(&store, std::slice::from_ref(&second)));
    let keys: Vec<_> = second.writes.iter().map(|write| write.key.clone()).collect();
    let reads = block_on(store.get(&keys)).expect("they can be read");
    for (write, read) in second.writes.iter().zip(reads) {
        assert!(read.value == write.after, "{}", write.key);
        assert!(read.value.is_none() || read.version == second.version);
    }
    assert_eq!(block_on(store.count(0)), Ok(4));
    let asked = [(key("s"), vec![first.id, TxnId(mint.next())]), (key("l"), vec![second.id])];
    let with_ids = block_on(store.get_with_ids(&asked)).expect("they can be read").expect("it tells");
    assert_eq!(with_ids[0].0, get(&store, "s"));
    assert_eq!((&with_ids[0].1, &with_ids[1].1), (&vec![first.id], &vec![second.id]));
    assert!(with_ids[1].0.value.is_none());
}

#[test]
fn a_group_with_large_documents_is_all_or_nothing() {
    let world = World::new("", &[]);
    let (store, mint) = world.open();
    let group: Vec<Commit> = (0..3)
        .map(|n| {
            commit_of(&mint, &[("s", if n == 0 { put(LARGE, 5) } else { vec![Change::Append(bytes(9, n))] })], &[])
        })
        .collect();
    done(&outcomes(&store, &group));
    let mut expected = None;
    let all: Vec<Change> = group.iter().flat_map(|commit| commit.writes[0].changes.iter().cloned()).collect();
    apply_all(&mut expected, &all).expect("they fit");
    assert!(get(&store, "s").value == expected);
    assert_eq!(world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied"), "1", "one transaction");
    // What does not fit, and what was overtaken, leaves nothing of its commit.
    let before = get(&store, "s");
    let unfit = commit_of(&mint, &[("t", put(LARGE, 1)), ("s", vec![Change::Push(End::Left, bytes(1, 1))])], &[]);
    assert!(matches!(&outcomes(&store, &[unfit])[0], CommitOutcome::Refused(why) if why.contains('s')));
    let mut stale = commit_of(&mint, &[("s", vec![Change::Append(bytes(LARGE, 1))]), ("t", put(LARGE, 1))], &[]);
    stale.checks.push((key("s"), group[0].version));
    assert_eq!(outcomes(&store, &[stale.clone()]), [CommitOutcome::Conflict(vec![key("s")])]);
    assert_eq!((get(&store, "s"), get(&store, "t").value), (before.clone(), None));
    stale.checks[0].1 = before.version;
    done(&outcomes(&store, &[stale]));
    assert!(get(&store, "t").value == Some(Value::bytes(bytes(LARGE, 1))));
}
