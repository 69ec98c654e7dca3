//! What the figures show.

use std::sync::OnceLock;

use forebay::lease::Leases;
use forebay::txn::optimistic::{Level, Rules};

use super::measured;
use super::outcome::Outcome;
use super::runs::{self, Of, Runs};
use super::setting::{Freshness, Load, Setting, System};
use super::{Chart, Failed, Scale, Series};
use crate::figures::Summary;

const THROUGHPUT: &str = "committed transactions in a second";
const COMMITS: &str = "committed, in % of the attempts";

/// The five systems of figures 8 and 9, and forebay.
const SYSTEMS: [System; 6] = [System::BASELINE, System::CV, System::EI, System::IDEAL, System::KAIROS, System::FOREBAY];

/// What varies, each system at each of some values: a line for a system.
fn lines(
    scale: Scale,
    systems: &[System],
    xs: &[f64],
    made: impl Fn(System, f64) -> Setting,
    of: &[Of],
) -> Vec<Vec<Series>> {
    let settings: Vec<Setting> =
        systems.iter().flat_map(|system| xs.iter().map(|x| made(*system, *x)).collect::<Vec<_>>()).collect();
    let runs = Runs::of(scale, &settings);
    let series = |of: &Of| {
        let summaries = runs.summaries(*of);
        let line = |(system, values): (&System, &[Summary])| Series {
            name: system.name.to_owned(),
            points: xs.iter().copied().zip(values.iter().map(|value| value.median)).collect(),
            spreads: values.iter().map(Summary::spread).collect(),
            ..Series::default()
        };
        systems.iter().zip(summaries.chunks(xs.len())).map(line).collect()
    };
    of.iter().map(series).collect()
}

/// So many points, at this scale.
fn scaled<'x>(scale: Scale, reduced: &'x [f64], full: &'x [f64]) -> &'x [f64] {
    if scale == Scale::Full { full } else { reduced }
}

