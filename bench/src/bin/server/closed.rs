//! Requests per CPU second of the server, in a closed loop.

use std::error::Error;
use std::time::Duration;

use forebay_bench::figures::{Summary, of, ratio};
use forebay_bench::generator::{self, Load};
use forebay_bench::peers::Peer;
use forebay_bench::program::Program;
use forebay_bench::report::Report;
use forebay_bench::workload::{Kind, Order};

use crate::Scene;
use crate::options::Options;

/// Generators busier than this limit what they measure.
const BUSY_MAX: f64 = 0.9;

/// Share of a core below which the server is mostly waiting: its CPU time says little of what it could serve.
const SERVER_BUSY_MIN: f64 = 0.2;

/// One run of one server at one point.
pub struct Run {
    pub per_cpu_second: f64,
    pub throughput: f64,
    /// Seconds of CPU that the server spent in its own code and in the kernel's; in steps of 10 ms.
    pub user_and_system: (f64, f64),
    /// How much of the time the generator was busy.
    pub busy: f64,
    pub server_busy: f64,
}

/// What the runs of one point have in common.
#[derive(Clone, Copy)]
pub struct Point {
    pub kind: Kind,
    pub connections: usize,
    pub pipeline: usize,
}

/// Appends the head of the table.
pub fn head(report: &mut Report, options: &Options) {
    let names: Vec<&str> = options.peers.iter().map(|peer| peer.name()).collect();
    let mut columns: Vec<String> =
        ["request", "value B", "threads", "connections", "pipeline"].map(String::from).into();
    columns.extend(names.iter().map(|name| format!("{name} kreq/CPU s")));
    columns.extend(others(&options.peers).map(|peer| format!("to {}", peer.name())));
    let listed = names.join(", ");
    let behind = [&format!("kreq/s: {listed}"), &format!("kernel %: {listed}"), "generator busy %", "note"];
    columns.extend(behind.map(String::from));
    report.columns(&columns.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Those that forebay is set beside, if it is one of them.
fn others(peers: &[Peer]) -> impl Iterator<Item = Peer> {
    let beside = peers.contains(&Peer::Forebay);
    peers.iter().copied().filter(move |peer| beside && *peer != Peer::Forebay)
}

/// Measures all points of `kinds`, a line each.
pub fn measure(report: &mut Report, scene: &Scene<'_>, kinds: &[Kind]) -> Result<(), Box<dyn Error>> {
    for kind in kinds {
        for &connections in &scene.options.connections {
            for &pipeline in &scene.options.pipeline {
                let point = Point { kind: *kind, connections, pipeline };
                let runs = measure_point(scene, point)?;
                report.row(&cells(scene, point, &runs));
            }
        }
    }
    Ok(())
}

/// The runs of each server, in turns; none of one that does not know such requests.
fn measure_point(scene: &Scene<'_>, point: Point) -> Result<Vec<Vec<Run>>, Box<dyn Error>> {
    let mut runs: Vec<Vec<Run>> = scene.servers.iter().map(|_| Vec::new()).collect();
    for number in 0..scene.options.runs {
        for turn in 0..scene.servers.len() {
            // Which goes first changes, so that none always has the warmer machine.
            let at = (turn + number) % scene.servers.len();
            let (peer, server) = &scene.servers[at];
            if point.kind.spoken(peer.protocol()) {
                runs[at].push(run(scene, point, *peer, server, number as u64 + 2)?);
            }
        }
    }
    Ok(runs)
}

/// One run.
pub fn run(scene: &Scene<'_>, point: Point, peer: Peer, server: &Program, seed: u64) -> Result<Run, Box<dyn Error>> {
    let load = Load {
        connections: point.connections,
        pipeline: point.pipeline,
        order: Order::Random,
        time: Duration::from_millis(scene.options.run_ms),
        requests: u64::MAX,
        seed,
        ..scene.once(peer, point.kind)
    };
    let (before, split_before) = (server.cpu_seconds()?, server.split_seconds()?);
    let outcome = generator::run(server.address, &load)?;
    let (cpu_seconds, split) = (server.cpu_seconds()? - before, server.split_seconds()?);
    Ok(Run {
        per_cpu_second: outcome.requests as f64 / cpu_seconds,
        throughput: outcome.throughput(),
        user_and_system: (split.0 - split_before.0, split.1 - split_before.1),
        busy: outcome.busy(),
        server_busy: cpu_seconds / outcome.seconds,
    })
}

fn cells(scene: &Scene<'_>, point: Point, all: &[Vec<Run>]) -> Vec<String> {
    let peers = &scene.options.peers;
    let none = Vec::new();
    // A server that was not started has no runs, and a dash in its place.
    let runs_of = |peer: Peer| {
        let at = scene.servers.iter().position(|(started, _)| *started == peer);
        at.map_or(&none, |at| &all[at])
    };
    let cell = |runs: &[Run], text: fn(&[Run]) -> String| if runs.is_empty() { "-".into() } else { text(runs) };
    let of_all = |text: fn(&[Run]) -> String| peers.iter().map(move |peer| cell(runs_of(*peer), text));
    let Point { kind, connections, pipeline } = point;
    let mut cells = vec![kind.name().to_owned(), scene.value_bytes.to_string(), scene.threads.to_string()];
    cells.extend([connections.to_string(), pipeline.to_string()]);
    cells.extend(of_all(|runs| of(runs, |run| run.per_cpu_second).thousands()));
    // redis-server's threads spin while they wait: without cores of their own that is all that one would see.
    cells.extend(others(peers).map(|peer| match runs_of(peer).is_empty() || scene.shared_cores {
        true => "-".into(),
        false => ratio(runs_of(Peer::Forebay), runs_of(peer), |run| run.per_cpu_second).plain(2),
    }));
    let listed = |text: fn(&[Run]) -> String| of_all(text).collect::<Vec<_>>().join(", ");
    cells.push(listed(|runs| thousands(of(runs, |run| run.throughput))));
    cells.push(listed(kernel_percent));
    cells.push(listed(|runs| format!("{:.0}", of(runs, |run| run.busy).median * 100.0)));
    cells.push(note(scene, &runs_of, peers));
    cells
}

/// Of all runs together: the steps are too coarse for one.
fn kernel_percent(runs: &[Run]) -> String {
    let sum = |part: fn(&Run) -> f64| runs.iter().map(part).sum::<f64>();
    let (user, system) = (sum(|run| run.user_and_system.0), sum(|run| run.user_and_system.1));
    format!("{:.0}", system / (user + system) * 100.0)
}

fn thousands(summary: Summary) -> String {
    let figure = summary.median / 1000.0;
    if figure < 100.0 { format!("{figure:.1}") } else { format!("{figure:.0}") }
}

fn note<'a>(scene: &Scene<'_>, runs_of: &impl Fn(Peer) -> &'a Vec<Run>, peers: &[Peer]) -> String {
    let mut notes = Vec::new();
    let bound = peers.iter().filter(|peer| of(runs_of(**peer), |run| run.busy).median > BUSY_MAX);
    let bound: Vec<&str> = bound.map(|peer| peer.name()).collect();
    if !bound.is_empty() {
        notes.push(format!("generator-bound: {}", bound.join(", ")));
    }
    if scene.shared_cores {
        notes.push("too few cores: generator on one of the server's, no ratio".to_owned());
    }
    let least = peers.iter().flat_map(|peer| runs_of(*peer)).map(|run| run.server_busy).fold(f64::MAX, f64::min);
    if least < SERVER_BUSY_MIN {
        notes.push("server mostly waits".to_owned());
    }
    notes.join("; ")
}
