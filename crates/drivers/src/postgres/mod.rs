//! PostgreSQL as the store.
//!
//! * [`address`] says where it is, `tls` how it is reached.
//! * `pool`, `session`: a small fixed set of connections, reads pipelined on shared ones; `reading`: how one that waits
//!   for a lock keeps nobody else waiting.
//! * `open`, `owners`, `identity`, `keeper`: one forebay per database, in an incarnation of its own; who had it before;
//!   what a new connection has to find there; what goes on behind.
//! * `documents`: the table that forebay owns, where no mapping names another.
//! * [`mapping`] makes keys of rows of tables that exist already; `outside`: what others write to these, as triggers
//!   note it; `decoding`: the same out of the server's log; [`setup`] and `install` prepare a database for it.
//! * `commit`, `ids`, `classify`: a commit is one message and one transaction, whose id is entered by a plain INSERT;
//!   what an error says about it; what became of one that was not answered; `with_ids`: what a read has in it of those.
//! * [`plain`]: a connection as any other program has it.
//!
//! All waiting for the server is bounded by one timeout, connecting and handshakes included, as long as the server does
//! not acknowledge, meanwhile, what it is sent of something large (`wire`); what is large has the time to be sent. A
//! call runs in a task of its own: a caller that goes away changes nothing.

pub mod address;
mod classify;
mod clear;
mod commit;
mod decoding;
mod documents;
mod error;
mod figures;
mod given;
mod identity;
mod ids;
mod install;
mod keeper;
pub mod mapping;
mod open;
mod outside;
mod owners;
pub mod plain;
mod pool;
mod reading;
mod session;
pub mod setup;
mod sql;
mod tls;
mod wire;
mod with_ids;

use std::sync::Arc;
use std::time::Duration;

use forebay::change::Change;
use forebay::error::Unavailable;
use forebay::key::KeyRef;
use forebay::store::figures::StoreFigures;
use forebay::store::{
    Caps, Commit, CommitOutcome, Form, GivenId, NAMES_BYTES_MAX, Outside, ReadError, ReadWithIds, Resolved, Store,
};
use forebay::{Key, Read, TxnId, Value, Version};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use address::Address;
use clear::Clears;
pub use error::OpenError;
use figures::Counted;
use identity::Identity;
use ids::Ids;
use mapping::Mapping;
use mapping::remembered::Place;
pub use mapping::remembered::{Remembered, catalogue};
use mapping::rows::Rows;
pub use outside::OutsideBy;
use outside::Watch;
pub use owners::Known;
use pool::{Plan, Pool};
use reading::Locked;
use session::Session;
use tls::Tls;

/// Time for what goes over a whole table: counting and clearing.
const WHOLE_TABLE_TIME: Duration = Duration::from_secs(60);

/// Bytes of names that end an answer, as a parameter.
const NAMES_BYTES: i64 = NAMES_BYTES_MAX as i64;

/// How a PostgreSQL is used.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Where it is.
    pub address: Address,
    /// The password, if the server asks for one.
    pub password: Option<Vec<u8>>,
    /// Most time for one call, connecting and handshakes included.
    pub timeout: Duration,
    /// Most time for the first connection, where that is longer.
    pub first: Duration,
    /// Most time for all that opening asks behind it.
    pub opening: Duration,
    /// Connections that share all reads.
    pub readers: usize,
    /// Commits at a time, each on a connection of its own.
    pub writers: usize,
    /// Which keys are rows of which tables; none: all keys are documents in a table of forebay's own.
    pub mappings: Vec<Mapping>,
    /// How what others write is seen.
    pub outside: OutsideBy,
    /// Pause between two looks at what others have written.
    pub outside_pause: Duration,
    /// What is known of it since an earlier opening.
    pub known: Known,
}

impl PostgresOptions {
    /// As the program has it by default.
    pub fn new(address: Address) -> PostgresOptions {
        PostgresOptions {
            address,
            password: None,
            timeout: Duration::from_millis(300),
            first: open::FIRST,
            opening: open::OPENING,
            readers: 4,
            writers: 16,
            mappings: Vec::new(),
            outside: OutsideBy::Triggers,
            outside_pause: Duration::from_millis(50),
            known: Known::default(),
        }
    }
}

