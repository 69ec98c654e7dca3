//! What is printed: Markdown that says when, where and how its figures were measured.

use std::error::Error;
use std::fmt::Write;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use crate::ours::{Memory, Run};
use crate::trace::Trace;

/// By how many points of hit ratio the programs may differ: in the others all decisions are the same, in W-TinyLFU the
/// sketch differs, in S3-FIFO ghosts are fingerprints (docs/policies-internals.md).
const POINTS_MAX: &[(&str, f64)] = &[("w-tinylfu", 10.0), ("s3-fifo", 0.1)];

/// One policy at one size on one trace: the runs of all rounds.
pub struct Point {
    /// The trace.
    pub trace: String,
    /// The policy.
    pub policy: String,
    /// The cache's size.
    pub objects: u64,
    /// Of the trace.
    pub requests: usize,
    /// Ours, from memory.
    pub memory: Vec<Run>,
    /// Ours, from the file.
    pub file: Vec<Run>,
    /// libCacheSim's, from the file.
    pub peer: Vec<Run>,
}

impl Point {
    /// Without runs.
    pub fn new(trace: &str, policy: &str, objects: u64, requests: usize) -> Point {
        let (trace, policy) = (trace.to_owned(), policy.to_owned());
        Point { trace, policy, objects, requests, memory: vec![], file: vec![], peer: vec![] }
    }

    /// Millions of requests per second of CPU, by round.
    fn speeds(&self, runs: &[Run]) -> Vec<f64> {
        runs.iter().map(|run| self.requests as f64 / run.cpu_seconds / 1e6).collect()
    }

    /// How many times as fast as the peer in the same round.
    fn ratios(&self, runs: &[Run]) -> Vec<f64> {
        runs.iter().zip(&self.peer).map(|(ours, theirs)| theirs.cpu_seconds / ours.cpu_seconds).collect()
    }

    /// Whether all runs did the same work.
    pub fn check(&self) -> Result<(), Box<dyn Error>> {
        let hits = self.file.first().map_or(0, |run| run.hits);
        let mut ours = self.memory.iter().chain(&self.file);
        if ours.any(|run| run.hits != hits) {
            return Err(format!("{}, {}: our forms do not agree", self.trace, self.policy).into());
        }
        let points_max = POINTS_MAX.iter().find(|(name, _)| *name == self.policy).map_or(0.0, |(_, points)| *points);
        match self.peer.iter().find(|run| points(run.hits, hits, self.requests) > points_max) {
            None => Ok(()),
            Some(run) => {
                let Point { trace, policy, objects, .. } = self;
                Err(format!("{trace}, {policy} of {objects}: {hits} hits, libCacheSim has {}", run.hits).into())
            }
        }
    }

    /// One line for the person who waits.
    pub fn progress(&self) -> String {
        let [memory, file] = [&self.memory, &self.file].map(|runs| median(&self.speeds(runs)));
        let (peer, ratio) = (median(&self.speeds(&self.peer)), median(&self.ratios(&self.file)));
        let Point { trace, policy, objects, .. } = self;
        format!("{trace} {policy} {objects}: memory {memory:.1} file {file:.1} peer {peer:.1} M/s, {ratio:.2}")
    }

    fn cells(&self) -> Vec<String> {
        let speed = |runs: &[Run]| format!("{:.1}", median(&self.speeds(runs)));
        let hits = |runs: &[Run]| runs.first().map_or(f64::NAN, |run| run.hits as f64 / self.requests as f64);
        vec![
            self.trace.clone(),
            self.objects.to_string(),
            format!("`{}`", self.policy),
            format!("{:.4} / {:.4}", hits(&self.file), hits(&self.peer)),
            speed(&self.peer),
            speed(&self.file),
            spread(&self.ratios(&self.file)),
            speed(&self.memory),
            spread(&self.ratios(&self.memory)),
        ]
    }
}

/// One policy at all sizes of a trace.
pub struct Curve {
    trace: String,
    policy: String,
    /// Requests of all sizes together.
    requests: usize,
    /// Ours.
    runs: Vec<Run>,
    /// libCacheSim's seconds for all sizes, by round.
    peer: Vec<f64>,
}

