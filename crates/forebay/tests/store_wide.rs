//! Wide commits of the embedded store, compared with a model. Rows that stand side by side go in and out together,
//! and those of others between them stay.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Random, runtime};
use forebay::change::Change;
use forebay::mutation::{self, Fault};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};

/// Names that a run writes, in two key spaces.
const NAMES: u64 = 400;

struct World {
    store: Embedded,
    mint: Mint,
    model: BTreeMap<Key, Value>,
    random: Random,
}

impl World {
    fn new(seed: u64) -> World {
        let handles = Forgetful::new();
        let options = EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 4 << 20 };
        let store = Embedded::open_with_backend(runtime(), Arc::new(move || Ok(handles.handle())), options).unwrap();
        let mint = Mint::new(store.incarnation());
        World { store, mint, model: BTreeMap::new(), random: Random(seed) }
    }

    fn key(&mut self) -> Key {
        let name = format!("{:03}", self.random.below(NAMES));
        Key::new(if self.random.below(8) == 0 { 15 } else { 0 }, name.as_bytes())
    }

    /// Mostly gone, or short; some with an expiry, some in rows of their own.
    fn value(&mut self) -> Option<Value> {
        let len = match self.random.below(20) {
            0..8 => return None,
            8 => 20_000,
            _ => self.random.below(80) as usize,
        };
        let mut value = Value::bytes(vec![b'a' + self.random.below(26) as u8; len]);
        value.expires_at_ms = (self.random.below(6) == 0).then(|| self.random.below(1_000));
        Some(value)
    }

    fn commit(&mut self, writes: BTreeMap<Key, Option<Value>>) {
        let mut made: Vec<_> = writes
            .iter()
            .map(|(key, value)| {
                let change = value.clone().map_or(Change::Delete, Change::Put);
                write(key, self.model.get(key), vec![change])
            })
            .collect();
        // As clients name them.
        let turned = self.random.below(made.len() as u64) as usize;
        made.rotate_left(turned);
        let version = self.mint.next();
        let commit = Commit::new(TxnId(version), version, made);
        assert_eq!(block_on(self.store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
        for (key, value) in writes {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    /// Says where the file and the model differ.
    fn compare(&self) -> Result<(), String> {
        let keys: Vec<Key> = [0, 15]
            .into_iter()
            .flat_map(|space| (0..NAMES).map(move |name| Key::new(space, format!("{name:03}").as_bytes())))
            .collect();
        let reads = block_on(self.store.get(&keys)).map_err(|error| error.to_string())?;
        for (key, read) in keys.iter().zip(reads) {
            if self.model.get(key) != read.value.as_ref() {
                return Err(format!("{key} is {:?}", read.value));
            }
        }
        for space in [0, 15] {
            let count = self.model.keys().filter(|key| key.space() == space).count() as u64;
            if block_on(self.store.count(space)) != Ok(count) {
                return Err(format!("there are not {count} documents in space {space}"));
            }
        }
        self.store.validate()
    }
}

/// Wide commits among small ones.
fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    for _ in 0..8 {
        for _ in 0..world.random.below(12) {
            let (key, value) = (world.key(), world.value());
            world.commit(BTreeMap::from([(key, value)]));
        }
        let (wanted, mut writes) = (32 + world.random.below(NAMES), BTreeMap::new());
        let first = world.random.below(NAMES);
        for number in 0..wanted {
            // Side by side, or here and there.
            let key = match wanted % 2 {
                0 => Key::new(0, format!("{:03}", (first + number) % NAMES).as_bytes()),
                _ => world.key(),
            };
            let value = world.value();
            writes.insert(key, value);
        }
        world.commit(writes);
        world.compare()?;
    }
    Ok(())
}

#[test]
fn wide_commits_leave_what_they_say_and_nothing_else_changes() {
    for seed in 0..12 {
        assert_eq!(run(seed), Ok(()), "seed {seed}");
    }
}

/// A long row of names with one of another program in the middle.
fn stays(fault: Option<Fault>) -> bool {
    let _fault = mutation::put_back(fault);
    let mut world = World::new(1);
    let names = |from: u64| (from..NAMES).step_by(2).map(|name| Key::new(0, format!("{name:03}").as_bytes()));
    let other = Key::new(0, b"201");
    world.commit(names(0).chain([other.clone()]).map(|key| (key, Some(Value::bytes(*b"v")))).collect());
    world.commit(names(0).map(|key| (key, None)).collect());
    block_on(world.store.get(&[other])).is_ok_and(|reads| reads[0].value.is_some())
}

#[test]
fn what_stands_between_the_rows_of_a_wide_commit_stays() {
    assert!(stays(None));
    assert!(!stays(Some(Fault::RunsOverOthers)), "the fault must show");
}
