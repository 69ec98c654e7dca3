//! A file from which a cache starts warm: all that it keeps, and all that may happen to it.

use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A place for a file, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("forebay-{}-{number}.snapshot", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// A clock that is set, and the time since 1970 that it was started at.
#[derive(Clone)]
struct Watch(Hand, u64);

impl Clock for Watch {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> Duration {
        self.0.now() + Duration::from_nanos(self.1)
    }
}

type Texts = Cache<u64, String>;

fn text(key: u64) -> String {
    format!("value {key}")
}

fn saved<K: Hash + Eq + Portable, V: Portable, S: BuildHasher>(cache: &Cache<K, V, S>) -> Vec<u8> {
    let place = Place::new();
    let saved = cache.save(&place.0).expect("there is a disk");
    let bytes = std::fs::read(&place.0).expect("it is there");
    assert_eq!(saved.bytes, bytes.len() as u64);
    bytes
}

fn restored(builder: Builder<u64, String>, bytes: &[u8]) -> (Texts, Result<Loaded, SnapshotError>) {
    builder.restore_from(bytes, Path::new("a file"))
}

/// The next victims, in their order.
fn order(cache: &Texts, count: usize) -> Vec<Vec<u64>> {
    let keys = |cache: &Texts| -> std::collections::BTreeSet<u64> { cache.iter().map(|(key, _)| key).collect() };
    let steps = (0..count).map(|at| {
        let before = keys(cache);
        cache.insert(1 << 40 | at as u64, String::new());
        let after = keys(cache);
        before.into_iter().filter(|key| !after.contains(key)).collect()
    });
    steps.collect()
}

/// Two caches go on alike, one of them after it was saved and restored: that is all of the order, ghosts included.
#[test]
fn a_restored_cache_goes_on_as_the_one_that_was_saved() {
    for policy in ["", "lru", "fifo", "clock", "slru", "deferred-lru-lazy"] {
        let requests = if cfg!(miri) { 200 } else { 20_000 };
        let builder = || {
            let builder = Texts::builder().capacity(100);
            if policy.is_empty() { builder } else { builder.policy(policy).expect("it is in the table") }
        };
        let mut random = fastrand::Rng::with_seed(7);
        let mut key = move || random.u64(..300) * random.u64(..300) / 300;
        let one = builder().build();
        for _ in 0..requests {
            let key = key();
            one.get_or_insert_with(key, || text(key));
        }
        let (other, loaded) = restored(builder(), &saved(&one));
        let loaded = loaded.expect("it is whole");
        assert_eq!((loaded.entries, loaded.damage.as_ref()), (one.len() as u64, None), "{policy}");
        assert!(loaded.in_order && loaded.with_ghosts == policy.is_empty(), "{policy}: {loaded:?}");
        one.entries.validate_all();
        other.entries.validate_all();
        let mut hits = 0;
        for _ in 0..requests {
            let key = key();
            let found = [&one, &other].map(|cache| cache.get(&key).is_some());
            // Queues by segments are not all of what such a policy knows.
            assert_eq!(found[0], found[1], "{policy}: {key}");
            hits += usize::from(found[0]);
            [&one, &other].iter().for_each(|cache| _ = cache.get_or_insert_with(key, || text(key)));
        }
        assert!(cfg!(miri) || hits > requests / 5, "{policy}: {hits} hits");
        assert_eq!(order(&one, 30), order(&other, 30), "{policy}");
    }
}

/// Of these it is not said that they go on alike: what would go next does, as long as nothing is asked for.
#[test]
fn what_goes_first_is_what_would_have_gone() {
    for policy in ["sieve", "deferred-lru", "s3-fifo"] {
        let builder = || Texts::builder().capacity(100).policy(policy).expect("it is in the table");
        let one = builder().build();
        (0..300).for_each(|key| _ = one.insert(key, text(key)));
        (0..300).step_by(3).for_each(|key| _ = one.get(&key));
        let (other, loaded) = restored(builder(), &saved(&one));
        let loaded = loaded.expect("it is whole");
        assert_eq!((loaded.entries, loaded.in_order), (one.len() as u64, true), "{policy}");
        assert_eq!(order(&one, 60), order(&other, 60), "{policy}");
    }
}

/// With another policy, or one without an order, all entries come in.
#[test]
pub(super) fn a_policy_that_differs_or_has_no_order() {
    let lru = || Texts::builder().capacity(100).policy("lru").expect("in the table");
    let lfu = || Texts::builder().capacity(100).policy("lfu").expect("in the table");
    for (from, to) in [(lru(), Texts::builder().capacity(100)), (lfu(), lfu()), (Texts::builder().capacity(100), lru())]
    {
        let cache = from.build();
        (0..100).for_each(|key| _ = cache.insert(key, text(key)));
        let (warm, loaded) = restored(to, &saved(&cache));
        let loaded = loaded.expect("it is whole");
        assert_eq!((loaded.entries, loaded.in_order, loaded.with_ghosts), (100, false, false));
        assert!((0..100).all(|key| warm.get(&key) == Some(text(key))));
    }
}

/// Another hasher: keys come in by it, and prints of other hashes are worth nothing.
#[test]
fn a_hasher_that_differs() {
    let cache: Cache<u64, String, std::hash::RandomState> =
        Cache::builder().capacity(100).hasher(std::hash::RandomState::new()).build();
    (0..300).for_each(|key| _ = cache.insert_tagged(key, text(key), &["tag"]));
    let bytes = saved(&cache);
    let (warm, loaded) = restored(Texts::builder().capacity(100), &bytes);
    let loaded = loaded.expect("it is whole");
    assert_eq!((loaded.entries, loaded.in_order, loaded.with_ghosts), (100, true, false));
    assert_eq!(warm.invalidate_tag("tag"), 100, "tags have a hasher to themselves");
}

/// Of a large cache the entries come in that would have stayed longest, and of many shards all.
#[test]
fn a_cache_of_another_size() {
    let count = if cfg!(miri) { 400 } else { 40_000 };
    let cache = Texts::builder().capacity(count as usize).build();
    (0..count).for_each(|key| _ = cache.insert(key, text(key)));
    let there = cache.len() as u64;
    let bytes = saved(&cache);
    let (same, loaded) = restored(Texts::builder().capacity(count as usize), &bytes);
    assert_eq!((loaded.expect("whole").entries, same.len() as u64), (there, there));
    let (large, loaded) = restored(Texts::builder().capacity(10 * count as usize), &bytes);
    assert_eq!((loaded.expect("whole").entries, large.len() as u64), (there, there));
    large.entries.validate_all();
    for part in [2, 10] {
        let (small, loaded) = restored(Texts::builder().capacity((count / part) as usize), &bytes);
        let loaded = loaded.expect("whole");
        assert_eq!(loaded.entries + loaded.beyond, there);
        assert!(loaded.entries > count / part * 9 / 10 && small.len() as u64 <= count / part, "{loaded:?}");
        small.entries.validate_all();
    }
    let (none, loaded) = restored(Texts::builder(), &bytes);
    assert_eq!((loaded.expect("whole").beyond, none.len()), (there, 0));
    // The last to go are those that stay.
    let lru = |capacity| Texts::builder().capacity(capacity).policy("lru").expect("in the table");
    let cache = lru(100).build();
    (0..100).for_each(|key| _ = cache.insert(key, text(key)));
    let (small, _) = restored(lru(30), &saved(&cache));
    let mut keys: Vec<u64> = small.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(70..100));
}