impl Curve {
    /// Of the runs that replayed all sizes of `points`, the same trace and policy each.
    pub fn new(runs: Vec<Run>, points: &[Point]) -> Curve {
        let of_round = |round: usize| -> f64 {
            points.iter().filter_map(|point| point.peer.get(round)).map(|run| run.cpu_seconds).sum()
        };
        let rounds = points.first().map_or(0, |point| point.peer.len());
        Curve {
            trace: points.first().map(|point| point.trace.clone()).unwrap_or_default(),
            policy: points.first().map(|point| point.policy.clone()).unwrap_or_default(),
            requests: points.iter().map(|point| point.requests).sum(),
            runs,
            peer: (0..rounds).map(of_round).collect(),
        }
    }

    fn speeds(&self) -> Vec<f64> {
        self.runs.iter().map(|run| self.requests as f64 / run.cpu_seconds / 1e6).collect()
    }

    fn peer_speeds(&self) -> Vec<f64> {
        self.peer.iter().map(|seconds| self.requests as f64 / seconds / 1e6).collect()
    }

    fn ratios(&self) -> Vec<f64> {
        self.runs.iter().zip(&self.peer).map(|(run, seconds)| seconds / run.cpu_seconds).collect()
    }

    /// One line for the person who waits.
    pub fn progress(&self) -> String {
        let (ours, theirs) = (median(&self.speeds()), median(&self.peer_speeds()));
        let ratio = spread(&self.ratios());
        format!("{} {}: curve {ours:.1} peer {theirs:.1} M/s, {ratio}", self.trace, self.policy)
    }

