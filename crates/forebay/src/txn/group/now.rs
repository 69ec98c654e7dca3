//! Commits over a store that never waits: whoever commits does all of it in one go, without a place among others. And
//! what stops the commits for good.

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::last::LastReads;
use super::{Committer, conflict};
use crate::mutation::{self, Fault};
use crate::read::{Read, record};
use crate::store::{Commit, CommitOutcome, Write};
use crate::txn::placed::Caching;
use crate::txn::settled::Failure;
use crate::version::{TxnId, Version};

/// What became of a commit that was to be done at once.
pub(in crate::txn) enum Now {
    /// It is applied and published under this version; its locks are the transaction's still.
    Published(Version),
    /// It was not applied.
    Failed(Failure),
    /// It may have been applied, and nothing ever tells: its keys must stay locked.
    Unknown(TxnId),
    /// It has to take its place among others.
    Later(Box<Commit>),
}

impl Committer {
    /// Commits and publishes at once, if the store never waits and nothing is on its way: what is may be earlier
    /// results of the same keys. The keys are locked, and stay so; if `uncached` they leave the cache.
    pub(in crate::txn) fn commit_now(self: &Arc<Committer>, mut commit: Commit, caching: &Caching) -> Now {
        let version = {
            let mut queue = self.queue();
            if !queue.is_idle() || !self.store.commits_now() {
                return Now::Later(Box::new(commit));
            }
            let version = self.mint.next();
            queue.at_work.insert(version);
            version
        };
        commit.place(version);
        let _guard = self.watch_for_panic(true);
        let now = self.apply_now(commit, caching);
        match now {
            // What is half published is never called published.
            Now::Unknown(_) => self.stop_for_good(),
            _ => drop(self.queue().at_work.remove(&version)),
        }
        now
    }

    /// Whether nothing is on its way, and commits are taken.
    pub(in crate::txn) fn is_idle(&self) -> bool {
        self.queue().is_idle()
    }

    /// While what it gives back is there and armed, a panic stops the commits for good.
    pub(in crate::txn) fn watch_for_panic(self: &Arc<Committer>, armed: bool) -> OnPanic<'_> {
        OnPanic { committer: self, armed: Cell::new(armed) }
    }

    /// No commit is taken any more: the store has broken the contract of [`Store::commit_now`].
    pub(in crate::txn) fn stop_for_good(self: &Arc<Committer>) {
        let store = self.store.name();
        let why = format!("the store {store} broke its contract, which is a bug: restart the server");
        let told = {
            let mut queue = self.queue();
            queue.broken = Some(why);
            queue.room.open()
        };
        told.tell(self);
    }

    /// As [`Committer::commit_now`], for who has asked whether the committer is idle. Takes no lock of the committer's:
    /// its caller may hold the lock table's.
    pub(in crate::txn) fn apply_now(&self, mut commit: Commit, caching: &Caching) -> Now {
        let version = commit.version;
        for Write { key, after, .. } in &mut commit.writes {
            // Store and cache each keep a record of it: so it will be one and the same.
            after.iter_mut().for_each(|value| record::pack(key, value, version));
        }
        match self.store.commit_now(&commit) {
            Some(CommitOutcome::Committed(changed)) => {
                let changed = if changed.is_empty() { None } else { LastReads::told(changed) };
                let mut group = SmallVec::<[_; 1]>::with_capacity(commit.writes.len());
                for Write { key, after, .. } in &mut commit.writes {
                    let actual = changed.as_ref().and_then(|changed| changed.get(key)).cloned();
                    let read = actual.unwrap_or_else(|| Read { value: after.take(), version });
                    group.push((key.clone(), (!caching.uncached).then_some(read)));
                }
                match caching.vertices {
                    None => self.cache.publish_locked(&group, &caching.context),
                    Some(_) => {
                        let contexts: Vec<_> = group.iter().map(|(key, _)| caching.context_of(key)).collect();
                        self.cache.publish_group(&group, &contexts, true);
                    }
                }
                Now::Published(version)
            }
            Some(CommitOutcome::Conflict(keys)) => Now::Failed(Failure::Conflict(conflict(&keys))),
            Some(CommitOutcome::Refused(why) | CommitOutcome::Failed(why)) => Now::Failed(Failure::Refused(why)),
            Some(CommitOutcome::Unavailable(why)) => Now::Failed(Failure::Unavailable(why)),
            Some(CommitOutcome::Full(why)) => Now::Failed(Failure::BufferFull(why)),
            Some(CommitOutcome::Unknown(why)) => {
                // Against the contract, so nobody is there to ask. Nothing may be read or built on it.
                tracing::error!(id = %commit.id, why, "a store that never waits does not know what it has done");
                commit.writes.iter().for_each(|write| self.cache.remove(&write.key));
                Now::Unknown(commit.id)
            }
            // What is buffered waits for the journal; what was sent before did not come from here.
            Some(CommitOutcome::Buffered(_) | CommitOutcome::Repeated(_)) | None => Now::Later(Box::new(commit)),
        }
    }
}

/// A panic while a group is published (a bug in a policy, say) would leave the loop at a stand for ever: commits are
/// refused from then on, with the reason.
pub(in crate::txn) struct OnPanic<'a> {
    committer: &'a Arc<Committer>,
    /// A commit has begun.
    pub(in crate::txn) armed: Cell<bool>,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.armed.get() {
            // Nobody will settle what is still queued: its clients are told so, once the lock is given up.
            let (_untold, told) = {
                let mut queue = self.committer.queue();
                queue.running = false;
                queue.broken = Some("a commit ended in a panic, which is a bug: restart the server".to_owned());
                if mutation::on(Fault::UntoldBehindPanic) {
                    return;
                }
                let told = queue.room.open();
                (std::mem::take(&mut queue.placed), told)
            };
            told.tell(self.committer);
        }
    }
}
