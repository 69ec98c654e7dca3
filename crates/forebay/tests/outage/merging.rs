//! How much becomes one transaction: each merge looks through, copies and journals all of it.

use forebay::change::{Change, End};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::{Lane, Ties};
use forebay::outage::pending::Buffer;
use forebay::outage::record::Record;
use forebay::store::{Caps, Commit, Form, GivenId, Write};
use forebay::{Blob, Key, TxnId, Value, Version};

/// Changes of one document, from many transactions.
struct World {
    buffer: Buffer,
    sequence: u64,
    /// Bytes of the longest string that one of them journaled.
    longest: usize,
}

impl World {
    fn new() -> World {
        let caps = Caps { ordered: false, owned: false, applies: true };
        World { buffer: Buffer::new(64 << 20, caps, 1), sequence: 0, longest: 0 }
    }

    fn take(&mut self, change: Change, after: Option<Value>, given: Vec<GivenId>) {
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let unseen = after.is_none();
        let writes = vec![Write { key: Key::new(0, b"k"), changes: vec![change].into(), after, unseen, told: false }];
        let commit = Commit { given, ..Commit::new(TxnId(version), version, writes) };
        let ties = Ties { lanes: [Lane::Hashed(1)].into_iter().collect(), ..Ties::default() };
        let (number, record) = self.buffer.take(&commit, ties, false, Some(&Form::Document), 0).expect("there is room");
        let (Record::Buffered(told) | Record::Merged { into: told, .. }) = record else { panic!("{record:?}") };
        self.longest = self.longest.max(told.writes[0].changes.len() + told.known.len());
        self.buffer.written(number, &commit.writes);
        self.buffer.validate();
    }

    fn transactions(&self) -> usize {
        self.buffer.amount().transactions
    }
}

fn field(name: &str) -> Blob {
    Blob::from(name.as_bytes())
}

#[test]
fn what_does_not_add_up_is_several_transactions() {
    let mut world = World::new();
    for turn in 0..1_000 {
        let delta = field(if turn % 2 == 0 { "0.5" } else { "-0.5" });
        world.take(Change::AddFloat { field: Some(field("a")), delta }, None, Vec::new());
    }
    assert_eq!((world.transactions(), world.longest), (4, 256));
    let mut world = World::new();
    for turn in 0..1_000 {
        world.take(Change::Push(End::Right, field(&turn.to_string())), None, Vec::new());
    }
    assert_eq!((world.transactions(), world.longest), (4, 256));
}

#[test]
fn what_adds_up_is_one() {
    let mut world = World::new();
    for turn in 0..1_000 {
        let name = field(if turn % 2 == 0 { "a" } else { "b" });
        world.take(Change::AddInteger { field: Some(name), delta: 1 }, None, Vec::new());
    }
    assert_eq!((world.transactions(), world.longest), (1, 2));
}

/// What is known of a document is journaled with its first transaction; not again and again where it is large.
#[test]
fn a_large_document_is_not_journaled_with_each_write() {
    let mut world = World::new();
    let large = || Some(Value::bytes(vec![b'x'; 100_000]));
    let append = |world: &mut World| world.take(Change::Append(field("x")), large(), Vec::new());
    append(&mut world);
    let first = world.buffer.amount().bytes;
    for _ in 0..100 {
        append(&mut world);
    }
    assert_eq!(world.transactions(), 2);
    assert!(world.buffer.amount().bytes < first + 10_000);
    // What replaces it needs nothing of what was.
    world.take(Change::Put(Value::bytes(*b"y")), Some(Value::bytes(*b"y")), Vec::new());
    assert_eq!(world.transactions(), 2);
}

#[test]
fn ids_that_clients_gave_are_kept_in_bounds() {
    let mut world = World::new();
    for id in 0..1_000 {
        let given = vec![GivenId { user: field("u"), id }];
        world.take(Change::AddInteger { field: None, delta: 1 }, None, given);
    }
    assert_eq!(world.transactions(), 4);
    assert_eq!(world.buffer.given().count(), 1_000);
}

/// How many transactions come of two, neither of which has seen the document.
fn of_two_unseen(first: Change, second: Change) -> usize {
    let mut world = World::new();
    world.take(first, None, Vec::new());
    world.take(second, None, Vec::new());
    world.transactions()
}

/// The first is applied, whatever becomes of the second.
#[test]
fn what_is_refused_behind_another_is_one_of_two() {
    let set = |value: &str| Change::SetField(field("f"), field(value));
    let unset = || Change::UnsetField(field("f"));
    let push = || Change::Push(End::Right, field("x"));
    let add = |name: Option<&str>| Change::AddInteger { field: name.map(field), delta: 1 };
    let refused = [
        (set("1"), push()),
        (set("1"), add(None)),
        (unset(), push()),
        (push(), Change::AddMember(field("x"))),
        (Change::Append(field("1")), add(None)),
        (set("x"), add(Some("f"))),
    ];
    for (first, second) in &refused {
        assert_eq!(of_two_unseen(first.clone(), second.clone()), 2, "{first:?} {second:?}");
    }
    let fit = [(set("1"), set("2")), (set("1"), add(Some("f"))), (push(), push()), (add(None), add(None))];
    let whole = [(set("1"), Change::Put(Value::bytes(*b"x"))), (set("1"), Change::Delete)];
    for (first, second) in fit.into_iter().chain(whole) {
        assert_eq!(of_two_unseen(first.clone(), second.clone()), 1, "{first:?} {second:?}");
    }
    let _on = mutation::put_back(Some(Fault::MergedUnfit));
    assert_eq!(of_two_unseen(set("1"), push()), 1, "the fault is found");
}
