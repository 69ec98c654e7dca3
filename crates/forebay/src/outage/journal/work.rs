//! What is asked of the file.

use super::frame::HEAD_BYTES;
use super::space::{Kind, NOTE_BYTES};
use crate::outage::record::Description;
use crate::tier::{Effect, Entry, Remembered};

/// Something to be done with the file, in order.
pub(super) enum Work {
    /// Append these, all or none.
    Append(Vec<Entry>),
    /// Have all before it on disk.
    Sync,
    /// Sync if anything waits for that; else note, once, that nothing does.
    Tick,
    /// Sync, and write a new header.
    Describe(Description),
    /// Have the next owner know this of the store.
    Remember(Remembered),
    /// Look whether the file still has its name.
    Look,
    /// Sync, note that nothing comes after, and close.
    Close,
}

impl Work {
    /// Bytes that it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        let content = match self {
            Work::Append(entries) => entries.iter().map(|entry| entry.body.len() + size_of::<Entry>()).sum(),
            Work::Describe(description) => description.mapping.len() + description.catalogue.len(),
            Work::Remember(remembered) => size_of_val(&*remembered.acknowledged),
            _ => 0,
        };
        content + size_of::<Work>()
    }
}

/// Bytes of the frame of `entry`.
pub(super) fn frame_bytes(entry: &Entry) -> u64 {
    (HEAD_BYTES + entry.body.len()) as u64
}

/// Whether `entry` adds a transaction, or puts one in the place of others; else it is a note about such.
pub(super) fn adds(entry: &Entry) -> bool {
    matches!(entry.effect, Effect::Added(_) | Effect::Replaced { .. })
}

/// Transactions that these say are needed no more.
pub(super) fn gone(entries: &[Entry]) -> usize {
    let gone = |entry: &Entry| match &entry.effect {
        Effect::Gone(numbers) => numbers.len(),
        _ => 0,
    };
    entries.iter().map(gone).sum()
}

/// What these notes are as far as room goes.
pub(super) fn kind(entries: &[Entry]) -> Kind {
    let kind = |entry: &Entry| match entry.effect {
        _ if frame_bytes(entry) <= NOTE_BYTES => Kind::Short,
        Effect::Known(_) => Kind::Learned,
        Effect::Stands(_) | Effect::Ended(_) => Kind::Verdict,
        _ => Kind::Short,
    };
    entries.iter().map(kind).max().unwrap_or(Kind::Short)
}