#[test]
fn times_go_on_while_the_program_is_away() {
    let span = |nanos| Some(Duration::from_nanos(nanos));
    let hand = Hand::default();
    hand.set(1000);
    let cache = Texts::builder().capacity(10).clock(Watch(hand.clone(), 1_000_000)).build();
    cache.insert(0, text(0));
    cache.insert_with(1, text(1), Lifetime { since_write: span(100), ..Lifetime::ENDLESS });
    cache.insert_with(2, text(2), Lifetime { since_write: span(500), since_access: span(200), ..Lifetime::ENDLESS });
    cache.insert_with(3, text(3), Lifetime { since_creation: span(400), ..Lifetime::ENDLESS });
    cache.insert_with(4, text(4), Lifetime { refresh_after: span(150), ..Lifetime::ENDLESS });
    cache.insert_with(5, text(5), Lifetime { since_write: Some(Duration::MAX), ..Lifetime::ENDLESS });
    hand.advance(50);
    let bytes = saved(&cache);
    // A hundred nanoseconds later another process begins, whose clock is at 7.
    let again = Hand::default();
    again.set(7);
    let (warm, loaded) = restored(Texts::builder().capacity(10).clock(Watch(again.clone(), 1_001_143)), &bytes);
    let loaded = loaded.expect("it is whole");
    assert_eq!((loaded.entries, loaded.expired), (5, 1));
    let there = || [0, 2, 3, 5].map(|key| warm.peek(&key).is_some());
    assert_eq!((there(), warm.peek(&1)), ([true; 4], None));
    again.advance(49);
    assert_eq!(there(), [true; 4], "150 of 200 were over");
    assert_eq!(warm.get_with(4, || "again".into()), Ok("again".into()), "it was to be loaded again after 150");
    again.advance(1);
    assert_eq!(there(), [true, false, true, true]);
    // Another value does not prolong what counts from creation: 400, of which 200 are over.
    warm.insert_with(3, text(9), Lifetime { since_creation: span(400), ..Lifetime::ENDLESS });
    again.advance(199);
    assert_eq!(there(), [true, false, true, true]);
    again.advance(1);
    assert_eq!(there(), [true, false, false, true]);
    again.set(u64::MAX);
    assert_eq!(there(), [true, false, false, true], "what never ends does not end");
    // A system's clock that was set back: no time has passed.
    let hand = Hand::default();
    let (warm, loaded) = restored(Texts::builder().capacity(10).clock(Watch(hand.clone(), 5)), &bytes);
    assert_eq!(loaded.map(|loaded| loaded.expired).ok(), Some(0));
    hand.set(49);
    assert!(warm.contains(&1));
    hand.set(50);
    assert!(!warm.contains(&1));
}

