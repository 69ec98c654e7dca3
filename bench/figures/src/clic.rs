//! CLIC's figures 2, 3 and 5 to 11, over traces of PostgreSQL and MariaDB with hints.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::bare::Bare;
use forebay::policy::{Access, Unit, choose};
use forebay_sim::catalog::{Catalog, Event, Sample};
use forebay_sim::cell::Contender;
use forebay_sim::figures::Row;
use forebay_sim::hints::{HintSets, HintTypes, Priority};
use forebay_sim::lab::{Lab, LabOptions, Silent, Size};
use forebay_sim::machine::Division;
use forebay_trace::describe::Description;
use forebay_trace::fbt::Writer;
use forebay_trace::tools::{self, Noise};
use forebay_trace::{Kind, TraceOptions};

use crate::Args;
use crate::plot::{Axes, Form, Line, Panel, Scale, draw};

/// The hint types of the paper.
const TYPES: [&str; 5] = ["pool", "object", "objtype", "reqtype", "prio"];
/// Those of noise; a trace has as many as it was given.
const NOISE: [&str; 3] = ["noise0", "noise1", "noise2"];
const POLICIES: [&str; 11] =
    ["opt", "clic-g", "clic-tree", "clic", "clic-top-k", "tq", "arc", "lru", "s3-fifo", "w-tinylfu", "sieve"];
