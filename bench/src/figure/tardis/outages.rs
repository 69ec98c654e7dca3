//! Table 1 and figure 6: the database goes away under load, and comes back.

use std::thread::sleep;
use std::time::Duration;

use forebay_workload::live::{Report, Stop, Target};

use super::site::{Base, Forebay, Load, Site};
use super::{Chart, Scale, barred, bars, lined, scaled, series};
use crate::figure::Failed;

/// What is done for each action that writes, once; all other actions read.
const WRITES: [&str; 5] = ["InviteFriend", "AcceptFriend", "RejectFriend", "ThawFriendship", "update"];

/// Runs before the database goes, and after it is back.
const CALM: Duration = Duration::from_secs(2);

/// From the end of a run until forebay has looked what others have written.
const LOOKED: Duration = Duration::from_secs(4);

/// Rows of YCSB's table.
const ROWS: u64 = 20_000;

/// Members of BG's network.
fn members(scale: Scale) -> u64 {
    scaled(scale, 2_000, 10_000)
}

/// How many of its actions failed, that write or not.
fn failed(report: &Report, writes: bool) -> f64 {
    let actions = report.actions.iter().filter(|action| WRITES.contains(&action.action.as_str()) == writes);
    actions.map(|action| action.failed).sum::<u64>() as f64
}

/// One of the mixes, on a database of its own without forebay, on another with it.
struct Pair {
    mix: &'static str,
    alone: Base,
    fronted: Base,
    forebay: Forebay,
}

/// What one outage came to, for one mix.
struct Row {
    direct: Report,
    through: Report,
}

/// Failed writes by length and mix. All four runs share one outage of one database server.
pub(super) fn table(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, lengths) = (Site::new()?, scaled(scale, [2u64, 10, 20], [60, 300, 600]));
    let mixes = ["bg-100-1", "bg-1000-1"];
    let mut pairs = Vec::new();
    for mix in mixes {
        let (alone, fronted) = (site.loaded(mix, members(scale))?, site.loaded(mix, members(scale))?);
        let forebay = site.serve(&fronted, &[])?;
        pairs.push(Pair { mix, alone, fronted, forebay });
    }
    let mut rows: Vec<Vec<Row>> = mixes.map(|_| Vec::new()).into();
    for length in lengths {
        // After an outage forebay gives up what others may have changed, as soon as it can look.
        sleep(LOOKED);
        for pair in &pairs {
            site.warm(&pair.fronted, &pair.forebay.address)?;
        }
        for (at, row) in outage(&site, &pairs, length)?.into_iter().enumerate() {
            let (mix, alone, through) = (pairs[at].mix, failed(&row.direct, true), failed(&row.through, true));
            eprintln!("{mix}, {length} s: {alone} and {through}; {:?}", row.through.failures);
            rows[at].push(row);
        }
    }
    Ok(charts(&lengths.map(|length| format!("{length} s")), &rows))
}

/// Actions per second of each of the four runs.
const RATE: f64 = 1000.0;

fn outage(site: &Site, pairs: &[Pair], length: u64) -> Result<Vec<Row>, Failed> {
    let seconds = length as f64 + 2.0 * CALM.as_secs_f64();
    let load = Load { connections: 20, rate: Some(RATE), seconds };
    let mut running = Vec::new();
    for Pair { alone, fronted, forebay, .. } in pairs {
        let (direct, through) = (Target::direct(&alone.url, None)?, Target::resp(&forebay.address));
        let begin = |base, target| site.begin(base, load, target, &Stop::default());
        running.push([begin(alone, direct), begin(fronted, through)]);
    }
    sleep(CALM);
    site.stop();
    sleep(Duration::from_secs(length));
    site.server.start_again();
    let mut rows = Vec::new();
    for [direct, through] in running {
        rows.push(Row { direct: site.ended(direct)?, through: site.ended(through)? });
    }
    Ok(rows)
}

