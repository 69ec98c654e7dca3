//! Hits of which a policy hears later than they are: what it decides, what it is told, and how many locks that takes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use forebay::cache::{AccessKind, Accessed, Begin, Cache, CacheOptions, Context, Look, Watcher};
use forebay::hint::{HintMeaning, HintSet};
use forebay::mutation::{self, Fault};
use forebay::policy::{Access, Hits, Learned, Order, POLICIES, Policy, Settings, Slot, Why, choose};
use forebay::runtime::simulated::SplitMix;
use forebay::{Key, Read, Value, Version};

/// Notes of a buffer, and bytes of a note.
const NOTES: usize = 64;
const NOTE_BYTES: usize = 32;

/// What is remembered of clients.
const CLIENTS_BYTES: usize = 8 << 10;

/// Policies that hear of hits in another order between partitions than these have.
const LEARNS_OVER_PARTITIONS: &str = "clic";

fn cache(policy: &'static Policy, partitions: usize) -> Cache {
    Cache::new(&CacheOptions { budget_bytes: 40_000, partitions, policy, policy_values: Vec::new() })
}

fn key(number: u64) -> Key {
    Key::new(0, format!("key {number}").as_bytes())
}

fn read(sequence: u64, bytes: u64) -> Read {
    let value = (bytes > 0).then(|| Value::bytes(vec![b'x'; bytes as usize]));
    Read { value, version: Version { incarnation: 1, sequence } }
}

fn fill(cache: &Cache, key: &Key, read: &Read, context: &Context) {
    if let Begin::Lead(fill) = cache.begin_fill(key) {
        fill.complete(read, context, AccessKind::Read);
    }
}

/// Hits take the lock while it is there.
struct Watching;

impl Watcher for Watching {
    fn accessed(&self, _: &Accessed<'_>) {}

    fn ended(&self, _: &Context, _: bool) {}
}

/// Looks at keys as a read of several does; how many were there.
fn look(cache: &Cache, keys: &[Key], context: &Context) -> usize {
    let reading = cache.reading();
    let looks =
        keys.iter().map(|key| (key.borrow().hash64(), cache.look(key.borrow().hash64(), key.borrow(), &reading)));
    let found: Vec<_> = looks
        .filter_map(|(hash, look)| if let Look::Hit(_, word) = look { Some((hash, word)) } else { None })
        .collect();
    found.iter().for_each(|&(hash, word)| cache.touch(hash, word, context, &reading));
    found.len()
}

/// One step of all that is done to a cache; what it answers.
fn step(cache: &Cache, random: &mut SplitMix, sequence: u64) -> u64 {
    let low = |random: &mut SplitMix| random.below(400).min(random.below(400));
    let (kind, number) = (random.below(1000), low(random));
    let this = key(number);
    let read = read(sequence, random.below(4) * random.below(100));
    let mut context =
        Context { client: random.below(5) as u32, hints: HintSet(random.below(3) as u32), ..Context::default() };
    // What a note has no room for.
    match random.below(20) {
        0 => context.cost_us = 70,
        1 => (context.txn, context.level) = (1 + sequence / 50, (sequence % 3) as u16),
        _ => {}
    }
    match kind {
        0..800 => match cache.get(this.borrow(), &context) {
            Some(read) => return read.version.sequence,
            None => fill(cache, &this, &read, &context),
        },
        800..860 => return look(cache, &[this, key(low(random)), key(low(random))], &context) as u64,
        860..940 => {
            let other = key(number + 1);
            let group = [(this, Some(read.clone())), (other, random.below(2).eq(&0).then_some(read))];
            cache.publish_locked(&group[..1 + random.below(2) as usize], &context);
        }
        940..960 => cache.invalidate(&this, read.version),
        960..970 => cache.remove(&this),
        970..980 => return u64::from(cache.pin(this.borrow())),
        980..994 => cache.unpin(this.borrow()),
        994..997 => {
            cache.lend(3 << 20);
            cache.give_back(3 << 20);
        }
        997 => cache.clear(|key| key.name.last().is_some_and(|last| last % 3 == 0)),
        998 => cache.restamp(&this, Version { incarnation: 1, sequence: sequence / 2 }, read.version),
        _ if random.below(4) == 0 => cache.reset(),
        _ => {}
    }
    0
}

/// By one thread a cache decides as one whose hits all take the lock.
fn decides_as_under_the_lock(policy: &'static Policy, partitions: usize) {
    let (later, at_once) = (cache(policy, partitions), cache(policy, partitions));
    at_once.watch(Arc::new(Watching));
    let meaning = |value: &[u8]| HintMeaning { schema: 1, types: vec![b"kind"[..].into()], values: vec![value.into()] };
    let both = [&later, &at_once];
    for (set, value) in [(1, b"one"), (2, b"two")] {
        both.into_iter().for_each(|cache| cache.define_hints(HintSet(set), &meaning(value)));
    }
    let mut randoms = [SplitMix::new(11), SplitMix::new(11)];
    for sequence in 1..6000 {
        let [one, other] = [0, 1].map(|at| step(both[at], &mut randoms[at], sequence));
        assert_eq!(one, other, "{}, {partitions} partitions: step {sequence}", policy.name);
        // Seldom: to look takes the lock.
        if sequence % 1000 == 0 {
            assert_eq!(later.stats(), at_once.stats(), "{}, {partitions} partitions: step {sequence}", policy.name);
            both.into_iter().for_each(Cache::validate);
        }
    }
    for partition in 0..partitions {
        assert_eq!(later.keys_of(partition), at_once.keys_of(partition), "{}: partition {partition}", policy.name);
    }
    let stats = later.stats();
    assert!(stats.hits > 1000 && stats.evictions + stats.rejections > 100, "{}: {stats:?}", policy.name);
}

#[test]
fn every_policy_decides_as_under_the_lock() {
    for policy in POLICIES {
        decides_as_under_the_lock(policy, 1);
        if !policy.name.starts_with(LEARNS_OVER_PARTITIONS) {
            decides_as_under_the_lock(policy, 4);
        }
    }
}

/// A policy that says what it was told ([`Learned::report`]), and lets anything go.
static TOLD: Policy = telling("told", Hits::Accesses);
static SAMPLED: Policy = telling("sampled", Hits::Sampled);

const fn telling(name: &'static str, hits: Hits) -> Policy {
    Policy {
        name,
        summary: "",
        source: "",
        hits,
        entry_bytes: 0,
        parameters: &[],
        learned: |_| Arc::new(Heard::default()),
        order: |_: &Settings, learned: Arc<dyn Learned>| {
            let any: Arc<dyn std::any::Any + Send + Sync> = learned;
            let heard = any.downcast::<Heard>().expect("its own");
            Box::new(Telling { entries: BTreeMap::new(), heard })
        },
    }
}

/// Hashes of the keys that were hit, with the numbers of clients; 0 where another entry was there.
#[derive(Default)]
struct Heard(Mutex<Vec<(u64, u32)>>);

impl Learned for Heard {
    fn report(&self, _: usize) -> Vec<(String, String)> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().map(|(hash, client)| (hash.to_string(), client.to_string())).collect()
    }
}

