//! Ids that clients give their transactions (TXN BEGIN ID). A client that lost the connection before the answer to its
//! commit asks again under that id. It is told what became of it; nothing is done twice. Kept in memory, and with what
//! the transaction writes: in the store's own table, or in the journal, from where they come back after a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::error::Unavailable;
use forebay::runtime::Runtime;
use forebay::store::{GivenId, Store};
use forebay::txn::{Committing, Landed, TxnError};
use forebay::value::Blob;
use forebay::version::{TxnId, Version};
use futures_util::FutureExt;

/// Outcomes that are remembered of one user; the oldest go first.
pub const GIVEN_IDS_MAX: usize = 10_000;

/// For how long they are.
pub const GIVEN_TIME: Duration = Duration::from_secs(600);

/// The ids of all users.
#[derive(Default)]
pub struct Given {
    users: Mutex<HashMap<Arc<str>, Ids>>,
    /// What the store remembers from before the start is in.
    loaded: AtomicBool,
}

#[derive(Default)]
struct Ids {
    by_id: HashMap<u128, Entry>,
    /// Those that have ended, and when; what is there again since is skipped.
    ended: VecDeque<(Duration, u128)>,
}

enum Entry {
    /// Its transaction is open, or its commit on its way.
    Open,
    Ended(Duration, Ended),
}

/// How a transaction with an id ended. One that changed nothing is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In the store, under this version.
    Committed(Version),
    /// Kept for the store, under this ticket.
    Buffered(u64),
    /// Perhaps in the store.
    Unknown(TxnId),
}

/// What is known of an id that a transaction begins with.
pub enum Begun {
    /// Nothing: it is this transaction's now.
    New(Claim),
    /// Its transaction is not over yet.
    Open,
    /// This.
    Ended(Ended),
}

/// A transaction's hold on its id; dropped, the id is as if it had never been given.
pub struct Claim {
    given: Arc<Given>,
    user: Arc<str>,
    id: u128,
}

/// What an id is to the transaction that comes with it.
pub enum Taken {
    /// Its own from now on.
    New(Claim),
    /// That of one that is over.
    Over {
        /// What became of that one.
        told: String,
        /// What its commit was answered.
        commit: String,
    },
}

impl Given {
    fn users(&self) -> MutexGuard<'_, HashMap<Arc<str>, Ids>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction of `user` begins under `id`, at `now` by the runtime's clock.
    pub fn begin(self: &Arc<Given>, user: &Arc<str>, id: u128, now: Duration) -> Begun {
        let mut users = self.users();
        let ids = users.entry(user.clone()).or_default();
        ids.forget_old(now);
        match ids.by_id.get(&id) {
            Some(Entry::Open) => Begun::Open,
            Some(Entry::Ended(_, ended)) => Begun::Ended(*ended),
            None => {
                ids.by_id.insert(id, Entry::Open);
                Begun::New(Claim { given: self.clone(), user: user.clone(), id })
            }
        }
    }

    /// Takes in what the store remembers from before the start, once: until that was possible, nobody can say of an id
    /// that is new here whether it is.
    pub async fn load(&self, store: &dyn Store, now: Duration) -> Result<(), Unavailable> {
        if self.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let remembered = store.given().await?;
        let mut users = self.users();
        if !self.loaded.swap(true, Ordering::AcqRel) {
            // In front of what has ended since, and of what is buffered: those are newer, and go last.
            for (GivenId { user, id }, version) in remembered.into_iter().rev() {
                let user: Arc<str> = String::from_utf8_lossy(&user).into();
                let ids = users.entry(user).or_default();
                if ids.ended.len() < GIVEN_IDS_MAX && !ids.by_id.contains_key(&id) {
                    ids.by_id.insert(id, Entry::Ended(now, Ended::Committed(version)));
                    ids.ended.push_front((now, id));
                }
            }
        }
        Ok(())
    }

    /// Takes in what was buffered before the start, or given up: these transactions have ended, under these tickets.
    pub fn restore(&self, buffered: Vec<(GivenId, u64)>, now: Duration) {
        let mut users = self.users();
        for (GivenId { user, id }, ticket) in buffered {
            let user: Arc<str> = String::from_utf8_lossy(&user).into();
            users.entry(user).or_default().end(id, Some(Ended::Buffered(ticket)), now);
        }
    }

    /// What was unknown of `id` is known now: it was applied, or with `None` never will be.
    pub fn resolve(&self, user: &Arc<str>, id: u128, ended: Option<Ended>, now: Duration) {
        if let Some(ids) = self.users().get_mut(user) {
            ids.end(id, ended, now);
        }
    }

    fn release(&self, user: &Arc<str>, id: u128) {
        let mut users = self.users();
        let Some(ids) = users.get_mut(user) else { return };
        if matches!(ids.by_id.get(&id), Some(Entry::Open)) {
            ids.by_id.remove(&id);
        }
        if ids.by_id.is_empty() {
            users.remove(user);
        }
    }
}