/// Those of them that look at no hints.
const HINTLESS: &[&str] = &["arc", "lru", "s3-fifo", "w-tinylfu", "sieve"];
/// Of TQ the best of these counts.
const TQ: [&str; 3] = ["tq:low=0.01,history=100", "tq:low=0.3,history=100", "tq:low=0.9,history=100"];
/// Shares of the database at the start that the cache holds.
const SHARES: [f64; 5] = [0.05, 0.1, 0.2, 0.35, 0.5];
const TPCC: [&str; 3] = ["pgc_c10", "pgc_c50", "pgc_c90"];
const TPCH: [&str; 3] = ["pgh_h10", "pgh_h50", "pgh_h90"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

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

fn by_size(args: &Args, name: &str, traces: &[&str]) -> Result<()> {
    let mut csv = String::from("trace,policy,share,pages,read_hit_ratio\n");
    let mut panels = Vec::new();
    for trace in traces {
        let sizes = SHARES.map(|share| (share * pages(trace)) as u64);
        let others = POLICIES.iter().filter(|name| **name != "tq").chain(&TQ).map(|name| (*name).to_owned());
        let rows = rows(&path(args, trace)?, &options(&others.collect::<Vec<_>>(), &sizes)?)?;
        let mut lines = Vec::new();
        for policy in POLICIES {
            let mut points = Vec::new();
            for (share, size) in SHARES.iter().zip(sizes) {
                let of = rows.iter().filter(|row| shown(&row.policy) == policy && row.size == size);
                let best = of.map(|row| row.hit_ratio).fold(0.0, f64::max);
                writeln!(csv, "{trace},{policy},{share},{size},{best:.4}")?;
                points.push((100.0 * share, best));
            }
            lines.push(Line { name: policy.to_owned(), points });
        }
        panels.push(Panel { title: (*trace).to_owned(), lines });
    }
    let axes = axes("cache, % of the database at the start", "read hit ratio");
    save(args, name, &csv, &panels, &axes)
}

fn axes(x: &str, y: &str) -> Axes {
    Axes { x: x.into(), y: y.into(), scale: Scale::Linear, form: Form::Lines, thin: HINTLESS }
}

fn save(args: &Args, name: &str, csv: &str, panels: &[Panel], axes: &Axes) -> Result<()> {
    std::fs::write(args.out.join(format!("{name}.csv")), csv)?;
    draw(&args.out.join(format!("{name}.svg")), panels, axes)
}

/// Figures 2 and 5: the hint types with how many values they have, and the traces. Both are tables.
pub fn traces(args: &Args) -> Result<()> {
    let mut types = String::from("trace,hint_type,values\n");
    let mut sizes = String::from("trace,requests,reads,distinct_hint_sets,distinct_hint_sets_of_five_types,pages\n");
    for trace in TPCC.iter().chain(&TPCH).chain(&["my_b28"]) {
        let mut records = forebay_trace::open(&path(args, trace)?, None)?;
        let mut described = Description::of(&mut records)?;
        let dictionary = records.dictionary().ok_or("a trace with hints")?;
        described.name_hints(dictionary);
        for (name, values) in &described.hint_types {
            writeln!(types, "{trace},{name},{values}")?;
        }
        let mut hints = HintSets::new(HintTypes::only(TYPES));
        let of_five: BTreeSet<u32> = described.hints.keys().map(|&set| hints.meet(set, Some(dictionary)).0.0).collect();
        let reads = described.kinds[Kind::Read as usize] + described.kinds[Kind::Prefetch as usize];
        let (all, pages) = (described.hints.len(), described.unique_keys);
        writeln!(sizes, "{trace},{},{reads},{all},{},{pages}", described.requests, of_five.len())?;
    }
    std::fs::write(args.out.join("clic-2.csv"), types)?;
    std::fs::write(args.out.join("clic-5.csv"), sizes)?;
    Ok(())
}

/// Figure 6.
pub fn tpcc(args: &Args) -> Result<()> {
    by_size(args, "clic-6", &TPCC)
}

/// Figure 7.
pub fn tpch(args: &Args) -> Result<()> {
    by_size(args, "clic-7", &TPCH)
}

/// Figure 8, with another load.
pub fn mariadb(args: &Args) -> Result<()> {
    by_size(args, "clic-8", &["my_b28"])
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
pub fn priorities(args: &Args) -> Result<()> {
    let (sets, requests) = requests(&path(args, TPCC[0])?)?;
    let choice = choose("clic")?;
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, (0.2 * pages(TPCC[0])) as u64));
    sets.iter().for_each(|(set, meaning)| cache.define_hints(*set, meaning));
    for request in requests {
        cache.access(request);
    }
    let mut csv = String::from("hint_set,priority,requests_percent,read_again_percent,after_requests\n");
    let mut points = Vec::new();
    for line in cache.report(usize::MAX) {
        let Priority { name, priority, requests_percent: share, read_again_percent: again, after_requests: after } =
            Priority::read(&line).ok_or("a report of four figures")?;
        writeln!(csv, "{name},{priority},{share},{again},{after}")?;
        points.push((share, priority));
    }
    let panels = [Panel { title: TPCC[0].into(), lines: vec![Line { name: "a hint set".into(), points }] }];
    let axes = Axes { scale: Scale::Factors, form: Form::Points, ..axes("% of requests", "priority") };
    save(args, "clic-3", &csv, &panels, &axes)
}

