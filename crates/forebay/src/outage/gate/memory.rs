//! What the tier is told beside what is buffered, for the next owner that opens it. It tells what changes mean, by
//! what the store is recognised, and as whom it is used.
//!
//! A store may be put back to an earlier state while no forebay looks (a restored backup, a standby that lagged).
//! Then it lacks commits that it had acknowledged. So the newest of these are remembered every second where there are
//! new ones, and at an orderly end; a start compares. Not with each commit: its acknowledgement would wait for
//! another disk. What is missed by that is the loss of nothing but the last second before a forebay that was killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Gate, Inner};
use crate::mutation::{self, Fault};
use crate::outage::journal::AppendError;
use crate::outage::mode::Mode;
use crate::outage::record::{Description, Record};
use crate::outage::state::State;
use crate::tier::Remembered;
use crate::version::Version;

/// Sequence numbers above the newest known one that are left out, since an earlier process may have given them out:
/// more than any process commits.
const SEQUENCES_SKIPPED: u64 = 1 << 40;

/// Sequence numbers for each ms of the clock: more than a process commits in the mean.
const SEQUENCES_EACH_MS: u64 = 64;

/// The newest version that an earlier process may have given out in the incarnation of `known`, the newest that waits.
/// A start that does not reach the store gives versions out in that incarnation, and so may have earlier ones: of their
/// direct commits only what is remembered tells, a second late. So the clock counts, too. The store takes a transaction
/// with an id that it has for one that it has applied.
pub(super) fn newest_of_earlier(known: Version, remembered: &Remembered, now_ms: u64) -> Version {
    if mutation::on(Fault::IdsOfEarlierStart) {
        return known;
    }
    let acknowledged = remembered.acknowledged.iter().map(|id| id.0);
    let acknowledged = acknowledged.filter(|version| version.incarnation == known.incarnation);
    let by_clock = Version { sequence: now_ms.saturating_mul(SEQUENCES_EACH_MS), ..known };
    acknowledged.chain([by_clock]).fold(known, Version::max)
}

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks after which a tier that could not be described is described again: a journal is written again for that.
const LOOKS_PER_DESCRIPTION: u32 = 10;

/// Bytes of what the tier keeps of the store's tables; mapping and catalogue together have twice that.
const CATALOGUE_BYTES_MAX: usize = 4 << 20;

/// The incarnation that a journal's description names; 0 if the store was never reached.
pub fn incarnation_of(description: &Description) -> u64 {
    incarnations_of(description).map_or(0, |(_, minted)| minted)
}

/// The incarnation in which the store was seen last that a journal's description names; 0 if it was never reached. It
/// may be an earlier one than [`incarnation_of`], which another store had in its place.
pub fn seen_incarnation_of(description: &Description) -> u64 {
    incarnations_of(description).map_or(0, |(seen, _)| seen)
}

fn incarnations_of(description: &Description) -> Option<(u64, u64)> {
    let mut numbers = description.catalogue.lines().next()?.strip_prefix("incarnation ")?.split(" was ");
    let minted = numbers.next()?.parse().ok()?;
    Some((numbers.next().and_then(|seen| seen.parse().ok()).unwrap_or(minted), minted))
}

/// What a journal's description says of the store's tables ([`Store::catalogue`]), if anything.
pub fn catalogue_of(description: &Description) -> Option<&str> {
    description.catalogue.split_once('\n').map(|(_, text)| text)
}

impl Gate {
    /// Has the tier told of the store, and asked whether it is still there, every second from now on.
    pub fn start_remembering(&self) {
        let (weak, runtime) = (Arc::downgrade(&self.inner), self.inner.runtime.clone());
        runtime.clone().spawn(async move {
            for look in (0..LOOKS_PER_DESCRIPTION).cycle() {
                runtime.sleep(LOOK_EVERY).await;
                let Some(inner) = weak.upgrade() else { return };
                // It has said why, once.
                if inner.journal.look().await.is_err() && inner.journal.closed().is_some() {
                    return;
                }
                inner.tell_room();
                inner.remember().await;
                let mut state = inner.state();
                if look + 1 == LOOKS_PER_DESCRIPTION && state.undescribed {
                    inner.describe(&mut state);
                }
            }
        });
    }
}

