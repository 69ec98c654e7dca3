//! What is counted of requests, and what a cache holds in the end.

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that count.
    pub requests: u64,
    /// Those that were cached.
    pub hits: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Bytes asked for that were cached.
    pub bytes_hit: u64,
    /// Bytes fetched ahead, but for what a miss that came before the fetch was done counts already.
    pub bytes_ahead: u64,
}

/// What a cache holds at the end, as the whole trace would have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// Entries.
    pub entries: u64,
    /// Their weight, in the unit of the size.
    pub used: u64,
    /// Entries of the cache that was simulated, which for a sample is smaller.
    pub cells: u64,
}

impl Tally {
    /// Hits per request, 0 without requests.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Bytes hit per byte asked for, 0 without any.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.bytes_hit as f64 / self.bytes.max(1) as f64
    }

    /// Bytes that came from the store, or that a write put into the cache.
    pub fn bytes_fetched(&self) -> u64 {
        self.bytes - self.bytes_hit + self.bytes_ahead
    }

    /// So many bytes more are fetched ahead.
    pub(super) fn add_ahead(&mut self, bytes: i64) {
        self.bytes_ahead = self.bytes_ahead.saturating_add_signed(bytes);
    }

    /// One more request.
    #[inline]
    pub(super) fn add(&mut self, size: u32, hit: bool) {
        self.requests += 1;
        self.bytes += u64::from(size);
        // No branch: half of the time it would be guessed wrong.
        self.hits += u64::from(hit);
        self.bytes_hit += u64::from(hit) * u64::from(size);
    }
}
