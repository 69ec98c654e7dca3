//! Hit counts equal to those of independent simulators on real traces (`testdata/reference/README.md`).
//!
//! By default it runs the small traces under `testdata/traces`. With `FOREBAY_TRACES` set to a folder laid out like
//! it, it runs every trace of the reference that the folder has. `FOREBAY_REFERENCE=arc,lirs` looks at these policies
//! only.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use forebay::policy::Unit;
use forebay_sim::ahead::Prefetch;
use forebay_sim::catalog::Sample;
use forebay_sim::contender::Contender;
use forebay_sim::lab::{Lab, LabOptions, Silent, Size};
use forebay_trace::fbt::Writer;
use forebay_trace::{Record, TraceOptions};

struct Row {
    trace: String,
    policy: String,
    capacity: u64,
    unit: Unit,
    requests: u64,
    hits: u64,
    /// Points of hit ratio that ours may differ by; 0 for "equal".
    points_max: f64,
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(testdata().join("reference/hits.csv")).expect("the reference is readable");
    let only = std::env::var("FOREBAY_REFERENCE").unwrap_or_default();
    let only: Vec<&str> = only.split(',').filter(|name| !name.is_empty()).collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse::<u64>().expect("a number");
        let unit = if fields[3] == "bytes" { Unit::Bytes } else { Unit::Entries };
        let (trace, policy) = (fields[0].to_string(), fields[1].to_string());
        let points_max = fields[6].parse().expect("points");
        Row { trace, policy, capacity: number(2), unit, requests: number(4), hits: number(5), points_max }
    };
    let name = |row: &Row| row.policy.split(':').next().map(str::to_owned).unwrap_or_default();
    text.lines().skip(1).map(row).filter(|row| only.is_empty() || only.contains(&&*name(row))).collect()
}

/// What a row is replayed with.
fn contender_for(row: &Row) -> Contender {
    let text = match row.policy.as_str() {
        // The reference lets in nothing as large as its small queue.
        "s3-fifo" => "s3-fifo:bypass=1",
        name => name,
    };
    Contender::parse(text).expect("in the table")
}

/// A trace's file by its name in the reference.
fn file(trace: &str) -> String {
    for (prefix, ending) in [("lirs_", ".trc.zst"), ("arc_", ".lis.zst"), ("cache2k_", ".be32.zst")] {
        if let Some(name) = trace.strip_prefix(prefix) {
            return format!("{}/{name}{ending}", prefix.trim_end_matches('_'));
        }
    }
    let file = match trace {
        "adaptsize_request" => "adaptsize/request.tr.zst",
        "cachelib_bigcache" => "cachelib/short_bigcache_traces.csv.zst",
        "cloudphysics_w92" => "cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst",
        "cloudphysics_w106" => "cloudphysics/w106.be32.zst",
        "corda_vaultservice" => "corda/trace_vaultservice.be64.zst",
        "mooncake_conversation" => "mooncake/conversation_trace.jsonl.zst",
        "mqsim_tpcc" => "mqsim/tpcc-small.trace.zst",
        "mqsim_wsrch" => "mqsim/wsrch-small.trace.zst",
        "spec_gcc_addr" => "penalties/gcc_address_penalties.trace.zst",
        "tencent_block_sample" => "snia_samples/tencent_block_cloud_storage-sample.csv.zst",
        "tencent_photo_sample" => "snia_samples/tencent_photo_cloud_photos-sample.txt.zst",
        "twitter_cluster52_1m" => "twitter/twitter_cluster52.csv.zst",
        "wikimedia_train" => "wikimedia/wiki_sampled_train.tsv.zst",
        other => panic!("no file known for {other}"),
    };
    file.to_owned()
}

