//! Documents that share their place: with one that is deleted the others go. And what waits behind a quarantined one.

use std::collections::BTreeSet;

use forebay::change::{Change, apply_all};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::{Lane, Ties};
use forebay::outage::pending::{Buffer, Merged, Work};
use forebay::outage::{Record, Standing};
use forebay::store::forms::{OnDelete, RowForm};
use forebay::store::{Caps, Commit, Form, Write};
use forebay::{Blob, Key, Read, TxnId, Value, Version};

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn set(field: &str, value: &str) -> Change {
    Change::SetField(Blob::from(field.as_bytes()), Blob::from(value.as_bytes()))
}

/// A store of others' rows.
struct World {
    buffer: Buffer,
    sequence: u64,
}

impl World {
    fn new() -> World {
        World { buffer: Buffer::new(1 << 20, Caps { ordered: false, owned: false, applies: true }, 1), sequence: 0 }
    }

    /// One change of `name`, unseen, is buffered and journaled.
    fn take(&mut self, name: &str, change: Change, ties: Ties) -> u64 {
        self.take_as(name, change, ties, None)
    }

    /// Likewise; with the form of the document it may take the place of the one before it.
    fn take_as(&mut self, name: &str, change: Change, ties: Ties, form: Option<&Form>) -> u64 {
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let mut after = None;
        apply_all(&mut after, std::slice::from_ref(&change)).expect("it fits");
        let unseen = !matches!(change, Change::Delete);
        let writes = vec![Write { key: key(name), changes: vec![change].into(), after, unseen, told: false }];
        let commit = Commit::new(TxnId(version), version, writes);
        let (number, _) = self.buffer.take(&commit, ties, false, form, 0).expect("there is room");
        self.buffer.written(number, &commit.writes);
        self.buffer.validate();
        number
    }

    /// What is buffered of `field`.
    fn field(&self, name: &str, field: &str) -> Option<Option<Blob>> {
        self.buffer.field(&key(name), field.as_bytes())
    }
}

/// `row` and `beside` are two documents of one row.
fn ties(name: &str, deletes: bool) -> Ties {
    let other = if name == "row" { "beside" } else { "row" };
    let takes_along = if deletes { vec![key(other)] } else { Vec::new() };
    let lanes = [Lane::Together(1)].into_iter().collect();
    Ties { lanes, follows: vec![key(other)], takes_along, beside: vec![(0, key(other))], ..Ties::default() }
}

#[test]
fn what_is_buffered_of_a_field_goes_with_the_row() {
    let mut world = World::new();
    world.take("beside", set("a", "1"), ties("beside", false));
    assert_eq!(world.field("beside", "a"), Some(Some(Blob::from(*b"1"))));
    let delete = world.take("row", Change::Delete, ties("row", true));
    assert_eq!((world.field("beside", "a"), world.field("beside", "b")), (Some(None), Some(None)));
    world.take("beside", set("b", "2"), ties("beside", false));
    assert_eq!(world.field("beside", "b"), Some(Some(Blob::from(*b"2"))));
    assert_eq!(world.field("beside", "a"), Some(None));
    let stored = || Read { value: Some(hash(&[("a", "0"), ("c", "0")])), version: Version::ZERO };
    assert_eq!(world.buffer.on_top_of(&key("beside"), stored(), &BTreeSet::new()).value, Some(hash(&[("b", "2")])));
    // Given up, it takes nothing along.
    world.buffer.quarantine(delete, "refused".into());
    world.buffer.give_up(delete).expect("it is quarantined");
    assert_eq!(world.field("beside", "a"), Some(Some(Blob::from(*b"1"))));
    let fields = [("a", "1"), ("b", "2"), ("c", "0")];
    assert_eq!(world.buffer.on_top_of(&key("beside"), stored(), &BTreeSet::new()).value, Some(hash(&fields)));
    world.buffer.validate();
}

