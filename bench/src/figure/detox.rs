//! Figures of "Take Out the TraChe" (DeToX, OSDI'23). `docs/papers/detox.md` says what they show.

use std::hint::black_box;
use std::sync::Arc;

use forebay::graph::{Graph, GroupFrequency, Groups, Load, Scorer, Scratch};
use forebay_sim::ahead::{Prefetch, PrefetchTally};

use super::runs::{Outcome, Run, line};
use super::{Chart, Figure, Scale, Series};
use crate::program::own_cpu_seconds;

const SIZE: &str = "cache size in % of the keys";
const THR: &str = "transactional hit rate in %";

/// One of the counts of what was fetched ahead.
type CountOf = fn(&PrefetchTally) -> u64;

/// Share of the default transactions and scale at reduced scale.
const SHARE: f64 = 0.1;

pub(super) static FIGURES: [Figure; 9] = [
    Figure { name: "detox-2a", summary: "Cached keys that help no transaction", make: |scale| Ok(unhelpful(scale)) },
    Figure { name: "detox-8", summary: "THR of TAOBench-like mixes", make: |scale| Ok(taobench(scale)) },
    Figure { name: "detox-10", summary: "THR of OLTP benchmarks", make: |scale| Ok(oltp(scale)) },
    Figure {
        name: "detox-12",
        summary: "What groups cost to score and to compile, and what they gain",
        make: |scale| Ok(grouping(scale)),
    },
    Figure { name: "detox-13", summary: "Heuristics for scores", make: |scale| Ok(heuristics(scale)) },
    Figure {
        name: "detox-14",
        summary: "Object and transactional hit rates",
        make: |scale| Ok(object_and_transactional(scale)),
    },
    Figure {
        name: "detox-15c",
        summary: "Latency as the store gets slower than the cache",
        make: |scale| Ok(latency(scale)),
    },
    Figure {
        name: "detox-memory",
        summary: "Memory for the transactional hit rate that detox has with a quarter of the keys, and metadata",
        make: |scale| Ok(memory(scale)),
    },
    Figure {
        name: "detox-drift",
        summary: "THR before and after all keys change their roles",
        make: |scale| Ok(drift(scale)),
    },
];

const SHARES: [f64; 6] = [0.05, 0.1, 0.2, 0.25, 0.4, 0.55];

/// LFU and GDSF as the paper measured them: ten keys are drawn for each victim, the sixteen lowest that were looked at
/// are kept, and writes count in no frequency.
const DRAWN: [(&str, &str); 2] =
    [("lfu", "gdsf:sample=10,pool=16,writes=0,age=0"), ("gdsf", "gdsf:sample=10,pool=16,writes=0")];

fn thr(outcome: &Outcome) -> f64 {
    outcome.thr
}

fn sizes(title: &str, y: &'static str, series: Vec<Series>) -> Chart {
    Chart { title: title.to_owned(), x: SIZE.into(), y: y.into(), series, ..Chart::default() }
}

fn unhelpful(scale: Scale) -> Vec<Chart> {
    let lines = Run::of("mix-c", scale, SHARE).lines(&["lru", "lfu", "gdsf", "detox"], &SHARES, |of| of.unhelpful);
    vec![sizes("mix C, at the end of the run", "unhelpful keys in % of those cached", lines)]
}

fn taobench(scale: Scale) -> Vec<Chart> {
    let policies = ["lru", "lfu", "gdsf", "s3-fifo", "life", "life-artifact", "detox"];
    let chart = |name: &str, title: &str| sizes(title, THR, Run::of(name, scale, SHARE).lines(&policies, &SHARES, thr));
    vec![
        chart("mix-a", "mix A (as product group 2)"),
        chart("mix-c", "mix C (as product group 3)"),
        chart("pg1", "product group 1"),
        chart("taobench-o", "TAOBench workload O"),
    ]
}

