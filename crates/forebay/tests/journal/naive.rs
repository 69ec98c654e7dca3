//! What a journal is meant to hold, said simply; and records by chance.

use std::collections::BTreeMap;

use forebay::change::End;
use forebay::outage::{Buffered, Dropped, Fingerprint, Pending, Record, Standing, Written};
use forebay::runtime::simulated::SplitMix;
use forebay::store::GivenId;
use forebay::{Blob, Change, Key, Read, TxnId, Value, Version};

/// As many stay below the bytes that the tests allow.
const PENDING_MAX: usize = 10;

/// The transactions that are pending, and those that were given up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Naive(pub BTreeMap<u64, Pending>, pub Vec<Dropped>);

impl Naive {
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Buffered(buffered) => self.insert(buffered),
            Record::Applied(numbers) => self.0.retain(|number, _| !numbers.contains(number)),
            Record::Dropped(dropped) => {
                self.0.remove(&dropped.number);
                self.1.push(dropped.clone());
            }
            Record::Quarantined { number, reason } => {
                let standing = Standing::Quarantined(reason.clone());
                self.0.entry(*number).and_modify(|pending| pending.standing = standing);
            }
            Record::Retried { number } => {
                self.0.entry(*number).and_modify(|pending| pending.standing = Standing::Waiting);
            }
            Record::Ordered { number } => {
                self.0.entry(*number).and_modify(|pending| pending.standing = Standing::Ordered);
            }
            Record::Merged { into, from } => {
                self.0.retain(|number, _| !from.contains(number));
                self.insert(into);
                self.0.entry(into.number).and_modify(|pending| pending.merged = true);
            }
            Record::Known { number, key, read, unchecked } => {
                if let Some(pending) = self.0.get_mut(number) {
                    pending.buffered.unchecked |= unchecked;
                    pending.buffered.known.retain(|(old, _)| old != key);
                    pending.buffered.known.push((key.clone(), read.clone()));
                }
            }
            Record::Unchecked { number } => {
                self.0.entry(*number).and_modify(|pending| pending.buffered.unchecked = true);
            }
            Record::Settled { number, key, fingerprint, stored } => {
                if let Some(pending) = self.0.get_mut(number) {
                    let shown = pending.buffered.shown.iter_mut().filter(|(shown, _)| shown == key);
                    shown.for_each(|(_, shown)| *shown = *fingerprint);
                    pending.settled.retain(|(old, _)| old != key);
                    pending.settled.extend(stored.map(|version| (key.clone(), version)));
                }
            }
        }
    }

    fn insert(&mut self, buffered: &Buffered) {
        let (buffered, standing) = (buffered.clone(), Standing::Waiting);
        let pending = Pending { buffered, standing, merged: false, settled: Vec::new() };
        self.0.insert(pending.buffered.number, pending);
    }

    /// A record that fits what is pending; a new transaction gets `number`.
    pub fn next(&self, number: u64, random: &mut SplitMix) -> Record {
        let pending: Vec<u64> = self.0.keys().copied().collect();
        let any = |random: &mut SplitMix| pending[random.below(pending.len() as u64) as usize];
        let kind = match pending.len() {
            0 => 0,
            PENDING_MAX.. => 6,
            _ => random.below(17),
        };
        match kind {
            6 | 7 => {
                let many = 1 + random.below(4) as usize;
                Record::Applied(pending.iter().copied().take(many).collect())
            }
            8 => Record::Applied(pending.iter().copied().filter(|_| random.below(2) == 0).collect()),
            9 => Record::Quarantined { number: any(random), reason: text(random) },
            10 => Record::Retried { number: any(random) },
            14 => Record::Ordered { number: any(random) },
            11 => Record::Dropped(Dropped { number: any(random), reason: text(random), given: few_given(random) }),
            12 => {
                let at = random.below(pending.len() as u64) as usize;
                let from: Vec<u64> = pending.iter().copied().skip(at).take(2).collect();
                let into = if random.below(2) == 0 { from[from.len() - 1] } else { number };
                Record::Merged { into: buffered(into, random), from }
            }
            15 => Record::Unchecked { number: any(random) },
            16 => {
                let number = any(random);
                let shown = self.0[&number].buffered.shown.first().map(|(key, _)| key.clone());
                let (key, fingerprint) = (shown.unwrap_or_else(|| key(random)), Fingerprint(random.draw()));
                let stored = (random.below(2) == 0).then(|| version(random));
                Record::Settled { number, key, fingerprint, stored }
            }
            13 => {
                let (number, key, read) = (any(random), key(random), read(random));
                Record::Known { number, key, read, unchecked: random.below(2) == 0 }
            }
            _ => Record::Buffered(buffered(number, random)),
        }
    }
}

