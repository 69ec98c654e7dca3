//! Commits at the gate: straight to the store, or into the buffer.

use std::borrow::Cow;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, join_all, select};

use super::Inner;
use super::journaled::Kept;
use crate::change::Change;
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::journal;
use crate::outage::lanes::Ties;
use crate::outage::mode::Mode;
use crate::outage::pending::{Full, Untaken};
use crate::outage::record::Record;
use crate::outage::state::State;
use crate::store::{Commit, CommitOutcome, Priority, Write};
use crate::tier::Appending;
use crate::version::TxnId;

/// With so few transactions left at all, they will be gone before it matters: a write that has to queue waits for the
/// drain instead. With more it is buffered at once, which takes no longer than it did in the outage.
const WAIT_BELOW: usize = 64;

/// How long it waits at most.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// What is to be done with a group.
enum Way {
    Direct(oneshot::Receiver<()>),
    Buffer,
    Wait(oneshot::Receiver<()>),
    /// After this time, for good.
    Hold(Duration),
    /// Looked at again after this time: others go first.
    Pause(Duration),
}

impl Inner {
    /// One attempt; `roomless` where it has found no room before.
    pub(super) async fn commit_once(&self, group: &[Commit], roomless: bool) -> Vec<CommitOutcome> {
        let mut slept = self.runtime.sleep(WAIT_MAX);
        let (mut may_wait, mut held) = (true, false);
        loop {
            if let Some(Unavailable(why)) = self.found_fenced() {
                return vec![CommitOutcome::Unavailable(why); group.len()];
            }
            if let Some(overtaken) = group.iter().find_map(|commit| self.read_before(&self.state(), commit)) {
                return vec![overtaken; group.len()];
            }
            match self.way(group, may_wait, roomless) {
                Way::Hold(time) if !held => {
                    self.runtime.sleep(time).await;
                    held = true;
                }
                Way::Pause(time) => self.runtime.sleep(time).await,
                Way::Hold(_) => return self.buffer(group, &[]).await,
                Way::Direct(away) => return self.commit_directly(group, away).await,
                Way::Buffer => return self.buffer(group, &[]).await,
                Way::Wait(changed) => match select(changed, slept).await {
                    Either::Left((_, rest)) => slept = rest,
                    Either::Right(_) => (slept, may_wait) = (Box::pin(std::future::pending()), false),
                },
            }
        }
    }

    fn way(&self, group: &[Commit], may_wait: bool, roomless: bool) -> Way {
        let mut state = self.state();
        let failing = state.failing(self.runtime.elapsed());
        if mutation::on(Fault::WritesOvertakeDrain) && !failing {
            return Way::Direct(state.next_outage());
        }
        let unseen = |commit: &Commit| commit.writes.iter().any(|write| write.unseen);
        let computed = !self.store.caps().applies && group.iter().any(unseen);
        let strict = group.iter().any(|commit| commit.strict);
        let write_back = self.settings.write_back_ms.is_some();
        let waits = state.roomless > 0 && state.suspended.is_none() && !mutation::on(Fault::RoomPassed);
        let waited_for = waits && !strict;
        if failing || (computed && !waited_for) {
            return Way::Buffer;
        }
        if write_back && !strict && !computed {
            return self.way_back(&mut state, group, roomless);
        }
        let troubled = state.mode != Mode::Normal || state.writes.is_in_doubt();
        let low = troubled && group.iter().all(|commit| commit.priority == Priority::Low && !commit.strict);
        if waited_for {
            return self.way_in_turn(&mut state, group, roomless, low || computed);
        }
        if low {
            return Way::Buffer;
        }
        let waiting = self.waiting_before(&state, group);
        let high = group.iter().all(|commit| commit.priority == Priority::High);
        let few = high || state.buffer.amount().waiting <= WAIT_BELOW;
        // Behind what is quarantined alone there is nothing to wait for.
        match waiting {
            None => Way::Direct(state.next_outage()),
            Some(1..) if (few || write_back) && may_wait && state.suspended.is_none() => {
                // What is kept on purpose goes before its time.
                if write_back && !std::mem::replace(&mut state.hurried, true) {
                    self.settle(&mut state);
                }
                Way::Wait(state.next_change())
            }
            Some(_) => match self.hold(&mut state) {
                Duration::ZERO => Way::Buffer,
                time => Way::Hold(time),
            },
        }
    }

