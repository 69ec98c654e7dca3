//! Clearing key spaces. A clearing whose answer was lost may still come, and would take along what was committed
//! meanwhile; so it has an id like a commit, and until it is known what became of it nothing is committed.

use std::sync::atomic::Ordering;

use forebay::store::Resolved;
use forebay::{TxnId, Version};
use tokio::time::{Instant, timeout_at};

use super::classify;
use super::database::{Inner, WHOLE_TABLE_TIME};
use super::named;
use super::sql;
use crate::sql::failure::Failure;
use crate::sql::ids;

/// Ids of clearings have sequence numbers from here on, which no commit ever has.
const SEQUENCE_MIN: u64 = 1 << 63;

impl Inner {
    /// Removes all documents of `spaces`; in front of tables those of the keys that are documents.
    pub(super) async fn clear(&self, spaces: &[u8], version: Version) -> Result<(), String> {
        if self.is_mapped && self.named().is_none() {
            return Err("mapped tables are not cleared from here; CACHE RESET empties the cache alone".into());
        }
        self.settle_clear().await?;
        let mut unsettled = self.clears.unsettled.lock().await;
        let made = self.clears.made.fetch_add(1, Ordering::Relaxed);
        let id = TxnId(Version { incarnation: self.incarnation(), sequence: SEQUENCE_MIN + made });
        let writer = timeout_at(Instant::now() + self.timeout, self.pool.writer()).await;
        let writer = writer.unwrap_or_else(|_| Err(self.no_connection()))?;
        for space in spaces {
            self.identity.clearing(*space, version);
        }
        let spaces: Vec<i16> = spaces.iter().map(|space| i16::from(*space)).collect();
        let client = &writer.session()?.client;
        let id_bytes = ids::bytes(id);
        let mut parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&spaces, &id_bytes];
        let mut text = sql::CLEAR.to_owned();
        if let Some(named) = self.named() {
            // What lies there and is not named stays: it is not shown either.
            parameters.extend(named::parameters(named));
            text = format!("{text} AND {}", named::condition(3));
        }
        let asked = client.execute(&text, &parameters);
        let failure = match timeout_at(Instant::now() + WHOLE_TABLE_TIME, asked).await {
            Ok(Ok(_)) => {
                writer.give_back();
                return Ok(());
            }
            Ok(Err(error)) => classify::of_commit(&error),
            Err(_) => Failure::Unknown(self.no_answer()),
        };
        drop(writer);
        if let Failure::Unknown(_) = failure {
            *unsettled = Some(id);
            self.clears.open.store(true, Ordering::SeqCst);
        }
        match failure {
            Failure::NotOwned(why) => {
                self.identity.fence(why.clone());
                Err(why)
            }
            Failure::Conflict(why)
            | Failure::InTheWay(why)
            | Failure::Refused(why)
            | Failure::Failed(why)
            | Failure::Unavailable(why)
            | Failure::Unknown(why) => Err(why),
            Failure::Repeated | Failure::Overtaken(_) => Err("the clearing was in the way of another".into()),
        }
    }

    /// Makes sure that no clearing is on its way any more.
    pub(super) async fn settle_clear(&self) -> Result<(), String> {
        if !self.clears.open.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut unsettled = self.clears.unsettled.lock().await;
        if let Some(id) = *unsettled {
            let resolved = self.outcome(id).await?;
            tracing::warn!(applied = resolved == Resolved::Applied, "a clearing whose answer was lost is settled");
            *unsettled = None;
        }
        self.clears.open.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn incarnation(&self) -> u64 {
        self.identity.incarnation()
    }
}
