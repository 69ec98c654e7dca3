//! What bounds a transaction.

/// Limits of transactions, each with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnLimits {
    /// A wait for a lock fails after a random time between these, in ms.
    pub lock_wait_ms_min: u64,
    /// See `lock_wait_ms_min`.
    pub lock_wait_ms_max: u64,
    /// An interactive transaction that keeps a plain command, a script or a clearing waiting for so long yields, in ms.
    /// Below `lock_wait_ms_min`, so that those who wait need not give up.
    pub txn_yield_ms: u64,
    /// Times that a plain command or a script is run again after a conflict.
    pub retries_max: u32,
    /// An interactive transaction without a command for so long is rolled back, or whose client reads nothing, in ms.
    pub txn_idle_ms_max: u64,
    /// An interactive transaction older than this is rolled back, in ms.
    pub txn_ms_max: u64,
    /// Bytes of documents above which a plain command or a script needs its turn.
    pub turnless_bytes_max: usize,
    /// Bytes of documents that plain commands and scripts hold at a time, all that are above `turnless_bytes_max`, but
    /// for one, whose turn it is to hold more.
    pub documents_bytes_max: usize,
    /// Bytes of commits on their way to the store; past it commits wait, but for one that is larger by itself.
    pub placed_bytes_max: u64,
}

impl Default for TxnLimits {
    fn default() -> TxnLimits {
        TxnLimits {
            lock_wait_ms_min: 500,
            lock_wait_ms_max: 2000,
            txn_yield_ms: 250,
            retries_max: 8,
            txn_idle_ms_max: 5000,
            txn_ms_max: 60_000,
            turnless_bytes_max: 2 << 20,
            documents_bytes_max: 32 << 20,
            placed_bytes_max: 16 << 20,
        }
    }
}
