//! How many transactions of four reads one thread ends without a message, and how many it commits.
//!
//! `cargo run --release -p forebay-client --example alone -- 127.0.0.1:6379` runs it. The forebay there needs the store
//! `memory` or `embedded`. Its keys `alone:0` to `alone:999` are written.

use std::time::{Duration, Instant};

use forebay_client::{Client, Error, Leases, Options, Transaction};

const KEYS: usize = 1000;
const AT_WORK: Duration = Duration::from_secs(3);

async fn run(address: String) -> Result<(), Error> {
    let client = Options::new(address).leases(Leases::Endless).connect().await?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("alone:{n}")).collect();
    let set = async |tx: Transaction| keys.iter().try_for_each(|key| tx.set(key, "12345678"));
    client.transaction::<_, Error, _>(set).await?;
    let all = async |tx: Transaction| tx.get_many(&keys).await;
    client.transaction(all).await?;
    report(&client, &keys, "reads of four keys", 0).await?;
    report(&client, &keys, "commits of one key", 1).await
}

async fn report(client: &Client, keys: &[String], what: &str, writes: usize) -> Result<(), Error> {
    let (began, before, mut count) = (Instant::now(), client.statistics(), 0usize);
    while began.elapsed() < AT_WORK {
        for _ in 0..100 {
            let four: [&String; 4] = std::array::from_fn(|n| &keys[(count * 7 + n * 251) % KEYS]);
            let body = async |tx: Transaction| {
                tx.get_many(&four).await?;
                four.iter().take(writes).try_for_each(|key| tx.set(key, "87654321"))
            };
            client.transaction::<_, Error, _>(body).await?;
            count += 1;
        }
    }
    let (after, seconds) = (client.statistics(), began.elapsed().as_secs_f64());
    println!("{what}: {:.0} a second, {} without a message", count as f64 / seconds, after.alone - before.alone);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let Some(address) = std::env::args().nth(1) else {
        return eprintln!("give the address of a forebay: host:port");
    };
    if let Err(error) = run(address).await {
        eprintln!("{error}");
    }
}
