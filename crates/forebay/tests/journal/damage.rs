//! What flipped bits and cut files make of a journal.

use forebay::outage::lossy::Lossy;
use forebay::outage::{OpenError, Record};
use forebay::runtime::simulated::SplitMix;
use forebay::store::embedded::Durability;

use crate::naive::Naive;
use crate::{Life, options};

const NAME: &str = "journal";

/// A journal of some groups, what is pending after each record, and where the last group begins.
struct Sample {
    bytes: Vec<u8>,
    states: Vec<Naive>,
    last_group: usize,
}

fn sample(seed: u64) -> Sample {
    let mut random = SplitMix::new(seed);
    let disk = Lossy::new();
    let life = Life::open(&disk, seed, options(Durability::Always)).unwrap();
    let mut states = vec![Naive::default()];
    let mut next = 1;
    let mut last_group = 0;
    for _ in 0..6 {
        let mut group = Vec::new();
        for _ in 0..3 {
            let mut state = states[states.len() - 1].clone();
            let record = state.next(next, &mut random);
            state.apply(&record);
            next += 1;
            states.push(state);
            group.push(record);
        }
        last_group = disk.bytes(NAME).unwrap().len();
        assert!(life.append(group).iter().all(Result::is_ok));
    }
    Sample { bytes: disk.bytes(NAME).unwrap(), states, last_group }
}

enum Seen {
    /// So many records, and whether a tail was cut off.
    Prefix(usize, bool),
    Damaged(u64),
    Other,
}

fn examine(sample: &Sample, bytes: Vec<u8>) -> Seen {
    let disk = Lossy::new();
    disk.put(NAME, bytes);
    match Life::open(&disk, 1, options(Durability::Always)) {
        Ok(mut life) => {
            let torn = life.found.as_ref().unwrap().torn.is_some();
            let pending = life.pending().expect("what opens can be read");
            let reached = sample.states.iter().rposition(|state| *state == pending);
            Seen::Prefix(reached.expect("what is read is a prefix of what was written"), torn)
        }
        Err(OpenError::Damaged { file, offset, .. }) => {
            assert_eq!(file, "lossy/journal");
            Seen::Damaged(offset)
        }
        Err(OpenError::UnknownFormat { .. }) => Seen::Other,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_flipped_bit_is_damage_or_at_the_very_end_a_torn_tail() {
    for seed in 0..3 {
        let sample = sample(seed);
        let all = sample.states.len() - 1;
        assert!(matches!(examine(&sample, sample.bytes.clone()), Seen::Prefix(reached, false) if reached == all));
        let mut random = SplitMix::new(seed);
        let few = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 1 } else { 5 };
        for at in (0..sample.bytes.len()).filter(|at| at % few == 0) {
            let mut bytes = sample.bytes.clone();
            bytes[at] ^= 1 << random.below(8);
            match examine(&sample, bytes) {
                Seen::Damaged(offset) => assert!(offset as usize <= at && at < sample.last_group, "{at}: {offset}"),
                Seen::Prefix(_, torn) => assert!(torn && at >= sample.last_group, "byte {at} was not missed"),
                Seen::Other => assert!((8..12).contains(&at), "{at}"),
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_short_keeps_a_prefix() {
    for seed in 0..3 {
        let sample = sample(seed);
        for length in 0..sample.bytes.len() {
            match examine(&sample, sample.bytes[..length].to_vec()) {
                Seen::Prefix(reached, _) => assert!(reached < sample.states.len()),
                Seen::Damaged(offset) => assert!(offset as usize <= length, "{length}: {offset}"),
                Seen::Other => panic!("{length}"),
            }
        }
    }
}

#[test]
fn damage_by_chance_never_brings_up_what_was_not_written() {
    let rounds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 100_000 } else { 1_000 };
    let sample = sample(7);
    let mut random = SplitMix::new(7);
    for _ in 0..rounds {
        let mut bytes = sample.bytes.clone();
        for _ in 0..1 + random.below(4) {
            let (from, to) = (random.below(bytes.len() as u64) as usize, random.below(bytes.len() as u64) as usize);
            let length = (1 + random.below(200) as usize).min(bytes.len() - from.max(to));
            match random.below(4) {
                0 => bytes.copy_within(from..from + length, to),
                1 => bytes[from..from + length].fill(0),
                2 => bytes[from] = random.draw() as u8,
                _ => drop(bytes.splice(from..from, (0..length).map(|at| at as u8)).count()),
            }
        }
        examine(&sample, bytes);
    }
}

/// A record of the unsynced tail that is gone does not make damage of those behind it: nothing said that it was safe.
#[test]
fn a_hole_in_what_was_never_synced_is_a_torn_tail_with_a_trace() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Never)).unwrap();
    let mut random = SplitMix::new(1);
    for number in 1..=6 {
        let record = Record::Buffered(crate::naive::buffered(number, &mut random));
        assert_eq!(life.append(vec![record]), [Ok(())]);
    }
    let epoch = life.journal.epoch();
    drop(life);
    // The first record was synced with its reservation; of the five others the second is lost.
    let mut at = 0;
    disk.crash(|length| {
        at += 1;
        (at != 2).then_some(length)
    });
    let mut life = Life::open(&disk, 2, options(Durability::Never)).unwrap();
    let lost = life.lost().expect("a loss");
    assert_eq!((lost.epoch, lost.after, lost.seen), (epoch, 2, 6));
    assert!(lost.covers(epoch, 3) && lost.covers(epoch, 6) && !lost.covers(epoch, 2));
    assert_ne!(life.journal.epoch(), epoch);
    assert!(life.found.as_ref().unwrap().next_number > lost.up_to);
    assert!(life.found.as_ref().unwrap().torn.is_some());
    assert_eq!(life.pending().unwrap().0.keys().copied().collect::<Vec<_>>(), [1, 2]);
}
