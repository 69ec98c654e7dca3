//! Group commit: from a transaction's buffered writes to their publication.
//!
//! With an *ordered* store the results of a commit are put down beside its locks. Then it gets its place in the commit
//! order, and the locks go on to whoever waits; the store's flush is still to come. One loop takes commits that have a
//! place, gives them to the store as one group and publishes the group as a whole, groups in commit order. So the
//! commits of many clients share one flush, also on one hot key. A wide commit is a group by itself.
//!
//! Who was handed a lock reads the result beside it and from then on *depends* on that commit: nothing that it computed
//! is shown or committed unless the commit is published ([`Settled`]). A commit that fails takes with it exactly those
//! that depend on it.
//!
//! With any other store a commit is a group of its own, locks stay until it is published, nothing depends on it. So it
//! is with a store that never waits ([`Store::commit_now`]), and there whoever commits does all of it in one go.
//!
//! **Invariants.** Places rise in the order in which locks are handed on, so per key in the order of versions. Nothing
//! is published before the store has answered for it. A commit in the loop needs nobody: the client may be gone.
//!
//! A commit whose outcome the store does not know ([`CommitOutcome::Unknown`]) stops the loop until the store can be
//! asked. Its keys leave the cache, its results stay beside their locks, so nobody reads around it; its client is told
//! `Unknown` after the first question that the store can't answer, and commits that come meanwhile are `Unavailable`;
//! but with a store that is not ordered it keeps its locks, and commits of other keys go on.

mod last;
mod now;
mod opened;
mod published;
mod queue;
mod room;
mod unsure;

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::locks::{Locks, Owner, Pending};
use super::placed::{Caching, Placed, Rest};
use super::settled::{self, Failure, Landed, Settled, Settlement};
use crate::cache::{Cache, Changed};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::runtime::{self, Runtime};
use crate::store::{Commit, CommitOutcome, Footprint, Resolved, Store, Write};
use crate::sync::{AtomicU64, Mutex, MutexGuard};
use crate::version::{Mint, TxnId, Version};
use last::LastReads;
pub(super) use now::Now;
pub use queue::GROUP_COMMITS_MAX;
use queue::Queue;
pub(super) use room::Admitted;

/// Waits between two questions to a store that can't say what became of a commit.
const RESOLVE_PAUSES: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1)];

/// A commit on its way from a transaction.
pub(super) struct Submission {
    pub(super) owner: Owner,
    /// All keys that the owner has locked.
    pub(super) held: Vec<Key>,
    /// Without a version.
    pub(super) commit: Commit,
    /// The store's incarnation when the transaction began: it has no place under a later one.
    pub(super) incarnation: u64,
    /// The commits whose results it read.
    pub(super) depends: Vec<Settled>,
    /// What is to become of its keys in the cache when it is published.
    pub(super) caching: Caching,
    /// Its room among those on their way; none over a store that commits at once.
    pub(super) room: Option<Admitted>,
}

/// A commit that is to be made visible, what the store says of its documents, and its ticket if it is buffered.
type Published = (Placed, Vec<(Key, Read)>, Option<u64>);

/// The group committer of one engine.
pub(super) struct Committer {
    runtime: Runtime,
    cache: Cache,
    locks: Arc<Locks>,
    store: Arc<dyn Store>,
    mint: Arc<Mint>,
    queue: Mutex<Queue>,
    /// What was done at once under numbers up to this one is over.
    passed: AtomicU64,
}