fn oltp(scale: Scale) -> Vec<Chart> {
    let policies = ["lru", DRAWN[0].1, DRAWN[1].1, "detox"];
    let shares = [0.1, 0.25, 0.4, 0.55];
    let lines = |run: Run| {
        let mut lines = run.lines(&policies, &shares, thr);
        lines.iter_mut().skip(1).zip(DRAWN).for_each(|(line, (name, _))| line.name = name.to_owned());
        lines
    };
    let epinions = lines(Run::of("epinions", scale, SHARE));
    let bank = Run { warmup: 0.667, reads_only: true, ..Run::of("smallbank", scale, SHARE) };
    let mut with_prefetch = lines(bank);
    let ends: [(&str, CountOf); 3] = [("used", |of| of.used), ("late", |of| of.late), ("unused", |of| of.unused)];
    let mut fetched =
        ends.map(|(name, _)| Series { name: name.to_owned(), points: Vec::new(), ..Series::default() }).to_vec();
    let prefetches = [
        (Prefetch::Detox, "lru", "lru + detox"),
        (Prefetch::Detox, "detox", "detox + detox"),
        (Prefetch::Chrono, "lru", "lru + chrono"),
        (Prefetch::Chrono, "detox", "detox + chrono"),
    ];
    for (at, (prefetch, policy, name)) in prefetches.into_iter().enumerate() {
        let outcomes = Run { prefetch, ..bank }.outcomes(&[policy], &shares).concat();
        with_prefetch.push(line(&format!("{name} prefetch"), &shares, outcomes.iter().map(thr)));
        let tally = &outcomes[1].prefetch;
        for (series, (_, of)) in fetched.iter_mut().zip(ends) {
            series.points.push((at as f64, 100.0 * of(tally) as f64 / tally.issued.max(1) as f64));
        }
    }
    let tpcc = lines(Run { warmup: 0.5, ..Run::of("tpcc", scale, SHARE) });
    vec![
        sizes("Epinions", THR, epinions),
        sizes("SmallBank, levels that read", THR, with_prefetch),
        sizes("TPC-C", THR, tpcc),
        Chart {
            title: "SmallBank, cache of 25 %".to_owned(),
            x: "policy + whose prefetch".into(),
            y: "keys fetched ahead, in % of all of them".into(),
            names: prefetches.map(|(_, _, name)| name.to_owned()).to_vec(),
            series: fetched,
            ..Chart::default()
        },
    ]
}

/// a -> b, a -> c -> d -> ..
fn branches(vertices: u16) -> Graph {
    let edges: Vec<(u16, u16)> = [(0, 1), (0, 2)].into_iter().chain((3..vertices).map(|v| (v - 1, v))).collect();
    Graph::plain(usize::from(vertices), &edges).expect("edges lead forwards")
}

/// Microseconds of processor time of one call: the fastest of several rounds of as many calls as take long enough to be
/// measured, because whatever else the machine does only adds.
fn microseconds(mut call: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 7;
    const ROUND_SECONDS_MIN: f64 = 0.01;
    let mut seconds = |calls: u32| {
        let begun = own_cpu_seconds().expect("a thread has a clock");
        (0..calls).for_each(|_| call());
        own_cpu_seconds().expect("a thread has a clock") - begun
    };
    let mut calls = 1;
    while seconds(calls) < ROUND_SECONDS_MIN && calls < 1 << 24 {
        calls *= 2;
    }
    let fastest = (0..ROUNDS).map(|_| seconds(calls)).fold(f64::INFINITY, f64::min);
    fastest * 1e6 / f64::from(calls)
}

