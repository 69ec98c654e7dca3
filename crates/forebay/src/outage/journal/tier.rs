//! The journal as a tier, and what any other tier held as what a journal does.

use super::codec::{self, Entry as Decoded, effect_of};
use super::scan::assembled;
use super::{Found, Journal, NUMBERS_MAX, OpenError, PendingRecords, Source, Work};
use crate::outage::record::{Description, Epoch, Pending, Record};
use crate::tier::{AppendError, Appending, Effect, Entry, Kept, RECORD_BYTES_MAX, Remembered, Tier};

/// `record` as a tier keeps it.
pub(in crate::outage) fn entry(record: &Record) -> Result<Entry, AppendError> {
    let names = match record {
        Record::Applied(numbers) | Record::Merged { from: numbers, .. } => numbers.len(),
        _ => 1,
    };
    if names > NUMBERS_MAX {
        let why = format!("it names {names} transactions, {NUMBERS_MAX} are allowed");
        return Err(AppendError::Misplaced(why));
    }
    let body = codec::encode_record(record);
    if body.len() > RECORD_BYTES_MAX {
        return Err(AppendError::TooLarge { bytes: body.len() as u64 });
    }
    Ok(Entry { effect: effect_of(record), body })
}

impl Tier for Journal {
    fn append_all(&self, entries: Vec<Entry>) -> Appending {
        // Merging frees more than it takes, so it is never for want of room that it can't be done.
        let added = entries.iter().filter(|entry| matches!(entry.effect, Effect::Added(_)));
        let room = added.map(|entry| entry.body.len() as u64).sum();
        self.0.ask(Work::Append(entries), room)
    }

    fn describe(&self, description: Description) -> Appending {
        self.0.ask(Work::Describe(description), 0)
    }

    fn remember(&self, remembered: Remembered) -> Appending {
        self.0.ask(Work::Remember(remembered), 0)
    }

    fn look(&self) -> Appending {
        self.0.ask(Work::Look, 0)
    }

    fn closed(&self) -> Option<AppendError> {
        self.0.front().stat.closed.clone()
    }

    fn room(&self) -> Option<u64> {
        self.0.front().stat.room_bytes
    }

    fn flush(&self) -> Appending {
        self.0.ask(Work::Sync, 0)
    }

    fn close(&self) -> Appending {
        self.0.ask(Work::Close, 0)
    }

    #[cfg(feature = "testing")]
    fn print(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Journal::print(self, out)
    }
}

impl Found {
    /// What a tier other than the journal held. Such a one has no epochs, and reports no losses.
    pub fn in_tier(kept: Kept) -> Found {
        let dropped = |body: &Vec<u8>| match codec::decode_entry(body) {
            Ok(Decoded::Record(Record::Dropped(dropped))) => Some(dropped),
            _ => None,
        };
        let pending_count = kept.entries.len() as u64;
        Found {
            epoch: Epoch(0),
            created: false,
            description: kept.description,
            remembered: kept.remembered,
            next_number: kept.next_number,
            pending_count,
            pending: PendingRecords(Source::Bodies(kept.entries.into_iter())),
            // One that can't be read is one of which less is known.
            dropped: kept.ended.iter().filter_map(dropped).collect(),
            torn: None,
            cut: None,
            lost: None,
            losses: Vec::new(),
        }
    }
}

/// What the bodies of one transaction say.
pub(super) fn read_bodies(bodies: &[Vec<u8>]) -> Result<Pending, OpenError> {
    let damaged = |why: String| OpenError::Damaged { file: "in another tier".to_owned(), offset: 0, why };
    let read = |body: &Vec<u8>| match codec::decode_entry(body) {
        Ok(Decoded::Record(record)) => Ok(record),
        Ok(Decoded::Mark(_)) => Err(damaged("a mark stands in place of a record".to_owned())),
        Err(why) => Err(damaged(why.to_string())),
    };
    let records: Result<Vec<Record>, OpenError> = bodies.iter().map(read).collect();
    assembled(records?).ok_or_else(|| damaged("another kind of record was expected".to_owned()))
}
