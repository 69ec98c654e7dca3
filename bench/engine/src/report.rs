//! The tables.

use std::time::Duration;

use forebay_bench_engine::machine::{load_averages, processors};

use crate::Options;
use crate::latency::{Growth, PAUSE, Times};

/// What a peer did with so many threads.
pub struct Row {
    pub name: &'static str,
    pub threads: usize,
    rates: Vec<f64>,
    hits: Vec<f64>,
}

impl Row {
    pub fn new(name: &'static str, threads: usize) -> Row {
        Row { name, threads, rates: Vec::new(), hits: Vec::new() }
    }

    /// A round.
    pub fn add(&mut self, rate: f64, hit: f64) {
        self.rates.push(rate);
        self.hits.push(hit);
    }

    fn median(&self) -> f64 {
        median(&self.rates)
    }

    fn range(&self) -> (f64, f64) {
        let least = self.rates.iter().copied().fold(f64::MAX, f64::min);
        (least, self.rates.iter().copied().fold(0.0, f64::max))
    }

    fn hit_percent(&self) -> f64 {
        100.0 * self.hits.iter().sum::<f64>() / self.hits.len().max(1) as f64
    }
}

/// The middle one, or 0 if there is none.
pub fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

pub fn head(options: &Options) -> String {
    let (cores, runs, load) = (processors(), options.runs, load_averages());
    format!("{cores} processors, load average before: {load}; medians of {runs} interleaved rounds.\n\n")
}

pub fn foot() -> String {
    format!("Load average after: {}\n", load_averages())
}

/// Million requests per second over all threads: median, range, and the ratio to the first peer of the same run.
pub fn table(title: &str, threads: &[usize], rows: &[Row]) -> String {
    let mut text = format!("**{title}** (Mops over all threads)\n\n| |");
    threads.iter().for_each(|count| text += &format!(" {count} threads | ratio |"));
    text += " hit % |\n|---|";
    threads.iter().for_each(|_| text += "---|---|");
    text += "---|\n";
    let mut names: Vec<&str> = Vec::new();
    rows.iter().for_each(|row| {
        if !names.contains(&row.name) {
            names.push(row.name);
        }
    });
    for name in &names {
        let of = |name: &str, count| rows.iter().find(|row| row.name == name && row.threads == count);
        text += &format!("| {name} |");
        for &count in threads {
            let (Some(row), Some(first)) = (of(name, count), of(names[0], count)) else { continue };
            let (least, most) = row.range();
            text += &format!(" {:.1} ({least:.1} to {most:.1}) | {:.2} |", row.median(), row.median() / first.median());
        }
        let hits: Vec<String> = threads
            .iter()
            .filter_map(|&count| of(name, count))
            .map(|row| format!("{:.1}", row.hit_percent()))
            .collect();
        text += &format!(" {} |\n", hits.join(" "));
    }
    text + "\n"
}

/// A row for each trace, a column for each peer: hits with one thread, then throughput for each number of threads.
pub fn traces(threads: &[usize], works: &[(&str, Vec<Row>)]) -> String {
    let Some((_, first)) = works.first() else { return String::new() };
    let least = threads.iter().copied().min().unwrap_or(1);
    let names: Vec<&str> = first.iter().filter(|row| row.threads == least).map(|row| row.name).collect();
    let table = |title: String, threads: usize, of: fn(&Row) -> f64| {
        let mut text = format!("**{title}**\n\n| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for (trace, rows) in works {
            text += &format!("| {trace} |");
            rows.iter().filter(|row| row.threads == threads).for_each(|row| text += &format!(" {:.1} |", of(row)));
            text.push('\n');
        }
        text + "\n"
    };
    let mut text = table(format!("Traces: hit % of the caches from empty, {least} thread"), least, Row::hit_percent);
    for &count in threads {
        text += &table(format!("Traces: get or insert, {count} threads, Mops over all threads"), count, Row::median);
    }
    text
}

fn micros(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 10.0 { format!("{micros:.3}") } else { format!("{micros:.0}") }
}

/// How long single requests take.
pub fn latency(title: &str, rows: &[(&str, usize, Times)]) -> String {
    let mut text = format!("**{title}** (a request and a look at the clock, microseconds)\n\n");
    text += "| | threads | p50 | p99 | p99.9 | worst |\n|---|---|---|---|---|---|\n";
    for (name, threads, times) in rows {
        let [half, most, nearly] = [0.5, 0.99, 0.999].map(|share| micros(times.at(share)));
        text += &format!("| {name} | {threads} | {half} | {most} | {nearly} | {} |\n", micros(times.worst));
    }
    text + "\n"
}

/// How long single requests take while a cache grows, and while it shrinks.
pub fn growth(entries: usize, rows: &[(&str, usize, Growth)]) -> String {
    let mut text =
        format!("**Growing to {entries} entries, a tenth more that evicts; removing all** (microseconds)\n\n");
    text += "| | threads | entries | p50 | p99.9 | p99.99 | worst | above 200 | worst in every round | above 200 |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|\n";
    let mut row = |name: &str, threads: usize, entries: usize, times: &Times| {
        let [half, most, nearly] = [0.5, 0.999, 0.9999].map(|share| micros(times.at(share)));
        let (worst, slowest, pauses) = (micros(times.worst), micros(times.slowest()), times.pauses);
        let again = times.slow.values().filter(|time| **time > PAUSE).count();
        let times = format!("{half} | {most} | {nearly} | {worst} | {pauses} | {slowest} | {again}");
        text += &format!("| {name} | {threads} | {entries} | {times} |\n");
    };
    for (name, threads, grown) in rows {
        row(name, *threads, grown.entries, &grown.inserts);
        if !grown.removals.worst.is_zero() {
            row(&format!("{name}, removals"), *threads, 0, &grown.removals);
        }
    }
    text + "\n"
}

/// Hits of one thread, beside another one.
pub fn sharing(rows: &[(&str, Vec<f64>)]) -> String {
    let mut text = "**Hits of one thread** (Mops, the best of five) **beside one that ..**\n\n".to_owned();
    text += "| | computes | hits the same | replaces others | inserts |\n|---|---|---|---|---|\n";
    for (name, rates) in rows {
        text += &format!("| {name} |");
        rates.iter().for_each(|rate| text += &format!(" {rate:.1} ({:.2}) |", rate / rates[0]));
        text += &" - |".repeat(crate::sharing::ALL.len() - rates.len());
        text.push('\n');
    }
    text + "\n"
}

/// Bytes per entry.
pub fn memory(rows: &[(&str, (usize, usize))]) -> String {
    let mut text = "**Memory** (u64 to u64, capacity 1,000,000, as many inserted)\n\n".to_owned();
    text += "| | entries | bytes per entry |\n|---|---|---|\n";
    for (name, (entries, bytes)) in rows {
        text += &format!("| {name} | {entries} | {:.1} |\n", *bytes as f64 / (*entries).max(1) as f64);
    }
    text + "\n"
}