#[test]
fn tags_and_weights_are_kept() {
    let builder = || Texts::builder().capacity(10_000).weigher(|_, text| text.len());
    let cache = builder().build();
    (0..10).for_each(|key| _ = cache.insert_tagged(key, text(key), &[key % 2, 7]));
    assert_eq!(cache.weight(), 10 * (7 + 2 * TAG_WEIGHT));
    assert!(cache.pin(&4));
    let (warm, loaded) = restored(builder(), &saved(&cache));
    assert_eq!((loaded.map(|loaded| loaded.entries).ok(), warm.weight()), (Some(10), cache.weight()));
    assert!(!warm.unpin(&4), "pins are not kept");
    assert_eq!((warm.invalidate_tag(&1u64), warm.len(), warm.invalidate_tag(&7u64)), (5, 5, 5));
    warm.entries.validate_all();
}

#[test]
fn files_that_are_no_snapshot_say_so() {
    let cache = Texts::new(10);
    cache.insert(1, text(1));
    let bytes = saved(&cache);
    let error = |bytes: &[u8]| {
        let (cache, loaded) = restored(Texts::builder().capacity(10), bytes);
        assert!(cache.is_empty() && cache.insert(1, text(1)), "the cache is there all the same");
        loaded.expect_err("nothing is loaded").to_string()
    };
    assert_eq!(error(b""), "a file is no snapshot of a cache; name the file that Cache::save wrote");
    assert_eq!(error(&[b'x'; 100]), error(b""));
    let mut other = bytes.clone();
    other[8] = 9;
    assert_eq!(error(&other), "a file is a snapshot of version 9, and this program reads version 1; start without it");
    assert_eq!(error(&bytes[..30]), "a file: the head of the snapshot is damaged; start without it");
    let (_, loaded) = Cache::<u64, u64>::builder().capacity(10).restore_from(&bytes[..], Path::new("a file"));
    let expected = "a file holds keys 'u64' and values 'text', and the cache keys 'u64' and values 'u64'; \
                    load it into a cache of its types, or start without it";
    assert_eq!(loaded.expect_err("of other types").to_string(), expected);
    let nowhere = cache.save("/no/such/folder/file").expect_err("there is no folder").to_string();
    assert!(nowhere.starts_with("/no/such/folder/file: No such file"), "{nowhere}");
}

/// A file that can't be written whole leaves the one before, and nothing beside it.
#[test]
fn a_file_takes_its_place_when_it_is_whole() {
    struct Touchy(AtomicBool);
    static PANICS: AtomicBool = AtomicBool::new(false);
    impl Portable for Touchy {
        fn form() -> String {
            "touchy".into()
        }
        fn write(&self, _: &mut Vec<u8>) {
            assert!(!PANICS.load(Ordering::Relaxed), "it was told to");
        }
        fn read(_: &mut &[u8]) -> Option<Touchy> {
            Some(Touchy(AtomicBool::new(true)))
        }
    }
    let folder = std::env::temp_dir().join(format!("forebay-{}-whole", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a disk");
    let path = folder.join("file");
    let cache: Cache<u64, Touchy> = Cache::new(10);
    cache.insert(1, Touchy(AtomicBool::new(false)));
    cache.save(&path).expect("there is a disk");
    let before = std::fs::read(&path).expect("it is there");
    PANICS.store(true, Ordering::Relaxed);
    assert!(panics(|| cache.save(&path)));
    let names: Vec<_> = std::fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!((names, std::fs::read(&path).ok()), (vec!["file".into()], Some(before)));
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("there").permissions());
        assert_eq!(mode & 0o777, 0o600, "the seeds are nothing for others");
    }
    let (warm, _) = Cache::<u64, Touchy>::builder().capacity(10).restore(&path);
    assert_eq!(warm.with(&1, |touchy| touchy.0.load(Ordering::Relaxed)), Some(true));
    std::fs::remove_dir_all(&folder).expect("it was there");
}

