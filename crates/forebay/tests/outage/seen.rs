//! What transactions have read of documents for which others wait, against a store that others write to as well. They
//! are applied only where what they were shown is so. None is set aside for what no program did.

mod cases;
mod database;
mod killed;
mod landing;
mod notes;
mod steps;
mod txn;
mod unproven;

use std::collections::{BTreeMap, BTreeSet};

use forebay::change::{Change, End, apply_all};
use forebay::outage::lanes::{Lane, Lanes, Ties};
use forebay::outage::pending::{BATCH_COMMITS_MAX, Batch, Buffer, Merged, Story, Untaken, Work};
use forebay::outage::{Buffered, Pending, Record, Standing};
use forebay::store::{Caps, Commit, CommitOutcome, Form, Write};
use forebay::value::Data;
use forebay::{Blob, Key, Read, TxnId, Value, Version};
use proptest::prelude::*;

use database::{Database, unstamped};
use steps::{Answer, Kind, Step, Way, steps};
use txn::Txn;

const CAPS: Caps = Caps { ordered: false, owned: false, applies: true };

/// Hashes, and behind them a list.
const HASHES: usize = 3;
const KEYS: usize = HASHES + 1;

fn key(number: usize) -> Key {
    Key::new(0, format!("k{number}").as_bytes())
}

fn number_of(key: &Key) -> usize {
    (0..KEYS).find(|number| self::key(*number) == *key).expect("one of ours")
}

/// Of so many the one that is meant; with [`usize::MAX`] the last.
fn nth(which: usize, count: usize) -> usize {
    if which == usize::MAX { count - 1 } else { which % count }
}

