//! What the gate knows, behind one lock that is never held over a wait. It is what is buffered, whether the store is
//! up, and what waits for news.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_channel::oneshot;

use super::lanes::Lane;
use super::mode::{Breaker, BreakerSettings, Mode};
use super::pace::Pace;
use super::pending::{Amount, BATCH_COMMITS_MAX, Buffer};
use super::speed::Speed;
use super::tickets::{TicketState, Tickets};
use super::unnoted::Unnoted;
use super::write_back::WriteBack;
use crate::key::Key;
use crate::store::Outside;
use crate::tier::Remembered;
use crate::version::{TxnId, Version};

/// Documents whose invalidation is remembered one by one; beyond, all go.
const INVALID_KEYS_MAX: usize = 65_536;

/// What was counted since the gate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that were buffered.
    pub buffered: u64,
    /// Buffered transactions that became part of a later one.
    pub merged: u64,
    /// Buffered transactions that were applied.
    pub applied: u64,
    /// Documents that others had changed before a buffered change of ours was applied to them.
    pub conflicts: u64,
    /// Transactions that the store refused.
    pub quarantined: u64,
    /// Transactions that an operator gave up.
    pub dropped: u64,
    /// Transactions for which there was no room.
    pub full: u64,
    /// Reads that could not be answered because the store was away.
    pub reads_refused: u64,
    /// Reads that were answered from what is buffered.
    pub reads_merged: u64,
    /// Times that the store went away.
    pub outages: u64,
}

pub(super) struct State {
    pub(super) buffer: Buffer,
    pub(super) tickets: Tickets,
    pub(super) writes: Breaker,
    pub(super) reads: Breaker,
    pub(super) mode: Mode,
    /// Since when, as [`Runtime::elapsed`](crate::runtime::Runtime::elapsed) and the wall clock count.
    pub(super) since: Duration,
    pub(super) since_ms: u64,
    /// Counts when it was last normal.
    calm: Counts,
    /// Counts when the present outage, or the last, began.
    pub(super) before: Counts,
    pub(super) counts: Counts,
    /// An operator wants the store to count as away until then.
    pub(super) failed_until: Option<Duration>,
    /// Why nothing is applied until an operator says so.
    pub(super) suspended: Option<String>,
    /// How often it was found that an operator has to decide: what was decided before was about another store.
    pub(super) suspensions: u64,
    /// An operator has said that all is applied, and the tier is being told.
    pub(super) resuming: bool,
    /// What the journal was told of the store last, or was to be.
    pub(super) remembered: Option<Remembered>,
    /// It could not take that.
    pub(super) untold: bool,
    /// The tier could not take what its changes mean, and in which incarnation the store is.
    pub(super) undescribed: bool,
    /// Quarantined transactions about which an operator has decided, until the journal has it.
    pub(super) decided: BTreeSet<u64>,
    /// Those of which the journal does not say yet that they are quarantined.
    pub(super) verdicts: BTreeSet<u64>,
    /// What the store has and the journal can't say yet.
    pub(super) unnoted: Unnoted,
    /// The tier has less room than the buffer, and that was said.
    pub(super) short: bool,
    /// Reads that wait for what is buffered to be applied, so that its age does not matter.
    pub(super) hurries: usize,
    /// Batches on their way to the store.
    pub(super) carried: usize,
    /// Lanes of which the store is being asked what deleted rows name.
    pub(super) naming: BTreeSet<Lane>,
    /// Transactions that the next batch may have; a batch that fails halves it.
    pub(super) batch_max: usize,
    /// The incarnation of the store that is known.
    pub(super) incarnation: u64,
    /// What the journal says of documents below this number is not believed ([`Remembered::known_from`]).
    pub(super) known_from: u64,
    /// What waits has got these versions, each with its id.
    #[cfg(feature = "testing")]
    pub(super) renamed: Vec<(Version, TxnId)>,
    /// The incarnation in which the store was found in another state last. A transaction of an earlier one may have
    /// read what is not so.
    pub(super) found_in: u64,
    /// The store was not there at the start: it will come in an incarnation of its own.
    pub(super) opens_late: bool,
    /// Nothing is applied before then, so that others get their share of the store.
    pub(super) paced_until: Duration,
    /// How long writes are held up in this recovery.
    pub(super) pace: Pace,
    /// All is buffered at first, on purpose.
    pub(super) write_back: Option<WriteBack>,
    /// How fast the drain is.
    pub(super) speed: Speed,
    /// When it applied something last.
    pub(super) progressed: Duration,
    /// Writes that found no room and wait for it.
    pub(super) roomless: usize,
    /// What is buffered on purpose is applied now, until nothing waits: somebody does.
    pub(super) hurried: bool,
    /// What is left when all is applied may have been changed by others in the outage.
    pub(super) suspects_rest: bool,
    /// All that is cached was given up for being older than allowed.
    pub(super) stale_dropped: bool,
    /// Likewise since another owner has the store.
    pub(super) fenced_dropped: bool,
    invalid: Option<Outside>,
    /// Documents that are in the store as they were shown: key, version shown, version there.
    restamped: Vec<(Key, Version, Version)>,
    /// The outages after which what is cached was said to be doubtful.
    doubted: u64,
    waiting: Vec<oneshot::Sender<()>>,
    /// Calls that wait for another mode.
    modes: Vec<oneshot::Sender<()>>,
    /// Calls that are to be given up when the store is found to be away.
    calls: Vec<oneshot::Sender<()>>,
}

