//! Two documents of one row, which share its version: transactions of our own write one and read the other, in random
//! order and batches. No other program writes, so none is overtaken, and all are applied.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use forebay::change::{Change, End, apply_all};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::{Lane, Ties};
use forebay::outage::pending::{Batch, Buffer, Merged, Untaken, Work};
use forebay::store::{Caps, Commit, CommitOutcome, Store, Write};
use forebay::value::Data;
use forebay::{Blob, Key, Read, TxnId, Value, Version};

use crate::gate::{commit, open, put, simulated};

/// Documents of the row, and one of another row.
const NAMES: [&str; 3] = ["left", "right", "other"];

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn sibling(name: &str) -> Option<&'static str> {
    match name {
        "left" => Some("right"),
        "right" => Some("left"),
        _ => None,
    }
}

fn row_of(key: &Key) -> usize {
    usize::from(*key == self::key("other"))
}

fn is_sound(condition: bool, why: &str) {
    assert!(condition, "{why}");
}

/// Rows as a database keeps them: each write of one raises its version, whichever of its documents it is about.
#[derive(Default)]
struct Database {
    there: [bool; 2],
    versions: [u64; 2],
    documents: BTreeMap<Key, Value>,
    /// A trigger stamps whatever is written.
    stamps: bool,
}

impl Database {
    fn get(&self, key: &Key) -> Read {
        let (row, empty) = (row_of(key), || Value { data: Data::Hash(Default::default()), expires_at_ms: None });
        let value = self.there[row].then(|| self.documents.get(key).cloned().unwrap_or_else(empty));
        let sequence = 2 * self.versions[row] + u64::from(!self.there[row]);
        Read { value, version: Version { incarnation: 1, sequence } }
    }

    /// The documents that do not have the versions that were checked.
    fn commit(&mut self, commit: &Commit) -> Result<(), Vec<Key>> {
        let stale = commit.checks.iter().filter(|(key, version)| self.get(key).version != *version);
        let stale: Vec<Key> = stale.map(|(key, _)| key.clone()).collect();
        if !stale.is_empty() {
            return Err(stale);
        }
        for write in &commit.writes {
            let (row, mut value) = (row_of(&write.key), self.get(&write.key).value);
            apply_all(&mut value, &write.changes).expect("it fits");
            self.versions[row] += 1;
            match value {
                Some(mut value) => {
                    if self.stamps {
                        let stamp = set("stamp", self.versions[row]);
                        let mut stamped = Some(value);
                        apply_all(&mut stamped, &[stamp]).expect("it is a hash");
                        value = stamped.expect("it is there");
                    }
                    self.documents.insert(write.key.clone(), value);
                    self.there[row] = true;
                }
                None => {
                    self.documents.retain(|key, _| row_of(key) != row);
                    self.there[row] = false;
                }
            }
        }
        Ok(())
    }
}