struct Telling {
    entries: BTreeMap<Slot, u64>,
    heard: Arc<Heard>,
}

impl Order for Telling {
    fn access(&mut self, slot: Slot, access: &Access) {
        if access.kind == AccessKind::Read {
            let hash = self.entries.get(&slot).filter(|hash| **hash == access.hash).map_or(0, |hash| *hash);
            self.heard.0.lock().unwrap_or_else(PoisonError::into_inner).push((hash, access.client));
        }
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        assert!(self.entries.insert(slot, access.hash).is_none());
    }

    fn resized(&mut self, _: Slot, _: u32) {}

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.entries.remove(&slot);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.entries.keys().next().copied()
    }

    fn withdraw(&mut self, _: Slot) {}

    fn restore(&mut self, _: Slot) {}

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, _: Slot) -> String {
        String::new()
    }

    fn validate(&self) {}
}

/// What the policy of `cache` has heard of; no hit is told for that.
fn heard(cache: &Cache) -> Vec<(u64, u32)> {
    let number = |text: String| text.parse::<u64>().expect("a number");
    cache.learned(usize::MAX).into_iter().map(|(hash, client)| (number(hash), number(client) as u32)).collect()
}

fn hash(number: u64) -> u64 {
    key(number).borrow().hash64()
}

fn get(cache: &Cache, number: u64, client: u32) -> bool {
    cache.get(key(number).borrow(), &Context { client, ..Context::default() }).is_some()
}

fn with_keys(policy: &'static Policy, keys: u64) -> Cache {
    let cache = cache(policy, 1);
    (0..keys).for_each(|number| fill(&cache, &key(number), &read(1, 8), &Context::default()));
    cache
}

/// A reader has hit `key 0`. Before it leaves its note, others do this.
fn hit_beside(meanwhile: impl FnOnce(&Cache) + 'static) -> Vec<(u64, u32)> {
    let cache = with_keys(&TOLD, 2);
    let beside = cache.clone();
    mutation::do_meanwhile(move || meanwhile(&beside));
    assert!(get(&cache, 0, 7));
    assert_eq!(heard(&cache), []);
    cache.validate();
    heard(&cache)
}

