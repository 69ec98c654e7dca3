//! The traces: the thesis' where they can be had, and what stands for the others.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;

use forebay_bench_engine::requests;
use forebay_bench_engine::zipf::Zipf;

use crate::{Args, Data, Failed};

/// A trace of the thesis.
pub struct Trace {
    /// Its name there.
    pub of_thesis: &'static str,
    /// The name of what stands for it.
    name: &'static str,
    /// The file of what stands for it; none: it is drawn.
    file: Option<&'static str>,
}

const fn trace(of_thesis: &'static str, name: &'static str, file: &'static str) -> Trace {
    Trace { of_thesis, name, file: Some(file) }
}

/// DS1, P4, P8 and S3 are public and large: they are replayed where the folder of traces has them, as `arc/DS1.lis` or
/// `arc/DS1.lis.zst`. Wikipedia and YouTube can't be had. What stands for each is of the same family, or has a like
/// number of requests for each key and a like hit ratio of LRU.
pub const TRACES: &[Trace] = &[
    trace("DS1", "pgc_c90", "hinted/pgc_c90.htr.zst"),
    trace("OLTP", "OLTP", "arc/OLTP.lis.zst"),
    trace("P4", "P12", "arc/P12.lis.zst"),
    trace("P8", "P6", "arc/P6.lis.zst"),
    trace("S3", "pgh_h50", "hinted/pgh_h50.htr.zst"),
    trace("Wikipedia", "twitter_52", "twitter/twitter_cluster52.csv.zst"),
    trace("YouTube", "web07", "cache2k/web07.be32.zst"),
    Trace { of_thesis: "Zipf", name: "Zipf", file: None },
];

/// Keys of which Zipf's are drawn, their skew, and requests, as in the thesis.
const ZIPF: (usize, f64, usize) = (100_000, 0.9, 1_000_000);

/// Requests with how large the cache is that answers them.
pub struct Test {
    /// As `P12 1/10`.
    pub name: String,
    pub requests: Vec<u64>,
    pub capacity: usize,
}

/// The trace that stands for one of the thesis.
pub fn of_thesis(name: &str) -> Result<&'static Trace, Failed> {
    let found = TRACES.iter().find(|trace| trace.of_thesis == name);
    found.ok_or_else(|| format!("the thesis has no trace '{name}'").into())
}

impl Trace {
    /// The file of the thesis' trace, if the folder of traces has it.
    fn of_thesis(&self, args: &Args) -> Option<PathBuf> {
        let files = ["", ".zst"].map(|packed| args.traces.join(format!("arc/{}.lis{packed}", self.of_thesis)));
        files.into_iter().find(|file| file.is_file())
    }

    /// The name of what is replayed.
    fn name(&self, args: &Args) -> &'static str {
        if self.of_thesis(args).is_some() { self.of_thesis } else { self.name }
    }

    /// Its first requests.
    pub fn requests(&self, args: &Args, most: usize) -> Result<Vec<u64>, Failed> {
        let Some(file) = self.file else {
            let (keys, skew, count) = ZIPF;
            return Ok(Zipf::new(keys, skew).draw(count.min(most), 1));
        };
        let path = self.of_thesis(args).unwrap_or_else(|| args.traces.join(file));
        requests::read(&path, most).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// The first requests beside a cache for a part of their keys.
    pub fn test(&self, args: &Args, most: usize, part: usize) -> Result<Test, Failed> {
        let requests = self.requests(args, most)?;
        let keys = requests.iter().collect::<HashSet<_>>().len();
        Ok(Test { name: format!("{} 1/{part}", self.name(args)), requests, capacity: (keys / part).max(1) })
    }
}

/// Table 5.1, of whole traces.
pub fn table(args: &Args) -> Result<Data, Failed> {
    let mut csv = String::from("of_thesis,trace,requests,keys,requests_per_key,median,mean,deviation,relative\n");
    for trace in TRACES {
        let requests = trace.requests(args, usize::MAX)?;
        let (keys, mut intervals) = intervals(&requests);
        let ratio = requests.len() as f64 / keys as f64;
        let [median, mean, deviation] = moments(&mut intervals);
        writeln!(
            csv,
            "{},{},{},{keys},{ratio:.2},{median:.0},{mean:.0},{deviation:.0},{:.2}",
            trace.of_thesis,
            trace.name(args),
            requests.len(),
            deviation / mean
        )?;
    }
    Ok(vec![("deferred-table-5.1", csv)])
}

/// Keys, and for each request for a key that was there before how many requests ago.
fn intervals(requests: &[u64]) -> (usize, Vec<usize>) {
    let mut last = HashMap::new();
    let between = |(at, &key)| last.insert(key, at).map(|before| at - before);
    let intervals: Vec<usize> = requests.iter().enumerate().filter_map(between).collect();
    (last.len(), intervals)
}

/// Median, mean and standard deviation.
fn moments(values: &mut [usize]) -> [f64; 3] {
    values.sort_unstable();
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|&value| value as f64).sum::<f64>() / count;
    let variance = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / count;
    [values.get(values.len() / 2).copied().unwrap_or(0) as f64, mean, variance.sqrt()]
}
