//! What becomes one buffered transaction is what a document of its form takes, and comes to the same: rows of a table
//! with defaults, carried over as the buffer hands them out, against each command by itself.

use std::collections::BTreeMap;

use forebay::change::{Change, Changes, apply_all};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::{Lane, Ties};
use forebay::outage::pending::{Buffer, Merged, Work};
use forebay::runtime::simulated::SplitMix;
use forebay::store::forms::RowForm;
use forebay::store::{Caps, Commit, Form, Write};
use forebay::{Blob, Data, Key, Read, TxnId, Value, Version};

/// Beside its key a row has a number, a counter whose default is 7, and a text whose default is x.
const DEFAULTS: [(&str, Option<&str>); 3] = [("number", None), ("counter", Some("7")), ("text", Some("x"))];

fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

fn key() -> Key {
    Key::new(0, b"row:1")
}

fn form() -> Form {
    Form::Row(RowForm { key: [(blob("id"), blob("1"))].into_iter().collect(), ..RowForm::default() })
}

/// One row, as a driver's statements change it: a deletion first, then all columns at once.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table(Option<BTreeMap<Blob, Option<Blob>>>);

impl Table {
    fn apply(&mut self, changes: &[Change]) -> Result<(), String> {
        if !form().takes(changes) {
            return Err(format!("a row does not take {changes:?}"));
        }
        let mut inserts = false;
        // Of each column what it is set to, if it is, and what is added to it.
        let mut sets: BTreeMap<Blob, (Option<Option<Blob>>, i64)> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Delete => (self.0, inserts, sets) = (None, false, BTreeMap::new()),
                Change::SetField(field, _) if **field == *b"id" => inserts = true,
                Change::SetField(field, value) => {
                    inserts = true;
                    sets.insert(field.clone(), (Some(Some(value.clone())), 0));
                }
                Change::UnsetField(field) => drop(sets.insert(field.clone(), (Some(None), 0))),
                Change::AddInteger { field: Some(field), delta } => {
                    inserts = true;
                    sets.entry(field.clone()).or_default().1 += delta;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        let is_new = self.0.is_none() && inserts;
        if is_new {
            let row = DEFAULTS.iter().map(|(name, default)| (blob(name), default.map(blob)));
            self.0 = Some(row.collect());
        }
        let Some(row) = &mut self.0 else { return Ok(()) };
        for (field, (base, added)) in sets {
            // A new row is given what is added, not what is added to a default.
            let base = base.unwrap_or_else(|| row.get(&field).cloned().flatten().filter(|_| !is_new));
            let number = |value: &Blob| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
            let value = match added {
                0 => base,
                added => Some(blob(&(base.as_ref().and_then(number).unwrap_or(0) + added).to_string())),
            };
            row.insert(field, value);
        }
        Ok(())
    }

    /// As it is read.
    fn read(&self) -> Option<Value> {
        let mut document = None;
        let columns = self.0.as_ref()?.iter().filter_map(|(column, value)| Some((column, value.as_ref()?)));
        let set = columns.map(|(column, value)| Change::SetField(column.clone(), value.clone()));
        let changes: Vec<Change> = [Change::SetField(blob("id"), blob("1"))].into_iter().chain(set).collect();
        apply_all(&mut document, &changes).expect("a hash");
        document
    }
}

struct World {
    random: SplitMix,
    buffer: Buffer,
    /// The table with what was carried over, and with each command by itself.
    carried: Table,
    plain: Table,
    sequence: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let caps = Caps { ordered: false, owned: false, applies: true };
        let buffer = Buffer::new(64 << 20, caps, 1);
        World { random: SplitMix::new(seed), buffer, carried: Table::default(), plain: Table::default(), sequence: 0 }
    }

    /// What a transaction makes of one to three commands on a document of which `known` is known.
    fn changes(&mut self, known: Option<&Option<Value>>) -> Changes {
        let mut changes = Changes::new();
        let mut document = known.cloned().flatten();
        for _ in 0..1 + self.random.below(3) {
            let field = blob(["number", "counter"][self.random.below(2) as usize]);
            let number = self.random.below(5) as i64 + 1;
            let change = match self.random.below(9) {
                0 | 1 => Change::Delete,
                2 | 3 => Change::SetField(field, blob(&number.to_string())),
                4 => Change::SetField(blob("text"), blob("set")),
                5 => Change::UnsetField([field, blob("text")][self.random.below(2) as usize].clone()),
                6 => Change::SetField(blob("id"), blob("1")),
                _ => Change::AddInteger { field: Some(field), delta: number },
            };
            let makes = !matches!(change, Change::Delete | Change::UnsetField(_));
            if makes && document.is_none() {
                changes.push(Change::SetField(blob("id"), blob("1")));
            }
            if change == Change::Delete {
                changes.clear();
            }
            changes.push(change);
            document = known.cloned().flatten();
            apply_all(&mut document, &changes).expect("they fit");
        }
        changes
    }

