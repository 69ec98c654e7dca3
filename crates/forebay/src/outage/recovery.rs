//! The drain: probes a store that is away, and applies what was buffered when it is back.
//!
//! One task decides, by the gate's state alone; batches travel in tasks of their own, as many as there are workers. A
//! batch is one group for the store. What it refuses is set aside, alone: everything before it in its lanes is applied
//! by then, and what is behind goes on. What it does not answer is sent again, under the same ids, in smaller batches.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use hashbrown::HashSet;

use super::gate::{Asker, Inner, OnConflict};
use super::lanes::Lane;
use super::mode::Mode;
use super::pending::{Applied, Asked, BATCH_COMMITS_MAX, Batch, TRIES_ALONE_MAX, Work, in_the_way};
use super::record::Record;
use super::state::State;
use crate::change::Change;
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::portion::{PORTION_BYTES_MAX, read_each};
use crate::store::{CommitOutcome, ReadError};
use crate::value::{Data, Value};
use crate::version::TxnId;

/// Batches that a limited drain sends each second, at least.
const SLICES_PER_SECOND: u64 = 125;

/// Wait before the store is asked again for what it has been asked for in vain.
const LEARN_PAUSE: Duration = Duration::from_millis(100);

/// Wait before what the store did not answer is sent again, while it answers others: it may have been cut off at once,
/// and a store that flaps must not use up its tries.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(300);

/// What the drain does next.
enum Step {
    /// Ask the store after this pause.
    Probe(Duration),
    /// Carry this over.
    Carry(Batch),
    /// Ask the store which of these transactions it has.
    Resolve(Vec<Asked>),
    /// Ask the store for these documents.
    Learn(Vec<Key>),
    /// Ask the store for what this one has read.
    Compare(Batch, Vec<Key>),
    /// Ask the store what the rows name that these transactions of one lane delete.
    Name(Lane, Vec<(u64, Vec<Key>)>),
    /// Nothing before this much time, or a change.
    Wait(Option<Duration>, oneshot::Receiver<()>),
}

/// Starts the drain; it ends with the gate.
pub(super) fn start(inner: &Arc<Inner>) {
    inner.runtime.spawn(run(Arc::downgrade(inner)));
}

async fn run(weak: Weak<Inner>) {
    let mut learned = Vec::new();
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let runtime = inner.runtime.clone();
        match inner.next_step() {
            Step::Probe(pause) => {
                drop(inner);
                runtime.sleep(pause).await;
                let Some(inner) = weak.upgrade() else { return };
                inner.probe().await;
            }
            Step::Carry(batch) => {
                learned.clear();
                let carrier = inner.clone();
                runtime.spawn(async move { carrier.carry(batch).await });
            }
            // What the store has just said of them did not help: not without end, and not without a pause.
            Step::Learn(keys) if keys == learned => {
                drop(inner);
                runtime.sleep(LEARN_PAUSE).await;
                learned.clear();
            }
            Step::Learn(keys) => {
                learned.clone_from(&keys);
                inner.learn(keys).await;
            }
            Step::Resolve(asked) => inner.resolve_restored(asked).await,
            Step::Compare(batch, keys) => {
                let asker = inner.clone();
                runtime.spawn(async move { asker.compare(batch, keys).await });
            }
            Step::Name(lane, asked) => {
                let asker = inner.clone();
                runtime.spawn(async move { asker.name(lane, asked).await });
            }
            Step::Wait(time, changed) => {
                drop(inner);
                match time {
                    Some(time) => drop(select(runtime.sleep(time), changed).await),
                    None => drop(changed.await),
                }
            }
        }
    }
}

/// Transactions of one batch that keep to the limit of each second without taking the store for long at a time: those
/// who work beside the drain wait for a batch, not for a second's worth.
fn slice(per_second_max: u64) -> usize {
    match per_second_max {
        0 => BATCH_COMMITS_MAX,
        most => usize::try_from(most / SLICES_PER_SECOND).unwrap_or(BATCH_COMMITS_MAX),
    }
}

