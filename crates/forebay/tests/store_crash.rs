//! The embedded store on a disk that forgets what was not synced. After a crash what is left is a prefix of the
//! commit order, without half commits. With `always` nothing acknowledged is missing. Crashes come by chance, and at
//! each write, change of length and sync of one commit in turn.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Random, runtime};
use forebay::change::{Change, End};
use forebay::mutation::{self, Fault};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::suite::{block_on, write};
use forebay::store::survivors::Survivors;
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};

const SEEDS: u64 = 300;
const LIVES: u64 = 3;

fn open(disk: &Forgetful, durability: Durability) -> Embedded {
    let handles = disk.clone();
    let options = EmbeddedOptions { durability, page_cache_bytes: 1 << 20 };
    Embedded::open_with_backend(runtime(), Arc::new(move || Ok(handles.handle())), options).expect("the store opens")
}

fn key(name: &str) -> Key {
    Key::new(2, name.as_bytes())
}

/// What the store holds after each of the commits so far; the first is the empty store.
#[derive(Clone)]
struct History {
    states: Vec<BTreeMap<Key, Value>>,
    ids: Vec<TxnId>,
}

impl History {
    /// The next commit: a counter, some other document, a list that grows large, sometimes a string that grows long.
    fn next(&mut self, mint: &Mint, random: &mut Random) -> Commit {
        let number = self.ids.len() as u64 + 1;
        let mut state = self.states[self.ids.len()].clone();
        let bytes = |size: u64| Value::bytes([&number.to_be_bytes()[..], &vec![b'x'; size as usize]].concat());
        let mut changes = vec![(key("counter"), vec![Change::Put(bytes(0))])];
        let other = key(&format!("other {}", random.below(6)));
        changes.push(match random.chance(25) {
            true => (other, vec![Change::Delete]),
            false => (other, vec![Change::Put(bytes(random.below(9_000)))]),
        });
        let element = || Change::Push(End::Right, vec![number as u8; 700].into());
        let mut ends = vec![element(), element()];
        if random.chance(30) {
            ends.push(Change::Pop(End::Left));
        }
        changes.push((key("list"), ends));
        if random.chance(40) {
            let offset = random.below(50_000) as usize;
            let bytes = Change::WriteAt { offset, bytes: vec![number as u8; 3000].into() };
            changes.push((key("long"), vec![bytes, Change::Append(vec![number as u8].into())]));
        }
        let writes =
            changes.into_iter().map(|(key, changes)| write(&key, state.get(&key), changes)).collect::<Vec<_>>();
        for write in &writes {
            match &write.after {
                Some(value) => drop(state.insert(write.key.clone(), value.clone())),
                None => drop(state.remove(&write.key)),
            }
        }
        let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
        self.states.push(state);
        self.ids.push(commit.id);
        commit
    }

    /// Forgets what was sent after the first `length` commits.
    fn truncate(&mut self, length: usize) {
        self.states.truncate(length + 1);
        self.ids.truncate(length);
    }
}

/// Number of the newest commit in the store, which must hold exactly what that commit left.
fn check_prefix(store: &Embedded, history: &History) -> usize {
    let counter = block_on(store.get(&[key("counter")])).unwrap().remove(0).value;
    let reached = counter.map_or(0, |value| match value.data {
        forebay::Data::Bytes(bytes) => u64::from_be_bytes(bytes.joined()[..8].try_into().unwrap()) as usize,
        other => panic!("{other:?}"),
    });
    assert_eq!(store.validate(), Ok(()));
    let expected = &history.states[reached];
    let keys = block_on(store.scan(2, None, 100)).unwrap();
    assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>());
    assert_eq!(block_on(store.count(2)), Ok(keys.len() as u64));
    for (key, read) in keys.iter().zip(block_on(store.get(&keys)).unwrap()) {
        assert_eq!(read.value.as_ref(), expected.get(key), "{key} after commit {reached}");
    }
    for (number, id) in (1..).zip(&history.ids) {
        let expected = if number <= reached { Resolved::Applied } else { Resolved::NotApplied };
        assert_eq!(block_on(store.outcome(*id)), Ok(expected), "commit {number} of which {reached} are there");
    }
    reached
}

