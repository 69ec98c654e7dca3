//! Programs that go around forebay: how soon what they write leaves the cache, and what that costs them; by triggers,
//! and by decoding.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::Key;
use forebay::store::{Outside, Store};
use forebay_bench::figures::Summary;
use forebay_bench::report::Report;
use forebay_drivers::VersionMode;
use forebay_drivers::postgres::{Postgres, setup};
use forebay_drivers::{Options as StoreOptions, OutsideBy};
use tokio_postgres::{Client, NoTls};

use crate::server::Server;
use crate::{Failed, Options, percentiles, runtime, store_options};

/// Rows that are written around forebay.
const ROWS: i64 = 10_000;

/// How what others write is seen.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    version: &'static str,
    outside: OutsideBy,
}

const WAYS: [Way; 3] = [
    Way { name: "triggers, column", version: "column", outside: OutsideBy::Triggers },
    Way { name: "triggers, side", version: "side", outside: OutsideBy::Triggers },
    Way { name: "decoding", version: "none", outside: OutsideBy::Decoding },
];

/// Has the server keep no log for a forebay that is gone.
fn clean_up(opening: &StoreOptions) -> Result<(), Failed> {
    if opening.outside == OutsideBy::Decoding {
        runtime()?.block_on(setup::drop_slot(opening))?;
    }
    Ok(())
}

/// A forebay over the table, with what this way needs.
fn opening(server: &Server, database: &str, way: Way) -> Result<StoreOptions, Failed> {
    let map = format!("user:{{id}} -> users(id) version({})", way.version);
    Ok(StoreOptions { outside: way.outside, ..store_options(server, database, &[map])? })
}

fn table(server: &Server) -> String {
    let database = server.database();
    let rows = format!(
        "CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, visits integer NOT NULL DEFAULT 0);
         INSERT INTO users SELECT n, 'name ' || n FROM generate_series(1, {ROWS}) AS n; VACUUM ANALYZE users"
    );
    // VACUUM runs in no transaction with others.
    rows.split(';').for_each(|statement| {
        server.sql(&database, statement);
    });
    database
}

async fn connect(url: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// From the answer to another program's COMMIT until the driver says which key to drop.
pub fn seen(options: &Options, server: &Server, report: &mut Report) -> Result<(), Failed> {
    report.line("#### From an outside commit to the invalidation\n");
    report.line(&format!(
        "{} UPDATEs of one row each, one behind the other; from the answer to the commit until the key is named to the \
         cache.\n",
        options.writes
    ));
    report.columns(&["seen by", "--outside-ms", "median ms", "p99 ms", "slowest ms"]);
    for way in WAYS {
        for pause_ms in [10, 50] {
            let micros = seen_with(options, server, way, pause_ms)?;
            let slowest = micros.iter().max().copied().unwrap_or(0);
            let (median, p99) = percentiles(micros);
            let ms = |micros: u64| format!("{:.1}", micros as f64 / 1000.0);
            report.row(&[way.name.into(), pause_ms.to_string(), ms(median), ms(p99), ms(slowest)]);
        }
    }
    report.line("");
    Ok(())
}

fn seen_with(options: &Options, server: &Server, way: Way, pause_ms: u64) -> Result<Vec<u64>, Failed> {
    let (runtime, database) = (runtime()?, table(server));
    let outside_pause = Duration::from_millis(pause_ms);
    let opening = StoreOptions { outside_pause, ..opening(server, &database, way)? };
    runtime.block_on(setup::init(&opening, VersionMode::None))?;
    let store = runtime.block_on(Postgres::open(opening.clone()))?;
    let url = server.url(&database);
    let seen: Result<Vec<u64>, Failed> = runtime.block_on(async {
        let client = connect(&url).await?;
        let update = client.prepare("UPDATE users SET visits = visits + 1 WHERE id = $1").await?;
        store.outside().await;
        let mut micros = Vec::with_capacity(options.writes);
        for number in 0..options.writes as i64 {
            let id = 1 + fastrand::i64(0..ROWS);
            client.execute(&update, &[&id]).await?;
            let (began, key) = (Instant::now(), Key::new(0, format!("user:{id}").as_bytes()));
            loop {
                match store.outside().await {
                    Some(Outside::Keys(keys)) if keys.contains(&key) => break,
                    Some(Outside::Keys(_)) => {}
                    // A beginning is not sharp: a transaction that was open then may have been missed.
                    Some(Outside::Everything) if number == 0 => {}
                    other => return Err(format!("write {number}: {other:?}").into()),
                }
            }
            micros.push(began.elapsed().as_micros() as u64);
            // Not in step with the looks.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..pause_ms * 1000))).await;
        }
        Ok(micros)
    });
    // Its tasks hold the store.
    drop((store, runtime));
    clean_up(&opening)?;
    seen
}

/// Commits per second of other programs, without forebay and with what it adds, forebay looking on.
pub fn cost(options: &Options, server: &Server, report: &mut Report) -> Result<(), Failed> {
    report.line("#### What others pay\n");
    report.line(&format!(
        "{} connections, each one UPDATE per transaction, for {} s.\n",
        options.connections, options.seconds
    ));
    report.columns(&["seen by", "synchronous_commit", "thousand commits/s", "of those without"]);
    for durable in ["on", "off"] {
        let mut runs: [Vec<f64>; 1 + WAYS.len()] = Default::default();
        for _ in 0..options.runs {
            for (way, runs) in [None].into_iter().chain(WAYS.map(Some)).zip(&mut runs) {
                runs.push(commits_per_second(options, server, way, durable)?);
            }
        }
        for (name, figures) in ["nothing"].into_iter().chain(WAYS.map(|way| way.name)).zip(&runs) {
            let ratio: Vec<f64> = figures.iter().zip(&runs[0]).map(|(one, bare)| one / bare).collect();
            let (figures, ratio) = (Summary::of(figures), Summary::of(&ratio));
            report.row(&[name.into(), durable.into(), figures.thousands(), ratio.plain(2)]);
        }
    }
    report.line("");
    Ok(())
}

fn commits_per_second(options: &Options, server: &Server, way: Option<Way>, durable: &str) -> Result<f64, Failed> {
    let (runtime, database) = (runtime()?, table(server));
    let mut store = None;
    if let Some(way) = way {
        let opening = opening(server, &database, way)?;
        runtime.block_on(setup::init(&opening, VersionMode::None))?;
        let opened = Arc::new(runtime.block_on(Postgres::open(opening.clone()))?);
        let watched = opened.clone();
        runtime.spawn(async move { while watched.outside().await.is_some() {} });
        store = Some((opened, opening));
    }
    let url = server.url(&database);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let counted: Result<u64, Failed> = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..options.connections {
            let client = connect(&url).await?;
            client.batch_execute(&format!("SET synchronous_commit = {durable}")).await?;
            tasks.push(tokio::spawn(async move {
                let update = client.prepare("UPDATE users SET visits = visits + 1 WHERE id = $1").await?;
                let mut done = 0;
                while Instant::now() < until {
                    client.execute(&update, &[&(1 + fastrand::i64(0..ROWS))]).await?;
                    done += 1;
                }
                Ok::<u64, tokio_postgres::Error>(done)
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += task.await??;
        }
        Ok(done)
    });
    if let Some((store, opening)) = store {
        drop((store, runtime));
        clean_up(&opening)?;
    }
    Ok(counted? as f64 / options.seconds as f64)
}
