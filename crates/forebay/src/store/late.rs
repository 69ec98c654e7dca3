//! A store that could not be reached when the program started. It is opened by the first ping that gets through; until
//! then every call answers that it is away.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use super::figures::StoreFigures;
use super::{Caps, Commit, CommitOutcome, Form, GivenId, Outside, Read, ReadError, ReadWithIds, Resolved, Store};
use crate::change::Change;
use crate::error::Unavailable;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::value::Value;
use crate::version::{TxnId, Version};

/// Why a store can't be opened.
#[derive(Clone, Debug)]
pub enum NotOpened {
    /// It can't be reached.
    Unreachable(String),
    /// Another owner has it, and has had it since it was ours: for good, as [`Store::fenced`].
    Taken(String),
}

/// Opens the store.
pub type Open = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, NotOpened>> + Send + Sync>;

/// What is known of keys and changes while the store can't be asked; each answer as [`Store`] has it under the same
/// name.
pub trait Catalogue: Send + Sync {
    /// As [`Store::has_documents`].
    fn has_documents(&self) -> bool;

    /// As [`Store::owns`].
    fn owns(&self, key: &Key) -> bool;

    /// As [`Store::lane`].
    fn lane(&self, key: &Key) -> Option<u32>;

    /// As [`Store::references`].
    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key>;

    /// As [`Store::refuses`].
    fn refuses(&self, commit: &Commit) -> Option<String>;

    /// As [`Store::form`].
    fn form(&self, key: &Key) -> Form;

    /// As [`Store::beside`].
    fn beside(&self, key: &Key) -> Vec<Key>;

    /// As [`Store::text_of`].
    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>>;

    /// As [`Store::changes_of_text`].
    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>>;

    /// As [`Store::as_stored`].
    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change;
}

