//! Damage done to store files, for tests. It is what disks, copies and hands do to a file that was valid, and a look
//! at what the store makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::embedded::{Durability, Embedded, EmbeddedOptions};
use super::forgetful::Forgetful;
use super::suite::{block_on, write};
use super::{Commit, CommitOutcome, ReadError, Store};
use crate::change::Change;
use crate::key::{Key, SPACES};
use crate::runtime::{Backend, Runtime};
use crate::value::{Data, Hash, List, Set, Value};
use crate::version::{Mint, TxnId};

/// Damage comes in such pieces: a page of the file, a sector.
const BLOCK_BYTES: [usize; 3] = [4096, 512, 64];

const OPTIONS: EmbeddedOptions = EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 1 << 20 };

/// One thing done to a file. Any numbers make one, so that a generator need not know the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is done.
    pub kind: u8,
    /// Where: a share of the file's length.
    pub at: u32,
    /// Where else, or how much.
    pub other: u32,
}

impl Damage {
    /// Does it.
    pub fn apply(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let place = |share: u32| ((u64::from(share) * bytes.len() as u64) >> 32) as usize;
        let (at, block) = (place(self.at), BLOCK_BYTES[self.other as usize % BLOCK_BYTES.len()]);
        let aligned = |place: usize| place / block * block;
        match self.kind % 8 {
            0 | 1 => bytes[at] ^= 1 << (self.other % 8),
            2 => bytes[at] = self.other as u8,
            3 => {
                let end = bytes.len().min(aligned(at) + block);
                bytes[aligned(at)..end].fill(0);
            }
            4 => {
                let end = bytes.len().min(aligned(at) + block);
                noise(self.other, &mut bytes[aligned(at)..end]);
            }
            5 => {
                let (one, two) = (aligned(at), aligned(place(self.other)));
                let length = block.min(bytes.len() - one.max(two));
                // Two blocks of the same size are the same or do not overlap.
                (0..length).for_each(|byte| bytes.swap(one + byte, two + byte));
            }
            6 => bytes.truncate(at),
            _ => {
                let length = bytes.len();
                bytes.resize(length + self.other as usize % 20_000, 0);
                noise(self.at, &mut bytes[length..]);
            }
        }
    }
}

fn noise(seed: u32, bytes: &mut [u8]) {
    let mut state = u64::from(seed) | 1 << 40;
    for byte in bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
}

/// Does blocking work at once, runs no task, and its clock stands still.
struct Inline;

impl Backend for Inline {
    fn now_us(&self) -> u64 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        4
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

/// A valid file and what it holds.
pub struct Sample {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its documents.
    pub documents: BTreeMap<Key, Value>,
    /// Keys that it does not hold, any more or at all.
    pub absent: Vec<Key>,
}

/// What came out of a damaged file.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The error with which it was refused; the rest is then empty.
    pub refused: Option<String>,
    /// Reads that were answered as they should be.
    pub right: usize,
    /// Errors of reads, scans and commits.
    pub told: Vec<String>,
    /// Answers that are not what was written, and that no error announced.
    pub wrong: Vec<String>,
}

fn documents(random: &mut impl FnMut(u64) -> u64) -> Vec<(Key, Option<Value>)> {
    let mut written = Vec::new();
    for number in 0..60u64 {
        let space = if number % 5 == 0 { SPACES - 1 } else { 0 };
        let key = Key::new(space, format!("document {number}").as_bytes());
        let elements: u64 = if number % 3 == 0 { 200 } else { 3 };
        let word = |at: u64| format!("{number} {at} {}", "word ".repeat(4 + at as usize % 3));
        let data = match random(5) {
            0 => Data::Hash((0..elements).fold(Hash::default(), |mut hash, at| {
                hash.insert(at.to_be_bytes().as_slice().into(), word(at).as_bytes().into());
                hash
            })),
            1 => Data::Set((0..elements).fold(Set::default(), |mut set, at| {
                set.insert(word(at).as_bytes().into());
                set
            })),
            2 => Data::List((0..elements).fold(List::default(), |mut list, at| {
                list.push_right(word(at).as_bytes().into());
                list
            })),
            _ => Value::bytes(word(0).repeat(elements as usize * 5).into_bytes()).data,
        };
        let expires_at_ms = (random(3) == 0).then_some(1_000_000 + number);
        written.push((key, (random(6) > 0).then_some(Value { data, expires_at_ms })));
    }
    written
}

impl Sample {
    /// A file with documents of all shapes, some written more than once, some deleted.
    #[expect(clippy::new_without_default, reason = "it costs a file")]
    pub fn new() -> Sample {
        let disk = Forgetful::new();
        let mut documents_now = BTreeMap::new();
        let mut absent = vec![Key::new(0, b"never there")];
        let mut state = 11u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for _ in 0..3 {
            let store = open(&disk).unwrap_or_else(|why| panic!("a sound file is refused: {why}"));
            let mint = Mint::new(store.incarnation());
            for (key, value) in documents(&mut random) {
                let before = documents_now.get(&key);
                let change = match &value {
                    Some(value) => Change::Put(value.clone()),
                    None => Change::Delete,
                };
                if commit(&store, &mint, &key, before, change).is_err() {
                    panic!("a sound file refuses a commit");
                }
                match value {
                    Some(value) => drop(documents_now.insert(key, value)),
                    None => drop(documents_now.remove(&key)),
                }
            }
        }
        let gone =
            (0..60).flat_map(|at| [0, SPACES - 1].map(|space| Key::new(space, format!("document {at}").as_bytes())));
        absent.extend(gone.filter(|key| !documents_now.contains_key(key)));
        Sample { bytes: disk.bytes(), documents: documents_now, absent }
    }