fn grouping(scale: Scale) -> Vec<Chart> {
    let series = |name: &str| Series { name: name.to_owned(), points: Vec::new(), ..Series::default() };
    let mut scoring = [series("complete groups, listed"), series("groups"), series("levels")];
    let mut compiling = [series("complete groups, listed"), series("groups")];
    for vertices in [4u16, 6, 8, 10, 12, 15, 20, 30, 45, 60] {
        let (graph, x) = (Arc::new(branches(vertices)), f64::from(vertices));
        // Frequencies in no order, as those of keys chosen by chance.
        let frequency: Vec<f64> = (0..vertices).map(|v| f64::from(u32::from(v) * 37 % 101 + 1)).collect();
        let loads: Vec<Load> = frequency.iter().map(|&frequency| Load::Keys { frequency, size: 1 }).collect();
        if vertices <= 15 {
            let listed = Groups::of(&graph, 15).expect("no larger");
            let sizes = vec![1; loads.len()];
            let one = || drop(black_box(listed.instance_scores(GroupFrequency::Min, &frequency, &sizes)));
            scoring[0].points.push((x, microseconds(one)));
            compiling[0].points.push((x, microseconds(|| drop(black_box(Groups::of(&graph, 15))))));
        }
        let (scorer, mut scratch) = (Scorer::new(graph.clone()), Scratch::default());
        scoring[1].points.push((x, microseconds(|| scorer.score(black_box(&loads), &mut scratch))));
        compiling[1].points.push((x, microseconds(|| drop(black_box(Scorer::new(graph.clone()))))));
        let by_level = || {
            let pair = frequency[1].min(frequency[2]) / 2.0;
            black_box(frequency.iter().map(|f| f.min(pair)).sum::<f64>());
        };
        scoring[2].points.push((x, microseconds(by_level)));
    }
    let chart = |title: &str, series: &[Series]| Chart {
        title: title.to_owned(),
        x: "accesses of the transaction".into(),
        y: "microseconds".into(),
        logarithmic: true,
        series: series.to_vec(),
        ..Chart::default()
    };
    let policies = ["lru", "lfu", "detox", "detox-levels", "t-detox"];
    let outcomes = Run::of("micro2", scale, SHARE).outcomes(&policies, &[0.01]);
    let points = (0..).zip(&outcomes).map(|(at, of)| (f64::from(at), of[0].thr)).collect();
    let gained = Chart {
        title: "microbenchmark 2, cache of 1 %".to_owned(),
        x: "policy".into(),
        y: THR.into(),
        names: policies.map(str::to_owned).to_vec(),
        series: vec![Series { name: "THR".to_owned(), points, ..Series::default() }],
        ..Chart::default()
    };
    vec![chart("scoring one transaction", &scoring), chart("compiling its type", &compiling), gained]
}

fn heuristics(scale: Scale) -> Vec<Chart> {
    let run = Run::of("mix-c", scale, SHARE);
    let shares = [0.1, 0.25, 0.4];
    let chart = |title: &str, policies: [&str; 4], names: [&str; 4]| {
        let outcomes = run.outcomes(&policies, &shares);
        let series = names.iter().zip(outcomes).map(|(name, of)| line(name, &shares, of.iter().map(thr))).collect();
        sizes(title, THR, series)
    };
    vec![
        chart(
            "instance scores, mix C",
            ["detox", "detox:instance=1", "detox:instance=2", "detox:instance=3"],
            ["min", "average", "max", "median"],
        ),
        chart(
            "aggregate scores, mix C",
            ["detox", "detox:aggregate=1", "detox:aggregate=2", "detox:aggregate=3"],
            ["average", "max", "min", "median"],
        ),
    ]
}

fn object_and_transactional(scale: Scale) -> Vec<Chart> {
    let policies = ["lru", "lfu", "gdsf", "detox", "belady", "transactional-belady"];
    let shares = [0.1, 0.25, 0.4];
    let outcomes = Run::of("mix-c", scale, SHARE).outcomes(&policies, &shares);
    let lines = |of: fn(&Outcome) -> f64| {
        let all = policies.iter().zip(&outcomes);
        all.map(|(policy, outcomes)| line(policy, &shares, outcomes.iter().map(of))).collect()
    };
    vec![
        sizes("objects, mix C", "object hit ratio in %", lines(|of| of.ohr)),
        sizes("transactions, mix C", THR, lines(thr)),
    ]
}

