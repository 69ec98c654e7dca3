//! On one thread, against a map. The listener tells the map what left, so it knows at every moment what is in.

use std::collections::HashMap;
use std::sync::Mutex;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Log = Arc<Mutex<Vec<(u16, u64, Cause)>>>;

#[derive(Clone, Debug)]
enum Step {
    Get(u16),
    Peek(u16),
    Insert(u16),
    InsertWith(u16, Lifetime),
    GetOrInsert(u16),
    GetWith(u16),
    GetWithNothing(u16),
    Compute(u16, Op<()>),
    Remove(u16),
    InsertTagged(u16, u8),
    InvalidateTag(u8),
    Pin(u16),
    Unpin(u16),
    InvalidateIf(u64),
    SetCapacity(usize),
    Clear,
    RunPending,
    Advance(u64),
}

fn span() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![3 => Just(None), 1 => (0..1000u64).prop_map(|nanos| Some(Duration::from_nanos(nanos)))]
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    let long = prop_oneof![span(), (0..1u64 << 24).prop_map(|nanos| Some(Duration::from_nanos(nanos)))];
    (long.clone(), long, span()).prop_map(|(since_creation, since_write, since_access)| Lifetime {
        since_creation,
        since_write,
        since_access,
        refresh_after: None,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..60u16;
    let op = prop_oneof![3 => Just(Op::Insert(())), 1 => Just(Op::Remove), 1 => Just(Op::Keep)];
    prop_oneof![
        8 => key.clone().prop_map(Step::Get),
        2 => key.clone().prop_map(Step::Peek),
        6 => key.clone().prop_map(Step::Insert),
        6 => (key.clone(), lifetime()).prop_map(|(key, lifetime)| Step::InsertWith(key, lifetime)),
        2 => key.clone().prop_map(Step::GetOrInsert),
        2 => key.clone().prop_map(Step::GetWith),
        1 => key.clone().prop_map(Step::GetWithNothing),
        4 => (key.clone(), op).prop_map(|(key, op)| Step::Compute(key, op)),
        2 => key.clone().prop_map(Step::Remove),
        3 => (key.clone(), 0..16u8).prop_map(|(key, tags)| Step::InsertTagged(key, tags)),
        1 => (0..4u8).prop_map(Step::InvalidateTag),
        2 => key.clone().prop_map(Step::Pin),
        2 => key.prop_map(Step::Unpin),
        1 => (2..9u64).prop_map(Step::InvalidateIf),
        1 => prop_oneof![0..60usize, 100..500usize].prop_map(Step::SetCapacity),
        1 => (0..9u8).prop_map(|chance| if chance == 0 { Step::Clear } else { Step::RunPending }),
        6 => prop_oneof![0..300u64, 0..1u64 << 22].prop_map(Step::Advance),
    ]
}

#[derive(Clone, Debug)]
struct Known {
    value: u64,
    created: u64,
    written: u64,
    used: u64,
    lifetime: Lifetime,
    pins: u16,
    /// A bit for each tag.
    tags: u8,
}

impl Known {
    fn lives(&self, now: u64) -> bool {
        let over = |from: u64, span: Option<Duration>| span.is_some_and(|span| now >= from + span.as_nanos() as u64);
        let Lifetime { since_creation, since_write, since_access, .. } = self.lifetime;
        !over(self.created, since_creation) && !over(self.written, since_write) && !over(self.used, since_access)
    }
}

struct Model {
    cache: Cache<u16, u64>,
    hand: Hand,
    now: u64,
    log: Log,
    lifetime: Lifetime,
    known: HashMap<u16, Known>,
    values: u64,
}

fn weight(key: u16, tags: u8) -> usize {
    usize::from(key % 4) + 1 + tags.count_ones() as usize * TAG_WEIGHT
}

impl Model {
    fn new(capacity: usize, lifetime: Lifetime) -> Model {
        let (hand, log) = (Hand::default(), Log::default());
        let told = log.clone();
        let listener = move |key: &u16, value: &u64, cause| told.lock().expect("whole").push((*key, *value, cause));
        let mut builder = Cache::builder().capacity(capacity).weigher(|key, _| weight(*key, 0));
        builder = builder.clock(hand.clone()).listener(listener).lifetimes(move |_, _| lifetime);
        Model { cache: builder.build(), hand, now: 0, log, lifetime, known: HashMap::new(), values: 0 }
    }

    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    fn live(&self, key: u16) -> Option<u64> {
        self.known.get(&key).filter(|known| known.lives(self.now)).map(|known| known.value)
    }

    fn used(&mut self, key: u16) {
        let now = self.now;
        self.known.entry(key).and_modify(|known| known.used = now);
    }

    /// The step stored this value. What it replaced is told by the listener, and that may also be the value itself.
    fn stored(&mut self, key: u16, value: u64, lifetime: Lifetime, tags: u8) {
        let old = self.known.get(&key).filter(|old| old.lives(self.now));
        let pins = old.map_or(0, |old| old.pins);
        // Only of an entry with times does the cache know when it came in.
        let old = old.filter(|old| old.lifetime != Lifetime::ENDLESS);
        let created = old.map_or(self.now, |old| old.created);
        self.left(Some(key), false);
        self.known.insert(key, Known { value, created, written: self.now, used: self.now, lifetime, pins, tags });
    }

    /// Follows the listener. `replaces`, `removes`: what the step may have done.
    fn left(&mut self, replaces: Option<u16>, removes: bool) {
        for (key, value, cause) in std::mem::take(&mut *self.log.lock().expect("whole")) {
            let known = self.known.remove(&key).expect("what leaves was in, and leaves once");
            assert_eq!(known.value, value);
            assert!(known.pins == 0 || cause != Cause::Evicted, "{key} is pinned");
            if known.lives(self.now) {
                match cause {
                    Cause::Evicted => {}
                    Cause::Expired => panic!("{key} has not expired: {known:?} at {}", self.now),
                    Cause::Replaced => assert_eq!(replaces, Some(key)),
                    Cause::Removed => assert!(removes),
                }
            }
        }
    }

    fn insert(&mut self, key: u16, lifetime: Option<Lifetime>) {
        let value = self.value();
        let stored = match lifetime {
            Some(lifetime) => self.cache.insert_with(key, value, lifetime),
            None => self.cache.insert(key, value),
        };
        let lifetime = lifetime.unwrap_or(self.lifetime);
        self.inserted(stored, key, value, (lifetime, 0));
    }

    fn inserted(&mut self, stored: bool, key: u16, value: u64, (lifetime, tags): (Lifetime, u8)) {
        let zero = |span: Option<Duration>| span == Some(Duration::ZERO);
        let spans = [lifetime.since_access, lifetime.since_creation, lifetime.since_write];
        let lasts = !spans.into_iter().any(zero);
        // What left meanwhile is pinned no more.
        let left = self.log.lock().expect("whole").clone();
        let others = self.known.iter().filter(|(other, known)| known.pins > 0 && **other != key);
        let pinned = others.filter(|(other, _)| left.iter().all(|gone| gone.0 != **other));
        let pinned = pinned.map(|(other, known)| weight(*other, known.tags)).sum::<usize>();
        let fits = weight(key, tags) + pinned <= self.cache.capacity();
        assert_eq!(stored, lasts && fits, "what has time and room is stored");
        if stored {
            self.stored(key, value, lifetime, tags);
        } else {
            self.left(Some(key), false);
            assert_eq!(self.cache.peek(&key), None, "nothing old stays");
        }
    }

    fn compute(&mut self, key: u16, op: &Op<()>) {
        let (value, live) = (self.value(), self.live(key));
        let mut runs = 0;
        let computed = self.cache.compute(key, |found| {
            runs += 1;
            assert_eq!(found.copied(), live);
            match op {
                Op::Insert(()) => Op::Insert(value),
                Op::Remove => Op::Remove,
                Op::Keep => Op::Keep,
            }
        });
        assert!(runs == 1 || (live.is_none() && runs == 2), "only what has expired leaves meanwhile");
        match (op, live) {
            (Op::Keep, Some(_)) => assert_eq!(computed, Computed::Kept),
            (Op::Keep | Op::Remove, None) => assert_eq!(computed, Computed::Absent),
            (Op::Remove, Some(_)) => assert_eq!(computed, Computed::Removed),
            (Op::Insert(()), _) => {
                let expected = if live.is_some() { Computed::Replaced } else { Computed::Inserted };
                assert!(computed == expected || computed == Computed::Refused, "{computed:?}");
                return self.inserted(computed != Computed::Refused, key, value, (self.lifetime, 0));
            }
        }
        self.left(None, *op == Op::Remove);
    }

    /// What a step that loads answers, and stores if there was nothing.
    fn loads(&mut self, key: u16, run: impl FnOnce(&Cache<u16, u64>, u64) -> u64) {
        let (value, live) = (self.value(), self.live(key));
        assert_eq!(run(&self.cache, value), live.unwrap_or(value));
        if live.is_some() {
            self.used(key);
        }
        if live.is_none() && self.cache.peek(&key).is_some() {
            self.stored(key, value, self.lifetime, 0);
        }
        self.left(Some(key), false);
    }

    /// A key was pinned or unpinned, or not, as it was expected.
    fn pinned(&mut self, key: u16, done: bool, expected: bool, by: i16) {
        assert_eq!(done, expected);
        self.left(None, false);
        if done {
            self.known.entry(key).and_modify(|known| known.pins = known.pins.wrapping_add_signed(by));
        }
    }

    fn get(&mut self, key: u16) {
        assert_eq!(self.cache.get(&key), self.live(key));
        if self.live(key).is_some() {
            self.used(key);
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Get(key) => self.get(*key),
            Step::Peek(key) => {
                assert_eq!(self.cache.peek(key), self.live(*key));
                assert_eq!(self.cache.contains(key), self.live(*key).is_some());
            }
            Step::Insert(key) => self.insert(*key, None),
            Step::InsertWith(key, lifetime) => self.insert(*key, Some(*lifetime)),
            Step::GetOrInsert(key) => self.loads(*key, |cache, value| cache.get_or_insert_with(*key, || value)),
            Step::GetWith(key) => {
                self.loads(*key, |cache, value| cache.get_with(*key, || value).expect("no circle"));
            }
            Step::GetWithNothing(key) => {
                let live = self.live(*key);
                assert_eq!(self.cache.optionally_get_with(*key, || None), Ok(live));
                if live.is_some() {
                    self.used(*key);
                }
            }
            Step::Compute(key, op) => self.compute(*key, op),
            Step::Remove(key) => {
                let live = self.live(*key);
                assert_eq!(self.cache.remove(key), live);
            }
            Step::InvalidateIf(by) => {
                let old = self.known.values().filter(|known| known.lives(self.now) && known.value % by == 0).count();
                assert_eq!(self.cache.invalidate_if(|_, value| value % by == 0), old);
            }
            Step::InsertTagged(key, tags) => {
                let value = self.value();
                let named: Vec<u8> = (0..4).filter(|tag| tags >> tag & 1 == 1).collect();
                let stored = self.cache.insert_tagged(*key, value, &named);
                self.inserted(stored, *key, value, (self.lifetime, *tags));
            }
            Step::InvalidateTag(tag) => {
                let tagged = self.known.values().filter(|known| known.lives(self.now) && known.tags >> tag & 1 == 1);
                assert_eq!(self.cache.invalidate_tag(tag), tagged.count());
            }
            Step::Pin(key) => {
                let (pinned, is_there) = (self.cache.pin(key), self.live(*key).is_some());
                self.pinned(*key, pinned, is_there, 1);
            }
            Step::Unpin(key) => {
                let is_pinned = self.known.get(key).is_some_and(|known| known.lives(self.now) && known.pins > 0);
                let unpinned = self.cache.unpin(key);
                self.pinned(*key, unpinned, is_pinned, -1);
            }
            Step::SetCapacity(wanted) => {
                let pinned = self.known.iter().filter(|known| known.1.pins > 0);
                let pinned = pinned.map(|(key, known)| weight(*key, known.tags)).sum();
                let expected =
                    if pinned > *wanted { Err(StillPinned { wanted: *wanted, capacity: pinned }) } else { Ok(()) };
                assert_eq!(self.cache.set_capacity(*wanted), expected);
            }
            Step::Clear => self.cache.clear(),
            Step::RunPending => self.cache.run_pending(),
            Step::Advance(by) => {
                self.now += by;
                self.hand.set(self.now);
            }
        }
        self.left(None, matches!(step, Step::Remove(_) | Step::InvalidateIf(_) | Step::InvalidateTag(_) | Step::Clear));
        self.check(matches!(step, Step::RunPending));
    }

    fn check(&self, is_turned: bool) {
        let mut expected: Vec<(u16, u64)> = self
            .known
            .iter()
            .filter(|(_, known)| known.lives(self.now))
            .map(|(key, known)| (*key, known.value))
            .collect();
        let mut there: Vec<(u16, u64)> = self.cache.iter().collect();
        expected.sort_unstable();
        there.sort_unstable();
        assert_eq!(there, expected);
        let weights = self.known.iter().map(|(key, known)| weight(*key, known.tags)).sum::<usize>();
        assert_eq!((self.cache.len(), self.cache.weight()), (self.known.len(), weights));
        assert!(weights <= self.cache.capacity());
        let late = self.known.values().filter(|known| !known.lives(self.now.saturating_sub(1 << 20))).count();
        assert!(!is_turned || late == 0, "what expired a tick ago has left");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, ..ProptestConfig::default() })]

    #[test]
    fn is_a_map_that_tells_what_it_forgets(
        capacity in prop_oneof![Just(0), Just(1), 2..60usize, 100..500usize, Just(1000)],
        lifetime in prop_oneof![Just(Lifetime::ENDLESS), lifetime()],
        steps in vec(step(), 1..if cfg!(miri) { 40 } else { 250 }),
    ) {
        let mut model = Model::new(capacity, lifetime);
        steps.iter().for_each(|step| model.run(step));
        model.cache.entries.validate_all();
    }
}
