//! An operator mends the table now and then, and decides about the transactions that were set aside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::outage::Gate;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;

use super::table::Table;
use crate::book::expect;

/// What is set aside by the table's word is tried again. A later write goes past what such a one, or one that waits for
/// it, has read: that is taken for what it is, and applied. No other is set aside.
pub(super) struct Operator {
    pub(super) runtime: Runtime,
    pub(super) gate: Gate,
    pub(super) table: Arc<Table>,
    /// Transactions below this number may have waited for an operator.
    pub(super) waited: Arc<AtomicU64>,
    pub(super) random: SplitMix,
}

impl Operator {
    pub(super) async fn run(mut self, refuses: u64) {
        loop {
            self.table.refuse(refuses);
            self.runtime.sleep(Duration::from_micros(self.random.below(30_000))).await;
            self.table.refuse(0);
            self.decide().await;
            self.runtime.sleep(Duration::from_micros(self.random.below(3_000))).await;
        }
    }

    async fn decide(&self) {
        let (aside, before) = (self.gate.with_buffer(|buffer| buffer.quarantine_list()), self.waited());
        if aside.is_empty() {
            return;
        }
        self.note_waiting();
        for (number, why) in &aside {
            if why.starts_with("it read") {
                let refused = self.gate.with_buffer(|buffer| {
                    buffer.buffered(*number).is_some_and(|buffered| self.table.has_refused(buffered.id))
                });
                let waited = refused || aside.len() > 1 || *number < before;
                expect(waited, "nothing is overtaken", || format!("{number}: {why}"));
                drop(self.gate.apply(*number).await);
            } else {
                self.gate.retry(Some(*number)).await;
            }
        }
        self.note_waiting();
    }

    fn waited(&self) -> u64 {
        self.waited.load(Ordering::SeqCst)
    }

    /// Any that is there may wait for one that is set aside.
    fn note_waiting(&self) {
        self.waited.store(self.gate.with_buffer(|buffer| buffer.next_number()), Ordering::SeqCst);
    }
}