/// The number that `record` brings in; merging may give one that was there.
pub fn number(record: &Record) -> Option<u64> {
    match record {
        Record::Merged { into, from } if from.contains(&into.number) => None,
        Record::Buffered(buffered) | Record::Merged { into: buffered, .. } => Some(buffered.number),
        _ => None,
    }
}

pub fn buffered(number: u64, random: &mut SplitMix) -> Buffered {
    let few = |random: &mut SplitMix, most: u64| 0..random.below(most + 1);
    let mut keys: Vec<Key> = (0..1 + random.below(3)).map(|_| key(random)).collect();
    keys.sort();
    keys.dedup();
    let written = |key: Key, random: &mut SplitMix| Written {
        key,
        changes: (0..1 + random.below(3)).map(|_| change(random)).collect(),
        told: random.below(3) == 0,
    };
    Buffered {
        number,
        id: TxnId(version(random)),
        version: version(random),
        given: few_given(random),
        sent: random.below(3) == 0,
        unchecked: random.below(3) == 0,
        buffered_at_ms: random.draw() >> 20,
        checks: few(random, 3).map(|_| (key(random), version(random))).collect(),
        shown: few(random, 2).map(|_| (key(random), Fingerprint(random.draw()))).collect(),
        known: keys.iter().skip(random.below(3) as usize).map(|key| (key.clone(), read(random))).collect(),
        writes: keys.into_iter().map(|key| written(key, random)).collect(),
    }
}

fn few_given(random: &mut SplitMix) -> Vec<GivenId> {
    let few = 0..random.below(3);
    few.map(|_| GivenId { user: blob(random, 9), id: u128::from(random.draw()) << 60 }).collect()
}

fn key(random: &mut SplitMix) -> Key {
    Key::new(random.below(16) as u8, format!("key {}", random.below(9)).as_bytes())
}

fn read(random: &mut SplitMix) -> Read {
    let value = (random.below(3) > 0).then(|| Value::bytes(blob(random, 200).to_vec()));
    Read { value, version: version(random) }
}

fn version(random: &mut SplitMix) -> Version {
    Version { incarnation: random.below(9), sequence: random.draw() }
}

fn blob(random: &mut SplitMix, most: u64) -> Blob {
    let byte = random.draw() as u8;
    (0..random.below(most)).map(|at| byte.wrapping_add(at as u8)).collect()
}

fn text(random: &mut SplitMix) -> String {
    format!("reason {}", random.below(1000))
}

fn change(random: &mut SplitMix) -> Change {
    let field = (random.below(2) == 0).then(|| blob(random, 9));
    let element = blob(random, 300);
    let end = if random.below(2) == 0 { End::Left } else { End::Right };
    match random.below(16) {
        0 => Change::Put(Value::bytes(element.to_vec())),
        1 => Change::Delete,
        2 => Change::ExpireAt(random.draw()),
        3 => Change::Persist,
        4 => Change::AddInteger { field, delta: random.draw() as i64 },
        5 => Change::AddFloat { field, delta: (*b"1.5").into() },
        6 => Change::Append(element),
        7 => Change::WriteAt { offset: random.below(1 << 20) as usize, bytes: element },
        8 => Change::SetField(blob(random, 9), element),
        9 => Change::UnsetField(element),
        10 => Change::Push(end, element),
        11 => Change::Pop(end),
        12 => Change::RemoveEqual { count: random.draw() as i64, element },
        13 => Change::AddMember(element),
        14 => Change::RemoveExpired(random.draw()),
        _ => Change::RemoveMember(element),
    }
}
