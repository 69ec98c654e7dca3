//! What became of buffered transactions, for those who hold a ticket.

use std::collections::BTreeMap;

use super::pending::Buffer;
use super::record::Standing;
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
    /// An operator gave it up, for this reason.
    Dropped(String),
    /// No such ticket, or one of long ago.
    Unknown,
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
}

impl Tickets {
    fn end(&mut self, number: u64, end: End) {
        self.ended.insert(number, end);
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

    /// What became of `number`.
    pub(super) fn state(&self, mut number: u64, buffer: &Buffer) -> TicketState {
        // A merged one goes into one with a higher number, so this comes to an end.
        loop {
            match buffer.standing(number) {
                Some(Standing::Waiting) => return TicketState::Pending,
                Some(Standing::Quarantined(why)) => return TicketState::Quarantined(why),
                None => {}
            }
            match self.ended.get(&number) {
                Some(End::Applied(version)) => return TicketState::Applied(*version),
                Some(End::Dropped(reason)) => return TicketState::Dropped(reason.clone()),
                Some(End::Merged(into)) => number = *into,
                None => return TicketState::Unknown,
            }
        }
    }
}
