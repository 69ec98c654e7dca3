//! A database that knows its owners, and takes commits of the last one alone. It applies changes to what it holds, as
//! PostgreSQL does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forebay::error::Unavailable;
use forebay::read::Read;
use forebay::runtime::Runtime;
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, ReadWithIds, Resolved, Store};
use forebay::{Key, TxnId, Value, Version};
use futures_util::future::BoxFuture;

use crate::applying::Applying;

/// A database that knows its owners, as PostgreSQL does.
pub struct Database {
    table: Applying,
    /// Owner and run, by incarnation from 1 on.
    owners: Mutex<Vec<(u128, u64)>>,
}

impl Database {
    pub fn new() -> Arc<Database> {
        Arc::new(Database { table: Applying { inner: Arc::new(Memory::new()) }, owners: Mutex::default() })
    }

    fn owners(&self) -> MutexGuard<'_, Vec<(u128, u64)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it over a network, as `owner` whose journal has noted the incarnation `noted`.
    pub fn open(
        self: &Arc<Database>,
        runtime: &Runtime,
        network: &Arc<Network>,
        owner: u128,
        noted: u64,
    ) -> Arc<Opened> {
        let run = runtime.random();
        let mut owners = self.owners();
        let others = owners.iter().skip(noted as usize).any(|(other, _)| *other != owner);
        owners.push((owner, run));
        let opened = Arc::new(Opened {
            runtime: runtime.clone(),
            database: self.clone(),
            network: network.clone(),
            run,
            incarnation: owners.len() as u64,
            since: (noted > 0 && others).then(|| "another".to_owned()),
            fenced: OnceLock::new(),
        });
        drop(owners);
        let (weak, clock) = (Arc::downgrade(&opened), runtime.clone());
        runtime.spawn(async move {
            while let Some(opened) = weak.upgrade() {
                let _ = opened.ping().await;
                drop(opened);
                clock.sleep(Duration::from_secs(1)).await;
            }
        });
        opened
    }

    pub async fn value(&self, key: &Key) -> Option<Value> {
        let read = self.table.get(std::slice::from_ref(key)).await;
        read.ok().and_then(|mut reads| reads.pop()).and_then(|read| read.value)
    }
}

/// Between an owner and its database.
#[derive(Default)]
pub struct Network {
    pub cut: AtomicBool,
}

/// The database as one process has it open.
pub struct Opened {
    runtime: Runtime,
    database: Arc<Database>,
    network: Arc<Network>,
    run: u64,
    incarnation: u64,
    since: Option<String>,
    fenced: OnceLock<String>,
}

impl Opened {
    /// Goes over the network, one way; false if that is cut.
    async fn passes(&self) -> bool {
        self.runtime.sleep(Duration::from_micros(self.runtime.random() % 400)).await;
        !self.network.cut.load(Ordering::SeqCst)
    }

    /// Whether the database takes it, now that it has arrived: it refuses what is not its owner's.
    fn is_ours(&self) -> bool {
        self.database.owners().last().is_some_and(|(_, run)| *run == self.run)
    }

    /// Asks for what `answer` makes of the database, if it is ours.
    async fn ask<'a, T>(
        &'a self,
        answer: impl FnOnce(&'a Applying) -> BoxFuture<'a, T> + Send,
    ) -> Result<T, Unavailable> {
        let gone = || Err(Unavailable("the network is cut".to_owned()));
        if !self.passes().await {
            return gone();
        }
        let answer = match self.is_ours() {
            true => Some(answer(&self.database.table).await),
            false => None,
        };
        if !self.passes().await {
            return gone();
        }
        answer.ok_or_else(|| {
            let _ = self.fenced.set("another owner".to_owned());
            Unavailable("another owner".to_owned())
        })
    }
}

impl Store for Opened {
    fn caps(&self) -> Caps {
        Caps { ordered: false, ..self.database.table.caps() }
    }

    fn name(&self) -> String {
        "contested".to_owned()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(async move { self.ask(|table| table.get_within(keys, bytes_max)).await? })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        Box::pin(async move { self.ask(|table| table.get_with_ids(asked)).await? })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let all = |outcome: CommitOutcome| vec![outcome; group.len()];
        Box::pin(async move {
            if !self.passes().await {
                return all(CommitOutcome::Unavailable("the network is cut".to_owned()));
            }
            match self.ask(|table| table.commit(group)).await {
                Ok(outcomes) => outcomes,
                Err(Unavailable(why)) if self.fenced().is_some() => all(CommitOutcome::Unavailable(why)),
                Err(Unavailable(why)) => all(CommitOutcome::Unknown(why)),
            }
        })
    }

    /// Whoever the owner is: what was sent may have arrived before.
    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(async move {
            let gone = || Err(Unavailable("the network is cut".to_owned()));
            if !self.passes().await {
                return gone();
            }
            let resolved = self.database.table.outcome(id).await;
            if self.passes().await { resolved } else { gone() }
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.ask(|_| Box::pin(std::future::ready(()))))
    }

    fn owned_since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    fn fenced(&self) -> Option<&str> {
        self.fenced.get().map(String::as_str)
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move { self.ask(|table| table.scan(space, after, limit)).await? })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(async move { self.ask(|table| table.count(space)).await? })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move { self.ask(|table| table.clear(spaces, version)).await? })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(async move { self.ask(|table| table.expired(now_ms, limit)).await? })
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async { Ok(()) })
    }
}
