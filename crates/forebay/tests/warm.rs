//! A cache that comes back after a restart: its keys and its order from a file, its documents from the store. And all
//! that may happen to that file, to the store, and to the documents meanwhile.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context, Standing};
use forebay::mutation::{self, Fault};
use forebay::policy::{POLICIES, choose};
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::txn::{
    Ahead, Documents, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock, WarmError, WarmFile, Warmed,
};
use forebay::value::Data;
use forebay::{Change, Key, Value};

const BUDGET_BYTES: usize = 64 << 10;

fn key(number: u64) -> Key {
    Key::new(0, format!("key:{number}").as_bytes())
}

/// A file in a folder that goes with it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("warm")
    }

    fn file(&self, policy: &str) -> Arc<WarmFile> {
        Arc::new(WarmFile::new(self.path(), policy.into()).expect("it can be used"))
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).expect("it was written")
    }
}

/// A server's life: what is done with an engine of its own over a store that stays.
struct Life {
    store: Arc<dyn Store>,
    policy: &'static str,
    partitions: usize,
    budget_bytes: usize,
}

impl Life {
    fn new() -> Life {
        Life { store: Arc::new(Memory::new()), policy: "s3-fifo", partitions: 4, budget_bytes: BUDGET_BYTES }
    }

    fn with<F, T>(&self, run: impl FnOnce(Engine) -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let (simulation, choice) = (Simulation::new(1), choose(self.policy).expect("it is in the table"));
        let (budget_bytes, partitions) = (self.budget_bytes, self.partitions);
        let cache = CacheOptions { budget_bytes, partitions, policy: choice.policy, policy_values: choice.values };
        let engine = Engine::new(EngineOptions::new(simulation.runtime(), self.store.clone(), cache));
        let (answer, told) = (Arc::new(Mutex::new(None)), engine.clone());
        let (work, into) = (run(engine), answer.clone());
        let ended = simulation.run(async move {
            let done = work.await;
            *into.lock().expect("no panic") = Some(done);
        });
        assert_eq!(ended, Ended::Done);
        told.validate();
        answer.lock().expect("no panic").take().expect("it was done")
    }

    /// Reads keys, some far more often than others, until others have made way for many.
    fn work(&self, file: &Arc<WarmFile>) -> Vec<Stands> {
        let file = file.clone();
        self.with(|engine| async move {
            let mut state = 7u64;
            for _ in 0..6000 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                get(&engine, ((state >> 40) % 900).min((state >> 20) % 900)).await;
            }
            assert!(engine.cache().stats().evictions > 50, "{:?}", engine.cache().stats());
            let named = file.save(engine.cache()).expect("there is a disk");
            assert_eq!(named.keys, engine.cache().stats().entries);
            stands(&engine)
        })
    }

    fn warm(&self, file: &Arc<WarmFile>) -> (Result<Option<Warmed>, WarmError>, Vec<Stands>) {
        let file = file.clone();
        self.with(|engine| async move {
            let warmed = engine.warm(&file).await;
            assert_eq!(engine.warming().left, 0);
            if let Ok(Some(warmed)) = &warmed {
                assert_eq!(engine.warming().documents, warmed.documents);
                assert_eq!(engine.cache().stats().hits + engine.cache().stats().misses, 0, "no client has asked");
            }
            for (key, _) in stands(&engine).concat() {
                let cached = engine.cache().peek(key.borrow()).expect("it stands there");
                let stored = engine.store().get(&[key]).await.expect("it is sound").remove(0);
                assert_eq!(cached, stored, "what is cached is what the store holds");
            }
            (warmed, stands(&engine))
        })
    }
}

type Stands = Vec<(Key, Standing)>;

/// The keys of each partition, those first that would stay longest.
fn stands(engine: &Engine) -> Vec<Stands> {
    let cache = engine.cache();
    let all = |partition| cache.stand(&mut cache.line(partition), usize::MAX);
    (0..cache.partitions()).map(all).collect()
}