/// What an operator wants applied while nothing is: one at a time, each by itself.
fn next_ordered(state: &mut State, busy: bool, now: Duration) -> Step {
    match if busy { None } else { state.buffer.next_alone() } {
        Some(Work::Carry(batch)) => {
            state.sets_out(now);
            Step::Carry(batch)
        }
        Some(Work::Learn(keys)) => Step::Learn(keys),
        _ => Step::Wait(None, state.next_change()),
    }
}

impl Inner {
    fn next_step(self: &Arc<Inner>) -> Step {
        let mut state = self.state();
        let now = self.runtime.elapsed();
        if self.fenced().is_some() {
            self.drop_fenced(&mut state);
            return Step::Wait(None, state.next_change());
        }
        self.drop_stale(&mut state, now);
        if let Some(until) = state.failed_until {
            if now < until {
                let changed = state.next_change();
                return Step::Wait(Some(until - now), changed);
            }
            state.failed_until = None;
        }
        if state.writes.is_open() || state.reads.is_open() {
            return Step::Probe(state.writes.pause());
        }
        self.notice_incarnation(&mut state);
        self.end_suspension_if_empty(&mut state);
        let busy = state.carried >= self.settings.workers + usize::from(state.buffer.carries_slow());
        if state.suspended.is_some() {
            return next_ordered(&mut state, busy, now);
        }
        if let Some((lane, asked)) = state.buffer.unnamed(&state.naming) {
            state.naming.insert(lane);
            return Step::Name(lane, asked);
        }
        let wait = match self.not_before(&state, now) {
            _ if busy => None,
            Some(wait) => Some(wait),
            None => {
                if let Some(asked) = self.next_restored(&state) {
                    return Step::Resolve(asked);
                }
                let per_second_max = self.per_second_max(&state);
                let batch_max = state.batch_max.min(self.settings.batch_max).min(slice(per_second_max)).max(1);
                match self.next_work(&mut state, batch_max) {
                    Some(Work::Carry(batch)) => {
                        let count = batch.numbers.len() as u64;
                        if let Some(millionths) = (count * 1_000_000).checked_div(per_second_max) {
                            state.paced_until = now.max(state.paced_until) + Duration::from_micros(millionths);
                        }
                        state.buffer.learned_by(&batch).iter().for_each(|record| drop(self.note(record)));
                        state.sets_out(now);
                        return Step::Carry(batch);
                    }
                    Some(Work::Learn(keys)) => return Step::Learn(keys),
                    Some(Work::Compare(batch, keys)) => return Step::Compare(batch, keys),
                    Some(Work::Overtaken(..)) | None => None,
                }
            }
        };
        Step::Wait(wait, state.next_change())
    }

    /// What the store is to be asked for of what the journal brought back, before anything of that is sent.
    fn next_restored(&self, state: &State) -> Option<Vec<Asked>> {
        let asks = !self.store.caps().owned && !mutation::on(Fault::RestoredTakenForSent);
        asks.then(|| state.buffer.next_restored()).filter(|asked| !asked.is_empty())
    }

    /// Asks the store which of these it has. Where it can't say, since a row can't be read now, it may have all.
    async fn resolve_restored(&self, asked: Vec<Asked>) {
        let away = self.state().next_outage();
        let answer = self.ask_to_read(self.store.get_with_ids(&asked), away, Asker::Ourselves).await;
        if let Err(ReadError::Unavailable(_)) = answer {
            return self.runtime.sleep(LEARN_PAUSE).await;
        }
        let applied = answer.ok().flatten().map(|reads| reads.into_iter().map(|(_, applied)| applied));
        let mut state = self.state();
        state.buffer.resolve_restored(&asked, applied.map(Iterator::collect::<Vec<_>>).as_deref());
        self.settle(&mut state);
    }

    /// What can go now; what was overtaken is dealt with at once.
    fn next_work(self: &Arc<Inner>, state: &mut State, batch_max: usize) -> Option<Work> {
        loop {
            match state.buffer.next_work(batch_max) {
                Some(Work::Overtaken(number, keys)) => {
                    self.overtaken(state, number, &keys);
                    self.settle(state);
                }
                work => return work,
            }
        }
    }

    /// Transactions applied per second at most; 0: no limit. With write-back those whom the limit is to leave room
    /// are the ones that wait for the drain.
    fn per_second_max(&self, state: &State) -> u64 {
        if state.write_back.is_some() { 0 } else { self.settings.per_second_max }
    }

