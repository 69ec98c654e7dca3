//! What became of buffered transactions, for those who hold a ticket.

use std::collections::BTreeMap;

use futures_channel::oneshot;

use super::pending::Buffer;
use super::record::{Loss, Standing};
use crate::key::Key;
use crate::version::Version;

/// Outcomes that are remembered; the oldest go first.
pub const TICKETS_MAX: usize = 65_536;

/// What a ticket stands for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// It is in the store, under this version.
    Applied(Version),
    /// It waits for the store, or behind one that is quarantined.
    Pending,
    /// The store refuses it; an operator decides.
    Quarantined(String),
    /// Others have changed what it has read; an operator decides, too.
    Conflict(String),
    /// An operator gave it up, for this reason.
    Dropped(String),
    /// It was applied, or an operator gave it up: before the last start, or so long ago that nobody remembers which.
    Over,
    /// It is gone: the journal was cut, or power was lost before it was synced.
    Lost,
    /// No such ticket was given.
    Unknown,
}

/// Why a transaction is set aside that has read `keys`. What has changed them is not known: another program, or a later
/// write of the client's own, which a quarantined reader does not hold up. By its beginning and its end the reason is
/// known again, after a restart too: the journal keeps it as it is told to people.
pub(super) fn conflict(keys: &[Key]) -> String {
    let names: Vec<String> = keys.iter().map(Key::to_string).collect();
    format!("{READ}{}{CHANGED}", names.join(", "))
}

const READ: &str = "it read ";
const CHANGED: &str = ", which has changed since";
/// As journals of earlier versions have it.
const CHANGED_BY_OTHERS: &str = ", which others have changed since";

pub(super) fn is_conflict(why: &str) -> bool {
    why.starts_with(READ) && [CHANGED, CHANGED_BY_OTHERS].iter().any(|end| why.ends_with(end))
}

enum End {
    Applied(Version),
    Dropped(String),
    /// It became part of this one.
    Merged(u64),
}

/// The last outcomes.
#[derive(Default)]
pub(super) struct Tickets {
    ended: BTreeMap<u64, End>,
    /// What waits for a pending one.
    waiting: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
    /// What the journal lost.
    losses: Vec<Loss>,
    /// The first number of this process: what became part of another before is not known.
    first: u64,
}

impl Tickets {
    pub(super) fn new(losses: Vec<Loss>, first: u64) -> Tickets {
        Tickets { losses, first, ..Tickets::default() }
    }

    fn end(&mut self, number: u64, end: End) {
        self.ended.insert(number, end);
        self.wake(number);
        if self.ended.len() > TICKETS_MAX {
            self.ended.pop_first();
        }
    }

    pub(super) fn applied(&mut self, number: u64, version: Version) {
        self.end(number, End::Applied(version));
    }

    pub(super) fn dropped(&mut self, number: u64, reason: &str) {
        self.end(number, End::Dropped(reason.to_owned()));
    }

    pub(super) fn merged(&mut self, number: u64, into: u64) {
        self.end(number, End::Merged(into));
    }

    /// Lets those look again that wait for `number`, which is not just pending any more.
    pub(super) fn wake(&mut self, number: u64) {
        for sender in self.waiting.remove(&number).into_iter().flatten() {
            let _ = sender.send(());
        }
    }

    /// The transaction that `number` is part of now.
    pub(super) fn resolve(&self, mut number: u64) -> u64 {
        // A merged one goes into one with a higher number, so this comes to an end.
        while let Some(End::Merged(into)) = self.ended.get(&number) {
            number = *into;
        }
        number
    }

    /// Done when pending `number` is not just pending any more, or became part of another.
    pub(super) fn next_change(&mut self, number: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.entry(self.resolve(number)).or_default();
        waiting.retain(|sender| !sender.is_canceled());
        waiting.push(sender);
        receiver
    }

    /// What became of `number`. That one is quarantined does not count while it is `unsettled`.
    pub(super) fn state(&self, number: u64, buffer: &Buffer, unsettled: impl Fn(u64) -> bool) -> TicketState {
        let number = self.resolve(number);
        match (buffer.standing(number), self.ended.get(&number)) {
            (Some(Standing::Waiting | Standing::Ordered | Standing::Behind(_)), _) => TicketState::Pending,
            (Some(Standing::Quarantined(_)), _) if unsettled(number) => TicketState::Pending,
            (Some(Standing::Quarantined(why)), _) if is_conflict(&why) => TicketState::Conflict(why),
            (Some(Standing::Quarantined(why)), _) => TicketState::Quarantined(why),
            (None, Some(End::Applied(version))) => TicketState::Applied(*version),
            (None, Some(End::Dropped(reason))) => TicketState::Dropped(reason.clone()),
            // Numbers are never given twice, whatever the epoch.
            (None, Some(End::Merged(_)) | None) if self.losses.iter().any(|loss| loss.covers(loss.epoch, number)) => {
                TicketState::Lost
            }
            // Perhaps it is part of one that waits; when that is applied, it is over.
            (None, None) if number < self.first && buffer.any_merged_between(number, self.first) => {
                TicketState::Pending
            }
            (None, Some(End::Merged(_)) | None) if (1..buffer.next_number()).contains(&number) => TicketState::Over,
            (None, Some(End::Merged(_)) | None) => TicketState::Unknown,
        }
    }
}
