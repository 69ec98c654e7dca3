//! Limits, groups, failing disks, rewriting, and the file system's own folder.

use std::sync::Arc;
use std::time::Duration;

use forebay::outage::lossy::Lossy;
use forebay::outage::{
    AppendError, Buffered, Description, Dropped, Journal, OpenError, RealFolder, Record, Remembered, Standing, Written,
};
use forebay::runtime::simulated::{Simulation, SplitMix};
use forebay::store::GivenId;
use forebay::store::embedded::Durability;
use forebay::tier::{ENDED_MAX, Tier};
use forebay::{Blob, Change, Key, OwnerId, TxnId, Version};

use crate::naive::buffered;
use crate::{BYTES_MAX, Life, options};

fn plain(number: u64) -> Record {
    Record::Buffered(buffered(number, &mut SplitMix::new(number)))
}

/// A transaction with one change of `bytes` bytes.
fn sized(number: u64, bytes: usize) -> Buffered {
    let changes = vec![Change::Append(vec![number as u8; bytes].into())];
    let written = Written { key: Key::new(0, b"large"), changes, told: false };
    Buffered { writes: vec![written], known: Vec::new(), ..buffered(number, &mut SplitMix::new(number)) }
}

#[test]
fn what_waits_shares_one_sync() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    let (_, before) = disk.calls();
    assert!(life.append((1..=50).map(plain).collect()).iter().all(Result::is_ok));
    let (_, after) = disk.calls();
    assert!(after - before <= 2, "{} syncs for 50 records", after - before);
    assert_eq!(life.journal.stat().pending, 50);
    assert_eq!(life.journal.stat().unsynced_bytes, 0);
}

/// What operators gave up is remembered, through rewriting too, but not for ever.
#[test]
fn the_last_that_were_given_up_are_remembered() {
    let disk = Lossy::new();
    let most = ENDED_MAX as u64;
    let life = Life::open(&disk, 1, options(Durability::Never)).unwrap();
    let given = |number| vec![GivenId { user: Blob::from(*b"ann"), id: number as u128 }];
    let dropped = |number| Dropped { number, reason: format!("reason {number}"), given: given(number) };
    for number in 1..=most + 10 {
        let records = vec![Record::Buffered(sized(number, 200)), Record::Dropped(dropped(number))];
        assert!(life.append(records).iter().all(Result::is_ok));
    }
    let description = options(Durability::Never).description;
    assert_eq!(life.run(|journal| async move { journal.describe(description).await }), Ok(()));
    assert_eq!((life.journal.stat().pending, life.journal.stat().pending_bytes), (0, 0), "it takes nobody's room");
    drop(life);
    disk.kill();
    let mut life = Life::open(&disk, 2, options(Durability::Never)).unwrap();
    let remembered = life.pending().unwrap().1;
    assert_eq!(remembered, (11..=most + 10).map(dropped).collect::<Vec<_>>());
}

#[test]
fn a_failed_sync_or_write_ends_it_and_nothing_is_written_again() {
    for step in 0..2 {
        let disk = Lossy::new();
        let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
        assert_eq!(life.append(vec![plain(1)]), [Ok(())]);
        disk.fail_in(Some(step));
        let answers = life.append(vec![plain(2), plain(3)]);
        assert!(answers.iter().all(|answer| matches!(answer, Err(AppendError::Unknown { .. }))), "{answers:?}");
        disk.fail_in(None);
        let (calls, _) = disk.calls();
        let answers = life.append(vec![plain(4)]);
        assert!(matches!(&answers[..], [Err(AppendError::Closed { why })] if why.contains("lossy/journal")));
        assert!(life.flush().is_err());
        assert!(life.run(|journal| async move { journal.close().await }).is_err());
        assert!(life.journal.stat().closed.is_some());
        assert_eq!(disk.calls().0, calls, "it was touched again");
        drop(life);
        disk.kill();
        let mut life = Life::open(&disk, 2, options(Durability::Always)).unwrap();
        let numbers: Vec<u64> = life.pending().unwrap().0.into_keys().collect();
        assert!(numbers.starts_with(&[1]) && !numbers.contains(&4), "{numbers:?}");
    }
}

