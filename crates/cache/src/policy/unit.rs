//! What a budget counts, and how a policy hears of hits.

/// How a policy hears of hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// It asks, when it looks for a victim, how often each slot was touched since it came in or was last asked for,
    /// saturating at [`MARKS_MAX`](super::MARKS_MAX).
    Marks,
    /// It is told of hits, in order, through [`Order::access`](super::Order::access). Where many threads hit at once,
    /// some are left out.
    Sampled,
    /// It is told of each hit, in order, through [`Order::access`](super::Order::access): it learns from how many there
    /// are.
    Accesses,
}

/// What the budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each entry weighs 1.
    Entries,
    /// Each entry weighs its bytes.
    Bytes,
}

impl Unit {
    /// What an entry of `size` bytes weighs; at least 1.
    pub fn weight(self, size: u32) -> u32 {
        match self {
            Unit::Entries => 1,
            Unit::Bytes => size.max(1),
        }
    }
}
