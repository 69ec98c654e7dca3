//! CLIC's figures 2, 3 and 5 to 11, over traces of PostgreSQL and MariaDB with hints.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::bare::Bare;
use forebay::policy::{Access, Unit, choose};
use forebay_sim::catalog::{Catalog, Event, Sample};
use forebay_sim::contender::Contender;
use forebay_sim::hints::{HintSets, HintTypes, Priority};
use forebay_sim::lab::{Lab, LabOptions, Silent, Size};
use forebay_sim::machine::Division;
use forebay_sim::row::Row;
use forebay_trace::describe::Description;
use forebay_trace::dictionary::Dictionary;
use forebay_trace::fbt::Writer;
use forebay_trace::tools::{self, Noise};
use forebay_trace::{Kind, TraceOptions};

use crate::{Args, Failed};

/// The hint types of the paper.
const TYPES: [&str; 5] = ["pool", "object", "objtype", "reqtype", "prio"];
/// Those of noise; a trace has as many as it was given.
const NOISE: [&str; 3] = ["noise0", "noise1", "noise2"];
const POLICIES: [&str; 11] =
    ["opt", "clic-g", "clic-tree", "clic", "clic-top-k", "tq", "arc", "lru", "s3-fifo", "w-tinylfu", "sieve"];
/// Of TQ the best of these counts.
const TQ: [&str; 3] = ["tq:low=0.01,history=100", "tq:low=0.3,history=100", "tq:low=0.9,history=100"];
/// Shares of the database at the start that the cache holds.
const SHARES: [f64; 5] = [0.05, 0.1, 0.2, 0.35, 0.5];
const TPCC: [&str; 3] = ["pgc_c10", "pgc_c50", "pgc_c90"];
const TPCH: [&str; 3] = ["pgh_h10", "pgh_h50", "pgh_h90"];

type Result<T> = std::result::Result<T, Failed>;

/// Pages of a trace's database at the start.
pub fn pages(trace: &str) -> f64 {
    match &trace[..3] {
        "pgc" => 151_974.0,
        "pgh" => 108_219.0,
        _ => 37_422.0,
    }
}

pub fn path(args: &Args, trace: &str) -> Result<PathBuf> {
    let folder =
        args.traces.as_ref().ok_or("set FOREBAY_TRACES, or --traces, to a folder that has hinted/*.htr.zst")?;
    Ok(folder.join(format!("hinted/{trace}.htr.zst")))
}

fn options(policies: &[String], sizes: &[u64]) -> Result<LabOptions> {
    let contenders: std::result::Result<Vec<_>, _> = policies.iter().map(|name| Contender::parse(name)).collect();
    let sizes: std::result::Result<Vec<_>, _> =
        sizes.iter().map(|size| Size::parse(&size.to_string(), Unit::Entries)).collect();
    Ok(LabOptions {
        contenders: contenders?,
        sizes: sizes?,
        unit: Unit::Entries,
        reads_only: true,
        warmup: 0.0,
        sample: Sample { rate: 1.0, seed: 0 },
        adjust: true,
        per_client: false,
        division: Division::Shared,
        hint_types: HintTypes::only(TYPES),
        writes_allocate: true,
        prefetch: forebay_sim::ahead::Prefetch::None,
        graphs: Vec::new(),
        trace: TraceOptions::default(),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    })
}

fn rows(path: &Path, options: &LabOptions) -> Result<Vec<Row>> {
    Ok(Lab::open(path, options, &Silent)?.curves()?)
}

/// The name under which a policy is shown: all shares of TQ are one.
fn shown(policy: &str) -> &str {
    if policy.starts_with("tq") { "tq" } else { policy }
}

