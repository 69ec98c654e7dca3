//! What a cache counts.

/// Figures of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Reads answered from the cache.
    pub hits: u64,
    /// Reads that had to ask the store.
    pub misses: u64,
    /// Entries that came in.
    pub insertions: u64,
    /// Entries that the policy gave up.
    pub evictions: u64,
    /// Missed entries that the policy, or their size, kept out.
    pub rejections: u64,
    /// Fills that a commit, an invalidation or a removal ended.
    pub fills_ended: u64,
    /// Reads that waited for another's fetch.
    pub followers: u64,
    /// Entries now.
    pub entries: u64,
    /// Bytes charged to the budget now.
    pub used_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
}

impl CacheStats {
    /// Adds what a partition has counted: hits and misses are counted beside it, entries and bytes are not counts.
    pub(super) fn add(&mut self, other: &CacheStats) {
        self.insertions += other.insertions;
        self.evictions += other.evictions;
        self.rejections += other.rejections;
        self.fills_ended += other.fills_ended;
        self.followers += other.followers;
    }
}
