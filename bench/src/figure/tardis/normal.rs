//! While all is well: what the gate and write-back cost, and what the cache gains.

use std::sync::Arc;
use std::time::Duration;

use forebay_workload::live::{Report, Target};

use super::loops::{Command, closed};
use super::site::{Base, Load, Site, row};
use super::{Chart, Scale, barred, bars, scaled};
use crate::figure::Failed;
use crate::figures::Summary;
use crate::program::family_cpu_seconds;

const ROWS: u64 = 20_000;

/// Rows that are read from the cache.
const HOT_ROWS: u64 = 1000;

/// A cache in which none of the others is found when it is their turn again.
const SMALL: &str = "8MiB";

const CONNECTIONS: usize = 16;

fn read(rows: u64) -> Command {
    Arc::new(move |number| vec!["HGETALL".into(), row(number % rows)])
}

/// One field of a row that nobody else writes at the time.
fn write() -> Command {
    Arc::new(|number| vec!["HSET".into(), row(number * 7919 % ROWS), "field3".into(), format!("{number:0100}")])
}

/// Cost of the gate: the same requests with `--on-outage buffer` and `refuse`, in turns.
pub(super) fn gate(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, rounds) = (Site::new()?, scaled(scale, 7usize, 31));
    let time = Duration::from_secs_f64(scaled(scale, 1.0, 4.0));
    // A database has one forebay at a time.
    let bases = (site.loaded("ycsb-c", ROWS)?, site.loaded("ycsb-c", ROWS)?);
    let kinds =
        [("cached reads", "1GiB", read(HOT_ROWS)), ("uncached reads", SMALL, read(ROWS)), ("writes", "1GiB", write())];
    let (mut slower, mut per_second) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (name, memory, command) in &kinds {
        let serve = |base: &Base, how: &str| site.serve(base, &["--on-outage", how, "--memory", memory]);
        let (buffer, refuse) = (serve(&bases.0, "buffer")?, serve(&bases.1, "refuse")?);
        let mut runs: Vec<[f64; 2]> = Vec::new();
        for round in 0..=rounds {
            let measure = |address: &str| closed(&site, address, CONNECTIONS, time, command.clone());
            let mut both = [0.0; 2];
            // Whoever is first changes from round to round.
            for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                both[at] = measure(if at == 0 { &buffer.address } else { &refuse.address })?;
            }
            // The first round warms.
            if round > 0 {
                runs.push(both);
            }
        }
        let cost =
            Summary::of(&runs.iter().map(|[with, without]| 100.0 * (1.0 - with / without)).collect::<Vec<f64>>());
        eprintln!("{name}: {} % slower with the gate", cost.plain(1));
        slower.push(cost);
        for (at, all) in per_second.iter_mut().enumerate() {
            all.push(Summary::of(&runs.iter().map(|run| run[at]).collect::<Vec<f64>>()).median);
        }
    }
    let names = kinds.each_ref().map(|(name, _, _)| (*name).to_owned());
    let line = |name: &str, of: fn(&Summary) -> f64| bars(name, &slower.iter().map(of).collect::<Vec<f64>>());
    let costs = vec![line("median", |of| of.median), line("least", |of| of.low), line("most", |of| of.high)];
    let [with, without] = per_second;
    let both = vec![bars("with the gate", &with), bars("without", &without)];
    Ok(vec![
        barred("cost of the gate", "requests", "% fewer requests per second", &names, costs),
        barred("16 clients", "requests", "requests per second", &names, both),
    ])
}

/// Ages at which writes are applied, ms; 0: at once, as without write-back.
const AGES_MS: [&str; 4] = ["0", "100", "1000", "10000"];

/// Write-back: durability and age against throughput, latency and what the database sees of it.
pub(super) fn write_back(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, seconds) = (Site::new()?, scaled(scale, 5.0, 60.0));
    let base = site.loaded("ycsb-a", ROWS)?;
    let mut lines: [Vec<_>; 4] = Default::default();
    for durability in ["always", "interval"] {
        let mut columns: [Vec<f64>; 4] = Default::default();
        for age in AGES_MS {
            let of = written_back(&site, &base, durability, age, seconds)?;
            eprintln!("{durability}, {age} ms: {of:?}");
            columns.iter_mut().zip(of).for_each(|(column, figure)| column.push(figure));
        }
        lines.iter_mut().zip(columns).for_each(|(line, column)| line.push(bars(durability, &column)));
    }
    let names = AGES_MS.map(|age| if age == "0" { "off".to_owned() } else { format!("{age} ms") });
    let [throughput, p50, p99, commits] = lines;
    let chart = |title: &str, y, lines| barred(title, "write-back", y, &names, lines);
    Ok(vec![
        chart("writes", "writes per second", throughput),
        chart("latency, middle", "p50 us", p50),
        chart("latency, worst of 100", "p99 us", p99),
        chart("what the database is given", "transactions carried over per 100 writes", commits),
    ])
}