fn charts(names: &[String], rows: &[Vec<Row>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for writes in [true, false] {
        for (mix, rows) in ["100:1", "1000:1"].iter().zip(rows) {
            let count = |of: fn(&Row) -> &Report| rows.iter().map(|row| failed(of(row), writes)).collect::<Vec<f64>>();
            let title = format!("BG {mix}, {}", if writes { "writes" } else { "reads" });
            let lines = vec![
                bars("PostgreSQL alone", &count(|row| &row.direct)),
                bars("through forebay", &count(|row| &row.through)),
            ];
            charts.push(barred(&title, "the database is away for", "actions that failed", names, lines));
        }
    }
    let by_mix = |of: fn(&Report) -> f64| {
        let line =
            |(mix, rows): (&&str, &Vec<Row>)| bars(mix, &rows.iter().map(|row| of(&row.through)).collect::<Vec<f64>>());
        ["100:1", "1000:1"].iter().zip(rows).map(line).collect::<Vec<_>>()
    };
    let buffered = by_mix(|report| report.outage.as_ref().map_or(0.0, |outage| outage.buffered as f64));
    charts.push(barred("kept by forebay", "the database is away for", "writes that were buffered", names, buffered));
    let recovery = by_mix(|report| 1000.0 * lasted(report, "recovery"));
    charts.push(barred("carried over", "the database is away for", "ms in recovery mode", names, recovery));
    charts
}

/// Seconds in a mode.
fn lasted(report: &Report, mode: &str) -> f64 {
    report.modes.iter().filter(|span| span.mode == mode).map(|span| span.to_s - span.from_s).sum()
}

/// Actions per second while the mode was this one; nothing of the first and last interval, which are others' too.
fn during(report: &Report, mode: &str) -> f64 {
    let within = |from: f64| {
        let mut spans = report.modes.iter().filter(|span| span.mode == mode);
        spans.any(|span| span.from_s <= from && from + report.interval_s <= span.to_s)
    };
    let counted: Vec<u32> =
        report.intervals.iter().filter(|interval| within(interval.from_s)).map(|interval| interval.done).collect();
    f64::from(counted.iter().sum::<u32>()) / (counted.len().max(1) as f64 * report.interval_s)
}

/// Throughput over time and by mode, as fast as replies come.
pub(super) fn throughput(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, phase) = (Site::new()?, scaled(scale, 10u64, 60));
    let (mut charts, mut means) = (Vec::new(), Vec::new());
    for (name, workload, records) in [("YCSB A", "ycsb-a", ROWS), ("BG 100:1", "bg-100-1", members(scale))] {
        let base = site.loaded(workload, records)?;
        let forebay = site.serve(&base, &[])?;
        site.warm(&base, &forebay.address)?;
        let load = Load { connections: 20, rate: None, seconds: 20.0 * phase as f64 };
        let stop = Stop::default();
        let running = site.begin(&base, load, Target::resp(&forebay.address), &stop);
        sleep(Duration::from_secs(phase));
        site.stop();
        sleep(Duration::from_secs(phase));
        site.server.start_again();
        site.reaches(&forebay.address, "normal")?;
        sleep(Duration::from_secs(phase));
        stop.stop();
        let report = site.ended(running)?;
        eprintln!("{name}: recovery {:.2} s; failed: {:?}", lasted(&report, "recovery"), report.failures);
        charts.push(over_time(name, &report));
        means.push(bars(name, &MODES.map(|mode| during(&report, mode))));
    }
    charts.push(barred("by mode", "mode", "actions per second", &MODES.map(str::to_owned), means));
    Ok(charts)
}

const MODES: [&str; 3] = ["normal", "failed", "recovery"];

/// Intervals that are drawn as one.
const SMOOTHED: usize = 5;

fn over_time(name: &str, report: &Report) -> Chart {
    let whole = report.intervals.chunks_exact(SMOOTHED);
    let point = |of: &[forebay_workload::live::Interval]| {
        let done: u32 = of.iter().map(|interval| interval.done).sum();
        (of[0].from_s, f64::from(done) / (SMOOTHED as f64 * report.interval_s))
    };
    let lines = vec![series("done", whole.map(point).collect())];
    let marks = report.modes.iter().filter(|span| span.mode != "normal");
    let marks = marks.map(|span| (span.from_s, span.to_s.min(report.seconds), span.mode.clone())).collect();
    Chart { marks, ..lined(&format!("{name}, 20 clients"), "seconds", "actions per second", lines) }
}