/// The first is one table with the second.
fn ties_of(keys: impl Iterator<Item = usize>) -> Ties {
    let lane = |key| if key < 2 { Lane::Together(7) } else { Lane::Hashed(key as u16) };
    let mut lanes: Lanes = keys.map(lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    Ties { lanes, ..Ties::default() }
}

struct World {
    buffer: Buffer,
    database: Database,
    open: Vec<Txn>,
    writing: Vec<(u64, Commit, Txn, Record)>,
    /// What the journal holds.
    journal: BTreeMap<u64, Pending>,
    /// What it is told of those that are on their way to it.
    notes: Vec<Record>,
    /// It has no room for so many of what it is told next, and is told all the same.
    full: usize,
    /// What those in the journal were shown.
    txns: BTreeMap<u64, Txn>,
    carried: Vec<Batch>,
    comparing: Vec<(Batch, Vec<Key>)>,
    asked: Vec<(Key, Story, Read, Vec<TxnId>)>,
    landed: BTreeSet<u64>,
    given_up: BTreeSet<u64>,
    /// Those that were sent without a check of what they change.
    unproven: BTreeSet<u64>,
    /// Those that a restart brought back without what they are made to: they may have been sent unchecked before.
    unnamed: BTreeSet<u64>,
    /// Those that were shown what the store had, though its answer was lost: no start knows what that was.
    shown_unheard: BTreeSet<u64>,
    sequence: u64,
    /// Somebody else wrote, an operator gave something up, or a restart came: some may be overtaken.
    disturbed: bool,
    /// Those that were set aside, or behind such: whoever came later went past.
    stuck: BTreeSet<u64>,
    trigger: bool,
}

impl World {
    fn new(trigger: bool, rows: bool) -> World {
        World {
            buffer: Buffer::new(1 << 20, CAPS, 1),
            database: Database::new(trigger, rows),
            open: Vec::new(),
            writing: Vec::new(),
            journal: BTreeMap::new(),
            notes: Vec::new(),
            full: 0,
            txns: BTreeMap::new(),
            carried: Vec::new(),
            comparing: Vec::new(),
            asked: Vec::new(),
            landed: BTreeSet::new(),
            given_up: BTreeSet::new(),
            unproven: BTreeSet::new(),
            unnamed: BTreeSet::new(),
            shown_unheard: BTreeSet::new(),
            sequence: 0,
            disturbed: false,
            stuck: BTreeSet::new(),
            trigger,
        }
    }

    fn is_locked(&self, key: usize, writes: bool) -> bool {
        let open = self.open.iter().chain(self.writing.iter().map(|(_, _, txn, _)| txn));
        let mut locks = open.flat_map(|txn| {
            let written = txn.writes.iter().map(|(key, _)| (*key, true));
            txn.reads.keys().map(|key| (*key, false)).chain(written)
        });
        locks.any(|(other, written)| other == key && (writes || written))
    }

    /// What is shown of a document; none if that is not known.
    fn read(&mut self, key: usize, asks: bool) -> Option<Read> {
        let key = self::key(key);
        let learns = self.buffer.is_suspect(&key) && asks;
        if learns || self.buffer.merged(&key) == Merged::Unknown {
            let (story, read, applied) = self.story(&key);
            self.buffer.learn_behind(&key, &read, &story, &applied);
        }
        match self.buffer.merged(&key) {
            Merged::Known(read) => {
                // To a store of rows an odd one says that there is no row.
                let Version { incarnation, sequence } = read.version;
                assert!(incarnation == 1 && (sequence <= self.sequence || sequence % 2 == 0), "{}", read.version);
                Some(read)
            }
            Merged::Nothing => Some(self.database.get(&key)),
            Merged::Unknown => None,
        }
    }

    fn story(&self, key: &Key) -> (Story, Read, Vec<TxnId>) {
        let story = self.buffer.story_of(key);
        let applied = story.ids().into_iter().filter(|id| self.database.has(*id)).collect();
        (story, self.database.get(key), applied)
    }

    fn open(&mut self, reads: &[usize], writes: &[(usize, Kind)], asks: bool) {
        let locked = reads.iter().any(|key| self.is_locked(*key, false));
        if locked || writes.iter().any(|(key, _)| self.is_locked(*key, true)) {
            return;
        }
        let mut txn = Txn { reads: BTreeMap::new(), writes: Vec::new(), built_on: Vec::new() };
        let needed = |(_, kind): &&(usize, Kind)| !matches!(kind, Kind::Put | Kind::Unseen);
        for key in reads.iter().chain(writes.iter().filter(needed).map(|(key, _)| key)) {
            let Some(read) = self.read(*key, asks) else { return };
            txn.reads.insert(*key, read);
        }
        for (key, kind) in writes {
            self.sequence += 1;
            let before = txn.reads.get(key).and_then(|read| read.value.clone());
            let change = self.change(*key, *kind, before.as_ref());
            let mut after = before;
            apply_all(&mut after, std::slice::from_ref(&change)).expect("it fits what was read");
            let unseen = matches!(kind, Kind::Unseen);
            // What is read by itself beside is told; what a change alone looks at is not.
            let told = reads.contains(key);
            txn.writes.push((*key, Write { key: self::key(*key), changes: vec![change].into(), after, unseen, told }));
        }
        let read = txn.only_read();
        txn.built_on = read.flat_map(|(key, _)| self.buffer.numbers(Some(&self::key(*key)), 0, usize::MAX)).collect();
        self.open.push(txn);
    }

    fn change(&self, key: usize, kind: Kind, before: Option<&Value>) -> Change {
        let blob = Blob::from(self.sequence.to_string().as_bytes());
        let field = |name: &str| Blob::from(name.as_bytes());
        match (key < HASHES, kind) {
            (_, Kind::Delete) => Change::Delete,
            (true, Kind::Change) => Change::AddInteger { field: Some(field("sum")), delta: self.sequence as i64 },
            (true, Kind::Unseen) => Change::SetField(field("set"), blob),
            (false, Kind::Change) if matches!(before, Some(Value { data: Data::List(_), .. })) => {
                Change::Pop(End::Left)
            }
            (false, Kind::Change | Kind::Unseen) => Change::Push(End::Right, blob),
            (hash, Kind::Replace | Kind::Put) => {
                let change = if hash { Change::SetField(field("put"), blob) } else { Change::Push(End::Left, blob) };
                let mut alone = None;
                apply_all(&mut alone, &[change]).expect("it fits");
                Change::Put(alone.expect("it has something"))
            }
        }
    }

    fn commit(&mut self, which: usize, way: Way, merge: bool) {
        if self.open.is_empty() {
            return;
        }
        let txn = self.open.remove(nth(which, self.open.len()));
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let writes = txn.writes.iter().map(|(_, write)| write.clone()).collect();
        let mut commit = Commit::new(TxnId(version), version, writes);
        commit.checks = txn.reads.iter().map(|(key, read)| (self::key(*key), read.version)).collect();
        let (ties, keys) = (ties_of(txn.keys()), txn.keys().map(key).collect::<Vec<_>>());
        let queues = self.buffer.must_queue(&ties.lanes, keys.iter(), [].into_iter());
        if way != Way::Buffer && !queues {
            for (key, version) in &mut commit.checks {
                match self.buffer.stored_version(key, *version) {
                    Some(stored) => *version = stored,
                    // The client is told to run it again.
                    None => return,
                }
            }
        }
        match way {
            Way::Direct if !queues => drop(self.apply(None, &txn, &commit)),
            Way::Unanswered { applied } if !queues => {
                if applied {
                    self.apply(None, &txn, &commit);
                }
                // What it was sent to was not checked.
                self.disturbed |= self.trigger && commit.writes.iter().any(|write| write.unseen);
                self.take(txn, commit, ties, true, false);
            }
            _ => self.take(txn, commit, ties, false, merge),
        }
    }

    fn take(&mut self, txn: Txn, commit: Commit, ties: Ties, sent: bool, merge: bool) {
        let unheard = |number: &u64| self.unnamed.contains(number) && self.landed.contains(number);
        let unproven = |number: &u64| self.unproven.contains(number) || unheard(number);
        self.disturbed |= self.trigger && txn.built_on.iter().any(unproven);
        let learned = self.buffer.learned(&commit);
        self.learned(learned);
        match self.buffer.take(&commit, ties, sent, merge.then_some(&Form::Document), 0) {
            Ok((number, record)) => {
                if txn.built_on.iter().any(|number| self.landed.contains(number)) {
                    self.shown_unheard.insert(number);
                }
                self.writing.push((number, commit, txn, record));
            }
            Err(Untaken::Overtaken(keys)) => {
                // A client that runs it again with what is shown now must not be told that for ever.
                for key in keys {
                    let shown = match self.buffer.merged(&key) {
                        Merged::Known(read) => read.version,
                        _ => continue,
                    };
                    assert_ne!(txn.reads[&number_of(&key)].version, shown, "{key} is shown, and is no good");
                }
            }
            Err(Untaken::Full(full)) => panic!("{full:?}"),
        }
    }

    fn journal(&mut self, which: usize, fails: bool) {
        if self.writing.is_empty() {
            return;
        }
        let (number, commit, txn, record) = self.writing.remove(nth(which, self.writing.len()));
        if fails {
            return self.buffer.withdraw(number);
        }
        self.buffer.written(number, &commit.writes);
        let (buffered, from) = match record {
            Record::Buffered(buffered) => (buffered, Vec::new()),
            Record::Merged { into, from } => (into, from),
            other => panic!("{other:?}"),
        };
        for old in &from {
            self.journal.remove(old);
            self.txns.remove(old);
        }
        let (standing, merged, settled) = (Standing::Waiting, !from.is_empty(), Vec::new());
        self.journal.insert(number, Pending { buffered, standing, merged, settled });
        self.txns.insert(number, txn);
        std::mem::take(&mut self.notes).into_iter().for_each(|record| self.note(record));
    }

    fn set_out(&mut self, most: usize) {
        self.resolve_restored();
        match self.buffer.next_work(most) {
            Some(Work::Carry(batch)) => {
                let learned = self.buffer.learned_by(&batch);
                self.learned(learned);
                if let Some(record) = self.buffer.unchecked(&batch) {
                    self.buffer.is_unchecked(batch.numbers[0]);
                    self.note(record);
                }
                self.unproven.extend(self.unproven_of(&batch, 0));
                self.carried.push(batch);
            }
            Some(Work::Compare(batch, keys)) => self.comparing.push((batch, keys)),
            Some(Work::Overtaken(number, keys)) => self.overtaken(number, &keys),
            Some(Work::Learn(keys)) => panic!("the store computes: {keys:?}"),
            None => {}
        }
    }

    /// What the drain does with one of which the store, or the buffer, says that it is overtaken.
    fn overtaken(&mut self, number: u64, keys: &[Key]) {
        if !self.buffer.overtaken(number, keys) {
            let may_be = self.disturbed || self.stuck.contains(&number);
            assert!(may_be, "{number} is set aside for {keys:?}, and nobody did anything");
            self.set_aside(number);
        }
    }

    fn set_aside(&mut self, number: u64) {
        self.buffer.quarantine(number, "set aside".into());
        self.journal.get_mut(&number).expect("it waits").standing = Standing::Quarantined("set aside".into());
    }

    /// The store is given a commit: judges what it was shown. Its number, if it was buffered.
    fn apply(&mut self, number: Option<u64>, txn: &Txn, commit: &Commit) -> CommitOutcome {
        let holds: Vec<Read> = (0..KEYS).map(|at| self.database.get(&key(at))).collect();
        let again = self.database.has(commit.id);
        let outcome = self.database.commit(commit);
        if again || !outcome.is_applied() {
            return outcome;
        }
        for (key, shown) in txn.only_read() {
            let (shown, holds) = (unstamped(shown.value.as_ref()), unstamped(holds[*key].value.as_ref()));
            assert_eq!(shown, holds, "what {number:?} was shown of {key}, and what is there when it is applied");
        }
        let settled = |other: &u64| self.landed.contains(other) || self.given_up.contains(other);
        assert!(txn.built_on.iter().all(settled), "{number:?} goes before one of {:?}", txn.built_on);
        outcome
    }

    fn compare(&mut self, which: usize, answers: bool) {
        if self.comparing.is_empty() {
            return;
        }
        let (batch, keys) = self.comparing.remove(nth(which, self.comparing.len()));
        if answers {
            match self.buffer.sent(&batch).is_some_and(|id| self.database.has(id)) {
                true => self.buffer.compared_before(&batch),
                false => {
                    let reads: Vec<Read> = keys.iter().map(|key| self.database.get(key)).collect();
                    self.buffer.compare(&batch, &keys, Some(&reads));
                }
            }
        }
        self.buffer.finish(batch, false);
    }

    fn others(&mut self, key: usize, kind: Kind, seen: bool) {
        self.sequence += 1;
        let name = self::key(key);
        let change = self.change(key, kind, self.database.get(&name).value.as_ref());
        self.disturbed |= self.database.write(&name, change);
        if seen {
            self.buffer.suspect([&name].into_iter());
        }
    }

    fn tell(&mut self, which: usize) {
        if !self.asked.is_empty() {
            let (key, story, read, applied) = self.asked.remove(nth(which, self.asked.len()));
            self.buffer.learn_behind(&key, &read, &story, &applied);
        }
    }

    fn quarantined(&self, which: usize) -> Option<u64> {
        let list = self.buffer.quarantine_list();
        (!list.is_empty()).then(|| list[which % list.len()].0)
    }

    fn retry(&mut self, which: usize) {
        let Some(number) = self.quarantined(which) else { return };
        assert!(self.buffer.retry(number));
        self.journal.get_mut(&number).expect("it waits").standing = Standing::Waiting;
    }

    /// Its documents are locked for that time, and leave the cache.
    fn give_up(&mut self, which: usize) {
        let Some(number) = self.quarantined(which) else { return };
        let buffered: &Buffered = self.buffer.buffered(number).expect("it waits");
        if buffered.writes.iter().any(|write| self.is_locked(number_of(&write.key), true)) {
            return;
        }
        self.disturbed = true;
        match self.database.has(buffered.id) {
            true => self.buffer.landed(number),
            false => {
                self.given_up.insert(number);
                self.buffer.give_up(number)
            }
        };
        self.journal.remove(&number);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Open { reads, writes, asks } => self.open(reads, writes, *asks),
            Step::Commit { which, way, merge } => self.commit(*which, *way, *merge),
            Step::Journal { which, fails } => self.journal(*which, *fails),
            Step::SetOut { most } => self.set_out(*most),
            Step::Land { which, applied, told, answer } => self.land(*which, *applied, *told, *answer),
            Step::Compare { which, answers } => self.compare(*which, *answers),
            Step::Others { key, kind, seen } => self.others(*key, *kind, *seen),
            Step::Ask { key } => {
                let (story, read, applied) = self.story(&self::key(*key));
                self.asked.push((self::key(*key), story, read, applied));
            }
            Step::Tell { which } => self.tell(*which),
            Step::Full { notes } => self.full = *notes,
            Step::SuspectAll => self.buffer.suspect_all(),
            Step::Retry { which } => self.retry(*which),
            Step::GiveUp { which } => self.give_up(*which),
            Step::Restart => self.restart(),
        }
        self.check();
    }

    fn check(&mut self) {
        self.buffer.validate();
        let waits = |number: &&u64| !matches!(self.buffer.standing(**number), None | Some(Standing::Waiting));
        self.stuck.extend(self.journal.keys().filter(waits));
    }

    /// The store is back for good, and an operator gives up what it does not take.
    fn drain(&mut self) {
        self.open.clear();
        for round in 0..100 {
            while !self.writing.is_empty() {
                self.journal(0, false);
            }
            while !self.comparing.is_empty() {
                self.compare(0, true);
            }
            while !self.carried.is_empty() {
                self.land(0, usize::MAX, usize::MAX, Answer::default());
            }
            if round > 50 {
                self.give_up(0);
            } else {
                self.retry(0);
            }
            self.set_out(BATCH_COMMITS_MAX);
            self.check();
        }
        assert_eq!(self.buffer.amount(), Default::default(), "all of it is gone, to the last byte");
    }
}

fn run(steps: &[Step], trigger: bool, rows: bool) {
    let mut world = World::new(trigger, rows);
    for step in steps {
        world.step(step);
    }
    world.drain();
}

/// Histories that are tried: with FOREBAY_NIGHTLY=1 as many as it took to find what these once found.
fn cases() -> u32 {
    if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 300_000 } else { 2_000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn what_was_read_is_so_when_it_is_applied(steps in steps(), rows in any::<bool>()) {
        run(&steps, false, rows);
    }

    #[test]
    fn what_the_store_itself_makes_of_documents_is_nobodys_change(steps in steps()) {
        run(&steps, true, true);
    }
}
