//! DeToX over the bare policy: the paper's worked example, partitions, aborts, and agreement with a naive model.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_cache::graph::Graph;
use forebay_cache::policy::bare::{Bare, Served};
use forebay_cache::policy::{Access, AccessKind, Order, Unit, Why, choose};
use proptest::prelude::*;

fn cache(policy: &str, capacity: u64) -> Bare {
    let choice = choose(policy).expect("in the table");
    Bare::new(choice.policy, &choice.settings(Unit::Entries, capacity))
}

fn ask(txn: u64, level: u16, vertex: u16, key: u64) -> Access {
    Access { txn, txn_type: 1, level, vertex, ..Access::read(key, 1) }
}

/// Score and frequency as `CACHE EXPLAIN` shows them.
fn explained(cache: &Bare, key: u64) -> (f64, f64) {
    let text = cache.explain(key).expect("cached");
    let number = |after: &str| {
        let rest = text.split_once(after).expect("in the text").1;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse::<f64>().expect("a number")
    };
    (number("score "), number("asked for "))
}

/// Figure 6, from the frequencies that the figure begins with: they are made by single reads, whose scores the sums
/// of the figure are not, so only instance scores are compared: the sum after the transaction less that before.
#[test]
fn instance_scores_of_figure_6() {
    let graph = Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph"));
    let mut cache = cache("detox:factor=0", 10);
    cache.learned().register_graph(1, &graph);
    // One access each is that of the transaction itself.
    let before: HashMap<u64, (f64, f64)> = [(1, 0), (2, 28), (3, 98), (4, 49)]
        .into_iter()
        .map(|(key, times)| {
            (0..times).for_each(|_| {
                cache.access(Access::read(key, 1));
            });
            // The mean of 1, 2, .. times.
            (key, (f64::from(times + 1) / 2.0, f64::from(times)))
        })
        .collect();
    for (level, vertex) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
        cache.access(ask(7, level, vertex, u64::from(vertex)));
    }
    cache.ended(7, true);
    for (key, instance) in [(1, 0.75), (2, 58.0 / 3.0), (3, 99.0), (4, 58.0 / 3.0)] {
        let (mean, times) = before[&key];
        let sum = if times == 0.0 { 0.0 } else { mean * times };
        let (score, frequency) = explained(&cache, key);
        assert_eq!(frequency, times + 1.0, "key {key}");
        assert!((score - (sum + instance) / frequency).abs() < 1e-3, "key {key}: {score}");
    }
}

/// Sections 5.2 and 8.3: levels score b and c together, T-DeToX all of them.
#[test]
fn levels_and_whole_transactions_score_as_the_paper_says() {
    for (policy, expected) in [
        ("detox-levels:factor=0", [1.0, 0.5, 0.5, 1.0]),
        ("t-detox:factor=0", [0.75; 4]),
        // Without a graph groups are levels.
        ("detox:factor=0", [1.0, 0.5, 0.5, 1.0]),
        ("detox-paper-literal", [1.0, 0.5, 0.5, 1.0]),
    ] {
        let mut cache = cache(policy, 10);
        for (level, key) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
            cache.access(ask(7, level, 0, key));
        }
        cache.ended(7, true);
        let scores: Vec<f64> = (1..5).map(|key| explained(&cache, key).0).collect();
        assert_eq!(scores, expected, "{policy}");
    }
}

#[test]
fn heuristics_of_section_8_4_differ_as_they_should() {
    let score = |parameters: &str| {
        let mut cache = cache(&format!("detox-levels:factor=0,{parameters}"), 10);
        (0..5).for_each(|_| {
            cache.access(Access::read(1, 1));
        });
        cache.access(Access::read(2, 1));
        [1, 2, 3].into_iter().for_each(|key| {
            cache.access(ask(7, 0, 0, key));
        });
        cache.ended(7, true);
        explained(&cache, 3).0
    };
    // Frequencies 6, 2 and 1 of a level of three.
    for (parameters, expected) in
        [("instance=0", 1.0 / 3.0), ("instance=1", 1.0), ("instance=2", 2.0), ("instance=3", 2.0 / 3.0)]
    {
        assert!((score(parameters) - expected).abs() < 1e-3, "{parameters}");
    }
    let aggregate = |parameters: &str| {
        let mut cache = cache(&format!("detox:factor=0,{parameters}"), 10);
        (0..4).for_each(|_| {
            cache.access(Access::read(1, 1));
        });
        explained(&cache, 1).0
    };
    // Instance scores 1, 2, 3, 4.
    assert_eq!((aggregate("aggregate=0"), aggregate("aggregate=1"), aggregate("aggregate=2")), (2.5, 4.0, 1.0));
    assert!((1.0..2.5).contains(&aggregate("aggregate=3")));
}

