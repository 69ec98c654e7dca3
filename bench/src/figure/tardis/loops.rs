//! Closed loops of single commands, where a live workload would mix what is to be told apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_workload::client::Client;

use super::site::Site;
use crate::figure::Failed;

/// The nth command of all connections together.
pub(super) type Command = Arc<dyn Fn(u64) -> Vec<String> + Send + Sync>;

/// Each of `connections` sends the next command as soon as it has its reply; how many a second.
pub(super) fn closed(
    site: &Site,
    address: &str,
    connections: usize,
    time: Duration,
    command: Command,
) -> Result<f64, Failed> {
    let next = Arc::new(AtomicU64::new(0));
    let (began, mut count) = (Instant::now(), 0);
    site.runtime.block_on(async {
        let client = |_| tokio::spawn(one(address.to_owned(), began + time, next.clone(), command.clone()));
        for client in (0..connections).map(client).collect::<Vec<_>>() {
            count += client.await??;
        }
        Ok::<(), Failed>(())
    })?;
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

async fn one(address: String, until: Instant, next: Arc<AtomicU64>, command: Command) -> Result<u32, String> {
    let mut client = Client::connect(&address).await.map_err(|error| error.to_string())?;
    let mut count = 0;
    while Instant::now() < until {
        let words = command(next.fetch_add(1, Ordering::Relaxed));
        client.demand(&words).await.map_err(|error| error.to_string())?;
        count += 1;
    }
    Ok(count)
}
