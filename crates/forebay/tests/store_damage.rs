//! What the embedded store says to files that it can't use, and to rows that make no sense: a clear error, no panic.

mod common;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use common::{Random, runtime};
use forebay::change::Change;
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions, OpenError, check};
use forebay::store::forgetful::Forgetful;
use forebay::store::rot::{Damage, Sample};
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, ReadError, Store};
use forebay::value::{Data, Hash};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};
use redb::{Database, ReadableTable, TableDefinition};

const OPTIONS: EmbeddedOptions = EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 4 << 20 };
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const DOCUMENTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("documents");
const PARTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("parts");
const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(runtime(), path, OPTIONS)
}

fn error(path: &Path) -> (OpenError, String) {
    match open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => {
            let text = error.to_string();
            (error, text)
        }
    }
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn large_hash() -> Value {
    let mut hash = Hash::default();
    for field in 0..300u64 {
        hash.insert(field.to_be_bytes().as_slice().into(), vec![b'x'; 60].into());
    }
    Value { data: Data::Hash(hash), expires_at_ms: None }
}

fn fill(store: &Embedded) {
    let mint = Mint::new(store.incarnation());
    for number in 0..20u64 {
        let mut writes = vec![write(&key(&format!("small {number}")), None, vec![Change::Put(Value::bytes(*b"x"))])];
        writes.push(write(&key(&format!("large {number}")), None, vec![Change::Put(large_hash())]));
        let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
        assert_eq!(block_on(store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
    }
}

/// A closed file with documents in it.
fn filled(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("store.redb");
    fill(&open(&path).unwrap());
    path
}

fn edit(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

#[test]
fn files_that_are_no_store_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (found, text) = error(&folder.path().join("missing/store.redb"));
    assert!(matches!(found, OpenError::Io { .. }) && text.contains("make the folder first"), "{text}");
    let (found, text) = error(folder.path());
    assert!(matches!(found, OpenError::Io { .. }), "{text}");
    let garbage = folder.path().join("garbage");
    for length in [1, 17, 5_000, 100_000] {
        let bytes = (0..length).map(|at: u32| (at * 7) as u8).collect::<Vec<_>>();
        std::fs::write(&garbage, &bytes).unwrap();
        let (_, text) = error(&garbage);
        assert!(text.contains("not a forebay store"), "{length} bytes: {text}");
        assert_eq!(std::fs::read(&garbage).unwrap(), bytes, "it must not be changed");
    }
    let foreign = folder.path().join("foreign");
    drop(Database::create(&foreign).unwrap());
    edit(&foreign, |transaction| drop(transaction.open_table(DOCUMENTS).unwrap()));
    let (found, text) = error(&foreign);
    assert!(matches!(found, OpenError::Foreign(_)), "{text}");
}

#[test]
fn other_formats_and_users_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let store = open(&path).unwrap();
    let (found, text) = error(&path);
    assert!(matches!(found, OpenError::InUse(_)), "{text}");
    drop(store);
    edit(&path, |transaction| drop(transaction.open_table(META).unwrap().insert("format", 7).unwrap()));
    let (found, text) = error(&path);
    assert!(matches!(found, OpenError::Format { found: 7, .. }), "{text}");
    assert!(text.contains("format 7") && text.contains("open it with the version that wrote it"), "{text}");
    edit(&path, |transaction| drop(transaction.open_table(META).unwrap().insert("format", 2).unwrap()));
    assert!(open(&path).is_ok());
}

/// An incarnation that had fallen would have versions and ids minted twice.
#[test]
fn what_has_rotted_of_the_incarnation_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let incarnation = open(&path).unwrap().incarnation();
    let meta = |change: &dyn Fn(&mut redb::Table<'_, &str, u64>)| {
        edit(&path, |transaction| change(&mut transaction.open_table(META).unwrap()));
    };
    for bit in [0, 3, 40, 63] {
        meta(&|table| drop(table.insert("incarnation", incarnation ^ 1 << bit).unwrap()));
        let (found, text) = error(&path);
        assert!(matches!(found, OpenError::Damaged { .. }) && text.contains("'meta'"), "{text}");
        assert_eq!(check(&path).unwrap_err().to_string(), text);
        meta(&|table| drop(table.insert("incarnation", incarnation).unwrap()));
    }
    // Its name has rotted.
    meta(&|table| drop(table.remove("incarnation").unwrap()));
    assert!(error(&path).1.contains("does not agree with its checksum"));
    meta(&|table| drop(table.insert("hncarnation", incarnation).unwrap()));
    assert!(error(&path).1.contains("'meta' has a row \"hncarnation\""));
    meta(&|table| drop(table.remove("hncarnation").unwrap()));
    meta(&|table| drop(table.insert("incarnation", incarnation).unwrap()));
    assert_eq!(open(&path).unwrap().incarnation(), incarnation + 1);
    // A file of before there was a checksum is read, and has one from then on.
    meta(&|table| drop(table.remove("sum").unwrap()));
    assert!(check(&path).is_ok());
    assert_eq!(open(&path).unwrap().incarnation(), incarnation + 2);
    meta(&|table| drop(table.insert("incarnation", incarnation).unwrap()));
    assert!(check(&path).is_err());
}

