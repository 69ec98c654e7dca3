//! What an entry costs: the allocator's size classes, not the payload, so that `--memory` bounds the process.

use crate::key::Key;
use crate::policy::Policy;
use crate::read::Read;
use crate::read::record::Record;

pub use super::entry::ENTRY_OVERHEAD_BYTES;

/// Bytes charged for an entry.
pub fn charge(key: &Key, read: &Read, policy: &Policy) -> usize {
    ENTRY_OVERHEAD_BYTES + policy.entry_bytes + Record::heap_bytes(key.name().len(), read)
}
