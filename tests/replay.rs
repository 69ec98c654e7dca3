//! `forebay replay` of real traces through `forebay serve`. The hits that the server counts are those of that policy
//! without a server (`forebay_sim::replay`). It has one partition and one connection, and runs command by command and
//! pipelined.
//!
//! By default the beginnings of the traces under `testdata/traces`. With `FOREBAY_TRACES` set to a folder with whole
//! traces laid out alike, those too, whole; `--release` is advised.

mod common;

use std::path::{Path, PathBuf};

use common::process::{Forebay, forebay_command};
use forebay::policy::choose;
use forebay_sim::replay::{CacheCounts, ReplayOptions, replay};
use forebay_trace::replay::Request;

/// Requests of each trace in the default run.
const LIMIT: u64 = 10_000;

/// Policies that hear of hits in all ways: marks, accesses in order, a sketch.
const POLICIES: [&str; 3] = ["s3-fifo", "lru", "w-tinylfu"];

/// How a trace is replayed.
struct Way<'a> {
    trace: &'a Path,
    limit: Option<u64>,
    pipeline: u32,
    writes_as_reads: bool,
}

impl Way<'_> {
    /// Hits and misses that the server counts.
    fn served(&self, forebay: &Forebay) -> (u64, u64) {
        let mut command = forebay_command();
        command.arg("replay").arg(self.trace).args(["--to", &forebay.address.to_string()]);
        command.args(["--preload", "--quiet", "--format", "json", "--pipeline", &self.pipeline.to_string()]);
        if let Some(limit) = self.limit {
            command.args(["--limit", &limit.to_string()]);
        }
        if self.writes_as_reads {
            command.arg("--writes-as-reads");
        }
        let output = command.output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).expect("a JSON object");
        eprintln!(
            "  pipeline {}: hit ratio {}, {:.0} requests/s, p50 {} us, p99 {} us",
            self.pipeline,
            report["hit_ratio"],
            report["requests_per_second"].as_f64().unwrap_or_default(),
            report["latency"]["p50_us"],
            report["latency"]["p99_us"]
        );
        assert_eq!(report["errors"], 0);
        assert_eq!(report["cache_reset"], true);
        // Every key was preloaded, so a value is found wherever no DEL came before.
        if self.writes_as_reads {
            assert_eq!(report["found"], report["gets"]);
        }
        let figure = |name: &str| report[name].as_u64().expect("a number");
        (figure("hits"), figure("misses"))
    }

    /// What the same cache counts without a server.
    fn bare(&self, policy: &str, budget_bytes: u64) -> CacheCounts {
        let options = ReplayOptions {
            policy: choose(policy).expect("it is in the table"),
            budget_bytes: budget_bytes as usize,
            preload: true,
            writes_as_reads: self.writes_as_reads,
        };
        let mut left = self.limit.unwrap_or(u64::MAX);
        let records = forebay_trace::open(self.trace, None).expect("the trace can be read");
        let records = records.take_while(|record| {
            let asks = record.as_ref().is_ok_and(|record| Request::of(record, options.writes_as_reads).is_some());
            let more = left > 0;
            left -= u64::from(more && asks);
            more
        });
        replay(&options, records).expect("the trace can be read to its end")
    }
}

/// Replays a trace through servers of each policy; `pipelines` for each policy in turn.
fn equal(trace: &Path, memory: &str, limit: Option<u64>, pipelines: [&[u32]; 3]) {
    for (policy, pipelines) in POLICIES.into_iter().zip(pipelines) {
        let arguments = ["--memory", memory, "--partitions", "1", "--policy", policy, "--durability", "interval"];
        // With a store on disk too, whose pages take their part of the memory.
        let store = if policy == "lru" { "embedded" } else { "memory" };
        let forebay = Forebay::start(store, &arguments);
        let budget = forebay.cache_figure("budget_bytes");
        for &pipeline in pipelines {
            // The writes of one pipelined batch are published together, so their order among reads is another.
            let writes_as_reads = pipeline > 1;
            let way = Way { trace, limit, pipeline, writes_as_reads };
            let counts = way.bare(policy, budget);
            let name = trace.file_name().unwrap_or_default().display();
            eprintln!("{name}, {policy}, {budget} bytes over {store}: {counts:?}");
            assert!(counts.evictions > 0, "{name}: the cache holds it all, so nothing is compared");
            let (hits, misses) = way.served(&forebay);
            assert_eq!((hits, misses), (counts.hits, counts.misses), "{name}, {policy}, pipeline {pipeline}");
        }
    }
}

/// The small trace, and the whole one where there is one.
fn small_and_whole(small: &str, memory_small: &str, whole: &str, memory_whole: &str) {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    equal(&testdata.join(small), memory_small, Some(LIMIT), [&[1, 16]; 3]);
    match std::env::var_os("FOREBAY_TRACES").map(PathBuf::from) {
        Some(folder) => equal(&folder.join(whole), memory_whole, None, [&[1, 16], &[16], &[16]]),
        None => eprintln!("SKIPPED: FOREBAY_TRACES names no folder with the whole {whole}"),
    }
}

#[test]
fn a_database_trace_in_arc_format() {
    small_and_whole("arc/OLTP-head.lis.zst", "1MiB", "arc/OLTP.lis.zst", "8MiB");
}

#[test]
fn a_web_shop_trace_in_be32_format() {
    small_and_whole("cache2k/web07.be32.zst", "1MiB", "cache2k/web07.be32.zst", "2MiB");
}

#[test]
fn a_block_trace_as_csv() {
    let file = "cloudphysics/w92_cloudPhysicsIO.csv.zst";
    small_and_whole(file, "16MiB", file, "64MiB");
}

#[test]
fn a_block_trace_as_oracle_general() {
    let file = "cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst";
    small_and_whole(file, "32MiB", file, "128MiB");
}

#[test]
fn a_key_value_trace_as_csv() {
    small_and_whole("twitter/twitter_cluster52-head.csv.zst", "1MiB", "twitter/twitter_cluster52.csv.zst", "16MiB");
}
