//! How many round trips of transactions one cache saves, counted while they run, by many threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Access;
use super::judge::{Judge, Metered};
use crate::graph::Graph;

/// Counts what a cache tells it: what a policy may know of each access, whether it was a hit, and how transactions end.
pub struct Meter {
    judge: Mutex<Judge>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter { judge: Mutex::new(Judge::new(1)) }
    }
}

impl Meter {
    /// What was counted so far.
    pub fn metered(&self) -> Metered {
        self.lock().metered(0)
    }

    /// Counts from zero again; transactions that are open go on.
    pub fn reset(&self) {
        self.lock().reset();
    }

    /// Has transactions of this type counted by `graph` from their next end on.
    pub fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        self.lock().register_graph(txn_type, graph);
    }

    /// A key was asked for or written; `hit`: a read was answered from the cache.
    pub fn access(&self, access: &Access, hit: bool) {
        self.lock().access(access, u64::from(hit));
    }

    /// A transaction ended.
    pub fn ended(&self, txn: u64, committed: bool) {
        self.lock().ended(txn, committed);
    }

    fn lock(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::AccessKind;
    use super::super::judge::{METERED_LEVELS_MAX, METERED_OPEN_MAX};
    use super::*;
    use crate::graph::Thr;

    fn at(txn: u64, level: u16) -> Access {
        Access { txn, level, ..Access::read(1, 1) }
    }

    #[test]
    fn a_level_is_hit_when_all_of_it_is_and_aborted_transactions_do_not_count() {
        let meter = Meter::default();
        for (level, kind, hit) in [
            (0, AccessKind::Read, true),
            (0, AccessKind::Read, true),
            (1, AccessKind::Read, true),
            (1, AccessKind::Read, false),
            (2, AccessKind::Write, true),
        ] {
            meter.access(&Access { kind, ..at(7, level) }, hit);
        }
        meter.access(&at(8, 0), true);
        meter.ended(8, false);
        meter.ended(7, true);
        let metered = meter.metered();
        assert_eq!((metered.thr, metered.transactions), (Thr { length: 3, hits: 1 }, 1));
        assert_eq!((metered.levels, metered.levels_hit), (3, 1));
        assert_eq!((metered.reads, metered.reads_hit), (5, 4));
        meter.reset();
        assert_eq!(meter.metered(), Metered::default());
    }

    #[test]
    fn a_graph_knows_what_did_not_have_to_wait() {
        // Figure 6a: a -> b, a -> c -> d; levels {a} {b, c} {d}; only c is cached.
        let meter = Meter::default();
        meter.register_graph(3, &Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph")));
        for txn_type in [3, 4] {
            for (vertex, level) in [(1, 0), (2, 1), (3, 1), (4, 2)] {
                meter.access(&Access { txn_type, vertex, ..at(1, level) }, vertex == 3);
            }
            meter.ended(1, true);
        }
        let metered = meter.metered();
        assert_eq!((metered.thr, metered.by_graph), (Thr { length: 6, hits: 1 }, 1));
    }

    #[test]
    fn open_transactions_are_bounded() {
        let meter = Meter::default();
        for txn in 1..=METERED_OPEN_MAX as u64 + 5 {
            meter.access(&at(txn, 0), true);
        }
        assert_eq!(meter.lock().open(), METERED_OPEN_MAX);
        for level in 0..=METERED_LEVELS_MAX as u16 {
            meter.access(&at(9, level), true);
        }
        meter.ended(9, true);
        let levels = METERED_LEVELS_MAX as u64;
        assert_eq!((meter.metered().levels, meter.metered().levels_hit), (levels, levels));
        assert_eq!(meter.metered().thr, Thr { length: levels, hits: levels });
    }
}
