//! SQLite as a store: each call is a task, so that a caller that goes away changes nothing.

use std::sync::Arc;

use forebay::change::Change;
use forebay::error::Unavailable;
use forebay::key::KeyRef;
use forebay::store::figures::{Connections, StoreFigures};
use forebay::store::portion::Portion;
use forebay::store::{Caps, Commit, CommitOutcome, Form, GivenId, Outside, ReadError, ReadWithIds, Resolved, Store};
use forebay::{Key, Read, TxnId, Value, Version};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::connection::PAGES_KIB;
use super::database::Database;
use super::mapped::Mapped;
use super::read_failed::unavailable;
use super::ready::Ready;
use super::rows::catalogue::Looked;
use super::{commit, given};
use crate::error::OpenError;
use crate::options::Options;
use crate::sql::failure::Failure;
use crate::sql::remembered;

/// A file as the store; one forebay per file.
pub struct Sqlite {
    database: Arc<Database>,
    tokio: Handle,
}

impl Sqlite {
    /// Opens the file, making forebay's tables if they are not there. To be called in the context of a tokio runtime,
    /// which has to live as long as the store.
    pub async fn open(options: Options) -> Result<Sqlite, OpenError> {
        Sqlite::take(Ready::prepare(options).await?).await
    }

    /// Takes a file that is ready.
    pub(super) async fn take(ready: Ready) -> Result<Sqlite, OpenError> {
        Ok(Sqlite { database: Arc::new(ready.take().await?), tokio: Handle::current() })
    }

    /// The mapped tables, as they were looked up last.
    fn looked(&self) -> Option<Arc<Looked>> {
        self.database.mapped.as_ref().map(Mapped::looked)
    }

    /// Runs `work` as a task, so that it goes on if the caller goes away.
    fn run<T, W>(&self, work: impl FnOnce(Arc<Database>) -> W) -> BoxFuture<'static, Result<T, String>>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let task = self.tokio.spawn(work(self.database.clone()));
        Box::pin(async move { task.await.map_err(|error| format!("the driver's task ended: {error}")) })
    }
}

