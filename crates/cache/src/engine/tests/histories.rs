//! Recorded histories of threads, each of which must have an order: one in which every operation happens at a moment
//! between its call and its answer, and answers what a map would. Such an order exists for all keys together if it does
//! for each key alone.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::Inline;
use super::super::validate::validate;
use super::model::seeded;

type Pair = (u64, u64);

/// What has a history. A value is the number that it was inserted as.
pub(crate) trait Subject: Sync {
    fn get(&self, key: u64) -> Option<u64>;
    fn peek(&self, key: u64) -> Option<u64>;
    /// Answers what was there.
    fn insert(&self, key: u64, value: u64) -> Option<u64>;
    /// Answers what is there.
    fn fill(&self, key: u64, value: u64) -> u64;
    fn remove(&self, key: u64) -> Option<u64>;
    /// Panics if anything is wrong.
    fn validate(&self);
}

impl Subject for Inline<u64, Pair> {
    fn get(&self, key: u64) -> Option<u64> {
        whole(Inline::get(self, key))
    }

    fn peek(&self, key: u64) -> Option<u64> {
        whole(Inline::peek(self, key))
    }

    fn insert(&self, key: u64, number: u64) -> Option<u64> {
        whole(Inline::insert(self, key, value(number)))
    }

    fn fill(&self, key: u64, number: u64) -> u64 {
        whole(Some(self.get_or_insert_with(key, || value(number)))).unwrap_or(0)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        whole(Inline::remove(self, key))
    }

    fn validate(&self) {
        validate(self);
    }
}

#[derive(Clone, Copy, Debug)]
enum Done {
    Got(Option<u64>),
    /// What was inserted, and what was there.
    Inserted(u64, Option<u64>),
    Removed(Option<u64>),
    /// What was offered, and what is there.
    Filled(u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    key: u64,
    from: u64,
    to: u64,
    done: Done,
}

impl Done {
    /// The state after it, if it can have happened in `state`.
    fn after(self, state: Option<u64>) -> Option<Option<u64>> {
        match self {
            Done::Got(found) => (found == state).then_some(state),
            Done::Inserted(value, before) => (before == state).then_some(Some(value)),
            Done::Removed(before) => (before == state).then_some(None),
            Done::Filled(offered, answer) => (state.unwrap_or(offered) == answer).then_some(Some(answer)),
        }
    }
}

/// Whether the events of one key have an order that begins at `state`. `forgets`: the entry may be evicted at any time.
fn has_order(events: &[Event], state: Option<u64>, forgets: bool) -> bool {
    assert!(events.len() <= 64, "the set of events is one word");
    let all = if events.len() == 64 { u64::MAX } else { (1 << events.len()) - 1 };
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, state)];
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        if !seen.insert((done, state)) {
            continue;
        }
        if forgets && state.is_some() {
            open.push((done, None));
        }
        let left = || (0..events.len()).filter(|at| done >> at & 1 == 0);
        let first_answer = left().map(|at| events[at].to).min().unwrap_or(0);
        for at in left().filter(|&at| events[at].from < first_answer) {
            if let Some(after) = events[at].done.after(state) {
                open.push((done | 1 << at, after));
            }
        }
    }
    false
}

/// Both halves of a value say the same, or it is torn.
fn whole(value: Option<Pair>) -> Option<u64> {
    value.map(|(a, b)| {
        assert_eq!(a, !b, "a value is torn");
        a
    })
}

fn value(n: u64) -> Pair {
    (n, !n)
}

const THREADS: u64 = 4;
const STEPS: u64 = 24;

/// What one thread does in a round.
fn act(cache: &impl Subject, keys: &[u64], others: &[u64], clock: &AtomicU64, seed: u64, events: &mut Vec<Event>) {
    let mut random = fastrand::Rng::with_seed(seed);
    for step in 0..STEPS {
        if !others.is_empty() && random.u8(..3) == 0 {
            // What makes and takes room on the way to the keys.
            let other = others[random.usize(..others.len())];
            if random.bool() {
                cache.remove(other)
            } else {
                cache.insert(other, other)
            };
        }
        let (key, offered) = (keys[random.usize(..keys.len())], seed << 8 | step);
        let from = clock.fetch_add(1, Ordering::SeqCst);
        let done = match random.u8(..8) {
            0..3 => Done::Got(cache.get(key)),
            3..5 => Done::Inserted(offered, cache.insert(key, offered)),
            5 => Done::Filled(offered, cache.fill(key, offered)),
            _ => Done::Removed(cache.remove(key)),
        };
        events.push(Event { key, from, to: clock.fetch_add(1, Ordering::SeqCst), done });
    }
}

