//! Documents that have expired leave a store that forebay owns, in small transactions.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, TxnKind};
use crate::cache::Context;

/// Documents that one round of the reaper removes.
const REAP_KEYS_MAX: usize = 64;

/// Wait between two rounds of the reaper that found little.
const REAP_PAUSE: Duration = Duration::from_millis(100);

impl Engine {
    /// Removes expired documents, in small transactions, for as long as an engine is there. Only for stores that
    /// have documents which only we write.
    pub fn start_reaper(&self) {
        let inner = Arc::downgrade(&self.inner);
        let runtime = self.inner.runtime.clone();
        runtime.clone().spawn(async move {
            loop {
                runtime.sleep(REAP_PAUSE).await;
                while let Some(inner) = inner.upgrade() {
                    // Fewer also where they can't be removed now: to try again at once would be to spin.
                    let removed = Engine { inner }.reap().await;
                    if removed < REAP_KEYS_MAX {
                        break;
                    }
                }
                if inner.strong_count() == 0 {
                    return;
                }
            }
        });
    }

    /// Removes some documents that have expired; how many went.
    pub async fn reap(&self) -> usize {
        let now_ms = self.inner.runtime.now_ms();
        let keys = match self.inner.store.expired(now_ms, REAP_KEYS_MAX).await {
            Ok(keys) => keys,
            Err(error) => {
                // Ten times a second: that the store fails is said elsewhere.
                tracing::debug!(%error, "can't look for expired documents");
                return 0;
            }
        };
        let mut commits = Vec::with_capacity(keys.len());
        for key in &keys {
            // Someone may be at work on it; the next round comes by again.
            commits.extend(self.begin(TxnKind::Plain, Context::default()).remove_expired(key).await);
        }
        // They must be out of the store's index before the next look.
        let mut removed = 0;
        for committing in commits {
            removed += usize::from(matches!(committing.wait().await, Ok(Some(_))));
        }
        removed
    }
}