/// Figure 9.
pub fn top_k(args: &Args) -> Result<()> {
    const K: [u32; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
    let mut csv = String::from("trace,pages,k,read_hit_ratio\n");
    let mut panels = Vec::new();
    for (title, traces) in [("TPC-C-like", &TPCC[..]), ("TPC-H-like", &TPCH), ("MariaDB", &["my_b28"])] {
        let mut lines = Vec::new();
        for trace in traces {
            let size = (0.2 * pages(trace)) as u64;
            let policies = K.map(|k| format!("clic-top-k:k={k}"));
            let rows = rows(&path(args, trace)?, &options(&policies, &[size])?)?;
            let mut points = Vec::new();
            for (k, row) in K.iter().zip(&rows) {
                writeln!(csv, "{trace},{size},{k},{:.4}", row.hit_ratio)?;
                points.push((f64::from(*k), row.hit_ratio));
            }
            let front = trace.split('_').next_back().unwrap_or(trace).trim_start_matches(char::is_alphabetic);
            lines.push(Line { name: format!("{front} % in front"), points });
        }
        panels.push(Panel { title: title.into(), lines });
    }
    let axes = Axes { scale: Scale::Across, ..axes("k", "read hit ratio") };
    save(args, "clic-9", &csv, &panels, &axes)
}

/// Figure 10.
pub fn noise(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let policies = ["clic-g", "clic-tree", "clic", "clic-top-k:k=100"].map(str::to_owned);
    let mut csv = String::from("trace,policy,noise_types,read_hit_ratio\n");
    let mut panels = Vec::new();
    for trace in TPCC {
        let mut lines: Vec<Line> =
            policies.iter().map(|name| Line { name: name.clone(), points: Vec::new() }).collect();
        for types in 0..=NOISE.len() {
            let noisy = folder.path().join("noisy.fbt");
            let file = std::io::BufWriter::new(std::fs::File::create(&noisy)?);
            let mut writer = Writer::create(file, 0)?;
            let noise = Noise { types, domain: 10, zipf: 1.0, seed: 1 };
            tools::add_noise(&mut forebay_trace::open(&path(args, trace)?, None)?, noise, &mut writer)?;
            writer.finish()?;
            let hint_types = HintTypes::only(TYPES.into_iter().chain(NOISE.into_iter().take(types)));
            let rows = rows(&noisy, &LabOptions { hint_types, ..options(&policies, &[30_394])? })?;
            for (line, row) in lines.iter_mut().zip(&rows) {
                writeln!(csv, "{trace},{},{types},{:.4}", line.name, row.hit_ratio)?;
                line.points.push((types as f64, row.hit_ratio));
            }
        }
        panels.push(Panel { title: trace.into(), lines });
    }
    save(args, "clic-10", &csv, &panels, &axes("useless hint types", "read hit ratio"))
}

/// Figure 11.
pub fn clients(args: &Args) -> Result<()> {
    const PAGES: u64 = 45_000;
    const GROUPS: [&str; 4] = ["c10", "c50", "c90", "all"];
    let folder = tempfile::tempdir()?;
    let mixed = folder.path().join("mixed.fbt");
    let mut writer = Writer::create(std::io::BufWriter::new(std::fs::File::create(&mixed)?), 0)?;
    let traces: Result<Vec<_>> = TPCC.iter().map(|trace| Ok(forebay_trace::open(&path(args, trace)?, None)?)).collect();
    tools::mix(&mut traces?, &mut writer)?;
    writer.finish()?;
    let policies = ["opt", "clic-g", "clic-tree", "clic", "clic-top-k", "arc", "w-tinylfu", "lru"].map(str::to_owned);
    let mut csv = String::from("division,policy,client,read_hit_ratio\n");
    let mut panels = Vec::new();
    let divisions = [("one cache of 45K pages", Division::Shared), ("three of 15K", Division::Equal)];
    for (title, division) in divisions {
        let types = TPCC.len();
        let names = TYPES.iter().flat_map(|name| (1..=types).map(move |client| format!("{client}.{name}")));
        let names: Vec<String> = names.collect();
        let hint_types = HintTypes::only(names.iter().map(String::as_str));
        let options = LabOptions { per_client: true, division, hint_types, ..options(&policies, &[PAGES])? };
        let rows = rows(&mixed, &options)?;
        let mut lines: Vec<Line> =
            policies.iter().map(|name| Line { name: name.clone(), points: Vec::new() }).collect();
        for row in &rows {
            let client = row.client.as_deref().unwrap_or("all");
            writeln!(csv, "{title},{},{client},{:.4}", row.policy, row.hit_ratio)?;
            let number: Option<f64> = row.client.as_deref().and_then(|client| client.parse().ok());
            let x = number.map_or(GROUPS.len() as f64, |number| number) - 1.0;
            if let Some(line) = lines.iter_mut().find(|line| line.name == row.policy) {
                line.points.push((x, row.hit_ratio));
            }
        }
        panels.push(Panel { title: title.into(), lines });
    }
    let groups = GROUPS.map(str::to_owned).to_vec();
    let axes = Axes { form: Form::Bars(groups), ..axes("reads of a client", "read hit ratio") };
    save(args, "clic-11", &csv, &panels, &axes)
}