/// A PostgreSQL database as the store; one forebay per database.
pub struct Postgres {
    inner: Arc<Inner>,
    tokio: Handle,
}

/// What the driver's tasks share.
struct Inner {
    pool: Pool,
    identity: Arc<Identity>,
    ids: Ids,
    timeout: Duration,
    name: String,
    keeper_woken: Arc<Notify>,
    clears: Clears,
    watch: Watch,
    counted: Counted,
    /// Tables that somebody else has locked.
    locked: Locked,
    /// Which database it is.
    place: Place,
    /// It is surely none of the copies of the one that was known.
    another: bool,
    /// The mapped tables; without, documents lie in a table of our own.
    rows: Option<Rows>,
}

impl Postgres {
    /// Opens the database, making forebay's schema if it is not there. To be called in the context of a tokio runtime,
    /// which has to live as long as the store.
    pub async fn open(options: PostgresOptions) -> Result<Postgres, OpenError> {
        let PostgresOptions { address, password, timeout, first, readers, writers, mappings, outside, .. } = options;
        let (outside_pause, known) = (options.outside_pause, options.known);
        let tls = Tls::open(&address)?;
        let config = |timeout| open::config_of(&address, password.as_deref(), timeout);
        let (first, began) = (first.max(timeout), Instant::now());
        let keeper = open::connect(&address, &config(first), &tls, "forebay opening", first).await?;
        if began.elapsed() > timeout {
            let (took_ms, store_timeout_ms) = (began.elapsed().as_millis(), timeout.as_millis());
            tracing::warn!(
                took_ms,
                store_timeout_ms,
                "PostgreSQL was slow to let us in: a call that takes so long fails"
            );
        }
        let opening = async {
            let opened = open::open(keeper, &address, &known).await?;
            let mut rows = match mappings.is_empty() {
                true => None,
                false => Some(open::look_up(&opened.keeper.client, &address, &mappings, &known).await?),
            };
            open::warn_of_connections(&opened.keeper.client, &address, (readers, writers)).await?;
            let outside = open::outside(&opened.keeper.client, &address, rows.as_ref(), outside).await?;
            if let Some(rows) = &mut rows {
                rows.decoded = outside == OutsideBy::Decoding;
            }
            Ok((opened, rows, outside))
        };
        let (opened, rows, outside) = open::within(options.opening, &address, opening).await?;
        let config = config(timeout);
        let prepared = rows.as_ref().map_or_else(Vec::new, Rows::prepared);
        let plan = Plan { readers, writers, prepared, lock_wait: reading::lock_wait(timeout) };
        let identity = Arc::new(Identity::new(&opened, &known, writers));
        let inner = Arc::new(Inner {
            pool: Pool::new(config, tls, identity.clone(), plan),
            identity,
            ids: Ids::new(opened.floor),
            timeout,
            name: format!("{} {}", opened.server, address.place()),
            keeper_woken: Arc::new(Notify::new()),
            clears: Clears::default(),
            watch: Watch::new(outside, outside_pause),
            counted: Counted::default(),
            locked: Locked::default(),
            place: opened.place,
            another: opened.another,
            rows,
        });
        tokio::spawn(keeper::keep(Arc::downgrade(&inner), opened.keeper));
        Ok(Postgres { inner, tokio: Handle::current() })
    }

    /// Runs `work` as a task, so that it goes on if the caller goes away.
    fn run<T, W>(&self, work: impl FnOnce(Arc<Inner>) -> W) -> BoxFuture<'static, Result<T, String>>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let task = self.tokio.spawn(work(self.inner.clone()));
        Box::pin(async move { task.await.map_err(|error| format!("the driver's task ended: {error}")) })
    }
}

fn no_answer_in(time: Duration) -> String {
    format!("PostgreSQL did not answer in {} ms", time.as_millis())
}

impl Inner {
    fn no_connection(&self) -> String {
        format!("PostgreSQL gave no connection in {} ms", self.timeout.as_millis())
    }

