//! The simulator's speed beside libCacheSim's: the same policies over the same files, one thread, in turns.
//!
//! There are three forms. In `file` a file is read and replayed in one pass; libCacheSim has this form. In `memory`
//! requests are in memory already, so that policies alone are compared. (libCacheSim maps its file, which is the
//! nearest that its package has.) In `curve` `forebay sim` itself replays all sizes at once, where libCacheSim has to
//! read the file once for each.
//!
//! Hits are compared on the way: figures of programs that do different work would say nothing.

mod ours;
mod peer;
mod table;
mod trace;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

use table::{Curve, Point};

/// Policies that both have.
const POLICIES: [&str; 7] = ["lru", "fifo", "clock", "s3-fifo", "sieve", "w-tinylfu", "arc"];

/// What can be typed.
#[derive(Parser)]
#[command(about = "The simulator's speed beside libCacheSim's")]
struct Args {
    /// Folder of traces
    #[arg(long, env = "FOREBAY_TRACES", required_unless_present = "child")]
    traces: Option<PathBuf>,
    /// Files in it, by name
    #[arg(long = "files", value_delimiter = ',', default_values_t = trace::FILES.map(str::to_owned))]
    names: Vec<String>,
    /// Policies
    #[arg(long, value_delimiter = ',', default_values_t = POLICIES.map(str::to_owned))]
    policies: Vec<String>,
    /// Cache sizes, as shares of the distinct keys
    #[arg(long, value_delimiter = ',', default_values_t = [0.001, 0.01, 0.05, 0.1, 0.25])]
    sizes: Vec<f64>,
    /// How often each is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Python with the package libcachesim, as `make setup-bench` installs it; without it only ours is measured
    #[arg(long, default_value = "target/peers/libcachesim/bin/python")]
    python: PathBuf,
    /// Only our own speed
    #[arg(long)]
    alone: bool,
    /// Objects with which memory is measured
    #[arg(long, default_value_t = 1_000_000)]
    objects: u32,
    /// Writes the tables there, too
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Measures the memory of one policy in this process
    #[arg(long, hide = true, num_args = 3)]
    child: Option<Vec<String>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some([policy, objects, file]) = args.child.as_deref() {
        println!("{}", ours::memory(policy, objects.parse()?, file.as_ref())?);
        return Ok(());
    }
    let traces = args.traces.as_deref().ok_or("where are the traces? --traces or FOREBAY_TRACES")?;
    let mut peer = if args.alone { None } else { Some(peer::Peer::start(&args.python)?) };
    let folder = tempfile::tempdir()?;
    let mut report = table::Report::new(peer.as_ref().map(|peer| peer.version.as_str()));
    let (mut points, mut curves) = (Vec::new(), Vec::new());
    for name in &args.names {
        let trace = trace::Trace::load(traces, name, folder.path())?;
        report.trace(&trace);
        let sizes: Vec<u64> = args.sizes.iter().map(|share| ((trace.keys as f64 * share) as u64).max(10)).collect();
        for policy in &args.policies {
            let (of_sizes, curve) = measure(&args, &trace, policy, &sizes, &mut peer)?;
            points.extend(of_sizes);
            curves.push(curve);
        }
    }
    report.speed(&points);
    report.curves(&curves);
    report.summary(&points, &curves);
    let trace = trace::Trace::of_new_keys(args.objects, folder.path())?;
    let mut rows = Vec::new();
    for policy in &args.policies {
        let ours = ours::memory_of_a_child(policy, u64::from(args.objects), &trace.path)?;
        let ask = |_| peer::Peer::start(&args.python)?.memory(policy, u64::from(args.objects), &trace.path);
        let theirs = peer.as_ref().map(ask).transpose()?;
        rows.push((policy.clone(), ours, theirs));
    }
    report.memory(args.objects, &rows);
    report.end(args.markdown.as_deref())
}

/// One policy at all sizes, round by round.
fn measure(
    args: &Args,
    trace: &trace::Trace,
    policy: &str,
    sizes: &[u64],
    peer: &mut Option<peer::Peer>,
) -> Result<(Vec<Point>, Curve), Box<dyn Error>> {
    let mut points: Vec<Point> =
        sizes.iter().map(|&objects| Point::new(&trace.name, policy, objects, trace.requests.len())).collect();
    let mut runs = Vec::new();
    for _ in 0..args.rounds {
        for point in &mut points {
            point.memory.push(ours::memory_form(policy, point.objects, trace)?);
            point.file.push(ours::file_form(policy, point.objects, trace)?);
            if let Some(peer) = peer {
                point.peer.push(peer.speed(policy, point.objects, &trace.path)?);
            }
        }
        runs.push(ours::curve_form(policy, sizes, trace)?);
    }
    let curve = Curve::new(runs, &points);
    for point in &points {
        eprintln!("{}", point.progress());
        point.check()?;
    }
    eprintln!("{}", curve.progress());
    curve.check(&points)?;
    Ok((points, curve))
}
