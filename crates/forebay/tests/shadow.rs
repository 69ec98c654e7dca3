//! A shadow holds what the cache holds, access by access, whatever the policy; and is small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::cache::{AccessKind, Accessed, Begin, Cache, CacheOptions, Context, Sample, Watcher};
use forebay::graph::Graph;
use forebay::hint::{HintMeaning, HintSet};
use forebay::mutation;
use forebay::policy::{Access, POLICIES, choose};
use forebay::runtime::simulated::SplitMix;
use forebay::{Key, Read, Shadow, Value, Version};

const KEYS: u64 = 400;
const BUDGET: usize = 40_000;

fn key(number: u64) -> Key {
    Key::new(0, format!("key {number}").as_bytes())
}

fn read(sequence: u64, bytes: u64) -> Read {
    let value = (bytes > 0).then(|| Value::bytes(vec![b'x'; bytes as usize]));
    Read { value, version: Version { incarnation: 1, sequence } }
}

/// Has a shadow hear all that the cache tells; and how many hits each had.
struct Following {
    shadow: Mutex<(Shadow, [u64; 2])>,
    /// Keys that leave are not told: the rule left out.
    deaf: bool,
}

impl Following {
    fn lock(&self) -> MutexGuard<'_, (Shadow, [u64; 2])> {
        self.shadow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Following {
    fn accessed(&self, accessed: &Accessed<'_>) {
        let (shadow, hits) = &mut *self.lock();
        let hash = accessed.key.hash64();
        let Context { client, hints, txn, txn_type, level, vertex, cost_us } = *accessed.context;
        let plain = Access::read(hash, accessed.charged.unwrap_or(0));
        let kind = accessed.kind.unwrap_or(AccessKind::Read);
        let access = Access { kind, client, hints, txn, txn_type, level, vertex, cost_us, ..plain };
        match (accessed.kind, accessed.charged) {
            (Some(AccessKind::Read), _) => {
                hits[0] += u64::from(accessed.hit);
                hits[1] += u64::from(shadow.read(&access, !accessed.hit));
            }
            (Some(_), Some(_)) => shadow.put(&access),
            _ if self.deaf => {}
            _ => shadow.remove(hash),
        }
    }

    fn ended(&self, context: &Context, committed: bool) {
        self.lock().0.ended(context.txn, committed);
    }

    fn hints_defined(&self, set: HintSet, meaning: &HintMeaning) {
        self.lock().0.define_hints(set, meaning);
    }

    fn graph_registered(&self, txn_type: u16, graph: &Arc<Graph>) {
        self.lock().0.register_graph(txn_type, graph);
    }

    fn cleared(&self, begins_again: bool) {
        let shadow = &mut self.lock().0;
        match begins_again {
            true => shadow.reset(),
            false => shadow.clear(),
        }
    }
}

fn fill(cache: &Cache, key: &Key, read: &Read, context: &Context, kind: AccessKind) {
    if let Begin::Lead(fill) = cache.begin_fill(key) {
        fill.complete(read, context, kind);
    }
}

/// One step of all that clients, the database and operators do.
fn step(cache: &Cache, random: &mut SplitMix, sequence: u64) {
    let number = random.below(KEYS).min(random.below(KEYS));
    let (this, other) = (key(number), key((number + 1) % KEYS));
    let read = read(sequence, random.below(4) * random.below(100));
    let txn = 1 + sequence / 7;
    let mut context = Context {
        client: random.below(5) as u32,
        hints: HintSet(random.below(3) as u32),
        txn,
        txn_type: (txn % 3) as u16,
        level: (sequence % 3) as u16,
        vertex: if txn % 3 == 1 { (sequence % 4) as u16 } else { 0 },
        cost_us: 0,
    };
    match random.below(1000) {
        0..840 if cache.get(this.borrow(), &context).is_some() => {}
        0..840 => {
            context.cost_us = random.below(500) as u32;
            fill(cache, &this, &read, &context, AccessKind::Read);
        }
        840..850 => fill(cache, &this, &read, &context, AccessKind::Prefetch),
        850..940 => {
            let group = [(this, Some(read.clone())), (other, random.below(3).gt(&0).then_some(read))];
            cache.publish_locked(&group[..1 + random.below(2) as usize], &context);
        }
        940..980 => cache.remove(&this),
        980..985 => drop(cache.compare(&this, &read)),
        985..990 => drop(cache.forget(&this)),
        990..995 => cache.keep_only(&this, read.version),
        995 => cache.clear(|_| true),
        _ if random.below(8) == 0 => cache.reset(),
        _ => {}
    }
    if sequence % 7 == 6 {
        cache.ended(&context, random.below(10) > 0);
    }
}

/// Whether both hold the same after every step. Answers the hits.
fn follows(policy: &str, partitions: usize, steps: u64, deaf: bool) -> [u64; 2] {
    let choice = choose(policy).expect("in the table");
    let options =
        CacheOptions { budget_bytes: BUDGET, partitions, policy: choice.policy, policy_values: choice.values.clone() };
    let cache = Cache::new(&options);
    let shadow = Mutex::new((Shadow::new(&choice, BUDGET, partitions), [0; 2]));
    let following = Arc::new(Following { shadow, deaf });
    cache.watch(following.clone());
    let meaning = |value: &[u8]| HintMeaning { schema: 1, types: vec![b"t"[..].into()], values: vec![value.into()] };
    (1..3).for_each(|set| cache.define_hints(HintSet(set), &meaning(&[set as u8])));
    cache.register_graph(1, &Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph")));
    let mut random = SplitMix::new(partitions as u64);
    for sequence in 1..=steps {
        step(&cache, &mut random, sequence);
        let stats = cache.stats();
        let (shadow, _) = &*following.lock();
        assert_eq!(shadow.len() as u64, stats.entries, "{policy}, step {sequence}: entries");
        assert_eq!(shadow.used_bytes() as u64, stats.used_bytes, "{policy}, step {sequence}: bytes");
        if sequence % 500 == 0 {
            shadow.validate();
            let differs = |number: &u64| {
                let key = key(*number);
                shadow.holds(key.borrow().hash64()) != cache.peek(key.borrow()).is_some()
            };
            assert_eq!((0..KEYS).find(differs), None, "{policy}, step {sequence}: a key");
        }
    }
    following.lock().1
}

#[test]
fn every_policy_decides_alike_without_values() {
    for policy in POLICIES {
        for partitions in [1, 4] {
            let [live, shadow] = follows(policy.name, partitions, 6_000, false);
            assert!(live > 1_000 && live == shadow, "{}: {live} hits, {shadow}", policy.name);
        }
    }
    for policy in ["clic:window=500", "deferred-lru:purge=0.5", "gdsf:cost=1", "s3-fifo:bypass=1"] {
        let [live, shadow] = follows(policy, 4, 6_000, false);
        assert!(live > 1_000 && live == shadow, "{policy}: {live} hits, {shadow}");
    }
}

#[test]
fn a_shadow_that_does_not_hear_of_what_leaves_is_found() {
    assert!(catch_unwind(AssertUnwindSafe(|| follows("lru", 1, 6_000, true))).is_err());
}

/// A shadow of documents of 1 KiB takes a small part of what they take.
#[test]
fn a_shadow_is_small() {
    for policy in POLICIES {
        let choice = choose(policy.name).expect("in the table");
        let mut shadow = Shadow::new(&choice, 16 << 20, 16);
        for number in 0..40_000 {
            shadow.read(&Access::read(key(number).borrow().hash64(), 1 << 10), true);
        }
        shadow.validate();
        assert!(shadow.len() > 10_000, "{}", policy.name);
        let each = shadow.bytes() / shadow.len();
        assert!(each < 400, "{}: {each} bytes for an entry", policy.name);
    }
}

/// Counts the accesses to a sample of the keys.
struct Sampling(Sample, Mutex<usize>);

impl Watcher for Sampling {
    fn sample(&self) -> Sample {
        self.0
    }

    fn accessed(&self, accessed: &Accessed<'_>) {
        let heard = self.0.has(accessed.key.hash64()) && accessed.hit;
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) += usize::from(heard);
    }

    fn ended(&self, _: &Context, _: bool) {}
}

/// A sample costs hits of the keys in it, and no others.
#[test]
fn a_hit_outside_of_a_sample_takes_no_lock() {
    let choice = choose("s3-fifo").expect("in the table");
    let options =
        CacheOptions { budget_bytes: 1 << 20, partitions: 4, policy: choice.policy, policy_values: choice.values };
    let cache = Cache::new(&options);
    let (sampling, none) = (Arc::new(Sampling(Sample::one_in(7), Mutex::new(0))), Context::default());
    let watcher: Arc<dyn Watcher> = sampling.clone();
    cache.watch(watcher.clone());
    (0..KEYS).for_each(|number| fill(&cache, &key(number), &read(1, 10), &none, AccessKind::Read));
    let hits = || {
        let before = mutation::times_locked();
        (0..KEYS).for_each(|number| assert!(cache.get(key(number).borrow(), &none).is_some()));
        (mutation::times_locked() - before) as usize
    };
    let in_sample = (0..KEYS).filter(|number| sampling.0.has(key(*number).borrow().hash64())).count();
    assert_eq!(sampling.0.keys(), 8, "the next power of two");
    assert!((KEYS as usize / 16..KEYS as usize / 4).contains(&in_sample), "{in_sample} of {KEYS}");
    assert_eq!(hits(), in_sample);
    assert_eq!(*sampling.1.lock().unwrap_or_else(PoisonError::into_inner), in_sample);
    assert!(!cache.follows_transactions(), "no transaction gets a number for its sake");
    cache.unwatch(&watcher);
    assert_eq!(hits(), 0);
}
