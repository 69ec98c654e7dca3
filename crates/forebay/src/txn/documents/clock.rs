//! When a transaction takes place.

use std::fmt;
use std::sync::OnceLock;

use crate::runtime::Runtime;

/// The transaction's one reading of the wall clock. Most have no use for it, so it is read when it is first asked for.
#[derive(Default)]
pub(super) struct Clock {
    now_ms: OnceLock<u64>,
    runtime: Option<Runtime>,
}

impl Clock {
    /// The moment `now_ms`.
    pub(super) fn at(now_ms: u64) -> Clock {
        Clock { now_ms: now_ms.into(), runtime: None }
    }

    /// The moment at which it is first asked for.
    pub(super) fn of(runtime: &Runtime) -> Clock {
        Clock { now_ms: OnceLock::new(), runtime: Some(runtime.clone()) }
    }

    pub(super) fn set(&mut self, now_ms: u64) {
        self.now_ms = now_ms.into();
    }

    /// The moment, if it was asked for.
    pub(super) fn read_ms(&self) -> Option<u64> {
        self.now_ms.get().copied()
    }

    pub(super) fn now_ms(&self) -> u64 {
        *self.now_ms.get_or_init(|| self.runtime.as_ref().map_or(0, Runtime::now_ms))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now_ms.fmt(f)
    }
}
