//! Commits at the gate: straight to the store, or into the buffer.

use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, join_all, select};

use super::Inner;
use crate::change::Change;
use crate::mutation::{self, Fault};
use crate::outage::journal::{self, AppendError};
use crate::outage::lanes::Ties;
use crate::outage::mode::Mode;
use crate::outage::pending::Merged;
use crate::outage::record::Record;
use crate::outage::state::{State, due_in};
use crate::store::{Buffering, Commit, CommitOutcome, Priority, Write};
use crate::tier::Appending;

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
}

impl Inner {
    pub(super) async fn commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let mut slept = self.runtime.sleep(WAIT_MAX);
        let (mut may_wait, mut held) = (true, false);
        loop {
            match self.way(group, may_wait) {
                Way::Hold(time) if !held => {
                    self.runtime.sleep(time).await;
                    held = true;
                }
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

    fn way(&self, group: &[Commit], may_wait: bool) -> Way {
        let mut state = self.state();
        let failing = state.failing(self.runtime.elapsed());
        if mutation::on(Fault::WritesOvertakeDrain) && !failing {
            return Way::Direct(state.next_outage());
        }
        let unseen = |commit: &Commit| commit.writes.iter().any(|write| write.unseen);
        let computed = !self.store.caps().applies && group.iter().any(unseen);
        if failing || computed || self.settings.write_back_ms.is_some() {
            return Way::Buffer;
        }
        let troubled = state.mode != Mode::Normal || state.writes.is_in_doubt();
        if troubled && group.iter().all(|commit| commit.priority == Priority::Low && !commit.strict) {
            return Way::Buffer;
        }
        let mut waiting = None;
        for commit in group.iter().filter(|_| !state.buffer.is_empty()) {
            let written = || commit.writes.iter().map(|write| &write.key);
            let (ties, lanes) = (self.ties(commit), self.settings.lanes.lanes(&*self.store, written()));
            let read = commit.checks.iter().map(|(key, _)| key).chain(&ties.follows);
            let deletes = |write: &&Write| write.changes.contains(&Change::Delete);
            let deleted = commit.writes.iter().filter(deletes).map(|write| &write.key);
            if state.buffer.must_queue(&lanes, written().chain(read), deleted) {
                waiting = waiting.max(Some(state.buffer.waiting_in(&ties.lanes)));
            }
        }
        let high = group.iter().all(|commit| commit.priority == Priority::High);
        let few = high || state.buffer.amount().waiting <= WAIT_BELOW;
        // Behind what is quarantined alone there is nothing to wait for.
        match waiting {
            None => Way::Direct(state.next_outage()),
            Some(1..) if few && may_wait && state.suspended.is_none() => Way::Wait(state.next_change()),
            Some(_) => match self.hold(&mut state) {
                Duration::ZERO => Way::Buffer,
                time => Way::Hold(time),
            },
        }
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

    fn ties(&self, commit: &Commit) -> Ties {
        let written = commit.writes.iter().map(|write| (&write.key, &*write.changes));
        self.settings.lanes.ties(&*self.store, written, &commit.checks)
    }

    async fn commit_directly(&self, group: &[Commit], away: oneshot::Receiver<()>) -> Vec<CommitOutcome> {
        let (mut outcomes, _) = self.ask_to_commit(group, away, false).await;
        let applied = |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Committed(_));
        let first = outcomes.iter().position(|outcome| !applied(outcome)).unwrap_or(outcomes.len());
        let failed = matches!(outcomes.get(first), Some(CommitOutcome::Unavailable(_) | CommitOutcome::Unknown(_)));
        if failed {
            let rest = self.buffer(&group[first..], &outcomes[first..]).await;
            outcomes.truncate(first);
            outcomes.extend(rest);
        }
        outcomes
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
        let applied = |outcome: &&CommitOutcome| matches!(outcome, CommitOutcome::Committed(_));
        let stopped = outcomes.iter().find(|outcome| !applied(outcome));
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
            let merge = self.settings.merge && self.may_merge(&state);
            for (at, commit) in group.iter().enumerate() {
                // Better now than when nobody waits for the answer any more.
                if let Some(why) = self.store.refuses(commit).filter(|_| !unknown(at)) {
                    outcomes[at] = Some(CommitOutcome::Refused(why));
                    continue;
                }
                let now_ms = self.runtime.now_ms();
                if commit.strict {
                    outcomes[at] = Some(told.get(at).cloned().unwrap_or_else(|| self.not_kept(&state)));
                    continue;
                }
                // Under the lock: where the tables become known now, all that is buffered is tied anew under it.
                match state.buffer.take(commit, self.ties(commit), unknown(at), merge, now_ms) {
                    // Under the lock: the journal has them in the order of their numbers.
                    Ok((number, record)) => taken.push((at, number, self.note(&record))),
                    Err(full) => {
                        state.counts.full += 1;
                        let why = format!(
                            "{} bytes are needed, {} are left of --outage-bytes-max {}; wait for the store or raise it",
                            full.needed, full.room, self.settings.bytes_max
                        );
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
        let mut state = self.state();
        for ((at, number), appended) in places.into_iter().zip(appended) {
            outcomes[at] = Some(self.buffered(&mut state, &group[at], number, unknown(at), appended));
        }
        self.settle(&mut state);
        outcomes.into_iter().flatten().collect()
    }

    /// Whether those that wait may still be replaced: while they are carried over, a document that is written all the
    /// time would never get its turn.
    fn may_merge(&self, state: &State) -> bool {
        let now_ms = self.runtime.now_ms();
        let due = |age_ms| state.buffer.oldest_ms().is_some_and(|oldest| due_in(oldest, age_ms, now_ms).is_zero());
        state.mode == Mode::Failed || self.settings.write_back_ms.is_some_and(|age_ms| !due(age_ms))
    }

    fn buffered(
        &self,
        state: &mut State,
        commit: &Commit,
        number: u64,
        sent: bool,
        appended: Result<(), AppendError>,
    ) -> CommitOutcome {
        match appended {
            Ok(()) => {
                if let Some(old) = state.buffer.written(number, &commit.writes) {
                    state.tickets.merged(old, number);
                    state.counts.merged += 1;
                }
                state.counts.buffered += 1;
                // Unless it was computed with what has been given up.
                let known = |write: &Write| match state.buffer.merged(&write.key) {
                    Merged::Known(read) if read.version == commit.version => Some((write.key.clone(), read)),
                    _ => None,
                };
                let reads = commit.writes.iter().filter_map(known).collect();
                CommitOutcome::Buffered(Buffering { ticket: number, reads })
            }
            Err(error) => {
                state.buffer.withdraw(number);
                let why = error.to_string();
                tracing::error!(id = %commit.id, why, "a write could not be buffered");
                match error {
                    AppendError::Unknown { .. } => CommitOutcome::Unknown(why),
                    _ if sent => CommitOutcome::Unknown(why),
                    AppendError::Full { .. } => CommitOutcome::Full(why),
                    AppendError::TooLarge { .. } => CommitOutcome::Refused(why),
                    _ => CommitOutcome::Unavailable(why),
                }
            }
        }
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
        match journal::entry(record) {
            Ok(entry) => self.journal.append(entry),
            Err(error) => Appending::ready(Err(error)),
        }
    }
}