#[test]
fn a_file_without_rights_is_refused() {
    let denied = || Err(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
    let text = Embedded::open_with_backend(runtime(), Arc::new(denied), OPTIONS).err().unwrap().to_string();
    assert!(text.contains("the right to read and write"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let mut rights = std::fs::metadata(&path).unwrap().permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&path, rights).unwrap();
    // Who may write everything, as root may, opens it all the same.
    if std::fs::OpenOptions::new().write(true).open(&path).is_err() {
        let (_, text) = error(&path);
        assert!(text.contains("the right to read and write"), "{text}");
    }
}

#[test]
fn damaged_rows_are_told_and_the_others_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let row_key = |name: &str| [&[0], name.as_bytes()].concat();
    edit(&path, |transaction| {
        let mut documents = transaction.open_table(DOCUMENTS).unwrap();
        documents.insert(row_key("small 1").as_slice(), b"".as_slice()).unwrap();
        documents.insert(row_key("small 2").as_slice(), [9; 80].as_slice()).unwrap();
        let cut = documents.get(row_key("small 3").as_slice()).unwrap().unwrap().value()[..26].to_vec();
        documents.insert(row_key("small 3").as_slice(), cut.as_slice()).unwrap();
        let first = transaction.open_table(PARTS).unwrap().first().unwrap().unwrap().0.value().to_vec();
        transaction.open_table(PARTS).unwrap().remove(first.as_slice()).unwrap();
    });
    let store = open(&path).unwrap();
    for name in ["small 1", "small 2", "small 3", "large 0"] {
        match block_on(store.get(&[key("small 0"), key(name)])) {
            Err(ReadError::Damaged { key: found, why }) => assert!(found == key(name) && !why.is_empty(), "{why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(block_on(store.get(&[key("large 1")])).unwrap()[0].value, Some(large_hash()));
    let mint = Mint::new(store.incarnation());
    let put = |name: &str| {
        let writes = vec![write(&key(name), None, vec![Change::Put(Value::bytes(*b"y"))])];
        Commit::new(TxnId(mint.next()), mint.next(), writes)
    };
    // The commit before it goes to the disk; the damaged row must not have been written over on the way.
    let outcomes = block_on(store.commit(&[put("small 0"), put("small 1")]));
    assert!(matches!(&outcomes[0], CommitOutcome::Committed(_)), "{outcomes:?}");
    assert!(matches!(&outcomes[1], CommitOutcome::Refused(why) if why.contains("damaged")), "{outcomes:?}");
    assert_eq!(block_on(store.get(&[key("small 0")])).unwrap()[0].value, Some(Value::bytes(*b"y")));
    assert!(matches!(block_on(store.get(&[key("small 1")])), Err(ReadError::Damaged { .. })));
    drop(store);
    edit(&path, |transaction| drop(transaction.open_table(LOG).unwrap().insert(u64::MAX, b"x".as_slice()).unwrap()));
    let (found, text) = error(&path);
    assert!(matches!(found, OpenError::Damaged { .. }) && text.contains("restore it from a backup"), "{text}");
}

/// Damage of every kind, anywhere in a file that was closed: an error or the right answer, never a panic that escapes,
/// never a hang. What is answered wrongly all the same (a page of keys that is gone or of an earlier time; redb does
/// not look at the sums of pages as it reads) is what `check` finds.
#[test]
fn rot_is_told_or_found_by_a_check() {
    let sample = Sample::new();
    assert_eq!(sample.examine(&[]).wrong, [""; 0]);
    assert!(!sample.check_finds(&[]), "a sound file");
    let seeds = std::env::var("FOREBAY_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let (mut refused, mut told, mut right, mut wrong) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let mut random = Random(seed);
        let mut draw = || random.draw() as u32;
        let count = 1 + draw() % 3;
        let damage: Vec<_> = (0..count).map(|_| Damage { kind: draw() as u8, at: draw(), other: draw() }).collect();
        let examined = sample.examine(&damage);
        refused += usize::from(examined.refused.is_some());
        told += usize::from(!examined.told.is_empty());
        right += examined.right;
        if let Some(first) = examined.wrong.first() {
            wrong += 1;
            assert!(sample.check_finds(&damage), "seed {seed}, {damage:?}: {first}, and no check finds it");
        }
    }
    eprintln!(
        "{seeds} files: {refused} refused, {told} with errors, {wrong} with wrong answers; {right} right answers"
    );
    assert!(refused > 0 && told > 0 && right > 0);
    // Each kind of document has rows with sums of their own; before they had them, one file in five was answered wrong.
    assert!(wrong * 50 < seeds as usize, "{wrong} of {seeds} files were answered wrong");
}

/// A bit of a value turns over in a file that was closed: nothing in the structure of the file shows it.
#[test]
fn a_bit_that_turned_over_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let store = open(&path).unwrap();
    let mint = Mint::new(store.incarnation());
    let writes = vec![write(&key("needle"), None, vec![Change::Put(Value::bytes(*b"a needle in a row"))])];
    let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
    assert_eq!(block_on(store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
    drop(store);
    // All places, since pages that were given up lie in the file, too.
    let mut bytes = std::fs::read(&path).unwrap();
    for value in [b"a needle in a row".to_vec(), vec![b'x'; 60]] {
        let places = bytes.windows(value.len()).enumerate().filter(|(_, window)| *window == value);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|place| bytes[place] ^= 4);
    }
    std::fs::write(&path, &bytes).unwrap();
    let store = open(&path).unwrap();
    for name in ["needle", "large 0", "large 19"] {
        match block_on(store.get(&[key(name)])) {
            Err(ReadError::Damaged { why, .. }) => assert!(why.contains("checksum"), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(block_on(store.get(&[key("small 0")])).is_ok());
}

/// A disk without room fails in the middle of a group: what was acknowledged stays, and room mends it.
#[test]
fn a_full_disk_loses_nothing() {
    let disk = Forgetful::new();
    let handles = disk.clone();
    let clock = common::Inline::default();
    let make = Arc::new(move || Ok(handles.handle()));
    let store = Embedded::open_with_backend(forebay::runtime::Runtime::new(clock.clone()), make, OPTIONS).unwrap();
    let mint = Mint::new(store.incarnation());
    let put = |number: usize| {
        let change = Change::Put(Value::bytes(vec![number as u8; 9_000]));
        let writes = vec![write(&key(&format!("key {number}")), None, vec![change])];
        let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
        (commit.id, block_on(store.commit(&[commit])).remove(0))
    };
    disk.hold_at_most(Some(2 << 20));
    let mut acknowledged = 0;
    let why = loop {
        match put(acknowledged) {
            (_, CommitOutcome::Committed(_)) => acknowledged += 1,
            (id, CommitOutcome::Unknown(why)) => {
                // Its outcome is what the file says, full or not.
                let _ = block_on(store.outcome(id));
                break why;
            }
            (_, other) => panic!("{other:?}"),
        }
        assert!(acknowledged < 10_000, "the disk never fills");
    };
    assert!(acknowledged > 20 && why.contains("no storage space"), "{acknowledged} fit, then {why}");
    disk.hold_at_most(None);
    clock.0.fetch_add(60_000, std::sync::atomic::Ordering::SeqCst);
    for number in 0..acknowledged {
        let read = block_on(store.get(&[key(&format!("key {number}"))])).unwrap().remove(0);
        assert_eq!(read.value, Some(Value::bytes(vec![number as u8; 9_000])), "key {number} was acknowledged");
    }
    assert!(matches!(put(acknowledged), (_, CommitOutcome::Committed(_))));
    store.validate().unwrap();
}

/// What breaks while the file is open: each error names the file and says what to do, also where redb panics.
#[test]
fn what_rots_while_it_is_open_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for byte in [0x00, 0x01, 0xff] {
        let path = folder.path().join(format!("store {byte}"));
        fill(&open(&path).unwrap());
        let uncached = EmbeddedOptions { page_cache_bytes: 0, ..OPTIONS };
        let store = Embedded::open(runtime(), &path, uncached).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4096..].fill(byte);
        std::fs::write(&path, &bytes).unwrap();
        let says = |text: String| {
            let all = [path.to_str().unwrap(), "restore it from a backup"];
            assert!(all.iter().all(|part| text.contains(part)), "{byte}: {text}");
        };
        match block_on(store.get(&[key("large 7")])) {
            Err(ReadError::Unavailable(error)) => says(error.to_string()),
            other => panic!("{byte}: {other:?}"),
        }
        let mint = Mint::new(store.incarnation());
        let writes = vec![write(&key("small 7"), None, vec![Change::Put(large_hash())])];
        let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
        match block_on(store.commit(&[commit])).remove(0) {
            CommitOutcome::Unknown(why) | CommitOutcome::Unavailable(why) => says(why),
            other => panic!("{byte}: {other:?}"),
        }
    }
}

/// A file that another program cuts, or writes an older copy over, takes no commit from then on.
#[test]
fn a_file_that_another_program_changes_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let interval = Durability::Interval { sync_ms: 60_000 };
    for (name, change) in [("cut to nothing", Some(0)), ("cut", Some(1)), ("cut", Some(9)), ("overwritten", None)] {
        for durability in [Durability::Always, interval] {
            let case = format!("{name} {change:?} {durability:?}");
            let path = folder.path().join(&case);
            fill(&open(&path).unwrap());
            let older = std::fs::read(&path).unwrap();
            let store = Embedded::open(runtime(), &path, EmbeddedOptions { durability, ..OPTIONS }).unwrap();
            fill(&store);
            block_on(store.flush()).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            match change {
                Some(tenths) => file.set_len(older.len() as u64 / 10 * tenths).unwrap(),
                None => (&file).write_all(&older).unwrap(),
            }
            let left = file.metadata().unwrap().len();
            let mint = Mint::new(store.incarnation() + 1);
            // Grows the file: its new pages lie after the cut.
            let long = Change::Put(Value::bytes(vec![b'x'; 3 << 20]));
            let commit_id = TxnId(mint.next());
            let commit = Commit::new(commit_id, mint.next(), vec![write(&key("long"), None, vec![long])]);
            let why = match block_on(store.commit(&[commit])).remove(0) {
                CommitOutcome::Unknown(why) | CommitOutcome::Unavailable(why) => why,
                // What a crash may cost anyway is not on the disk yet.
                CommitOutcome::Committed(_) if durability == interval => {
                    block_on(store.flush()).unwrap_err().to_string()
                }
                other => panic!("{case}: {other:?}"),
            };
            let told = ["while it is open", &case, "restore it from a backup"];
            assert!(told.iter().all(|part| why.contains(part)), "{case}: {why}");
            // Nor does it go on with what is left.
            let why = block_on(store.outcome(commit_id)).unwrap_err().to_string();
            assert!(why.contains("can't be reopened"), "{case}: {why}");
            assert!(block_on(store.get(&[key("small 7")])).is_err(), "{case}");
            assert!(change.is_none() || file.metadata().unwrap().len() == left, "{case}: it has its length back");
        }
    }
}
