//! Pull against purge: throughput and hit ratio (figures 5.1 and 5.2), and the best setting beside LRU (table 5.2).

use std::fmt::Write;

use forebay_thesis::Thresholds;

use crate::contestants::{deferred, hhvm, lru, shown};
use crate::replay::{Row, measure};
use crate::traces::of_thesis;
use crate::{Args, Data, Failed};

/// The thesis' shares.
const SHARES: [f64; 6] = [0.001, 0.01, 0.1, 0.4, 0.7, 0.9];

/// The thesis' tests, with a hundredth in place of its smaller parts: a thousandth of these keys is a few entries.
const TESTS: &[(&str, usize)] =
    &[("Wikipedia", 10), ("Wikipedia", 100), ("P4", 10), ("P4", 100), ("P8", 10), ("P8", 100)];

/// The thesis' numbers of threads.
const THREADS: [usize; 2] = [1, 32];

/// All of it, by one run.
pub fn measure_all(args: &Args) -> Result<Data, Failed> {
    let settings: Vec<Thresholds> =
        SHARES.iter().flat_map(|&pull| SHARES.map(|purge| Thresholds { pull, purge })).collect();
    let mut throughput = String::from("test,capacity,threads,pull,purge,mops,load\n");
    let mut hits = String::from("test,capacity,threads,pull,purge,hit_percent\n");
    let mut best = String::from("test,threads,best,best_hit_percent,lru_hit_percent,hhvm_hit_percent\n");
    for (name, part) in TESTS {
        let test = of_thesis(name)?.test(args, args.grid_requests, *part)?;
        let (name, capacity) = (&test.name, test.capacity);
        let caches: Vec<_> = settings.iter().map(|&setting| deferred(setting)).chain([lru(), hhvm()]).collect();
        for threads in THREADS {
            let rows = measure(&test, &caches, &[threads], 1);
            let (of_settings, others) = rows.split_at(settings.len());
            for (Thresholds { pull, purge }, Row { mops, hit_percent, load, .. }) in settings.iter().zip(of_settings) {
                writeln!(throughput, "{name},{capacity},{threads},{pull},{purge},{mops:.3},{load}")?;
                writeln!(hits, "{name},{capacity},{threads},{pull},{purge},{hit_percent:.2}")?;
            }
            let most = settings.iter().zip(of_settings).max_by(|a, b| a.1.hit_percent.total_cmp(&b.1.hit_percent));
            let Some((&setting, row)) = most else { continue };
            let others: Vec<String> = others.iter().map(|row| format!("{:.2}", row.hit_percent)).collect();
            writeln!(best, "{name},{threads},{},{:.2},{}", shown(setting), row.hit_percent, others.join(","))?;
        }
    }
    Ok(vec![("deferred-5.1", throughput), ("deferred-5.2", hits), ("deferred-table-5.2", best)])
}