#[test]
fn what_is_known_of_a_key_outlives_it_unless_literal() {
    let frequency_after = |policy: &str| {
        let mut cache = cache(policy, 1);
        (0..5).for_each(|_| {
            cache.access(Access::read(1, 1));
        });
        cache.access(Access::read(2, 1));
        assert!(!cache.contains(1));
        cache.access(Access::read(1, 1));
        explained(&cache, 1).1
    };
    assert_eq!((frequency_after("detox"), frequency_after("detox-paper-literal")), (6.0, 1.0));
}

#[test]
fn an_abort_teaches_nothing() {
    let mut cache = cache("detox:factor=0", 4);
    cache.access(Access::read(1, 1));
    let before = explained(&cache, 1);
    cache.access(ask(7, 0, 0, 1));
    cache.access(ask(7, 0, 0, 2));
    cache.ended(7, false);
    assert_eq!(explained(&cache, 1), before);
    // The rerun keeps its number and counts once, however often it asks.
    (0..3).for_each(|_| {
        cache.access(ask(7, 0, 0, 1));
    });
    cache.ended(7, true);
    assert_eq!(explained(&cache, 1).1, 2.0);
}

/// A transaction commits that had asked for a key before it was forgotten, and the only access that was counted since
/// is taken back: its score has no accesses to be divided by.
#[test]
fn what_is_learned_of_a_forgotten_key_has_a_bound() {
    let mut cache = cache("detox-paper-literal", 1);
    cache.access(ask(1, 0, 0, 4));
    cache.access(Access::read(5, 1));
    cache.access(ask(3, 0, 0, 4));
    cache.ended(3, false);
    cache.ended(1, true);
    cache.validate();
    assert!(explained(&cache, 4).0 <= 3.0, "{:?}", cache.explain(4));
    cache.access(Access::read(6, 1));
    assert!(explained(&cache, 6).0 <= 5.0, "the age is that of what went: {:?}", cache.explain(6));
}

#[test]
fn writes_update_and_take_no_part() {
    let mut cache = cache("detox:factor=0", 4);
    assert_eq!(cache.access(Access { kind: AccessKind::Write, ..ask(7, 0, 0, 1) }), Served::Refused);
    cache.access(Access::read(1, 1));
    let before = explained(&cache, 1);
    assert_eq!(cache.access(Access { kind: AccessKind::Write, ..ask(8, 1, 0, 1) }), Served::Hit);
    cache.ended(8, true);
    assert_eq!(explained(&cache, 1), before);
}

#[test]
fn a_level_displaces_nothing_of_its_own() {
    for policy in ["detox", "detox-levels", "t-detox", "detox-paper-literal"] {
        let mut cache = cache(policy, 8);
        (100..108).for_each(|key| {
            cache.access(ask(6, 0, 0, key));
        });
        cache.ended(6, true);
        (0..8).for_each(|key| {
            cache.access(ask(7, 0, 0, key));
        });
        assert!((0..8).all(|key| cache.contains(key)), "{policy}");
        // One more than there is room for stays out.
        assert_eq!(cache.access(ask(7, 0, 0, 8)), Served::Refused, "{policy}");
    }
}

/// Beside much that is worth more a level of many keys stops where it has become worth less than all else.
#[test]
fn a_large_level_does_not_displace_what_is_worth_more() {
    let kept = |policy: &str| {
        let mut cache = cache(policy, 100);
        for key in (0..100).chain(0..100) {
            cache.access(Access::read(key, 1));
        }
        (1000..1090).for_each(|key| {
            cache.access(ask(7, 0, 0, key));
        });
        cache.ended(7, true);
        cache.validate();
        (0..100).filter(|&key| cache.contains(key)).count()
    };
    assert!(kept("detox") > 80, "{} of 100", kept("detox"));
    // T-DeToX can't tell before the transaction has ended.
    assert_eq!(kept("t-detox"), 10);
}

