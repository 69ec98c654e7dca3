//! Policies that learn from hints, with clients that send none: never much worse than LRU.

use forebay_cache::hint::HintSet;
use forebay_cache::policy::bare::{Bare, Served};
use forebay_cache::policy::{Access, Unit, choose};

const ENTRIES: u64 = 400;
const PHASES: u64 = 4;
const REQUESTS: u64 = 40_000;

fn cache(policy: &str) -> Bare {
    let choice = choose(policy).expect("in the table");
    Bare::new(choice.policy, &choice.settings(Unit::Entries, ENTRIES))
}

/// Hits in each phase; each has a working set of three quarters of the cache, which no other phase has.
fn hits(cache: &mut Bare, hints: HintSet) -> Vec<u64> {
    let mut random = 1u64;
    let phase = |phase: u64| {
        let mut hits = 0;
        for _ in 0..REQUESTS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = phase * ENTRIES + (random >> 33) % (3 * ENTRIES / 4);
            let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hits += u64::from(matches!(cache.access(Access { hints, ..Access::read(hash, 1) }), Served::Hit));
        }
        hits
    };
    (0..PHASES).map(phase).collect()
}

#[test]
fn a_working_set_that_moves_is_followed_without_hints() {
    let lru = hits(&mut cache("lru"), HintSet(0));
    // With windows as by default, and with some in each phase.
    for window in [100_000, 5_000] {
        for policy in ["clic", "clic-top-k", "clic-tree", "clic-g"] {
            let own = hits(&mut cache(&format!("{policy}:window={window}")), HintSet(0));
            for (phase, (own, lru)) in own.iter().zip(&lru).enumerate() {
                assert!(10 * own >= 9 * lru, "{policy}, window {window}, phase {phase}: {own} hits, LRU has {lru}");
            }
        }
    }
}

/// The paper's rule stays for hints: where all have the same set, what came first stays.
#[test]
fn with_hints_the_rule_is_that_of_the_paper() {
    let mut cache = cache("clic");
    let own = hits(&mut cache, HintSet(1));
    assert!(own[0] > 9 * REQUESTS / 10 && own[2..].iter().all(|&hits| hits == 0), "{own:?}");
}
