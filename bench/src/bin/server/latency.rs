//! GET in an open loop, at shares of what redis-server can serve at most, found in the same run.

use std::error::Error;
use std::time::Duration;

use forebay_bench::figures::of;
use forebay_bench::open_loop::{self, Latencies, Pace};
use forebay_bench::peers::Peer;
use forebay_bench::report::Report;
use forebay_bench::workload::Kind;

use crate::Scene;
use crate::closed::{self, Point};

/// Of redis-server's most.
const SHARES: [f64; 2] = [0.5, 0.8];

/// Where the generator's own lateness is a larger share of the p99, the line claims nothing.
const LATE_MAX: f64 = 0.25;

/// In the table.
const PERCENTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// The runs of one server.
type PeersRuns = (Peer, Vec<Latencies>);

/// Measures and appends a table; says so if there is no redis-server to set the pace.
pub fn measure(report: &mut Report, scene: &Scene<'_>) -> Result<(), Box<dyn Error>> {
    let Some((peer, redis)) = scene.servers.iter().find(|(peer, _)| *peer == Peer::Redis) else {
        report.line("\nLatency needs redis among --peers: its most sets the pace.");
        return Ok(());
    };
    let options = scene.options;
    let connections = options.connections.iter().copied().max().unwrap_or(1);
    let point = Point { kind: Kind::Get, connections, pipeline: 1 };
    let mut most = Vec::new();
    for number in 0..options.runs {
        most.push(closed::run(scene, point, *peer, redis, number as u64)?);
    }
    let most = of(&most, |run| run.throughput).median;
    report.line(&format!(
        "\n### Latency of GET, open loop, {}\n\nredis-server's most with {connections} connections without a pipeline \
         was {most:.0} requests/s. Microseconds from when a request was due to its reply; medians of {} runs of {} ms, \
         ranges in brackets. \"sent late\": how far behind the generator itself was.\n",
        scene.durability.heading(),
        options.runs,
        options.latency_ms,
    ));
    report.columns(&["load", "requests/s", "server", "p50", "p99", "p99.9", "p99 of sent late", "note"]);
    for share in SHARES {
        for (peer, runs) in measure_share(scene, connections, most * share)? {
            let mut cells = vec![format!("{:.0} %", share * 100.0), format!("{:.0}", most * share)];
            cells.push(peer.name().to_owned());
            cells.extend(PERCENTILES.map(|percentile| of(&runs, |run| run.us(percentile)).plain(0)));
            let late = of(&runs, |run| run.behind_us(0.99));
            cells.push(late.plain(0));
            let bound = late.median > of(&runs, |run| run.us(0.99)).median * LATE_MAX;
            cells.push(if bound { "generator-bound".into() } else { String::new() });
            report.row(&cells);
        }
    }
    Ok(())
}

fn measure_share(scene: &Scene<'_>, connections: usize, rate: f64) -> Result<Vec<PeersRuns>, Box<dyn Error>> {
    let options = scene.options;
    let mut all: Vec<PeersRuns> = scene.servers.iter().map(|(peer, _)| (*peer, Vec::new())).collect();
    for number in 0..options.runs {
        for turn in 0..all.len() {
            let at = (turn + number) % all.len();
            let (peer, server) = &scene.servers[at];
            let pace = Pace {
                protocol: peer.protocol(),
                connections,
                rate,
                time: Duration::from_millis(options.latency_ms),
                keys: options.keys,
                seed: number as u64,
            };
            all[at].1.push(open_loop::run(server.address, &pace)?);
        }
    }
    Ok(all)
}
