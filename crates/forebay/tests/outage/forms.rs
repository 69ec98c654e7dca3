//! What becomes one buffered transaction is what a document of its form takes, and comes to the same. Rows of a table
//! with defaults are applied as the buffer hands them out, and compared with each command by itself.

use forebay::change::{Change, End, apply_all};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::{Fill, Lane, Ties};
use forebay::outage::pending::{Buffer, Merged, Work};
use forebay::runtime::simulated::SplitMix;
use forebay::store::{Caps, Commit, Form, Write};
use forebay::{Data, Key, Read, TxnId, Version};

use crate::table::{Row, blob};

const LIST: Form = Form::List { filled: false };

fn key() -> Key {
    Key::new(0, b"row:1")
}

fn form() -> Form {
    Row::new("1").form()
}

struct World {
    random: SplitMix,
    buffer: Buffer,
    /// The table with what was applied, and with each command by itself.
    carried: Row,
    plain: Row,
    sequence: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let caps = Caps { ordered: false, owned: false, applies: true };
        let buffer = Buffer::new(64 << 20, caps, 1);
        World { random: SplitMix::new(seed), buffer, carried: Row::new("1"), plain: Row::new("1"), sequence: 0 }
    }

    /// A transaction is acknowledged. What is known of the row before is what it is.
    fn commit(&mut self) -> Result<(), String> {
        let known = match self.buffer.merged(&key()) {
            Merged::Known(read) => Some(read.value),
            Merged::Unknown => None,
            Merged::Nothing => (self.random.below(2) == 0).then(|| self.carried.read()),
        };
        if known.as_ref().is_some_and(|known| *known != self.plain.read()) {
            return Err(format!("known as {known:?}, it is {:?}", self.plain));
        }
        let changes = self.plain.draw(&mut self.random, known.as_ref());
        let mut after = known.clone().flatten();
        apply_all(&mut after, &changes).expect("they fit");
        self.plain.apply(&changes).expect("each by itself is taken");
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let alone = form().stands_alone(&changes);
        let write = Write { key: key(), changes, after, unseen: known.is_none() && !alone, told: false };
        let commit = Commit::new(TxnId(version), version, vec![write]);
        let fills = Fill::of(&form(), &key(), &commit.writes[0].changes, false, false).into_iter().collect();
        let ties = Ties { lanes: [Lane::Hashed(1)].into_iter().collect(), fills, ..Ties::default() };
        let taken = self.buffer.take(&commit, ties, false, Some(&form()), 0);
        self.buffer.written(taken.expect("there is room").0, &commit.writes);
        self.buffer.validate();
        self.look()
    }

    /// What is buffered of a field is what the row has there.
    fn look(&self) -> Result<(), String> {
        for field in ["id", "number", "counter", "text", "twice"] {
            let (found, row) = (self.buffer.field(&key(), field.as_bytes()), self.plain.read().map(|row| row.data));
            let Some(found) = found else { continue };
            let there = if let Some(Data::Hash(row)) = &row { row.get(field.as_bytes()).cloned() } else { None };
            if found != there {
                return Err(format!("{field} is known as {found:?}, it is {there:?}"));
            }
        }
        Ok(())
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
        world.commit()?;
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

#[test]
fn a_row_shown_without_its_defaults_is_found() {
    let _on = mutation::put_back(Some(Fault::DefaultsGuessed));
    assert!((0..50).any(|seed| run(seed).is_err()));
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
    let push = Change::Push(End::Right, blob("a"));
    let list = LIST.join(vec![Change::Delete], vec![push], false, 256).expect("one list");
    assert!(matches!(list.as_slice(), [Change::Put(_)]) && LIST.takes(&list) && !form().takes(&list));
    let set = Change::SetField(blob("number"), blob("3"));
    let row = form().join(vec![set.clone(), Change::Delete], vec![set.clone()], false, 256).expect("one row");
    assert_eq!(row, [Change::Delete, set.clone()]);
    let remade = form().join(row, vec![Change::Delete], false, 256);
    assert_eq!(remade, Some(vec![Change::Delete]));
}

/// Each two of the ways to change a list: they come to the same list, and what pushes makes the row.
#[test]
fn a_list_that_is_emptied_has_made_its_row() {
    let push = || Change::Push(End::Right, blob("a"));
    let whole = |change: &[Change]| {
        let mut list = None;
        apply_all(&mut list, change).expect("they fit");
        vec![list.map_or(Change::Delete, Change::Put)]
    };
    let remove = || Change::RemoveEqual { count: 0, element: blob("a") };
    let emptied = || LIST.join(vec![push()], vec![Change::Delete], false, 256).expect("one list");
    let ways = [
        vec![push()],
        vec![Change::Delete],
        whole(&[push(), push()]),
        vec![Change::Pop(End::Left)],
        vec![remove()],
        emptied(),
    ];
    let makes = |changes: &[Change]| changes.iter().any(|change| matches!(change, Change::Push(..) | Change::Put(_)));
    let wrong = || {
        let pairs = ways.iter().flat_map(|old| ways.iter().map(move |new| (old, new)));
        let is_wrong = |(old, new): &(&Vec<Change>, &Vec<Change>)| {
            let joined = LIST.join(old.to_vec(), new.to_vec(), false, 256).expect("lists are joined");
            let apart: Vec<Change> = old.iter().chain(*new).cloned().collect();
            let comes = [None, Some([push(), push()])].iter().all(|before| {
                let (mut one, mut other) = (None, None);
                for (list, changes) in [(&mut one, &joined), (&mut other, &apart)] {
                    apply_all(list, before.as_ref().map_or(&[][..], |before| before)).expect("they fit");
                    apply_all(list, changes).expect("they fit");
                }
                one == other
            });
            !comes || makes(&joined) != makes(&apart) || !LIST.takes(&joined)
        };
        pairs.filter(is_wrong).count()
    };
    assert_eq!(wrong(), 0);
    assert_eq!(LIST.join(emptied(), vec![Change::Delete], false, 256), Some(emptied()), "it does not grow");
    let _on = mutation::put_back(Some(Fault::EmptiedListUnmade));
    assert!(wrong() > 0);
}
