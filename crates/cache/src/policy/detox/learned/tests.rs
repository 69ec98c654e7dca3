//! Bounds of what is shared, and of what is done while others wait.

use super::*;

fn touch(hash: u64) -> Touch {
    Touch {
        hash,
        order: 0,
        slot: NONE,
        weight: 1,
        frequency: 1.0,
        level: 0,
        vertex: 0,
        reads: true,
        counted: true,
        score: 0.0,
    }
}

fn transactions() -> Transactions {
    Transactions::new(Grouping::Groups, GroupFrequency::Min)
}

#[test]
fn transactions_that_are_open_already_take_no_room_beyond_the_bound() {
    let transactions = transactions();
    let open = (TOUCHES_ALL_MAX / TOUCHES_MAX + 8) as u64;
    for txn in 1..=open {
        transactions.touch(txn, 0, touch(0));
    }
    for txn in 1..=open {
        (1..TOUCHES_MAX as u64).for_each(|hash| transactions.touch(txn, 0, touch(hash)));
    }
    transactions.validate();
    assert_eq!(transactions.lock().touches, TOUCHES_ALL_MAX);
    // A new one takes the place of the first, and what that had is there for the others.
    transactions.touch(open + 1, 0, touch(0));
    transactions.touch(open, 0, touch(1));
    transactions.validate();
    let state = transactions.lock();
    assert_eq!((state.counts.forgotten, state.open.contains_key(&1)), (1, false));
    assert_eq!(state.open[&open].touches.last().map(|touch| touch.hash), Some(1));
}

/// A prime: `count` vertices, of which each comes before the one of the other half that is not its own.
fn prime(count: u16) -> Arc<Graph> {
    let half = count / 2;
    let edges = (1..half).flat_map(|at| [(at - 1, at), (half + at - 1, half + at), (at - 1, half + at)]);
    Arc::new(Graph::plain(usize::from(count), &edges.collect::<Vec<_>>()).expect("edges lead forwards"))
}

#[test]
fn a_type_that_takes_too_long_to_score_goes_by_levels() {
    let transactions = transactions();
    transactions.register_graph(1, &prime(12));
    assert!(!transactions.goes_by_levels(1, 1));
    transactions.register_graph(1, &prime(250));
    transactions.register_graph(2, &prime(250));
    assert!(transactions.goes_by_levels(1, 1) && transactions.goes_by_levels(2, 1));
    assert_eq!(transactions.lock().types_bytes, 0);
    let lines = transactions.report(100);
    let line = |name: &str| lines.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!((line("graphs"), line("graphs_too_costly")), (Some("0"), Some("2")));
    for vertex in 1..=250 {
        transactions.touch(7, 1, Touch { vertex, level: vertex, ..touch(u64::from(vertex)) });
    }
    transactions.ended(0, 7, true, |touches| assert!(touches.iter().all(|touch| touch.score == 1.0)));
    let counts = transactions.lock().counts;
    assert_eq!((counts.by_level, counts.by_graph), (1, 0));
}

#[test]
fn what_is_shown_of_a_type_is_computed_once() {
    let transactions = transactions();
    transactions.register_graph(1, &prime(4));
    let line = |transactions: &Transactions| transactions.report(100).pop();
    let (name, value) = line(&transactions).expect("a line");
    let groups = prime(4).complete_groups_count().expect("a small graph");
    assert_eq!(name, "type type 1");
    assert!(value.contains(&format!("{groups} complete groups")), "{value}");
    transactions.lock().types.get_mut(&1).expect("known").shown = "kept".to_owned();
    assert_eq!(line(&transactions).expect("a line").1, "kept");
}
