//! The tables.

use crate::Options;
use crate::work::Mode;

/// What a peer did with so many threads.
pub struct Row {
    pub name: &'static str,
    pub threads: usize,
    pub rates: Vec<f64>,
    pub hits: f64,
}

impl Row {
    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn range(&self) -> (f64, f64) {
        let least = self.rates.iter().copied().fold(f64::MAX, f64::min);
        (least, self.rates.iter().copied().fold(0.0, f64::max))
    }
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

pub fn head(options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runs = options.runs;
    format!("{cores} processors, load average before: {}; medians of {runs} interleaved rounds.\n\n", load())
}

pub fn foot() -> String {
    format!("Load average after: {}\n", load())
}

/// Million requests per second over all threads: median, range, and the ratio to the first peer of the same run.
pub fn table(mode: Mode, threads: &[usize], rows: &[Row]) -> String {
    let mut text = format!("**{}** (Mops over all threads)\n\n| |", mode.title());
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
        let hits: Vec<String> =
            threads.iter().filter_map(|&count| of(name, count)).map(|row| format!("{:.1}", 100.0 * row.hits)).collect();
        text += &format!(" {} |\n", hits.join(" "));
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