/// A row is deleted and made again by one document, in one merge: what another document held is gone all the same.
fn left_beside_a_merge() -> Option<Value> {
    let mut world = World::new();
    let form = Form::Row(RowForm { on_delete: OnDelete::Row, ..RowForm::default() });
    let ties = |deletes| Ties { lanes: [Lane::Hashed(1)].into_iter().collect(), ..ties("row", deletes) };
    world.take_as("row", Change::Delete, ties(true), Some(&form));
    world.take_as("row", set("a", "1"), ties(false), Some(&form));
    assert_eq!(world.buffer.amount().transactions, 1, "they are one");
    world.take("beside", set("b", "2"), self::ties("beside", false));
    let stored = Read { value: Some(hash(&[("b", "0"), ("c", "0")])), version: Version::ZERO };
    world.buffer.on_top_of(&key("beside"), stored, &BTreeSet::new()).value
}

#[test]
fn a_merge_takes_along_what_its_deletion_took() {
    assert_eq!(left_beside_a_merge(), Some(hash(&[("b", "2")])));
    let _on = mutation::put_back(Some(Fault::TakenAlongUnmerged));
    assert_eq!(left_beside_a_merge(), Some(hash(&[("b", "2"), ("c", "0")])));
}

fn hash(fields: &[(&str, &str)]) -> Value {
    let mut value = None;
    let sets: Vec<Change> = fields.iter().map(|(field, value)| set(field, value)).collect();
    apply_all(&mut value, &sets).expect("it fits");
    value.expect("it has fields")
}

/// What the store told of a document does not outlive the row, neither for a reader nor for the next process.
#[test]
fn what_the_store_told_goes_with_the_row() {
    for together in [true, false] {
        let mut world = World::new();
        world.take("beside", set("a", "1"), ties("beside", false));
        world.take("row", Change::Delete, ties("row", true));
        let last = world.take("beside", set("b", "2"), ties("beside", false));
        let told = |value| vec![(key("beside"), Read { value: Some(value), version: Version::ZERO })];
        let Some(Work::Carry(batch)) = world.buffer.next_work(if together { 2 } else { 1 }) else { panic!("it goes") };
        let mut changed = vec![told(hash(&[("a", "1"), ("c", "0")]))];
        changed.extend(together.then(Vec::new));
        let heads = world.buffer.heads(&batch, &changed);
        assert!(heads.iter().all(|head| !matches!(head, Record::Known { number, .. } if *number == last)), "{heads:?}");
        world.buffer.applied(&batch, &changed);
        world.buffer.finish(batch, false);
        world.buffer.validate();
        match world.buffer.merged(&key("beside")) {
            Merged::Known(read) => assert_eq!(read.value, Some(hash(&[("b", "2")])), "together: {together}"),
            other => assert_eq!(other, Merged::Unknown, "together: {together}"),
        }
        // In one batch with what comes behind the deletion.
        let Some(Work::Carry(batch)) = world.buffer.next_work(9) else { panic!("the rest goes") };
        let commit = batch.commits.last().expect("it is there");
        assert!(commit.writes[0].unseen || commit.writes[0].after == Some(hash(&[("b", "2")])), "{commit:?}");
    }
}

