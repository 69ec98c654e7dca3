//! What others wait for: the next mode, and what becomes of a ticket.

use std::sync::Weak;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::gate::{Gate, Inner};
use super::mode::Mode;
use super::tickets::TicketState;

/// The modes of a gate, one after the other; a listener that did not look in time sees the last one. Does not keep the
/// gate.
pub struct ModeChanges {
    inner: Weak<Inner>,
    seen: Mode,
}

impl ModeChanges {
    /// The mode, once it is another than before; none when the gate is gone.
    pub async fn next(&mut self) -> Option<Mode> {
        loop {
            let changed = {
                let inner = self.inner.upgrade()?;
                let mut state = inner.state();
                if state.mode != self.seen {
                    self.seen = state.mode;
                    return Some(state.mode);
                }
                state.next_mode()
            };
            // Done also when the gate goes.
            let _ = changed.await;
        }
    }
}

impl Gate {
    /// Its modes from now on, the present one first if it is not [`Mode::Normal`].
    pub fn mode_changes(&self) -> ModeChanges {
        ModeChanges { inner: std::sync::Arc::downgrade(&self.inner), seen: Mode::Normal }
    }

    /// What `ticket` stands for.
    pub fn ticket(&self, ticket: u64) -> TicketState {
        self.inner.state().ticket(ticket)
    }

    /// The ticket that `ticket` became part of, or that one itself.
    pub fn part_of(&self, ticket: u64) -> u64 {
        self.inner.state().tickets.resolve(ticket)
    }

    /// What `ticket` stands for, once it is not pending any more, or after `time`.
    pub async fn wait_for(&self, ticket: u64, time: Duration) -> TicketState {
        let mut slept = self.inner.runtime.sleep(time);
        loop {
            let changed = {
                let mut state = self.inner.state();
                match state.ticket(ticket) {
                    TicketState::Pending if !time.is_zero() => state.tickets.next_change(ticket),
                    told => return told,
                }
            };
            match select(changed, slept).await {
                Either::Left((_, rest)) => slept = rest,
                Either::Right(_) => return self.ticket(ticket),
            }
        }
    }
}