#[test]
fn a_hit_is_told_of_the_entry_that_was_hit() {
    let again = |cache: &Cache, number| fill(cache, &key(number), &read(2, 8), &Context::default());
    assert_eq!(hit_beside(|_| ()), [(hash(0), 7)]);
    assert_eq!(hit_beside(|cache| cache.publish(&[(key(0), Some(read(2, 9)))], &[])), [(hash(0), 7)], "a new value");
    assert_eq!(hit_beside(|cache| cache.remove(&key(0))), []);
    assert_eq!(hit_beside(|cache| cache.reset()), []);
    let reused = move |cache: &Cache| {
        cache.remove(&key(0));
        again(cache, 2);
    };
    assert_eq!(hit_beside(reused), [], "its slot is another entry's");
    let back = move |cache: &Cache| {
        cache.remove(&key(0));
        again(cache, 0);
    };
    assert_eq!(hit_beside(back), [], "it is another entry, of the same key");
    let anew = move |cache: &Cache| {
        cache.reset();
        (2..4).for_each(|number| again(cache, number));
    };
    assert_eq!(hit_beside(anew), [], "numbers begin again");
}

/// Hits of four threads, of entries that stay while others come and go: found, and told.
fn beside_each_other(policy: &'static Policy) -> (usize, usize) {
    const EACH: usize = 20_000;
    let (cache, found) = (with_keys(policy, 10), AtomicUsize::new(0));
    (0..10).for_each(|number| assert!(cache.pin(key(number).borrow())));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (cache, found) = (&cache, &found);
            scope.spawn(move || {
                for step in 0..EACH {
                    let hit = get(cache, ((step + client) % 10) as u64, client as u32);
                    found.fetch_add(usize::from(hit), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            for step in 0..EACH as u64 / 10 {
                let number = 1000 + step % 300;
                fill(&cache, &key(number), &read(step, 8), &Context::default());
                if step % 7 == 0 {
                    cache.remove(&key(number - step % 5));
                }
            }
        });
    });
    cache.validate();
    let told = heard(&cache);
    assert!(told.iter().all(|(hash, _)| *hash != 0), "of the entry that was hit");
    (found.into_inner(), told.len())
}

#[test]
fn a_policy_that_learns_hears_of_every_hit() {
    let (found, told) = beside_each_other(&TOLD);
    assert_eq!((found, told), (80_000, 80_000));
}

#[test]
fn a_policy_that_samples_hears_of_no_hit_twice() {
    let (found, told) = beside_each_other(&SAMPLED);
    assert!(found == 80_000 && told <= found && told > 0, "{told} of {found}");
}

/// A thread hits while another has the lock, until so many hits are over: how many the policy hears of.
fn hits_under_anothers_lock(policy: &'static Policy, until: usize) -> usize {
    const HITS: usize = 500;
    let (cache, over) = (with_keys(policy, 1), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let ((has_lock, waits), (go, may_go)) = (channel(), channel());
        let (cache, over) = (&cache, &over);
        scope.spawn(move || {
            cache.clear(|_| {
                has_lock.send(()).expect("it waits");
                may_go.recv().is_err()
            });
        });
        waits.recv().expect("it has an entry");
        scope.spawn(move || {
            for _ in 0..HITS {
                assert!(get(cache, 0, 3));
                over.fetch_add(1, Ordering::Relaxed);
            }
        });
        while over.load(Ordering::Relaxed) < until {
            std::thread::yield_now();
        }
        go.send(()).expect("it waits");
    });
    cache.validate();
    assert_eq!(over.into_inner(), HITS);
    heard(&cache).len()
}

fn none_is_left_out() {
    assert_eq!(hits_under_anothers_lock(&TOLD, NOTES), 500);
}

#[test]
fn a_reader_that_finds_no_room_waits_or_goes_on() {
    none_is_left_out();
    assert_eq!(hits_under_anothers_lock(&SAMPLED, 500), NOTES, "a policy that samples keeps no reader waiting");
}

