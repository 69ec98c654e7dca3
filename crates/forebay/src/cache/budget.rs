//! What an entry costs: the allocator's size classes, not the payload, so that `--memory` bounds the process.

use crate::key::Key;
use crate::policy::Policy;
use crate::read::Read;

use super::partition::Entry;
use super::record::Record;

/// Bytes of an entry beside its key, its value and the policy's metadata: its place in the slab, and one bucket of the
/// index (a slot number and a control byte at 7/16 to 7/8 load).
pub const ENTRY_OVERHEAD_BYTES: usize = size_of::<Entry>() + 8;

/// Bytes charged for an entry.
pub fn charge(key: &Key, read: &Read, policy: &Policy) -> usize {
    ENTRY_OVERHEAD_BYTES + policy.entry_bytes + Record::heap_bytes(key, read)
}