/// Somebody removes the file, or moves it, while it is in use: what is written to it then no start would find.
#[test]
fn a_file_that_lost_its_name_takes_nothing_more() {
    for durability in [Durability::Always, Durability::Never] {
        let disk = Lossy::new();
        let life = Life::open(&disk, 1, options(durability)).unwrap();
        assert_eq!(life.append(vec![plain(1)]), [Ok(())]);
        assert_eq!(life.run(|journal| async move { journal.look().await }), Ok(()));
        disk.remove("journal");
        let removed = AppendError::Removed { file: "lossy/journal".to_owned() };
        assert_eq!(life.append(vec![plain(2)]), [Err(removed.clone())]);
        assert_eq!(life.journal.stat().closed, Some(removed.clone()));
        assert_eq!(life.append(vec![plain(3)]), [Err(removed.clone())]);
        assert_eq!(life.flush(), Err(removed));
        let disk = Lossy::new();
        let life = Life::open(&disk, 1, options(durability)).unwrap();
        assert_eq!(life.append(vec![plain(1)]), [Ok(())]);
        disk.rename("journal", "elsewhere");
        let looked = life.run(|journal| async move { journal.look().await });
        assert!(matches!(&looked, Err(AppendError::Closed { why }) if why.contains("moved")), "{looked:?}");
        assert_eq!(life.append(vec![plain(2)]), [looked]);
        drop(life);
        disk.kill();
        disk.rename("elsewhere", "journal");
        let mut life = Life::open(&disk, 2, options(durability)).unwrap();
        assert_eq!(life.pending().unwrap().0.into_keys().collect::<Vec<_>>(), [1]);
    }
}

/// By what the store is recognised is there at the next start, whatever becomes of the journal itself.
#[test]
fn what_is_remembered_of_the_store_outlives_the_process() {
    let disk = Lossy::new();
    let id = |sequence| TxnId(Version { incarnation: 3, sequence });
    let told = [
        Remembered { acknowledged: vec![id(7), id(5)], suspended: true, owner: None, known_from: 9 },
        Remembered { acknowledged: vec![id(8)], suspended: false, owner: Some(OwnerId(u128::MAX)), known_from: 0 },
    ];
    for (nth, remembered) in told.into_iter().enumerate() {
        let life = Life::open(&disk, nth as u64, options(Durability::Always)).unwrap();
        let tell = remembered.clone();
        assert_eq!(life.run(|journal| async move { journal.remember(tell).await }), Ok(()));
        drop(life);
        disk.crash(|_| None);
        let life = Life::open(&disk, nth as u64 + 10, options(Durability::Always)).unwrap();
        assert_eq!(life.found.as_ref().unwrap().remembered, remembered);
        drop(life);
        disk.kill();
    }
    disk.remove("journal");
    let life = Life::open(&disk, 20, options(Durability::Always)).unwrap();
    let found = life.found.as_ref().unwrap();
    assert!(found.created && found.remembered.acknowledged == [id(8)]);
}

#[test]
fn beyond_its_bytes_it_is_full_until_something_is_applied() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    let mut last = 0;
    let refused = (1..).find_map(|number| {
        last = number;
        life.append(vec![Record::Buffered(sized(number, 4_000))]).remove(0).err()
    });
    assert!(matches!(refused, Some(AppendError::Full { limit: BYTES_MAX, .. })), "{refused:?}");
    assert_eq!(life.append(vec![Record::Applied(vec![1, 2])]), [Ok(())]);
    assert_eq!(life.append(vec![Record::Buffered(sized(last, 4_000))]), [Ok(())]);
    assert!(life.journal.stat().pending_bytes <= BYTES_MAX);
}

