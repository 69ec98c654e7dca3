//! The server's limits, each named, with its unit.

use forebay_protocol::Limits as RequestLimits;

/// Limits that hold for one server; those of transactions are [`forebay::txn::TxnLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at a time; one more is told so and closed, unless a stranger has to go for it.
    pub clients_max: usize,
    /// A connection that has to authenticate and has not by then is closed, in ms.
    pub stranger_ms_max: u64,
    /// The same for one that has sent no request by then, or is not done with its TLS handshake.
    pub handshake_ms_max: u64,
    /// Interactive transactions open at a time.
    pub transactions_max: usize,
    /// Requests of one connection that run before others get their turn.
    pub pipeline_frames_max: usize,
    /// Bytes of replies that wait for one client to read them; until there is room its next request waits.
    pub client_reply_bytes_max: usize,
    /// The same over all clients, half of it for those that take quickly; past it large replies wait, and the requests
    /// of clients for which more waits than [`Self::replies_bytes_share`].
    pub replies_bytes_max: usize,
    /// Bytes that unfinished requests, MULTI and TXN hold, over all clients. Requests above 32 KiB, and wide ones above
    /// less beside many clients, wait for room in it. Past it a connection that holds more is closed when its MULTI or
    /// TXN grows.
    pub held_bytes_max: usize,
    /// Bytes that a client sends in a second of a request that is not complete and larger than 32 KiB, while others
    /// wait for room. A slower one is closed; while a client waits for room itself, no time passes for it.
    pub large_request_bytes_per_s_min: usize,
    /// Bytes that connections which have to authenticate hold, all together; past it the one that holds most is closed.
    pub stranger_bytes_max: usize,
    /// Bytes that one command, interactive transaction or EXEC reads, and what it makes of that. One document passes.
    pub txn_bytes_max: usize,
    /// Bytes that plain commands and EXEC with many keys or elements take while they run, all together, unless it is
    /// one alone; a further one waits.
    pub underway_bytes_max: usize,
    /// Keys that one command or EXEC locks; each takes about 1 KiB while that runs.
    pub locked_keys_max: usize,
    /// Commands queued in one MULTI.
    pub multi_commands_max: usize,
    /// Bytes that the commands queued in one MULTI take in memory.
    pub multi_bytes_max: usize,
    /// Keys watched by one connection.
    pub watched_keys_max: usize,
    /// Keys of one LEASE GET.
    pub lease_keys_max: usize,
    /// Documents whose writes are counted apart for LEASE GET; of the others it is known that they are written less.
    pub lease_rates_max: usize,
    /// Keys that LEASE CHECK names before one EXEC; they count as watched too.
    pub lease_checks_max: usize,
    /// Keys that are noted for CLIENT TRACKING, of all clients; the one noted longest ago is given up for another, and
    /// told.
    pub tracking_keys_max: usize,
    /// Bytes that those take.
    pub tracking_bytes_max: usize,
    /// A script that takes longer is stopped, in ms.
    pub script_ms_max: u64,
    /// Scripts that run at a time; a further one waits.
    pub scripts_max: usize,
    /// Bytes that one script takes, and its answer.
    pub script_bytes_max: usize,
    /// Bytes of the scripts that are kept for EVALSHA.
    pub script_cache_bytes_max: usize,
    /// What one request may ask.
    pub request: RequestLimits,
}

/// Replies above so many bytes have room of their own made.
pub(crate) const ORDINARY_REPLY_BYTES: usize = 256 << 10;

impl ServerLimits {
    /// What each client may have waiting even if all that there may be have as much. One below its share does not wait
    /// for what others do; so in all at most twice `replies_bytes_max` waits.
    pub fn replies_bytes_share(&self) -> usize {
        self.replies_bytes_max / self.clients_max.max(1)
    }

    /// What may wait for a client when a request of it is served: there is room for an ordinary reply then.
    pub fn reply_bytes_before_wait(&self) -> usize {
        let most = self.client_reply_bytes_max;
        most.saturating_sub(ORDINARY_REPLY_BYTES).max(most / 2)
    }
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            clients_max: 10_000,
            stranger_ms_max: 60_000,
            handshake_ms_max: 10_000,
            transactions_max: 10_000,
            pipeline_frames_max: 128,
            client_reply_bytes_max: 256 << 20,
            replies_bytes_max: 1 << 30,
            held_bytes_max: 1 << 30,
            large_request_bytes_per_s_min: 128 << 10,
            stranger_bytes_max: 16 << 20,
            txn_bytes_max: 256 << 20,
            underway_bytes_max: 16 << 20,
            locked_keys_max: 1 << 20,
            multi_commands_max: 100_000,
            multi_bytes_max: 64 << 20,
            watched_keys_max: 10_000,
            tracking_keys_max: 1_000_000,
            tracking_bytes_max: 256 << 20,
            lease_keys_max: 1024,
            lease_rates_max: 65_536,
            lease_checks_max: 4096,
            script_ms_max: 5000,
            scripts_max: 16,
            script_bytes_max: 16 << 20,
            script_cache_bytes_max: 16 << 20,
            request: RequestLimits::default(),
        }
    }
}
