//! What is known of the last look at what others have written.

use tokio::time::Instant;

/// The last look.
#[derive(Default)]
pub(super) struct Last {
    /// The newest note and the schema's number then; without them nothing is known of what was before.
    pub(super) seen: Option<(u64, i64)>,
    pub(super) looks: u32,
    /// When looks fail: when everything was said to be suspect last.
    pub(super) suspect: Option<Instant>,
}