fn latency(scale: Scale) -> Vec<Chart> {
    let policies = ["lru", "lfu", "gdsf", "detox"];
    let outcomes = Run::of("mix-b", scale, SHARE).outcomes(&policies, &[0.25]);
    // A transaction of one level waits for the cache, and for the store unless all of it was there.
    let latency = |of: &[Outcome], store: f64| store + (1.0 - store) * of[0].thr / 100.0;
    let series = |(policy, of): (&&str, &Vec<Outcome>)| {
        let relative = |store| (store, 100.0 * latency(of, store) / latency(&outcomes[0], store));
        let points = [1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0].map(relative);
        Series { name: (*policy).to_owned(), points: points.to_vec(), ..Series::default() }
    };
    vec![Chart {
        title: "mix B, cache of 25 %".to_owned(),
        x: "latency of the store, in latencies of the cache".into(),
        y: "mean latency of a transaction, in % of LRU's".into(),
        series: policies.iter().zip(&outcomes).map(series).collect(),
        ..Chart::default()
    }]
}

/// What others need for the rate that `detox` has with a quarter of the keys: where their curves reach it.
fn memory(scale: Scale) -> Vec<Chart> {
    const QUARTER: usize = 10;
    let shares: Vec<f64> = (1..=40).map(|step| f64::from(step) * 0.025).collect();
    let policies = ["lru", "gdsf", "s3-fifo", "life"];
    let workloads = ["mix-a", "mix-c", "epinions", "smallbank"];
    let mut series =
        policies.map(|name| Series { name: name.to_owned(), points: Vec::new(), ..Series::default() }).to_vec();
    for (at, workload) in workloads.into_iter().enumerate() {
        let run = Run::of(workload, scale, SHARE);
        let run = Run { reads_only: workload == "smallbank", ..run };
        let goal = run.outcomes(&["detox"], &shares[QUARTER - 1..QUARTER])[0][0].thr;
        for (series, of_policy) in series.iter_mut().zip(run.outcomes(&policies, &shares[QUARTER - 1..])) {
            let reached = of_policy.iter().position(|outcome| outcome.thr >= goal).unwrap_or(of_policy.len() - 1);
            let (high, low) = (of_policy[reached].thr, of_policy[reached.saturating_sub(1)].thr);
            // Between two sizes the curve is nearly straight.
            let back = if reached > 0 && high > low { ((high - goal) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
            let share = 0.25 + 0.025 * (reached as f64 - back);
            series.points.push((at as f64, share / 0.25));
        }
    }
    let ghosts = [0u8, 1, 3, 16];
    let names = ghosts.map(|ghosts| format!("detox:ghosts={ghosts}"));
    let policies: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcomes = Run::of("mix-a", scale, SHARE).outcomes(&policies, &[0.25]).concat();
    let line = |name: &str, of: fn(&Outcome) -> f64| Series {
        name: name.to_owned(),
        points: ghosts.iter().zip(&outcomes).map(|(&ghosts, outcome)| (f64::from(ghosts), of(outcome))).collect(),
        ..Series::default()
    };
    vec![
        Chart {
            title: "for detox's rate with 25 % of the keys".to_owned(),
            x: "workload".into(),
            y: "memory, in that of detox".into(),
            names: workloads.map(str::to_owned).to_vec(),
            series,
            ..Chart::default()
        },
        Chart {
            title: "metadata of detox, mix A, cache of 25 %".to_owned(),
            x: "keys remembered, for each entry (ghosts)".into(),
            y: "bytes for each entry".into(),
            series: vec![line("bytes", |outcome| outcome.metadata)],
            ..Chart::default()
        },
    ]
}

fn drift(scale: Scale) -> Vec<Chart> {
    let run = Run::of("mix-a-shift", scale, SHARE);
    let every = run.options.transactions / 40;
    let policies = ["lru", "gdsf", "detox", "detox:half-life=50", "detox:half-life=10", "detox:patience=8"];
    vec![Chart {
        title: "mix A, cache of 25 %, roles change after half of it".to_owned(),
        x: "thousands of transactions".into(),
        y: THR.into(),
        series: run.over_time(&policies, 0.25, every),
        ..Chart::default()
    }]
}