    /// How long nothing is to be applied.
    fn not_before(&self, state: &State, now: Duration) -> Option<Duration> {
        let paced = state.paced_until.saturating_sub(now);
        let due = match (&state.write_back, state.buffer.oldest_waiting_ms()) {
            (Some(write_back), Some(oldest_ms)) if state.hurries == 0 && !state.hurried => {
                write_back.due_in(&state.speed, state.buffer.amount(), oldest_ms, self.runtime.now_ms())
            }
            _ => Duration::ZERO,
        };
        Some(paced.max(due)).filter(|wait| !wait.is_zero())
    }

    /// Gives up what is cached of a store that others may write to, once it could not be asked for too long.
    fn drop_stale(&self, state: &mut State, now: Duration) {
        let lasted = now.saturating_sub(state.since).as_millis() as u64;
        let stale = state.mode == Mode::Failed && lasted >= self.settings.stale_ms_max;
        if stale && !state.stale_dropped && !self.store.caps().owned {
            tracing::warn!(ms = lasted, "what is cached is too old by now and is given up (stale_on_outage_ms_max)");
            state.stale_dropped = true;
            state.invalidate_all();
            self.settle(state);
        }
    }

    /// A store that was found in an earlier state may have lost what pending writes were built on, and ids of those
    /// that had landed: an operator decides.
    fn notice_incarnation(self: &Arc<Inner>, state: &mut State) {
        let incarnation = self.store.incarnation();
        if incarnation == state.incarnation {
            return;
        }
        if state.opens_late && state.carried > 0 {
            return;
        }
        state.incarnation = incarnation;
        let first = std::mem::take(&mut state.opens_late);
        if first {
            state.buffer.renew_versions(|key, version| self.store.as_read_now(key, version));
            state.buffer.tie_anew(|buffered| buffered.ties(self.settings.lanes, &*self.store));
        }
        if !first || self.store.went_back() || self.store.owned_since().is_some() {
            state.found_in = incarnation;
            if !mutation::on(Fault::CachedOfAnotherState) {
                state.invalidate_all();
            }
        }
        self.suspend_if_earlier(state, !first);
        if first {
            self.doubt_at_last(state);
        }
        self.gives_out(incarnation);
        self.describe(state);
    }

    /// Asks the store whether it is there.
    async fn probe(&self) {
        let answer = self.store.ping().await;
        let mut state = self.state();
        match answer {
            Ok(()) => {
                state.reads.answered();
                state.writes.answered();
            }
            Err(Unavailable(why)) => {
                state.reads.failed(&why);
                state.writes.failed(&why);
            }
        }
        self.settle(&mut state);
    }

    async fn learn(self: &Arc<Inner>, keys: Vec<Key>) {
        let away = self.state().next_outage();
        // What this answer does not tell of is asked for next.
        let asked = self.ask_to_get(&keys, PORTION_BYTES_MAX, away, Asker::Ourselves);
        let Ok(reads) = asked.await else { return };
        let mut state = self.state();
        for (key, read) in keys.iter().zip(&reads) {
            if !state.buffer.learn(key, read)
                && let Some(number) = state.buffer.numbers(Some(key), 0, 1).first().copied()
            {
                let why = format!("what {key} holds is not known, since a write before it was given up");
                self.set_aside(&mut state, number, why);
            }
        }
        self.settle(&mut state);
    }

    /// Asks the store for what the transaction of `batch` was shown. Their table may be locked: then all else goes on.
    async fn compare(&self, batch: Batch, keys: Vec<Key>) {
        let answer = self.ask_to_compare(&batch, &keys).await;
        if matches!(answer, Err(ReadError::Unavailable(_) | ReadError::Locked(_))) {
            self.runtime.sleep(LEARN_PAUSE).await;
        }
        let mut state = self.state();
        match answer {
            Ok(Some(reads)) => state.buffer.compare(&batch, &keys, Some(&reads)),
            Ok(None) => state.buffer.compared_before(&batch),
            Err(ReadError::Unavailable(_) | ReadError::Locked(_)) => {}
            // What can't be read is not what it was.
            Err(_) => state.buffer.compare(&batch, &keys, None),
        }
        state.buffer.finish(batch, false);
        self.settle(&mut state);
    }

