//! Read hit ratios on traces with hints, as an independent program has them (`testdata/reference/README.md`), and what
//! the paper's experiments with hints must show.
//!
//! By default on a small trace; with `FOREBAY_TRACES` set to a folder with `hinted/*.htr.zst`, on those that are there.
//! `FOREBAY_REFERENCE=clic,clic-g` looks at these policies only.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use forebay::policy::Unit;
use forebay_sim::catalog::Sample;
use forebay_sim::contender::Contender;
use forebay_sim::hints::HintTypes;
use forebay_sim::lab::{Lab, LabOptions, Silent, Size};
use forebay_sim::machine::Division;
use forebay_sim::row::Row;
use forebay_trace::TraceOptions;
use forebay_trace::fbt::Writer;
use forebay_trace::tools::{self, Noise};

/// The hint types of the paper.
const TYPES: [&str; 5] = ["pool", "object", "objtype", "reqtype", "prio"];

/// Shares of TQ's low queue that are tried.
const TQ_SHARES: [f64; 5] = [0.01, 0.1, 0.3, 0.6, 0.9];

struct Expected {
    trace: String,
    policy: String,
    capacity: u64,
    read_hit_ratio: f64,
    points_max: f64,
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn small() -> PathBuf {
    testdata().join("traces/hinted/pgc_c10-head.htr.zst")
}

fn expected() -> Vec<Expected> {
    let text = std::fs::read_to_string(testdata().join("reference/hinted.csv")).expect("the reference is readable");
    let only = std::env::var("FOREBAY_REFERENCE").unwrap_or_default();
    let only: Vec<&str> = only.split(',').filter(|name| !name.is_empty()).collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Expected {
            trace: fields[0].to_owned(),
            // Commas stand between fields.
            policy: fields[1].replace(';', ","),
            capacity: fields[2].parse().expect("a number"),
            read_hit_ratio: fields[3].parse().expect("a ratio"),
            points_max: fields[4].parse().expect("points"),
        }
    };
    let wanted = |row: &Expected| only.is_empty() || only.contains(&row.policy.split(':').next().unwrap_or_default());
    text.lines().skip(1).map(row).filter(wanted).collect()
}