/// Writes per second, p50, p99, and transactions that were left of 100 writes.
fn written_back(site: &Site, base: &Base, durability: &str, age: &str, seconds: f64) -> Result<[f64; 4], Failed> {
    let forebay = site.serve(base, &["--durability", durability, "--write-back-ms", age])?;
    site.warm(base, &forebay.address)?;
    let load = Load { connections: 16, rate: None, seconds };
    let report = site.run(base, load, Target::resp(&forebay.address))?;
    let Some(update) = report.actions.iter().find(|action| action.action == "update") else {
        return Err("no updates".into());
    };
    let state = site.state(&forebay.address)?;
    let (buffered, merged) = (state.figure("buffered") as f64, state.figure("merged") as f64);
    let left = if buffered > 0.0 { 100.0 * (buffered - merged) / buffered } else { 100.0 };
    Ok([update.done as f64 / report.seconds, update.latency.p50_us, update.latency.p99_us, left])
}

/// Figures through forebay, and of the database itself.
type ByTarget = [Vec<f64>; 2];

/// YCSB B and C through forebay and on the database itself, in turns.
pub(super) fn cached(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, rounds) = (Site::new()?, scaled(scale, 3usize, 7));
    let seconds = scaled(scale, 4.0, 30.0);
    let names = ["B, reads", "B, updates", "C, reads"].map(str::to_owned);
    let (mut latencies, mut loads): ([ByTarget; 2], [ByTarget; 3]) = Default::default();
    for (workload, actions) in [("ycsb-b", &["read", "update"][..]), ("ycsb-c", &["read"])] {
        let base = site.loaded(workload, DEFAULT_ROWS)?;
        let forebay = site.serve(&base, &[])?;
        site.warm(&base, &forebay.address)?;
        let targets = [Target::resp(&forebay.address), Target::direct(&base.url, None)?];
        let mut runs: [Vec<Loaded>; 2] = Default::default();
        for _ in 0..rounds {
            for (target, runs) in targets.iter().zip(&mut runs) {
                runs.push(loaded(&site, &base, target.clone(), seconds)?);
            }
        }
        for (by, runs) in runs.iter().enumerate() {
            let middle = |of: &dyn Fn(&Loaded) -> f64| Summary::of(&runs.iter().map(of).collect::<Vec<f64>>());
            let figures: [&dyn Fn(&Loaded) -> f64; 3] =
                [&|run| run.report.done_per_second, &|run| run.calls, &|run| run.cpu_us];
            for (load, figure) in loads.iter_mut().zip(figures) {
                let summary = middle(figure);
                eprintln!("{workload}: {}", summary.plain(2));
                load[by].push(summary.median);
            }
            for action in actions {
                latencies[0][by].push(middle(&|run| latency(&run.report, action).0).median);
                latencies[1][by].push(middle(&|run| latency(&run.report, action).1).median);
            }
        }
    }
    let by = |[forebay, direct]: ByTarget| vec![bars("forebay", &forebay), bars("PostgreSQL alone", &direct)];
    let (ycsb, [p50, p99], [done, calls, cpu]) = (["YCSB B", "YCSB C"].map(str::to_owned), latencies, loads);
    Ok(vec![
        barred("20 clients, as fast as replies come", "workload", "actions per second", &ycsb, by(done)),
        barred("latency, middle", "action", "p50 us", &names, by(p50)),
        barred("latency, worst of 100", "action", "p99 us", &names, by(p99)),
        barred("load on the database: calls", "workload", "transactions per action", &ycsb, by(calls)),
        barred("load on the database: CPU", "workload", "us per action", &ycsb, by(cpu)),
    ])
}

const DEFAULT_ROWS: u64 = 100_000;

fn latency(report: &Report, name: &str) -> (f64, f64) {
    let action = report.actions.iter().find(|action| action.action == name);
    action.map_or((f64::NAN, f64::NAN), |action| (action.latency.p50_us, action.latency.p99_us))
}

/// A run, and what the database did for it.
struct Loaded {
    report: Report,
    /// Transactions of the database per action.
    calls: f64,
    /// Microseconds of its CPU per action.
    cpu_us: f64,
}

/// Sessions tell what they did within this time.
const STATISTICS_PAUSE: Duration = Duration::from_millis(1200);

fn loaded(site: &Site, base: &Base, target: Target, seconds: f64) -> Result<Loaded, Failed> {
    let load = Load { connections: 20, rate: None, seconds };
    let transactions = || -> Result<f64, Failed> {
        std::thread::sleep(STATISTICS_PAUSE);
        let sql =
            format!("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'", base.database);
        Ok(site.server.try_sql("postgres", &sql)?.parse()?)
    };
    let cpu = || family_cpu_seconds(site.server.postmaster(), &site.server.processes());
    let before = (transactions()?, cpu());
    let report = site.run(base, load, target)?;
    let (after, actions) = ((transactions()?, cpu()), report.done.max(1) as f64);
    Ok(Loaded { calls: (after.0 - before.0) / actions, cpu_us: 1e6 * (after.1 - before.1) / actions, report })
}