/// A client that goes from thread to thread, beside others that do not. More threads might share a buffer.
#[test]
fn a_clients_hits_are_told_in_its_order() {
    let cache = with_keys(&TOLD, 50);
    let mut random = SplitMix::new(3);
    let wanders: Vec<(u64, usize)> = (0..3000).map(|_| (random.below(50), random.below(2) as usize)).collect();
    let turn = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, turn, wanders) = (&cache, &turn, &wanders);
            scope.spawn(move || {
                let stays = 100 + thread as u32;
                for (at, &(number, on)) in wanders.iter().enumerate() {
                    assert!(get(cache, at as u64 % 50, stays));
                    while turn.load(Ordering::Acquire) < at {
                        std::thread::yield_now();
                    }
                    if on == thread {
                        assert!(get(cache, number, 7));
                        turn.store(at + 1, Ordering::Release);
                    }
                }
            });
        }
    });
    cache.validate();
    let (told, of) = (heard(&cache), |client: u32| move |one: &&(u64, u32)| one.1 == client);
    let order = |client| told.iter().filter(of(client)).map(|one| one.0).collect::<Vec<u64>>();
    assert!(order(7).into_iter().eq(wanders.iter().map(|(number, _)| hash(*number))));
    for thread in 0..2 {
        assert!(order(100 + thread).into_iter().eq((0..3000).map(|at| hash(at % 50))), "thread {thread}");
    }
}

/// What waits is bounded, and so is what it takes.
#[test]
fn what_waits_is_bounded() {
    for policy in [&TOLD, &SAMPLED] {
        let cache = with_keys(policy, 10);
        let most = cache.hits_waiting_bytes() / NOTE_BYTES;
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let buffers = cpus.next_power_of_two().min(16);
        assert!(
            most >= buffers * NOTES && most <= buffers * (NOTES + 8) + CLIENTS_BYTES / NOTE_BYTES,
            "{most} notes, {buffers} buffers"
        );
        for hits in 1..1000 {
            assert!(get(&cache, hits % 10, 1));
            assert!(hits as usize - heard(&cache).len() <= NOTES, "of one thread");
        }
    }
    assert_eq!(with_keys(choose("s3-fifo").expect("known").policy, 10).hits_waiting_bytes(), 0);
    assert_eq!(with_keys(choose("detox").expect("known").policy, 10).hits_waiting_bytes(), 0);
}

/// Locks of partitions for 6,400 hits under each policy, and beside a watcher.
#[test]
fn a_hit_takes_no_lock_or_seldom() {
    const HITS: u64 = 6400;
    let locks = |hits: &dyn Fn()| {
        let before = mutation::times_locked();
        hits();
        mutation::times_locked() - before
    };
    for policy in POLICIES {
        let cache = with_keys(policy, 20);
        let there: Vec<Key> = (0..20).map(key).filter(|key| cache.peek(key.borrow()).is_some()).collect();
        if there.is_empty() {
            // It lets in what transactions ask for, and there are none here.
            continue;
        }
        let each = || (0..HITS).map(|at| &there[at as usize % there.len()]);
        let single =
            locks(&|| each().for_each(|key| assert!(cache.get_published(key.borrow(), &Context::default()).is_some())));
        let several = locks(&|| {
            let hit: usize =
                (0..HITS / 10).map(|_| look(&cache, &vec![there[0].clone(); 10], &Context::default())).sum();
            assert_eq!(hit as u64, HITS);
        });
        let most = match policy.hits {
            Hits::Marks => 0,
            _ if cache.follows_transactions() => HITS,
            _ => HITS / NOTES as u64,
        };
        println!("{}: {single} locks, {several} by reads of several", policy.name);
        assert!(single <= most && several <= most, "{}: {single} and {several} locks", policy.name);
        cache.watch(Arc::new(Watching));
        let watched = locks(&|| each().for_each(|key| assert!(cache.get(key.borrow(), &Context::default()).is_some())));
        assert_eq!(watched, HITS, "{}", policy.name);
    }
}

/// A miss takes the lock of its partition twice: to begin the fill, and to put in what the store answered. A look
/// before it takes none.
#[test]
fn a_miss_takes_two_locks() {
    let cache = with_keys(choose("s3-fifo").expect("known").policy, 1);
    let before = mutation::times_locked();
    for number in 1..100 {
        assert_eq!(look(&cache, &[key(number)], &Context::default()), 0);
        fill(&cache, &key(number), &read(1, 8), &Context::default());
    }
    assert_eq!(mutation::times_locked() - before, 99 * 2);
}

/// Each rule is left out once, and a test of the above notices.
#[test]
fn gate() {
    let lru = choose("lru").expect("known").policy;
    let decides = move || decides_as_under_the_lock(lru, 1);
    let gate: [(Fault, &dyn Fn()); 3] = [
        (Fault::VictimsBeforeHits, &decides),
        (Fault::HeardOfAnother, &a_hit_is_told_of_the_entry_that_was_hit),
        (Fault::HitsLeftOut, &|| assert_eq!(hits_under_anothers_lock(&TOLD, 500), 500)),
    ];
    for (fault, test) in gate {
        let _on = mutation::put_back(Some(fault));
        let found = catch_unwind(AssertUnwindSafe(test)).is_err();
        assert!(found, "{fault:?} is not found");
    }
    none_is_left_out();
}
