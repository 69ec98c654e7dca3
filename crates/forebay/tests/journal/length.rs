//! A journal that was cut at its end, and what the file beside it says of that.

use forebay::mutation::{self, Fault};
use forebay::outage::Record;
use forebay::outage::lossy::Lossy;
use forebay::runtime::simulated::SplitMix;
use forebay::store::embedded::Durability;

use crate::naive::buffered;
use crate::{Life, options};

const ALL: [Durability; 3] = [Durability::Always, Durability::Interval { sync_ms: 1_000 }, Durability::Never];

fn some(numbers: std::ops::RangeInclusive<u64>) -> Vec<Record> {
    numbers.map(|number| Record::Buffered(buffered(number, &mut SplitMix::new(number)))).collect()
}

/// A disk with a journal of 20, of which the file beside knew after 15, and how long it was after 10.
fn sample(durability: Durability) -> (Lossy, usize) {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(durability)).unwrap();
    assert!(life.append(some(1..=10)).iter().all(Result::is_ok));
    let short = disk.bytes("journal").unwrap().len();
    assert!(life.append(some(11..=15)).iter().all(Result::is_ok));
    life.flush().unwrap();
    life.run(|journal| async move { forebay::tier::Tier::look(&journal).await }).unwrap();
    assert!(life.append(some(16..=20)).iter().all(Result::is_ok));
    drop(life);
    (disk, short)
}

fn cut(disk: &Lossy, to: usize) {
    let mut bytes = disk.bytes("journal").unwrap();
    bytes.truncate(to);
    disk.put("journal", bytes);
}

/// Whatever the durability, and whether the machine lost power besides: what was acknowledged behind the end that is
/// left is named, and no number of it is given again.
fn is_missed(torn: usize) {
    for durability in ALL {
        for power_lost in [false, true] {
            let (disk, short) = sample(durability);
            match power_lost {
                true => disk.crash(Some),
                false => disk.kill(),
            }
            cut(&disk, short + torn);
            let mut life = Life::open(&disk, 2, options(durability)).unwrap();
            let lost = life.lost().unwrap_or_else(|| panic!("{durability:?} {power_lost}: nobody misses it"));
            let found = life.found.as_ref().unwrap();
            let cut = found.cut.expect("the file is shorter than it was");
            assert_eq!((lost.after, cut.left), (10, short as u64));
            assert!(lost.up_to >= 20 && cut.bytes > cut.left && found.next_number > lost.up_to, "{lost:?} {cut:?}");
            assert_eq!(found.losses, [lost]);
            assert_eq!(life.pending().unwrap().0.len(), 10);
            drop(life);
            disk.kill();
            // Once.
            let life = Life::open(&disk, 3, options(durability)).unwrap();
            let found = life.found.as_ref().unwrap();
            assert_eq!((found.lost, found.cut, found.losses.as_slice()), (None, None, &[lost][..]));
        }
    }
}

#[test]
fn what_was_cut_off_is_named() {
    is_missed(0);
    is_missed(10);
}

#[test]
fn a_cut_that_is_not_missed_is_found() {
    let _on = mutation::put_back(Some(Fault::CutUnnoticed));
    assert!(std::panic::catch_unwind(|| is_missed(0)).is_err());
}

/// After an orderly end it is known to the number what is missing.
#[test]
fn behind_an_orderly_end_the_range_is_exact() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    assert!(life.append(some(1..=10)).iter().all(Result::is_ok));
    let short = disk.bytes("journal").unwrap().len();
    assert!(life.append(some(11..=15)).iter().all(Result::is_ok));
    life.run(|journal| async move { journal.close().await }).unwrap();
    drop(life);
    disk.crash(|_| None);
    cut(&disk, short);
    let lost = Life::open(&disk, 2, options(Durability::Always)).unwrap().lost().unwrap();
    assert_eq!((lost.after, lost.up_to), (10, 15));
}

/// A file beside it that is missing, damaged, or of a file that was replaced since says nothing, and stops nothing.
#[test]
fn a_file_beside_that_says_nothing_stops_nothing() {
    for durability in ALL {
        let (disk, short) = sample(durability);
        disk.kill();
        let stale = disk.bytes("length").unwrap();
        for (nth, length) in [None, Some(Vec::new()), Some(vec![7; 100]), Some(vec![7; 2000])].into_iter().enumerate() {
            let disk = disk.copy();
            match length {
                Some(bytes) => disk.put("length", bytes),
                None => disk.remove("length"),
            }
            let life = Life::open(&disk, 2, options(durability)).unwrap();
            assert_eq!((life.lost(), life.found.as_ref().unwrap().cut), (None, None), "{nth}");
            assert_eq!(life.journal.stat().pending, 20);
            drop(life);
            disk.kill();
            // It is written again at once.
            cut(&disk, short);
            assert!(Life::open(&disk, 3, options(durability)).unwrap().lost().is_some());
        }
        // One place of two is damaged: the other may be older, and says that.
        let mut half = stale.clone();
        half[..512].fill(1);
        disk.put("length", half);
        assert_eq!(Life::open(&disk.copy(), 2, options(durability)).unwrap().lost(), None);
        // The file was written again since, and nothing has said how long it is.
        let life = Life::open(&disk, 2, options(durability)).unwrap();
        let description = options(durability).description;
        life.run(|journal| async move { journal.describe(description).await }).unwrap();
        drop(life);
        disk.kill();
        disk.put("length", stale);
        let life = Life::open(&disk, 3, options(durability)).unwrap();
        assert_eq!((life.lost(), life.journal.stat().pending), (None, 20));
    }
}

/// An orderly end may cut off notes alone: then no ticket is missing, and it is said all the same.
#[test]
fn notes_that_were_cut_off_cost_no_ticket() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    assert!(life.append(some(1..=3)).iter().all(Result::is_ok));
    let short = disk.bytes("journal").unwrap().len();
    assert_eq!(life.append(vec![Record::Applied(vec![1, 2])]), [Ok(())]);
    life.run(|journal| async move { journal.close().await }).unwrap();
    drop(life);
    disk.kill();
    cut(&disk, short);
    let life = Life::open(&disk, 2, options(Durability::Always)).unwrap();
    assert!(life.found.as_ref().unwrap().cut.is_some());
    assert_eq!((life.lost(), life.journal.stat().pending), (None, 3), "they are carried over again, and known again");
}