impl Ids {
    fn end(&mut self, id: u128, ended: Option<Ended>, now: Duration) {
        match ended {
            Some(ended) => {
                self.by_id.insert(id, Entry::Ended(now, ended));
                self.ended.push_back((now, id));
                self.forget_old(now);
            }
            None => drop(self.by_id.remove(&id)),
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while let Some((at, id)) = self.ended.front().copied() {
            if self.ended.len() <= GIVEN_IDS_MAX && now.saturating_sub(at) < GIVEN_TIME {
                return;
            }
            self.ended.pop_front();
            if matches!(self.by_id.get(&id), Some(Entry::Ended(since, _)) if *since == at) {
                self.by_id.remove(&id);
            }
        }
    }
}

impl Claim {
    /// The id, as it is kept with what its transaction writes.
    pub fn given_id(&self) -> GivenId {
        GivenId { user: Blob::from(self.user.as_bytes()), id: self.id }
    }

    /// Remembers how `committing` ends, whether its client waits for that or not.
    pub fn follow(self, committing: Committing, runtime: &Runtime) {
        let clock = runtime.clone();
        let mut followed = Box::pin(async move {
            let outcome = committing.wait().await;
            self.end(&outcome, clock.elapsed());
        });
        // Before the client can be answered, if it is known by now.
        if (&mut followed).now_or_never().is_none() {
            runtime.spawn(followed);
        }
    }

    /// Remembers how its transaction ended.
    pub fn end(self, outcome: &Result<Option<Landed>, TxnError>, now: Duration) {
        let ended = match outcome {
            Ok(Some(Landed { ticket: Some(ticket), .. })) => Ended::Buffered(*ticket),
            Ok(Some(landed)) => Ended::Committed(landed.version),
            Err(TxnError::Unknown(id)) => Ended::Unknown(*id),
            Ok(None) | Err(_) => return,
        };
        self.given.resolve(&self.user, self.id, Some(ended), now);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.given.release(&self.user, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(sequence: u64) -> Result<Option<Landed>, TxnError> {
        Ok(Some(Landed { version: Version { incarnation: 1, sequence }, ticket: None }))
    }

    fn claim(given: &Arc<Given>, user: &Arc<str>, id: u128, seconds: u64) -> Option<Claim> {
        match given.begin(user, id, Duration::from_secs(seconds)) {
            Begun::New(claim) => Some(claim),
            Begun::Open | Begun::Ended(_) => None,
        }
    }

    #[test]
    fn an_outcome_is_told_for_a_while_to_its_user() {
        let (given, ann, bob): (_, Arc<str>, Arc<str>) = (Arc::new(Given::default()), "ann".into(), "bob".into());
        let open = claim(&given, &ann, 7, 0).unwrap();
        assert!(matches!(given.begin(&ann, 7, Duration::ZERO), Begun::Open));
        assert!(claim(&given, &bob, 7, 0).is_some(), "another user's is another");
        open.end(&committed(5), Duration::from_secs(1));
        let known = |seconds| match given.begin(&ann, 7, Duration::from_secs(seconds)) {
            Begun::Ended(ended) => Some(ended),
            Begun::New(_) | Begun::Open => None,
        };
        assert_eq!(known(600), Some(Ended::Committed(Version { incarnation: 1, sequence: 5 })));
        assert_eq!(known(601), None);
    }

    #[test]
    fn what_changed_nothing_is_forgotten() {
        let (given, user): (_, Arc<str>) = (Arc::new(Given::default()), "ann".into());
        for outcome in [Ok(None), Err(TxnError::Conflict("k".to_owned()))] {
            claim(&given, &user, 7, 0).unwrap().end(&outcome, Duration::ZERO);
        }
        drop(claim(&given, &user, 7, 0).unwrap());
        assert!(given.users().is_empty());
        claim(&given, &user, 7, 0).unwrap().end(&Err(TxnError::Unknown(TxnId(Version::ZERO))), Duration::ZERO);
        given.resolve(&user, 7, None, Duration::ZERO);
        assert!(claim(&given, &user, 7, 0).is_some());
    }

    #[test]
    fn the_oldest_go_when_there_are_many() {
        let (given, user): (_, Arc<str>) = (Arc::new(Given::default()), "ann".into());
        for id in 0..=GIVEN_IDS_MAX as u128 {
            claim(&given, &user, id, 0).unwrap().end(&committed(1), Duration::ZERO);
        }
        assert!(claim(&given, &user, 1, 0).is_none());
        // It has room again, under an entry of its own.
        let again = claim(&given, &user, 0, 0).unwrap();
        assert_eq!(given.users()[&user].by_id.len(), GIVEN_IDS_MAX + 1);
        again.end(&committed(2), Duration::from_secs(1));
        assert_eq!(given.users()[&user].by_id.len(), GIVEN_IDS_MAX);
        assert!(claim(&given, &user, 1, 1).is_some());
    }
}
