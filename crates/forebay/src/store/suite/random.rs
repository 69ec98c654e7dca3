//! Random groups against a model that is nothing but two ordered maps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Bench, Make};
use crate::change::{Change, End, apply};
use crate::key::Key;
use crate::store::{Commit, CommitOutcome, Resolved, Write};
use crate::value::{Blob, Data, Hash, List, Set, Value};
use crate::version::{TxnId, Version};

const CASES: u32 = 40;
const NAMES: u8 = 5;
const SPACES: [u8; 2] = [0, 15];

/// What to do to the store.
#[derive(Clone, Debug)]
enum Step {
    /// Transactions, each some documents with changes.
    Group(Vec<Vec<(u8, Vec<Change>)>>),
    /// Sends an earlier commit again.
    Repeat(usize),
    Clear(bool),
    Reopen,
}

fn blobs() -> impl Strategy<Value = Blob> {
    prop_oneof![
        4 => prop::collection::vec(b'a'..b'e', 0..3).prop_map(Blob::from),
        1 => (any::<u8>(), 100usize..900).prop_map(|(byte, length)| Blob::from(vec![byte; length])),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let field = |at: usize| Blob::from(format!("field {at}").into_bytes());
    let data = prop_oneof![
        2 => blobs().prop_map(|blob| Data::Bytes(blob.into())),
        1 => (0usize..40_000).prop_map(|length| Data::Bytes(vec![b'x'; length].into())),
        1 => (1usize..120, blobs()).prop_map(move |(length, value)| {
            let mut hash = Hash::default();
            (0..length).for_each(|at| assert!(hash.insert(field(at), value.clone()).is_none()));
            Data::Hash(hash)
        }),
        1 => (1usize..200, blobs()).prop_map(|(length, value)| {
            let mut list = List::default();
            (0..length).for_each(|_| list.push_right(value.clone()));
            Data::List(list)
        }),
        1 => (1usize..200).prop_map(move |length| {
            let mut set = Set::default();
            (0..length).for_each(|at| assert!(set.insert(field(at))));
            Data::Set(set)
        }),
    ];
    (data, prop::option::of(0u64..1_000)).prop_map(|(data, expires_at_ms)| Value { data, expires_at_ms })
}

fn changes() -> impl Strategy<Value = Change> {
    let end = prop_oneof![Just(End::Left), Just(End::Right)];
    let field =
        prop_oneof![2 => (0..120u8).prop_map(|at| Blob::from(format!("field {at}").into_bytes())), 1 => blobs()];
    prop_oneof![
        4 => values().prop_map(Change::Put),
        2 => Just(Change::Delete),
        1 => (0u64..1_000).prop_map(Change::ExpireAt),
        1 => Just(Change::Persist),
        1 => (0u64..1_000).prop_map(Change::RemoveExpired),
        1 => (prop::option::of(field.clone()), -9i64..9).prop_map(|(field, delta)| Change::AddInteger { field, delta }),
        2 => blobs().prop_map(Change::Append),
        2 => (0usize..40_000, blobs()).prop_map(|(offset, bytes)| Change::WriteAt { offset, bytes }),
        4 => (field.clone(), blobs()).prop_map(|(field, value)| Change::SetField(field, value)),
        4 => field.clone().prop_map(Change::UnsetField),
        6 => (end.clone(), blobs()).prop_map(|(end, element)| Change::Push(end, element)),
        6 => end.prop_map(Change::Pop),
        1 => (-2i64..3, blobs()).prop_map(|(count, element)| Change::RemoveEqual { count, element }),
        4 => field.clone().prop_map(Change::AddMember),
        4 => field.prop_map(Change::RemoveMember),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let document = (0..NAMES * 2, prop::collection::vec(changes(), 1..5));
    let transaction = prop::collection::vec(document, 1..4);
    let step = prop_oneof![
        12 => prop::collection::vec(transaction, 1..5).prop_map(Step::Group),
        2 => any::<usize>().prop_map(Step::Repeat),
        1 => any::<bool>().prop_map(Step::Clear),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..14)
}

pub(super) fn run(make: Make<'_>) {
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&steps(), |steps| {
        let mut run = Run { bench: Bench::new(make()), model: Model::default(), done: Vec::new() };
        for step in steps {
            run.step(step);
            run.compare();
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn key(number: u8) -> Key {
    Key::new(SPACES[usize::from(number % 2)], &[b'k', number / 2])
}

/// What the store should hold.
#[derive(Clone, Default)]
struct Model {
    documents: BTreeMap<Key, (Value, Version)>,
    /// The last known version of each absent key; the store's may be greater, never smaller.
    absent: BTreeMap<Key, Version>,
}

impl Model {
    fn apply(&mut self, commit: &Commit) {
        for write in &commit.writes {
            match &write.after {
                Some(value) => drop(self.documents.insert(write.key.clone(), (value.clone(), commit.version))),
                None => {
                    self.documents.remove(&write.key);
                    self.absent.insert(write.key.clone(), commit.version);
                }
            }
        }
    }
}

struct Run {
    bench: Bench,
    model: Model,
    /// Commits that were applied.
    done: Vec<Commit>,
}

impl Run {
    fn step(&mut self, step: Step) {
        match step {
            Step::Group(transactions) => self.group(transactions),
            Step::Repeat(at) if !self.done.is_empty() => {
                let commit = self.done[at % self.done.len()].clone();
                let outcome = self.bench.outcomes(std::slice::from_ref(&commit)).remove(0);
                match outcome {
                    CommitOutcome::Committed(_) | CommitOutcome::Unavailable(_) | CommitOutcome::Unknown(_) => {}
                    other => panic!("a repeated commit answered {other:?}"),
                }
                assert_eq!(self.bench.outcome(commit.id), Resolved::Applied);
            }
            Step::Repeat(_) => {}
            Step::Clear(both) => {
                let spaces = if both { &SPACES[..] } else { &SPACES[..1] };
                let version = self.bench.clear(spaces);
                let (gone, kept) = std::mem::take(&mut self.model.documents)
                    .into_iter()
                    .partition(|(key, _)| spaces.contains(&key.space()));
                self.model.documents = kept;
                let gone: BTreeMap<Key, (Value, Version)> = gone;
                self.model.absent.extend(gone.into_keys().map(|key| (key, version)));
            }
            Step::Reopen => drop(self.bench.reopen()),
        }
    }

    fn group(&mut self, transactions: Vec<Vec<(u8, Vec<Change>)>>) {
        let mut ahead = self.model.clone();
        let mut group = Vec::new();
        for transaction in transactions {
            let transaction = transaction.into_iter().map(|(number, changes)| (key(number), changes));
            let mut writes = Vec::new();
            for (key, changes) in transaction.collect::<BTreeMap<_, _>>() {
                let mut after = ahead.documents.get(&key).map(|(value, _)| value.clone());
                let fits = |change: &Change| apply(&mut after, change).is_ok();
                let changes = {
                    let mut fits = fits;
                    changes.into_iter().filter(|change| fits(change)).collect::<Vec<_>>()
                };
                if !changes.is_empty() {
                    writes.push(Write { key, changes: changes.into(), after, unseen: false, told: false });
                }
            }
            let commit = self.bench.commit_of(writes);
            ahead.apply(&commit);
            group.push(commit);
        }
        let outcomes = self.bench.outcomes(&group);
        assert_eq!(outcomes.len(), group.len());
        let mut stopped = None::<TxnId>;
        for (commit, outcome) in group.into_iter().zip(outcomes) {
            let applied = match outcome {
                CommitOutcome::Committed(_) => true,
                CommitOutcome::Unavailable(_) => false,
                CommitOutcome::Unknown(_) => self.bench.outcome(commit.id) == Resolved::Applied,
                other => panic!("{other:?}"),
            };
            if applied {
                assert_eq!(stopped, None, "{} was applied over a commit that was not", commit.id);
                self.model.apply(&commit);
                self.done.push(commit);
            } else {
                stopped = Some(commit.id);
            }
        }
    }

    fn compare(&mut self) {
        self.bench.subject.validate();
        let keys = (0..NAMES * 2).map(key).collect::<Vec<_>>();
        for (key, read) in keys.iter().zip(self.bench.get(&keys)) {
            match self.model.documents.get(key) {
                Some((value, version)) => {
                    assert_eq!(read.value.as_ref(), Some(value), "{key}");
                    assert_eq!(read.version, *version, "{key}");
                }
                None => {
                    assert_eq!(read.value, None, "{key}");
                    let known = self.model.absent.entry(key.clone()).or_default();
                    assert!(read.version >= *known, "{key} fell from {known} to {}", read.version);
                    *known = read.version;
                }
            }
        }
        for space in SPACES {
            let expected = self.model.documents.keys().filter(|key| key.space() == space).cloned().collect::<Vec<_>>();
            assert_eq!(self.bench.count(space), expected.len() as u64);
            assert_eq!(self.bench.scan(space, None, 100), expected);
        }
        let due = self.model.documents.iter().filter_map(|(key, (value, _))| Some((value.expires_at_ms?, key.clone())));
        let mut due = due.filter(|(at, _)| *at <= 500).collect::<Vec<_>>();
        due.sort();
        let expected = due.into_iter().map(|(_, key)| key).collect::<Vec<_>>();
        assert_eq!(self.bench.expired(500, 100), expected);
    }
}
