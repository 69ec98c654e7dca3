//! What goes on behind: the connection that holds the database's lock is replaced when it breaks, backends of broken
//! connections are ended, old ids are forgotten.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::classify::told;
use super::database::Inner;
use super::session::Session;
use super::{given, greet, sql};
use crate::sql::ids;
use crate::sql::watching::OutsideBy;

/// Pause between two rounds, unless something is to be done.
const ROUND: Duration = Duration::from_secs(1);

/// Rounds after which clients' ids are forgotten that are old.
const GIVEN_EVERY: u64 = 60;

/// Most time for forgetting ids at once.
const FORGET_TIME_MAX: Duration = Duration::from_secs(60);

/// Goes its rounds for as long as the store is there.
pub(super) async fn keep(inner: Weak<Inner>, mut keeper: Session) {
    let (mut complained, mut rounds) = (false, 0u64);
    loop {
        if inner.upgrade().is_none_or(|inner| inner.identity.fenced().is_some()) {
            return;
        }
        let Some(woken) = inner.upgrade().map(|inner| inner.keeper_woken.clone()) else { return };
        let _ = timeout(ROUND, woken.notified()).await;
        let Some(inner) = inner.upgrade() else { return };
        if !keeper.is_good() {
            match timeout(inner.timeout, inner.take_again()).await {
                Ok(Ok(session)) => (keeper, complained) = (session, false),
                // That is said elsewhere, and there is nothing to keep any more.
                Ok(Err(_)) if inner.identity.fenced().is_some() => return,
                Ok(Err(why)) if !std::mem::replace(&mut complained, true) => {
                    tracing::warn!(why, "the connection that holds the lock of the database is broken");
                }
                _ => sleep(inner.timeout).await,
            }
            continue;
        }
        rounds += 1;
        if !inner.is_kept(&keeper).await {
            keeper.give_up();
            continue;
        }
        if let Err(why) =
            timeout(FORGET_TIME_MAX, inner.round(&keeper, rounds.is_multiple_of(GIVEN_EVERY))).await.unwrap_or(Ok(()))
        {
            tracing::debug!(why, "the keeper's connection failed");
            keeper.give_up();
        }
    }
}

impl Inner {
    /// Whether the database is still ours, as the connection says that keeps it: who is idle has no other reason to
    /// notice that it is the owner no more. One that does not answer is given up only where another does: its lock is
    /// not to be lost to a table that somebody has locked.
    async fn is_kept(&self, keeper: &Session) -> bool {
        match timeout(self.timeout, greet::look(&self.identity, &keeper.client)).await {
            Ok(Ok(())) => true,
            Ok(Err(why)) => {
                tracing::debug!(why, "the keeper's connection failed, or the database is another's");
                false
            }
            Err(_) => !matches!(timeout(self.timeout, self.pool.look()).await, Ok(Ok(()))),
        }
    }

    /// Takes the database's lock again after its connection broke. Somebody else may have it by now.
    async fn take_again(&self) -> Result<Session, String> {
        let name = format!("{}keeper", self.identity.prefix());
        let session = self.pool.connect_again(name).await?;
        match session.client.query_one(sql::LOCK, &[]).await.map_err(|error| told(&error))?.get(0) {
            true => Ok(session),
            false => Err("another session holds the lock of the database".into()),
        }
    }

    async fn round(&self, keeper: &Session, forget_given: bool) -> Result<(), String> {
        self.pool.end_lost(keeper).await.map_err(|error| told(&error))?;
        if forget_given {
            keeper.client.batch_execute(given::FORGET).await.map_err(|error| told(&error))?;
        }
        if forget_given && self.has_notes() && !matches!(self.watch.by(), OutsideBy::Triggers | OutsideBy::Auto) {
            // Nobody reads what the triggers go on noting.
            keeper.client.batch_execute(sql::FORGET_NOTES).await.map_err(|error| told(&error))?;
        }
        if let Some(entered) = self.ids.many()
            && self.pool.nothing_lost()
        {
            self.forget(keeper, entered).await.map_err(|error| told(&error))?;
        }
        Ok(())
    }

    /// Forgets the oldest ids.
    async fn forget(&self, keeper: &Session, entered: usize) -> Result<(), tokio_postgres::Error> {
        let oldest = self.ids.oldest_to_come().map(ids::bytes);
        let keep = ids::APPLIED_IDS_MAX as i64;
        if let Some(row) = keeper.client.query_opt(sql::FORGETTABLE, &[&keep, &oldest]).await? {
            let floor: Vec<u8> = row.try_get(0)?;
            let raised = ids::version(&floor).is_some_and(|version| self.ids.raise_floor(forebay::TxnId(version)));
            // A connection that broke since then may have sent one of them.
            if !raised || !self.pool.nothing_lost() {
                return Ok(());
            }
            keeper.client.execute(sql::FORGET, &[&floor]).await?;
        }
        self.ids.forgotten(entered);
        Ok(())
    }
}
