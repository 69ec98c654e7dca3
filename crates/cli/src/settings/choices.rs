//! What some settings choose between.

use std::path::PathBuf;

use forebay::store::embedded::Durability as Flush;
use forebay_drivers::Address;

/// How many threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for each core that the process may use.
    Cores,
    /// So many.
    Count(usize),
}

impl Threads {
    /// The number.
    pub fn count(self) -> usize {
        match self {
            Threads::Cores => std::thread::available_parallelism().map_or(1, usize::from),
            Threads::Count(count) => count,
        }
    }
}

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// One file.
    Embedded(PathBuf),
    /// Gone at the end.
    Memory,
    /// A database.
    Database(Box<Address>),
}

impl StoreChoice {
    /// Whether it is part of this process.
    pub fn is_local(&self) -> bool {
        matches!(self, StoreChoice::Embedded(_) | StoreChoice::Memory)
    }
}

/// When a commit is safe on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most `sync_ms` later.
    Interval,
    /// When it suits the store.
    Never,
}

impl Durability {
    /// The same, as the store and the journal are told it.
    pub fn flush(self, sync_ms: u64) -> Flush {
        match self {
            Durability::Always => Flush::Always,
            Durability::Interval => Flush::Interval { sync_ms },
            Durability::Never => Flush::Never,
        }
    }
}

/// What becomes of writes while the database is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOutage {
    /// They are kept in the journal and applied later.
    Buffer,
    /// They are refused.
    Refuse,
}

/// In which order what was kept is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// In order where tables or rows are joined, else at the same time.
    Lanes,
    /// One after the other.
    Serial,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Importance of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something needs attention.
    Warn,
    /// What happens.
    Info,
    /// Why it happens.
    Debug,
    /// All of it.
    Trace,
}

/// What `auto` stands for where other programs' writes are watched, in ms.
pub(super) const UNWATCHED_MS: u64 = 1000;

/// How long what is cached of a table that nothing watches is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwatchedMs {
    /// A second, where other tables are watched; else as long as it is cached.
    #[default]
    Auto,
    /// As long as it is cached.
    Off,
    /// So many ms.
    After(u64),
}
