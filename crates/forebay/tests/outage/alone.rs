//! Transactions that an operator decides about one by one: which has to go first, and what each meets in the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::change::Change;
use forebay::outage::lanes::{Lane, Ties};
use forebay::outage::pending::{Buffer, Work};
use forebay::outage::{ApplyError, Drift, Meets, Mode, Pending, Standing, TicketState};
use forebay::store::{Caps, Commit, CommitOutcome, Write};
use forebay::tier::memory::Memory;
use forebay::{Key, Read, TxnId, Value, Version};

use crate::gate::{Database, commit, open_as, open_in, put, simulated};

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn version(incarnation: u64, sequence: u64) -> Version {
    Version { incarnation, sequence }
}

fn read(text: &str, version: Version) -> Read {
    Read { value: Some(Value::bytes(text.as_bytes())), version }
}

/// All in one lane.
fn ties(follows: &[&str], takes_along: &[&str]) -> Ties {
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
    let lanes = [Lane::Together(1)].into_iter().collect();
    Ties { lanes, follows: keys(follows), takes_along: keys(takes_along), ..Ties::default() }
}

struct World {
    owned: bool,
    buffer: Buffer,
    sequence: u64,
}

impl World {
    fn new(owned: bool) -> World {
        let caps = Caps { ordered: false, owned, applies: true };
        World { owned, buffer: Buffer::new(1 << 20, caps, 1), sequence: 0 }
    }

    /// One change of `name`, which was `read` before, is buffered in incarnation 5 and journaled.
    fn take(&mut self, name: &str, change: Change, ties: Ties, read: Option<Version>) -> u64 {
        self.take_as(name, change, ties, read, None)
    }

    /// The same, where it is known what `after` it the document is.
    fn take_as(&mut self, name: &str, change: Change, ties: Ties, read: Option<Version>, after: Option<&str>) -> u64 {
        self.sequence += 1;
        let version = version(5, self.sequence);
        let (after, unseen) = (after.map(|text| Value::bytes(text.as_bytes())), after.is_none());
        let writes = vec![Write { key: key(name), changes: vec![change].into(), after, unseen, told: false }];
        let mut commit = Commit::new(TxnId(version), version, writes);
        commit.checks.extend(read.map(|version| (key(name), version)));
        let (number, _) = self.buffer.take(&commit, ties, false, None, 0).expect("there is room");
        self.buffer.written(number, &commit.writes);
        self.buffer.validate();
        number
    }

    /// The store has `read`, and compares versions as it does when a transaction is applied: a table of its own has no
    /// incarnations.
    fn meets(&self, number: u64, name: &str, read: &Read) -> Meets {
        self.meets_with(number, name, read, &[])
    }

    fn meets_with(&self, number: u64, name: &str, read: &Read, applied: &[TxnId]) -> Meets {
        let same = |version: Version| match self.owned {
            true => version == read.version,
            false => version.sequence == read.version.sequence,
        };
        let current = self.buffer.made_to(&key(name)).map(|version| (version, same(version)));
        let read = (read.clone(), applied.to_vec());
        self.buffer.meets(number, &key(name), &read, current).expect("it is there")
    }

    fn drift(&self, number: u64, name: &str, read: &Read) -> Drift {
        self.meets(number, name, read).drift
    }

    /// Likewise from its journal, as the next start finds it.
    fn restored(&self) -> World {
        let mut world = World { sequence: self.sequence, ..World::new(self.owned) };
        for number in self.buffer.numbers(None, 0, usize::MAX) {
            let buffered = self.buffer.buffered(number).expect("it is there").clone();
            let found = Pending { buffered, standing: Standing::Waiting, merged: false, settled: Vec::new() };
            world.buffer.restore(found, ties(&[], &[]));
        }
        world.buffer.validate();
        world
    }
}

fn append(text: &str) -> Change {
    Change::Append(text.as_bytes().to_vec().into())
}

