//! The client: sessions, and transactions that run until they end well.

use std::sync::{Arc, Mutex, PoisonError};

use crate::answer::Outcome;
use crate::attempt::{Attempt, Before, Ended};
use crate::error::{CommitId, Error};
use crate::moment::{Floor, Level};
use crate::mutation::{Fault, on};
use crate::options::Options;
use crate::shared::Shared;
use crate::statistics::Statistics;
use crate::transaction::Transaction;

/// An attempt from this one on uses no copies that were there before it.
const FETCHING_ATTEMPT: u32 = 3;

/// A session at one forebay. Clones are the same session, and may be used by many tasks at a time.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    floor: Arc<Floor>,
    level: Level,
}

impl Options {
    /// Connects, and shows by one connection that address, TLS and password are right.
    pub async fn connect(self) -> Result<Client, Error> {
        self.check()?;
        let id = self.ground.id().ok();
        Client::open(Options { id, ..self }).await
    }
}

impl Client {
    pub(crate) async fn open(options: Options) -> Result<Client, Error> {
        let shared = Arc::new(Shared::new(options)?);
        shared.pool.try_out().await?;
        let level = shared.options.level;
        Ok(Client { shared, floor: Arc::default(), level })
    }

    /// Another session, which shares copies and connections with this one. At [`Level::Session`] it need not see what
    /// this one has committed.
    pub fn session(&self) -> Client {
        Client { floor: Arc::default(), ..self.clone() }
    }

    /// This session, with transactions of another level.
    pub fn at(&self, level: Level) -> Client {
        Client { level, ..self.clone() }
    }

    /// Runs a transaction. All that `body` reads was there at one moment, and what it writes is committed at that
    /// moment, or nothing is. Where that fails because documents have changed, `body` runs again.
    ///
    /// If `body` fails, nothing is written. Its error is given back once what it has read was found to be of one
    /// moment: so an error that only a mixture of old and new could cause is not seen.
    ///
    /// If the future is dropped while it commits, the commit may be applied or not.
    pub async fn transaction<T, E, F>(&self, body: impl Fn(Transaction) -> F) -> Result<T, E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let mut before = Before::default();
        let attempts_max = self.shared.options.attempts_max;
        for number in 1..=attempts_max {
            let attempt = Arc::new(Mutex::new(Attempt::new(self.level, self.floor.version(), before)));
            let answer = body(Transaction::new(self.shared.clone(), attempt.clone())).await;
            let mut attempt = {
                let mut attempt = attempt.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *attempt, Attempt::over())
            };
            if answer.is_err() {
                if attempt.is_broken || on(Fault::ErrorUnchecked) {
                    return answer;
                }
                attempt.write_nothing();
            }
            before = Before::default();
            match attempt.end(&self.shared, &self.floor).await? {
                Ended::Well => return answer,
                Ended::Stale(keys) if number + 1 < FETCHING_ATTEMPT => {
                    before.fetched = self.shared.fetch(&keys, &[]).await?
                }
                Ended::Overtaken(fetched) if number + 1 < FETCHING_ATTEMPT => before.fetched = fetched,
                Ended::Stale(_) | Ended::Overtaken(_) | Ended::Conflict => {}
            }
            self.shared.pause(number - 1).await;
            if number + 1 >= FETCHING_ATTEMPT {
                before.since = Some(self.shared.ground().now());
            }
        }
        Err(Error::Contention { attempts: attempts_max }.into())
    }

    /// What became of a commit whose answer was lost ([`Error::Unknown`]). If it was applied, what this session reads
    /// from now on is not older.
    pub async fn outcome(&self, id: CommitId) -> Result<Outcome, Error> {
        let outcome = self.shared.outcome(id).await?;
        if let Outcome::Committed(version) = outcome {
            self.floor.raise(version);
        }
        Ok(outcome)
    }

    /// What was counted, over all sessions that share copies with this one.
    pub fn statistics(&self) -> Statistics {
        self.shared.counts.statistics()
    }

    /// Bytes that the copies take.
    pub fn cached_bytes(&self) -> usize {
        self.shared.copies.bytes()
    }
}