/// The database refuses a child whose parent is gone: so a parent's deletion waits for what names it, as children wait
/// for a parent.
#[test]
fn a_parent_waits_for_a_child_that_is_set_aside() {
    let mut world = World::new();
    let lanes = || [Lane::Together(1)].into_iter().collect();
    let child = Ties { lanes: lanes(), follows: vec![key("parent")], ..Ties::default() };
    let child = world.take("child", set("parent", "1"), child);
    world.buffer.quarantine(child, "it refuses the child".into());
    let alone = || Ties { lanes: lanes(), ..Ties::default() };
    let changed = world.take("parent", set("name", "x"), alone());
    let delete = world.take("parent", Change::Delete, alone());
    let other = world.take("other", Change::Delete, alone());
    assert_eq!(world.buffer.standing(changed), Some(Standing::Waiting), "a change of it bothers no child");
    assert_eq!(world.buffer.standing(delete), Some(Standing::Behind(child)));
    assert_eq!(world.buffer.standing(other), Some(Standing::Waiting));
    assert!(world.buffer.retry(child));
    assert_eq!(world.buffer.standing(delete), Some(Standing::Waiting));
    world.buffer.quarantine(child, "again".into());
    assert_eq!(world.buffer.standing(delete), Some(Standing::Behind(child)));
    world.buffer.give_up(child).expect("it is quarantined");
    assert_eq!(world.buffer.standing(delete), Some(Standing::Waiting));
    world.buffer.validate();
}

/// Likewise where the child is deleted: what it names is known once the store was asked.
#[test]
fn a_parent_waits_for_a_child_whose_deletion_is_set_aside() {
    let mut world = World::new();
    let lanes = || Ties { lanes: [Lane::Together(1)].into_iter().collect(), ..Ties::default() };
    let child = world.take("child", Change::Delete, lanes());
    let grandparent = world.take("grandparent", Change::Delete, lanes());
    world.buffer.quarantine(child, "it refuses what was with it".into());
    let parent = world.take("parent", Change::Delete, lanes());
    let other = world.take("other", Change::Delete, lanes());
    let asked = |world: &mut World| world.buffer.unnamed(&BTreeSet::new()).expect("it has to be asked").1;
    let name = |world: &mut World, number: u64, name: &str| {
        world.buffer.name(number, vec![key(name)]);
        world.buffer.validate();
    };
    assert_eq!(asked(&mut world), [(child, vec![key("child")])]);
    assert_eq!(world.buffer.unnamed(&BTreeSet::from([Lane::Together(1)])), None, "it is being asked");
    // Meanwhile later deletions of the lane wait, written at once too; nothing else does.
    let lane = [Lane::Together(1)];
    assert!(world.buffer.must_queue(&lane[..], [].into_iter(), [key("grandparent")].iter()));
    let beside = world.take(
        "elsewhere",
        Change::Delete,
        Ties { lanes: [Lane::Hashed(1)].into_iter().collect(), ..Ties::default() },
    );
    let changed = world.take("more", set("a", "1"), lanes());
    let mut carried = Vec::new();
    while let Some(Work::Carry(batch)) = world.buffer.next_work(9) {
        carried.extend(batch.numbers.iter().copied());
        world.buffer.applied(&batch, &vec![Vec::new(); batch.numbers.len()]);
        world.buffer.finish(batch, false);
    }
    assert_eq!(carried, [beside], "{changed} is behind deletions in its lane");
    let before = world.buffer.amount().bytes;
    name(&mut world, child, "parent");
    assert!(world.buffer.amount().bytes > before);
    assert_eq!(asked(&mut world), [(parent, vec![key("parent")])], "it waits now, and may leave something itself");
    name(&mut world, parent, "grandparent");
    let standing = |world: &World| [parent, grandparent, other].map(|number| world.buffer.standing(number));
    let waiting = Some(Standing::Waiting);
    assert_eq!(
        standing(&world),
        [Some(Standing::Behind(child)), waiting.clone(), waiting.clone()],
        "only what is later"
    );
    assert!(world.buffer.must_queue(&[], [].into_iter(), [key("grandparent")].iter()));
    assert!(!world.buffer.must_queue(&[], [].into_iter(), [key("none")].iter()));
    assert!(world.buffer.retry(child));
    assert_eq!(standing(&world), [waiting.clone(), waiting.clone(), waiting]);
    assert!(world.buffer.amount().bytes <= before);
    assert!(!world.buffer.must_queue(&[], [].into_iter(), [key("grandparent")].iter()), "that is forgotten");
    world.buffer.validate();
}