/// One run: some lives, each ended by a crash in the middle of work.
fn run(seed: u64, durability: Durability) {
    let mut random = Random(seed);
    let disk = Forgetful::new();
    let mut history = History { states: vec![BTreeMap::new()], ids: Vec::new() };
    for _ in 0..LIVES {
        let store = open(&disk, durability);
        let mint = Mint::new(store.incarnation());
        let mut safe = history.ids.len();
        if random.chance(60) {
            disk.fail_in(Some(random.below(200)));
        }
        for _ in 0..random.below(12) {
            let group = (0..1 + random.below(4)).map(|_| history.next(&mint, &mut random)).collect::<Vec<_>>();
            let outcomes = block_on(store.commit(&group));
            let committed = outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Committed(_)));
            if !committed {
                // A flush that failed has closed the store, so the group after it may be surely not applied.
                let unsure = |outcome: &CommitOutcome| {
                    matches!(outcome, CommitOutcome::Unknown(_) | CommitOutcome::Unavailable(_))
                };
                assert!(outcomes.iter().all(unsure), "{outcomes:?}");
                break;
            }
            if durability == Durability::Always || random.chance(15) && block_on(store.flush()).is_ok() {
                safe = history.ids.len();
            }
        }
        disk.crash(Survivors::Chance(random.draw()).choice());
        drop(store);
        let store = open(&disk, durability);
        let reached = check_prefix(&store, &history);
        assert!(reached >= safe, "commit {safe} was safe, and the store is back at {reached}");
        history.truncate(reached);
        drop(store);
    }
}

/// One group of commits, flushed, on a disk that stops at each of its writes, changes of length and syncs in turn; of
/// what was not synced then every prefix is left, all but each one, and some by chance. How many crashes that were.
fn crash_inside_one_commit(seed: u64, durability: Durability) -> usize {
    const GROUP: usize = 3;
    let mut random = Random(seed);
    let disk = Forgetful::new();
    let mut history = History { states: vec![BTreeMap::new()], ids: Vec::new() };
    let store = open(&disk, durability);
    let mint = Mint::new(store.incarnation());
    for _ in 0..random.below(20) {
        let commit = history.next(&mint, &mut random);
        assert_eq!(block_on(store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
    }
    drop(store);
    let before = history.ids.len();
    let mut crashes = 0;
    for step in 0.. {
        let (disk, mut history, mut random) = (disk.copy(), history.clone(), Random(random.0));
        let store = open(&disk, durability);
        let mint = Mint::new(store.incarnation());
        let group = (0..GROUP).map(|_| history.next(&mint, &mut random)).collect::<Vec<_>>();
        disk.fail_in(Some(step));
        let outcomes = block_on(store.commit(&group));
        let committed = outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Committed(_)));
        let safe = committed && block_on(store.flush()).is_ok();
        for survivors in Survivors::of(disk.unsynced(), random.draw()) {
            let disk = disk.copy();
            disk.crash(survivors.choice());
            let store = open(&disk, durability);
            let reached = check_prefix(&store, &history);
            assert!(reached == before + GROUP || reached == before && !safe, "{reached} of {before} and {GROUP} more");
            let mut history = history.clone();
            history.truncate(reached);
            let next = history.next(&Mint::new(store.incarnation()), &mut random);
            assert_eq!(block_on(store.commit(&[next])), [CommitOutcome::Committed(Vec::new())], "it goes on");
            assert_eq!(check_prefix(&store, &history), reached + 1);
            crashes += 1;
        }
        if safe {
            return crashes;
        }
    }
    unreachable!("the disk lets a commit through at last")
}

#[test]
fn a_crash_at_every_step_of_one_commit() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 200 } else { 2 };
    for seed in 0..seeds {
        for durability in [Durability::Always, Durability::Interval { sync_ms: 1_000 }] {
            eprintln!("seed {seed}, {durability:?}");
            let crashes = crash_inside_one_commit(seed, durability);
            assert!(crashes > 50, "{crashes} crashes within a commit");
            eprintln!("{crashes} crashes");
        }
    }
}

#[test]
fn a_commit_that_is_acknowledged_before_its_sync_is_found() {
    let _on = mutation::put_back(Some(Fault::AcknowledgedBeforeFsync));
    assert!(std::panic::catch_unwind(|| crash_inside_one_commit(0, Durability::Always)).is_err());
}

fn run_seeds(durability: Durability) {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        run(seed, durability);
    }
}

#[test]
fn always_loses_nothing_acknowledged() {
    run_seeds(Durability::Always);
}