async fn run(engine: &Engine, number: u64, change: Option<Change>) -> Option<Vec<u8>> {
    let mode = if change.is_some() { Mode::Exclusive } else { Mode::Shared };
    let plan = Plan { locks: vec![PlannedLock { key: key(number), mode, load: true }], ..Plan::default() };
    let body = |documents: &mut Documents| {
        if let Some(change) = &change {
            documents.change(key(number).borrow(), change.clone()).expect("it fits");
        }
        Ok::<_, Option<Value>>(documents.value(key(number).borrow()).expect("it is loaded").cloned())
    };
    let ran = engine.execute(&plan, Context::default(), &mut Ahead::default(), body).await;
    let Ok(Executed::Done(value, committing)) = ran else { panic!("nothing is in the way") };
    committing.wait().await.expect("the store is sound");
    value.map(|value| match value.data {
        Data::Bytes(bytes) => bytes.joined().to_vec(),
        other => panic!("{other:?}"),
    })
}

async fn get(engine: &Engine, number: u64) -> Option<Vec<u8>> {
    let key = key(number);
    if engine.cache().get_published(key.borrow(), &Context::default()).is_some() {
        return None;
    }
    run(engine, number, None).await
}

async fn put(engine: &Engine, number: u64, text: &str) {
    run(engine, number, Some(Change::Put(Value::bytes(text.as_bytes())))).await;
}

/// A store with documents, as another program leaves it: nothing is cached.
fn filled(count: u64) -> Life {
    let life = Life { budget_bytes: 0, ..Life::new() };
    life.with(|engine| async move {
        for number in 0..count {
            put(&engine, number, &format!("{number} {}", "x".repeat(number as usize % 200))).await;
        }
    });
    Life { budget_bytes: BUDGET_BYTES, ..life }
}

#[test]
fn a_cache_comes_back_as_it_was() {
    for policy in POLICIES.iter().map(|policy| policy.name) {
        for partitions in [1, 4] {
            let life = Life { policy, partitions, ..filled(700) };
            let place = Place::new();
            let before = life.work(&place.file(policy));
            let (warmed, after) = life.warm(&place.file(policy));
            let warmed = warmed.expect("it is whole").expect("it is there");
            let count: usize = before.iter().map(Vec::len).sum();
            assert_eq!((warmed.damage.clone(), warmed.in_order), (None, true), "{policy}");
            let lines = ["lru", "fifo", "clock", "slru", "s3-fifo", "deferred-lru-lazy"];
            if lines.contains(&policy) {
                assert_eq!((warmed.documents, warmed.full), (count as u64, false), "{policy}");
                assert_eq!(after, before, "{policy}: each stands where it stood");
            } else {
                // Some keep others out, or pay for what they remember.
                assert!(warmed.full || warmed.documents + warmed.passed == count as u64, "{policy}: {warmed:?}");
                assert!(warmed.documents > warmed.keys / 2, "{policy}: {warmed:?}");
            }
        }
    }
}

#[test]
fn an_order_that_is_lost_is_found() {
    let _on = mutation::put_back(Some(Fault::ResumedAsNew));
    assert!(std::panic::catch_unwind(a_cache_comes_back_as_it_was).is_err());
}

/// A key that had left and is remembered goes to the main queue at once, as it would have without the restart.
#[test]
fn ghosts_come_back() {
    let life = Life { partitions: 2, ..filled(700) };
    let place = Place::new();
    let file = place.file("s3-fifo");
    life.work(&file);
    let first_ghost = |life: &Life| {
        let file = file.clone();
        life.with(|engine| async move {
            engine.warm(&file).await.expect("it is whole");
            let mut mains = 0;
            for number in 0..700 {
                if engine.cache().peek(key(number).borrow()).is_none() {
                    get(&engine, number).await;
                    let came_in = engine.cache().explain(key(number).borrow());
                    mains += usize::from(came_in.is_some_and(|(_, _, why)| why.starts_with("main")));
                }
            }
            mains
        })
    };
    let known = first_ghost(&life);
    assert!(known > 20, "ghosts were kept");
    let others = Life { partitions: 3, ..life };
    assert!(first_ghost(&others) < known, "of as many partitions");
}

