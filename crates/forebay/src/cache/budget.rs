//! What an entry costs: the allocator's size classes, not the payload, so that `--memory` bounds the process.

use crate::key::Key;
use crate::policy::Policy;
use crate::store::Read;

use super::partition::Entry;

/// Bytes of an entry beside its key, its value and the policy's metadata: its place in the slab, and one bucket of the
/// index (a slot number and a control byte at 7/16 to 7/8 load).
pub const ENTRY_OVERHEAD_BYTES: usize = size_of::<Entry>() + 8;

/// Bytes that an allocation of `bytes` takes from the allocator: classes of 16 up to 128, then four per doubling.
pub fn allocated_bytes(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of((bytes - 1).next_power_of_two() / 8),
    }
}

/// Bytes charged for an entry.
pub fn charge(key: &Key, read: &Read, policy: &Policy) -> usize {
    let value = read.value.as_ref().map_or(0, |value| allocated_bytes(value.size()));
    ENTRY_OVERHEAD_BYTES + policy.entry_bytes + allocated_bytes(key.heap_bytes()) + value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_never_below_the_size_nor_a_quarter_above_it() {
        for bytes in 1..100_000 {
            let allocated = allocated_bytes(bytes);
            assert!(allocated >= bytes, "{bytes} in {allocated}");
            assert!(allocated <= bytes + (bytes / 4).max(15), "{bytes} in {allocated}");
        }
        assert_eq!(allocated_bytes(129), 160);
        assert_eq!(allocated_bytes(256), 256);
        assert_eq!(allocated_bytes(272), 320);
    }
}
