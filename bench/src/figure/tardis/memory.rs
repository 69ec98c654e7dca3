//! Figure 4: what buffered writes take, as they come.

use std::time::{Duration, Instant};

use forebay_workload::live::{Stop, Target};

use super::site::{Load, Site};
use super::{Chart, Scale, lined, scaled, series};
use crate::figure::Failed;

const PAUSE: Duration = Duration::from_millis(250);

/// BG's mix with the most writes among those that keep the network as large as it is: 10 %.
const WORKLOADS: [(&str, &str, u64); 2] = [("YCSB A", "ycsb-a", 400), ("BG, 10 % writes", "bg-high-symmetric", 1000)];

pub(super) fn make(scale: Scale) -> Result<Vec<Chart>, Failed> {
    let (site, seconds) = (Site::new()?, scaled(scale, 20u64, 300));
    let (mut bytes, mut documents, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    for (name, workload, records) in WORKLOADS {
        let base = site.loaded(workload, records)?;
        let forebay = site.serve(&base, &[])?;
        site.warm(&base, &forebay.address)?;
        let load = Load { connections: 20, rate: None, seconds: seconds as f64 + 2.0 };
        let running = site.begin(&base, load, Target::resp(&forebay.address), &Stop::default());
        std::thread::sleep(Duration::from_secs(2));
        site.stop();
        let began = Instant::now();
        let mut seen = Vec::new();
        while began.elapsed() < Duration::from_secs(seconds) - PAUSE {
            std::thread::sleep(PAUSE);
            let state = site.state(&forebay.address)?;
            seen.push(["buffered", "bytes", "documents", "pending"].map(|name| state.figure(name) as f64));
        }
        site.server.start_again();
        let report = site.ended(running)?;
        eprintln!("{name}: {:?} of {:?}", seen.last(), report.outage);
        let line = |at: usize, unit: f64| series(name, seen.iter().map(|of| (of[0] / 1e3, of[at] / unit)).collect());
        bytes.push(line(1, f64::from(1 << 20)));
        documents.push(line(2, 1.0));
        pending.push(line(3, 1.0));
    }
    let x = "acknowledged writes, thousands";
    Ok(vec![
        lined("memory charged", x, "MiB", bytes),
        lined("documents with buffered writes", x, "documents", documents),
        lined("transactions left after merging", x, "transactions", pending),
    ])
}
