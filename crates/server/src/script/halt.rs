//! How a script is told to stop, and why.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_protocol::Reply;

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// It took so many ms.
    Time(u64),
    /// It took so many bytes.
    Memory(usize),
    /// SCRIPT KILL.
    Killed,
    /// Its session waits for it no more.
    Left,
}

impl Limit {
    /// What the client is told.
    pub(crate) fn reply(self) -> Reply {
        Reply::error(match self {
            Limit::Time(ms) => format!("LIMIT script_ms_max {ms}"),
            Limit::Memory(bytes) => format!("LIMIT script_bytes_max {bytes}"),
            Limit::Killed => "ERR Error running script: Script killed by user with SCRIPT KILL.".into(),
            Limit::Left => "ERR no client waits for the script".into(),
        })
    }
}

/// Whether a script is to stop, and why; known to its thread, its session and SCRIPT KILL.
#[derive(Default)]
pub(crate) struct Halt {
    /// A quick look at whether there is a reason.
    set: AtomicUsize,
    reason: Mutex<Option<Limit>>,
}

impl Halt {
    /// Why it is to stop, if it is.
    pub(crate) fn reason(&self) -> Option<Limit> {
        match self.set.load(Ordering::Acquire) {
            0 => None,
            _ => *self.reason.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Has it stop. The first reason stays.
    pub(crate) fn stop(&self, reason: Limit) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.set.store(1, Ordering::Release);
    }
}