fn by_size(args: &Args, traces: &[&str]) -> Result<String> {
    let mut csv = String::from("trace,policy,share,pages,read_hit_ratio\n");
    for trace in traces {
        let sizes = SHARES.map(|share| (share * pages(trace)) as u64);
        let others = POLICIES.iter().filter(|name| **name != "tq").chain(&TQ).map(|name| (*name).to_owned());
        let rows = rows(&path(args, trace)?, &options(&others.collect::<Vec<_>>(), &sizes)?)?;
        for policy in POLICIES {
            for (share, size) in SHARES.iter().zip(sizes) {
                let of = rows.iter().filter(|row| shown(&row.policy) == policy && row.size == size);
                let best = of.map(|row| row.hit_ratio).fold(0.0, f64::max);
                writeln!(csv, "{trace},{policy},{share},{size},{best:.4}")?;
            }
        }
    }
    Ok(csv)
}

/// A trace with all that its requests say.
fn described(args: &Args, trace: &str) -> Result<(Description, Dictionary)> {
    let mut records = forebay_trace::open(&path(args, trace)?, None)?;
    let mut described = Description::of(&mut records)?;
    let dictionary = records.dictionary().ok_or("a trace with hints")?.clone();
    described.name_hints(&dictionary);
    Ok((described, dictionary))
}

fn all_traces() -> impl Iterator<Item = &'static str> {
    TPCC.into_iter().chain(TPCH).chain(["my_b28"])
}

/// Figure 2: the hint types with how many values they have.
pub fn hint_types(args: &Args) -> Result<String> {
    let mut csv = String::from("trace,hint_type,values\n");
    for trace in all_traces() {
        for (name, values) in &described(args, trace)?.0.hint_types {
            writeln!(csv, "{trace},{name},{values}")?;
        }
    }
    Ok(csv)
}

/// Figure 5: the traces.
pub fn sizes(args: &Args) -> Result<String> {
    let mut csv = String::from("trace,requests,reads,distinct_hint_sets,distinct_hint_sets_of_five_types,pages\n");
    for trace in all_traces() {
        let (described, dictionary) = described(args, trace)?;
        let mut hints = HintSets::new(HintTypes::only(TYPES));
        let met = described.hints.keys().map(|&set| hints.meet(set, Some(&dictionary)).0.0);
        let of_five: BTreeSet<u32> = met.collect();
        let reads = described.kinds[Kind::Read as usize] + described.kinds[Kind::Prefetch as usize];
        let (all, pages) = (described.hints.len(), described.unique_keys);
        writeln!(csv, "{trace},{},{reads},{all},{},{pages}", described.requests, of_five.len())?;
    }
    Ok(csv)
}

/// Figure 6.
pub fn tpcc(args: &Args) -> Result<String> {
    by_size(args, &TPCC)
}

/// Figure 7.
pub fn tpch(args: &Args) -> Result<String> {
    by_size(args, &TPCH)
}

/// Figure 8, with another load.
pub fn mariadb(args: &Args) -> Result<String> {
    by_size(args, &["my_b28"])
}

/// Hint sets with their meanings, and requests with their hints.
type Requests = (Vec<(HintSet, Arc<HintMeaning>)>, Vec<Access>);

/// All requests of a trace, with the hint types of the paper.
pub fn requests(path: &Path) -> Result<Requests> {
    let all = Sample { rate: 1.0, seed: 0 };
    let catalog = Catalog::of(forebay_trace::open(path, None)?, all, false, || ())?;
    let (mut trace, mut place) = (forebay_trace::open(path, None)?, 0);
    let mut hints = HintSets::new(HintTypes::only(TYPES));
    let (mut sets, mut requests) = (Vec::new(), Vec::new());
    while let Some(record) = trace.next() {
        let record = record?;
        if let Some(Event::Request(mut request)) = catalog.event(&record, &mut place) {
            let (set, new) = hints.meet(record.hints, trace.dictionary());
            sets.extend(new);
            request.access.hints = set;
            requests.push(request.access);
        }
    }
    Ok((sets, requests))
}

