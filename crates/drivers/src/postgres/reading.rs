//! Reads over shared connections, which are none the worse for what one of them runs into.
//!
//! Many reads are on their way on one connection, one behind the other. One that waits for a lock would hold up all
//! that follow, whatever they read. A psql session with `LOCK TABLE`, or an ALTER TABLE that waits, is enough for that.
//! Hence none waits there for longer than [`LOCK_WAIT`]. Then the connection is given up, and what was behind on it
//! goes over another. Reads of that table go one at a time from then on, until one gets through. They have a connection
//! for themselves, so those of other tables never meet them again. A connection whose replies get lost is treated
//! likewise: what has waited longest gives it up, and all others go on elsewhere in the time that they have left.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay::Key;
use forebay::error::Unavailable;
use forebay::store::ReadError;
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout_at};

use super::classify::{self, told};
use super::database::{Inner, unavailable};
use super::get_error::GetError;
use super::locked::{DOCUMENTS, Slot};
use super::session::Session;

/// Longest wait of a read for a table's lock, as the server counts it; of a shorter timeout a sixth.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// As [`LOCK_WAIT`], for calls that may take `timeout`.
pub(super) fn lock_wait(timeout: Duration) -> Duration {
    LOCK_WAIT.min(timeout / 6).max(Duration::from_millis(1))
}

impl Inner {
    /// Reads of `tables` within `time`. A connection that fails or does not answer is given up; `ask` is asked again
    /// over another where that is another read's doing.
    pub(super) async fn read<T, A>(
        &self,
        time: Duration,
        tables: &[u32],
        ask: impl Fn(Arc<Session>) -> A,
    ) -> Result<T, ReadError>
    where
        A: Future<Output = Result<T, GetError>>,
    {
        let began = Instant::now();
        let mut deadline = began + time;
        loop {
            let slot = self.locked.slot_of(tables);
            let answer = match &slot {
                Some(slot) => self.read_aside(deadline, slot, &ask).await,
                None => self.read_shared(deadline, tables, &ask).await,
            };
            if let Some(answer) = answer {
                return answer;
            }
            if slot.is_some() {
                // The lock took the time, and the server is to have its own.
                deadline = began + time + self.timeout;
            }
        }
    }

    /// The answer over a shared connection; none if it is to be asked again.
    async fn read_shared<T, A>(
        &self,
        deadline: Instant,
        tables: &[u32],
        ask: &impl Fn(Arc<Session>) -> A,
    ) -> Option<Result<T, ReadError>>
    where
        A: Future<Output = Result<T, GetError>>,
    {
        let patiently = &self.pool.progress;
        let session = match patiently.within(deadline, self.timeout, self.pool.reader()).await {
            Ok(Ok(session)) => session,
            Ok(Err(why)) => return Some(Err(unavailable(why))),
            Err(_) => return Some(Err(unavailable(self.no_connection()))),
        };
        let asked = patiently.within(deadline, self.timeout, ask(session.clone()));
        let answer = match select(pin!(asked), pin!(session.given_up())).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => return None,
        };
        match answer {
            Ok(Err(error)) if error.is_locked() => {
                session.give_up();
                let locked = match &error {
                    GetError::Locked(table, _) => std::slice::from_ref(table),
                    _ => tables,
                };
                if locked.is_empty() {
                    return Some(Err(is_locked()));
                }
                self.locked.note(locked);
                None
            }
            answer => Some(self.answered(&session, answer)),
        }
    }

    /// Likewise of a table that is locked: one read at a time goes on asking for it. **Invariant.** What the server is
    /// asked, a connection or rows, has the time of any call. The deadline ends the wait for the lock alone: an answer
    /// that it cuts short would count as one that the server has not given.
    async fn read_aside<T, A>(
        &self,
        deadline: Instant,
        slot: &Slot,
        ask: &impl Fn(Arc<Session>) -> A,
    ) -> Option<Result<T, ReadError>>
    where
        A: Future<Output = Result<T, GetError>>,
    {
        let Ok(mut own) = timeout_at(deadline, slot.lock()).await else { return Some(Err(is_locked())) };
        loop {
            if !self.locked.is_on(slot) {
                return None;
            }
            if deadline < Instant::now() + 2 * lock_wait(self.timeout) {
                return Some(Err(is_locked()));
            }
            let patience = deadline.max(Instant::now() + self.timeout);
            let Some(session) = own.as_ref().filter(|session| self.pool.is_current(session)).cloned() else {
                match timeout_at(patience, self.pool.connect_to_read()).await {
                    Ok(Ok(session)) => *own = Some(Arc::new(session)),
                    Ok(Err(why)) => return Some(Err(unavailable(why))),
                    Err(_) => return Some(Err(unavailable(self.no_connection()))),
                }
                continue;
            };
            let answer = timeout_at(patience, ask(session.clone())).await;
            if !matches!(&answer, Ok(Err(error)) if error.is_locked()) {
                let got_through = matches!(answer, Ok(Ok(_)) | Ok(Err(GetError::Read(_))));
                if got_through {
                    self.locked.is_over(slot);
                }
                return Some(self.answered(&session, answer.map_err(|_| ())));
            }
        }
    }

    /// What an answer over `session` means, or that there was none in time.
    fn answered<T>(&self, session: &Session, answer: Result<Result<T, GetError>, ()>) -> Result<T, ReadError> {
        match answer {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(GetError::Read(error))) => Err(error),
            Ok(Err(GetError::Database(error) | GetError::Locked(_, error))) => {
                if error.as_db_error().is_none_or(|_| session.client.is_closed()) {
                    session.give_up();
                }
                // Other tables are as good as they were.
                if let Some(rows) = session.rows() {
                    rows.heed(&error);
                }
                match classify::refusal(&error) {
                    Some(why) => Err(ReadError::Refused { key: Key::new(0, b""), why }),
                    None => Err(unavailable(told(&error))),
                }
            }
            Err(()) => {
                session.give_up();
                Err(unavailable(self.no_answer()))
            }
        }
    }

    /// Asks over a connection of its own, which may take its time: it holds nobody up.
    pub(super) async fn read_alone<T, A>(&self, time: Duration, ask: impl Fn(Arc<Session>) -> A) -> Result<T, ReadError>
    where
        A: Future<Output = Result<T, GetError>>,
    {
        let writer = match tokio::time::timeout(self.timeout, self.pool.writer()).await {
            Ok(writer) => writer.map_err(unavailable)?,
            Err(_) => return Err(unavailable(self.no_connection())),
        };
        let session = writer.session().map_err(unavailable)?.clone();
        let answer = tokio::time::timeout(time, ask(session.clone())).await;
        let answer = self.answered(&session, answer.map_err(|_| ()));
        if session.is_good() {
            writer.give_back();
        }
        answer
    }

    /// The tables in which `keys` are.
    pub(super) fn tables_of<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<u32> {
        let Some(rows) = self.rows() else { return vec![DOCUMENTS] };
        let mut tables: Vec<u32> =
            keys.filter_map(|key| rows.place(key).ok()).map(|place| rows.tables[place.table].oid).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// All tables in which documents are.
    pub(super) fn all_tables(&self) -> Vec<u32> {
        let Some(rows) = self.rows() else { return vec![DOCUMENTS] };
        let mut tables: Vec<u32> = rows.tables.iter().map(|table| table.oid).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }
}

fn is_locked() -> ReadError {
    let unavailable =
        "another session has locked the table in PostgreSQL (LOCK TABLE, ALTER TABLE, VACUUM FULL; see pg_locks)";
    ReadError::Locked(Unavailable(unavailable.into()))
}