/// What was popular and is not asked for any more goes, although nothing that takes its place is as popular yet.
#[test]
fn what_has_stayed_away_for_long_goes() {
    let kept = |policy: &str| {
        let mut cache = cache(policy, 50);
        for round in 0..200u64 {
            (0..50).for_each(|key| {
                cache.access(Access::read((round + key) % 50, 1));
            });
        }
        for round in 0..12u64 {
            (0..50).for_each(|key| {
                cache.access(Access::read(1000 + (round + key) % 50, 1));
            });
        }
        (0..50).filter(|&key| cache.contains(key)).count()
    };
    assert_eq!(kept("detox:patience=8"), 0);
    assert!(kept("detox") > 25, "{}", kept("detox"));
}

#[test]
fn newcomers_worth_less_stay_out_with_admission() {
    let mut cache = cache("detox+admit", 2);
    for _ in 0..20 {
        cache.access(Access::read(1, 1));
        cache.access(Access::read(2, 1));
    }
    // Once in a long level: worth less than what is asked for alone all the time.
    let level: Vec<Served> = (10..20).map(|key| cache.access(ask(7, 0, 0, key))).collect();
    cache.ended(7, true);
    assert!(level.iter().all(|served| *served == Served::Refused) && cache.contains(1) && cache.contains(2));
}

/// Two partitions of one cache: the first that hears of the end scores for both.
#[test]
fn orders_share_what_transactions_were() {
    let choice = choose("detox:factor=0").expect("in the table");
    let settings = choice.settings(Unit::Entries, 10);
    let learned = (choice.policy.learned)(&settings);
    let mut orders: Vec<Box<dyn Order>> = (0..2).map(|_| (choice.policy.order)(&settings, learned.clone())).collect();
    for key in 0..4u64 {
        let order = &mut orders[key as usize % 2];
        let access = ask(7, 0, 0, key);
        assert!(order.admit(&access));
        order.inserted(key as u32 / 2, &access);
    }
    // The second partition takes its part after another transaction has come and gone.
    orders[0].ended(7, true);
    orders[0].access(0, &Access { slot: Some((0, 0)), ..ask(8, 0, 0, 0) });
    orders[0].ended(8, true);
    orders[1].ended(7, true);
    assert!(orders[1].explain(0).starts_with("score 0.2500"), "{}", orders[1].explain(0));
    assert!(orders[0].explain(1).starts_with("score 0.2500"), "{}", orders[0].explain(1));
    orders.iter().for_each(|order| order.validate());
}

/// One partition now and then has nothing but what is worth much: its victims must not age the keys of the others.
#[test]
fn a_victim_ages_the_keys_of_its_own_partition_only() {
    let choice = choose("detox").expect("in the table");
    let settings = choice.settings(Unit::Entries, 10);
    let learned = (choice.policy.learned)(&settings);
    let mut orders: Vec<Box<dyn Order>> = (0..2).map(|_| (choice.policy.order)(&settings, learned.clone())).collect();
    let enter = |order: &mut Box<dyn Order>, key: u64| {
        let access = Access::read(key, 1);
        assert!(order.admit(&access));
        order.inserted(0, &access);
        order.explain(0)
    };
    enter(&mut orders[0], 1);
    (0..99).for_each(|_| orders[0].access(0, &Access { slot: Some((0, 0)), ..Access::read(1, 1) }));
    orders[0].removed(0, 1, Why::Evicted);
    let [aged, other] = [0, 1].map(|at| enter(&mut orders[at], 2));
    // Its mean instance score when it left was 50.5, of which 0.9 counts; a key by itself is worth 1.
    assert!(aged.starts_with("score 46.45"), "{aged}");
    assert!(other.starts_with("score 1.0"), "{other}");
    orders.iter().for_each(|order| order.validate());
}

/// Histories that are tried, each with six forms of the policy.
const CASES: u32 = 48;