/// A bar for each system, a chart for each figure.
fn bars(scale: Scale, settings: &[Setting], of: &[(&str, &'static str, Of)]) -> Vec<Chart> {
    bars_of(&Runs::of(scale, settings), settings, of)
}

fn bars_of(runs: &Runs, settings: &[Setting], of: &[(&str, &'static str, Of)]) -> Vec<Chart> {
    let chart = |(title, y, of): &(&str, &'static str, Of)| {
        let bar = |(setting, summary): (&Setting, Summary)| Series {
            name: setting.system.name.to_owned(),
            points: vec![(0.0, summary.median)],
            spreads: vec![summary.spread()],
            ..Series::default()
        };
        Chart {
            title: (*title).to_owned(),
            x: "".into(),
            y: (*y).into(),
            names: vec![String::new()],
            series: settings.iter().zip(runs.summaries(*of)).map(bar).collect(),
            ..Chart::default()
        }
    };
    of.iter().map(chart).collect()
}

fn chart(title: &str, x: &'static str, y: &'static str, series: Vec<Series>) -> Chart {
    Chart { title: title.to_owned(), x: x.into(), y: y.into(), series, ..Chart::default() }
}

/// One chart of throughputs, one of commit rates.
fn two(title: &str, x: &'static str, mut series: Vec<Vec<Series>>) -> Vec<Chart> {
    let commits = series.pop().unwrap_or_default();
    let throughputs = series.pop().unwrap_or_default();
    let rates = Chart { loose: true, ..chart(&format!("{title}: commit rate"), x, COMMITS, commits) };
    vec![chart(&format!("{title}: throughput"), x, THROUGHPUT, throughputs), rates]
}

const BOTH: [Of; 2] = [Outcome::throughput, Outcome::commit_rate];

pub(super) fn figure_8(scale: Scale) -> Vec<Chart> {
    let made = |system, percent: f64| Setting { read_only: percent / 100.0, ..Setting::paper(system) };
    let series = lines(scale, &SYSTEMS, scaled(scale, &[50.0, 90.0, 98.0], &[50.0, 70.0, 90.0, 98.0]), made, &BOTH);
    two("10 clients, 5 shards", "transactions that only read, in %", series)
}

pub(super) fn figure_9a(scale: Scale) -> Vec<Chart> {
    let made = |system, alpha_read| Setting { alpha_read, ..Setting::paper(system) };
    let series = lines(scale, &SYSTEMS, scaled(scale, &[0.8, 0.99, 1.2], &[0.8, 0.9, 0.99, 1.1, 1.2]), made, &BOTH);
    two("skew of the reads", "alpha of transactions that only read", series)
}

pub(super) fn figure_9b(scale: Scale) -> Vec<Chart> {
    let made = |system, alpha_write| Setting { alpha_write, ..Setting::paper(system) };
    let series = lines(scale, &SYSTEMS, scaled(scale, &[0.3, 0.5, 0.7], &[0.3, 0.4, 0.5, 0.6, 0.7]), made, &BOTH);
    two("skew of the writes", "alpha of transactions that write", series)
}

pub(super) fn figure_10(scale: Scale) -> Vec<Chart> {
    let systems =
        [System::NAIVE, System::SUNDIAL, System::EI, System::IDEAL, System::IDEAL_KEPT, System::FOREBAY_SERVERS];
    let made = |system, thousands: f64| Setting { load: Load::Open(thousands * 1000.0), ..Setting::paper(system) };
    let series = lines(
        scale,
        &systems,
        scaled(scale, &[20.0, 80.0, 120.0], &[20.0, 40.0, 60.0, 80.0, 100.0, 120.0]),
        made,
        &BOTH,
    );
    two("shards validate", "thousands of transactions that come in a second", series)
}

/// By the number of clients, at the paper's load: what commits, how long it takes, hits, and what is called stale. Both
/// parts of the figure are of one run.
fn clients(scale: Scale) -> &'static [Vec<Series>] {
    static RUN: OnceLock<Vec<Vec<Series>>> = OnceLock::new();
    let systems = [System::EI, System::EI_CV, System::IDEAL, System::FOREBAY_SERVERS];
    let of: [Of; 4] =
        [Outcome::throughput, |of| of.latency_ms(0.99), Outcome::hit_rate, |of| of.invalidated as f64 / of.seconds];
    let made = |system, clients: f64| Setting {
        clients: clients as u32,
        load: Load::Open(60_000.0),
        ..Setting::paper(system)
    };
    let xs = scaled(scale, &[10.0, 20.0, 30.0], &[10.0, 15.0, 20.0, 25.0, 30.0]);
    RUN.get_or_init(|| lines(scale, &systems, xs, made, &of))
}

const LOAD_11: &str = "60,000 transactions come in a second";

pub(super) fn figure_11a(scale: Scale) -> Vec<Chart> {
    let series = clients(scale);
    vec![
        chart(LOAD_11, "clients", THROUGHPUT, series[0].clone()),
        chart("99 of 100 take no longer", "clients", "ms", series[1].clone()),
    ]
}

pub(super) fn figure_11b(scale: Scale) -> Vec<Chart> {
    let series = clients(scale);
    // Leases tell nothing.
    let told = series[3].iter().filter(|series| series.points.iter().any(|(_, told)| *told > 0.0));
    vec![
        chart(LOAD_11, "clients", "reads from copies, in %", series[2].clone()),
        chart("invalidations", "clients", "copies called stale in a second", told.cloned().collect()),
    ]
}

pub(super) fn figure_12(scale: Scale) -> Vec<Chart> {
    let made =
        |system, percent: f64| Setting { cache: percent / 100.0, load: Load::Open(40_000.0), ..Setting::paper(system) };
    let series = lines(
        scale,
        &[System::NAIVE, System::IDEAL, System::FOREBAY_SERVERS],
        scaled(scale, &[0.01, 0.1, 0.2], &[0.01, 0.025, 0.05, 0.1, 0.2, 1.0]),
        made,
        &[Outcome::hit_rate],
    );
    let series = series.into_iter().next().unwrap_or_default();
    vec![Chart {
        logarithmic_x: true,
        ..chart(
            "40,000 transactions come in a second",
            "copies of a client, in % of the keys",
            "reads from copies, in %",
            series,
        )
    }]
}

pub(super) fn figure_13(scale: Scale) -> Vec<Chart> {
    let systems = [
        System::IDEAL,
        System::IDEAL.leasing("P(0.1)", Leases::Chance(0.1)),
        System::IDEAL.leasing("P(0.2)", Leases::Chance(0.2)),
        System::IDEAL.leasing("P(0.3)", Leases::Chance(0.3)),
        System::IDEAL.leasing("P(0.4)", Leases::Chance(0.4)),
        System::IDEAL.leasing("P(0.5)", Leases::Chance(0.5)),
        System::IDEAL.leasing("mean", Leases::Mean),
        System::IDEAL_KEPT,
        System::FOREBAY_SERVERS,
    ];
    let settings = systems.map(Setting::paper);
    bars(
        scale,
        &settings,
        &[
            ("committed", THROUGHPUT, Outcome::throughput),
            ("commit rate", COMMITS, Outcome::commit_rate),
            ("hits", "reads from copies, in %", Outcome::hit_rate),
        ],
    )
}

/// From the paper's system to forebay, rule by rule.
pub(super) fn rules(scale: Scale) -> Vec<Chart> {
    const RANGES: System = System {
        name: "+ stamps, home",
        literal: false,
        freshness: Freshness::Resolved(2_000),
        rules: Rules { known_fresh: true, home: true, ..System::KAIROS.rules },
        ..System::KAIROS
    };
    const LOCAL: System = System { name: "+ local", rules: Rules { local: true, ..RANGES.rules }, ..RANGES };
    const RENEWING: System =
        System { name: "+ renewal", rules: Rules { renew: true, own: true, ..LOCAL.rules }, ..LOCAL };
    const PRICED: System = System { name: "+ cost of aborts", leases: System::FOREBAY.leases, ..RENEWING };
    let mut settings: Vec<Setting> = [
        System::BASELINE,
        System::IDEAL,
        System::FOREBAY_SERVERS,
        System::KAIROS,
        RANGES,
        LOCAL,
        RENEWING,
        PRICED,
        System::FOREBAY,
    ]
    .map(Setting::paper)
    .to_vec();
    let wide = System { name: "forebay, 1 %", ..System::FOREBAY };
    settings.push(Setting { cache: 0.01, ..Setting::paper(wide) });
    bars(
        scale,
        &settings,
        &[
            ("committed", THROUGHPUT, Outcome::throughput),
            ("commit rate", COMMITS, Outcome::commit_rate),
            ("packets", "packets of a committed transaction", Outcome::packets_each),
            ("alone", "committed without a message of their end, in %", Outcome::without_message),
        ],
    )
}

/// What goals hang on, by five seeds, at the greater load.
pub(super) fn goals(scale: Scale) -> Vec<Chart> {
    let settings =
        [System::BASELINE, System::IDEAL, System::FOREBAY_SERVERS, System::KAIROS, System::FOREBAY].map(Setting::paper);
    let runs = Runs::at(scale, &settings, &runs::THREADS[1..]);
    bars_of(
        &runs,
        &settings,
        &[
            ("committed", THROUGHPUT, Outcome::throughput),
            ("commit rate", COMMITS, Outcome::commit_rate),
            ("kilobytes", "kilobytes of a committed transaction", |of| of.bytes_each() / 1000.0),
            ("silent", "committed without any message, in %", Outcome::silent),
        ],
    )
}

/// The clocks of half of the clients are wrong.
pub(super) fn clocks(scale: Scale) -> Vec<Chart> {
    let made = |system, ms: f64| Setting {
        wrong_us: (ms * 1000.0) as i64,
        load: Load::Open(40_000.0),
        ..Setting::paper(system)
    };
    let series = lines(
        scale,
        &[System::IDEAL, System::KAIROS, System::FOREBAY],
        scaled(scale, &[-5.0, 0.0, 5.0], &[-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0]),
        made,
        &[Outcome::commit_rate, Outcome::hit_rate],
    );
    let charts = [("40,000 transactions come in a second", COMMITS), ("hits", "reads from copies, in %")];
    let x = "ms by which every second client's clock is ahead";
    let made = |((title, y), series)| Chart { loose: true, ..chart(title, x, y, series) };
    charts.into_iter().zip(series).map(made).collect()
}

/// Keys are read by some clients only.
pub(super) fn routing(scale: Scale) -> Vec<Chart> {
    let made = |system, groups: f64| Setting { routed: groups as u32, ..Setting::paper(system) };
    let series = lines(
        scale,
        &[System::EI, System::IDEAL, System::KAIROS, System::FOREBAY],
        scaled(scale, &[1.0, 5.0], &[1.0, 2.0, 5.0, 10.0]),
        made,
        &[Outcome::throughput, Outcome::hit_rate],
    );
    let charts = [("requests go where their keys are", THROUGHPUT), ("hits", "reads from copies, in %")];
    let x = "groups of clients that share no key";
    charts.into_iter().zip(series).map(|((title, y), series)| chart(title, x, y, series)).collect()
}

/// Writes have become more frequent, or rarer, than all have counted them.
pub(super) fn drift(scale: Scale) -> Vec<Chart> {
    let made = |system, drifted: f64| Setting { drifted, load: Load::Open(60_000.0), ..Setting::paper(system) };
    let series = lines(
        scale,
        &[System::IDEAL, System::KAIROS, System::FOREBAY],
        scaled(scale, &[0.0625, 1.0, 16.0], &[0.0625, 0.25, 1.0, 4.0, 16.0]),
        made,
        &[Outcome::commit_rate, Outcome::hit_rate],
    );
    let charts = [("60,000 transactions come in a second", COMMITS), ("hits", "reads from copies, in %")];
    let x = "writes in place of one that was counted";
    let made = |((title, y), series)| Chart { loose: true, logarithmic_x: true, ..chart(title, x, y, series) };
    charts.into_iter().zip(series).map(made).collect()
}

/// Validators that remember few versions. Nothing is counted until the largest budget is full: a validator is told of
/// 4,800 versions in a second.
pub(super) fn budget(scale: Scale) -> Vec<Chart> {
    let made = |system, versions: f64| Setting {
        versions_max: versions as usize,
        load: Load::Open(60_000.0),
        warm_min: 0.9,
        ..Setting::paper(system)
    };
    let series = lines(
        scale,
        &[System::KAIROS, System::FOREBAY],
        scaled(scale, &[300.0, 1000.0, 3000.0], &[300.0, 1000.0, 3000.0, 4000.0]),
        made,
        &[Outcome::commit_rate],
    );
    let series = series.into_iter().next().unwrap_or_default();
    vec![Chart {
        logarithmic_x: true,
        loose: true,
        ..chart("60,000 transactions come in a second", "versions that a validator remembers", COMMITS, series)
    }]
}

/// One server and ten clients, as `leases` runs them live (`docs/benchmarks.md`).
pub(super) fn live(scale: Scale) -> Vec<Chart> {
    let level = Level::Bounded(60_000_000);
    let systems = [
        ("intra", Leases::None),
        ("naive", Leases::Endless),
        ("paper", Leases::Paper),
        ("forebay", System::FOREBAY.leases),
    ]
    .map(|(name, leases)| System { level, ..System::FOREBAY_SERVERS.leasing(name, leases) });
    let made = |system| Setting {
        shards: 1,
        keys: 1_000_000,
        cache: 0.25,
        read_only: 0.95,
        load: Load::Open(5_900.0),
        filled: false,
        warm_min: 8.0,
        seconds: (8.0, 4.0),
        ..Setting::paper(system)
    };
    bars(
        scale,
        &systems.map(made),
        &[
            ("work", "microseconds of the server for a transaction", Outcome::server_us_each),
            ("documents", "documents fetched for a transaction", Outcome::fetched_each),
            ("alone", "committed without a message of their end, in %", Outcome::without_message),
            ("aborts", "stale attempts for 100 transactions", Outcome::stale_each),
        ],
    )
}

/// What work costs, measured now.
pub(super) fn costs(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let of = measured::costs(if scale == Scale::Full { 200_000 } else { 40_000 })?;
    let costs = [
        ("packet in", of.receive),
        ("packet out", of.send),
        ("read", of.read),
        ("check", of.check),
        ("write", of.write),
        ("client: packet", of.client_packet),
        ("client: read", of.client_read),
        ("client: transaction", of.client_txn),
    ];
    let points = (0..).map(f64::from).zip(costs.map(|(_, us)| us)).collect();
    Ok(vec![Chart {
        title: "forebay's server and client library".to_owned(),
        x: "work".into(),
        y: "microseconds of one core".into(),
        names: costs.map(|(name, _)| name.to_owned()).to_vec(),
        series: vec![Series { name: "measured".to_owned(), points, ..Series::default() }],
        ..Chart::default()
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::kairos::world;

    /// A small copy of the paper's system.
    fn small(system: System) -> Setting {
        Setting {
            clients: 4,
            shards: 2,
            validators: 2,
            keys: 20_000,
            cache: 0.05,
            load: Load::Closed(8),
            expected: 6_000.0,
            seconds: (0.2, 0.4),
            ..Setting::paper(system)
        }
    }

    /// With one seed, a run is one run.
    #[test]
    fn runs_repeat() {
        let [first, second] = [1, 1].map(|seed| world::run(&Setting { seed, ..small(System::FOREBAY) }));
        assert_eq!(first.latencies, second.latencies);
        assert_eq!((first.committed, first.packets, first.hits), (second.committed, second.packets, second.hits));
    }

    /// Where nothing waits, a transaction takes its ways through the network: four reads and a validation, each there
    /// and back.
    #[test]
    fn an_idle_system_takes_its_ways() {
        let setting = Setting { load: Load::Closed(1), read_only: 1.0, ..small(System::BASELINE) };
        let run = world::run(&setting);
        let per_thread = run.throughput() / f64::from(setting.clients);
        let costs = setting.costs;
        let trip_ms =
            1.0 + (costs.receive + costs.send + costs.read.max(costs.check) + 2.0 * costs.client_packet) / 1000.0;
        assert!((1000.0 / per_thread / (5.0 * trip_ms) - 1.0).abs() < 0.05, "{per_thread} {trip_ms}");
        assert_eq!((run.hits, run.stale + run.aborted), (0, 0));
        // Keys of two shards: 4 questions and answers, and 1 or 2 of each for the validation.
        assert!((10.0..=12.0).contains(&run.packets_each()), "{}", run.packets_each());
    }

    /// Each rule shows where it should.
    #[test]
    fn systems_do_what_their_names_say() {
        let [baseline, ideal, ei, kairos, forebay] =
            [System::BASELINE, System::IDEAL, System::EI, System::KAIROS, System::FOREBAY]
                .map(|system| world::run(&small(system)));
        assert!(baseline.hits == 0 && baseline.invalidated == 0);
        assert!(ideal.hits > 0 && ideal.invalidated == 0 && ei.invalidated > 0);
        assert!(ideal.packets_each() < baseline.packets_each());
        assert!(ideal.local == 0 && kairos.local == 0 && forebay.local > forebay.committed / 10);
        assert!([&baseline, &ideal, &ei, &kairos, &forebay].iter().all(|run| run.committed > 1000));
    }

    #[test]
    fn systems_differ_by_name() {
        let names: std::collections::BTreeSet<&str> = SYSTEMS.iter().map(|system| system.name).collect();
        assert_eq!(names.len(), SYSTEMS.len());
    }
}