fn set(field: &str, value: u64) -> Change {
    Change::SetField(Blob::from(field.as_bytes()), Blob::from(value.to_string().as_bytes()))
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct World {
    database: Database,
    buffer: Buffer,
    draw: Draw,
    sequence: u64,
    /// How many have read what others wait for.
    readers: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let caps = Caps { ordered: false, owned: false, applies: true };
        let (mut draw, buffer) = (Draw(seed), Buffer::new(1 << 20, caps, 1));
        let database = Database { there: [true; 2], stamps: draw.below(2) == 0, ..Database::default() };
        World { database, buffer, draw, sequence: 0, readers: 0 }
    }

    /// What a client is shown of a document, if anything.
    fn read(&self, name: &str) -> Option<Read> {
        let beside = sibling(name).map(key);
        let waits = |other: &Key| self.buffer.merged(other) != Merged::Nothing;
        match self.buffer.merged(&key(name)) {
            Merged::Known(read) => {
                let made = |other: &Key| self.buffer.is_written_after(other, &key(name));
                (read.value.is_some() || !beside.as_ref().is_some_and(made)).then_some(read)
            }
            Merged::Unknown => None,
            Merged::Nothing => (!beside.as_ref().is_some_and(waits)).then(|| self.database.get(&key(name))),
        }
    }

    fn change(&mut self) -> Change {
        self.sequence += 1;
        match self.draw.below(6) {
            0 => Change::Delete,
            _ => set("f", self.sequence),
        }
    }

    /// A client's transaction: it reads one document, and writes one.
    fn transact(&mut self) {
        let [read, written] = [3, 3].map(|bound| NAMES[self.draw.below(bound) as usize]);
        let (seen, change) = (self.read(read), self.change());
        let version = Version { incarnation: 1, sequence: self.sequence << 8 };
        let before = self.read(written);
        // What others than the last to read it were shown can't be told from what a trigger made of that unseen.
        if before.is_none() && change != Change::Delete && self.database.stamps {
            return;
        }
        let mut after = before.clone().and_then(|read| read.value);
        apply_all(&mut after, std::slice::from_ref(&change)).expect("it fits");
        let unseen = before.is_none() && change != Change::Delete;
        let write = Write { key: key(written), changes: vec![change.clone()].into(), after, unseen, told: false };
        let mut commit = Commit::new(TxnId(version), version, vec![write]);
        let mut checks: BTreeMap<Key, Version> = BTreeMap::new();
        checks.extend(before.map(|read| (key(written), read.version)));
        if let Some(seen) = seen {
            self.readers += u64::from(self.buffer.merged(&key(read)) != Merged::Nothing);
            checks.insert(key(read), seen.version);
        }
        commit.checks = checks.into_iter().collect();
        let beside: Vec<Key> = sibling(written).map(key).into_iter().collect();
        let takes_along = if change == Change::Delete { beside.clone() } else { Vec::new() };
        let lanes = [Lane::Together(1)].into_iter().collect();
        let ties = Ties {
            lanes,
            beside: beside.iter().map(|key| (0, key.clone())).collect(),
            follows: beside,
            takes_along,
            ..Ties::default()
        };
        let (number, _) = self.buffer.take(&commit, ties, false, None, 0).expect("what it has read is so");
        self.buffer.written(number, &commit.writes);
        self.buffer.validate();
    }

    /// Carries some over; false if nothing is left.
    fn carry(&mut self) -> bool {
        let most = 1 + self.draw.below(4) as usize;
        match self.buffer.next_work(most) {
            Some(Work::Carry(batch)) => self.send(batch),
            Some(Work::Compare(batch, keys)) => {
                let reads: Vec<Read> = keys.iter().map(|key| self.database.get(key)).collect();
                self.buffer.compare(&batch, &keys, Some(&reads));
                self.buffer.finish(batch, false);
            }
            Some(Work::Overtaken(number, keys)) => is_sound(false, &format!("{number} was overtaken: {keys:?}")),
            Some(Work::Learn(keys)) => panic!("{keys:?} need not be known"),
            None => {
                is_sound(self.buffer.is_empty(), "it goes on");
                return false;
            }
        }
        self.buffer.validate();
        true
    }

    /// All that is told of a batch is told of its end.
    fn send(&mut self, batch: Batch) {
        let (mut applied, mut stopped) = (0, None);
        for commit in &batch.commits {
            match self.database.commit(commit) {
                Ok(()) => applied += 1,
                Err(keys) => {
                    stopped = Some((batch.numbers[applied], keys));
                    break;
                }
            }
        }
        let told = |commit: &Commit| {
            commit.writes.iter().map(|write| (write.key.clone(), self.database.get(&write.key))).collect()
        };
        let changed: Vec<Vec<(Key, Read)>> = batch.commits.iter().take(applied).map(told).collect();
        self.buffer.heads(&batch, &changed);
        self.buffer.applied(&batch, &changed);
        self.buffer.finish(batch, false);
        if let Some((number, keys)) = stopped {
            let merged = self.buffer.overtaken(number, &keys);
            is_sound(merged, &format!("{number} is taken for overtaken: {keys:?}"));
        }
    }
}

/// How many have read what others wait for.
fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    for _ in 0..20 {
        match world.draw.below(4) {
            0 => drop(world.carry()),
            _ => world.transact(),
        }
    }
    while world.carry() {}
    world.readers
}

#[test]
fn nobody_is_overtaken_by_our_own_write_of_another_document_of_the_row() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 100_000 } else { 2_000 };
    let tried = |seed: u64| {
        catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            resume_unwind(panic)
        })
    };
    let readers: u64 = (0..seeds).map(tried).sum();
    assert!(readers > seeds, "{readers} have read what others wait for");
}

#[test]
fn the_fault_is_found() {
    let _on = mutation::put_back(Some(Fault::MovedByOurselves));
    let found = (0..500).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err());
    assert!(found);
}

/// What was deleted is shown if `shown`; something behind it may have made its row again if that `makes` it.
fn deleted(makes: bool, shown: bool) {
    simulated(move |runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let row = [key("row:x")];
        database.inner.set_down(true);
        let change = |sequence: u64, name: &str, change: Change, unseen: bool| {
            let mut commit = put(sequence, name);
            (commit.writes[0].after, commit.writes[0].unseen) = (None, unseen);
            commit.writes[0].changes = [change].into_iter().collect();
            commit
        };
        let delete = change(1, "row:x", Change::Delete, false);
        assert!(matches!(commit(&gate, delete).await, CommitOutcome::Buffered(_)));
        let absent = gate.get(&row).await.expect("it is known");
        assert_eq!(absent[0].value, None);
        let push = || change(2, "list:x", Change::Push(End::Right, Blob::from(*b"e")), true);
        if makes {
            assert!(matches!(commit(&gate, push()).await, CommitOutcome::Buffered(_)));
        }
        assert_eq!(gate.get(&row).await.is_ok(), shown);
    });
}

#[test]
fn a_deleted_document_is_not_known_while_its_row_may_be_made_anew() {
    deleted(false, true);
    deleted(true, false);
    let _on = mutation::put_back(Some(Fault::MadeBesideUnseen));
    deleted(true, true);
}

