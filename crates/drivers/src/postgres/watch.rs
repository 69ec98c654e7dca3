//! Where the watching of other programs' writes stands.

use std::ops::Deref;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::decoding::decoder::Decoding;
use crate::sql::watch;
use crate::sql::watching::OutsideBy;

/// Where the watching stands.
pub(super) struct Watch {
    shared: watch::Watch,
    pub(super) last: AsyncMutex<Last>,
    pub(super) decoding: AsyncMutex<Decoding>,
}

/// The last look.
#[derive(Default)]
pub(super) struct Last {
    /// The snapshot of the last look; without one, nothing is known of what was before.
    pub(super) snapshot: Option<String>,
    pub(super) looks: u32,
    /// When looks fail: when everything was said to be suspect last.
    pub(super) suspect: Option<Instant>,
    /// What removes old notes.
    pub(super) removal: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn new(by: OutsideBy, pause: Duration) -> Watch {
        let shared = watch::Watch::new("PostgreSQL", by, pause);
        Watch { shared, last: AsyncMutex::default(), decoding: AsyncMutex::default() }
    }
}

impl Deref for Watch {
    type Target = watch::Watch;

    fn deref(&self) -> &watch::Watch {
        &self.shared
    }
}