    /// Opens what `damage` leaves of the file, reads all of it, writes to it, and opens it again.
    pub fn examine(&self, damage: &[Damage]) -> Examined {
        let mut bytes = self.bytes.clone();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        let disk = Forgetful::holding(bytes);
        let mut examined = Examined::default();
        let store = match open(&disk) {
            Ok(store) => store,
            Err(why) => return Examined { refused: Some(why), ..examined },
        };
        self.read(&store, &mut examined);
        let mut written = self.write(&store, &mut examined);
        check(&store, &mut written, "written before", &mut examined);
        drop(store);
        match open(&disk) {
            Ok(store) => check(&store, &mut written, "written before, reopened", &mut examined),
            Err(why) => examined.told.push(why),
        }
        examined
    }

    /// Whether a check of the whole file finds something in what `damage` leaves of it.
    pub fn check_finds(&self, damage: &[Damage]) -> bool {
        let mut bytes = self.bytes.clone();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        let disk = Forgetful::holding(bytes);
        Embedded::check_with_backend(Arc::new(move || Ok(disk.handle()))).is_err()
    }

    fn read(&self, store: &Embedded, examined: &mut Examined) {
        let mut expected: Vec<(Key, Option<Value>)> = self.absent.iter().map(|key| (key.clone(), None)).collect();
        expected.extend(self.documents.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
        check(store, &mut expected, "sample", examined);
        for space in [0, SPACES - 1] {
            let keys: Vec<&Key> = self.documents.keys().filter(|key| key.space() == space).collect();
            match block_on(store.scan(space, None, 1_000)) {
                Ok(found) if found.iter().eq(keys.iter().copied()) => examined.right += 1,
                Ok(found) => examined.wrong.push(format!("scan of {space} finds {} of {}", found.len(), keys.len())),
                Err(error) => examined.told.push(error.to_string()),
            }
            match block_on(store.count(space)) {
                Ok(count) if count == keys.len() as u64 => examined.right += 1,
                Ok(count) => examined.wrong.push(format!("count of {space} is {count}")),
                Err(error) => examined.told.push(error.to_string()),
            }
        }
        let expire = self.documents.values().filter(|value| value.expires_at_ms.is_some()).count();
        match block_on(store.expired(u64::MAX, 1_000)) {
            Ok(found) if found.len() == expire => examined.right += 1,
            Ok(found) => examined.wrong.push(format!("{} of {expire} expire", found.len())),
            Err(error) => examined.told.push(error.to_string()),
        }
    }

    /// Writes documents over old ones and beside them; answers those that were acknowledged.
    fn write(&self, store: &Embedded, examined: &mut Examined) -> Vec<(Key, Option<Value>)> {
        let mint = Mint::new(store.incarnation());
        let mut written = Vec::new();
        let keys = self.documents.keys().step_by(4).cloned().chain((0..5).map(|at| Key::new(0, &[b'n', at])));
        for (at, key) in keys.enumerate() {
            // A long one reaches for pages that the file believes to be free.
            let value = Value::bytes(vec![at as u8; if at % 2 == 0 { 40 } else { 30_000 }]);
            match commit(store, &mint, &key, None, Change::Put(value.clone())) {
                Ok(()) => written.push((key, Some(value))),
                Err(why) => examined.told.push(why),
            }
        }
        written
    }
}

fn open(disk: &Forgetful) -> Result<Embedded, String> {
    let disk = disk.clone();
    let make = Arc::new(move || Ok(disk.handle()));
    Embedded::open_with_backend(Runtime::new(Inline), make, OPTIONS).map_err(|error| error.to_string())
}

fn commit(store: &Embedded, mint: &Mint, key: &Key, before: Option<&Value>, change: Change) -> Result<(), String> {
    let writes = vec![write(key, before, vec![change])];
    let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
    match block_on(store.commit(&[commit])).pop() {
        Some(CommitOutcome::Committed(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn check(store: &Embedded, expected: &mut Vec<(Key, Option<Value>)>, what: &str, examined: &mut Examined) {
    for (key, value) in expected {
        match block_on(store.get(std::slice::from_ref(key))) {
            Ok(reads) if reads.len() == 1 && reads[0].value == *value => examined.right += 1,
            Ok(reads) => {
                let found = reads.first().map(|read| read.value.is_some());
                examined.wrong.push(format!("{what}: {key} is there: {found:?} instead of {}", value.is_some()));
            }
            Err(ReadError::Damaged { key: found, .. }) if found != *key => {
                examined.wrong.push(format!("{what}: asked for {key}, {found} is damaged"));
            }
            Err(error) => examined.told.push(error.to_string()),
        }
    }
}