    /// The way where a write waits for room, which may be `group` itself. It goes `behind` what waits although
    /// nothing is in its way, or directly then.
    fn way_in_turn(&self, state: &mut State, group: &[Commit], roomless: bool, behind: bool) -> Way {
        match self.waiting_before(state, group).or(behind.then_some(0)) {
            None => Way::Direct(state.next_outage()),
            Some(_) if roomless => Way::Buffer,
            Some(_) => Way::Pause(state.speed.room_pause(state.buffer.amount().waiting)),
        }
    }

    /// The way of what is kept on purpose, while the store is there: kept, unless the drain is behind. Then it goes
    /// past where nothing is in its way, else it is held up; and nobody passes one that found no room.
    fn way_back(&self, state: &mut State, group: &[Commit], roomless: bool) -> Way {
        let Some(write_back) = &state.write_back else { return Way::Buffer };
        let written = group.iter().flat_map(|commit| commit.writes.iter().map(|write| &write.key));
        let lanes = self.settings.lanes.lanes(&*self.store, written);
        let amount = state.buffer.amount();
        let late = write_back.late(&state.speed, amount, state.buffer.oldest_in_ms(&lanes), self.runtime.now_ms());
        let others = state.roomless > 0 && !roomless;
        // Where an operator has to say so first, nothing gets on by waiting.
        if !roomless && ((late.is_zero() && !others) || state.suspended.is_some()) {
            return Way::Buffer;
        }
        if others || roomless {
            return self.way_in_turn(state, group, roomless, false);
        }
        match self.waiting_before(state, group) {
            None => Way::Direct(state.next_outage()),
            Some(_) => Way::Hold(late),
        }
    }

    /// Of how many that wait something in `group` must not go before; none if it is free to go, nothing if what it has
    /// to queue behind waits for an operator alone.
    fn waiting_before(&self, state: &State, group: &[Commit]) -> Option<usize> {
        let mut waiting = None;
        for commit in group.iter().filter(|_| !state.buffer.is_empty() || !state.unnoted.is_empty()) {
            let written = || commit.writes.iter().map(|write| &write.key);
            let (ties, lanes) = (self.ties(commit), self.settings.lanes.lanes(&*self.store, written()));
            let read = commit.checks.iter().map(|(key, _)| key).chain(&ties.follows);
            let deletes = |write: &&Write| write.changes.contains(&Change::Delete);
            let deleted = commit.writes.iter().filter(deletes).map(|write| &write.key);
            let unnoted = state.unnoted.holds(&lanes, written());
            // Sent now, and perhaps lost, it would come again behind what moves that on.
            let moved = commit.checks.iter().any(|(key, _)| state.buffer.is_moved_before(key, u64::MAX));
            if unnoted || moved || state.buffer.must_queue(&lanes, written().chain(read), deleted) {
                waiting = waiting.max(Some(state.buffer.waiting_in(&ties.lanes)));
            }
        }
        waiting
    }

    /// For how long a write that has to queue is held up.
    fn hold(&self, state: &mut State) -> Duration {
        // Where an operator has to say so first, nothing gets on by waiting.
        if state.mode != Mode::Recovery || state.suspended.is_some() {
            return Duration::ZERO;
        }
        let (waiting, applied) = (state.buffer.amount().waiting, state.counts.applied);
        state.pace.hold(self.runtime.elapsed(), waiting, applied)
    }

    pub(super) fn ties(&self, commit: &Commit) -> Ties {
        let written = commit.writes.iter().map(|write| (&write.key, &*write.changes));
        self.settings.lanes.ties(&*self.store, written, commit.checks.iter().map(|(key, _)| key))
    }

    async fn commit_directly(&self, group: &[Commit], away: oneshot::Receiver<()>) -> Vec<CommitOutcome> {
        let (commits, overtaken) = self.as_stored(group);
        let (mut outcomes, _) = match commits.is_empty() {
            true => (Vec::new(), false),
            false => self.ask_to_commit(&commits, away, false).await,
        };
        let first = outcomes.iter().position(|outcome| !outcome.is_applied()).unwrap_or(outcomes.len());
        let failed = matches!(outcomes.get(first), Some(CommitOutcome::Unavailable(_) | CommitOutcome::Unknown(_)));
        if !failed {
            outcomes.extend(overtaken.filter(|_| first == commits.len()).map(CommitOutcome::Conflict));
            let why = "a commit ahead in the same group was not applied; run the transaction again";
            outcomes.resize(group.len(), CommitOutcome::Unavailable(why.into()));
        } else {
            let rest = self.buffer(&group[first..], &outcomes[first..]).await;
            outcomes.truncate(first);
            outcomes.extend(rest);
        }
        outcomes
    }