/// Rounds of all threads on the same few keys; after each, their history is checked.
pub(crate) fn rounds(cache: &impl Subject, keys: &[u64], others: &[u64], forgets: bool) {
    let count = if cfg!(miri) { 2 } else { 150 };
    for round in 0..count {
        let clock = AtomicU64::new(0);
        let states: Vec<Option<u64>> = keys.iter().map(|&key| cache.peek(key)).collect();
        let start = Barrier::new(THREADS as usize);
        let mut events = Vec::new();
        std::thread::scope(|scope| {
            let run = |thread: u64| {
                let (clock, start) = (&clock, &start);
                move || {
                    let mut events = Vec::new();
                    start.wait();
                    act(cache, keys, others, clock, round * THREADS + thread + 1, &mut events);
                    events
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
            events.extend(threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")));
        });
        for (key, state) in keys.iter().zip(states) {
            let of_key: Vec<Event> = events.iter().filter(|event| event.key == *key).copied().collect();
            assert!(has_order(&of_key, state, forgets), "round {round}, key {key} from {state:?}: {of_key:?}");
        }
        cache.validate();
    }
}

#[test]
fn a_group_is_linearizable() {
    rounds(&seeded(14, 0), &[1, 2, 3], &[], false);
}

/// Room for two of three keys.
#[test]
fn evictions_are_removals() {
    rounds(&seeded(2, 0), &[1, 2, 3], &[], true);
}

/// The keys stand behind a full group, in which room is made and taken.
#[test]
fn displaced_keys_are_linearizable() {
    let cache = seeded(40, 0);
    let near: Vec<u64> = (0..).filter(|&key| cache.table.home(cache.hasher.hash::<u64>([key])) == 0).take(19).collect();
    let (others, keys) = near.split_at(16);
    for &other in others {
        cache.insert(other, value(other));
    }
    rounds(&cache, keys, others, false);
}

/// Writers replace and remove as fast as they can: what readers find is whole.
#[test]
fn nothing_is_torn() {
    let cache = seeded::<u64, Pair>(14, 0);
    let steps = if cfg!(miri) { 200 } else { 100_000 };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (cache, over) = (&cache, &over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !over.load(Ordering::Relaxed) {
                    whole(cache.get(random.u64(..20)));
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(9);
        for step in 0..steps {
            let key = random.u64(..20);
            whole(if step % 5 == 0 { cache.remove(key) } else { cache.insert(key, value(step)) });
        }
        over.store(true, Ordering::Relaxed);
    });
    validate(&cache);
}

/// All locks are held while it looks: the budget and everything else is exact at any moment.
#[test]
fn all_is_sound_while_threads_are_at_work() {
    let cache = seeded::<u64, Pair>(if cfg!(miri) { 60 } else { 3000 }, 2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (cache, over) = (&cache, &over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !over.load(Ordering::Relaxed) {
                    let key = random.u64(..5000);
                    match random.u8(..8) {
                        0..3 => drop(whole(cache.get(key))),
                        3..6 => drop(cache.get_or_insert_with(key, || value(key))),
                        6 => drop(cache.insert(key, value(seed))),
                        _ => drop(cache.remove(key)),
                    }
                }
            });
        }
        for _ in 0..if cfg!(miri) { 3 } else { 60 } {
            validate(&cache);
            std::thread::yield_now();
        }
        cache.clear();
        over.store(true, Ordering::Relaxed);
    });
    validate(&cache);
}

#[test]
fn a_history_without_order_is_found() {
    let event = |from, to, done| Event { key: 1, from, to, done };
    let stale = [event(0, 1, Done::Inserted(7, None)), event(2, 3, Done::Got(None))];
    assert!(!has_order(&stale, None, false), "it was inserted before");
    assert!(has_order(&stale, None, true), "it may have been evicted");
    let overlapping = [event(0, 3, Done::Inserted(7, None)), event(1, 2, Done::Got(None))];
    assert!(has_order(&overlapping, None, false));
    let back = [event(0, 1, Done::Removed(Some(5))), event(2, 3, Done::Got(Some(5)))];
    assert!(!has_order(&back, Some(5), true), "what was removed does not come back");
}