#[derive(Clone, Debug)]
struct Asked {
    levels: Vec<Vec<u64>>,
    committed: bool,
}

fn transactions() -> impl Strategy<Value = Vec<Asked>> {
    let level = prop::collection::btree_set(0u64..20, 1..4).prop_map(|keys| keys.into_iter().collect::<Vec<_>>());
    let asked = (prop::collection::vec(level, 1..4), prop::bool::weighted(0.9));
    prop::collection::vec(asked.prop_map(|(levels, committed)| Asked { levels, committed }), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// With room for all, every score is what the formula says of the whole history.
    #[test]
    fn scores_are_those_of_the_formula(history in transactions()) {
        let mut cache = cache("detox-levels:factor=0.9", 100);
        let (mut frequency, mut total) = (HashMap::<u64, f64>::new(), HashMap::<u64, f64>::new());
        for (txn, asked) in (1..).zip(&history) {
            let (mut seen, mut scored) = (Vec::new(), Vec::new());
            for (level, keys) in asked.levels.iter().enumerate() {
                keys.iter().for_each(|&key| { cache.access(ask(txn, level as u16, 0, key)); });
                let new: Vec<u64> = keys.iter().copied().filter(|key| !seen.contains(key)).collect();
                new.iter().for_each(|&key| *frequency.entry(key).or_default() += 1.0);
                seen.extend(&new);
                scored.push(new);
            }
            cache.ended(txn, asked.committed);
            for keys in scored {
                let least = keys.iter().map(|key| frequency[key]).fold(f64::INFINITY, f64::min);
                for &key in &keys {
                    match asked.committed {
                        true => *total.entry(key).or_default() += least / keys.len() as f64,
                        false => *frequency.entry(key).or_default() -= 1.0,
                    }
                }
            }
        }
        cache.validate();
        for (&key, &frequency) in frequency.iter().filter(|(_, frequency)| **frequency > 0.0) {
            let (score, known) = explained(&cache, key);
            let expected = total.get(&key).copied().unwrap_or_default() / frequency;
            prop_assert_eq!(known, frequency);
            prop_assert!((score - expected).abs() < 1e-3 * expected.max(1.0), "{}: {} and {}", key, score, expected);
        }
    }

    /// However transactions come and go, all forms stay sound within their capacity.
    #[test]
    fn any_history_is_sound(history in transactions(), capacity in 1u64..12) {
        let graph = Arc::new(Graph::plain(3, &[(0, 1), (0, 2)]).expect("a graph"));
        let others = ["detox+admit", "detox-paper-literal", "detox:half-life=2,log=1,patience=3"];
        for policy in ["detox", "detox-levels", "t-detox"].into_iter().chain(others) {
            let mut cache = cache(policy, capacity);
            cache.learned().register_graph(1, &graph);
            for (txn, asked) in (1..).zip(&history) {
                for (level, keys) in asked.levels.iter().enumerate() {
                    for &key in keys {
                        cache.access(ask(txn, level as u16, (key % 5) as u16, key));
                        prop_assert!(cache.used() <= capacity);
                    }
                }
                // Some never end.
                if txn % 7 != 0 {
                    cache.ended(txn, asked.committed);
                }
                // It costs more than all that came between.
                if txn % 4 == 0 {
                    cache.validate();
                }
            }
            cache.validate();
        }
    }
}

/// Where values are small, what is known of keys that left is bounded by what the entries weigh; else by their number.
#[test]
fn what_is_remembered_follows_the_size_of_values() {
    let remembered = |policy: &str, size: u32| {
        let choice = choose(policy).expect("in the table");
        let settings = choice.settings(Unit::Bytes, 500 * u64::from(size));
        let mut cache = Bare::new(choice.policy, &settings);
        for key in 0..6_000u64 {
            cache.access(Access::read(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), size));
        }
        cache.ghost_bytes()
    };
    let small = remembered("detox", 200);
    assert!(small <= 500 * 200 / 20 && small > 500 * 200 / 25, "{small} bytes of 5,000");
    let all = remembered("detox", 2_000);
    assert_eq!(all, remembered("detox:metadata-share=1", 200), "three for each entry");
}