/// What versions are given out.
///
/// **Invariant.** The incarnation is the store's as it was looked at. So a transaction of an earlier one may have read
/// the store as it was before, and one of this incarnation has not: what waits is forgotten, and the cache is to be
/// dropped, before the incarnation is shown. The engine drops it before it mints in that incarnation.
#[derive(Debug)]
pub(super) struct GivenOut {
    incarnation: AtomicU64,
    /// What waits has got sequence numbers up to this one for others ([`Buffer::forget_all_known`]).
    renamed_to: AtomicU64,
}

impl GivenOut {
    pub(super) fn new(incarnation: u64) -> GivenOut {
        GivenOut { incarnation: AtomicU64::new(incarnation), renamed_to: AtomicU64::new(0) }
    }

    fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    fn renamed_to(&self) -> u64 {
        self.renamed_to.load(Ordering::SeqCst)
    }
}

impl Inner {
    /// Has the tier note what its changes mean, in which incarnation the store is, and by what it is recognised.
    pub(in crate::outage) fn describe(self: &Arc<Inner>, state: &mut State) {
        let journal = self.journal.clone();
        let catalogue = match self.keeps_first(state) {
            true => self.catalogue_kept(),
            false => self.catalogue_now(),
        };
        let description = Description { mapping: self.mapping.clone(), catalogue };
        let (news, again) = (self.news(state), std::mem::take(&mut state.undescribed));
        let inner = self.clone();
        // First: a start that is killed between the two finds out again that an operator has to decide, since the
        // journal does not say yet that it was there. The other way round it would be forgotten. Both at once: what an
        // operator says next comes behind them.
        let remembered = news.map(|news| journal.remember(news));
        let described = journal.describe(description);
        self.runtime.spawn(async move {
            if let Err(error) = described.await {
                inner.state().undescribed = true;
                if !again {
                    tracing::error!(%error, "the journal can't note in which incarnation the store is; again soon");
                }
            }
            if let Some(remembered) = remembered {
                inner.remembered(remembered.await);
            }
        });
    }

    /// Another store stands where the first was, and waits for an operator. Then that one is not forgotten: if it comes
    /// back, what is buffered is applied to it, as if this one had never been there.
    pub(super) fn keeps_first(&self, state: &State) -> bool {
        state.suspended.is_some() && !state.resuming && self.store.is_another()
    }

    fn catalogue_now(&self) -> String {
        let mut catalogue = format!("incarnation {}", self.store.incarnation());
        match self.store.catalogue() {
            Some(text) if text.len() <= CATALOGUE_BYTES_MAX => catalogue.extend(["\n", text.as_str()]),
            Some(text) => tracing::warn!(
                bytes = text.len(),
                limit = CATALOGUE_BYTES_MAX,
                "what the store's tables look like is too long to be kept: a start without the store can't check \
                 writes by it"
            ),
            None => {}
        }
        catalogue
    }

    /// The first store's, but for the incarnation under which versions are given out by now.
    fn catalogue_kept(&self) -> String {
        let first = &self.first;
        let (now, seen) = (self.store.incarnation(), seen_incarnation_of(first));
        let mut catalogue = format!("incarnation {} was {seen}", now.max(incarnation_of(first)));
        catalogue.extend(catalogue_of(first).into_iter().flat_map(|text| ["\n", text]));
        catalogue
    }

