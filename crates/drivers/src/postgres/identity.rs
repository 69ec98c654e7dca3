//! Which database this is and who we are to it: the incarnation under which it was opened, and the newest commit that
//! was acknowledged. By these every new connection knows whether it reached the same database in the same state: after
//! a failover or a restored backup it may be an earlier one, and another forebay may have taken it over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::store::tombstones::Tombstones;
use forebay::{Key, TxnId, Version};
use tokio::sync::Mutex as AsyncMutex;
use tokio_postgres::Client;

use super::classify::told;

/// Begins a new incarnation of a database that has lost acknowledged commits. `$1` is ours.
const RAISE: &str = "UPDATE forebay.meta SET incarnation = greatest(incarnation, $1::bigint) + 1 RETURNING incarnation";

/// What the driver remembers of the database that it opened.
pub(super) struct Identity {
    incarnation: AtomicU64,
    /// What the names of our connections begin with.
    prefix: String,
    newest: Mutex<Option<TxnId>>,
    absent: Mutex<Tombstones>,
    /// One connection at a time finds out that the database is another one.
    raising: AsyncMutex<()>,
}

impl Identity {
    pub(super) fn new(incarnation: u64) -> Identity {
        Identity {
            incarnation: AtomicU64::new(incarnation),
            prefix: format!("forebay {incarnation}."),
            newest: Mutex::new(None),
            absent: Mutex::new(Tombstones::new(incarnation)),
            raising: AsyncMutex::new(()),
        }
    }

    /// Under which commits are minted now.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The newest commit that was acknowledged.
    pub(super) fn newest(&self) -> Option<TxnId> {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `id` is about to be acknowledged.
    pub(super) fn acknowledge(&self, id: TxnId) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = (*newest).max(Some(id));
    }

    fn absent(&self) -> MutexGuard<'_, Tombstones> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the absence of `key`.
    pub(super) fn absence(&self, key: &Key) -> Version {
        self.absent().absence(key).version
    }

    /// `key` is about to be deleted at `version`. Said before the delete is sent, since its answer may be lost; the
    /// version counts only once the key is absent.
    pub(super) fn deleting(&self, key: &Key, version: Version) {
        let mut absent = self.absent();
        // A commit that is sent again says an older one.
        if absent.absence(key).version < version {
            absent.insert(key.clone(), version, 0);
        }
    }

    /// All of `space` is about to be deleted at `version`.
    pub(super) fn clearing(&self, space: u8, version: Version) {
        self.absent().raise_floor(space, version, 0);
    }

    /// Whether a connection that found the database at `incarnation`, with our newest commit `there` or not, may be
    /// used.
    pub(super) async fn recognise(&self, client: &Client, incarnation: i64, there: bool) -> Result<(), String> {
        let ours = self.incarnation();
        let incarnation = incarnation as u64;
        if incarnation > ours {
            let why = "another forebay has taken this database over; stop one of the two and start this one again";
            return Err(why.into());
        }
        if incarnation == ours && there {
            return Ok(());
        }
        let _alone = self.raising.lock().await;
        if self.incarnation() != ours {
            return Err("the database was found in an earlier state just now; ask again".into());
        }
        let row = client.query_one(RAISE, &[&(ours as i64)]).await.map_err(|error| told(&error))?;
        let raised = row.try_get::<_, i64>(0).map_err(|error| told(&error))? as u64;
        tracing::error!(
            incarnation = raised,
            newest = self.newest().map(|id| id.to_string()),
            "the database has lost acknowledged commits: it was restored, or a standby that lagged took over; going on \
             from what it holds, and all that is cached is dropped"
        );
        *self.absent() = Tombstones::new(raised);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.incarnation.store(raised, Ordering::SeqCst);
        Ok(())
    }
}