    /// The commits of `group` with the versions that the store has of what they have read, which may have been shown
    /// under one of our own; up to one that has read what the store never had, with that.
    fn as_stored<'a>(&self, group: &'a [Commit]) -> (Cow<'a, [Commit]>, Option<Vec<Key>>) {
        let state = self.state();
        let mut commits = Cow::Borrowed(group);
        if !state.buffer.has_restamped() {
            return (commits, None);
        }
        for (at, commit) in group.iter().enumerate() {
            let mut overtaken = Vec::new();
            for (place, (key, version)) in commit.checks.iter().enumerate() {
                match state.buffer.stored_version(key, *version) {
                    Some(stored) if stored == *version => {}
                    Some(stored) => commits.to_mut()[at].checks[place].1 = stored,
                    None => overtaken.push(key.clone()),
                }
            }
            if !overtaken.is_empty() {
                commits.to_mut().truncate(at);
                return (commits, Some(overtaken));
            }
        }
        (commits, None)
    }

    /// What the store says to `group`, noted by the breaker; nobody knows what became of it if the store is found to be
    /// away meanwhile. Also whether it did not answer for the group, and answers otherwise: that is no failure of the
    /// store. It is asked about that if it matters: always by the drain, else before the breaker opens.
    pub(in crate::outage) async fn ask_to_commit(
        &self,
        group: &[Commit],
        away: oneshot::Receiver<()>,
        drain: bool,
    ) -> (Vec<CommitOutcome>, bool) {
        let mut outcomes = match select(self.store.commit(group), away).await {
            Either::Left((outcomes, _)) => outcomes,
            Either::Right((_, call)) => {
                drop(call);
                let why = "the store was found to be away";
                return (vec![CommitOutcome::Unknown(why.into()); group.len()], false);
            }
        };
        outcomes.resize(group.len(), CommitOutcome::Unknown("the store answered for fewer commits".into()));
        let stopped = outcomes.iter().find(|outcome| !outcome.is_applied());
        let matters = matches!(stopped, Some(CommitOutcome::Unknown(_))) && self.matters(drain);
        let slow = matters && self.store.ping().await.is_ok();
        let mut state = self.state();
        match stopped {
            Some(CommitOutcome::Unknown(_)) if slow => {
                state.writes.answered();
            }
            Some(CommitOutcome::Unavailable(why) | CommitOutcome::Unknown(why)) => {
                if state.writes.failed(why) {
                    self.settle(&mut state);
                }
            }
            _ => state.writes.worked(),
        }
        (outcomes, slow)
    }

    /// Whether it matters that the store answers although it did not answer for a commit.
    fn matters(&self, drain: bool) -> bool {
        let state = self.state();
        !state.failing(self.runtime.elapsed()) && (drain || state.writes.is_about_to_open())
    }

    /// Buffers `group`, in order. `told` is what the store said to it, if it was asked.
    async fn buffer(&self, group: &[Commit], told: &[CommitOutcome]) -> Vec<CommitOutcome> {
        let unknown = |at: usize| matches!(told.get(at), Some(CommitOutcome::Unknown(_)));
        let mut taken = Vec::with_capacity(group.len());
        let mut outcomes = vec![None; group.len()];
        {
            let mut state = self.state();
            for (at, commit) in group.iter().enumerate() {
                // The store may have said so just now, in answer to these.
                if let Some(Unavailable(why)) = self.fenced() {
                    let stands = unknown(at).then(|| CommitOutcome::Unknown(why.clone()));
                    outcomes[at] = Some(stands.unwrap_or(CommitOutcome::Unavailable(why)));
                    continue;
                }
                // Better now than when nobody waits for the answer any more.
                if let Some(why) = self.store.refuses(commit).filter(|_| !unknown(at)) {
                    outcomes[at] = Some(CommitOutcome::Refused(why));
                    continue;
                }
                if let Some(overtaken) = self.read_before(&state, commit).filter(|_| !unknown(at)) {
                    outcomes[at] = Some(overtaken);
                    continue;
                }
                let now_ms = self.runtime.now_ms();
                if commit.strict {
                    outcomes[at] = Some(told.get(at).cloned().unwrap_or_else(|| self.not_kept(&state)));
                    continue;
                }
                // Under the lock: where the tables become known now, all that is buffered is tied again under it.
                let merge = self.settings.merge && self.may_merge(&state, commit);
                let form = commit.writes.first().filter(|_| merge).map(|write| self.store.form(&write.key));
                state.buffer.learned(commit).iter().for_each(|record| drop(self.note(record)));
                match state.buffer.take(commit, self.ties(commit), unknown(at), form.as_ref(), now_ms) {
                    // Under the lock: the journal has them in the order of their numbers.
                    Ok((number, record)) => taken.push((at, number, self.note(&record))),
                    // It has read what others have changed since.
                    Err(Untaken::Overtaken(keys)) => outcomes[at] = Some(CommitOutcome::Conflict(keys)),
                    Err(Untaken::Full(full)) => {
                        let why = self.no_room(&state, full);
                        state.counts.full += u64::from(unknown(at));
                        outcomes[at] =
                            Some(if unknown(at) { CommitOutcome::Unknown(why) } else { CommitOutcome::Full(why) });
                    }
                }
            }
        }
        let (places, appends): (Vec<(usize, u64)>, Vec<_>) =
            taken.into_iter().map(|(at, number, append)| ((at, number), append)).unzip();
        let appended = match mutation::on(Fault::AcknowledgedBeforeJournal) {
            true => vec![Ok(()); places.len()],
            false => join_all(appends).await,
        };
        let fenced = self.fenced();
        let taken_back = match &fenced {
            Some(_) => self.take_back(places.iter().map(|(_, number)| *number).zip(&appended)).await,
            None => Vec::new(),
        };
        let mut state = self.state();
        for ((at, number), appended) in places.into_iter().zip(appended) {
            let kept = Kept { number, sent: unknown(at), taken_back: taken_back.contains(&number), appended };
            outcomes[at] = Some(self.kept(&mut state, &group[at], kept, fenced.as_ref()));
        }
        self.settle(&mut state);
        outcomes.into_iter().flatten().collect()
    }

    /// The answer to a commit whose transaction may have read the store before it was found in another state.
    fn read_before(&self, state: &State, commit: &Commit) -> Option<CommitOutcome> {
        let before = commit.version < self.found_at(state) || self.is_unnoticed(state);
        (before && !mutation::on(Fault::WrittenToAnotherState))
            .then(|| CommitOutcome::Conflict(commit.writes.iter().map(|write| write.key.clone()).collect()))
    }

    /// Whether what waits of the document that `commit` writes may still be replaced: while it is applied, one
    /// that is written all the time would never get its turn.
    fn may_merge(&self, state: &State, commit: &Commit) -> bool {
        let Some(write_back) = state.write_back.as_ref().filter(|_| state.mode != Mode::Failed) else {
            return state.mode == Mode::Failed;
        };
        let since = |write: &Write| state.buffer.last_ms(&write.key);
        let young = |since_ms| write_back.is_young(since_ms, self.runtime.now_ms());
        !state.hurried && commit.writes.first().and_then(since).is_none_or(young)
    }

    /// Why there is no room, and what helps.
    fn no_room(&self, state: &State, full: Full) -> String {
        let helps = match state.failing(self.runtime.elapsed()) {
            true => "wait for the store",
            false if state.suspended.is_some() => "compare what is buffered with the store and say CACHE DRAIN RESUME",
            false if state.buffer.amount().waiting == 0 => "decide about what CACHE QUARANTINE LIST shows",
            false => "wait until the store, which is there, has taken more of what is buffered",
        };
        let Full { needed, room } = full;
        let most = self.settings.bytes_max;
        format!("{needed} bytes are needed, {room} are left of --outage-bytes-max {most}; {helps}, or raise it")
    }

    /// What a strict client is told in place of having its commit buffered.
    fn not_kept(&self, state: &State) -> CommitOutcome {
        let what = "not buffered, as CACHE STRICT wants it";
        CommitOutcome::Unavailable(match state.mode {
            Mode::Failed => self.away(state, what).0,
            _ => format!("{what}, and what is buffered goes first"),
        })
    }

    /// Has the journal keep `record`, behind all before.
    pub(in crate::outage) fn note(&self, record: &Record) -> Appending {
        self.note_all([record])
    }

    /// Likewise all of `records`, or none.
    pub(in crate::outage) fn note_all<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Appending {
        match records.into_iter().map(journal::entry).collect() {
            Ok(entries) => self.journal.append_all(entries),
            Err(error) => Appending::ready(Err(error)),
        }
    }

    /// Refuses to ask what became of what is kept here: that the store is told never to apply it would give it up, and
    /// all that was merged into it.
    pub(super) fn check_unkept(&self, ids: &[TxnId]) -> Result<(), Unavailable> {
        let state = self.state();
        let kept = ids.iter().find(|id| state.buffer.has_id(**id) && !mutation::on(Fault::KeptDenied));
        kept.map_or(Ok(()), |id| Err(Unavailable(format!("commit {id} is kept for an operator to decide"))))
    }
}
