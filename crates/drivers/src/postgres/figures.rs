//! What operators want to know of the database and of us at it.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay::store::figures::{Connections, StoreFigures};

use super::database::Inner;
use crate::sql::watching::OutsideBy;

impl Inner {
    /// All of it, as it stands now.
    pub(super) fn figures(&self) -> StoreFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counted = &self.counted;
        let outside = match self.watch.by() {
            OutsideBy::Decoding => Some("decoding"),
            OutsideBy::Triggers | OutsideBy::Auto if self.has_notes() => Some("triggers"),
            _ => None,
        };
        let connections: Connections = self.pool.connections();
        StoreFigures {
            connections,
            commits_on_their_way: self.ids.on_their_way() as u64,
            reads: counted.reads.snapshot(),
            keys_read: load(&counted.keys_read),
            reads_failed: load(&counted.reads_failed),
            groups: counted.groups.snapshot(),
            commits: std::array::from_fn(|at| load(&counted.outcomes[at])),
            outside: outside.map(|by| self.watch.figures(by)),
        }
    }
}
