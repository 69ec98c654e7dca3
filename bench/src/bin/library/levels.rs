//! Transactions of four reads over a store that is 1 ms away: four keys at once, or each named by the one before.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay::cache::Context;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::txn::{Ahead, Engine, Executed, Mode, PlannedLock, TxnKind};
use forebay::{Change, Data, Value};
use forebay_bench::figures::of;
use forebay_bench::report::Report;

use crate::Options;
use crate::bed::{self, Failed, Work};
use crate::precise;

/// Reads of one transaction.
const READS: usize = 4;

const CLIENTS: usize = 16;

/// Documents, so many that two transactions seldom read the same one at the same time.
const KEYS: usize = 10_000;

/// From one document of a chain to the next; four are never the same.
const NEXT_STEP: usize = 2503;

/// Of the store, per round trip.
const DISTANCE: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Four keys known from the start, as in MULTI/EXEC or MGET.
    OneLevel,
    /// Each read names the next, as in an interactive transaction.
    FourLevels,
}

/// One run.
struct Run {
    work: Work,
    trips: u64,
    /// Milliseconds that one took.
    trip_ms: f64,
}

/// Measures both shapes, with all documents cached and with none.
pub async fn measure(report: &mut Report, options: &Options) -> Result<(), Failed> {
    report.line(&format!(
        "\n### Transactions of 4 reads over a store 1 ms away\n\n{CLIENTS} clients, {KEYS} documents, closed loop. One \
         level: the four keys are known from the start. Four levels: each document names the next. Round trips are \
         counted at the store.\n",
    ));
    report.columns(&["levels", "cache", "round trips per txn", "ms per round trip", "ktxn/s", "p50 ms", "p99 ms"]);
    for shape in [Shape::OneLevel, Shape::FourLevels] {
        for (name, budget_bytes) in [("none", 0), ("all", bed::ALL_CACHED_BYTES)] {
            let mut runs = Vec::new();
            let (engine, meter) = open(budget_bytes).await?;
            for number in 0..options.runs {
                runs.push(run(&engine, &meter, shape, options.time(), number as u64).await?);
            }
            let levels = if shape == Shape::OneLevel { "1" } else { "4" };
            let mut cells: Vec<String> = vec![levels.into(), name.into()];
            cells.push(of(&runs, |run| run.trips as f64 / run.work.transactions as f64).plain(2));
            cells.push(if budget_bytes == 0 { of(&runs, |run| run.trip_ms).plain(2) } else { "-".into() });
            cells.push(of(&runs, |run| run.work.throughput()).thousands());
            cells.extend([0.5, 0.99].map(|share| of(&runs, |run| run.work.ms(share)).plain(3)));
            report.row(&cells);
        }
    }
    Ok(())
}

/// Each document holds the number of another.
async fn open(budget_bytes: usize) -> Result<(Engine, Arc<Metered>), Failed> {
    let memory = Arc::new(Memory::new());
    let near = bed::engine(memory.clone(), 0)?;
    for number in 0..KEYS {
        let next = Value::bytes(((number + NEXT_STEP) % KEYS).to_string().into_bytes());
        bed::change(&near, vec![(bed::key(number), Change::Put(next))]).await?;
    }
    let delay = Delay { fixed: DISTANCE, jitter: Duration::ZERO };
    let distant = Arc::new(Delayed::new(precise::runtime(bed::runtime()), memory, delay));
    let meter = Arc::new(Metered::new(bed::runtime(), distant));
    let engine = bed::engine(meter.clone(), budget_bytes)?;
    if budget_bytes > 0 {
        for from in (0..KEYS).step_by(READS) {
            one_level(&engine, &[from, from + 1, from + 2, from + 3].map(|number| number % KEYS)).await?;
        }
    }
    Ok((engine, meter))
}

async fn run(engine: &Engine, meter: &Metered, shape: Shape, time: Duration, seed: u64) -> Result<Run, Failed> {
    let before = meter.snapshot();
    let shared = engine.clone();
    let transaction = move |_, mut random: Rng| {
        let engine = shared.clone();
        async move {
            match shape {
                Shape::OneLevel => one_level(&engine, &[0; READS].map(|_| random.usize(0..KEYS))).await?,
                Shape::FourLevels => four_levels(&engine, random.usize(0..KEYS)).await?,
            }
            // A transaction that never waits would keep the others from their turn.
            tokio::task::yield_now().await;
            Ok(random)
        }
    };
    let work = bed::clients(CLIENTS, time, seed, transaction).await?;
    let after = meter.snapshot();
    let trips = after.reads - before.reads;
    let us = after.read_latency.total_us - before.read_latency.total_us;
    Ok(Run { work, trips, trip_ms: us as f64 / 1000.0 / trips as f64 })
}

/// As the server does it: without locks if all is cached, else under shared ones.
async fn one_level(engine: &Engine, numbers: &[usize; READS]) -> Result<(), Failed> {
    let keys = numbers.map(bed::key);
    let borrowed = keys.each_ref().map(|key| key.borrow());
    let context = Context::default();
    let found = match engine.read_published(&borrowed, &context) {
        Some(documents) => borrowed.iter().all(|key| documents.value(*key).is_ok_and(|value| value.is_some())),
        None => {
            let plan = bed::plan(keys.to_vec(), Mode::Shared, true);
            let mut found = false;
            let body = |documents: &mut forebay::txn::Documents| {
                found = borrowed.iter().all(|key| documents.value(*key).is_ok_and(|value| value.is_some()));
                Ok(())
            };
            match engine.execute(&plan, context, &mut Ahead::default(), body).await? {
                Executed::Done((), committing) => committing.wait().await?,
                Executed::WatchFailed | Executed::Stale(_) => return Err("nothing was watched".into()),
            };
            found
        }
    };
    if found { Ok(()) } else { Err("a document was not found".into()) }
}

async fn four_levels(engine: &Engine, first: usize) -> Result<(), Failed> {
    let mut transaction = engine.begin(TxnKind::ReadOnly, Context::default());
    let mut number = first;
    for _ in 0..READS {
        let key = bed::key(number);
        let lock = PlannedLock { key: key.clone(), mode: Mode::Shared, load: true };
        transaction.prepare_command(&[lock], &mut Ahead::default()).await?;
        let value = transaction.documents().value(key.borrow())?;
        let Some(Data::Bytes(bytes)) = value.map(|value| &value.data) else {
            return Err("a document was not found".into());
        };
        number = std::str::from_utf8(&bytes.joined())?.parse()?;
    }
    transaction.commit().await?.wait().await?;
    Ok(())
}
