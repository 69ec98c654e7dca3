//! What a change to a large document costs, counted in bytes and writes that go to the disk, not in time.

mod common;

use std::sync::Arc;

use common::runtime;
use forebay::change::{Change, End};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::{Forgetful, Written};
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Store, Write};
use forebay::value::{Blob, Data, Hash, List};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};

struct Bench {
    disk: Forgetful,
    store: Embedded,
    mint: Mint,
}

impl Bench {
    fn new() -> Bench {
        let disk = Forgetful::new();
        let handles = disk.clone();
        let options = EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 64 << 20 };
        let make = Arc::new(move || Ok(handles.handle()));
        let store = Embedded::open_with_backend(runtime(), make, options).unwrap();
        let mint = Mint::new(store.incarnation());
        Bench { disk, store, mint }
    }

    fn commit(&self, writes: Vec<Write>) {
        let commit = Commit::new(TxnId(self.mint.next()), self.mint.next(), writes);
        assert_eq!(block_on(self.store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
    }

    /// What one commit costs on average over `rounds`, after one that is not counted.
    fn cost(&self, value: &mut Option<Value>, rounds: u64, mut changes: impl FnMut(u64) -> Vec<Change>) -> Written {
        let mut before = self.disk.written();
        for round in 0..=rounds {
            if round == 1 {
                before = self.disk.written();
            }
            let write = write(&key(), value.as_ref(), changes(round));
            *value = write.after.clone();
            self.commit(vec![write]);
        }
        let after = self.disk.written();
        Written {
            writes: (after.writes - before.writes) / rounds,
            bytes: (after.bytes - before.bytes) / rounds,
            syncs: (after.syncs - before.syncs) / rounds,
        }
    }
}

fn key() -> Key {
    Key::new(0, b"document")
}

fn blob(text: String) -> Blob {
    text.into_bytes().into()
}

fn set_a_field(fields: u64) -> Written {
    let bench = Bench::new();
    let mut hash = Hash::default();
    for field in 0..fields {
        hash.insert(blob(format!("field {field}")), vec![b'x'; 60].into());
    }
    let mut value = Some(Value { data: Data::Hash(hash), expires_at_ms: None });
    bench.commit(vec![write(&key(), None, vec![Change::Put(value.clone().unwrap())])]);
    bench.cost(&mut value, 50, |round| {
        let field = blob(format!("field {}", round * 7919 % fields));
        vec![Change::SetField(field, vec![round as u8; 60].into())]
    })
}

#[test]
fn a_field_of_ten_thousand_costs_at_most_three_times_one_of_ten() {
    let (small, large) = (set_a_field(10), set_a_field(10_000));
    eprintln!("10 fields: {small:?}, 10,000 fields: {large:?}");
    assert!(large.bytes <= 3 * small.bytes && large.writes <= 3 * small.writes, "{small:?} {large:?}");
}

fn pass_an_element(elements: u64) -> Written {
    let bench = Bench::new();
    let mut list = List::default();
    for element in 0..elements {
        list.push_right(blob(format!("a message of a queue, number {element}")));
    }
    let mut value = Some(Value { data: Data::List(list), expires_at_ms: None });
    bench.commit(vec![write(&key(), None, vec![Change::Put(value.clone().unwrap())])]);
    bench.cost(&mut value, 50, |round| {
        let element = blob(format!("a message of a queue, a late one, number {round}"));
        vec![Change::Push(End::Right, element), Change::Pop(End::Left)]
    })
}

#[test]
fn a_queue_of_a_hundred_thousand_costs_at_most_three_times_one_of_ten() {
    let (small, large) = (pass_an_element(10), pass_an_element(100_000));
    eprintln!("10 elements: {small:?}, 100,000 elements: {large:?}");
    assert!(large.bytes <= 3 * small.bytes && large.writes <= 3 * small.writes, "{small:?} {large:?}");
}

#[test]
fn appending_to_megabytes_writes_the_last_chunk() {
    let bench = Bench::new();
    let mut value = Some(Value::bytes(vec![b'x'; 4 << 20]));
    bench.commit(vec![write(&key(), None, vec![Change::Put(value.clone().unwrap())])]);
    let cost = bench.cost(&mut value, 50, |_| vec![Change::Append(vec![b'y'; 100].into())]);
    assert!(cost.bytes < 128 << 10, "{cost:?}");
    let cost = bench.cost(&mut value, 10, |round| vec![Change::ExpireAt(round)]);
    assert!(cost.bytes < 64 << 10, "{cost:?}");
    assert_eq!(cost.syncs, 1, "a group costs one sync");
}

/// A hundred commits in a group share a sync and the pages that they have in common.
#[test]
fn a_group_shares_its_flush() {
    let bench = Bench::new();
    let mut value = None;
    let before = bench.disk.written();
    let mut group = Vec::new();
    for _ in 0..100 {
        let write = write(&key(), value.as_ref(), vec![Change::AddInteger { field: None, delta: 1 }]);
        value = write.after.clone();
        let (id, version) = (TxnId(bench.mint.next()), bench.mint.next());
        group.push(Commit::new(id, version, vec![write]));
    }
    assert_eq!(block_on(bench.store.commit(&group)), vec![CommitOutcome::Committed(Vec::new()); 100]);
    let after = bench.disk.written();
    assert_eq!(after.syncs - before.syncs, 1);
    assert_eq!(block_on(bench.store.get(&[key()])).unwrap()[0].value, Some(Value::bytes(*b"100")));
}