    /// Says when the disk has less room than the buffer, and when it has enough again.
    fn tell_room(&self) {
        let (now, mut state) = (self.look(), self.state());
        if std::mem::replace(&mut state.short, now.short) == now.short {
            return;
        }
        match now.short {
            true => tracing::warn!(
                room = now.room,
                "the disk of the journal has less room than --outage-bytes-max: when it is full, writes are refused \
                 while the database is down"
            ),
            false => tracing::info!(room = now.room, "the disk of the journal has room enough again"),
        }
    }

    /// Has the tier remember the store as it is now.
    pub(super) async fn remember(&self) {
        let news = self.news(&mut self.state());
        let Some(news) = news else { return };
        let answer = self.journal.remember(news).await;
        self.remembered(answer);
    }

    /// Whether the next start has to wait for an operator, too.
    fn is_undecided(&self, state: &State) -> bool {
        state.suspended.is_some() && !state.resuming
    }

    /// Has the tier know that what waits is applied again; done when it does.
    pub(super) fn tell(self: &Arc<Inner>, state: &mut State) -> BoxFuture<'static, Result<(), AppendError>> {
        let remembered = self.news(state).map(|news| self.journal.remember(news));
        // That the store is another, or was another's, is what the tier may not say before an operator does.
        let described =
            self.journal.describe(Description { mapping: self.mapping.clone(), catalogue: self.catalogue_now() });
        let inner = self.clone();
        Box::pin(async move {
            if let Some(remembered) = remembered {
                let answer = remembered.await;
                inner.remembered(answer.clone());
                answer?;
            }
            described.await
        })
    }

    /// What the tier did not take, it is told again at the next look; until then it stays what is known.
    fn remembered(&self, answer: Result<(), AppendError>) {
        if let Err(error) = answer {
            self.state().untold = true;
            tracing::warn!(%error, "by what the store is recognised at the next start can't be noted");
        }
    }

    /// What the tier has to be told of the store, if that is new; from now on it is not.
    fn news(&self, state: &mut State) -> Option<Remembered> {
        let known = || state.remembered.as_ref().map(|known| known.acknowledged.clone()).unwrap_or_default();
        // A store that was not reached yet says nothing of itself.
        let acknowledged = if state.opens_late { known() } else { self.store.acknowledged() };
        let now = match &state.remembered {
            // Each start that finds another store finds out again.
            Some(first) if self.keeps_first(state) => first.clone(),
            _ => {
                let (suspended, known_from) = (self.is_undecided(state), state.known_from);
                Remembered { acknowledged, suspended, owner: self.owner, known_from }
            }
        };
        let new = std::mem::take(&mut state.untold) || state.remembered.as_ref() != Some(&now);
        state.remembered = Some(now.clone());
        new.then_some(now)
    }

    /// A store that was found in an earlier state, `just_now` or by what the tier remembers, may have lost what pending
    /// writes were built on, and ids of those that had landed; one that others had since may hold what came later than
    /// these: an operator decides.
    pub(in crate::outage) fn suspend_if_earlier(&self, state: &mut State, just_now: bool) {
        let undecided = state.remembered.as_ref().is_some_and(|known| known.suspended);
        let earlier = just_now || self.store.went_back();
        let others = self.store.owned_since().filter(|_| !mutation::on(Fault::OwnerNotLookedAt));
        let restored = (earlier || undecided) && !mutation::on(Fault::RestoredStoreDrained);
        if !(restored || others.is_some()) || state.buffer.is_empty() {
            if !state.opens_late {
                state.buffer.uncheck_ordered();
            }
            return;
        }
        self.forget_known(state);
        if earlier || others.is_some() {
            self.forget_decisions(state);
        }
        let found = match others {
            Some(others) if !earlier => format!("others had the store since these writes were buffered ({others})"),
            _ if earlier => "the store was found in an earlier state, perhaps restored from a backup".to_owned(),
            _ => "the store was found in an earlier state, perhaps restored from a backup, or others had it since \
                  these writes were buffered"
                .to_owned(),
        };
        let why = format!(
            "{found}: compare it with CACHE PENDING and CACHE QUARANTINE SHOW, then CACHE DRAIN RESUME carries over \
             what is buffered, or CACHE QUARANTINE APPLY and DROP decide about each ticket"
        );
        tracing::error!(why);
        state.suspended = Some(why);
        self.settle(state);
    }

    /// In which versions are given out now.
    pub(super) fn incarnation(&self) -> u64 {
        let given_out = self.given_out.incarnation();
        if self.store.incarnation() > given_out {
            let mut state = self.state();
            // Else it is looked at when the store is back.
            if state.mode == Mode::Normal {
                self.settle(&mut state);
            }
        }
        given_out
    }

    /// Sequence numbers of that incarnation up to this one may have been given out.
    pub(super) fn minted(&self) -> u64 {
        let minted = match self.given_out.incarnation() > self.newest.incarnation {
            true => self.store.minted(),
            // It goes on under the incarnation of the process before.
            false => self.newest.sequence.saturating_add(SEQUENCES_SKIPPED),
        };
        if mutation::on(Fault::MintedBelowRenamed) { minted } else { minted.max(self.given_out.renamed_to()) }
    }

    /// The version that commits are above which are made to the store as it was found last.
    pub(super) fn found_at(&self, state: &State) -> Version {
        Version { incarnation: state.found_in, sequence: self.given_out.renamed_to() }
    }

    /// Versions are given out in this incarnation from now on: all is done that it takes.
    pub(in crate::outage) fn gives_out(&self, incarnation: u64) {
        self.given_out.incarnation.fetch_max(incarnation, Ordering::SeqCst);
    }

    /// Whether the store is in another incarnation than what is given out, and that was not looked at.
    pub(super) fn is_unnoticed(&self, state: &State) -> bool {
        state.mode == Mode::Normal && self.store.incarnation() > self.given_out.incarnation()
    }

    /// At the start: what the journal says of documents may have been so before the store was found in another state.
    pub(super) fn doubt_earlier(&self, state: &mut State) {
        state.known_from = state.remembered.as_ref().map_or(0, |remembered| remembered.known_from);
        if self.is_doubted(state) {
            // A store that was not reached may have it under its versions.
            self.forget(state, !state.opens_late);
        }
    }

    /// What waits was not believed at a start that did not reach the store, which is there now.
    pub(in crate::outage) fn doubt_at_last(&self, state: &mut State) {
        if self.is_doubted(state) && state.suspended.is_none() {
            self.forget_known(state);
        }
    }

    fn is_doubted(&self, state: &State) -> bool {
        let oldest = state.buffer.numbers(None, 0, 1).first().copied();
        oldest.is_some_and(|oldest| oldest < state.known_from) && !mutation::on(Fault::ResumedTakenForKnown)
    }

    fn forget(&self, state: &mut State, renames: bool) -> u64 {
        let incarnation = self.store.incarnation().max(self.newest.incarnation);
        let forgotten = state.buffer.forget_all_known(renames.then_some(incarnation));
        let newest = forgotten.renamed.last().map_or(0, |(version, _)| version.sequence);
        self.given_out.renamed_to.fetch_max(newest, Ordering::SeqCst);
        #[cfg(feature = "testing")]
        state.renamed.extend(forgotten.renamed);
        forgotten.known_from
    }

    /// Of what waits only the changes are known: what the documents were before is what the store says now.
    fn forget_known(&self, state: &mut State) {
        if mutation::on(Fault::FoundTakenForKnown) {
            return;
        }
        state.known_from = self.forget(state, true);
    }

    /// What was decided was decided about the store as it was: noted before the tier is told how it was found now.
    fn forget_decisions(&self, state: &mut State) {
        state.suspensions += 1;
        state.resuming = false;
        for number in state.buffer.forget_orders() {
            tracing::warn!(number, "CACHE QUARANTINE APPLY is forgotten: the store is not as it was compared");
            drop(self.note(&Record::Retried { number }));
        }
    }
}