/// What is done to documents after the file was written is seen: values, deletions, and what comes in.
#[test]
fn documents_are_read_as_they_are_now() {
    let life = Life { budget_bytes: 1 << 20, ..Life::new() };
    let place = Place::new();
    let (file, saved) = (place.file("s3-fifo"), place.file("s3-fifo"));
    life.with(|engine| async move {
        for number in 0..100 {
            put(&engine, number, "old").await;
        }
        for number in 100..120 {
            get(&engine, number).await;
        }
        assert_eq!(saved.save(engine.cache()).expect("there is a disk").keys, 120);
        put(&engine, 1, "new").await;
        run(&engine, 2, Some(Change::Delete)).await;
        put(&engine, 110, "was absent").await;
        let expired = Value { expires_at_ms: Some(0), ..Value::bytes(*b"over") };
        run(&engine, 3, Some(Change::Put(expired))).await;
    });
    let again = file.clone();
    life.with(|engine| async move {
        let warmed = engine.warm(&again).await.expect("it is whole").expect("it is there");
        assert_eq!((warmed.keys, warmed.documents, warmed.gone, warmed.passed), (120, 118, 2, 0), "{warmed:?}");
        let cached = |number| engine.cache().peek(key(number).borrow()).map(|read| read.value);
        assert_eq!(cached(1), Some(Some(Value::bytes(*b"new"))));
        assert_eq!((cached(2), cached(3)), (None, None));
        assert_eq!(cached(110), Some(Some(Value::bytes(*b"was absent"))));
        assert_eq!(cached(119), Some(None), "absence is worth as much as before");
        // What is cached already is left alone.
        let again = engine.warm(&again).await.expect("it is whole").expect("it is there");
        assert_eq!((again.documents, again.known, again.gone), (0, 118, 2));
    });
}

/// Another program changes a document, and the cache is told, between the read and the moment at which it comes in.
#[test]
fn what_is_overtaken_does_not_come_in() {
    let life = Life { budget_bytes: 1 << 20, ..Life::new() };
    life.with(|engine| async move {
        for number in [0, 1] {
            put(&engine, number, "old").await;
            engine.cache().remove(&key(number));
        }
        let told = engine.clone();
        mutation::do_meanwhile(move || {
            let lock = PlannedLock { key: key(0), mode: Mode::Exclusive, load: false };
            let put = |documents: &mut Documents| {
                documents.change(key(0).borrow(), Change::Put(Value::bytes(*b"new"))).map_err(|_| ())
            };
            let done = told.execute_at_once(&[lock.wanted()], &Context::default(), put);
            assert!(done.is_some_and(|done| done.is_ok()));
            told.cache().remove(&key(0));
        });
        let warmed = engine.resume(vec![(key(0), Standing::default()), (key(1), Standing::default())]).await;
        assert_eq!((warmed.documents, warmed.passed), (2, 0), "it is read once more");
        let cached = engine.cache().peek(key(0).borrow()).and_then(|read| read.value);
        assert_eq!(cached, Some(Value::bytes(*b"new")));
    });
}

#[test]
fn a_late_fill_is_found() {
    let _on = mutation::put_back(Some(Fault::ResumedByLateFill));
    assert!(std::panic::catch_unwind(what_is_overtaken_does_not_come_in).is_err());
}

/// Whoever has a lock on a key sees to it; clients that miss meanwhile get what is read for them as well.
#[test]
fn clients_come_first() {
    let life = Life { budget_bytes: 1 << 20, ..filled(3) };
    life.with(|engine| async move {
        let mut writer = engine.begin(forebay::txn::TxnKind::Interactive, Context::default());
        let lock = PlannedLock { key: key(0), mode: Mode::Exclusive, load: false };
        engine.validate_locks();
        writer.prepare_command(&[lock], &mut Ahead::default()).await.expect("nobody is in the way");
        writer.documents_mut().change(key(0).borrow(), Change::Put(Value::bytes(*b"1"))).expect("it fits");
        // It reads on; its commit is still to come.
        let all: Vec<_> = (0..3).map(|number| (key(number), Standing::default())).collect();
        assert_eq!(engine.resume(all.clone()).await.documents, 3);
        engine.cache().remove(&key(0));
        let alone = engine.clone();
        let locked = [key(1)];
        let waits = engine.alone_with(&locked, async move {
            alone.cache().remove(&key(1));
            let warmed = alone.resume(vec![(key(1), Standing::default())]).await;
            assert_eq!((warmed.documents, warmed.passed), (0, 1), "it is not waited for");
        });
        waits.await.expect("nobody is in the way");
        drop(writer);
        assert_eq!(engine.locked_keys(), 0, "a lock is left");
    });
}