impl Committer {
    pub(super) fn new(
        runtime: Runtime,
        cache: Cache,
        locks: Arc<Locks>,
        store: Arc<dyn Store>,
        mint: Arc<Mint>,
        placed_bytes_max: usize,
    ) -> Committer {
        let queue = Mutex::new(Queue::new(placed_bytes_max, store.caps().ordered));
        Committer { runtime, cache, locks, store, mint, queue, passed: AtomicU64::new(0) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a commit over, locks included. The answer is to be awaited before anything of it is shown.
    ///
    /// **Invariants.** A commit gets its version with its place, under one lock. So versions rise in the order of
    /// places, which is that of publication, and [`Committer::as_of`] knows what is published.
    ///
    /// Results stand beside the locks before the commit has a place, and locks go on behind that. Until it has one
    /// nobody sees the results, since all its keys are locked. So what takes as long as the commit is wide
    /// needs no lock of the queue, and those that come meanwhile do not wait for it.
    pub(super) fn submit(self: &Arc<Committer>, submission: Submission) -> Settled {
        let (settle, settled) = settled::pair();
        let ordered = self.store.caps().ordered;
        let Submission { owner, held, mut commit, incarnation, depends, caching, room } = submission;
        self.cache.hold(commit.writes.iter().map(|write| &write.key));
        if mutation::on(Fault::LockBeforePlace) || mutation::on(Fault::CacheBeforeStore) {
            settled.placed(self.mint.next());
        }
        if mutation::on(Fault::ToldBeforePublication) {
            commit.writes.iter().for_each(|write| self.cache.changed(Changed::Key(&write.key, 0)));
        }
        if ordered {
            self.put_down(&commit, &settled);
        }
        if mutation::on(Fault::LockBeforePlace) {
            self.locks.release(owner, &held);
        }
        mutation::meanwhile();
        let mut queue = self.queue();
        let refused = if ordered { queue.refuses() } else { queue.refuses_unordered() };
        let version = settled.version().unwrap_or_else(|| self.mint.next());
        let reopened = version.incarnation != incarnation && !mutation::on(Fault::VersionFenceOff);
        let reopened = reopened.then(|| Failure::Conflict("the store was reopened".into()));
        if let Some(failure) = refused.map(Failure::Unavailable).or(reopened) {
            drop(queue);
            if !mutation::on(Fault::RefusedLeavesResults) {
                self.take_back(&commit, settled.version(), &caching);
            }
            self.locks.release(owner, &held);
            settle.tell(Settlement::Failed(failure));
            return settled;
        }
        if settled.version().is_none() {
            settled.placed(version);
        }
        commit.place(version);
        let place = queue.next_place;
        queue.next_place += 1;
        queue.unsettled.insert(place, settled.clone());
        let room = room.map_or_else(Footprint::default, Admitted::hand_over);
        if !ordered {
            drop(queue);
            let placed = Placed { commit, place, depends, settle, locked: Some((owner, held)), caching, room };
            self.drive(vec![placed]);
            return settled;
        }
        queue.placed.push_back(Placed { commit, place, depends, settle, locked: None, caching, room });
        let idle = !mem::replace(&mut queue.running, true);
        drop(queue);
        mutation::interleave();
        self.locks.release(owner, &held);
        if idle {
            self.next_group();
        }
        settled
    }

    /// Puts the results of a commit down beside its locks.
    fn put_down(&self, commit: &Commit, settled: &Settled) {
        if mutation::on(Fault::CacheBeforeStore) {
            let version = settled.version().unwrap_or_default();
            let read = |write: &Write| Read { value: write.after.clone(), version };
            let early = commit.writes.iter().map(|write| (write.key.clone(), Some(read(write))));
            self.cache.publish(&early.collect::<Vec<_>>(), &[]);
        }
        let count = if mutation::on(Fault::LockWithoutResult) { 0 } else { commit.writes.len() };
        for write in &commit.writes[..count] {
            self.locks.put_down(&write.key, Pending { value: write.after.clone(), settled: settled.clone() });
        }
    }

    /// Takes back what was put down and held of a commit that was not applied; `version`: once it has a place.
    fn take_back(&self, commit: &Commit, version: Option<Version>, caching: &Caching) {
        let keys = || commit.writes.iter().map(|write| &write.key);
        self.cache.release(keys());
        self.cache.ended(&caching.context, false);
        self.locks.settle(keys().map(|key| (key, version)));
    }

    /// The commits that are on their way now.
    pub(super) fn unsettled(&self) -> Vec<Settled> {
        self.queue().unsettled.values().cloned().collect()
    }

    /// Waits until the commits that have a place now are settled; says why if the store can't settle one.
    pub(super) async fn drained(&self) -> Result<(), String> {
        for settled in self.unsettled() {
            settled.wait().await;
        }
        self.queue().refuses().map_or(Ok(()), Err)
    }

    /// Takes the commits that have a place and drives them as one group; ends the loop if there are none.
    fn next_group(self: &Arc<Committer>) {
        loop {
            let group: Vec<Placed> = {
                let mut queue = self.queue();
                if queue.placed.is_empty() {
                    queue.running = false;
                    return;
                }
                queue.take_group()
            };
            if !self.drive(group) {
                return;
            }
        }
    }

    /// Commits and publishes a group: here if the store answers at once and the group is not wide, else in a task of
    /// its own, which also goes on with the loop. True if it is done.
    fn drive(self: &Arc<Committer>, group: Vec<Placed>) -> bool {
        let again = group.first().is_some_and(|placed| placed.locked.is_none());
        let client = mutation::on(Fault::CommitDiesWithConnection).then(|| group[0].settle.client()).flatten();
        let wide = group.iter().map(|placed| placed.commit.writes.len()).sum::<usize>() > GROUP_COMMITS_MAX;
        let committer = self.clone();
        let mut work: BoxFuture<'static, ()> = Box::pin(async move { committer.commit(group).await });
        if !wide && (&mut work).now_or_never().is_some() {
            return true;
        }
        let committer = self.clone();
        self.runtime.spawn(async move {
            match client {
                None if wide => committer.runtime.in_long_steps(work).await,
                None => work.await,
                Some(client) => client.while_wanted(work).await,
            }
            if again {
                // With what they commit next, those whose commits were just published belong in the group that is about
                // to be made, not in the one behind it. Else clients that are always busy fall into two halves that
                // wait for each other's flush for ever.
                runtime::yield_now().await;
                committer.next_group();
            }
        });
        false
    }

    async fn commit(self: &Arc<Committer>, group: Vec<Placed>) {
        let _guard = self.watch_for_panic(true);
        let group = self.without_orphans(group).await;
        if group.is_empty() {
            return;
        }
        if mutation::on(Fault::PendingDroppedEarly) {
            let results = |placed: &Placed| (placed.commit.version, placed.commit.writes.clone());
            for (version, writes) in group.iter().map(results) {
                self.locks.settle(writes.iter().map(|write| (&write.key, Some(version))));
            }
        }
        let (commits, rest): (Vec<Commit>, Vec<Rest>) = group.into_iter().map(Rest::split).unzip();
        let commits = Arc::new(commits);
        let mut outcomes = self.store.commit_shared(commits.clone()).await;
        let commits = Arc::try_unwrap(commits).unwrap_or_else(|kept| kept.to_vec());
        outcomes.resize(commits.len(), CommitOutcome::Unavailable("the store answered for fewer commits".into()));
        let joined = commits.into_iter().zip(rest).map(|(commit, rest)| rest.join(commit));
        let mut group: VecDeque<(Placed, CommitOutcome)> = joined.zip(outcomes).collect();
        let mut published = Vec::new();
        while let Some((placed, outcome)) = group.pop_front() {
            match outcome {
                CommitOutcome::Committed(changed) => published.push((placed, changed, None)),
                CommitOutcome::Repeated(since) => {
                    let reads = since.into_iter().map(|since| (since.key, since.read)).collect();
                    published.push((placed, reads, None));
                }
                CommitOutcome::Buffered(kept) => published.push((placed, kept.reads, Some(kept.ticket))),
                CommitOutcome::Conflict(keys) => {
                    // Others have overtaken what is cached of them.
                    keys.iter().for_each(|key| self.cache.remove(key));
                    self.fail(placed, Failure::Conflict(conflict(&keys)));
                    self.place_again(&mut group);
                }
                CommitOutcome::Refused(why) | CommitOutcome::Failed(why) => {
                    self.fail(placed, Failure::Refused(why));
                    self.place_again(&mut group);
                }
                CommitOutcome::Unavailable(why) => self.fail(placed, Failure::Unavailable(why)),
                CommitOutcome::Full(why) => {
                    self.fail(placed, Failure::BufferFull(why));
                    self.place_again(&mut group);
                }
                CommitOutcome::Unknown(why) => {
                    self.publish(mem::take(&mut published));
                    group.push_front((placed, CommitOutcome::Unknown(why)));
                    self.resolve(&mut group).await;
                }
            }
        }
        self.publish(published);
        self.follow_incarnation();
    }

    /// A store that had to be reopened and lost what it had not flushed has a new incarnation: what is cached may be
    /// lost, and who has read it can't commit (`Transaction::submit` compares).
    pub(super) fn follow_incarnation(&self) {
        let (incarnation, sequence) = (self.store.incarnation(), self.store.minted());
        if incarnation > self.mint.incarnation() {
            opened::tell(self.store.caps(), incarnation);
            // First the cache: a transaction of the new incarnation must not read what the old one has cached.
            self.cache.clear(|_| true);
        }
        self.mint.raise(Version { incarnation, sequence });
    }

    /// Fails the commits that depend on one that failed. All that a commit depends on has an earlier place, so it is
    /// settled already or stands earlier in this group.
    async fn without_orphans(self: &Arc<Committer>, group: Vec<Placed>) -> Vec<Placed> {
        let orphaned = |placed: &Placed| placed.depends.iter().any(Settled::has_failed);
        if !group.iter().any(orphaned) {
            return group;
        }
        let mut sound = Vec::with_capacity(group.len());
        for placed in group {
            match orphaned(&placed) {
                true => self.fail(placed, Failure::Conflict("a commit that it built on failed".into())),
                false => sound.push(placed),
            }
        }
        sound
    }

    /// The commits behind one that the store refused were not applied, for no fault of theirs: they go to the head of
    /// the queue, in order; those that depend on it fail there.
    fn place_again(&self, behind: &mut VecDeque<(Placed, CommitOutcome)>) {
        let mut queue = self.queue();
        while let Some((placed, outcome)) = behind.pop_back() {
            if placed.locked.is_some() || !matches!(outcome, CommitOutcome::Unavailable(_)) {
                behind.push_back((placed, outcome));
                return;
            }
            queue.placed.push_front(placed);
        }
    }

    /// Asks until the store knows of all commits of `group` whose outcome is unknown, at once, whether they were
    /// applied.
    async fn resolve(self: &Arc<Committer>, group: &mut VecDeque<(Placed, CommitOutcome)>) {
        let unknown = |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Unknown(_));
        let mut asked: Vec<_> = group.iter_mut().filter(|(_, outcome)| unknown(outcome)).collect();
        for (placed, outcome) in &asked {
            self.queue().unsure.begins(self.runtime.elapsed(), &placed.commit.id, outcome);
            for write in &placed.commit.writes {
                self.cache.remove(&write.key);
                self.store.beside(&write.key).iter().for_each(|key| self.cache.remove(key));
            }
        }
        let (ids, mut attempt): (Vec<TxnId>, _) = (asked.iter().map(|(placed, _)| placed.commit.id).collect(), 0);
        let resolved = loop {
            match self.store.outcomes(&ids).await {
                Ok(resolved) => break resolved,
                Err(error) => {
                    self.queue().unsure.failed(self.runtime.elapsed(), &ids, &error);
                    let places = asked.iter().map(|(placed, _)| placed.place);
                    let first = ids.first().map(TxnId::to_string).unwrap_or_default();
                    self.refuse_placed(places, &format!("{error}; the outcome of commit {first} is unknown"));
                    asked.iter_mut().for_each(|(placed, _)| placed.tell_unknown());
                    self.free_room_of(asked.iter_mut().map(|(placed, _)| mem::take(&mut placed.room)));
                    self.runtime.sleep(RESOLVE_PAUSES[attempt]).await;
                    attempt = (attempt + 1).min(RESOLVE_PAUSES.len() - 1);
                }
            }
        };
        let mut queue = self.queue();
        queue.unsure.ends(ids.len());
        for ((placed, outcome), resolved) in asked.into_iter().zip(resolved) {
            queue.unknown.remove(&placed.place);
            *outcome = match (resolved, std::mem::replace(outcome, CommitOutcome::Committed(Vec::new()))) {
                (Resolved::NotApplied, CommitOutcome::Unknown(why)) => CommitOutcome::Unavailable(why),
                (_, _) => CommitOutcome::Committed(Vec::new()),
            };
        }
    }

    /// Fails all commits that wait for the loop, which is stuck, and those that come until it is known what became of
    /// the commits at `places`.
    fn refuse_placed(self: &Arc<Committer>, places: impl Iterator<Item = u64>, why: &str) {
        let (waiting, told) = {
            let mut queue = self.queue();
            queue.unknown.extend(places.map(|place| (place, why.to_owned())));
            // Where commits of other keys go on, they do so within their room.
            let told = self.store.caps().ordered.then(|| queue.room.open());
            (mem::take(&mut queue.placed), told)
        };
        told.into_iter().for_each(|told| told.tell(self));
        for placed in waiting {
            self.fail(placed, Failure::Unavailable(why.to_owned()));
        }
    }

    /// Takes back what was handed on of a commit that was not applied.
    fn fail(self: &Arc<Committer>, placed: Placed, failure: Failure) {
        self.take_back(&placed.commit, Some(placed.commit.version), &placed.caching);
        self.settle(vec![(placed, Settlement::Failed(failure.seen_by(&*self.store)))]);
    }

    /// Makes a group visible as a whole, then lets locks and replies go.
    fn publish(self: &Arc<Committer>, group: Vec<Published>) {
        if group.is_empty() {
            return;
        }
        let keys = group.iter().flat_map(|(placed, ..)| placed.commit.writes.iter().map(|write| &write.key));
        let hashes: Vec<u64> = keys.map(|key| key.borrow().hash64()).collect();
        if hashes.len() > 1 {
            self.cache.prefetch(&hashes);
        }
        let mut last = LastReads::with_capacity(hashes.len());
        let mut contexts = Vec::with_capacity(hashes.len());
        // For each write where its key stands in `last`, and its version.
        let mut results: Vec<(usize, Version)> = Vec::with_capacity(hashes.len());
        let owned = self.store.caps().owned;
        let mut settled = Vec::with_capacity(group.len());
        for (mut placed, changed, ticket) in group {
            let (version, changed) = (placed.commit.version, LastReads::told(changed));
            for write in mem::take(&mut placed.commit.writes) {
                let Write { key, after, unseen, .. } = write;
                let actual = changed.as_ref().and_then(|changed| changed.get(&key)).cloned();
                // Where others write too, only the store can say what came of it: without that the key leaves the
                // cache.
                let known = actual.or_else(|| (owned && !unseen).then_some(Read { value: after, version }));
                let read = known.filter(|_| !placed.caching.uncached);
                let written = placed.caching.context_of(&key);
                let at = last.set(key, read);
                match contexts.get_mut(at) {
                    Some(context) => *context = written,
                    None => contexts.push(written),
                }
                results.push((at, version));
            }
            settled.push((placed, Settlement::Published(Landed { version, ticket })));
        }
        if !owned {
            // What shares its place with a document that was written may have changed with it.
            for other in last.keys().flat_map(|key| self.store.beside(key)).collect::<Vec<_>>() {
                last.set_if_new(other, None);
            }
        }
        let mut last = last.into_reads();
        // What the store has lost since it answered, because it had to be reopened, must not be cached: looked at again
        // behind the installs, since whoever sees the new incarnation first clears the cache once.
        let incarnation = settled.iter().map(|(placed, _)| placed.commit.version.incarnation).max();
        let current = |store: &dyn Store| {
            incarnation.is_none_or(|ours| ours >= store.incarnation()) || mutation::on(Fault::LostGroupPublished)
        };
        if !current(&*self.store) {
            last.iter_mut().for_each(|(_, read)| *read = None);
        }
        self.cache.publish_group(&last, &contexts, false);
        settled.iter().for_each(|(placed, _)| self.cache.ended(&placed.caching.context, true));
        self.cache.release(results.iter().map(|(at, _)| &last[*at].0));
        if !current(&*self.store) {
            last.iter().for_each(|(key, _)| self.cache.remove(key));
        }
        self.locks.settle(results.iter().map(|(at, version)| (&last[*at].0, Some(*version))));
        self.settle(settled);
    }

    /// Tells what became of commits whose results stand beside no lock any more.
    fn settle(self: &Arc<Committer>, mut settled: Vec<(Placed, Settlement)>) {
        {
            let mut queue = self.queue();
            for (placed, _) in &settled {
                queue.unsettled.remove(&placed.place);
            }
        }
        let kept = |settlement: &Settlement| {
            matches!(settlement, Settlement::Failed(_)) && mutation::on(Fault::RoomKeptByFailed)
        };
        let freed = settled.iter_mut().filter(|(_, settlement)| !kept(settlement));
        self.free_room_of(freed.map(|(placed, _)| mem::take(&mut placed.room)));
        for (placed, settlement) in settled {
            if let Some((owner, held)) = &placed.locked {
                self.locks.release(*owner, held);
            }
            placed.settle.tell(settlement);
        }
    }
}

fn conflict(keys: &[Key]) -> String {
    if keys.is_empty() {
        return "the store gave it up for another transaction".to_owned();
    }
    format!("{} changed", keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", "))
}
