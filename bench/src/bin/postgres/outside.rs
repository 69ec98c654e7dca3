//! Programs that go around forebay: how soon what they write leaves the cache, and what its triggers cost them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::Key;
use forebay::store::{Outside, Store};
use forebay_bench::figures::Summary;
use forebay_bench::report::Report;
use forebay_drivers::postgres::{Postgres, PostgresOptions, setup};
use tokio_postgres::{Client, NoTls};

use crate::server::Server;
use crate::{Failed, Options, percentiles, runtime, store_options};

/// Rows that are written around forebay.
const ROWS: i64 = 10_000;

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
    report.columns(&["versions", "--outside-ms", "median ms", "p99 ms", "slowest ms"]);
    for version in ["column", "side"] {
        for pause_ms in [10, 50] {
            let micros = seen_with(options, server, version, pause_ms)?;
            let slowest = micros.iter().max().copied().unwrap_or(0);
            let (median, p99) = percentiles(micros);
            let ms = |micros: u64| format!("{:.1}", micros as f64 / 1000.0);
            report.row(&[version.into(), pause_ms.to_string(), ms(median), ms(p99), ms(slowest)]);
        }
    }
    report.line("");
    Ok(())
}

fn seen_with(options: &Options, server: &Server, version: &str, pause_ms: u64) -> Result<Vec<u64>, Failed> {
    let (runtime, database) = (runtime()?, table(server));
    let opening = store_options(server, &database, &[format!("user:{{id}} -> users(id) version({version})")])?;
    let opening = PostgresOptions { outside_pause: Duration::from_millis(pause_ms), ..opening };
    runtime.block_on(setup::init(&opening))?;
    let store = runtime.block_on(Postgres::open(opening))?;
    let url = server.url(&database);
    runtime.block_on(async {
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
                    other => return Err(format!("write {number}: {other:?}").into()),
                }
            }
            micros.push(began.elapsed().as_micros() as u64);
            // Not in step with the looks.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..pause_ms * 1000))).await;
        }
        Ok(micros)
    })
}

/// Commits per second of other programs, without forebay and with what it adds, forebay looking meanwhile.
pub fn cost(options: &Options, server: &Server, report: &mut Report) -> Result<(), Failed> {
    report.line("#### What others pay\n");
    report.line(&format!(
        "{} connections, each one UPDATE per transaction, for {} s.\n",
        options.connections, options.seconds
    ));
    report.columns(&["versions", "synchronous_commit", "thousand commits/s", "of those without"]);
    for durable in ["on", "off"] {
        let mut runs: [Vec<f64>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..options.runs {
            for (version, runs) in [None, Some("column"), Some("side")].into_iter().zip(&mut runs) {
                runs.push(commits_per_second(options, server, version, durable)?);
            }
        }
        for (name, figures) in ["without", "column", "side"].into_iter().zip(&runs) {
            let ratio: Vec<f64> = figures.iter().zip(&runs[0]).map(|(one, bare)| one / bare).collect();
            let (figures, ratio) = (Summary::of(figures), Summary::of(&ratio));
            report.row(&[name.into(), durable.into(), figures.thousands(), ratio.plain(2)]);
        }
    }
    report.line("");
    Ok(())
}

fn commits_per_second(options: &Options, server: &Server, version: Option<&str>, durable: &str) -> Result<f64, Failed> {
    let (runtime, database) = (runtime()?, table(server));
    let mut store = None;
    if let Some(version) = version {
        let opening = store_options(server, &database, &[format!("user:{{id}} -> users(id) version({version})")])?;
        runtime.block_on(setup::init(&opening))?;
        let opened = Arc::new(runtime.block_on(Postgres::open(opening))?);
        let watched = opened.clone();
        runtime.spawn(async move { while watched.outside().await.is_some() {} });
        store = Some(opened);
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
    drop(store);
    Ok(counted? as f64 / options.seconds as f64)
}
