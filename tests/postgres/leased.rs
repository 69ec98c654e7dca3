//! The client library in front of tables that other programs write to. Each transaction is validated by one message.
//! The database compares what it has read.

use std::time::{Duration, Instant};

use forebay_client::{Client, Error, Leases, Options, Transaction};

use super::outside::{Program, world};

const ROWS: u64 = 4;
const FIRST: i64 = 100;
const AT_WORK: Duration = Duration::from_secs(2);

async fn visits(tx: &Transaction, key: &str) -> Result<i64, Error> {
    let row = tx.hash(key).await?;
    let visits = row.get(b"visits").expect("the row is there");
    Ok(std::str::from_utf8(visits).expect("UTF-8").parse().expect("a number"))
}

/// Moves one visit from one row to another, and looks at all rows: their sum stays.
async fn at_work(client: Client, seed: u64, table: &'static str) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let keys: Vec<String> = (1..=ROWS).map(|id| format!("{table}:{id}")).collect();
    let (began, mut moved, mut looked) = (Instant::now(), 0, 0);
    while began.elapsed() < AT_WORK {
        let sum = async |tx: Transaction| {
            tx.read_many(&keys).await?;
            let mut sum = 0;
            for key in &keys {
                sum += visits(&tx, key).await?;
            }
            Ok::<i64, Error>(sum)
        };
        assert_eq!(client.transaction(sum).await.expect("it reads"), ROWS as i64 * FIRST, "half of a change");
        looked += 1;
        let (from, to) = (random.usize(..keys.len()), random.usize(..keys.len()));
        let change = async |tx: Transaction| {
            let least = visits(&tx, &keys[from]).await?;
            if least > 0 {
                tx.add_to_field(&keys[from], "visits", -1)?;
                tx.add_to_field(&keys[to], "visits", 1)?;
            }
            Ok::<(), Error>(())
        };
        client.transaction(change).await.expect("it commits");
        moved += 1;
    }
    (moved, looked)
}

fn over_mapped_rows(table: &'static str) {
    let (server, database, forebay) = world(true, &[]);
    let program = Program::new(&server, &database);
    program.sql("UPDATE users SET visits = 100; UPDATE plain SET visits = 100");
    let name = if table == "user" { "users" } else { "plain" };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let options = Options::new(forebay.address.to_string()).leases(Leases::Endless);
    let clients: Vec<Client> =
        (0..3).map(|_| runtime.block_on(options.clone().connect()).expect("it listens")).collect();
    let tasks = clients.iter().zip(0..).map(|(client, n)| runtime.spawn(at_work(client.clone(), n, table)));
    let tasks: Vec<_> = tasks.collect();
    let (began, mut random, mut written) = (Instant::now(), fastrand::Rng::with_seed(1), 0);
    while began.elapsed() < AT_WORK {
        // In the order of the rows: so it is in no deadlock with another of its kind.
        let (from, to) = (random.u64(1..ROWS), ROWS);
        program.sql(&format!(
            "BEGIN; UPDATE {name} SET visits = visits - 1 WHERE id = {from};
             UPDATE {name} SET visits = visits + 1 WHERE id = {to}; COMMIT"
        ));
        written += 1;
        std::thread::sleep(Duration::from_millis(random.u64(..20)));
    }
    let ended = tasks.into_iter().map(|task| runtime.block_on(task).expect("no client fails"));
    let (moved, looked) = ended.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let sum = server.sql(&database, &format!("SELECT sum(visits) FROM {name} WHERE id <= {ROWS}"));
    assert_eq!(sum, (ROWS as i64 * FIRST).to_string());
    let stale: u64 = clients.iter().map(|client| client.statistics().stale_aborts).sum();
    eprintln!("{table}: {moved} moved, {looked} looked, {written} by another program, {stale} found stale");
    assert!(moved > 3 && looked > 3 && written > 3 && stale > 0);
    assert!(clients.iter().all(|client| client.statistics().alone == 0), "no P is known there");
}

#[test]
fn the_client_library_over_watched_rows() {
    over_mapped_rows("user");
}

#[test]
fn the_client_library_over_rows_that_nothing_watches() {
    over_mapped_rows("plain");
}
