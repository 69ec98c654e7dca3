//! Throughput by the number of threads (figures 5.3 and 5.4), tables 5.3 and 5.4, and caches for one thread (6.1).

use std::fmt::Write;

use crate::contestants::{Contestant, binned, ours, sequential, singular};
use crate::replay::{Row, measure};
use crate::traces::{Test, of_thesis};
use crate::{Args, Data, Failed};

/// Of the traces for tables, the thesis' names, and the parts of their keys that a cache holds.
pub const TESTS: &[(&str, usize)] =
    &[("DS1", 10), ("OLTP", 45), ("P4", 10), ("P8", 10), ("S3", 10), ("Wikipedia", 10), ("YouTube", 10), ("Zipf", 10)];

/// Numbers of threads of the tables. The thesis has 1, 16 and 32, on 16 processors.
const TABLE_THREADS: [usize; 3] = [1, 2, 32];

fn all() -> Vec<Contestant> {
    singular().into_iter().chain(binned()).chain(ours()).collect()
}

fn lines(csv: &mut String, test: &Test, rows: &[Row]) -> Result<(), Failed> {
    for Row { cache, threads, mops, hit_percent, load } in rows {
        let cache = cache.replace(',', "");
        writeln!(csv, "{},{},{cache},{threads},{mops:.3},{hit_percent:.2},{load}", test.name, test.capacity)?;
    }
    Ok(())
}

fn written(args: &Args, tests: &[(&str, usize)], caches: &[Contestant], threads: &[usize]) -> Result<String, Failed> {
    let mut csv = String::from("test,capacity,cache,threads,mops,hit_percent,load\n");
    for (name, part) in tests {
        let test = of_thesis(name)?.test(args, args.requests, *part)?;
        lines(&mut csv, &test, &measure(&test, caches, threads, args.rounds))?;
    }
    Ok(csv)
}

/// Figure 5.3, on Wikipedia 1/1000 in the thesis: a cache of 7,913 entries.
pub fn web(args: &Args) -> Result<Data, Failed> {
    Ok(vec![("deferred-5.3", written(args, &[("Wikipedia", 10)], &all(), &args.threads)?)])
}

/// Figure 5.4, on P4 1/1000 in the thesis: a cache of 5,147 entries.
pub fn disk(args: &Args) -> Result<Data, Failed> {
    Ok(vec![("deferred-5.4", written(args, &[("P4", 10)], &all(), &args.threads)?)])
}

/// Tables 5.3 and 5.4.
pub fn tables(args: &Args) -> Result<Data, Failed> {
    Ok(vec![("deferred-table-5.3", written(args, TESTS, &all(), &TABLE_THREADS)?)])
}

/// Section 6.1.
pub fn one_thread(args: &Args) -> Result<Data, Failed> {
    Ok(vec![("deferred-6.1", written(args, TESTS, &sequential(), &[1])?)])
}