/// The cache is smaller than before: those come in that would have stayed longest, and no entry makes way.
#[test]
fn a_smaller_cache_takes_the_best() {
    let life = Life { policy: "lru", partitions: 1, ..filled(700) };
    let place = Place::new();
    let file = place.file("lru");
    let before = life.work(&file).concat();
    let small = Life { budget_bytes: BUDGET_BYTES / 4, ..life };
    let (warmed, after) = small.warm(&file);
    let warmed = warmed.expect("it is whole").expect("it is there");
    assert!(warmed.full && warmed.documents > 50 && warmed.documents < before.len() as u64 / 2, "{warmed:?}");
    assert_eq!(after.concat(), before[..warmed.documents as usize], "the first of the line");
    // Of several partitions each has its part.
    let place = Place::new();
    let file = place.file("s3-fifo");
    let life = Life { policy: "s3-fifo", partitions: 4, budget_bytes: BUDGET_BYTES, ..small };
    life.work(&file);
    let (warmed, after) = Life { budget_bytes: BUDGET_BYTES / 3, ..life }.warm(&file);
    let least = after.iter().map(Vec::len).min().expect("four partitions");
    let most = after.iter().map(Vec::len).max().expect("four partitions");
    assert!(warmed.is_ok() && least > 10 && most < 3 * least, "{least} to {most}");
}

/// With another policy, or another number of partitions, all keys come in.
#[test]
fn another_policy_takes_all_keys() {
    let life = filled(700);
    let place = Place::new();
    let before = life.work(&place.file("s3-fifo"));
    let count: usize = before.iter().map(Vec::len).sum();
    for (policy, partitions) in [("lru", 4), ("s3-fifo", 9), ("w-tinylfu", 1), ("slru", 4)] {
        let other = Life { policy, partitions, store: life.store.clone(), budget_bytes: 2 * BUDGET_BYTES };
        let (warmed, _) = other.warm(&place.file(policy));
        let warmed = warmed.expect("it is whole").expect("it is there");
        assert_eq!((warmed.documents, warmed.in_order), (count as u64, policy == "s3-fifo"), "{policy}");
    }
}

/// Cut, or with a bit changed: what comes in was named, and what is missing is told.
#[test]
fn damaged_files() {
    let life = filled(700);
    let place = Place::new();
    let file = place.file("s3-fifo");
    let names: Vec<Key> = life.work(&file).concat().into_iter().map(|(key, _)| key).collect();
    let (whole, life) = (place.bytes(), Life { budget_bytes: 4 * BUDGET_BYTES, ..life });
    let check = |bytes: &[u8], what: &str| {
        std::fs::write(place.path(), bytes).expect("there is a disk");
        let (warmed, after) = life.warm(&file);
        let after = after.concat();
        assert!(after.iter().all(|(key, _)| names.contains(key)), "{what}: a key that was never named");
        match warmed {
            Ok(warmed) => {
                let warmed = warmed.expect("it is there");
                let damage = warmed.damage.unwrap_or_else(|| panic!("{what} is not noticed"));
                let missing = names.len() as u64 - warmed.keys;
                assert!(damage.contains(&format!("{missing} of {} keys are missing", names.len())), "{damage}");
                Some(damage)
            }
            Err(error) => {
                assert!(after.is_empty(), "{error}");
                None
            }
        }
    };
    let mut told = 0;
    for at in (0..whole.len()).step_by(whole.len() / 23) {
        told += usize::from(check(&whole[..at], "a cut file").is_some_and(|damage| damage.contains("is cut")));
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        check(&changed, "a changed bit");
    }
    assert!(told > 15, "{told}");
    std::fs::write(place.path(), &whole).expect("there is a disk");
    assert!(life.warm(&file).0.is_ok_and(|warmed| warmed.is_some_and(|warmed| warmed.damage.is_none())));
}