#[test]
fn what_has_to_do_with_its_documents_goes_first() {
    let mut world = World::new(false);
    let row = world.take("row", append("1"), ties(&["beside"], &[]), None);
    let other = world.take("other", append("1"), ties(&[], &[]), None);
    let beside = world.take("beside", append("1"), ties(&["row"], &[]), None);
    let delete = world.take("row", Change::Delete, ties(&["beside"], &["beside"]), None);
    let again = world.take("beside", append("2"), ties(&["row"], &[]), None);
    let child = world.take("child", append("1"), ties(&["parent"], &[]), None);
    let parent = world.take("parent", Change::Delete, ties(&[], &[]), None);
    let ahead: Vec<Option<u64>> =
        [row, other, beside, delete, again, child, parent].map(|number| world.buffer.ahead_of(number)).to_vec();
    assert_eq!(ahead, [None, None, Some(row), Some(row), Some(row), None, Some(child)]);
    // Alone, whatever waits before it in its lane; and nothing of that lane beside it.
    [other, again, child].into_iter().for_each(|number| world.buffer.order(number));
    let Some(Work::Carry(batch)) = world.buffer.next_alone() else { panic!("it goes") };
    assert_eq!(batch.numbers, [other]);
    assert!(world.buffer.next_alone().is_none());
    world.buffer.applied(&batch, &[Vec::new()]);
    world.buffer.finish(batch, false);
    world.buffer.validate();
    let Some(Work::Carry(batch)) = world.buffer.next_alone() else { panic!("it goes") };
    assert_eq!(batch.numbers, [child]);
    world.buffer.finish(batch, true);
    world.buffer.validate();
    assert_eq!(world.buffer.ahead_of(parent), Some(child), "it was not answered");
}

#[test]
fn what_it_meets_is_compared_with_what_it_was_made_to() {
    let mut own = World::new(true);
    let known = own.take("k", append("+"), ties(&[], &[]), Some(version(5, 0)));
    let second = own.take("k", append("-"), ties(&[], &[]), None);
    let unseen = own.take("u", append("+"), ties(&[], &[]), None);
    let drifts = |number, name: &str| {
        let absent = Read { value: None, version: version(9, 0) };
        let reads = [read("a", version(5, 0)), read("b", version(4, 7)), read("c", version(6, 1)), absent];
        reads.map(|read| own.meets(number, name, &read).drift)
    };
    assert_eq!(drifts(known, "k"), [Drift::Nothing, Drift::Changed, Drift::ByAnotherOwner, Drift::Unknown]);
    let unknown = [Drift::NotByAnotherOwner, Drift::NotByAnotherOwner, Drift::ByAnotherOwner, Drift::Unknown];
    assert_eq!(drifts(unseen, "u"), unknown);
    let now = read("a", version(5, 0));
    let then = |number, applied: &[TxnId]| {
        let meets = own.meets_with(number, "k", &now, applied);
        (meets.then.expect("it fits").expect("it is there"), meets.drift)
    };
    let text = |text: &str| Value::bytes(text.as_bytes());
    assert_eq!(then(known, &[]), (text("a+"), Drift::Nothing));
    assert_eq!(then(second, &[]).0, text("a+-"));
    let first = [TxnId(version(5, 1))];
    assert_eq!((then(known, &first), then(second, &first).0), ((text("a"), Drift::Applied), text("a-")));
    // Of rows only the version says something.
    let mut rows = World::new(false);
    let known = rows.take("r", append("+"), ties(&[], &[]), Some(version(0, 4)));
    let unseen = rows.take("u", append("+"), ties(&[], &[]), None);
    let of = |number, name: &str| [4, 6].map(|at| rows.meets(number, name, &read("a", version(0, at))).drift);
    assert_eq!([of(known, "r"), of(unseen, "u")], [[Drift::Nothing, Drift::Changed], [Drift::Unknown; 2]]);
}