    /// What the store holds for `keys`; nothing if it has the only transaction of `batch` already, and so has changes
    /// that came later.
    async fn ask_to_compare(&self, batch: &Batch, keys: &[Key]) -> Result<Option<Vec<Read>>, ReadError> {
        let (sent, away) = {
            let mut state = self.state();
            (state.buffer.sent(batch), state.next_outage())
        };
        let Some(id) = sent else { return self.ask_to_get(keys, usize::MAX, away, Asker::Ourselves).await.map(Some) };
        let asked: Vec<(Key, Vec<TxnId>)> = keys.iter().map(|key| (key.clone(), vec![id])).collect();
        match self.ask_to_read(self.store.get_with_ids(&asked), away, Asker::Ourselves).await? {
            Some(reads) if reads.iter().any(|(_, applied)| !applied.is_empty()) => Ok(None),
            Some(reads) => Ok(Some(reads.into_iter().map(|(read, _)| read).collect())),
            None => {
                let away = self.state().next_outage();
                self.ask_to_get(keys, usize::MAX, away, Asker::Ourselves).await.map(Some)
            }
        }
    }

    /// Asks the store for what set-aside transactions of `lane` delete, and notes what that names. Where it does not
    /// answer that says nothing of the store: their table may be locked, and all else goes on.
    async fn name(&self, lane: Lane, asked: Vec<(u64, Vec<Key>)>) {
        let keys: Vec<Key> = asked.iter().flat_map(|(_, keys)| keys).cloned().collect();
        let mut named = Vec::new();
        let read = read_each(&*self.store, &keys, |key, read| named.push(self.named_by(key, read))).await;
        let named = match read {
            Ok(()) => Some(named),
            Err(ReadError::Unavailable(_) | ReadError::Locked(_)) => {
                self.runtime.sleep(LEARN_PAUSE).await;
                None
            }
            // One of them can't be read: then nothing is known, and what they name does not wait for them.
            Err(_) => Some(Vec::new()),
        };
        let mut state = self.state();
        state.naming.remove(&lane);
        if let Some(named) = named {
            let mut named = named.into_iter();
            for (number, keys) in asked {
                state.buffer.name(number, named.by_ref().take(keys.len()).flatten().collect());
            }
        }
        self.settle(&mut state);
    }

    /// What the document of `key` names as the store holds it.
    pub(super) fn named_by(&self, key: &Key, read: Read) -> Vec<Key> {
        let Some(Value { data: Data::Hash(hash), .. }) = read.value else { return Vec::new() };
        let fields: Vec<Change> =
            hash.iter().map(|(field, value)| Change::SetField(field.clone(), value.clone())).collect();
        self.store.references(key, &fields)
    }

    /// Quarantines transaction `number`. A client that asks what became of it is told when the journal has that: a
    /// restart must not take a verdict back.
    fn set_aside(self: &Arc<Inner>, state: &mut State, number: u64, why: String) {
        tracing::error!(number, why, "a buffered transaction is refused; CACHE QUARANTINE shows it");
        state.counts.quarantined += 1;
        let noted = self.note(&Record::Quarantined { number, reason: why.clone() });
        state.buffer.quarantine(number, why);
        state.verdicts.insert(number);
        let inner = self.clone();
        self.runtime.spawn(async move {
            if let Err(error) = noted.await {
                tracing::error!(number, %error, "a verdict can't be noted: a restart will have to find it again");
            }
            let mut state = inner.state();
            state.verdicts.remove(&number);
            state.tickets.wake(number);
        });
    }