impl Store for Sqlite {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: self.database.mapped.is_none(), applies: true }
    }

    fn has_documents(&self) -> bool {
        self.database.mapped.as_ref().is_none_or(|mapped| mapped.wanted.named.is_some())
    }

    fn owns(&self, key: &Key) -> bool {
        self.database.is_document(key)
    }

    fn name(&self) -> String {
        self.database.name.clone()
    }

    fn incarnation(&self) -> u64 {
        self.database.identity.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let keys = keys.to_vec();
        let read = self.run(move |database| async move {
            let (began, asked) = (Instant::now(), keys.len());
            // Before the question: a document that is deleted after it has a later one.
            let absences: Vec<Version> = keys.iter().map(|key| database.identity.absence(key)).collect();
            let read = database
                .reading(move |database, connection| {
                    let (mut reads, mut portion) = (Vec::with_capacity(keys.len()), Portion::new(bytes_max));
                    for (key, absence) in keys.iter().zip(absences) {
                        let read = database.get(connection, key, absence)?;
                        portion.count(&read);
                        reads.push(read);
                        if !portion.goes_on() {
                            break;
                        }
                    }
                    Ok(reads)
                })
                .await;
            database.counted.read(began.elapsed(), read.as_ref().map_or(asked, Vec::len), read.is_ok());
            read
        });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        let asked = asked.to_vec();
        let read = self.run(move |database| async move {
            let absences: Vec<Version> = asked.iter().map(|(key, _)| database.identity.absence(key)).collect();
            let read = database.reading(move |database, connection| {
                let mut reads = Vec::with_capacity(asked.len());
                for ((key, ids), absence) in asked.into_iter().zip(absences) {
                    let read = database.get(connection, &key, absence)?;
                    let mut applied = Vec::new();
                    for id in ids {
                        if commit::known(connection, id)? == Some(true) {
                            applied.push(id);
                        }
                    }
                    reads.push((read, applied));
                }
                Ok(Some(reads))
            });
            read.await
        });
        Box::pin(async move { read.await.map_err(unavailable)? })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let (count, group) = (group.len(), group.to_vec());
        let committed = self.run(move |database| async move {
            let (began, patience) = (Instant::now(), database.patience(&group));
            let outcomes = database.writing(patience, move |database, slot| database.commit(slot, &group)).await;
            let outcomes = outcomes.unwrap_or_else(|why| vec![CommitOutcome::Unavailable(why); count]);
            database.counted.group(began.elapsed(), &outcomes);
            outcomes
        });
        Box::pin(async move { committed.await.unwrap_or_else(|why| vec![CommitOutcome::Unknown(why); count]) })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(async move {
            let resolved = self.outcomes(&[id]).await?;
            resolved.first().copied().ok_or_else(|| Unavailable("no outcome".into()))
        })
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        let ids = ids.to_vec();
        let asked = self.run(move |database| async move {
            let patience = database.timeout;
            database
                .writing(patience, move |database, slot| database.outcomes(slot, &ids))
                .await
                .and_then(|known| known)
        });
        Box::pin(async move { asked.await.and_then(|resolved| resolved).map_err(Unavailable) })
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        let asked =
            self.run(|database| async move { database.reading(|_, connection| Ok(given::all(connection)?)).await });
        Box::pin(async move { asked.await.map_err(Unavailable)?.map_err(|error| Unavailable(error.to_string())) })
    }

    fn catalogue(&self) -> Option<String> {
        let looked = self.looked();
        remembered::text(&self.database.place, looked.as_ref().map_or(&[], |looked| &looked.tables.tables))
    }

    fn as_read_now(&self, key: &Key, version: Version) -> Version {
        match self.database.is_document(key) {
            true => version,
            false => Version { incarnation: self.incarnation(), ..version },
        }
    }

    /// Rows of a table with constraints or triggers are applied in one order, together with those of all tables that
    /// foreign keys join to it.
    fn lane(&self, key: &Key) -> Option<u32> {
        self.looked().and_then(|looked| looked.tables.lane(key))
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        self.looked().map_or_else(Vec::new, |looked| looked.tables.references(key, changes))
    }

    fn refuses(&self, commit: &Commit) -> Option<String> {
        self.looked().and_then(|looked| looked.tables.refuses(commit))
    }

    fn form(&self, key: &Key) -> Form {
        self.looked().map_or(Form::Document, |looked| looked.tables.form(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.looked().map_or_else(Vec::new, |looked| looked.tables.beside(key))
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.looked().and_then(|looked| looked.tables.text_of(key, value))
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        self.looked().and_then(|looked| looked.tables.changes_of_text(key, text))
    }

    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        match self.looked() {
            Some(looked) => looked.tables.as_stored(key, change),
            None => change,
        }
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        let asked = self.run(|database| async move { database.outside().await });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn sync(&self) -> Option<u64> {
        self.database.watch().map(|(_, watch)| watch.asked().one())
    }

    fn reload(&self) -> BoxFuture<'_, Result<(), String>> {
        let looked = self.run(|database| async move {
            let look = |database: &Database, connection: &rusqlite::Connection| match &database.mapped {
                Some(mapped) => database.tables(mapped, connection).map(|_| ()),
                None => Err(unavailable("this store has no tables that could be altered".into()).into()),
            };
            database.reading(look).await.map_err(|error| error.to_string())
        });
        Box::pin(async move { looked.await.and_then(|looked| looked) })
    }

    fn is_altered(&self) -> bool {
        self.database.mapped.as_ref().is_some_and(|mapped| mapped.is_altered())
    }

    fn unwatched(&self) -> Vec<String> {
        self.looked().map_or_else(Vec::new, |looked| looked.tables.unwatched.names.clone())
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        let looked = self.looked().filter(|looked| !looked.tables.unwatched.names.is_empty())?;
        looked.tables.unwatched.places[looked.tables.table_of(&key.to_key())?]
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let checks = checks.to_vec();
        let checked = self.run(move |database| async move {
            database.reading(move |database, connection| database.overtaken(connection, &checks)).await
        });
        Box::pin(async move { checked.await.map_err(unavailable)? })
    }

    fn keep_ids_from(&self, oldest: Option<TxnId>) {
        self.database.ids.keep_from(oldest);
    }

    fn acknowledged(&self) -> Vec<TxnId> {
        self.database.identity.acknowledged()
    }

    fn went_back(&self) -> bool {
        self.database.identity.went_back()
    }

    fn is_another(&self) -> bool {
        self.database.another
    }

    fn owned_since(&self) -> Option<&str> {
        self.database.identity.owned_since()
    }

    fn fenced(&self) -> Option<&str> {
        self.database.identity.fenced()
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let after = after.filter(|key| key.space() == space).cloned();
        let scanned = self.run(move |database| async move {
            database.reading(move |database, connection| database.scan(connection, space, after.as_ref(), limit)).await
        });
        Box::pin(async move { scanned.await.map_err(unavailable)? })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        let counted = self.run(move |database| async move {
            database.reading(move |database, connection| database.count(connection, space)).await
        });
        Box::pin(async move { counted.await.map_err(unavailable)? })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        let spaces = spaces.to_vec();
        let cleared = self.run(move |database| async move {
            let patience = database.timeout;
            let cleared =
                database.writing(patience, move |database, slot| database.clear(slot, &spaces, version)).await;
            cleared.and_then(|cleared| cleared.map_err(Failure::why))
        });
        Box::pin(async move { cleared.await.and_then(|cleared| cleared).map_err(Unavailable) })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        let asked = self.run(move |database| async move {
            database.reading(move |database, connection| database.expired(connection, now_ms, limit)).await
        });
        Box::pin(async move { asked.await.map_err(unavailable)? })
    }

    /// Whether it takes writes: a file that another program has locked, or that is read-only, does not.
    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        let asked = self.run(|database| async move {
            let patience = database.timeout;
            let pinged = database.writing(patience, |database, slot| database.write(slot, |_| Ok(()))).await;
            pinged.and_then(|pinged| pinged.map_err(Failure::why))
        });
        Box::pin(async move { asked.await.and_then(|pinged| pinged).map_err(Unavailable) })
    }

    fn figures(&self) -> Option<StoreFigures> {
        let (database, load) = (&self.database, |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        });
        let counted = &database.counted;
        Some(StoreFigures {
            connections: Connections::default(),
            commits_on_their_way: database.ids.on_their_way() as u64,
            reads: counted.reads.snapshot(),
            keys_read: load(&counted.keys_read),
            reads_failed: load(&counted.reads_failed),
            groups: counted.groups.snapshot(),
            commits: std::array::from_fn(|at| load(&counted.outcomes[at])),
            outside: database.watch().map(|(_, watch)| watch.figures("triggers")),
        })
    }

    /// The pages that its connections keep.
    fn memory_bytes(&self) -> usize {
        ((self.database.readers_max + 2) * PAGES_KIB) << 10
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        // What was acknowledged is durable: every commit waits for the disk.
        Box::pin(async { Ok(()) })
    }
}
