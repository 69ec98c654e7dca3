use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const LIST: Object = Object { kind: Kind::Friends, id: 7 };

/// Judges as the definition says: instant by instant, element by element.
fn naive(first: &[u32], updates: &[Update], read: &Read) -> (bool, bool) {
    let instants = read.start_ns..=read.end_ns;
    let allowed = |first: i64, updates: &[&Update]| -> BTreeSet<i64> {
        let at = |time: u64| {
            let (mut least, mut most) = (first, first);
            for update in updates {
                let step = if update.added { 1 } else { -1 };
                match (update.start_ns <= time, update.end_ns <= time) {
                    (_, true) => (least, most) = (least + step, most + step),
                    (true, false) => (least, most) = (least + step.min(0), most + step.max(0)),
                    (false, false) => {}
                }
            }
            least..=most
        };
        instants.clone().flat_map(at).collect()
    };
    let size = match &read.seen {
        Seen::Count(count) => i64::from(*count),
        Seen::Elements(elements) => elements.len() as i64,
    };
    let by_size = !allowed(first.len() as i64, &updates.iter().collect::<Vec<_>>()).contains(&size);
    let Seen::Elements(elements) = &read.seen else { return (by_size, by_size) };
    let wrong = (0..12).any(|element| {
        let of_element: Vec<&Update> = updates.iter().filter(|update| update.element == element).collect();
        let count = elements.iter().filter(|seen| **seen == element).count() as i64;
        !allowed(i64::from(first.contains(&element)), &of_element).contains(&count)
    });
    (by_size, by_size || wrong)
}

/// Each element in turn added and removed, in intervals that may overlap.
fn updates(first: &[u32], mut all: Vec<(u64, u32, u64, u8)>) -> Vec<Update> {
    let mut there: BTreeSet<u32> = first.iter().copied().collect();
    all.sort_unstable();
    let update = |(start_ns, element, length, lost)| {
        let added = !there.remove(&element) && there.insert(element);
        let end_ns = if lost == 0 { u64::MAX } else { start_ns + length };
        Update { object: LIST, element, added, start_ns, end_ns }
    };
    all.into_iter().map(update).collect()
}

fn reads() -> impl Strategy<Value = Vec<Read>> {
    let seen = prop_oneof![
        (0u32..12).prop_map(Seen::Count),
        prop::collection::vec(0u32..12, 0..8).prop_map(|elements| Seen::Elements(elements.into())),
    ];
    let read = (0u64..70, 0u64..15, seen);
    let read =
        read.prop_map(|(start_ns, length, seen)| Read { object: LIST, start_ns, end_ns: start_ns + length, seen });
    prop::collection::vec(read, 1..20)
}

