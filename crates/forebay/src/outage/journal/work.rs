//! What is asked of the file.

use crate::outage::record::Description;
use crate::tier::{Effect, Remembered};

/// Something to be done with the file, in order.
pub(super) enum Work {
    /// Append a record.
    Append { effect: Effect, body: Vec<u8> },
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
            Work::Append { body, .. } => body.len(),
            Work::Describe(description) => description.mapping.len() + description.catalogue.len(),
            Work::Remember(remembered) => size_of_val(&*remembered.acknowledged),
            _ => 0,
        };
        content + size_of::<Work>()
    }
}