/// These requests without the transactions that they belong to: the reference looks nothing up together.
fn one_by_one(path: &Path, folder: &Path) -> PathBuf {
    let flat = folder.join("flat.fbt");
    let mut writer = Writer::create(std::fs::File::create(&flat).expect("writable"), 0).expect("writable");
    for record in forebay_trace::open(path, None).expect("a sound trace") {
        let record = record.expect("a sound trace");
        if record.kind.is_access() {
            writer.append(&Record { txn: 0, level: 0, ..record }).expect("writable");
        }
    }
    writer.finish().expect("writable");
    flat
}

/// Replays all rows of one trace and unit in one pass; what differs by more than it may, and the largest difference of
/// each policy.
fn check(path: &Path, rows: &[&Row]) -> (Vec<String>, BTreeMap<String, f64>) {
    let by_name: BTreeMap<String, Contender> =
        rows.iter().map(|row| contender_for(row)).map(|contender| (contender.to_string(), contender)).collect();
    let capacities: BTreeSet<u64> = rows.iter().map(|row| row.capacity).collect();
    let options = LabOptions {
        contenders: by_name.into_values().collect(),
        sizes: capacities.iter().map(|size| Size::parse(&size.to_string(), rows[0].unit).expect("a size")).collect(),
        unit: rows[0].unit,
        reads_only: false,
        warmup: 0.0,
        sample: Sample { rate: 1.0, seed: 0 },
        adjust: true,
        per_client: false,
        writes_allocate: true,
        prefetch: Prefetch::None,
        graphs: Vec::new(),
        division: forebay_sim::machine::Division::Shared,
        hint_types: forebay_sim::hints::HintTypes::ALL,
        trace: TraceOptions::default(),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let lab = Lab::open(path, &options, &Silent).expect("a sound trace");
    let figures = lab.curves().expect("a sound trace");
    let (mut failures, mut largest) = (Vec::new(), BTreeMap::new());
    for row in rows {
        let policy = contender_for(row).to_string();
        let ours = figures.iter().find(|figure| figure.policy == policy && figure.size == row.capacity);
        let ours = ours.expect("every policy at every size");
        let points = (ours.hits as f64 - row.hits as f64) * 100.0 / row.requests as f64;
        let most: &mut f64 = largest.entry(row.policy.clone()).or_default();
        *most = most.max(points.abs());
        if ours.requests != row.requests || points.abs() > row.points_max {
            failures.push(format!(
                "{},{},{},{}: {} hits of {}, expected {} of {}: {points:.3} points, {} allowed",
                row.trace,
                row.policy,
                row.capacity,
                ours.unit,
                ours.hits,
                ours.requests,
                row.hits,
                row.requests,
                row.points_max
            ));
        }
    }
    (failures, largest)
}

#[test]
fn hits_equal_the_reference() {
    let all = std::env::var_os("FOREBAY_TRACES").map(PathBuf::from);
    let folder = all.clone().unwrap_or_else(|| testdata().join("traces"));
    let rows = rows();
    let mut groups: BTreeMap<(&str, bool), Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        groups.entry((&row.trace, row.unit == Unit::Bytes)).or_default().push(row);
    }
    let (mut checked, mut failures, mut largest) = (BTreeSet::new(), Vec::new(), BTreeMap::<String, f64>::new());
    for ((trace, _), rows) in groups {
        let path = folder.join(file(trace));
        if !path.exists() {
            continue;
        }
        checked.insert(trace);
        let temporary = tempfile::tempdir().expect("a folder");
        let path = if trace.starts_with("mooncake") { one_by_one(&path, temporary.path()) } else { path };
        let (failed, differences) = check(&path, &rows);
        failures.extend(failed);
        for (policy, points) in differences {
            let most = largest.entry(policy).or_default();
            *most = most.max(points);
        }
    }
    if all.is_none() {
        eprintln!("checked {} small traces; set FOREBAY_TRACES to a folder with all to check more", checked.len());
    }
    eprintln!("largest difference of each policy in points: {largest:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked.len() >= 7, "only {} traces found in {}", checked.len(), folder.display());
}
