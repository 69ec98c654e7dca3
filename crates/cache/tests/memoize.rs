//! Functions that remember, beside those that they were.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_cache::memoize;

static CALLS: AtomicUsize = AtomicUsize::new(0);

#[memoize(capacity = 2 * 50, policy = "lru", time_to_live = Duration::from_secs(3600), time_to_idle = Duration::MAX)]
fn joined(mut first: String, others: &[&'static str], by: char, _unused: ()) -> Result<String, usize> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    for other in others {
        first.push(by);
        first.push_str(other);
    }
    if first.len() > 20 { Err(first.len()) } else { Ok(first) }
}

#[test]
fn arguments_of_all_kinds_are_a_key() {
    for _ in 0..3 {
        assert_eq!(joined("a".into(), &["b", "c"], '-', ()), Ok("a-b-c".into()));
        assert_eq!(joined("a".into(), &["b"], '-', ()), Ok("a-b".into()));
        assert_eq!(joined("a".into(), &["b", "c"], '+', ()), Ok("a+b+c".into()));
        assert_eq!(joined("a".repeat(30), &[], '+', ()), Err(30));
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 4, "an error is an answer");
}

/// A step of the Collatz sequence asks for the next one.
#[memoize(capacity = 1000)]
fn steps(from: u64) -> u32 {
    match from {
        1 => 0,
        even if even % 2 == 0 => 1 + steps(even / 2),
        odd => 1 + steps(3 * odd + 1),
    }
}

#[test]
fn it_calls_itself() {
    assert_eq!((steps(27), steps(27), steps(1)), (111, 111, 0));
}

#[memoize(capacity = 10)]
fn endless(at: u32, left: u32) -> u32 {
    // The second call asks for what the first one computes.
    if left == 0 { at } else { circle(at, left) }
}

fn circle(at: u32, left: u32) -> u32 {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    if DEPTH.fetch_add(1, Ordering::Relaxed) < 3 { endless(at, left) } else { 7 }
}

#[test]
fn a_circle_is_computed_without_the_cache() {
    assert_eq!(endless(1, 1), 7);
}

#[memoize(capacity = 10)]
fn nothing_to_ask() -> usize {
    CALLS_WITHOUT.fetch_add(1, Ordering::Relaxed)
}

static CALLS_WITHOUT: AtomicUsize = AtomicUsize::new(0);

#[test]
fn threads_share_the_answers() {
    std::thread::scope(|scope| {
        (0..4).for_each(|_| _ = scope.spawn(|| assert_eq!(nothing_to_ask(), 0)));
    });
    assert_eq!(CALLS_WITHOUT.load(Ordering::Relaxed), 1);
}

#[test]
#[should_panic(expected = "no policy 'newest'")]
fn a_policy_that_there_is_not() {
    #[memoize(capacity = 10, policy = "newest")]
    fn one() -> u32 {
        1
    }
    one();
}