#[test]
fn interval_and_never_lose_a_suffix() {
    run_seeds(Durability::Interval { sync_ms: 1_000 });
    run_seeds(Durability::Never);
}

/// The disk fails without a crash: the store answers `Unknown`, closes, reopens and tells the truth.
#[test]
fn a_failed_group_is_resolved_after_reopening() {
    let mut deletes = 0;
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        let mut random = Random(seed);
        let disk = Forgetful::new();
        let store = open(&disk, Durability::Always);
        let mint = Mint::new(store.incarnation());
        let mut history = History { states: vec![BTreeMap::new()], ids: Vec::new() };
        for _ in 0..4 {
            disk.fail_in(Some(random.below(60)));
            let unknown = loop {
                let commit = history.next(&mint, &mut random);
                match block_on(store.commit(std::slice::from_ref(&commit))).remove(0) {
                    CommitOutcome::Committed(_) => {}
                    CommitOutcome::Unknown(_) => break commit,
                    other => panic!("{other:?}"),
                }
            };
            let closed = block_on(store.commit(std::slice::from_ref(&unknown))).remove(0);
            assert!(matches!(closed, CommitOutcome::Unavailable(_)), "{closed:?}");
            assert!(block_on(store.get(&[key("counter")])).is_err());
            assert!(block_on(store.outcome(unknown.id)).is_err(), "the disk still fails");
            disk.fail_in(None);
            let resolved = block_on(store.outcome(unknown.id)).unwrap();
            let reached = check_prefix(&store, &history);
            assert_eq!(reached == history.ids.len(), resolved == Resolved::Applied);
            for write in unknown.writes.iter().filter(|write| write.after.is_none() && resolved == Resolved::Applied) {
                let absence = block_on(store.get(std::slice::from_ref(&write.key))).unwrap().remove(0);
                assert!(absence.version >= unknown.version, "the version of {} fell", write.key);
                deletes += 1;
            }
            assert!(reached + 1 >= history.ids.len(), "what was acknowledged is there");
            history.truncate(reached);
        }
        assert_eq!(store.incarnation(), 1, "nothing acknowledged was lost, so the cache above stays good");
    }
    assert!(deletes > 0, "no delete was unknown and had landed");
}

/// A handle that fails with groups unflushed loses them; whoever built on them must not commit.
#[test]
fn what_a_reopening_loses_is_fenced() {
    let disk = Forgetful::new();
    let store = open(&disk, Durability::Never);
    let mint = Mint::new(store.incarnation());
    let mut history = History { states: vec![BTreeMap::new()], ids: Vec::new() };
    let mut random = Random(1);
    let mut commit = |store: &Embedded, mint: &Mint| {
        let commit = history.next(mint, &mut random);
        block_on(store.commit(&[commit])).remove(0)
    };
    assert_eq!(commit(&store, &mint), CommitOutcome::Committed(Vec::new()));
    let gone = block_on(store.get(&[key("counter")])).unwrap().remove(0);
    disk.fail_in(Some(0));
    assert!(block_on(store.flush()).is_err());
    disk.fail_in(None);
    let absent = block_on(store.get(&[key("counter")])).unwrap().remove(0);
    assert!(absent.value.is_none() && absent.version > gone.version);
    assert_eq!(store.incarnation(), 2);
    assert!(matches!(commit(&store, &mint), CommitOutcome::Refused(_)));
    let mint = Mint::new(store.incarnation());
    assert_eq!(commit(&store, &mint), CommitOutcome::Committed(Vec::new()));
}

/// Groups that wait for a flush share a write transaction that no snapshot shows; a reader sees them all the same.
#[test]
fn what_was_acknowledged_is_read_though_nothing_was_flushed() {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        let mut random = Random(seed);
        let store = open(&Forgetful::new(), Durability::Never);
        let mint = Mint::new(store.incarnation());
        let mut history = History { states: vec![BTreeMap::new()], ids: Vec::new() };
        for _ in 0..10 {
            for _ in 0..random.below(4) {
                let group = (0..1 + random.below(3)).map(|_| history.next(&mint, &mut random)).collect::<Vec<_>>();
                let outcomes = block_on(store.commit(&group));
                assert_eq!(outcomes, vec![CommitOutcome::Committed(Vec::new()); group.len()]);
            }
            if random.chance(20) {
                assert_eq!(block_on(store.flush()), Ok(()));
            }
            assert_eq!(check_prefix(&store, &history), history.ids.len());
        }
    }
}