#[test]
fn what_can_not_be_right_is_refused_and_not_written() {
    let disk = Lossy::new();
    let mut options = options(Durability::Always);
    options.bytes_max = 1 << 30;
    let life = Life::open(&disk, 1, options).unwrap();
    assert!(life.append(vec![plain(3), plain(5)]).iter().all(Result::is_ok));
    let misplaced = [
        plain(5),
        plain(4),
        Record::Merged { into: sized(9, 10), from: vec![3, 4] },
        Record::Merged { into: sized(2, 10), from: vec![3, 5] },
    ];
    for record in misplaced {
        let answers = life.append(vec![record]);
        assert!(matches!(answers[0], Err(AppendError::Misplaced(_))), "{answers:?}");
    }
    let too_large = life.append(vec![Record::Buffered(sized(6, forebay::outage::journal::RECORD_BYTES_MAX))]);
    assert!(matches!(too_large[0], Err(AppendError::TooLarge { .. })));
    assert_eq!(life.append(vec![Record::Applied(vec![3, 4, 77])]), [Ok(())], "who is not pending needs nothing");
    drop(life);
    disk.kill();
    let mut life = Life::open(&disk, 2, crate::options(Durability::Always)).unwrap();
    assert_eq!(life.pending().unwrap().0.into_keys().collect::<Vec<_>>(), [5]);
}

/// The paper's YCSB, figure 4: a thousand times the same ten rows, and neither file nor memory grows.
#[test]
fn merged_writes_keep_the_file_small() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    let mut rows: Vec<u64> = (1..=10).collect();
    assert!(life.append(rows.iter().map(|row| Record::Buffered(sized(*row, 500))).collect()).iter().all(Result::is_ok));
    let mut largest = 0;
    for number in 11..1_011 {
        let row = number as usize % 10;
        let into = Record::Merged { into: sized(number, 500), from: vec![rows[row], number] };
        let answers = life.append(vec![Record::Buffered(sized(number, 500)), into]);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        rows[row] = number;
        largest = largest.max(life.journal.stat().file_bytes);
    }
    assert!(largest < 40_000, "{largest} bytes for 10 rows of 500");
    assert_eq!(life.journal.stat().pending, 10);
    let number = rows[3];
    let read = life.run(|journal| async move { journal.read(number).await }).unwrap().unwrap();
    assert_eq!((read.buffered, read.standing), (sized(number, 500), Standing::Waiting));
    assert!(life.run(|journal| async move { journal.read(1).await }).unwrap().is_none());
}

#[test]
fn the_mapping_stays_as_long_as_something_is_pending() {
    let disk = Lossy::new();
    let first = options(Durability::Always);
    let other = Description { mapping: "order:{id} -> orders(id)".to_owned(), catalogue: "orders".to_owned() };
    let second = forebay::outage::JournalOptions { description: other.clone(), ..first.clone() };
    let life = Life::open(&disk, 1, first.clone()).unwrap();
    assert!(life.found.as_ref().unwrap().created);
    let epoch = life.journal.epoch();
    assert_eq!(life.append(vec![plain(1)]), [Ok(())]);
    drop(life);
    let life = Life::open(&disk, 2, second.clone()).unwrap();
    let found = life.found.as_ref().unwrap();
    assert_eq!((found.created, found.epoch, &found.description), (false, epoch, &first.description));
    assert_eq!(life.append(vec![Record::Applied(vec![1])]), [Ok(())]);
    drop(life);
    let life = Life::open(&disk, 3, second).unwrap();
    let found = life.found.as_ref().unwrap();
    assert_eq!((found.epoch, &found.description, found.next_number), (epoch, &other, 2));
    let again = first.description.clone();
    assert_eq!(life.run(|journal| async move { journal.describe(again).await }), Ok(()));
    assert_eq!(life.append(vec![plain(2)]), [Ok(())]);
    drop(life);
    disk.crash(|_| None);
    let life = Life::open(&disk, 4, first.clone()).unwrap();
    assert_eq!(life.found.as_ref().unwrap().description, first.description);
    assert_eq!(life.found.as_ref().unwrap().pending_count, 1);
}

