//! PostgreSQL as a store: each call is a task, so that a caller that goes away changes nothing.

use std::sync::Arc;

use forebay::change::Change;
use forebay::error::Unavailable;
use forebay::key::KeyRef;
use forebay::runtime::tokio::in_long_steps;
use forebay::store::figures::StoreFigures;
use forebay::store::{Caps, Commit, CommitOutcome, Form, GivenId, Outside, ReadError, ReadWithIds, Resolved, Store};
use forebay::txn::GROUP_COMMITS_MAX;
use forebay::{Key, Read, TxnId, Value, Version};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::database::{Inner, unavailable};
use super::given;
use super::session::Session;
use crate::sql::remembered;

/// A PostgreSQL database as the store; one forebay per database.
pub struct Postgres {
    pub(super) inner: Arc<Inner>,
    pub(super) tokio: Handle,
}

impl Postgres {
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

impl Store for Postgres {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: !self.inner.is_mapped, applies: true }
    }

    fn has_documents(&self) -> bool {
        !self.inner.is_mapped || self.inner.named().is_some()
    }

    fn owns(&self, key: &Key) -> bool {
        self.inner.is_document(key)
    }

    fn name(&self) -> String {
        self.inner.name.clone()
    }

    fn incarnation(&self) -> u64 {
        self.inner.identity.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let keys = keys.to_vec();
        let read = self.run(|inner| async move {
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            let began = Instant::now();
            let read = inner.reads(&keys, bytes_max).await;
            inner.counted.read(began.elapsed(), read.as_ref().map_or(keys.len(), Vec::len), read.is_ok());
            read
        });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        let asked = asked.to_vec();
        let read = self.run(|inner| async move { inner.reads_with_ids(&asked).await.map(Some) });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let (count, group) = (group.len(), group.to_vec());
        let wide = group.iter().map(|commit| commit.writes.len()).sum::<usize>() > GROUP_COMMITS_MAX;
        let committed = self.run(move |inner| async move {
            let work = async move {
                let began = Instant::now();
                let outcomes = inner.commit(&group).await;
                inner.counted.group(began.elapsed(), &outcomes);
                outcomes
            };
            // To sort and encode thousands of documents takes long.
            if wide { in_long_steps(Box::pin(work)).await } else { work.await }
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
        self.inner.rows().and_then(|rows| rows.lane(key))
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        self.inner.rows().map_or_else(Vec::new, |rows| rows.references(key, changes))
    }

    fn refuses(&self, commit: &Commit) -> Option<String> {
        self.inner.rows().and_then(|rows| rows.refuses(commit))
    }

    fn catalogue(&self) -> Option<String> {
        let rows = self.inner.rows();
        remembered::text(&self.inner.place, rows.as_ref().map_or(&[], |rows| &rows.tables))
    }

    fn acknowledged(&self) -> Vec<TxnId> {
        self.inner.identity.acknowledged()
    }

    fn as_read_now(&self, key: &Key, version: Version) -> Version {
        match self.inner.is_document(key) {
            true => version,
            false => Version { incarnation: self.incarnation(), ..version },
        }
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
        let scanned = self.run(move |inner| async move { inner.scan(space, after.as_ref(), limit).await });
        Box::pin(async move { scanned.await.map_err(unavailable)? })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        let counted = self.run(move |inner| async move { inner.count(space).await });
        Box::pin(async move { counted.await.map_err(unavailable)? })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        let spaces: Vec<u8> = spaces.to_vec();
        let cleared = self.run(move |inner| async move { inner.clear(&spaces, version).await });
        Box::pin(async move { cleared.await.and_then(|cleared| cleared).map_err(Unavailable) })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        let asked = self.run(move |inner| async move { inner.expired(now_ms, limit).await });
        Box::pin(async move { asked.await.map_err(unavailable)? })
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        let asked = self.run(|inner| async move { inner.outside().await });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn reload(&self) -> BoxFuture<'_, Result<(), String>> {
        let reloaded = self.run(|inner| async move { inner.reload().await });
        Box::pin(async move { reloaded.await.and_then(|reloaded| reloaded) })
    }

    fn is_altered(&self) -> bool {
        self.inner.rows().is_some_and(|rows| rows.is_altered())
    }

    fn sync(&self) -> Option<u64> {
        self.inner.sync()
    }

    fn unwatched(&self) -> Vec<String> {
        self.inner.rows().map_or_else(Vec::new, |rows| rows.unwatched.names.clone())
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        let rows = self.inner.rows().filter(|rows| !rows.unwatched.names.is_empty())?;
        rows.unwatched.places[rows.table_of(&key.to_key())?]
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let checks = checks.to_vec();
        let checked = self.run(move |inner| async move { inner.overtaken(&checks).await });
        Box::pin(async move { checked.await.map_err(unavailable)? })
    }

    fn figures(&self) -> Option<StoreFigures> {
        Some(self.inner.figures())
    }

    fn form(&self, key: &Key) -> Form {
        self.inner.rows().map_or(Form::Document, |rows| rows.form(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.inner.rows().map_or_else(Vec::new, |rows| rows.beside(key))
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.inner.rows().and_then(|rows| rows.text_of(key, value))
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        self.inner.rows().and_then(|rows| rows.changes_of_text(key, text))
    }

    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        match self.inner.rows() {
            Some(rows) => rows.as_stored(key, change),
            None => change,
        }
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        // What was acknowledged is durable: every commit waits for the server's disk.
        Box::pin(async { Ok(()) })
    }
}