    async fn carry(self: &Arc<Inner>, mut batch: Batch) {
        if !self.note_unchecked(&batch).await {
            return self.carried(batch, Vec::new(), None, 0);
        }
        let away = self.state().next_outage();
        let (outcomes, slow) = self.ask_to_commit(&batch.commits, away, true).await;
        let outcomes: Vec<CommitOutcome> = outcomes.into_iter().map(in_the_way).collect();
        let stays = |outcome: &&CommitOutcome| match outcome {
            CommitOutcome::Unknown(_) => slow,
            outcome => matches!(outcome, CommitOutcome::Failed(_)),
        };
        let unanswered = outcomes.iter().filter(stays).count();
        let mut outcomes = outcomes.into_iter().peekable();
        let mut changed = Vec::new();
        while let Some(outcome) = outcomes.next_if(CommitOutcome::is_applied) {
            changed.push(batch.told(changed.len(), outcome));
        }
        let count = changed.len();
        let stopped = batch.numbers.get(count).copied().zip(outcomes.next());
        if count > 0 && !self.note_applied(&batch, &changed).await {
            return;
        }
        if unanswered > 0 {
            // Not at once again: that may have been cut off at once.
            self.runtime.sleep(UNANSWERED_PAUSE).await;
        }
        self.carried(batch, changed, stopped, unanswered);
        let state = self.state();
        self.store.keep_ids_from(state.oldest_id());
    }

    /// Takes out of the buffer what the store has of a batch, and looks at what `stopped` it.
    /// The store did not answer for as many of it as are `unanswered`, or fails at them, and answers others.
    fn carried(
        self: &Arc<Inner>,
        batch: Batch,
        changed: Vec<Vec<(Key, Read)>>,
        stopped: Option<(u64, CommitOutcome)>,
        unanswered: usize,
    ) {
        let changed_count = changed.len();
        let tried: Vec<u64> = batch.numbers.iter().skip(changed.len()).take(unanswered).copied().collect();
        let mut state = self.state();
        state.carried -= 1;
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).take(changed.len()) {
            state.tickets.applied(*number, commit.version);
        }
        state.counts.applied += changed.len() as u64;
        let Applied { emptied, restamped, beside } = state.buffer.applied(&batch, &changed);
        if !self.store.caps().owned {
            let same: HashSet<Key, foldhash::quality::RandomState> =
                restamped.iter().map(|(key, ..)| key.clone()).collect();
            let others = emptied.into_iter().chain(changed.into_iter().flatten().map(|(key, _)| key));
            let others = others.chain(beside);
            state.invalidate(others.filter(|key| !same.contains(key)));
            state.restamped(restamped);
        }
        let may_have = matches!(stopped, Some((_, CommitOutcome::Unknown(_))));
        state.buffer.finish(batch, may_have);
        match stopped {
            Some((number, CommitOutcome::Unknown(why) | CommitOutcome::Failed(why))) if unanswered > 0 => {
                if state.buffer.unanswered(&tried) == Some(number) && !mutation::on(Fault::PoisonRetried) {
                    let why = format!("{why}, the last of {TRIES_ALONE_MAX} times alone, while it answers others");
                    self.set_aside(&mut state, number, why);
                }
            }
            Some((_, CommitOutcome::Refused(_))) if mutation::on(Fault::PoisonRetried) => {}
            Some((number, CommitOutcome::Refused(why))) => {
                self.set_aside(&mut state, number, why);
                // What is behind it was sent in vain: of many such, fewer.
                state.batch_max = (state.batch_max / 2).max(1);
            }
            Some((number, CommitOutcome::Conflict(keys))) => self.overtaken(&mut state, number, &keys),
            Some(_) => state.batch_max = (state.batch_max / 2).max(1),
            None => state.batch_max = (state.batch_max * 2).min(BATCH_COMMITS_MAX),
        }
        let (now, waiting, others) = (self.runtime.elapsed(), state.buffer.amount().waiting, state.carried > 0);
        state.speed.is_over(changed_count, waiting, others, now);
        if changed_count > 0 {
            state.progressed = now;
        }
        self.end_suspension_if_empty(&mut state);
        self.settle(&mut state);
    }

    /// Others have changed `keys` since transaction `number` saw them.
    fn overtaken(self: &Arc<Inner>, state: &mut State, number: u64, keys: &[Key]) {
        if state.buffer.overtaken(number, keys) {
            state.counts.conflicts += keys.len() as u64;
        } else if self.settings.on_conflict == OnConflict::Apply || state.buffer.is_ordered(number) {
            state.counts.conflicts += keys.len() as u64;
            state.buffer.uncheck(number);
        } else {
            self.set_aside(state, number, super::tickets::conflict(keys));
        }
    }
}