/// What answers where no connection is needed.
enum Known<'a> {
    Open(&'a dyn Store),
    Remembered(&'a dyn Catalogue),
}

/// Asks whoever of [`Known`] it is.
macro_rules! known {
    ($late:expr, $call:ident ( $($argument:expr),* )) => {
        match $late.known() {
            Known::Open(store) => store.$call($($argument),*),
            Known::Remembered(catalogue) => catalogue.$call($($argument),*),
        }
    };
}

/// A store that is opened late.
pub struct Late {
    caps: Caps,
    name: String,
    open: Open,
    /// What is known of it until then.
    catalogue: Box<dyn Catalogue>,
    opened: OnceLock<Arc<dyn Store>>,
    /// One attempt at a time.
    opening: AsyncMutex<()>,
    /// Why the last one failed.
    why: Mutex<String>,
    /// Who has taken it over.
    fenced: OnceLock<String>,
    /// Ids that the store has to keep, once it is there.
    kept: Mutex<Option<TxnId>>,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Late {
    /// A store called `name` that `open` will open, of which we know what it can do and what `catalogue` says; `why`
    /// it could not be opened by now. Its incarnation is 0 until then.
    pub fn new(caps: Caps, name: String, why: String, open: Open, catalogue: Box<dyn Catalogue>) -> Late {
        Late {
            caps,
            name,
            open,
            catalogue,
            opened: OnceLock::new(),
            opening: AsyncMutex::new(()),
            why: Mutex::new(why),
            fenced: OnceLock::new(),
            kept: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    fn inner(&self) -> Result<&Arc<dyn Store>, Unavailable> {
        let why = || Unavailable(self.why.lock().unwrap_or_else(PoisonError::into_inner).clone());
        self.opened.get().ok_or_else(why)
    }

    fn known(&self) -> Known<'_> {
        self.opened.get().map_or(Known::Remembered(&*self.catalogue), |store| Known::Open(&**store))
    }

    async fn open(&self) -> Result<(), Unavailable> {
        let _alone = self.opening.lock().await;
        if self.opened.get().is_some() {
            return Ok(());
        }
        if let Some(why) = self.fenced.get() {
            return Err(Unavailable(why.clone()));
        }
        match (self.open)().await {
            Ok(store) => {
                store.keep_ids_from(*self.kept.lock().unwrap_or_else(PoisonError::into_inner));
                tracing::info!(store = store.name(), "the store is reached for the first time");
                let _ = self.opened.set(store);
                let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
                for sender in waiting {
                    let _ = sender.send(());
                }
                Ok(())
            }
            Err(not) => {
                let (NotOpened::Unreachable(why) | NotOpened::Taken(why)) = &not;
                if matches!(not, NotOpened::Taken(_)) && !mutation::on(Fault::TakenTakenForAway) {
                    tracing::error!("{why}; this one answers NOTOWNER to reads and writes until it is started again");
                    let _ = self.fenced.set(why.clone());
                }
                self.why.lock().unwrap_or_else(PoisonError::into_inner).clone_from(why);
                Err(Unavailable(why.clone()))
            }
        }
    }
}

impl Store for Late {
    fn caps(&self) -> Caps {
        self.opened.get().map_or(self.caps, |store| store.caps())
    }

    fn has_documents(&self) -> bool {
        known!(self, has_documents())
    }

    fn owns(&self, key: &Key) -> bool {
        known!(self, owns(key))
    }

    fn name(&self) -> String {
        self.opened.get().map_or_else(|| self.name.clone(), |store| store.name())
    }

    fn incarnation(&self) -> u64 {
        self.opened.get().map_or(0, |store| store.incarnation())
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(async move { self.inner()?.get_within(keys, bytes_max).await })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        Box::pin(async move { self.inner()?.get_with_ids(asked).await })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            match self.inner() {
                Ok(store) => store.commit(group).await,
                Err(Unavailable(why)) => vec![CommitOutcome::Unavailable(why); group.len()],
            }
        })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(async move { self.inner()?.outcome(id).await })
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        Box::pin(async move { self.inner()?.outcomes(ids).await })
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        Box::pin(async move { self.inner()?.given().await })
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move { self.inner()?.scan(space, after, limit).await })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(async move { self.inner()?.count(space).await })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move { self.inner()?.clear(spaces, version).await })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(async move { self.inner()?.expired(now_ms, limit).await })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async {
            self.open().await?;
            self.inner()?.ping().await
        })
    }

    fn lane(&self, key: &Key) -> Option<u32> {
        known!(self, lane(key))
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        known!(self, references(key, changes))
    }

    fn refuses(&self, commit: &Commit) -> Option<String> {
        known!(self, refuses(commit))
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move { self.inner()?.check(checks).await })
    }

    fn form(&self, key: &Key) -> Form {
        known!(self, form(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        known!(self, beside(key))
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        known!(self, text_of(key, value))
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        known!(self, changes_of_text(key, text))
    }

    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        known!(self, as_stored(key, change))
    }

    fn catalogue(&self) -> Option<String> {
        self.opened.get().and_then(|store| store.catalogue())
    }

    fn keep_ids_from(&self, oldest: Option<TxnId>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = oldest;
        if let Some(store) = self.opened.get() {
            store.keep_ids_from(oldest);
        }
    }

    fn acknowledged(&self) -> Vec<TxnId> {
        self.opened.get().map_or_else(Vec::new, |store| store.acknowledged())
    }

    fn as_read_now(&self, key: &Key, version: Version) -> Version {
        self.opened.get().map_or(version, |store| store.as_read_now(key, version))
    }

    fn went_back(&self) -> bool {
        self.opened.get().is_some_and(|store| store.went_back())
    }

    fn is_another(&self) -> bool {
        self.opened.get().is_some_and(|store| store.is_another())
    }

    fn owned_since(&self) -> Option<&str> {
        self.opened.get().and_then(|store| store.owned_since())
    }

    fn fenced(&self) -> Option<&str> {
        match self.opened.get() {
            Some(store) => store.fenced(),
            None => self.fenced.get().map(String::as_str),
        }
    }

    fn figures(&self) -> Option<StoreFigures> {
        self.opened.get().and_then(|store| store.figures())
    }

    fn memory_bytes(&self) -> usize {
        self.opened.get().map_or(0, |store| store.memory_bytes())
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async {
            let (sender, opened) = oneshot::channel();
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
            if self.opened.get().is_none() {
                let _ = opened.await;
            }
            match self.inner() {
                Ok(store) => store.outside().await,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn sync(&self) -> Option<u64> {
        self.opened.get().and_then(|store| store.sync())
    }

    fn reload(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.inner().map_err(|Unavailable(why)| why)?.reload().await })
    }

    fn is_altered(&self) -> bool {
        self.opened.get().is_some_and(|store| store.is_altered())
    }

    fn unwatched(&self) -> Vec<String> {
        self.opened.get().map_or_else(Vec::new, |store| store.unwatched())
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        self.opened.get().and_then(|store| store.unwatched_place(key))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async move { self.inner()?.flush().await })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::store::memory::Memory;

    /// Knows one thing of everything.
    struct Numbered(u32);

    impl Catalogue for Numbered {
        fn has_documents(&self) -> bool {
            true
        }

        fn owns(&self, _: &Key) -> bool {
            false
        }

        fn lane(&self, _: &Key) -> Option<u32> {
            Some(self.0)
        }

        fn references(&self, key: &Key, _: &[Change]) -> Vec<Key> {
            vec![key.clone()]
        }

        fn refuses(&self, commit: &Commit) -> Option<String> {
            Some(format!("{} writes", commit.writes.len()))
        }

        fn form(&self, _: &Key) -> Form {
            Form::List { filled: true }
        }

        fn beside(&self, key: &Key) -> Vec<Key> {
            vec![key.clone()]
        }

        fn text_of(&self, _: KeyRef<'_>, _: &Value) -> Option<Vec<u8>> {
            Some(b"text".to_vec())
        }

        fn changes_of_text(&self, _: KeyRef<'_>, _: &[u8]) -> Option<Result<Vec<Change>, String>> {
            Some(Ok(vec![Change::Delete]))
        }

        fn as_stored(&self, _: KeyRef<'_>, _: Change) -> Change {
            Change::Delete
        }
    }

    /// All that is answered without being asked.
    type Answers =
        ((Option<u32>, Form), [Vec<Key>; 2], Option<String>, Option<Vec<u8>>, Option<Result<Vec<Change>, String>>);

    fn answers(store: &dyn Store, key: &Key) -> Answers {
        let commit = Commit::new(TxnId(Version::ZERO), Version::ZERO, Vec::new());
        let named = [store.references(key, &[]), store.beside(key)];
        let value = Value::bytes(*b"v");
        let text = (store.text_of(key.borrow(), &value), store.changes_of_text(key.borrow(), b"t"));
        ((store.lane(key), store.form(key)), named, store.refuses(&commit), text.0, text.1)
    }

    #[test]
    fn it_is_away_until_a_ping_opens_it() {
        let there = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = there.clone();
        let open = move || -> BoxFuture<'static, Result<Arc<dyn Store>, NotOpened>> {
            let there = seen.load(std::sync::atomic::Ordering::SeqCst);
            Box::pin(async move {
                match there {
                    true => Ok(Arc::new(Memory::new()) as Arc<dyn Store>),
                    false => Err(NotOpened::Unreachable("no".into())),
                }
            })
        };
        let caps = Caps { ordered: false, owned: true, applies: true };
        let late = Late::new(caps, "pg".into(), "not yet".into(), Box::new(open), Box::new(Numbered(7)));
        let key = Key::new(0, b"k");
        let get = |late: &Late| late.get(std::slice::from_ref(&key)).now_or_never().expect("at once");
        assert_eq!(get(&late), Err(ReadError::Unavailable(Unavailable("not yet".into()))));
        let (named, text) = ([vec![key.clone()], vec![key.clone()]], Some(b"text".to_vec()));
        let remembered = (
            (Some(7), Form::List { filled: true }),
            named,
            Some("0 writes".to_owned()),
            text,
            Some(Ok(vec![Change::Delete])),
        );
        assert_eq!((late.incarnation(), answers(&late, &key)), (0, remembered));
        assert_eq!(late.ping().now_or_never(), Some(Err(Unavailable("no".into()))));
        assert_eq!(get(&late), Err(ReadError::Unavailable(Unavailable("no".into()))));
        there.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(late.ping().now_or_never(), Some(Ok(())));
        assert!(get(&late).is_ok());
        let opened = Memory::new();
        assert_eq!((late.incarnation(), answers(&late, &key)), (opened.incarnation(), answers(&opened, &key)));
    }

    #[test]
    fn one_that_another_owner_has_is_fenced_for_good() {
        let fenced = || {
            let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let seen = asked.clone();
            let open = move || -> BoxFuture<'static, Result<Arc<dyn Store>, NotOpened>> {
                let first = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                Box::pin(async move {
                    match first {
                        true => Err(NotOpened::Taken("taken over".into())),
                        false => Ok(Arc::new(Memory::new()) as Arc<dyn Store>),
                    }
                })
            };
            let caps = Caps { ordered: false, owned: true, applies: true };
            let late = Late::new(caps, "pg".into(), "not yet".into(), Box::new(open), Box::new(Numbered(7)));
            assert_eq!(late.fenced(), None);
            assert_eq!(late.ping().now_or_never(), Some(Err(Unavailable("taken over".into()))));
            let again = late.ping().now_or_never().expect("at once");
            (again.is_err() && late.incarnation() == 0).then(|| late.fenced().map(str::to_owned)).flatten()
        };
        assert_eq!(fenced().as_deref(), Some("taken over"));
        let _fault = mutation::put_back(Some(Fault::TakenTakenForAway));
        assert_eq!(fenced(), None, "the fault is found");
    }
}
