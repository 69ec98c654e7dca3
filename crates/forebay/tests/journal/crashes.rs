//! What a crash leaves.

use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{Epoch, Record};
use forebay::runtime::simulated::SplitMix;
use forebay::store::embedded::Durability;
use forebay::store::survivors::Survivors;

use crate::naive::{Naive, number};
use crate::{Life, options};

const LIVES: usize = 6;

fn seeds() -> u64 {
    if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 3_000 } else { 60 }
}

/// All records in the order in which they were appended, and what is pending after each.
#[derive(Clone)]
struct History {
    states: Vec<Naive>,
    records: Vec<Record>,
    next_number: u64,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Closed,
    Killed,
    PowerLost,
}

impl History {
    fn new() -> History {
        History { states: vec![Naive::default()], records: Vec::new(), next_number: 1 }
    }

    fn len(&self) -> usize {
        self.records.len()
    }

    fn next(&mut self, random: &mut SplitMix) -> Record {
        let mut state = self.states[self.len()].clone();
        let record = state.next(self.next_number, random);
        state.apply(&record);
        if number(&record) == Some(self.next_number) {
            // Gaps are allowed.
            self.next_number += 1 + random.below(2);
        }
        self.states.push(state);
        self.records.push(record.clone());
        record
    }

    fn truncate(&mut self, length: usize) {
        self.states.truncate(length + 1);
        self.records.truncate(length);
    }

    /// Numbers that were brought in by records from `from` on, before `to`.
    fn numbers(&self, from: usize, to: usize) -> impl Iterator<Item = u64> {
        self.records[from..to].iter().filter_map(number)
    }
}

/// The first `safe` records have to be there, `acknowledged` may be missed only if the loss is reported.
struct Expected {
    safe: usize,
    acknowledged: usize,
    ending: Ending,
    epoch: Epoch,
}

/// Opens and checks what is there; how many records that are.
fn reopen(disk: &Lossy, history: &History, expected: &Expected, seed: u64, durability: Durability) -> (Life, usize) {
    let mut life = Life::open(disk, seed, options(durability)).unwrap();
    let (lost, found) = (life.lost(), life.found.as_ref().unwrap());
    let (epoch, next_number) = (found.epoch, found.next_number);
    assert_eq!(found.losses.last().copied().filter(|_| lost.is_some()), lost);
    if expected.ending == Ending::Closed {
        assert_eq!(found.torn, None);
    }
    let pending = life.pending().unwrap();
    let mut prefixes = (0..=history.len()).rev();
    let reached = prefixes.find(|length| history.states[*length] == pending).expect("what is left is a prefix");
    assert!(reached >= expected.safe, "{} records were safe, {reached} are left", expected.safe);
    let missing: Vec<u64> = history.numbers(reached, expected.acknowledged.max(reached)).collect();
    for number in missing {
        let lost = lost.unwrap_or_else(|| panic!("{number} was acknowledged, is gone, and nothing says so"));
        assert!(lost.covers(expected.epoch, number), "{lost:?} does not cover {number}");
    }
    assert_eq!(epoch != expected.epoch, lost.is_some(), "an epoch ends with a loss, and only so");
    match expected.ending {
        Ending::Closed | Ending::Killed => assert_eq!(lost, None),
        Ending::PowerLost => {}
    }
    let above = history.numbers(0, expected.acknowledged).max().unwrap_or(0);
    assert!(next_number > above, "{next_number} would be given twice");
    // Records that undo each other leave the same state with and without them; those of them that were never
    // acknowledged may not be there.
    let surely = (expected.safe..=reached).find(|length| history.states[*length] == pending);
    (life, surely.unwrap_or(reached))
}

/// Some lives, each ended in the middle of work.
fn run(seed: u64, durabilities: &[Durability]) -> usize {
    let mut random = SplitMix::new(seed);
    let disk = Lossy::new();
    let mut history = History::new();
    let first = Life::open(&disk, seed, options(durabilities[0])).unwrap();
    let mut expected = Expected { safe: 0, acknowledged: 0, ending: Ending::Killed, epoch: first.journal.epoch() };
    drop(first);
    disk.kill();
    let mut losses = 0;
    for nth in 0..LIVES {
        let durability = durabilities[random.below(durabilities.len() as u64) as usize];
        let (life, reached) = reopen(&disk, &history, &expected, seed * 31 + nth as u64, durability);
        losses += usize::from(expected.epoch != life.journal.epoch());
        history.truncate(reached);
        history.next_number = history.next_number.max(life.journal.stat().last_number + 1);
        expected.epoch = life.journal.epoch();
        (expected.safe, expected.acknowledged) = (reached, reached);
        if random.below(100) < 50 {
            disk.fail_in(Some(random.below(60)));
        }
        for _ in 0..random.below(25) {
            let group: Vec<Record> = (0..1 + random.below(4)).map(|_| history.next(&mut random)).collect();
            let answers = life.append(group);
            let taken = answers.iter().take_while(|answer| answer.is_ok()).count();
            expected.acknowledged = history.len() - answers.len() + taken;
            if durability == Durability::Always {
                expected.safe = expected.acknowledged;
            }
            if taken < answers.len() {
                assert!(life.flush().is_err(), "a journal that failed is closed");
                break;
            }
            if random.below(100) < 15 && life.flush().is_ok() {
                expected.safe = expected.acknowledged;
            }
        }
        disk.fail_in(None);
        expected.ending = match random.below(4) {
            0 if life.run(|journal| async move { journal.close().await }).is_ok() => Ending::Closed,
            1 => Ending::Killed,
            _ => Ending::PowerLost,
        };
        if expected.ending != Ending::PowerLost {
            expected.safe = expected.acknowledged;
        }
        drop(life);
        match expected.ending {
            Ending::PowerLost => disk.crash(Survivors::Chance(random.draw()).choice()),
            _ => disk.kill(),
        }
    }
    reopen(&disk, &history, &expected, seed + 1_000_000, durabilities[0]);
    losses
}

