//! A transaction that has handed its commit over, or has nothing to commit, until what it says may be shown.

use std::sync::Arc;

use super::error::TxnError;
use super::history::{History, Record};
use super::settled::{Landed, Settled, Settlement};
use super::turn::HeldTurn;
use crate::version::{TxnId, Version};

/// A transaction whose commit is on its way. Nothing of it may be shown before [`Committing::wait`] is done.
#[derive(Debug, Default)]
pub struct Committing {
    /// Where it was published already.
    pub(super) published: Option<Landed>,
    pub(super) commit: Option<Settled>,
    pub(super) depends: Vec<Settled>,
    pub(super) record: Recorded,
    /// The turn of one that has only read.
    pub(super) turn: Option<HeldTurn>,
}

/// What is noted of a transaction in a history, once it has ended.
#[derive(Debug, Default)]
pub(super) struct Recorded(pub(super) Option<Box<(Arc<History>, Record)>>);

impl Recorded {
    /// Names the version of what it wrote, which it got with its place.
    pub(super) fn written_under(mut self, version: Option<Version>) -> Recorded {
        if let (Some(boxed), Some(version)) = (&mut self.0, version) {
            boxed.1.writes.iter_mut().for_each(|(_, written)| *written = version);
        }
        self
    }
}

/// Its client is gone without an answer: it may have committed, if it had a place.
impl Drop for Recorded {
    fn drop(&mut self) {
        if let Some((history, record)) = self.0.take().map(|boxed| *boxed) {
            let placed = record.writes.first().is_none_or(|(_, version)| *version != Version::ZERO);
            placed.then(|| history.push(record));
        }
    }
}

impl Committing {
    /// For what asked nobody.
    pub fn nothing() -> Committing {
        Committing::default()
    }

    /// For what is published already, under this version if it wrote.
    pub(super) fn published(published: Option<Version>) -> Committing {
        let published = published.map(|version| Landed { version, ticket: None });
        Committing { published, ..Committing::default() }
    }

    /// For what wrote nothing, and has read what these wrote.
    pub(super) fn behind(depends: Vec<Settled>) -> Committing {
        Committing { depends, ..Committing::default() }
    }

    /// Its turn to hold many documents, of one that has only read: for whoever has not written its answer down yet.
    /// Nothing may be waited for meanwhile.
    pub fn take_turn(&mut self) -> Option<HeldTurn> {
        self.turn.take()
    }

    /// The same commit, for one more to wait for.
    pub fn witness(&self) -> Committing {
        let (commit, depends) = (self.commit.clone(), self.depends.clone());
        Committing { published: self.published, commit, depends, ..Committing::default() }
    }

    /// Under which id it commits, if it writes and was not refused.
    pub fn id(&self) -> Option<TxnId> {
        let on_its_way = self.commit.as_ref().and_then(Settled::version);
        on_its_way.or(self.published.map(|landed| landed.version)).map(TxnId)
    }

    /// Whether [`Committing::wait`] would answer at once.
    pub fn settled(&self) -> bool {
        self.commit.iter().chain(&self.depends).all(Settled::is_closed)
    }

    /// Waits as [`Committing::wait`] does, and leaves nothing to wait for.
    pub(super) async fn settle(mut self) -> Result<Committing, TxnError> {
        let turn = self.take_turn();
        let published = self.wait().await?;
        Ok(Committing { published, turn, ..Committing::default() })
    }

    /// Waits until all that the transaction read and wrote is published; where it landed, if it wrote.
    pub async fn wait(mut self) -> Result<Option<Landed>, TxnError> {
        let outcome = match self.commit.take() {
            None => self.depends_published().await.map(|()| self.published),
            // Published after all that it depends on, or failed with it.
            Some(settled) => match settled.wait().await {
                Some(Settlement::Published(landed)) => Ok(Some(landed)),
                Some(Settlement::Failed(failure)) => Err(failure.into()),
                Some(Settlement::Unknown(id)) => Err(TxnError::Unknown(id)),
                // Nobody is left to tell: it may have been applied.
                None => Err(TxnError::Unknown(TxnId(settled.version().unwrap_or_default()))),
            },
        };
        if let Some(boxed) = self.record.0.take() {
            let (history, mut record) = *boxed;
            match &outcome {
                Ok(_) => {
                    record.ended = history.tick();
                    history.push(record);
                }
                Err(TxnError::Unknown(_)) => history.push(record),
                Err(_) => {}
            }
        }
        outcome
    }
}

impl Committing {
    async fn depends_published(&mut self) -> Result<(), TxnError> {
        for settled in std::mem::take(&mut self.depends) {
            match settled.wait().await {
                Some(Settlement::Published(_)) => {}
                Some(Settlement::Unknown(id)) => {
                    let why = format!("it read what commit {id} wrote, whose outcome is unknown");
                    return Err(TxnError::StoreDown(why));
                }
                Some(Settlement::Failed(_)) | None => {
                    return Err(TxnError::Conflict("it read what a failed commit had written".into()));
                }
            }
        }
        Ok(())
    }
}
