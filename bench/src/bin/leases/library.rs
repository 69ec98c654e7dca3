//! Transactions of the client library.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use forebay::lease::Leases;
use forebay_client::{Client, Error, Level, Options};

use crate::client::{Count, Draw, KNOWN_AT_ONCE, Timed, Window, key, known};
use crate::{Failed, Load};

/// The sessions of one client process.
pub async fn run(
    load: &Load,
    address: SocketAddr,
    number: u64,
    leases: Option<Leases>,
    window: Window,
) -> Result<Count, Failed> {
    let options = Options::new(address.to_string());
    let client = leases.map_or(options.clone(), |leases| options.leases(leases));
    let level = load.bounded_ms.map_or(Level::Session, |ms| Level::Bounded(Duration::from_millis(ms)));
    let client = client.level(level).connect().await?;
    for keys in known(load).chunks(KNOWN_AT_ONCE) {
        client.transaction(async |tx| tx.get_many(keys).await.map(drop)).await?;
    }
    let one_by_one = load.one_by_one;
    let count = Rc::new(RefCell::new(Count::default()));
    let failed = Rc::new(RefCell::new(None));
    let sessions = tokio::task::LocalSet::new();
    for session in 0..load.sessions as u64 {
        let (client, count, failed) = (client.session(), count.clone(), failed.clone());
        let mut draw = Draw::new(load, number << 32 | session)?;
        sessions.spawn_local(async move {
            while let Some(counts) = window.counts() {
                let work = draw.next();
                let timed = Timed::begin();
                let attempts = Cell::new(0);
                let done = client
                    .transaction(async |tx| {
                        attempts.set(attempts.get() + 1);
                        match one_by_one {
                            true => {
                                for key in &work.keys {
                                    tx.get(key).await?;
                                }
                            }
                            false => drop(tx.get_many(&work.keys).await?),
                        }
                        if !work.only_reads {
                            work.keys.iter().try_for_each(|key| tx.set(key, &work.document))?;
                        }
                        Ok::<(), Error>(())
                    })
                    .await;
                if let Err(error) = done {
                    *failed.borrow_mut() = Some(error);
                    return;
                }
                if counts {
                    count.borrow_mut().ended(work.only_reads, attempts.get() - 1, timed.took());
                }
            }
        });
    }
    let (before, after) = sessions
        .run_until(async {
            window.begins().await;
            let before = client.statistics();
            window.ends().await;
            (before, client.statistics())
        })
        .await;
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let mut count = count.borrow().clone();
    (count.alone, count.fetched) = (after.alone - before.alone, after.missed - before.missed);
    Ok(count)
}

/// Read-only transactions a second of one session on one thread, all of whose copies are there.
pub fn local_rate(load: &Load, address: SocketAddr, time: Duration) -> Result<f64, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Options::new(address.to_string()).connect().await?;
        let keys: Vec<String> = (0..load.keys).map(key).collect();
        client.transaction(async |tx| tx.get_many(&keys).await.map(drop)).await?;
        let (began, before) = (Instant::now(), client.statistics());
        while began.elapsed() < time {
            read_some(&client, &keys, load.width).await?;
        }
        let (took, after) = (began.elapsed().as_secs_f64(), client.statistics());
        let (alone, missed) = (after.alone - before.alone, after.missed - before.missed);
        match missed {
            0 => Ok(alone as f64 / took),
            missed => Err(format!("{missed} documents were fetched: these are not local transactions").into()),
        }
    })
}

/// Transactions over all keys once, `width` at a time.
async fn read_some(client: &Client, keys: &[String], width: usize) -> Result<(), Error> {
    for keys in keys.chunks_exact(width) {
        client.transaction(async |tx| tx.get_many(keys).await.map(drop)).await?;
    }
    Ok(())
}