#[test]
fn always_loses_nothing_that_was_acknowledged() {
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        assert_eq!(run(seed, &[Durability::Always]), 0);
    }
}

/// A rewriting had failed between its rename and the sync of the folder; the next process appended to the new file, and
/// a power loss brought the old one back, with what was acknowledged since gone.
#[test]
fn a_name_that_was_not_synced_is_at_the_next_start() {
    for seed in [91, 94, 1371] {
        assert_eq!(run(seed, &[Durability::Always]), 0);
    }
}

#[test]
fn what_interval_and_never_lose_is_reported() {
    let mut losses = 0;
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        losses += run(seed, &[Durability::Interval { sync_ms: 1_000 }, Durability::Never]);
    }
    assert!(losses > 0, "nothing was ever lost");
}

#[test]
fn durability_may_change_from_start_to_start() {
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        run(seed, &[Durability::Always, Durability::Interval { sync_ms: 1_000 }, Durability::Never]);
    }
}

/// Opening, some groups, a rewriting: on a disk that stops at each of its calls in turn, and then loses power with
/// every prefix of what was not synced, all but each one, and some by chance. How many crashes that were.
fn every_step(seed: u64, durability: Durability) -> usize {
    let mut random = SplitMix::new(seed);
    let disk = Lossy::new();
    let mut history = History::new();
    let life = Life::open(&disk, seed, options(durability)).unwrap();
    let epoch = life.journal.epoch();
    let records: Vec<Record> = (0..30).map(|_| history.next(&mut random)).collect();
    assert!(life.append(records).iter().all(Result::is_ok));
    life.flush().unwrap();
    drop(life);
    disk.kill();
    let before = history.len();
    let mut crashes = 0;
    for step in 0.. {
        let (disk, mut history, mut random) = (disk.copy(), history.clone(), SplitMix::new(seed + 1));
        let mut expected = Expected { safe: before, acknowledged: before, ending: Ending::PowerLost, epoch };
        disk.fail_in(Some(step));
        let mut done = false;
        if let Ok(life) = Life::open(&disk, seed, options(durability)) {
            history.next_number = history.next_number.max(life.journal.stat().last_number + 1);
            for _ in 0..3 {
                let group: Vec<Record> = (0..4).map(|_| history.next(&mut random)).collect();
                let answers = life.append(group);
                expected.acknowledged += answers.iter().take_while(|answer| answer.is_ok()).count();
                if expected.acknowledged < history.len() {
                    break;
                }
            }
            if durability == Durability::Always {
                expected.safe = expected.acknowledged;
            }
            let description = options(durability).description;
            done = life.run(|journal| async move { journal.describe(description).await }).is_ok();
            if done {
                expected.safe = expected.acknowledged;
            }
        }
        for survivors in Survivors::of(disk.unsynced(), random.draw()) {
            let disk = disk.copy();
            disk.crash(survivors.choice());
            // Another seed: another life draws another epoch.
            let (life, reached) = reopen(&disk, &history, &expected, seed + 1_000, durability);
            let mut history = history.clone();
            history.truncate(reached);
            history.next_number = life.journal.stat().last_number + 1;
            let next = history.next(&mut random);
            assert_eq!(life.append(vec![next]), [Ok(())], "it goes on");
            crashes += 1;
        }
        if done {
            return crashes;
        }
    }
    unreachable!("the disk lets it through at last")
}

#[test]
fn a_crash_at_every_step() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 200 } else { 4 };
    for seed in 0..seeds {
        for durability in [Durability::Always, Durability::Interval { sync_ms: 1_000 }] {
            eprintln!("seed {seed}, {durability:?}");
            let crashes = every_step(seed, durability);
            assert!(crashes > 40, "{crashes} crashes");
        }
    }
}

#[test]
fn a_record_that_is_acknowledged_before_its_sync_is_found() {
    let _on = mutation::put_back(Some(Fault::AcknowledgedBeforeFsync));
    assert!(std::panic::catch_unwind(|| every_step(0, Durability::Always)).is_err());
}
