//! What is buffered, against a model that keeps a list of transactions and folds it. Transactions and journal answers
//! are random. Batches land in part and are told or not. There are refusals, and operators.

use std::collections::{BTreeMap, BTreeSet};

use forebay::change::{Change, apply_all};
use forebay::outage::lanes::{Lane, Lanes, Ties};
use forebay::outage::pending::{BATCH_COMMITS_MAX, Batch, Buffer, Merged, Work};
use forebay::outage::{Record, Standing};
use forebay::store::{Caps, Commit, Form, Write};
use forebay::{Key, Read, TxnId, Value, Version};
use proptest::prelude::*;

const KEYS: usize = 6;

fn key(number: usize) -> Key {
    Key::new(0, format!("k{number}").as_bytes())
}

fn version(sequence: u64) -> Version {
    Version { incarnation: 1, sequence }
}

/// Keys 0..3 share nothing, the others are one table.
fn ties_of(keys: &[usize], follows: &[usize]) -> Ties {
    let lane = |key: &usize| if *key < 3 { Lane::Hashed(*key as u16) } else { Lane::Together(7) };
    let mut lanes: Lanes = keys.iter().map(lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    Ties { lanes, follows: follows.iter().copied().map(key).collect(), ..Ties::default() }
}

#[derive(Clone, Debug)]
enum Step {
    /// A transaction on these keys; each with a change of this kind. If it is one on the table, it names this row.
    Take {
        keys: Vec<usize>,
        names: Option<usize>,
        kind: u8,
        sent: bool,
        merge: bool,
    },
    /// The journal answers for the n-th that it has.
    Journal {
        which: usize,
        fails: bool,
    },
    /// A batch sets out.
    SetOut {
        most: usize,
    },
    /// The n-th batch under way lands: so many are applied, and so many of them are told; perhaps the next is refused.
    /// The store may say what it holds behind each.
    Land {
        which: usize,
        applied: usize,
        told: usize,
        refuses: bool,
        says: bool,
    },
    /// The store says what rows name that are deleted in vain.
    Name,
    Retry {
        which: usize,
    },
    GiveUp {
        which: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = prop::collection::btree_set(0..KEYS, 1..=3).prop_map(|keys| keys.into_iter().collect::<Vec<_>>());
    let step = prop_oneof![
        8 => (keys, prop::option::weighted(0.3, 3..KEYS), 0..4u8, prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(keys, names, kind, sent, merge)| Step::Take { keys, names, kind, sent, merge }),
        8 => (0..4usize, prop::bool::weighted(0.1)).prop_map(|(which, fails)| Step::Journal { which, fails }),
        5 => (1..6usize).prop_map(|most| Step::SetOut { most }),
        5 => (0..3usize, 0..6usize, 0..6usize, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(which, applied, told, refuses, says)| Step::Land { which, applied, told, refuses, says }),
        2 => Just(Step::Name),
        1 => (0..3usize).prop_map(|which| Step::Retry { which }),
        1 => (0..3usize).prop_map(|which| Step::GiveUp { which }),
    ];
    prop::collection::vec(step, 1..80)
}

/// A transaction of the model.
struct Told {
    number: u64,
    writes: Vec<(usize, Vec<Change>)>,
    follows: Vec<usize>,
    /// What the rows that it deletes name, once the store was asked.
    leaves: Vec<usize>,
}

/// What a row of the table names in the store: the next one.
fn named_by(key: usize) -> usize {
    3 + (key - 2) % 3
}

impl Told {
    /// Whether it waits for `other`, which is set aside and came before.
    fn waits_for(&self, other: &Told) -> bool {
        let writes = |key: &usize| other.writes.iter().any(|(written, _)| written == key);
        let deletes = |(_, changes): &&(usize, Vec<Change>)| changes.contains(&Change::Delete);
        let mut deleted = self.writes.iter().filter(deletes).map(|(key, _)| key);
        self.writes.iter().map(|(key, _)| key).chain(&self.follows).any(writes)
            || deleted.any(|key| other.follows.contains(key) || other.leaves.contains(key))
    }
}

struct World {
    buffer: Buffer,
    /// What the store holds, and the ids that it has applied.
    store: BTreeMap<usize, Value>,
    ids: BTreeMap<u64, u64>,
    /// The newest version applied per document.
    applied: BTreeMap<usize, u64>,
    /// What the documents are in the eyes of clients.
    shown: BTreeMap<usize, Value>,
    /// Acknowledged transactions that nobody told us are in the store; merged ones as one.
    told: Vec<Told>,
    writing: Vec<(u64, Commit, Vec<usize>)>,
    under_way: Vec<Batch>,
    sequence: u64,
    /// An operator gave something up: what is shown follows from the store again.
    unknown: bool,
    /// The store makes changes itself, and may say what came of them.
    applies: bool,
}

impl World {
    fn new(applies: bool) -> World {
        World {
            buffer: Buffer::new(1 << 20, Caps { ordered: false, owned: !applies, applies }, 1),
            store: (0..KEYS).map(|key| (key, Value::bytes(*b"10"))).collect(),
            ids: BTreeMap::new(),
            applied: BTreeMap::new(),
            shown: (0..KEYS).map(|key| (key, Value::bytes(*b"10"))).collect(),
            told: Vec::new(),
            writing: Vec::new(),
            under_way: Vec::new(),
            sequence: 0,
            unknown: false,
            applies,
        }
    }

    fn take(&mut self, keys: &[usize], names: Option<usize>, kind: u8, sent: bool, merge: bool) {
        // Its transaction holds locks, and has read what it changes.
        let unknown = |key: &usize| self.buffer.merged(&self::key(*key)) == Merged::Unknown;
        if keys.iter().any(|key| self.is_locked(*key)) || keys.iter().any(unknown) || self.unknown {
            return;
        }
        // What has to queue was never sent.
        let queues = |key: &usize| !self.buffer.numbers(Some(&self::key(*key)), 0, 1).is_empty();
        let sent = sent && !keys.iter().any(queues);
        self.sequence += 1;
        let change = match kind {
            0 => Change::Put(Value::bytes(self.sequence.to_string().as_bytes())),
            1 => Change::Delete,
            _ => Change::AddInteger { field: None, delta: i64::from(kind) },
        };
        let write = |number: &usize| {
            let mut after = self.shown.get(number).cloned();
            apply_all(&mut after, std::slice::from_ref(&change)).expect("the change fits");
            Write { key: key(*number), changes: vec![change.clone()].into(), after, unseen: false, told: false }
        };
        let writes: Vec<Write> = keys.iter().map(write).collect();
        let version = version(self.sequence);
        let commit = Commit::new(TxnId(version), version, writes);
        let on_table = keys.iter().any(|key| *key >= 3);
        let follows: Vec<usize> = names.filter(|key| on_table && !keys.contains(key)).into_iter().collect();
        let (number, _) = self
            .buffer
            .take(&commit, ties_of(keys, &follows), sent, merge.then_some(&Form::Document), 0)
            .expect("there is room");
        self.writing.push((number, commit, follows));
    }

    fn is_locked(&self, key: usize) -> bool {
        let writes = |commit: &Commit| commit.writes.iter().any(|write| write.key == self::key(key));
        self.writing.iter().any(|(_, commit, _)| writes(commit))
    }

    fn journal(&mut self, which: usize, fails: bool) {
        if self.writing.is_empty() {
            return;
        }
        let (number, commit, follows) = self.writing.remove(which % self.writing.len());
        if fails {
            return self.buffer.withdraw(number);
        }
        let replaced = self.buffer.written(number, &commit.writes);
        let mut writes: Vec<(usize, Vec<Change>)> = Vec::new();
        for write in &commit.writes {
            let at = (0..KEYS).find(|at| key(*at) == write.key).expect("one of ours");
            match write.after.clone() {
                Some(value) => drop(self.shown.insert(at, value)),
                None => drop(self.shown.remove(&at)),
            }
            writes.push((at, write.changes.to_vec()));
        }
        if let Some(old) = replaced {
            let old = self.told.iter().position(|told| told.number == old).expect("it was told");
            let mut old = self.told.remove(old).writes;
            assert_eq!(old.len(), 1);
            old[0].1.append(&mut writes[0].1);
            writes = old;
        }
        self.told.push(Told { number, writes, follows, leaves: Vec::new() });
    }

    fn set_out(&mut self, most: usize) {
        match self.buffer.next_work(most) {
            Some(Work::Carry(batch)) => {
                assert!(batch.numbers.len() <= most && !batch.numbers.is_empty());
                self.nothing_named_is_deleted(&batch);
                self.under_way.push(batch);
            }
            Some(Work::Learn(keys)) => {
                for key in keys {
                    let at = (0..KEYS).find(|at| self::key(*at) == key).expect("one of ours");
                    let read = Read { value: self.store.get(&at).cloned(), version: Version::ZERO };
                    self.buffer.learn(&key, &read);
                }
            }
            Some(work) => panic!("nobody else writes: {work:?}"),
            None => {}
        }
    }

    /// The store says what is named by what is set aside.
    fn name(&mut self) {
        while let Some((_, asked)) = self.buffer.unnamed(&BTreeSet::new()) {
            for (number, keys) in asked {
                let rows = (3..KEYS).filter(|at| keys.contains(&key(*at)) && self.store.contains_key(at));
                let names: Vec<usize> = rows.map(named_by).collect();
                self.buffer.name(number, names.iter().copied().map(key).collect());
                let told = self.told.iter_mut().find(|told| told.number == number).expect("it is set aside");
                told.leaves = names;
            }
        }
    }

    /// Nothing of `batch` deletes what a row names that one before it deletes, and which is set aside: the store has
    /// that row, whether it was asked or not.
    fn nothing_named_is_deleted(&self, batch: &Batch) {
        let deletes = |txn: &Told| {
            let deletes = |(_, changes): &&(usize, Vec<Change>)| changes.contains(&Change::Delete);
            txn.writes.iter().filter(deletes).map(|(at, _)| *at).filter(|at| *at >= 3).collect::<Vec<_>>()
        };
        for txn in self.told.iter().filter(|txn| batch.numbers.contains(&txn.number)) {
            let stuck = |other: &&Told| {
                let standing = self.buffer.standing(other.number);
                other.number < txn.number && !matches!(standing, None | Some(Standing::Waiting))
            };
            for row in self.told.iter().filter(stuck).flat_map(deletes).filter(|row| self.store.contains_key(row)) {
                assert!(!deletes(txn).contains(&named_by(row)), "{} deletes what {row} names", txn.number);
            }
        }
    }

    /// The store applies a commit, once, and takes the documents as they were computed.
    fn apply(&mut self, number: u64, commit: &Commit) -> Vec<(Key, Read)> {
        let first = self.ids.insert(commit.id.0.sequence, number).is_none();
        for write in &commit.writes {
            let at = (0..KEYS).find(|at| key(*at) == write.key).expect("one of ours");
            if !first {
                continue;
            }
            let mut after = self.store.get(&at).cloned();
            apply_all(&mut after, &write.changes).expect("the change fits");
            assert!(self.applies || after == write.after, "what {number} leaves of {at}, as computed");
            let newest = self.applied.entry(at).or_default();
            assert!(*newest < commit.version.sequence, "{number} reaches {at} behind {newest}");
            *newest = commit.version.sequence;
            match after {
                Some(value) => drop(self.store.insert(at, value)),
                None => drop(self.store.remove(&at)),
            }
        }
        // Also where it is asked about one that it applied earlier.
        let holds = |write: &Write| {
            let at = (0..KEYS).find(|at| key(*at) == write.key).expect("one of ours");
            (write.key.clone(), Read { value: self.store.get(&at).cloned(), version: Version::ZERO })
        };
        commit.writes.iter().map(holds).collect()
    }

    fn land(&mut self, which: usize, applied: usize, told: usize, refuses: bool, says: bool) {
        if self.under_way.is_empty() {
            return;
        }
        let batch = self.under_way.remove(which % self.under_way.len());
        let applied = applied.min(batch.numbers.len());
        let told = told.min(applied);
        let mut changed = Vec::new();
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).take(applied) {
            let holds = self.apply(*number, commit);
            changed.push(if self.applies && says { holds } else { Vec::new() });
        }
        changed.truncate(told);
        let heads = self.buffer.heads(&batch, &changed);
        self.buffer.applied(&batch, &changed);
        for head in heads {
            let Record::Known { number, key, read, .. } = head else { continue };
            assert_eq!(self.buffer.numbers(Some(&key), 0, 1), [number]);
            let at = (0..KEYS).find(|at| self::key(*at) == key).expect("one of ours");
            let last = self.buffer.numbers(Some(&key), 0, 2).len() == 1;
            let written = !self.writing.iter().any(|(other, ..)| *other == number);
            assert!(
                !last || !written || read.value.as_ref() == self.shown.get(&at),
                "{number} leaves {read:?} of {at}"
            );
            let buffered = self.buffer.buffered(number).expect("it waits");
            assert!(buffered.known.contains(&(key, read)), "what {number} leaves is known");
        }
        self.told.retain(|txn| !batch.numbers[..told].contains(&txn.number));
        let next = batch.numbers.get(told).copied();
        // Only what surely was not applied is refused.
        let refused = next.filter(|_| refuses && told == applied);
        self.buffer.finish(batch, told < applied);
        if let Some(number) = refused {
            self.buffer.quarantine(number, "refused".into());
        }
    }

    fn quarantined(&self, which: usize) -> Option<u64> {
        let list = self.buffer.quarantine_list();
        (!list.is_empty()).then(|| list[which % list.len()].0)
    }

    fn give_up(&mut self, which: usize) {
        let Some(number) = self.quarantined(which) else { return };
        // Behind it, what was sent and may have landed can't be told from what did not.
        let keys = self.buffer.buffered(number).map(|b| b.writes.iter().map(|w| w.key.clone()).collect::<Vec<_>>());
        let queued: Vec<u64> = keys.iter().flatten().flat_map(|k| self.buffer.numbers(Some(k), 0, 99)).collect();
        let sent = |number: &u64| self.buffer.buffered(*number).is_some_and(|buffered| buffered.sent);
        if queued.iter().any(sent) || !self.writing.is_empty() {
            return;
        }
        self.buffer.give_up(number).expect("it is quarantined");
        self.told.retain(|txn| txn.number != number);
        // Its documents are what the store holds, and what others change in it.
        for at in (0..KEYS).filter(|at| keys.iter().flatten().any(|key| *key == self::key(*at))) {
            let mut value = self.store.get(&at).cloned();
            let writes = self.told.iter().flat_map(|txn| &txn.writes);
            for (_, changes) in writes.filter(|(key, _)| *key == at) {
                apply_all(&mut value, changes).expect("the change fits");
            }
            match value {
                Some(value) => drop(self.shown.insert(at, value)),
                None => drop(self.shown.remove(&at)),
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Take { keys, names, kind, sent, merge } => self.take(keys, *names, *kind, *sent, *merge),
            Step::Journal { which, fails } => self.journal(*which, *fails),
            Step::SetOut { most } => self.set_out(*most),
            Step::Land { which, applied, told, refuses, says } => {
                self.land(*which, *applied, *told, *refuses, *says);
            }
            Step::Name => self.name(),
            Step::Retry { which } => {
                if let Some(number) = self.quarantined(*which) {
                    assert!(self.buffer.retry(number));
                }
            }
            Step::GiveUp { which } => self.give_up(*which),
        }
        self.forget_what_is_left();
        self.check();
    }

    fn check(&self) {
        self.buffer.validate();
        for at in 0..KEYS {
            let waits = self.told.iter().any(|txn| txn.writes.iter().any(|(key, _)| *key == at));
            match self.buffer.merged(&key(at)) {
                Merged::Known(read) => {
                    let on_its_way = self.buffer.numbers(Some(&key(at)), 0, 1);
                    assert!(waits || !on_its_way.is_empty(), "nothing waits for {at}");
                    assert_eq!(read.value.as_ref(), self.shown.get(&at), "what {at} is shown as");
                }
                Merged::Nothing => assert!(!waits, "something waits for {at}"),
                Merged::Unknown => assert!(waits),
            }
        }
        self.check_who_is_held_back();
    }

    /// What waits for its turn may leave something else when it is set aside again.
    fn forget_what_is_left(&mut self) {
        for told in &mut self.told {
            if self.buffer.standing(told.number) == Some(Standing::Waiting) {
                told.leaves.clear();
            }
        }
    }

    /// Behind what is quarantined waits whatever writes one of its documents, names one, or deletes one that it names;
    /// behind that as well.
    fn check_who_is_held_back(&self) {
        let mut told: Vec<&Told> = self.told.iter().collect();
        told.sort_unstable_by_key(|txn| txn.number);
        let mut stuck: Vec<&Told> = Vec::new();
        for txn in told {
            let behind = stuck.iter().filter(|other| txn.waits_for(other)).map(|other| other.number).min();
            let standing = self.buffer.standing(txn.number).expect("it waits");
            match (&standing, behind) {
                (Standing::Quarantined(_), _) => {}
                (Standing::Behind(other), Some(first)) => assert_eq!(*other, first, "{}", txn.number),
                (Standing::Waiting, None) => continue,
                // One that is on its way to the journal may be about to replace it.
                (Standing::Waiting, Some(_)) if txn.writes.iter().any(|(key, _)| self.is_locked(*key)) => {}
                wrong => panic!("{}: {wrong:?}", txn.number),
            }
            stuck.push(txn);
        }
    }

    /// The store comes back for good.
    fn drain(&mut self) {
        for _ in 0..200 {
            while !self.writing.is_empty() {
                self.journal(0, false);
            }
            while let Some(number) = self.quarantined(0) {
                self.buffer.retry(number);
            }
            self.name();
            self.set_out(BATCH_COMMITS_MAX);
            while !self.under_way.is_empty() {
                self.land(0, usize::MAX, usize::MAX, false, false);
            }
            self.forget_what_is_left();
            self.check();
        }
        assert_eq!(self.buffer.amount(), Default::default(), "all of it is gone, to the last byte");
        assert_eq!(self.store, self.shown, "the store holds what was shown");
    }
}

/// Histories that are tried: many more with FOREBAY_NIGHTLY=1.
fn cases() -> u32 {
    if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 200_000 } else { 1_000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn what_is_buffered_reaches_the_store_once_and_in_order(steps in steps(), applies in any::<bool>()) {
        let mut world = World::new(applies);
        for step in &steps {
            world.step(step);
        }
        world.drain();
    }
}