/// What a row was read under in one start, the store says under the incarnation of the next; and what a document of our
/// own was made to is not noted where it was not checked.
#[test]
fn a_restart_does_not_make_the_untouched_changed() {
    let take = |world: &mut World, name: &str, read| world.take_as(name, append("+"), ties(&[], &[]), read, Some("a+"));
    let mut rows = World::new(false);
    let row = take(&mut rows, "row", Some(version(5, 4)));
    let unread = take(&mut rows, "unread", None);
    let second = rows.take("row", append("-"), ties(&[], &[]), None);
    let (stood, changed) = (read("a", version(7, 4)), read("b", version(7, 6)));
    for world in [&rows, &rows.restored(), &rows.restored().restored()] {
        let of = |number, name: &str| [&stood, &changed].map(|read| world.drift(number, name, read));
        assert_eq!(of(row, "row"), [Drift::Nothing, Drift::Changed]);
        assert_eq!(of(second, "row"), [Drift::Nothing, Drift::Changed]);
        assert_eq!(of(unread, "unread"), [Drift::Unknown; 2]);
        // The store has the first already, and so another version: that says nothing of others.
        let met = world.meets_with(second, "row", &changed, &[TxnId(version(5, 1))]);
        assert_eq!(met.drift, Drift::Unknown);
    }
    let mut own = World::new(true);
    let checked = take(&mut own, "checked", Some(version(4, 9)));
    let unread = take(&mut own, "unread", None);
    let [stood, changed, taken_over] = [version(4, 9), version(5, 0), version(6, 1)].map(|version| read("a", version));
    for world in [&own, &own.restored()] {
        let of = |number, name: &str| [&stood, &changed, &taken_over].map(|read| world.drift(number, name, read));
        assert_eq!(of(checked, "checked"), [Drift::Nothing, Drift::Changed, Drift::ByAnotherOwner]);
        let unknown = Drift::NotByAnotherOwner;
        assert_eq!(of(unread, "unread"), [unknown, unknown, Drift::ByAnotherOwner]);
    }
}

/// A read of a document while nothing is applied does not hide what has become of it.
#[test]
fn what_was_learned_since_is_not_what_it_was_made_to() {
    let mut rows = World::new(false);
    let number = rows.take_as("row", append("+"), ties(&[], &[]), Some(version(5, 4)), Some("a+"));
    let mut rows = rows.restored();
    let now = read("b", version(7, 6));
    rows.buffer.suspect(std::iter::once(&key("row")));
    let story = rows.buffer.story_of(&key("row"));
    assert!(rows.buffer.learn_behind(&key("row"), &now, &story, &[]));
    assert_eq!(rows.drift(number, "row", &now), Drift::Changed);
}

/// A start that does not reach the store has nothing to compare with. What is ordered then would be forgotten when the
/// store is there, since the suspension is declared again.
#[test]
fn nothing_is_ordered_before_the_store_was_reached() {
    simulated(|runtime| async move {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, true));
        let gate = open_in(&memory, &runtime, &database);
        database.inner.set_down(true);
        let CommitOutcome::Buffered(kept) = commit(&gate, put(2, "a")).await else { panic!("it is kept") };
        drop(gate);
        database.inner.set_down(false);
        database.went_back.store(true, Ordering::SeqCst);
        let gate = open_in(&memory, &runtime, &database);
        gate.start_remembering();
        runtime.sleep(Duration::from_secs(2)).await;
        assert!(gate.state().suspended.is_some());
        drop(gate);
        database.inner.set_down(true);
        database.incarnation.store(0, Ordering::SeqCst);
        let gate = open_as(&memory, &runtime, &database, true);
        assert!(gate.state().suspended.is_some(), "the journal says so");
        assert_eq!(gate.apply(kept.ticket).await, Err(ApplyError::NotReached));
        runtime.sleep(Duration::from_secs(2)).await;
        assert_eq!(gate.apply(kept.ticket).await, Err(ApplyError::NotReached));
        database.incarnation.store(4, Ordering::SeqCst);
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(2)).await;
        assert_eq!(gate.ticket(kept.ticket), TicketState::Pending);
        assert_eq!(gate.apply(kept.ticket).await, Ok(()));
        runtime.sleep(Duration::from_secs(2)).await;
        assert!(matches!(gate.ticket(kept.ticket), TicketState::Applied(_)));
        assert_eq!((gate.state().suspended, gate.state().mode), (None, Mode::Normal));
    });
}