#[test]
fn files_that_name_no_keys_say_so() {
    let life = filled(10);
    let place = Place::new();
    let file = place.file("s3-fifo");
    assert!(matches!(life.warm(&file).0, Ok(None)), "a first start");
    let saved = file.clone();
    life.with(|engine| async move { saved.save(engine.cache()).expect("there is a disk") });
    let mode = std::fs::metadata(place.path()).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "keys are nothing for others");
    let whole = place.bytes();
    let error = |bytes: &[u8]| {
        std::fs::write(place.path(), bytes).expect("there is a disk");
        life.warm(&file).0.expect_err("nothing is known").to_string()
    };
    assert!(error(b"").starts_with("it names no cached keys"));
    assert!(error(&[b'x'; 400]).starts_with("it names no cached keys"));
    let mut other = whole.clone();
    other[8] = 9;
    assert_eq!(error(&other), "it is of version 9, and this program reads version 1; it is replaced");
    assert!(error(&whole[..15]).starts_with("its head is damaged"));
}

/// What is no file, or where none can be made, is refused before anything is served.
#[test]
fn places_that_can_not_be_used() {
    let place = Place::new();
    let refused = |path: &Path| WarmFile::new(path, "lru".into()).expect_err("it is of no use").to_string();
    let named = |name: &str| place.0.path().join(name);
    std::fs::create_dir(named("folder")).expect("there is a disk");
    assert!(refused(&named("folder")).contains("no regular file"));
    let made = std::process::Command::new("mkfifo").arg(named("pipe")).status().expect("a program of every system");
    assert!(made.success() && refused(&named("pipe")).contains("no regular file"));
    std::fs::write(named("file"), "not of forebay").expect("there is a disk");
    symlink(named("file"), named("link")).expect("there is a disk");
    assert!(refused(&named("link")).contains("symbolic link"));
    let modes = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(named("file"), modes(0o664)).expect("its owner may");
    assert!(refused(&named("file")).contains("another kind"), "a store that is named by mistake is not replaced");
    let mode = std::fs::metadata(named("file")).expect("it is there").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o664, "nor are its rights changed");
    std::fs::rename(named("file"), named("new.tmp")).expect("there is a disk");
    assert!(refused(&named("new")).contains("another kind"));
    std::fs::rename(named("new.tmp"), named("file")).expect("there is a disk");
    symlink(named("file"), named("beside.tmp")).expect("there is a disk");
    assert!(refused(&named("beside")).contains("symbolic link"));
    assert_eq!(std::fs::read(named("file")).expect("it is there"), b"not of forebay");
    refused(&named("no/such/folder"));
    refused(&named("file/below"));
    refused(Path::new(""));
    refused(Path::new("/"));
}

/// A store that is away is waited for, and one that fails now and then is asked again.
#[test]
fn a_store_that_is_away_is_waited_for() {
    let life = filled(700);
    let place = Place::new();
    let file = place.file("s3-fifo");
    let before = life.work(&file);
    let (simulation, choice) = (Simulation::new(3), choose("s3-fifo").expect("it is in the table"));
    let cache =
        CacheOptions { budget_bytes: BUDGET_BYTES, partitions: 4, policy: choice.policy, policy_values: choice.values };
    let outages = vec![(Duration::ZERO, Duration::from_secs(60)), (Duration::from_secs(61), Duration::from_secs(70))];
    let faults = Faults { read_per_mille: 300, portion_per_mille: 300, outages, ..Faults::default() };
    let store = Arc::new(Faulty::new(simulation.runtime(), life.store.clone(), faults, 5));
    let engine = Engine::new(EngineOptions::new(simulation.runtime(), store, cache));
    let count: usize = before.iter().map(Vec::len).sum();
    let ended = simulation.run(async move {
        let warmed = engine.warm(&file).await.expect("it is whole").expect("it is there");
        assert!(warmed.took > Duration::from_secs(60), "{warmed:?}");
        assert_eq!(warmed.documents + warmed.passed, count as u64);
        assert!(warmed.documents > count as u64 * 9 / 10, "{warmed:?}");
        engine.validate();
    });
    assert_eq!(ended, Ended::Done);
}
