//! The store that needs nothing else to run: one file, a [redb](https://docs.rs/redb) database.
//!
//! * `place`: where it lies, and whether it still does.
//! * `file`: opening it: format, incarnation, what is kept of it in memory.
//! * `engine`: the one writer; what happens when the file fails.
//! * `group`: one group as one write transaction.
//! * `write`, `touched`: how a document is written; a large one costs what a change touches, not its size.
//! * `read`: snapshots.
//! * `rows`: what lies in the file.
//! * `runs`: how a wide commit is written, in the order of its keys.
//! * `check`, `validate`: whether a file is sound.
//!
//! **A group is one write transaction.** So its commits share one flush, and what is left after a crash is a prefix
//! of the groups. With [`Durability::Always`] each is flushed before it is acknowledged. Otherwise redb keeps groups
//! in memory until the next flush, which always carries a whole prefix too. Then groups share a write transaction,
//! too, until one is flushed or a reader opens the file. The reason is that most of what a group costs is to copy
//! pages that the next one copies again.
//!
//! **Quick-repair** has redb store its allocator with a commit, so that opening after a crash need not walk the whole
//! file. It is on for the flushes of `interval` and `never`, which are rare, and off for the commits of `always`.
//! Measured with documents of 100 bytes, two cores, other work beside it:
//!
//! | documents | commit of 1, without / with | commit of 50 | opening after a crash |
//! |---|---|---|---|
//! | 1 M (0.5 GiB) | 0.28 / 0.54 ms | 2.1 / 2.8 ms | 0.33 / 0.21 s |
//! | 10 M (2 GiB) | 0.23 / 7.9 ms | 3.0 / 12 ms | 28 / 0.8 s |
//!
//! **When the file fails**, by an error or a panic of redb, it is closed, and the commits of the group at hand are
//! `Unknown`. The next request for an outcome reopens it, and the ids of applied commits, which are written with each
//! group, decide. If groups were acknowledged but not flushed, they are lost with the old handle. Then the
//! incarnation rises, and commits minted before are refused, because what they read may be lost.

mod check;
mod disk;
mod engine;
mod file;
mod given;
mod group;
mod locked;
mod place;
mod read;
mod rows;
mod runs;
mod touched;
mod validate;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::lock::Mutex as AsyncMutex;

pub use self::check::{Checked, check};
pub use self::file::{MakeBackend, OpenError};

use self::engine::Engine;
use self::place::Place;
use super::{Caps, Commit, CommitOutcome, GivenId, Read, ReadError, Resolved, Store};
use crate::error::Unavailable;
use crate::key::{Key, SPACES};
use crate::runtime::Runtime;
use crate::version::{TxnId, Version};

/// Bytes of rows that may wait for a flush, whatever the interval.
pub const UNFLUSHED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Longest time that [`Durability::Never`] leaves a group unflushed.
pub const NEVER_FLUSH_MS_MAX: u64 = 30_000;

/// When a group is safe on disk. After a crash what is left is a prefix of the commit order, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged: nothing acknowledged is ever lost.
    Always,
    /// At most `sync_ms` ms later, the flush itself included if it takes less than half of that.
    Interval {
        /// How much time of acknowledged commits a crash may cost.
        sync_ms: u64,
    },
    /// At most 30 s later, or when 64 MiB wait.
    Never,
}

/// How to open an embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// When a group is safe on disk.
    pub durability: Durability,
    /// Bytes that redb may keep of the file in memory; counted in the cache's budget.
    pub page_cache_bytes: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 64 * 1024 * 1024 }
    }
}

impl Durability {
    /// How often to flush: twice in the time that may be lost, because a flush carries what came before it began.
    pub(crate) fn flush_every(self) -> Option<Duration> {
        let ms = match self {
            Durability::Always => return None,
            Durability::Interval { sync_ms } => sync_ms,
            Durability::Never => NEVER_FLUSH_MS_MAX,
        };
        Some(Duration::from_millis((ms / 2).max(1)))
    }
}

/// Pause between two looks at the place of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A document whose rows take more bytes is read when no other such document is.
const LONG_BYTES: usize = 512 << 10;

/// A store in one file.
pub struct Embedded {
    engine: Arc<Engine>,
    /// Long documents are read one after the other: to put one together takes long and much memory, and how many
    /// clients ask for one is not bounded.
    long: AsyncMutex<()>,
    /// Where its file lies; none on a given disk.
    place: Option<Arc<Place>>,
    /// Dropping it ends the task that flushes.
    _ends_flushing: Option<oneshot::Sender<()>>,
}

