//! All that decides what a gate does next, as text, for tests that tell its states apart. Clocks and counters of what
//! has been are left out.

use std::fmt;

use super::Gate;
#[cfg(feature = "testing")]
use crate::version::{TxnId, Version};

impl Gate {
    /// Writes the state down: two gates that write the same, and have the same calls, timers and records under way, go
    /// on in the same way.
    #[doc(hidden)]
    pub fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let state = self.inner.state();
        state.buffer.print(out)?;
        writeln!(out, "{:?} {:?} {:?}", state.mode, state.writes, state.reads)?;
        writeln!(out, "{} {} {} {:?}", state.carried, state.batch_max, state.roomless, state.failed_until)?;
        writeln!(out, "{:?} {:?} {} {}", state.decided, state.verdicts, state.resuming, state.suspensions)?;
        writeln!(out, "{} {} {:?}", state.incarnation, state.opens_late, state.suspended)?;
        writeln!(out, "{} {} {:?}", state.known_from, state.found_in, self.inner.given_out)?;
        self.inner.journal.print(out)
    }

    /// The versions that what waits has got by now for others, each with the id of its commit.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn renamed(&self) -> Vec<(Version, TxnId)> {
        self.inner.state().renamed.clone()
    }
}