fn rows(path: &Path, policies: &[String], sizes: &BTreeSet<u64>, types: HintTypes, division: Division) -> Vec<Row> {
    let options = LabOptions {
        contenders: policies.iter().map(|policy| Contender::parse(policy).expect("in the table")).collect(),
        sizes: sizes.iter().map(|size| Size::parse(&size.to_string(), Unit::Entries).expect("a size")).collect(),
        unit: Unit::Entries,
        reads_only: true,
        warmup: 0.0,
        sample: Sample { rate: 1.0, seed: 0 },
        adjust: true,
        per_client: true,
        division,
        hint_types: types,
        writes_allocate: true,
        prefetch: forebay_sim::ahead::Prefetch::None,
        graphs: Vec::new(),
        trace: TraceOptions::default(),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let lab = Lab::open(path, &options, &Silent).expect("a sound trace");
    lab.curves().expect("a sound trace")
}

/// As users choose the policy of a row: TQ with several shares, of which the best counts, and distances that are never
/// forgotten.
fn choices(policy: &str) -> Vec<String> {
    match policy {
        "tq" => TQ_SHARES.iter().map(|share| format!("tq:low={share},history=100")).collect(),
        other => vec![other.to_owned()],
    }
}

fn check(path: &Path, expected: &[&Expected]) -> Vec<String> {
    let policies: BTreeSet<String> = expected.iter().flat_map(|row| choices(&row.policy)).collect();
    let sizes: BTreeSet<u64> = expected.iter().map(|row| row.capacity).collect();
    let policies: Vec<String> = policies.into_iter().collect();
    let figures = rows(path, &policies, &sizes, HintTypes::only(TYPES), Division::Shared);
    let mut failures = Vec::new();
    for row in expected {
        let names: Vec<String> =
            choices(&row.policy).iter().map(|name| Contender::parse(name).expect("known").to_string()).collect();
        let of_row =
            |figure: &&Row| names.contains(&figure.policy) && figure.size == row.capacity && figure.client.is_none();
        let ratio = figures.iter().filter(of_row).map(|figure| figure.hit_ratio).fold(0.0, f64::max);
        let points = 100.0 * (ratio - row.read_hit_ratio);
        let chance = ["clic-tree", "clic-g", "w-tinylfu", "tq"].contains(&&*row.policy);
        let fails = if chance { -points > row.points_max } else { points.abs() > row.points_max };
        let line =
            format!("{},{},{}: {ratio:.4}, expected {}", row.trace, row.policy, row.capacity, row.read_hit_ratio);
        eprintln!("{line}{}", if fails { "  <- off" } else { "" });
        if fails {
            failures.push(line);
        }
    }
    failures
}

#[test]
fn read_hit_ratios_equal_the_reference() {
    let folder = std::env::var_os("FOREBAY_TRACES").map(PathBuf::from);
    let expected = expected();
    let mut by_trace: BTreeMap<&str, Vec<&Expected>> = BTreeMap::new();
    for row in &expected {
        by_trace.entry(&row.trace).or_default().push(row);
    }
    let (mut failures, mut checked) = (Vec::new(), 0);
    for (trace, rows) in by_trace {
        let large = folder.as_ref().map(|folder| folder.join(format!("hinted/{trace}.htr.zst")));
        let path = if trace == "pgc_c10-head" { Some(small()) } else { large.filter(|path| path.exists()) };
        match path {
            Some(path) => {
                failures.extend(check(&path, &rows));
                checked += 1;
            }
            None => eprintln!("SKIPPED: {trace}; set FOREBAY_TRACES to a folder that has hinted/{trace}.htr.zst"),
        }
    }
    assert!(checked > 0 && failures.is_empty(), "{failures:#?}");
}

fn reads_of(figures: &[Row], policy: &str) -> f64 {
    let of_policy = |figure: &&Row| figure.policy.split(':').next() == Some(policy) && figure.client.is_none();
    figures.iter().find(of_policy).expect("was simulated").hit_ratio
}

/// Figure 10, small: useless hint types cost the groups of hint sets next to nothing, and top-k a lot.
#[test]
fn noise_does_no_harm_to_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let noisy = |types: usize| {
        let path = folder.path().join(format!("noise{types}.fbt"));
        let mut writer = Writer::create(std::fs::File::create(&path).expect("writable"), 0).expect("writable");
        let mut records = forebay_trace::open(&small(), None).expect("a sound trace");
        let noise = Noise { types, domain: 10, zipf: 1.0, seed: 1 };
        tools::add_noise(&mut records, noise, &mut writer).expect("writable");
        writer.finish().expect("writable");
        let policies =
            ["clic-top-k:k=20,window=5000", "clic-tree:window=5000", "clic-g:window=5000"].map(str::to_owned);
        rows(&path, &policies, &BTreeSet::from([4000]), HintTypes::ALL, Division::Shared)
    };
    let (clean, noisy) = (noisy(0), noisy(3));
    for policy in ["clic-tree", "clic-g"] {
        let (before, after) = (reads_of(&clean, policy), reads_of(&noisy, policy));
        assert!(after > 0.95 * before, "{policy}: {before} fell to {after}");
    }
    let (before, after) = (reads_of(&clean, "clic-top-k"), reads_of(&noisy, "clic-top-k"));
    assert!(after < before, "top-k is diluted: {before}, then {after}");
}

/// Figure 11, small: clients are counted apart, and hint sets of one are not those of another.
#[test]
fn clients_share_a_cache_or_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mix.fbt");
    let mut writer = Writer::create(std::fs::File::create(&path).expect("writable"), 0).expect("writable");
    let open = || forebay_trace::open(&small(), None).expect("a sound trace");
    tools::mix(&mut [open(), open()], &mut writer).expect("writable");
    writer.finish().expect("writable");
    let policies = ["clic:window=10000".to_owned()];
    let run = |division| rows(&path, &policies, &BTreeSet::from([4000]), HintTypes::ALL, division);
    let (shared, divided) = (run(Division::Shared), run(Division::Equal));
    assert_eq!((shared.len(), divided.len()), (3, 3), "all, and each of two clients");
    // With caches of their own both have what one has alone; windows are by requests of each.
    let alone = rows(&small(), &policies, &BTreeSet::from([2000]), HintTypes::ALL, Division::Shared);
    assert_eq!([divided[1].hits, divided[2].hits], [alone[0].hits; 2]);
    assert_eq!(shared[0].hits, shared[1].hits + shared[2].hits);
}