    /// Whether all sizes at once hit what each by itself does.
    pub fn check(&self, points: &[Point]) -> Result<(), Box<dyn Error>> {
        let hits: u64 = points.iter().filter_map(|point| point.file.first()).map(|run| run.hits).sum();
        match self.runs.iter().all(|run| run.hits == hits) {
            true => Ok(()),
            false => Err(format!("{}, {}: all sizes at once do not hit the same", self.trace, self.policy).into()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let speed = |speeds: &[f64]| format!("{:.1}", median(speeds));
        let policy = format!("`{}`", self.policy);
        vec![self.trace.clone(), policy, speed(&self.peer_speeds()), speed(&self.speeds()), spread(&self.ratios())]
    }
}

fn points(one: u64, other: u64, requests: usize) -> f64 {
    // libCacheSim tells a ratio, which is rounded.
    one.abs_diff(other).saturating_sub(1) as f64 * 100.0 / requests as f64
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    sorted[last / 2].midpoint(sorted[last.div_ceil(2)])
}

/// Median and range.
fn spread(figures: &[f64]) -> String {
    let sorted = sorted(figures);
    let (Some(low), Some(high)) = (sorted.first(), sorted.last()) else { return "-".into() };
    format!("{:.2} ({low:.2}-{high:.2})", median(&sorted))
}

/// The block of Markdown under way.
pub struct Report {
    text: String,
}

impl Report {
    /// Date, machine and command.
    pub fn new(peer: Option<&str>) -> Report {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let date = Command::new("date").args(["-u", "+%F"]).output();
        let date = date.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned()).unwrap_or_default();
        let after = |file: &str, name: &str| {
            let text = read_to_string(file).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
            line.trim_start_matches([' ', '\t', ':']).to_owned()
        };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut text = format!(
            "{date}, {cores} virtual cores of {}, load average {} before, against {}.\n\n",
            after("/proc/cpuinfo", "model name"),
            load(),
            peer.unwrap_or("nobody")
        );
        let _ = writeln!(text, "    make setup-bench && cargo build --profile dist -p forebay-bench-sim");
        let _ = writeln!(text, "    FOREBAY_TRACES=FOLDER target/dist/sim {}\n", arguments.join(" "));
        Report { text }
    }

    /// Says what a trace is.
    pub fn trace(&mut self, trace: &Trace) {
        let Trace { name, requests, keys, .. } = trace;
        let _ = writeln!(self.text, "- {name}: {} requests, {keys} keys", requests.len());
    }

    fn row(&mut self, cells: &[String]) {
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    fn head(&mut self, names: &[&str]) {
        let _ = writeln!(self.text, "\n| {} |\n|{}", names.join(" | "), "---|".repeat(names.len()));
    }

    /// All points, and what they say of each policy.
    pub fn speed(&mut self, points: &[Point]) {
        let names = [
            "trace",
            "objects",
            "policy",
            "hit ratio, ours / libCacheSim's",
            "libCacheSim M/s",
            "file M/s",
            "ratio",
            "memory M/s",
            "ratio",
        ];
        self.head(&names);
        points.iter().for_each(|point| self.row(&point.cells()));
    }

    /// All curves.
    pub fn curves(&mut self, curves: &[Curve]) {
        self.head(&["trace", "policy", "libCacheSim M/s", "`forebay sim` M/s", "ratio"]);
        curves.iter().for_each(|curve| self.row(&curve.cells()));
    }

    /// What they say of each policy: the median over traces and sizes of the medians over rounds, and the least.
    pub fn summary(&mut self, points: &[Point], curves: &[Curve]) {
        self.head(&["policy", "curve: median", "least", "memory: median", "least", "file: median", "least"]);
        let mut policies: Vec<&str> = points.iter().map(|point| point.policy.as_str()).collect();
        policies.sort_unstable();
        policies.dedup();
        for policy in policies {
            let own = || points.iter().filter(|point| point.policy == policy);
            let forms: [Vec<f64>; 3] = [
                curves.iter().filter(|curve| curve.policy == policy).map(|curve| median(&curve.ratios())).collect(),
                own().map(|point| median(&point.ratios(&point.memory))).collect(),
                own().map(|point| median(&point.ratios(&point.file))).collect(),
            ];
            let both = |medians: &Vec<f64>| {
                let least = sorted(medians).first().copied().unwrap_or(f64::NAN);
                [format!("{:.2}", median(medians)), format!("{least:.2}")]
            };
            let cells: Vec<String> = [format!("`{policy}`")].into_iter().chain(forms.iter().flat_map(both)).collect();
            self.row(&cells);
        }
    }

    /// Bytes for each object.
    pub fn memory(&mut self, objects: u32, rows: &[(String, Memory, Option<Memory>)]) {
        let _ = writeln!(self.text, "\nMemory of a cache of {objects} objects, after twice as many came by:");
        self.head(&["policy", "ours B/object", "of that the policy's own", "libCacheSim B/object"]);
        for (policy, ours, theirs) in rows {
            let each = |memory: &Memory, bytes: f64| format!("{:.0}", bytes / memory.objects as f64);
            let theirs = theirs.as_ref().map_or("-".to_owned(), |theirs| each(theirs, theirs.bytes));
            self.row(&[format!("`{policy}`"), each(ours, ours.bytes), each(ours, ours.charged), theirs]);
        }
    }

    /// Prints it, and writes it to `file` too.
    pub fn end(mut self, file: Option<&Path>) -> Result<(), Box<dyn Error>> {
        let _ = writeln!(self.text, "\nLoad average {} after.", load());
        print!("{}", self.text);
        Ok(file.map_or(Ok(()), |file| std::fs::write(file, &self.text))?)
    }
}

fn load() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_differences() {
        assert_eq!(median(&[3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[1.0, 2.0, 3.0]), "2.00 (1.00-3.00)");
        assert_eq!(points(100, 99, 100), 0.0);
        assert_eq!(points(100, 96, 100), 3.0);
    }

    #[test]
    fn different_work_is_told() {
        let run = |hits| Run { hits, cpu_seconds: 1.0 };
        let mut point = Point::new("t", "lru", 10, 1000);
        (point.file, point.memory) = (vec![run(500)], vec![run(500)]);
        point.peer = vec![run(499)];
        assert!(point.check().is_ok());
        point.peer = vec![run(480)];
        assert!(point.check().is_err());
        let curve = |hits: u64| Curve::new(vec![run(hits)], std::slice::from_ref(&point));
        assert!(curve(500).check(std::slice::from_ref(&point)).is_ok());
        assert!(curve(501).check(std::slice::from_ref(&point)).is_err());
        point.peer = vec![];
        point.memory = vec![run(501)];
        assert!(point.check().is_err());
    }
}
