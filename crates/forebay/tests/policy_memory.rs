//! What the cache takes under every policy while clients do all that makes a policy remember. There are many small
//! entries that come and go, keys that are absent, clients, and hint sets. Transactions have many types, and some
//! never end. All that is remembered is within the budget.

use std::sync::Arc;

use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context};
use forebay::graph::Graph;
use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::{POLICIES, choose};
use forebay::{Key, Read, Value, Version};
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BUDGET_BYTES: usize = 2 << 20;

/// What tables may have beyond what is charged while they grow: at that moment the old and the new one are there.
const MOST_BYTES: i64 = (BUDGET_BYTES / 8 * 9) as i64;

/// These remember as many keys that are gone as there are entries, or more, and have done so only some time after the
/// cache is full. Then there are fewer entries, and the tables in which these stand far apart stay as large as they
/// were: a third of the budget, where entries are as small as here.
const REMEMBERING: &[&str] = &["mq", "lru-k", "lecar", "tq", "detox", "clic"];
const MOST_BYTES_REMEMBERING: i64 = (BUDGET_BYTES / 8 * 13) as i64;

/// These evict a tenth of the entries at once. The places that those leave in the index are not free before it is
/// rebuilt, and so it becomes twice as large as others' index.
const EVICTING_MANY: &[&str] = &["deferred-lru", "deferred-lru-lazy"];
const MOST_BYTES_EVICTING_MANY: i64 = (BUDGET_BYTES / 8 * 10) as i64;

const REQUESTS: u64 = 50_000;
const HINT_SETS: u64 = 1024;
const TYPES: u64 = 4096;

fn allocated_bytes() -> i64 {
    let (given, back) =
        (thread::allocatedp::read().expect("jemalloc"), thread::deallocatedp::read().expect("jemalloc"));
    given.get() as i64 - back.get() as i64
}

fn define_hints(cache: &Cache) {
    for set in 1..=HINT_SETS {
        let values = (0..3).map(|at| format!("value {}", (set >> (4 * at)) % 16).into_bytes().into()).collect();
        let types = (0..3).map(|at| format!("type {at}").into_bytes().into()).collect();
        cache.define_hints(HintSet(set as u32), &HintMeaning { schema: 1, types, values });
    }
}

/// One read: of one of a few keys, of one that was never there before, or of one that is absent.
fn read(cache: &Cache, number: u64, random: u64) {
    let name = match random % 4 {
        0 => random >> 8 & 0xff,
        1 => random >> 8 & 0xffff,
        _ => 1 << 32 | number,
    };
    let txn = 1 + number / 8;
    let context = Context {
        client: (random >> 24 & 0xfff) as u32,
        hints: HintSet((random >> 36 & 0x3ff) as u32 + 1),
        txn,
        txn_type: 1 + (txn % (TYPES - 1)) as u16,
        level: (number % 8 / 2) as u16,
        vertex: 0,
        cost_us: (random >> 48 & 0xff) as u32,
    };
    let key = Key::new(0, &name.to_be_bytes());
    if cache.get(key.borrow(), &context).is_none()
        && let Begin::Lead(fill) = cache.begin_fill(&key)
    {
        let value = (random % 16 != 3).then(|| Value::bytes(vec![7; (random >> 56) as usize % 24]));
        fill.complete(
            &Read { value, version: Version { incarnation: 1, sequence: number } },
            &context,
            AccessKind::Read,
        );
    }
    if number % 8 == 7 && random >> 60 != 0 {
        cache.ended(&context, random >> 50 & 7 != 0);
    }
}

/// The most that was allocated at a time, and what there is at the end.
fn allocated_under(policy: &str) -> (i64, i64) {
    let choice = choose(policy).expect("it is in the table");
    let (policy, policy_values) = (choice.policy, choice.values);
    let before = allocated_bytes();
    let cache = Cache::new(&CacheOptions { budget_bytes: BUDGET_BYTES, partitions: 2, policy, policy_values });
    define_hints(&cache);
    for txn_type in 1..TYPES as u16 / 16 {
        let graph = Graph::levels(&[1, 2, 2, 1]).expect("a sound graph");
        cache.register_graph(txn_type, &Arc::new(graph));
    }
    let (mut most, mut random) = (0, 17_u64);
    for number in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        read(&cache, number, random ^ random >> 29);
        if number % 64 == 0 {
            most = most.max(allocated_bytes() - before);
        }
    }
    cache.validate();
    // These are not charged, and hang on the number of processors.
    let waiting = cache.hits_waiting_bytes() as i64;
    (most - waiting, allocated_bytes() - before - waiting)
}

#[test]
fn all_that_a_policy_remembers_is_within_the_budget() {
    let mut beyond = Vec::new();
    for policy in POLICIES {
        let (most, rest) = allocated_under(policy.name);
        let mib = |bytes: i64| bytes as f64 / f64::from(1 << 20);
        println!("{}: at most {:.2} MiB, {:.2} at the end", policy.name, mib(most), mib(rest));
        let allowed = if REMEMBERING.iter().any(|name| policy.name.contains(name)) {
            MOST_BYTES_REMEMBERING
        } else if EVICTING_MANY.contains(&policy.name) {
            MOST_BYTES_EVICTING_MANY
        } else {
            MOST_BYTES
        };
        if most > allowed {
            beyond.push((policy.name, most));
        }
    }
    assert!(beyond.is_empty(), "beyond {BUDGET_BYTES} bytes: {beyond:?}");
}
