//! Where a transaction stands between its client, the journal, the store and the operator.

/// Where a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is on its way to the journal; perhaps another is replaced by it.
    Writing { replaces: Option<u64> },
    /// It waits for its turn.
    Waiting,
    /// Merged into one that is on its way to the journal.
    Replaced,
    /// On its way to the store.
    Carried,
    /// Behind this one, which is quarantined or behind another itself.
    Behind(u64),
    /// The store refuses it, for this reason.
    Quarantined(String),
}

impl Stage {
    pub(super) fn is_quarantined(&self) -> bool {
        matches!(self, Stage::Quarantined(_))
    }

    pub(super) fn is_behind(&self) -> bool {
        matches!(self, Stage::Behind(_))
    }

    /// It waits for an operator.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_quarantined() || self.is_behind()
    }
}