impl State {
    pub(super) fn new(buffer: Buffer, breaker: BreakerSettings, incarnation: u64) -> State {
        State {
            buffer,
            tickets: Tickets::default(),
            writes: Breaker::new(breaker),
            reads: Breaker::new(breaker),
            mode: Mode::Normal,
            since: Duration::ZERO,
            since_ms: 0,
            calm: Counts::default(),
            before: Counts::default(),
            counts: Counts::default(),
            failed_until: None,
            suspended: None,
            suspensions: 0,
            resuming: false,
            remembered: None,
            untold: false,
            undescribed: false,
            decided: BTreeSet::new(),
            verdicts: BTreeSet::new(),
            unnoted: Unnoted::default(),
            short: false,
            hurries: 0,
            carried: 0,
            naming: BTreeSet::new(),
            batch_max: BATCH_COMMITS_MAX,
            incarnation,
            known_from: 0,
            #[cfg(feature = "testing")]
            renamed: Vec::new(),
            found_in: 0,
            opens_late: false,
            paced_until: Duration::ZERO,
            pace: Pace::default(),
            write_back: None,
            speed: Speed::new(),
            progressed: Duration::ZERO,
            roomless: 0,
            hurried: false,
            suspects_rest: false,
            stale_dropped: false,
            fenced_dropped: false,
            invalid: None,
            restamped: Vec::new(),
            doubted: 0,
            waiting: Vec::new(),
            modes: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// What `ticket` stands for. What the journal does not have yet is not known: neither a verdict nor what an
    /// operator has decided about it.
    pub(super) fn ticket(&self, ticket: u64) -> TicketState {
        self.tickets
            .state(ticket, &self.buffer, |number| self.decided.contains(&number) || self.verdicts.contains(&number))
    }

    /// A batch is on its way to the store.
    pub(super) fn sets_out(&mut self, now: Duration) {
        self.carried += 1;
        self.speed.sets_out(now);
    }

    /// Transactions that the journal holds.
    pub(super) fn pending(&self) -> usize {
        self.buffer.amount().transactions + self.unnoted.count()
    }

    /// The smallest id of all that the journal may bring back.
    pub(super) fn oldest_id(&self) -> Option<TxnId> {
        self.buffer.oldest_id().into_iter().chain(self.unnoted.oldest_id()).min()
    }

    /// Whether an operator wants the store to count as away.
    pub(super) fn forced(&self, now: Duration) -> bool {
        self.failed_until.is_some_and(|until| now < until)
    }

    /// Whether writes are to be buffered.
    pub(super) fn failing(&self, now: Duration) -> bool {
        self.writes.is_open() || self.forced(now)
    }

    /// Done at the next change.
    pub(super) fn next_change(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.retain(|sender| !sender.is_canceled());
        self.waiting.push(sender);
        receiver
    }

    /// Done when the mode is another.
    pub(super) fn next_mode(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.modes.retain(|sender| !sender.is_canceled());
        self.modes.push(sender);
        receiver
    }

    /// Done when the store is found to be away.
    pub(super) fn next_outage(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if self.calls.len() == self.calls.capacity() {
            self.calls.retain(|sender| !sender.is_canceled());
        }
        self.calls.push(sender);
        receiver
    }

    /// Sets the mode by what is known, and wakes calls that wait for a change. Answers the mode before, if it is
    /// another.
    pub(super) fn settle(&mut self, now: Duration, now_ms: u64) -> Option<Mode> {
        let Amount { waiting, .. } = self.buffer.amount();
        // What is kept on purpose is nothing unusual, unless it waits for an operator.
        let kept = self.write_back.is_some() && self.suspended.is_none();
        let mode = Mode::of(self.failing(now), waiting > 0 && !kept);
        self.hurried &= waiting > 0;
        for sender in self.waiting.drain(..) {
            let _ = sender.send(());
        }
        if mode == Mode::Failed {
            for sender in self.calls.drain(..) {
                let _ = sender.send(());
            }
        }
        if mode == self.mode {
            return None;
        }
        for sender in self.modes.drain(..) {
            let _ = sender.send(());
        }
        if mode == Mode::Failed {
            self.counts.outages += 1;
        }
        match (self.mode, mode) {
            // What begins an outage is counted before the mode is settled.
            (Mode::Normal, _) => self.before = self.calm,
            (_, Mode::Normal) => self.calm = self.counts,
            _ => {}
        }
        (self.since, self.since_ms) = (now, now_ms);
        self.stale_dropped &= mode == Mode::Failed;
        if mode == Mode::Normal && std::mem::take(&mut self.suspects_rest) {
            self.buffer.suspect_all();
        }
        self.pace = Pace::default();
        Some(std::mem::replace(&mut self.mode, mode))
    }

    /// What is cached of `keys` may be out of date.
    pub(super) fn invalidate(&mut self, keys: impl IntoIterator<Item = Key>) {
        let mut all = match self.invalid.take() {
            Some(Outside::Applied(all)) => all,
            None => Vec::new(),
            Some(all) => return self.invalid = Some(all),
        };
        all.extend(keys);
        self.invalid = match all.len() {
            0 => None,
            len if len > INVALID_KEYS_MAX => Some(Outside::Everything),
            _ => Some(Outside::Applied(all)),
        };
    }

    /// All that is cached may be out of date.
    pub(super) fn invalidate_all(&mut self) {
        self.invalid = Some(Outside::Everything);
    }

    /// These documents are in the store as they were shown, under another version.
    pub(super) fn restamped(&mut self, documents: Vec<(Key, Version, Version)>) {
        if self.restamped.len() + documents.len() <= INVALID_KEYS_MAX {
            return self.restamped.extend(documents);
        }
        self.invalidate(documents.into_iter().map(|(key, ..)| key));
    }

    /// What became of all that was to be applied when the last outage began or was buffered since, whenever that
    /// was and whichever process did it: of what was not, nothing waits for the store any more. It took `lasted_ms`.
    pub(super) fn recovered(&self, lasted_ms: u128) -> String {
        let (now, then) = (&self.counts, &self.before);
        let applied = now.applied - then.applied + now.merged - then.merged;
        let (conflicts, dropped) = (now.conflicts - then.conflicts, now.dropped - then.dropped);
        let Amount { transactions, quarantined, .. } = self.buffer.amount();
        let all = applied + dropped + transactions as u64;
        let mut text = format!("recovered {applied}/{all} in {lasted_ms} ms, {conflicts} conflicts");
        for (count, what) in [(dropped, "given up"), (quarantined as u64, "quarantined")] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        if let Some(behind) = transactions.checked_sub(quarantined).filter(|behind| *behind > 0) {
            text.push_str(&format!(", {behind} behind"));
        }
        text
    }

    /// What may be out of date since this was asked last, or is in the store under another version.
    pub(super) fn take_news(&mut self) -> Option<Outside> {
        if self.invalid.is_none() && !self.restamped.is_empty() {
            return Some(Outside::Restamped(std::mem::take(&mut self.restamped)));
        }
        self.invalid.take()
    }

    /// Whether an outage was not followed by [`State::doubt`] yet.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted != self.counts.outages
    }

    /// What it comes to that the store can be watched again: in an outage that is expected, and behind it once.
    pub(super) fn doubt(&mut self, now: Duration) -> Outside {
        let known = std::mem::replace(&mut self.doubted, self.counts.outages) != self.counts.outages;
        match known || self.failing(now) {
            true => Outside::Doubtful,
            false => Outside::Everything,
        }
    }
}