/// Under `interval`, what was appended is synced in time; and a journal at rest loses nothing and reports nothing.
#[test]
fn at_rest_nothing_can_be_lost() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Interval { sync_ms: 100 })).unwrap();
    let runtime = life.simulation.runtime();
    life.append(vec![plain(1), plain(2)]);
    assert_eq!(life.append(vec![plain(3)]), [Ok(())]);
    life.run(|_| async move { runtime.sleep(Duration::from_millis(500)).await });
    assert_eq!(life.journal.stat().unsynced_bytes, 0);
    let epoch = life.journal.epoch();
    drop(life);
    disk.crash(|_| None);
    let mut life = Life::open(&disk, 2, options(Durability::Interval { sync_ms: 100 })).unwrap();
    assert_eq!((life.lost(), life.journal.epoch()), (None, epoch));
    assert_eq!(life.pending().unwrap().0.len(), 3);
}

#[test]
fn two_can_not_have_one_folder() {
    let disk = Lossy::new();
    let life = Life::open(&disk, 1, options(Durability::Always)).unwrap();
    assert!(matches!(Life::open(&disk, 2, options(Durability::Always)), Err(OpenError::Locked { .. })));
    drop(life);
    assert!(Life::open(&disk, 3, options(Durability::Always)).is_ok());
}

/// A link may lead to a folder of another user, who reads there what clients write.
#[test]
fn a_link_to_a_folder_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    drop(RealFolder::new(&real).unwrap());
    std::os::unix::fs::symlink(&real, &link).unwrap();
    for path in [link.clone(), link.join("")] {
        let refused = RealFolder::new(path).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(RealFolder::new(folder.path().join("file")).is_err());
    assert!(RealFolder::new(real.join("")).is_ok());
}

/// A folder that was named by mistake keeps its rights, and what lies in it.
#[test]
fn a_folder_of_others_is_refused_unchanged() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (at, name) in ["notes.txt", "journal"].into_iter().enumerate() {
        let path = folder.path().join(at.to_string());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(name), "somebody else's").unwrap();
        for (path, mode) in [(path.join(name), 0o666), (path.clone(), 0o777)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let refused = RealFolder::new(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("it holds '{name}'")), "{refused}");
        assert_eq!((mode(&path), mode(&path.join(name))), (0o777, 0o666));
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    }
    let early = folder.path().join("early");
    std::fs::create_dir(&early).unwrap();
    std::fs::write(early.join("lock"), "").unwrap();
    std::fs::create_dir(early.join("lost+found")).unwrap();
    assert!(RealFolder::new(&early).is_ok());
}

#[test]
fn on_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outage");
    let open = |simulation: &Simulation| {
        let folder = Arc::new(RealFolder::new(&path).unwrap());
        Journal::open(simulation.runtime(), folder, options(Durability::Always))
    };
    let simulation = Simulation::new(1);
    let (journal, found) = open(&simulation).unwrap();
    assert!(found.created && path.join("journal").is_file() && !path.join("journal.new").exists());
    assert!(matches!(open(&simulation), Err(OpenError::Locked { .. })));
    let life = Life { simulation, journal, found: Some(found) };
    let records = vec![plain(1), plain(2), Record::Quarantined { number: 2, reason: "why".to_owned() }];
    assert!(life.append(records).iter().all(Result::is_ok));
    drop(life);
    let simulation = Simulation::new(2);
    let (journal, found) = open(&simulation).unwrap();
    let mut life = Life { simulation, journal, found: Some(found) };
    let found = life.found.as_ref().unwrap();
    assert_eq!((found.created, found.pending_count, found.next_number), (false, 2, 3));
    assert!(found.lost.is_none() && found.torn.is_none());
    let pending = life.pending().unwrap();
    assert_eq!(pending.0[&2].standing, Standing::Quarantined("why".to_owned()));
    assert_eq!(Record::Buffered(pending.0[&1].buffered.clone()), plain(1));
}