/// While others write, a file holds each key once or not at all, with a value that it had.
#[test]
fn saved_beside_writers() {
    let keys = if cfg!(miri) { 50 } else { 5000 };
    let cache: Cache<u64, u64> = Cache::new(keys as usize);
    (0..keys).for_each(|key| _ = cache.insert(key, key));
    let over = AtomicBool::new(false);
    let place = Place::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(3);
            while !over.load(Ordering::Relaxed) {
                let key = random.u64(..2 * keys);
                _ = if key.is_multiple_of(8) {
                    cache.invalidate(&key)
                } else {
                    cache.insert(key, key + keys * random.u64(..9))
                };
            }
        });
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            cache.save(&place.0).expect("there is a disk");
            let (warm, loaded) = Cache::<u64, u64>::builder().capacity(keys as usize).restore(&place.0);
            assert_eq!(loaded.expect("it is whole").damage, None);
            assert!(warm.iter().all(|(key, value)| value % keys == key % keys));
            warm.entries.validate_all();
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn example() -> &'static (Vec<u8>, u64) {
    static EXAMPLE: std::sync::OnceLock<(Vec<u8>, u64)> = std::sync::OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let keys = if cfg!(miri) { 20 } else { 6000 };
        let cache = Texts::builder().capacity(keys as usize).time_to_live(Duration::from_secs(1 << 30)).build();
        (0..keys).for_each(|key| _ = cache.insert(key, text(key)));
        (saved(&cache), cache.len() as u64)
    })
}

/// Whatever is done to a file: what comes in is right, and what is missing is told.
fn check(bytes: &[u8], is_whole: bool) {
    let (cache, loaded) = restored(Texts::builder().capacity(6000), bytes);
    assert!(cache.iter().all(|(key, value)| value == text(key)), "no wrong value");
    cache.entries.validate_all();
    let Ok(loaded) = loaded else { return assert!(cache.is_empty() && !is_whole) };
    assert_eq!(loaded.entries, cache.len() as u64);
    assert_eq!(loaded.damage.is_none(), is_whole, "{loaded:?}");
    if let Some(damage) = loaded.damage {
        assert!(damage.at <= bytes.len() as u64 && damage.missing + loaded.entries == example().1, "{damage}");
    } else {
        assert_eq!(loaded.entries, example().1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(changes in vec((any::<proptest::sample::Index>(), 1..=255u8), 1..4)) {
        let mut bytes = example().0.clone();
        for (at, by) in changes {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
        // Two changes may take each other back.
        check(&bytes, bytes == example().0);
    }

    #[test]
    fn cut_bytes(at: proptest::sample::Index) {
        let at = at.index(example().0.len());
        check(&example().0[..at], false);
    }

    /// Blocks of a file in another order, or of another file.
    #[test]
    fn moved_bytes(
        from: proptest::sample::Index, to: proptest::sample::Index, count in 1..5000usize, other: bool,
    ) {
        let mut bytes = example().0.clone();
        let source = if other { vec![0x17; bytes.len()] } else { bytes.clone() };
        let count = count.min(bytes.len());
        let (from, to) = (from.index(bytes.len() - count + 1), to.index(bytes.len() - count + 1));
        bytes[to..to + count].copy_from_slice(&source[from..from + count]);
        check(&bytes, bytes == example().0);
    }
}

/// A block of another file of the same cache is none of this one.
#[test]
pub(super) fn a_block_of_another_file() {
    let cache = Texts::new(10);
    cache.insert(1, text(1));
    let one = saved(&cache);
    cache.insert(1, "another".into());
    let other = saved(&cache);
    let blocks = |bytes: &[u8]| {
        let mut at = 12;
        std::iter::from_fn(|| {
            let length = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            at += 8 + length;
            Some(bytes[at - 8 - length..at].to_vec())
        })
        .collect::<Vec<_>>()
    };
    let (mine, theirs) = (blocks(&one), blocks(&other));
    assert_eq!(mine.len(), theirs.len());
    for at in 1..mine.len() {
        let mut mixed = mine.clone();
        mixed[at] = theirs[at].clone();
        let bytes = [&one[..12], &mixed.concat()].concat();
        let (_, loaded) = restored(Texts::builder().capacity(10), &bytes);
        assert!(loaded.expect("its head is whole").damage.is_some(), "block {at}");
    }
}
