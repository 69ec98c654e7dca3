//! HINT: the hint sets of a session.

use forebay::hint::HintSet;

/// What the client has said of its hints; what its ids mean is in `labels`.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// HINT USE: for the next command.
    next: Option<HintSet>,
    /// The command that runs is the HINT USE itself.
    fresh: bool,
    /// HINT DEFAULT: for the connection.
    pub default: HintSet,
    /// HINT SCHEMA: the schema of the ids that follow.
    pub schema: Option<u32>,
}

impl Hints {
    /// The next command has `set`.
    pub fn use_next(&mut self, set: HintSet) {
        (self.next, self.fresh) = (Some(set), true);
    }

    /// The set of the command at hand.
    pub fn now(&self) -> HintSet {
        self.next.unwrap_or(self.default)
    }

    /// A command has run.
    pub(crate) fn used(&mut self) {
        if !std::mem::take(&mut self.fresh) {
            self.next = None;
        }
    }
}
