//! A disk that is full, and has room again.

use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{AppendError, Record};
use forebay::runtime::simulated::SplitMix;
use forebay::store::embedded::Durability;
use forebay::tier::Tier;
use forebay::{Key, Read, Value, Version};

use crate::naive::{Naive, buffered};
use crate::{Life, options};

fn full(answer: &Result<(), AppendError>) -> bool {
    matches!(answer, Err(AppendError::NoSpace { .. }))
}

/// Records until one is refused; how many were taken.
fn fill(life: &Life, from: u64) -> u64 {
    let taken = (0..).find(|more| {
        let record = Record::Buffered(buffered(from + more, &mut SplitMix::new(from + more)));
        let answers = life.append(vec![record]);
        assert!(answers[0].is_ok() || full(&answers[0]), "{answers:?}");
        full(&answers[0])
    });
    taken.expect("it is full at last")
}

/// Whether or not the file system takes room ahead: what is refused is not there, what is applied can be noted, and
/// when that is, or when others make room, it goes on.
#[test]
fn a_full_disk_is_no_end() {
    for reserves in [true, false] {
        for durability in [Durability::Always, Durability::Never] {
            let disk = Lossy::new();
            disk.reserves(reserves);
            let mut roomy = options(durability);
            roomy.bytes_max = 1 << 30;
            let life = Life::open(&disk, 1, roomy.clone()).unwrap();
            disk.hold_at_most(Some(disk.takes() + 100_000));
            let taken = fill(&life, 1);
            assert!(taken > 10, "{taken}");
            assert_eq!((life.journal.stat().pending, life.journal.stat().closed.clone()), (taken, None));
            assert!(Tier::room(&life.journal).is_some_and(|room| room < 3_000), "{:?}", Tier::room(&life.journal));
            // One after the other: the most that notes ever take.
            for number in 1..taken {
                assert_eq!(life.append(vec![Record::Applied(vec![number])]), [Ok(())], "{number} of {taken}");
            }
            let more = fill(&life, taken + 2);
            assert!(more > taken / 2, "{more}: what means nothing any more takes no room");
            disk.hold_at_most(None);
            assert_eq!(life.append(vec![Record::Buffered(buffered(1_000_000, &mut SplitMix::new(1)))]), [Ok(())]);
            drop(life);
            disk.kill();
            let mut life = Life::open(&disk, 2, roomy).unwrap();
            assert_eq!((life.lost(), life.found.as_ref().unwrap().torn.clone()), (None, None));
            let expected = [taken].into_iter().chain(taken + 2..taken + 2 + more).chain([1_000_000]);
            assert!(life.pending().unwrap().0.into_keys().eq(expected));
        }
    }
}

/// What is learned of documents takes none of the room that is kept for saying that transactions are applied, and what
/// is said of those that are refused takes a part of it.
fn long_notes_leave_room_for_short_ones(note: impl Fn(u64) -> Record) {
    for reserves in [true, false] {
        let disk = Lossy::new();
        disk.reserves(reserves);
        let mut roomy = options(Durability::Always);
        roomy.bytes_max = 1 << 30;
        let life = Life::open(&disk, 1, roomy).unwrap();
        disk.hold_at_most(Some(disk.takes() + 100_000));
        let taken = fill(&life, 1);
        let noted = (1..=taken).cycle().take(1_000).filter(|number| life.append(vec![note(*number)]) == [Ok(())]);
        assert!(noted.count() < 100);
        for number in 1..=taken {
            assert_eq!(life.append(vec![Record::Applied(vec![number])]), [Ok(())], "{number} of {taken}");
        }
    }
}

fn learned(number: u64) -> Record {
    let version = Version { incarnation: 1, sequence: 1 };
    let (key, read) = (Key::new(0, b"learned"), Read { value: Some(Value::bytes(vec![7; 700])), version });
    Record::Known { number, key, read, unchecked: false }
}

fn refused(number: u64) -> Record {
    Record::Quarantined { number, reason: "refused".repeat(100) }
}

#[test]
fn long_notes_leave_room() {
    for note in [learned, refused] {
        long_notes_leave_room_for_short_ones(note);
        let _on = mutation::put_back(Some(Fault::NotesRoomTaken));
        let all = || long_notes_leave_room_for_short_ones(note);
        assert!(std::panic::catch_unwind(all).is_err());
    }
}

/// Disks that are full now and then, at any byte, with groups of any kind: what is answered is what is there.
fn refuses() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 30_000 } else { 3_000 };
    let mut refusals = 0;
    for seed in 0..seeds {
        let mut random = SplitMix::new(seed);
        let disk = Lossy::new();
        disk.reserves(random.below(2) == 0);
        disk.tells_free(random.below(2) == 0);
        let durability = if random.below(2) == 0 { Durability::Always } else { Durability::Never };
        let mut life = Life::open(&disk, seed, options(durability)).unwrap();
        let (mut naive, mut next) = (Naive::default(), 1);
        for round in 0..60 {
            let room = disk.takes() + random.below(3_000) as usize;
            disk.hold_at_most((random.below(3) > 0).then_some(room.saturating_sub(random.below(70_000) as usize)));
            // Of a group each fits what is there without the others.
            let mut group = Vec::new();
            for _ in 0..1 + random.below(3) {
                let record = match random.below(2) {
                    0 if naive.0.len() < 8 => Record::Buffered(buffered(next, &mut random)),
                    _ => naive.next(next, &mut random),
                };
                next += 1;
                if !matches!(record, Record::Merged { .. }) {
                    group.push(record);
                }
            }
            for (record, answer) in group.iter().zip(life.append(group.clone())) {
                match answer {
                    Ok(()) => naive.apply(record),
                    Err(AppendError::NoSpace { .. }) => refusals += 1,
                    Err(other) => panic!("{seed}: {other}"),
                }
            }
            if random.below(4) == 0 {
                life.run(|journal| async move { Tier::look(&journal).await }).unwrap();
            }
            if random.below(20) == 0 {
                drop(life);
                disk.hold_at_most(None);
                match durability {
                    Durability::Always => disk.crash(|length| (random.below(2) == 0).then_some(length)),
                    _ => disk.kill(),
                }
                life = Life::open(&disk, seed + round, options(durability)).unwrap();
                assert_eq!(life.lost(), None, "{seed}");
                assert_eq!(life.pending().unwrap(), naive, "{seed}");
                next = next.max(life.journal.stat().last_number + 1);
            }
        }
    }
    assert!(refusals > seeds, "{refusals}");
}

#[test]
fn what_is_refused_is_not_there() {
    refuses();
}

#[test]
fn what_is_refused_and_kept_is_found() {
    let _on = mutation::put_back(Some(Fault::RefusedForRoomKept));
    assert!(std::panic::catch_unwind(refuses).is_err());
}