    /// A transaction is acknowledged.
    fn commit(&mut self) {
        let known = match self.buffer.merged(&key()) {
            Merged::Known(read) => Some(read.value),
            Merged::Unknown => None,
            Merged::Nothing => (self.random.below(2) == 0).then(|| self.carried.read()),
        };
        let changes = self.changes(known.as_ref());
        let mut after = known.clone().flatten();
        apply_all(&mut after, &changes).expect("they fit");
        self.plain.apply(&changes).expect("each by itself is taken");
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let alone = form().stands_alone(&changes);
        let write = Write { key: key(), changes, after, unseen: known.is_none() && !alone };
        let commit = Commit::new(TxnId(version), version, vec![write]);
        let ties = Ties { lanes: [Lane::Hashed(1)].into_iter().collect(), ..Ties::default() };
        let taken = self.buffer.take(&commit, ties, false, Some(&form()), 0);
        self.buffer.written(taken.expect("there is room").0, &commit.writes);
        self.buffer.validate();
    }

    /// The store is there for a while.
    fn drain(&mut self, most: usize) -> Result<(), String> {
        for _ in 0..most {
            match self.buffer.next_work(1) {
                None => return Ok(()),
                Some(Work::Carry(batch)) => {
                    self.carried.apply(&batch.commits[0].writes[0].changes)?;
                    let read = Read { value: self.carried.read(), version: batch.commits[0].version };
                    let changed = vec![vec![(key(), read)]];
                    self.buffer.heads(&batch, &changed);
                    self.buffer.applied(&batch, &changed);
                    self.buffer.finish(batch, false);
                }
                Some(Work::Learn(_)) => {
                    self.buffer.learn(&key(), &Read { value: self.carried.read(), version: Version::ZERO });
                }
                Some(work) => return Err(format!("{work:?}")),
            }
            self.buffer.validate();
        }
        Ok(())
    }
}

/// One life; what went wrong in it, and how many transactions became part of others.
fn run(seed: u64) -> Result<u64, String> {
    let mut world = World::new(seed);
    let mut merged = 0;
    for _ in 0..30 {
        let before = world.buffer.amount().transactions;
        world.commit();
        merged += u64::from(world.buffer.amount().transactions == before);
        if world.random.below(8) == 0 {
            world.drain(2)?;
        }
    }
    world.drain(usize::MAX)?;
    match world.carried == world.plain {
        true => Ok(merged),
        false => Err(format!("carried over {:?}, by itself {:?}", world.carried, world.plain)),
    }
}

#[test]
fn a_merged_row_is_what_each_command_makes_of_it() {
    let mut merged = 0;
    for seed in 0..400 {
        merged += run(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(merged > 2_000, "{merged} were merged");
}

#[test]
fn a_merge_that_does_not_ask_is_found() {
    let _on = mutation::put_back(Some(Fault::MergedUntaken));
    assert!((0..200).any(|seed| run(seed).is_err()));
}

/// An empty hash is no document, but a row without other values is a row.
#[test]
fn a_row_keeps_its_key() {
    let Form::Row(row) = form() else { panic!("it is a row") };
    let mut document = None;
    let changes: Vec<Change> = row.is_there().chain([Change::UnsetField(blob("number"))]).collect();
    apply_all(&mut document, &changes).expect("they fit");
    assert!(matches!(document.map(|value| value.data), Some(Data::Hash(hash)) if hash.len() == 1));
}

#[test]
fn a_list_is_put_as_a_whole_and_a_row_is_not() {
    let push = Change::Push(forebay::change::End::Right, blob("a"));
    let list = Form::List.join(vec![Change::Delete], vec![push], false, 256).expect("one list");
    assert!(matches!(list.as_slice(), [Change::Put(_)]) && Form::List.takes(&list) && !form().takes(&list));
    let set = Change::SetField(blob("number"), blob("3"));
    let row = form().join(vec![set.clone(), Change::Delete], vec![set.clone()], false, 256).expect("one row");
    assert_eq!(row, [Change::Delete, set.clone()]);
    let remade = form().join(row, vec![Change::Delete], false, 256);
    assert_eq!(remade, Some(vec![Change::Delete]));
}