/// Figure 3: each hint set of the last whole window by how frequent it is, and its priority.
pub fn priorities(args: &Args) -> Result<String> {
    let (sets, requests) = requests(&path(args, TPCC[0])?)?;
    let choice = choose("clic")?;
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, (0.2 * pages(TPCC[0])) as u64));
    sets.iter().for_each(|(set, meaning)| cache.define_hints(*set, meaning));
    for request in requests {
        cache.access(request);
    }
    let mut csv = String::from("hint_set,priority,requests_percent,read_again_percent,after_requests\n");
    for line in cache.report(usize::MAX) {
        let Priority { name, priority, requests_percent: share, read_again_percent: again, after_requests: after } =
            Priority::read(&line).ok_or("a report of four figures")?;
        writeln!(csv, "{name},{priority},{share},{again},{after}")?;
    }
    Ok(csv)
}

/// Figure 9.
pub fn top_k(args: &Args) -> Result<String> {
    const K: [u32; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
    let mut csv = String::from("trace,pages,k,read_hit_ratio\n");
    for trace in all_traces() {
        let size = (0.2 * pages(trace)) as u64;
        let policies = K.map(|k| format!("clic-top-k:k={k}"));
        let rows = rows(&path(args, trace)?, &options(&policies, &[size])?)?;
        for (k, row) in K.iter().zip(&rows) {
            writeln!(csv, "{trace},{size},{k},{:.4}", row.hit_ratio)?;
        }
    }
    Ok(csv)
}

/// Figure 10.
pub fn noise(args: &Args) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let policies = ["clic-g", "clic-tree", "clic", "clic-top-k:k=100"].map(str::to_owned);
    let mut csv = String::from("trace,policy,noise_types,read_hit_ratio\n");
    for trace in TPCC {
        for types in 0..=NOISE.len() {
            let noisy = folder.path().join("noisy.fbt");
            let file = std::io::BufWriter::new(std::fs::File::create(&noisy)?);
            let mut writer = Writer::create(file, 0)?;
            let noise = Noise { types, domain: 10, zipf: 1.0, seed: 1 };
            tools::add_noise(&mut forebay_trace::open(&path(args, trace)?, None)?, noise, &mut writer)?;
            writer.finish()?;
            let hint_types = HintTypes::only(TYPES.into_iter().chain(NOISE.into_iter().take(types)));
            let rows = rows(&noisy, &LabOptions { hint_types, ..options(&policies, &[30_394])? })?;
            for (policy, row) in policies.iter().zip(&rows) {
                writeln!(csv, "{trace},{policy},{types},{:.4}", row.hit_ratio)?;
            }
        }
    }
    Ok(csv)
}

/// Figure 11.
pub fn clients(args: &Args) -> Result<String> {
    const PAGES: u64 = 45_000;
    let folder = tempfile::tempdir()?;
    let mixed = folder.path().join("mixed.fbt");
    let mut writer = Writer::create(std::io::BufWriter::new(std::fs::File::create(&mixed)?), 0)?;
    let traces: Result<Vec<_>> = TPCC.iter().map(|trace| Ok(forebay_trace::open(&path(args, trace)?, None)?)).collect();
    tools::mix(&mut traces?, &mut writer)?;
    writer.finish()?;
    let policies = ["opt", "clic-g", "clic-tree", "clic", "clic-top-k", "arc", "w-tinylfu", "lru"].map(str::to_owned);
    let mut csv = String::from("division,policy,client,read_hit_ratio\n");
    for (title, division) in [("one cache of 45K pages", Division::Shared), ("three of 15K", Division::Equal)] {
        let types = TPCC.len();
        let names = TYPES.iter().flat_map(|name| (1..=types).map(move |client| format!("{client}.{name}")));
        let names: Vec<String> = names.collect();
        let hint_types = HintTypes::only(names.iter().map(String::as_str));
        let options = LabOptions { per_client: true, division, hint_types, ..options(&policies, &[PAGES])? };
        for row in rows(&mixed, &options)? {
            let client = row.client.as_deref().unwrap_or("all");
            writeln!(csv, "{title},{},{client},{:.4}", row.policy, row.hit_ratio)?;
        }
    }
    Ok(csv)
}
