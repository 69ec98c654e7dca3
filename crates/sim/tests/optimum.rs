//! Nothing beats the optimum: on small traces, through the same laboratory as `forebay sim --optimum`.

use std::num::NonZeroUsize;
use std::path::Path;

use forebay::policy::Unit;
use forebay_sim::ahead::Prefetch;
use forebay_sim::catalog::Sample;
use forebay_sim::contender::Contender;
use forebay_sim::hints::HintTypes;
use forebay_sim::lab::{Lab, LabError, LabOptions, Silent, Size};
use forebay_sim::machine::Division;
use forebay_sim::row::Row;
use forebay_trace::{Kind, Record, TraceKey, TraceOptions, fbt};
use proptest::prelude::*;

const POLICIES: [&str; 8] =
    ["lru", "life", "life-artifact", "detox", "detox-levels", "detox+admit", "belady", "transactional-belady"];

/// Keys of each level of each transaction, and whether a level writes.
type Transactions = [Vec<(Vec<u64>, bool)>];

fn write(path: &Path, transactions: &Transactions) {
    let mut writer = fbt::Writer::create(Vec::new(), 0).expect("to memory");
    for (txn, levels) in (1..).zip(transactions) {
        for (level, (keys, writes)) in (0..).zip(levels) {
            for &key in keys {
                let kind = if *writes { Kind::Write } else { Kind::Read };
                let record = Record { key: TraceKey::Number(key), kind, txn, level, ..Record::default() };
                writer.append(&record).expect("to memory");
            }
        }
        let end = Record { kind: Kind::Committed, txn, ..Record::default() };
        writer.append(&end).expect("to memory");
    }
    std::fs::write(path, writer.finish().expect("to memory")).expect("to a temporary file");
}

fn options(capacity: u64, reads_only: bool, prefetch: Prefetch) -> LabOptions {
    LabOptions {
        contenders: POLICIES.map(|policy| Contender::parse(policy).expect("in the table")).to_vec(),
        sizes: vec![Size::parse(&capacity.to_string(), Unit::Entries).expect("a size")],
        unit: Unit::Entries,
        reads_only,
        warmup: 0.0,
        sample: Sample { rate: 1.0, seed: 0 },
        adjust: true,
        per_client: false,
        division: Division::Shared,
        hint_types: HintTypes::ALL,
        writes_allocate: false,
        prefetch,
        graphs: Vec::new(),
        trace: TraceOptions::default(),
        threads: NonZeroUsize::MIN,
    }
}

/// The rows of all policies, and that of the optimum.
fn rows(path: &Path, options: &LabOptions) -> (Vec<Row>, Row) {
    let lab = Lab::open(path, options, &Silent).expect("a sound trace");
    let optimum = lab.optimum().expect("a small one").pop().expect("one size");
    (lab.curves().expect("a sound trace"), optimum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_policy_beats_the_optimum(
        transactions in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::btree_set(0u64..7, 1..4), prop::bool::weighted(0.15)), 1..3,
            ), 1..14,
        ),
        capacity in 1u64..6, reads_only in any::<bool>(),
    ) {
        let transactions: Vec<Vec<(Vec<u64>, bool)>> = transactions
            .into_iter()
            .map(|levels| levels.into_iter().map(|(keys, writes)| (keys.into_iter().collect(), writes)).collect())
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("small.fbt");
        write(&path, &transactions);
        let (rows, optimum) = rows(&path, &options(capacity, reads_only, Prefetch::None));
        for row in rows {
            prop_assert_eq!(row.requests, optimum.requests);
            prop_assert!(row.thr <= optimum.thr, "{}: {:?} above {:?}", row.policy, row.thr, optimum.thr);
        }
    }
}

/// Figures 3 and 17 of the DeToX paper; figure 17 with what transactional Belady misses.
#[test]
fn the_papers_examples() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.fbt");
    let thr = |units: &[&[u64]], capacity: u64| {
        let transactions: Vec<Vec<(Vec<u64>, bool)>> = units.iter().map(|keys| vec![(keys.to_vec(), false)]).collect();
        write(&path, &transactions);
        let (rows, optimum) = rows(&path, &options(capacity, false, Prefetch::None));
        let hits = |row: &Row| (row.thr.expect("transactions") * units.len() as f64).round();
        let of = |policy: &str| rows.iter().find(|row| row.policy == policy).map(hits);
        (of("belady"), of("transactional-belady"), hits(&optimum))
    };
    assert_eq!(thr(&[&[1, 2, 3], &[4, 5, 6], &[4, 5, 7], &[1, 2, 3]], 3), (Some(0.0), Some(1.0), 1.0));
    let (t, u, v, t2, u2, x, y, z, x2, y2) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    let units: [&[u64]; 9] = [
        &[t, u, v],
        &[t2, u2, v],
        &[x, y, z],
        &[x2, y2, z],
        &[t, u, v],
        &[t2, u2, v],
        &[x, y, z],
        &[x2, y, z],
        &[x2, y2, z],
    ];
    let (_, transactional, optimum) = thr(&units, 5);
    assert_eq!((transactional, optimum), (Some(2.0), 3.0));
}

#[test]
fn what_is_too_large_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.fbt");
    let keys: Vec<u64> = (0..65).collect();
    write(&path, &[vec![(keys, false)]]);
    let options = options(3, false, Prefetch::None);
    let lab = Lab::open(&path, &options, &Silent).expect("a sound trace");
    let refused = lab.optimum().expect_err("too many keys");
    assert!(matches!(refused, LabError::TooLarge { keys: 65, .. }), "{refused}");
}
