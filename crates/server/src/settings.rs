//! What CONFIG SET can change while the server runs.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Settings of a running server.
#[derive(Debug)]
pub struct Settings {
    /// SLOWLOG keeps commands that took longer, in microseconds; negative: none.
    pub slowlog_us: AtomicI64,
    /// Entries that SLOWLOG keeps.
    pub slowlog_entries_max: AtomicU64,
    /// LATENCY keeps events that took so long, in ms; 0: none.
    pub latency_ms: AtomicU64,
}

/// More entries than this SLOWLOG does not keep, whatever is set.
pub const SLOWLOG_ENTRIES_LIMIT: u64 = 100_000;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            slowlog_us: AtomicI64::new(10_000),
            slowlog_entries_max: AtomicU64::new(128),
            latency_ms: AtomicU64::new(0),
        }
    }
}

/// One setting that CONFIG SET takes: a whole number within bounds.
pub struct Setting {
    /// Its name, Redis' own.
    pub name: &'static str,
    /// The least and the greatest value that it takes.
    pub range: (i64, i64),
    /// Its value.
    pub get: fn(&Settings) -> i64,
    /// Changes it.
    pub set: fn(&Settings, i64),
}

/// All settings that CONFIG SET takes.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "slowlog-log-slower-than",
        range: (-1, i64::MAX),
        get: |settings| settings.slowlog_us.load(Ordering::Relaxed),
        set: |settings, value| settings.slowlog_us.store(value, Ordering::Relaxed),
    },
    Setting {
        name: "slowlog-max-len",
        range: (0, SLOWLOG_ENTRIES_LIMIT as i64),
        get: |settings| settings.slowlog_entries_max.load(Ordering::Relaxed) as i64,
        set: |settings, value| settings.slowlog_entries_max.store(value as u64, Ordering::Relaxed),
    },
    Setting {
        name: "latency-monitor-threshold",
        range: (0, i64::MAX),
        get: |settings| settings.latency_ms.load(Ordering::Relaxed) as i64,
        set: |settings, value| settings.latency_ms.store(value as u64, Ordering::Relaxed),
    },
];
