//! Figure 5: how long it takes to apply what was buffered, and what the others feel of it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_workload::live::{Report, Stop, Target};

use super::local::Local;
use super::site::{Base, Load, Site, row};
use super::{Chart, Scale, barred, bars, lined, scaled, series};
use crate::figure::Failed;
use crate::figures::Summary;

const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// Actions per second of the others: more writes than one worker applies one by one would never let it end.
const RATE: f64 = 100.0;

/// A run that is stopped when there is nothing left.
const UNTIL_STOPPED_S: f64 = 900.0;

/// A batch of changes to `documents` different documents: updates of rows, or invitations.
fn backlog(base: &Base, documents: u64, bg: bool) -> Vec<Vec<String>> {
    let change = |number: u64| match bg {
        false => vec!["HSET".into(), row(number), "field3".into(), "z".repeat(100)],
        // From somebody so far away in the circle of friends that they are not related, nor invited by them.
        true => {
            let inviter = (number + base.records / 4) % base.records;
            vec!["LPUSH".into(), format!("pending:{number}"), inviter.to_string()]
        }
    };
    (0..documents).map(change).collect()
}

/// Recovery time and the others' p99 in it, by workers and batch.
pub(super) fn grid(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let site = Site::new()?;
    let batches = [1usize, 10, 100, 1000];
    let documents = scaled(scale, 2_000u64, 100_000);
    let mut charts = Vec::new();
    for (name, workload, bg) in [("YCSB A", "ycsb-a", false), ("BG 100:1", "bg-100-1", true)] {
        let documents = if bg { documents.min(20_000) } else { documents };
        let mut base = site.loaded(workload, documents)?;
        // The invitations that wait are not its own.
        base.judged = !bg;
        let (mut times, mut tails) = (Vec::new(), Vec::new());
        for batch in batches {
            let (mut time, mut tail) = (Vec::new(), Vec::new());
            for workers in WORKERS {
                let cell = cell(&site, &base, (workers, batch), backlog(&base, documents, bg))?;
                eprintln!("{name}, {workers} workers, batches of {batch}: {:.2} s, p99 {:.0} ms", cell.0, cell.1);
                time.push((workers as f64, cell.0));
                tail.push((workers as f64, cell.1));
                if bg {
                    let there: u64 = site.server.try_sql(&base.database, FORGET)?.parse()?;
                    if there != documents {
                        return Err(format!("{there} of {documents} invitations were carried over").into());
                    }
                }
            }
            times.push(series(&format!("batches of {batch}"), time));
            tails.push(series(&format!("batches of {batch}"), tail));
        }
        let title = format!("{name}: {documents} documents");
        charts.push(lined(&title, "workers", "seconds until all are carried over", times));
        charts.push(lined(
            &format!("{name}: 20 clients, 100 actions/s meanwhile"),
            "workers",
            "highest p99 of an action, ms",
            tails,
        ));
    }
    Ok(charts)
}

/// Takes the invitations of [`backlog`] back, so that the next cell can give them again; how many there were.
const FORGET: &str = "WITH members AS (SELECT count(*)::integer AS n FROM bg_members),
    taken AS (UPDATE bg_pending SET pending = array_remove(pending, (userid + n / 4) % n) FROM members
        WHERE (userid + n / 4) % n = ANY (pending) RETURNING 1)
    SELECT count(*) FROM taken";

/// Seconds in recovery, and the longest p99 of the others' actions in ms, of one number of workers and size of batch.
fn cell(
    site: &Site,
    base: &Base,
    (workers, batch): (usize, usize),
    backlog: Vec<Vec<String>>,
) -> Result<(f64, f64), Failed> {
    let local = Local::start(base, workers, batch)?;
    site.warm(base, &local.address)?;
    site.stop();
    site.send(&local.address, backlog)?;
    let load = Load { connections: 20, rate: Some(RATE), seconds: UNTIL_STOPPED_S };
    let stop = Stop::default();
    let running = site.begin(base, load, Target::resp(&local.address), &stop);
    sleep(Duration::from_millis(500));
    site.server.start_again();
    site.reaches(&local.address, "recovery")?;
    let took = site.reaches(&local.address, "normal")?;
    stop.stop();
    let report = site.ended(running)?;
    let worst = report.actions.iter().map(|action| action.latency.p99_us).fold(0.0, f64::max);
    Ok((took.as_secs_f64(), worst / 1e3))
}

/// What is left to apply at the default rate, and as fast as it goes.
const DOCUMENTS: u64 = 100_000;

