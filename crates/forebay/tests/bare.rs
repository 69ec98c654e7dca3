//! The document cache beside the simulator's frame: the same order decides in both.

use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context, charge};
use forebay::policy::bare::{Bare, Served};
use forebay::policy::{Access, Choice, POLICIES, Parameter, Unit};
use forebay::runtime::simulated::SplitMix;
use forebay::{Key, Read, Value, Version};

/// One partition of documents decides as the simulator's frame around the same order, which shares no code with it:
/// on reads that fill on a miss, and on removals. Policies that remember more than their entries are left out: that
/// takes a part of the budget here and none there.
#[test]
fn every_policy_decides_as_a_bare_cache() {
    const BUDGET_BYTES: usize = 6_000;
    let mut alike = Vec::new();
    for policy in POLICIES {
        let value = |parameter: &Parameter| if parameter.name == "charge" { 0.0 } else { parameter.default };
        let choice = Choice { policy, values: policy.parameters.iter().map(value).collect() };
        let policy_values = choice.values.clone();
        let cache = Cache::new(&CacheOptions { budget_bytes: BUDGET_BYTES, partitions: 1, policy, policy_values });
        let mut bare = Bare::new(policy, &choice.settings(Unit::Bytes, BUDGET_BYTES as u64));
        let mut random = SplitMix::new(7);
        let differs = (0..6_000).find(|_| {
            let number = if random.below(2) == 0 { random.below(20) } else { random.below(400) };
            let this = Key::new(0, format!("key {number}").as_bytes());
            let hash = this.borrow().hash64();
            if random.below(40) == 0 {
                cache.remove(&this);
                bare.invalidate(hash);
                return false;
            }
            let value = Value::bytes(vec![b'x'; 1 + number as usize % 7 * 40]);
            let read = Read { value: Some(value), version: Version { incarnation: 1, sequence: 1 } };
            let hit = cache.get(this.borrow(), &Context::default()).is_some();
            let begun = (!hit).then(|| cache.begin_fill(&this));
            if let Some(Begin::Lead(fill)) = begun {
                fill.complete(&read, &Context::default(), AccessKind::Read);
            }
            let served = bare.access(Access::read(hash, charge(&this, &read, policy) as u32));
            let cached = cache.peek(this.borrow()).is_some();
            hit != (served == Served::Hit) || cached != bare.contains(hash)
        });
        let remembers = bare.ghost_bytes() + bare.learned_bytes() > 0;
        assert!(remembers || differs.is_none(), "{}: step {differs:?}", policy.name);
        alike.extend((!remembers).then_some(policy.name));
    }
    println!("{alike:?}");
    assert!(alike.contains(&"lru") && alike.contains(&"sieve") && alike.contains(&"gdsf"), "{alike:?}");
}