/// A transaction writes the document of `name`, and has read another.
fn write(world: &mut World, name: &str, read: Option<(&str, Version)>) -> Result<(), Untaken> {
    world.sequence += 1;
    let (sequence, change) = (world.sequence, set("f", world.sequence));
    let mut after = world.read(name).and_then(|read| read.value);
    let unseen = after.is_none();
    apply_all(&mut after, std::slice::from_ref(&change)).expect("it fits");
    let version = Version { incarnation: 1, sequence: sequence << 8 };
    let write = Write { key: key(name), changes: vec![change].into(), after, unseen, told: false };
    let mut commit = Commit::new(TxnId(version), version, vec![write]);
    commit.checks = read.map(|(name, version)| (key(name), version)).into_iter().collect();
    let beside: Vec<Key> = sibling(name).map(key).into_iter().collect();
    let ties = Ties {
        lanes: [Lane::Together(1)].into_iter().collect(),
        beside: beside.iter().map(|key| (0, key.clone())).collect(),
        follows: beside,
        ..Ties::default()
    };
    let (number, _) = world.buffer.take(&commit, ties, false, None, 0)?;
    world.buffer.written(number, &commit.writes);
    Ok(())
}

/// What a transaction has read is in the store, and a write to another document of the row waits before it, which will
/// give that another version: it is to read it again. Answers what it would be taken for otherwise.
fn read_before_a_move() -> Result<bool, Untaken> {
    let mut world = World::new(1);
    world.database.stamps = false;
    let carry = |world: &mut World| {
        let Some(Work::Carry(batch)) = world.buffer.next_work(1) else { panic!("there is something to carry") };
        let (number, stale) = (batch.numbers[0], world.database.commit(&batch.commits[0]).err());
        let told: Vec<(Key, Read)> =
            batch.commits[0].writes.iter().map(|write| (write.key.clone(), world.database.get(&write.key))).collect();
        if stale.is_none() {
            world.buffer.applied(&batch, &[told]);
        }
        world.buffer.finish(batch, false);
        stale.is_none_or(|keys| world.buffer.overtaken(number, &keys))
    };
    write(&mut world, "left", None)?;
    write(&mut world, "right", None)?;
    let shown = world.read("left").expect("it is known").version;
    assert!(carry(&mut world));
    write(&mut world, "other", Some(("left", shown)))?;
    assert!(carry(&mut world));
    Ok(carry(&mut world))
}

#[test]
fn what_our_own_write_will_move_on_is_read_again() {
    assert_eq!(read_before_a_move(), Err(Untaken::Overtaken(vec![key("left")])));
    let _on = mutation::put_back(Some(Fault::CheckedBeforeMove));
    assert_eq!(read_before_a_move(), Ok(false), "it counts as changed by others");
}

/// Both documents of a row are written in one batch: what is cached of the first has the second's version, or none.
fn stale_versions() -> usize {
    let mut world = World::new(1);
    world.database.stamps = false;
    write(&mut world, "left", None).expect("it is taken");
    write(&mut world, "right", None).expect("it is taken");
    let Some(Work::Carry(batch)) = world.buffer.next_work(2) else { panic!("there is something to carry") };
    let changed = batch.commits.iter().map(|commit| {
        world.database.commit(commit).expect("nobody else writes");
        vec![(commit.writes[0].key.clone(), world.database.get(&commit.writes[0].key))]
    });
    let changed: Vec<Vec<(Key, Read)>> = changed.collect();
    assert_eq!(changed.len(), 2);
    let applied = world.buffer.applied(&batch, &changed);
    world.buffer.finish(batch, false);
    let stale = |(key, _, stored): &&(Key, Version, Version)| world.database.get(key).version != *stored;
    applied.restamped.iter().filter(stale).count()
}

#[test]
fn what_is_cached_has_the_version_behind_the_whole_batch() {
    assert_eq!(stale_versions(), 0);
    let _on = mutation::put_back(Some(Fault::RestampedBeforeMove));
    assert_eq!(stale_versions(), 1);
}

/// A document is applied, and a write to another one of its row waits: how many are cached under the version that the
/// other will move on. A reader of one is refused by the store, or kept for that if the answer is lost.
fn cached_before_a_move(stuck: bool) -> usize {
    let mut world = World::new(1);
    world.database.stamps = false;
    write(&mut world, "left", None).expect("it is taken");
    write(&mut world, "right", None).expect("it is taken");
    if stuck {
        world.buffer.quarantine(2, "refused".into());
    }
    let Some(Work::Carry(batch)) = world.buffer.next_work(1) else { panic!("there is something to carry") };
    world.database.commit(&batch.commits[0]).expect("nobody else writes");
    let told = vec![(key("left"), world.database.get(&key("left")))];
    let applied = world.buffer.applied(&batch, &[told]);
    world.buffer.finish(batch, false);
    assert_eq!(applied.emptied, [key("left")]);
    applied.restamped.len()
}

#[test]
fn what_our_own_write_will_move_on_is_not_cached() {
    for stuck in [false, true] {
        assert_eq!(cached_before_a_move(stuck), 0);
        let _on = mutation::put_back(Some(Fault::CachedBeforeMove));
        assert_eq!(cached_before_a_move(stuck), 1);
    }
}
