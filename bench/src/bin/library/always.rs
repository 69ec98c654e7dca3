//! Group commit over a disk that is slow to sync, and a hot key.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::txn::Engine;
use forebay::{Change, Data, Key, Value};
use forebay_bench::figures::{of, ratio};
use forebay_bench::report::Report;

use crate::Options;
use crate::bed::{self, Failed, Work};
use crate::slow_sync;

/// Who writes random documents.
const SETTERS: usize = 64;

/// Who counts, on one key or on as many.
const COUNTERS: usize = 50;

/// One run.
struct Run {
    work: Work,
    syncs: u64,
}

impl Run {
    fn syncs_per_thousand(&self) -> f64 {
        self.syncs as f64 * 1000.0 / self.work.transactions as f64
    }
}

/// Measures SET by 64 clients, and INCR by 50 on one key and on 50.
pub async fn measure(report: &mut Report, options: &Options, folder: &Path) -> Result<(), Failed> {
    let syncs = Arc::new(AtomicU64::new(0));
    let disk = slow_sync::make(folder.join("slow.redb"), syncs.clone());
    let embedded = EmbeddedOptions { durability: Durability::Always, ..EmbeddedOptions::default() };
    let store = Arc::new(Embedded::open_with_backend(bed::runtime(), disk, embedded)?);
    let engine = bed::engine(store, bed::ALL_CACHED_BYTES)?;
    bed::load(&engine, options.keys, options.value_bytes).await?;
    report.line(
        "\n### `always` over a disk that adds 1 ms to each sync\n\nEach transaction is one command, acknowledged \
         after its sync. Goals: 10,000 acknowledged SETs per second by 64 clients; INCR on one key at least \
         half of INCR on 50.\n",
    );
    report.columns(&[
        "command",
        "keys",
        "clients",
        "ktxn/s",
        "syncs per 1,000 txn",
        "p50 ms",
        "p99 ms",
        "ktxn/CPU s",
        "to 50 keys",
    ]);
    let mut runs: [Vec<Run>; 3] = Default::default();
    for number in 0..options.runs {
        for (kind, runs) in runs.iter_mut().enumerate() {
            let (before, seed) = (syncs.load(Ordering::Relaxed), number as u64);
            let work = match kind {
                0 => bed::sets(&engine, options, SETTERS, seed).await?,
                1 => increments(&engine, options, seed, 1).await?,
                _ => increments(&engine, options, seed, COUNTERS).await?,
            };
            runs.push(Run { work, syncs: syncs.load(Ordering::Relaxed) - before });
        }
    }
    let [sets, one, many] = &runs;
    row(report, ["SET", &options.keys.to_string(), &SETTERS.to_string()], sets, "-".into());
    let to_many = ratio(one, many, |run| run.work.throughput()).plain(2);
    row(report, ["INCR", "1", &COUNTERS.to_string()], one, to_many);
    row(report, ["INCR", &COUNTERS.to_string(), &COUNTERS.to_string()], many, "-".into());
    Ok(())
}

fn row(report: &mut Report, what: [&str; 3], runs: &[Run], to_many: String) {
    let mut cells: Vec<String> = what.map(String::from).into();
    cells.push(of(runs, |run| run.work.throughput()).thousands());
    cells.push(of(runs, Run::syncs_per_thousand).plain(1));
    cells.extend([0.5, 0.99].map(|share| of(runs, |run| run.work.ms(share)).plain(1)));
    cells.push(of(runs, |run| run.work.per_cpu_second()).thousands());
    cells.push(to_many);
    report.row(&cells);
}

fn counter(number: usize) -> Key {
    Key::new(0, format!("counter:{number:08}").as_bytes())
}

/// Each client adds to the counter of its number, of `counters` that there are; their sum is what was acknowledged.
async fn increments(engine: &Engine, options: &Options, seed: u64, counters: usize) -> Result<Work, Failed> {
    let zero = || Change::Put(Value::bytes(b"0".to_vec()));
    bed::change(engine, (0..counters).map(|number| (counter(number), zero())).collect()).await?;
    let shared = engine.clone();
    let increment = move |client: usize, random| {
        let engine = shared.clone();
        async move {
            let add = Change::AddInteger { field: None, delta: 1 };
            bed::change(&engine, vec![(counter(client % counters), add)]).await.map(|()| random)
        }
    };
    let work = bed::clients(COUNTERS, options.time(), seed, increment).await?;
    let mut sum = 0;
    for number in 0..counters {
        let read = engine.cache().peek(counter(number).borrow()).and_then(|read| read.value);
        let Some(Data::Bytes(bytes)) = read.map(|value| value.data) else {
            return Err("a counter is not cached".into());
        };
        sum += std::str::from_utf8(&bytes.joined())?.parse::<u64>()?;
    }
    match sum == work.transactions {
        true => Ok(work),
        false => Err(format!("the counters say {sum}, {} were acknowledged", work.transactions).into()),
    }
}
