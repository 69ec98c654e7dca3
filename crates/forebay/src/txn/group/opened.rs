//! What an operator is told when a store has another incarnation.

use crate::store::Caps;

/// Says what is lost by it: where nothing is kept back, no more than the cache.
pub(super) fn tell(caps: Caps, incarnation: u64) {
    match caps.keeps_back() {
        true => tracing::warn!(
            incarnation,
            "the store was opened again: what it had acknowledged and not flushed is lost, and the cache is given up"
        ),
        false => tracing::info!(incarnation, "the database is open, and what was cached before that is given up"),
    }
}
