//! Many small entries give way to few large ones, and come again: the cache's tables follow, under every policy.

use forebay::cache::{Begin, Cache, CacheOptions, Context, LENT_UNNOTICED_BYTES};
use forebay::policy::{POLICIES, choose};
use forebay::{Key, Read, Value, Version};
use proptest::prelude::*;
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BUDGET_BYTES: usize = 4 << 20;

/// What tables may have beyond what is charged for their entries: part of a chunk, of a table that has just grown, or
/// that is not yet under an eighth full.
const SLACK_BYTES: i64 = (BUDGET_BYTES / 10) as i64;

/// Bytes that this thread has been given and has not given back.
fn allocated_bytes() -> i64 {
    let (given, back) =
        (thread::allocatedp::read().expect("jemalloc"), thread::deallocatedp::read().expect("jemalloc"));
    given.get() as i64 - back.get() as i64
}

struct Filled {
    cache: Cache,
    before: i64,
    next: u64,
}

impl Filled {
    fn new(policy: &str) -> Filled {
        let choice = choose(policy).expect("it is in the table");
        let (policy, policy_values) = (choice.policy, choice.values);
        let before = allocated_bytes();
        let cache = Cache::new(&CacheOptions { budget_bytes: BUDGET_BYTES, partitions: 1, policy, policy_values });
        Filled { cache, before, next: 0 }
    }

    /// Puts in so many entries of which nobody has heard; each is read twice, so that no policy has a reason to keep it
    /// out for ever.
    fn put(&mut self, value_bytes: usize, count: usize) {
        for _ in 0..count {
            self.next += 1;
            let key = Key::new(0, &self.next.to_be_bytes());
            let version = Version { incarnation: 1, sequence: self.next };
            let read = Read { value: Some(Value::bytes(vec![7; value_bytes])), version };
            for _ in 0..2 {
                self.cache.publish(&[(key.clone(), Some(read.clone()))], &[]);
                self.cache.get(key.borrow(), &Context::default());
            }
        }
    }

    /// Bytes of tables beyond what is charged.
    fn slack_bytes(&self) -> i64 {
        allocated_bytes() - self.before - self.cache.stats().used_bytes as i64
    }
}

/// What is going on around a key is kept as long as it goes on, and so is the memory for it.
#[test]
fn a_burst_of_fills_and_commits_leaves_no_memory_behind() {
    const KEYS: u64 = 50_000;
    let filled = Filled::new("s3-fifo");
    let keys: Vec<Key> = (0..KEYS).map(|number| Key::new(0, &number.to_be_bytes())).collect();
    let before = filled.slack_bytes();
    let fills: Vec<Begin> = keys.iter().map(|key| filled.cache.begin_fill(key)).collect();
    filled.cache.hold(&keys);
    assert!(filled.slack_bytes() - before > 4 << 20, "they take {} bytes", filled.slack_bytes() - before);
    drop(fills);
    filled.cache.release(&keys);
    filled.cache.validate();
    let left = filled.slack_bytes() - before;
    assert!(left < 256 << 10, "{left} bytes stay");
}

/// Entries make way for what others use for a time, and come again; a quarter of the budget is theirs.
#[test]
fn what_is_lent_is_taken_from_entries() {
    for policy in POLICIES {
        let mut filled = Filled::new(policy.name);
        filled.put(1000, 6000);
        if filled.cache.stats().entries == 0 {
            // It lets in what transactions ask for, and there are none here.
            continue;
        }
        let quarter = BUDGET_BYTES / 4 + LENT_UNNOTICED_BYTES;
        for (lent, kept) in [(quarter, BUDGET_BYTES / 4 * 3), (BUDGET_BYTES * 4, BUDGET_BYTES / 4)] {
            filled.cache.lend(lent);
            let used = filled.cache.stats().used_bytes as usize;
            assert!(used <= kept && used > kept / 2, "{}: {used} of {kept} bytes", policy.name);
            filled.put(1000, 100);
            assert!(filled.cache.stats().used_bytes as usize <= kept, "{}", policy.name);
            filled.cache.validate();
            filled.cache.give_back(lent);
        }
        assert_eq!(filled.cache.lent_bytes(), 0);
        filled.put(1000, 6000);
        let used = filled.cache.stats().used_bytes as usize;
        assert!(used > BUDGET_BYTES / 10 * 9, "{}: {used} bytes", policy.name);
    }
}

#[test]
fn tables_follow_the_number_of_entries() {
    let mut shrunk = 0;
    for policy in POLICIES {
        let mut filled = Filled::new(policy.name);
        for round in 0..2 {
            filled.put(16, 24_000);
            filled.cache.validate();
            let many = filled.cache.stats().entries;
            filled.put(30_000, 900);
            filled.cache.validate();
            let few = filled.cache.stats().entries;
            // What a policy's history grows by is charged with the next newcomer.
            let later = (0..8).map(|_| {
                filled.put(30_000, 1);
                filled.slack_bytes()
            });
            let slack = later.min().unwrap_or_default();
            println!("{}: {many} entries, then {few}, slack {slack}", policy.name);
            // An entry that stays keeps tables by slot as long as its slot is high.
            let stays = !["fifo", "lru", "clock", "sieve", "s3-fifo"].contains(&policy.name);
            assert!(stays || slack <= SLACK_BYTES, "{}, round {round}: {slack} bytes", policy.name);
            shrunk += usize::from(slack <= SLACK_BYTES);
        }
    }
    assert!(2 * shrunk > 3 * POLICIES.len(), "tables follow in {shrunk} of {} rounds", 2 * POLICIES.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Sizes that change by turns, removals between them: whatever happens, the structure agrees with itself (so no
    /// table is larger than its entries allow), and what is cached is what was put in.
    #[test]
    fn any_turns(
        policy in 0..POLICIES.len(),
        turns in prop::collection::vec((prop::sample::select(vec![8usize, 100, 3_000, 50_000]), 0u8..4), 1..6),
    ) {
        let mut filled = Filled::new(POLICIES[policy].name);
        for (value_bytes, removed) in turns {
            filled.put(value_bytes, (BUDGET_BYTES / 2 / value_bytes).min(4_000));
            if removed == 3 {
                filled.cache.clear(|_| true);
            }
            for number in (0..filled.next).filter(|number| removed > 0 && number % 4 < u64::from(removed)) {
                filled.cache.remove(&Key::new(0, &number.to_be_bytes()));
            }
            filled.cache.validate();
            let key = Key::new(0, &filled.next.to_be_bytes());
            if let Some(read) = filled.cache.peek(key.borrow()) {
                prop_assert_eq!(read.value, Some(Value::bytes(vec![7; value_bytes])));
            }
        }
    }
}
