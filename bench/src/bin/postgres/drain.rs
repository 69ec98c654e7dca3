//! What was kept through an outage goes into the tables, as groups of many transactions of one document each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use forebay::change::Change;
use forebay::store::{Commit, CommitOutcome, Store, Write};
use forebay::value::Blob;
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};
use forebay_bench::figures::Summary;
use forebay_bench::report::Report;
use forebay_drivers::VersionMode;
use forebay_drivers::postgres::{Postgres, setup};

use crate::server::Server;
use crate::{Failed, Options, runtime, store_options};

/// Where documents go.
struct Target {
    name: &'static str,
    /// How the table's versions are kept; the generic table without.
    version: Option<&'static str>,
    /// What has made the documents; without, they are new.
    made_by: Option<Make>,
    change: Make,
}

type Make = fn(usize, &Blob) -> Change;

fn put(_: usize, payload: &Blob) -> Change {
    Change::Put(Value::bytes(payload.to_vec()))
}

fn set(_: usize, payload: &Blob) -> Change {
    Change::SetField(Blob::from(*b"payload"), payload.clone())
}

fn add(number: usize, _: &Blob) -> Change {
    Change::AddInteger { field: Some(Blob::from(*b"hits")), delta: number as i64 }
}

const TARGETS: [Target; 9] = [
    Target { name: "generic table, SET of new documents", version: None, made_by: None, change: put },
    Target { name: "generic table, SET", version: None, made_by: Some(put), change: put },
    Target { name: "generic table, HSET of a field", version: None, made_by: Some(set), change: set },
    Target { name: "rows, version none, HSET of new rows", version: Some("none"), made_by: None, change: set },
    Target { name: "rows, version none, HSET", version: Some("none"), made_by: Some(set), change: set },
    Target { name: "rows, version none, HINCRBY", version: Some("none"), made_by: Some(set), change: add },
    Target { name: "rows, version column, HSET of new rows", version: Some("column"), made_by: None, change: set },
    Target { name: "rows, version column, HSET", version: Some("column"), made_by: Some(set), change: set },
    Target { name: "rows, version side, HSET", version: Some("side"), made_by: Some(set), change: set },
];

const ITEMS: &str = "CREATE TABLE items (id bigint PRIMARY KEY, payload text, hits integer NOT NULL DEFAULT 0)";

pub fn measure(options: &Options, server: &Server, report: &mut Report) -> Result<(), Failed> {
    report.line("#### Drain\n");
    report.line(&format!(
        "{} documents of {} B, transactions of one document each, {} of them in one of PostgreSQL's.\n",
        options.documents, options.document_bytes, options.group
    ));
    let workers: Vec<String> = options.workers.iter().map(|workers| format!("{workers} at a time, docs/s")).collect();
    let columns: Vec<&str> = ["what"].into_iter().chain(workers.iter().map(String::as_str)).collect();
    report.columns(&columns);
    let mut cells = vec!["bare: INSERT of new rows by unnest, nothing else".to_owned()];
    for workers in &options.workers {
        let runs: Result<Vec<f64>, Failed> = (0..options.runs).map(|_| bare(options, server, *workers)).collect();
        cells.push(Summary::of(&runs?).thousands() + " thousand");
    }
    report.row(&cells);
    for target in &TARGETS {
        let mut cells = vec![target.name.to_owned()];
        for workers in &options.workers {
            let runs: Result<Vec<f64>, Failed> =
                (0..options.runs).map(|_| drain(options, server, target, *workers)).collect();
            cells.push(Summary::of(&runs?).thousands() + " thousand");
        }
        report.row(&cells);
    }
    report.line("");
    Ok(())
}

/// What the database takes without a driver that enters ids, changes or makes rows, and reads them back.
fn bare(options: &Options, server: &Server, workers: usize) -> Result<f64, Failed> {
    let (runtime, database) = (runtime()?, server.database());
    server.sql(&database, ITEMS);
    server.sql(&database, "CHECKPOINT");
    let ids: Vec<i64> = (0..options.documents as i64).collect();
    let groups: Arc<Vec<Vec<i64>>> = Arc::new(ids.chunks(options.group).map(<[i64]>::to_vec).collect());
    let (next, url, payload) =
        (Arc::new(AtomicUsize::new(0)), server.url(&database), "x".repeat(options.document_bytes));
    let began = Instant::now();
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..workers {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let (groups, next, payload) = (groups.clone(), next.clone(), payload.clone());
            tasks.push(tokio::spawn(async move {
                let insert = "INSERT INTO items (id, payload) SELECT * FROM unnest($1::bigint[], $2::text[])";
                let insert = client.prepare(insert).await?;
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    client.execute(&insert, &[group, &vec![payload.as_str(); group.len()]]).await?;
                }
                Ok::<(), tokio_postgres::Error>(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok::<(), Failed>(())
    })?;
    Ok(options.documents as f64 / began.elapsed().as_secs_f64())
}

/// Documents per second.
fn drain(options: &Options, server: &Server, target: &Target, workers: usize) -> Result<f64, Failed> {
    let runtime = runtime()?;
    let database = server.database();
    server.sql(&database, ITEMS);
    let maps: Vec<String> =
        target.version.iter().map(|version| format!("item:{{id}} -> items(id) version({version})")).collect();
    let opening = store_options(server, &database, &maps)?;
    runtime.block_on(setup::init(&opening, VersionMode::None))?;
    let store = Arc::new(runtime.block_on(Postgres::open(opening))?);
    let mint = Mint::new(store.incarnation());
    let payload = Blob::from(vec![b'x'; options.document_bytes]);
    if let Some(change) = target.made_by {
        runtime.block_on(send(store.clone(), groups(options, &mint, &payload, change), workers))?;
    }
    let groups = groups(options, &mint, &payload, target.change);
    server.sql(&database, "CHECKPOINT");
    let began = Instant::now();
    runtime.block_on(send(store.clone(), groups, workers))?;
    let figure = options.documents as f64 / began.elapsed().as_secs_f64();
    drop(store);
    Ok(figure)
}

fn groups(options: &Options, mint: &Mint, payload: &Blob, change: Make) -> Vec<Vec<Commit>> {
    let commit = |number: usize| {
        let (key, changes) = (Key::new(0, format!("item:{number}").as_bytes()), vec![change(number, payload)]);
        let after = match &changes[0] {
            Change::Put(value) => Some(value.clone()),
            _ => None,
        };
        let writes = vec![Write { key, changes: changes.into(), after, unseen: false, told: false }];
        Commit::new(TxnId(mint.next()), mint.next(), writes)
    };
    let commits: Vec<Commit> = (0..options.documents).map(commit).collect();
    commits.chunks(options.group).map(<[Commit]>::to_vec).collect()
}

async fn send(store: Arc<Postgres>, groups: Vec<Vec<Commit>>, workers: usize) -> Result<(), Failed> {
    let (groups, next) = (Arc::new(groups), Arc::new(AtomicUsize::new(0)));
    let worker = || {
        let (store, groups, next) = (store.clone(), groups.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcomes = store.commit(group).await;
                if let Some(other) =
                    outcomes.into_iter().find(|outcome| !matches!(outcome, CommitOutcome::Committed(_)))
                {
                    return Err(format!("{other:?}"));
                }
            }
            Ok(())
        })
    };
    let tasks: Vec<_> = (0..workers).map(|_| worker()).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}
