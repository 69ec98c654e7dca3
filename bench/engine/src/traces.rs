//! Recorded requests, in any format that the simulator reads.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use forebay_bench_engine::requests;

use crate::Options;

/// The first requests of a trace.
pub struct Trace {
    pub name: String,
    pub requests: Vec<u64>,
    /// Keys that are not the same.
    pub keys: usize,
}

/// Shorter ones say little about throughput.
const REQUESTS_MIN: usize = 100_000;

/// The traces in the folder, in the order of their names. What can't be read, is short, or is another form of one
/// that was read is left out, and said to be.
pub fn all(options: &Options) -> Vec<Trace> {
    let Some(folder) = &options.traces else {
        eprintln!("no traces: FOREBAY_TRACES does not name a folder of them");
        return Vec::new();
    };
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let mut traces: Vec<Trace> = Vec::new();
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        if !options.only_traces.is_empty() && !options.only_traces.contains(&name) {
            continue;
        }
        let asked = match requests::read(&file, options.trace_requests) {
            Ok(asked) => asked,
            Err(error) => {
                eprintln!("left out: {}: {error}", file.display());
                continue;
            }
        };
        let keys = asked.iter().collect::<HashSet<_>>().len();
        let again = traces.iter().any(|other| (other.requests.len(), other.keys) == (asked.len(), keys));
        if asked.len() < REQUESTS_MIN || again {
            eprintln!("left out: {}: {}", file.display(), if again { "was read in another form" } else { "short" });
            continue;
        }
        traces.push(Trace { name, requests: asked, keys });
    }
    traces
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if !path.extension().is_some_and(|ending| ending == "md" || ending == "txt") {
            files.push(path);
        }
    }
}