proptest! {
    /// The sweep says what the definition says, for any reads.
    #[test]
    fn says_what_the_definition_says(
        first in prop::collection::btree_set(0u32..12, 0..6),
        all in prop::collection::vec((0u64..60, 0u32..12, 1u64..12, 0u8..12), 0..25),
        reads in reads(),
    ) {
        let first: Vec<u32> = first.into_iter().collect();
        let updates = updates(&first, all);
        for read in &reads {
            let verdict = judge(&|_| first.clone(), updates.clone(), vec![read.clone()]);
            let (by_size, wrong) = naive(&first, &updates, read);
            prop_assert_eq!((verdict.wrong_by_size == 1, verdict.all.wrong == 1), (by_size, wrong), "{:?}", read);
        }
        let all = judge(&|_| first.clone(), updates.clone(), reads.clone());
        let wrong = reads.iter().filter(|read| naive(&first, &updates, read).1).count();
        prop_assert_eq!((all.all.wrong, all.all.reads), (wrong as u64, reads.len() as u64));
        prop_assert_eq!(all.freshness.iter().map(|bucket| bucket.wrong).sum::<u64>(), all.all.wrong);
    }

    /// A register that is really read and written one after the other never shows a wrong read, whatever the intervals
    /// around; and a read of an overtaken state is found where nothing else could explain it.
    #[test]
    fn finds_what_is_planted_and_nothing_else(
        ops in prop::collection::vec((0u32..6, any::<bool>(), 0u64..4, 0u64..4), 1..60),
        plant in any::<prop::sample::Index>(),
    ) {
        let (mut state, mut updates, mut reads) = (BTreeSet::from([1, 3]), Vec::new(), Vec::new());
        let mut states: Vec<(u64, BTreeSet<u32>)> = vec![(0, state.clone())];
        let seen = |state: &BTreeSet<u32>| Seen::Elements(state.iter().copied().collect());
        for (at, (element, writes, before, after)) in (1u64..).zip(ops) {
            let (start_ns, end_ns) = (100 * at - before, 100 * at + after + 1);
            if writes {
                let added = !state.remove(&element) && state.insert(element);
                updates.push(Update { object: LIST, element, added, start_ns, end_ns });
                states.push((end_ns, state.clone()));
            } else {
                reads.push(Read { object: LIST, start_ns, end_ns, seen: seen(&state) });
                reads.push(Read { object: LIST, start_ns, end_ns, seen: Seen::Count(state.len() as u32) });
            }
        }
        let first = |_| vec![1, 3];
        prop_assert_eq!(judge(&first, updates.clone(), reads.clone()).all.wrong, 0);
        let (old, overtaken) = plant.get(&states);
        prop_assume!(*overtaken != state);
        let end = 1_000_000;
        reads.push(Read { object: LIST, start_ns: end, end_ns: end + 1, seen: seen(overtaken) });
        let verdict = judge(&first, updates, reads);
        prop_assert_eq!((verdict.all.wrong, verdict.foreign), (1, 0));
        let age_ns = verdict.age_ms.expect("it was true").1 * 1e6;
        prop_assert!(age_ns > 0.0 && age_ns <= (end - old) as f64, "{}", age_ns);
    }
}

#[test]
fn the_right_number_of_wrong_friends_is_found() {
    let updates = vec![
        Update { object: LIST, element: 1, added: false, start_ns: 10, end_ns: 20 },
        Update { object: LIST, element: 9, added: true, start_ns: 30, end_ns: 40 },
    ];
    let read = |elements: &[u32], start_ns| Read {
        object: LIST,
        start_ns,
        end_ns: start_ns + 1,
        seen: Seen::Elements(elements.into()),
    };
    let first = |_| vec![1, 2];
    // Two friends, as there have to be, but as they were; then one whom nobody ever added.
    let verdict = judge(&first, updates.clone(), vec![read(&[1, 2], 50), read(&[2, 9], 60)]);
    assert_eq!((verdict.all.wrong, verdict.wrong_by_size, verdict.foreign), (1, 0, 0));
    assert_eq!(verdict.age_ms, Some((3e-5, 3e-5)), "since 9 was added, 10 ns before, and 1 removed, 30 ns before");
    let verdict = judge(&first, updates, vec![read(&[2, 5], 50)]);
    assert_eq!((verdict.all.wrong, verdict.wrong_by_size, verdict.foreign), (1, 0, 1));
    assert!(verdict.examples[0].contains("without [9], with [5]; never true before"), "{:?}", verdict.examples);
}

#[test]
fn reads_are_sorted_by_how_fresh_their_list_is() {
    let updates = vec![Update { object: LIST, element: 9, added: true, start_ns: 0, end_ns: 1_000_000 }];
    let count = |ms: u64, count| Read {
        object: LIST,
        start_ns: ms * 1_000_000,
        end_ns: ms * 1_000_000,
        seen: Seen::Count(count),
    };
    let verdict =
        judge(&|_| Vec::new(), updates, vec![count(0, 0), count(1, 0), count(1, 1), count(6, 1), count(200, 1)]);
    let buckets: Vec<(u64, u64)> = verdict.freshness.iter().map(|bucket| (bucket.reads, bucket.wrong)).collect();
    assert_eq!(buckets, [(2, 1), (1, 0), (0, 0), (1, 0), (0, 0), (0, 0), (1, 0)]);
    assert_eq!(verdict.by_kind[0], Count { reads: 5, wrong: 1 });
}