/// Foreground p99 while 100,000 writes are applied, and how long that takes.
pub(super) fn drain(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, rounds) = (Site::new()?, scaled(scale, 3usize, 9));
    let mapped = site.loaded("ycsb-b", DOCUMENTS)?;
    let mut felt = Vec::new();
    for round in 0..rounds {
        let of = foreground(&site, &mapped)?;
        eprintln!("round {round}: {of:?}");
        felt.push(of);
    }
    let names = ["read", "update"].map(str::to_owned);
    let middle = |of: fn(&Felt) -> [f64; 2]| {
        [0, 1].map(|at| Summary::of(&felt.iter().map(|felt| of(felt)[at]).collect::<Vec<f64>>()))
    };
    let (calm, busy) = (middle(|felt| felt.calm_us), middle(|felt| felt.busy_us));
    let ratio = middle(|felt| [0, 1].map(|at| felt.busy_us[at] / felt.calm_us[at]));
    let medians = |of: &[Summary; 2]| of.map(|summary| summary.median);
    let ratios = vec![
        bars("median", &medians(&ratio)),
        bars("least", &ratio.map(|of| of.low)),
        bars("most", &ratio.map(|of| of.high)),
    ];
    let p99 = vec![bars("normal", &medians(&calm)), bars("while carrying over", &medians(&busy))];
    let mut times = vec![("default limit".to_owned(), felt.iter().map(|felt| felt.drain_s).collect::<Vec<f64>>())];
    for (name, base) in [("no limit, mapped", mapped), ("no limit, generic", site.generic()?)] {
        times.push((name.to_owned(), unlimited(&site, &base, rounds)?));
    }
    let (names_of_times, times): (Vec<String>, Vec<Summary>) =
        times.into_iter().map(|(name, times)| (name, Summary::of(&times))).unzip();
    let line = |name: &str, of: fn(&Summary) -> f64| bars(name, &times.iter().map(of).collect::<Vec<f64>>());
    let times = vec![line("median", |of| of.median), line("least", |of| of.low), line("most", |of| of.high)];
    Ok(vec![
        barred("YCSB B, 500 actions/s: p99", "action", "us", &names, p99),
        barred("p99 while carrying over, by normal", "action", "ratio", &names, ratios),
        barred("100,000 writes", "how", "seconds until all are carried over", &names_of_times, times),
    ])
}

/// What others feel: p99 of reads and updates.
#[derive(Debug)]
struct Felt {
    calm_us: [f64; 2],
    busy_us: [f64; 2],
    drain_s: f64,
}

fn p99(report: &Report) -> [f64; 2] {
    ["read", "update"].map(|name| {
        let action = report.actions.iter().find(|action| action.action == name);
        action.map_or(f64::NAN, |action| action.latency.p99_us)
    })
}

/// One outage with the default limit, in front of a new process.
fn foreground(site: &Site, base: &Base) -> Result<Felt, Failed> {
    let forebay = site.serve(base, &[])?;
    site.warm(base, &forebay.address)?;
    let load = Load { connections: 20, rate: Some(500.0), seconds: 6.0 };
    let target = Target::resp(&forebay.address);
    let calm_us = p99(&site.run(base, load, target.clone())?);
    site.stop();
    site.send(&forebay.address, backlog(base, DOCUMENTS, false))?;
    site.server.start_again();
    site.reaches(&forebay.address, "recovery")?;
    let (stop, began) = (Stop::default(), Instant::now());
    let running = site.begin(base, Load { seconds: UNTIL_STOPPED_S, ..load }, target, &stop);
    site.reaches(&forebay.address, "normal")?;
    let drain_s = began.elapsed().as_secs_f64();
    stop.stop();
    Ok(Felt { calm_us, busy_us: p99(&site.ended(running)?), drain_s })
}

/// Seconds without a limit and without others.
fn unlimited(site: &Site, base: &Base, rounds: usize) -> Result<Vec<f64>, Failed> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let forebay = site.serve(base, &["--drain-per-second-max", "0"])?;
        if !base.maps.is_empty() {
            site.warm(base, &forebay.address)?;
        }
        site.stop();
        let changes = match base.maps.is_empty() {
            true => (0..DOCUMENTS).map(|number| vec!["SET".into(), row(number), "z".repeat(1000)]).collect(),
            false => backlog(base, DOCUMENTS, false),
        };
        site.send(&forebay.address, changes)?;
        site.server.start_again();
        site.reaches(&forebay.address, "recovery")?;
        times.push(site.reaches(&forebay.address, "normal")?.as_secs_f64());
        eprintln!("{}: {times:?}", base.database);
    }
    Ok(times)
}