impl Embedded {
    /// Opens the store in the file `path`, or makes it; its folder must be there. Blocks while it reads.
    pub fn open(runtime: Runtime, path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Embedded, OpenError> {
        let path = path.as_ref();
        let place = Arc::new(Place::new(path.to_path_buf()));
        let opened = place.clone();
        let mut store = Embedded::open_named(runtime.clone(), place.name(), Arc::new(move || opened.open()), options)?;
        place.settle().map_err(|source| file::io_error(&place.name(), source))?;
        // Not before it is known to be a store: another's file is left as it is.
        if let Ok(open) = File::open(path) {
            crate::runtime::files::tighten(&open, path);
        }
        runtime.spawn(look_now_and_then(runtime.clone(), Arc::downgrade(&place)));
        store.place = Some(place);
        Ok(store)
    }

    /// Opens the store on the disk that `make_backend` makes; it is called again when the store is reopened.
    pub fn open_with_backend(
        runtime: Runtime,
        make_backend: MakeBackend,
        options: EmbeddedOptions,
    ) -> Result<Embedded, OpenError> {
        Embedded::open_named(runtime, "on a given disk".to_owned(), make_backend, options)
    }

    fn open_named(
        runtime: Runtime,
        name: String,
        make: MakeBackend,
        options: EmbeddedOptions,
    ) -> Result<Embedded, OpenError> {
        let engine = Arc::new(Engine::open(runtime.clone(), name, make, options)?);
        let ends_flushing = options.durability.flush_every().map(|pause| {
            let (ends, ended) = oneshot::channel();
            runtime.spawn(flush_now_and_then(runtime.clone(), Arc::downgrade(&engine), pause, ended));
            ends
        });
        Ok(Embedded { engine, long: AsyncMutex::default(), place: None, _ends_flushing: ends_flushing })
    }

    /// [`check`] on the disk that `make_backend` makes.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn check_with_backend(make_backend: MakeBackend) -> Result<Checked, OpenError> {
        check::check_named("on a given disk", make_backend)
    }

    /// Walks through the whole file and says what in it does not agree.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn validate(&self) -> Result<(), String> {
        self.engine.validate()
    }

    /// Whether a start finds what is written now.
    fn in_place(&self) -> Result<(), Unavailable> {
        self.place.as_ref().map_or(Ok(()), |place| place.check())
    }

    /// Runs `work` where it may block.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Engine) -> T + Send + 'static) -> T {
        let engine = self.engine.clone();
        self.engine.runtime.blocking(move || work(&engine)).await
    }
}

impl Drop for Embedded {
    /// Flushes and closes the file, so that it can be opened again at once.
    fn drop(&mut self) {
        self.engine.end();
    }
}

async fn flush_now_and_then(runtime: Runtime, engine: Weak<Engine>, pause: Duration, mut ended: oneshot::Receiver<()>) {
    while let Either::Left((_, still)) = select(runtime.sleep(pause), ended).await {
        ended = still;
        let Some(engine) = engine.upgrade() else { return };
        runtime.blocking(move || engine.flush_if_open()).await;
    }
}

/// Looks now and then whether the file lies where a start finds it.
async fn look_now_and_then(runtime: Runtime, place: Weak<Place>) {
    loop {
        runtime.sleep(LOOK_EVERY).await;
        let Some(place) = place.upgrade() else { return };
        runtime.blocking(move || place.look()).await;
    }
}

impl Store for Embedded {
    fn caps(&self) -> Caps {
        Caps { ordered: true, owned: true, applies: false }
    }

    fn name(&self) -> String {
        format!("embedded {}", self.engine.name)
    }

    fn incarnation(&self) -> u64 {
        self.engine.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let keys: Arc<[Key]> = keys.into();
        Box::pin(async move {
            let asked = keys.clone();
            let got = self.blocking(move |engine| engine.get_up_to(LONG_BYTES, &asked, bytes_max)).await?;
            if let Some(reads) = got {
                return Ok(reads);
            }
            let _turn = self.long.lock().await;
            self.blocking(move |engine| engine.get(&keys, bytes_max)).await
        })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.commit_shared(Arc::new(group.to_vec()))
    }

    fn commit_shared(&self, group: Arc<Vec<Commit>>) -> BoxFuture<'_, Vec<CommitOutcome>> {
        if let Err(Unavailable(why)) = self.in_place() {
            return Box::pin(std::future::ready(vec![CommitOutcome::Unavailable(why); group.len()]));
        }
        Box::pin(self.blocking(move |engine| engine.commit(&group)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async {
            self.in_place()?;
            match self.get(&[Key::new(0, b"forebay:ping")]).await {
                Err(ReadError::Unavailable(error)) => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(self.blocking(move |engine| engine.outcome(id)))
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        let found = self.blocking(|engine| engine.read(|snapshot| snapshot.given()));
        Box::pin(async move { found.await.map_err(|error| Unavailable(error.to_string())) })
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let after = after.cloned();
        Box::pin(self.blocking(move |engine| engine.read(|snapshot| snapshot.scan(space, after.as_ref(), limit))))
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(std::future::ready(Ok(self.engine.count(space))))
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        if let Err(gone) = self.in_place() {
            return Box::pin(std::future::ready(Err(gone)));
        }
        let spaces = spaces.to_vec();
        Box::pin(self.blocking(move |engine| engine.clear(&spaces, version)))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(self.blocking(move |engine| {
            engine.read(|snapshot| {
                let mut due = Vec::new();
                for space in 0..SPACES {
                    due.extend(snapshot.expired(space, now_ms, limit)?);
                }
                due.sort_unstable();
                // Of each space the earliest are there, up to the same bounds; so these are the earliest of all.
                Ok(super::bounded(due.into_iter().map(|(_, key)| key), limit))
            })
        }))
    }

    fn memory_bytes(&self) -> usize {
        self.engine.memory_bytes()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.blocking(Engine::flush))
    }
}
