//! The cache over several partitions: where keys go, who makes room, what is charged.

use futures_util::FutureExt;

use super::*;
use crate::mutation::{self, Fault};
use crate::policy::{POLICIES, choose};
use crate::value::Value;
use crate::version::Version;

/// A newcomer that the policy turns away must not take a place in another partition.
#[test]
fn a_newcomer_that_loses_evicts_nobody() {
    let choice = choose("clic:window=1000000").expect("known");
    let read = Read { value: Some(Value::bytes(vec![7; 100])), version: Version::ZERO };
    let (budget_bytes, policy_values) = (64 << 10, choice.values);
    let cache = Cache::new(&CacheOptions { budget_bytes, partitions: 8, policy: choice.policy, policy_values });
    // Without hints newcomers displace each other.
    let context = Context { hints: HintSet(1), ..Context::default() };
    for number in 0..5000 {
        let key = Key::new(0, format!("key:{number}").as_bytes());
        if let Begin::Lead(fill) = cache.begin_fill(&key) {
            fill.complete(&read, &context, AccessKind::Read);
        }
    }
    // Until its first window ends, CLIC keeps what came first; only its growing outqueue needs room.
    let stats = cache.stats();
    assert!(stats.rejections > 4000 && stats.evictions < stats.insertions, "{stats:?}");
    cache.validate();
}

#[test]
fn a_reset_keeps_what_hints_mean_and_charges_for_it() {
    let choice = choose("clic").expect("known");
    let options = CacheOptions { budget_bytes: 1 << 20, partitions: 2, policy: choice.policy, policy_values: vec![] };
    let cache = Cache::new(&options);
    let meaning = HintMeaning { schema: 1, types: vec![b"t".as_slice().into()], values: vec![b"v".as_slice().into()] };
    cache.define_hints(HintSet(1), &meaning);
    let used = cache.stats().used_bytes;
    assert!(used > 0, "meanings are charged");
    cache.reset();
    assert_eq!(cache.stats().used_bytes, used);
    cache.validate();
}

/// Within a partition a table finds keys by the low bits of their hashes and tells them apart by the seven highest.
/// If all keys of a partition agreed in these, its table would be slow.
#[test]
fn partitions_and_their_tables_use_different_bits_of_a_hash() {
    const PARTITIONS: usize = 64;
    const KEYS_EACH: usize = 2048;
    let budget_bytes = 1 << 20;
    let options = CacheOptions { budget_bytes, partitions: PARTITIONS, policy: POLICIES[0], policy_values: vec![] };
    let cache = Cache::new(&options);
    let mut keys = vec![0; PARTITIONS];
    let (mut tags, mut buckets) = (vec![[0; 128]; PARTITIONS], vec![[0; 256]; PARTITIONS]);
    for number in 0..PARTITIONS * KEYS_EACH {
        let hash = Key::new(0, format!("user:{number}").as_bytes()).borrow().hash64();
        let partition = cache.inner.index(hash);
        keys[partition] += 1;
        tags[partition][(hash >> 57) as usize] += 1;
        buckets[partition][(hash & 0xff) as usize] += 1;
    }
    for partition in 0..PARTITIONS {
        assert!(keys[partition] > KEYS_EACH * 3 / 4 && keys[partition] < KEYS_EACH * 5 / 4, "{keys:?}");
        // 16 expected of each tag, 8 of each bucket.
        let (tags, buckets) = (&tags[partition], &buckets[partition]);
        assert!(tags.iter().all(|count| (1..48).contains(count)), "tags of partition {partition}: {tags:?}");
        let empty = buckets.iter().filter(|count| **count == 0).count();
        let most = buckets.iter().max().copied().unwrap_or_default();
        assert!(empty < 8 && most < 32, "buckets of partition {partition}: {buckets:?}");
    }
}

/// Were it ended by what leaves the entry where it is, its reader would have seen something newer than is cached.
#[test]
fn no_fill_is_open_beside_an_entry() {
    let choice = choose("s3-fifo").expect("known");
    let options = CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: choice.policy, policy_values: vec![] };
    let cache = Cache::new(&options);
    let key = Key::new(0, b"row:1");
    let read = Read { value: Some(Value::bytes(vec![1])), version: Version { incarnation: 1, sequence: 2 } };
    let Begin::Lead(fill) = cache.begin_fill(&key) else { panic!("nobody fills it") };
    assert!(fill.complete(&read, &Context::default(), AccessKind::Read));
    let Begin::Follow(told) = cache.begin_fill(&key) else { panic!("it is cached") };
    assert_eq!(told.read().now_or_never().flatten(), Some(read));
    cache.remove(&key);
    assert!(matches!(cache.begin_fill(&key), Begin::Lead(_)));
}

#[test]
fn a_fill_beside_an_entry_is_found() {
    let _on = mutation::put_back(Some(Fault::FillBesideEntry));
    assert!(std::panic::catch_unwind(no_fill_is_open_beside_an_entry).is_err());
}

/// Whether `key` came in.
fn fill(cache: &Cache, key: &Key, bytes: usize) -> bool {
    let Begin::Lead(fill) = cache.begin_fill(key) else { panic!("nobody fills it, and it is not cached") };
    let read = Read { value: Some(Value::bytes(vec![1; bytes])), version: Version { incarnation: 1, sequence: 1 } };
    fill.complete(&read, &Context::default(), AccessKind::Read);
    cache.peek(key.borrow()).is_some()
}

/// A policy says how many entries go at once.
#[test]
fn entries_are_evicted_in_batches() {
    let choice = choose("deferred-lru:purge=0.5").expect("known");
    let (policy, policy_values) = (choice.policy, choice.values);
    let cache = Cache::new(&CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy, policy_values });
    let mut most = 0;
    for number in 0..5000 {
        assert!(fill(&cache, &Key::new(0, format!("key:{number}").as_bytes()), 1000));
        let entries = cache.stats().entries;
        if entries < most {
            assert!((most / 2 - 1..=most / 2 + 1).contains(&entries), "{most} entries, then {entries}");
            return;
        }
        most = entries;
    }
    panic!("nothing was evicted");
}

/// A version that takes other room than the one before: what is charged follows it, and nothing grows where no room was
/// made.
#[test]
fn a_restamped_document_is_charged_by_its_version() {
    let options = CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: POLICIES[0], policy_values: vec![] };
    let cache = Cache::new(&options);
    let key = Key::new(0, b"sixteen-bytes-of");
    let (short, long) = (Version { incarnation: 1, sequence: 5 }, Version { incarnation: 1, sequence: 1 << 63 });
    let value = Some(Value::bytes(vec![7; 64]));
    match cache.begin_fill(&key) {
        Begin::Lead(fill) => {
            assert!(fill.complete(&Read { value: value.clone(), version: long }, &Context::default(), AccessKind::Read))
        }
        _ => panic!("only this test fills the key"),
    }
    let used = cache.stats().used_bytes;
    cache.restamp(&key, long, short);
    assert_eq!(cache.peek(key.borrow()), Some(Read { value: value.clone(), version: short }));
    assert_eq!(cache.stats().used_bytes, used - 16, "a size class less");
    cache.validate();
    assert!(!cache.compare(&key, &Read { value, version: long }), "the value is what it was");
    assert_eq!(cache.peek(key.borrow()), None);
    assert_eq!(cache.stats().used_bytes, 0);
    cache.validate();
}
