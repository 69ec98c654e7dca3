//! What an entry costs: the allocator's size classes, not the payload, so that `--memory` bounds the process.

use crate::key::Key;
use crate::policy::Policy;
use crate::read::Read;
use crate::read::record::Record;

/// Bytes of an entry beside its key, its value and the policy's metadata: its place and a word of the table, which is
/// at 47 to 94 % load.
pub const ENTRY_OVERHEAD_BYTES: usize = 32;

/// Bytes charged for an entry.
pub fn charge(key: &Key, read: &Read, policy: &Policy) -> usize {
    ENTRY_OVERHEAD_BYTES + policy.entry_bytes + Record::heap_bytes(key.name().len(), read)
}