    fn no_answer(&self) -> String {
        no_answer_in(self.timeout)
    }
}

fn unavailable(why: String) -> ReadError {
    ReadError::Unavailable(Unavailable(why))
}

impl Store for Postgres {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: self.inner.rows.is_none(), applies: true }
    }

    fn name(&self) -> String {
        self.inner.name.clone()
    }

    fn incarnation(&self) -> u64 {
        self.inner.identity.incarnation()
    }

    fn get<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let keys = keys.to_vec();
        let read = self.run(|inner| async move {
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            let (rows, identity, keys) = (&inner.rows, &*inner.identity, &keys);
            let ask = |session: Arc<Session>| async move {
                match rows {
                    Some(rows) => rows.get(&session, identity, keys).await,
                    None => documents::get(&session, identity, keys).await,
                }
            };
            let began = Instant::now();
            let read = inner.read(inner.timeout, &inner.tables_of(keys.iter()), ask).await;
            inner.counted.read(began.elapsed(), keys.len(), read.is_ok());
            read
        });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        let asked = asked.to_vec();
        let read = self.run(|inner| async move {
            let (rows, identity, asked) = (&inner.rows, &*inner.identity, &asked);
            let ask = |session: Arc<Session>| async move {
                match rows {
                    Some(rows) => with_ids::rows(&session, identity, rows, asked).await,
                    None => with_ids::documents(&session, identity, asked).await,
                }
            };
            let tables = inner.tables_of(asked.iter().map(|(key, _)| key));
            inner.read(inner.timeout, &tables, ask).await.map(Some)
        });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let (count, group) = (group.len(), group.to_vec());
        let committed = self.run(|inner| async move {
            let began = Instant::now();
            let outcomes = inner.commit(&group).await;
            inner.counted.group(began.elapsed(), &outcomes);
            outcomes
        });
        Box::pin(async move { committed.await.unwrap_or_else(|why| vec![CommitOutcome::Unknown(why); count]) })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        let asked = self.run(move |inner| async move { inner.outcome(id).await });
        Box::pin(async move { asked.await.and_then(|resolved| resolved).map_err(Unavailable) })
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        let ids = ids.to_vec();
        let asked = self.run(move |inner| async move { inner.outcomes(&ids).await });
        Box::pin(async move { asked.await.and_then(|resolved| resolved).map_err(Unavailable) })
    }

    /// Rows of a table with constraints or triggers of its own are carried over in one order, together with those of
    /// all tables that foreign keys join to it.
    fn lane(&self, key: &Key) -> Option<u32> {
        self.inner.rows.as_ref().and_then(|rows| rows.lane(key))
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        self.inner.rows.as_ref().map_or_else(Vec::new, |rows| rows.references(key, changes))
    }

    fn refuses(&self, commit: &Commit) -> Option<String> {
        self.inner.rows.as_ref().and_then(|rows| rows.refuses(commit))
    }

    fn catalogue(&self) -> Option<String> {
        let tables = self.inner.rows.as_ref().map_or(&[][..], |rows| &rows.tables);
        mapping::remembered::text(&self.inner.place, tables)
    }

    fn acknowledged(&self) -> Vec<TxnId> {
        self.inner.identity.acknowledged()
    }

    fn went_back(&self) -> bool {
        self.inner.identity.went_back()
    }

    fn is_another(&self) -> bool {
        self.inner.another
    }

    fn owned_since(&self) -> Option<&str> {
        self.inner.identity.owned_since()
    }

    fn fenced(&self) -> Option<&str> {
        self.inner.identity.fenced()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        let asked = self.run(|inner| async move {
            let ask = |session: Arc<Session>| async move { Ok(session.client.batch_execute("SELECT").await?) };
            inner.read(inner.timeout, &[], ask).await
        });
        Box::pin(async move {
            match asked.await.map_err(Unavailable)? {
                Err(ReadError::Unavailable(error)) => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn keep_ids_from(&self, oldest: Option<TxnId>) {
        self.inner.ids.keep_from(oldest);
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        let asked = self.run(|inner| async move {
            inner.read(inner.timeout, &[], |session| async move { given::all(&session).await }).await
        });
        Box::pin(async move { asked.await.map_err(Unavailable)?.map_err(|error| Unavailable(error.to_string())) })
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let after = after.filter(|key| key.space() == space).cloned();
        let scanned = self.run(move |inner| async move {
            let (rows, after) = (&inner.rows, after.as_ref());
            let ask = |session: Arc<Session>| async move {
                let (client, number) = (&session.client, i16::from(space));
                if let Some(rows) = rows {
                    return if space == 0 { rows.scan(&session, after, limit).await } else { Ok(Vec::new()) };
                }
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let rows = match after {
                    Some(key) => client.query(sql::SCAN, &[&number, &key.name(), &limit, &NAMES_BYTES]).await?,
                    None => client.query(sql::SCAN_FIRST, &[&number, &limit, &NAMES_BYTES]).await?,
                };
                rows.iter().map(|row| Ok(Key::new(space, row.try_get(0)?))).collect()
            };
            inner.read(inner.timeout, &inner.all_tables(), ask).await
        });
        Box::pin(async move { scanned.await.map_err(unavailable)? })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        let counted = self.run(move |inner| async move {
            let rows = &inner.rows;
            let ask = |session: Arc<Session>| async move {
                if let Some(rows) = rows {
                    return if space == 0 { rows.count(&session).await } else { Ok(0) };
                }
                let row = session.client.query_one(sql::COUNT, &[&i16::from(space)]).await?;
                Ok(row.try_get::<_, i64>(0)? as u64)
            };
            inner.read_alone(WHOLE_TABLE_TIME, ask).await
        });
        Box::pin(async move { counted.await.map_err(unavailable)? })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        let spaces: Vec<u8> = spaces.to_vec();
        let cleared = self.run(move |inner| async move { inner.clear(&spaces, version).await });
        Box::pin(async move { cleared.await.and_then(|cleared| cleared).map_err(Unavailable) })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        let (now_ms, limit) = (i64::try_from(now_ms).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let asked = self.run(move |inner| async move {
            let ask = |session: Arc<Session>| async move {
                let rows = session.client.query(sql::EXPIRED, &[&now_ms, &limit, &NAMES_BYTES]).await?;
                let key = |row: &tokio_postgres::Row| {
                    let (space, name): (i16, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
                    Ok(Key::new(u8::try_from(space).unwrap_or_default(), name))
                };
                rows.iter().map(key).collect()
            };
            inner.read(inner.timeout, &inner.all_tables(), ask).await
        });
        Box::pin(async move { asked.await.map_err(unavailable)? })
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        let asked = self.run(|inner| async move { inner.outside().await });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let checks = checks.to_vec();
        let checked = self.run(move |inner| async move {
            let (rows, identity, checks) = (&inner.rows, &*inner.identity, &checks);
            let ask = |session: Arc<Session>| async move {
                if let Some(rows) = rows {
                    return rows.check(&session, checks).await;
                }
                let keys: Vec<Key> = checks.iter().map(|(key, _)| key.clone()).collect();
                let reads = documents::get(&session, identity, &keys).await?;
                let current = checks.iter().zip(&reads).map(|((_, version), read)| *version == read.version);
                Ok(keys.iter().zip(current).filter(|(_, current)| !current).map(|(key, _)| key.clone()).collect())
            };
            inner.read(inner.timeout, &inner.tables_of(checks.iter().map(|(key, _)| key)), ask).await
        });
        Box::pin(async move { checked.await.map_err(unavailable)? })
    }

    fn figures(&self) -> Option<StoreFigures> {
        Some(self.inner.figures())
    }

    fn form(&self, key: &Key) -> Form {
        self.inner.rows.as_ref().map_or(Form::Document, |rows| rows.form(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.inner.rows.as_ref().map_or_else(Vec::new, |rows| rows.beside(key))
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.inner.rows.as_ref().and_then(|rows| rows.text_of(key, value))
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        self.inner.rows.as_ref().map(|rows| rows.changes_of_text(key, text))
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        // What was acknowledged is durable: every commit waits for the server's disk.
        Box::pin(async { Ok(()) })
    }
}
