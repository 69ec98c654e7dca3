//! A byte string, and what it takes in memory.

use std::sync::Arc;

/// A shared immutable byte string.
pub type Blob = Arc<[u8]>;

/// The allocator's page.
const PAGE_BYTES: usize = 4096;

/// Bytes that an allocator takes for a request of `bytes`, because a budget that counted requests would be passed by a
/// quarter where values are small. The size classes are those of jemalloc 5.3: four to each doubling, then pages.
pub fn allocated_bytes(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => {
            let step = (1usize << ((bytes - 1).ilog2() - 2)).min(PAGE_BYTES);
            bytes.checked_next_multiple_of(step).unwrap_or(usize::MAX)
        }
    }
}

/// Bytes of the two reference counts that stand before what an `Arc` shares.
pub(crate) const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// Heap bytes of one shared byte string of `len` bytes: the bytes and two reference counts, as allocated.
pub fn blob_bytes(len: usize) -> usize {
    allocated_bytes(len.saturating_add(COUNTS_BYTES).saturating_add(7) & !7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_those_of_jemalloc() {
        let classes = [(1, 8), (9, 16), (17, 32), (128, 128), (129, 160), (160, 160), (161, 192), (257, 320)];
        for (bytes, class) in classes.into_iter().chain([(1025, 1280), (4096, 4096), (4097, 5120), (65_537, 69_632)]) {
            assert_eq!(allocated_bytes(bytes), class, "{bytes}");
        }
        assert_eq!(allocated_bytes(0), 0);
        assert_eq!(blob_bytes(usize::MAX), usize::MAX);
    }
}
