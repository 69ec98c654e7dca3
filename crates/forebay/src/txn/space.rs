//! The lock of a whole key space, for clearing it.

use std::collections::VecDeque;

use futures_channel::oneshot;

/// The lock of a key space: held shared, by counting, by every transaction that locks a key in it; held exclusively
/// to clear it.
#[derive(Default)]
pub(super) struct Space {
    pub(super) shared: usize,
    pub(super) exclusive: bool,
    pub(super) queue: VecDeque<(bool, oneshot::Sender<()>)>,
}

impl Space {
    pub(super) fn grantable(&self, exclusive: bool) -> bool {
        !self.exclusive && (!exclusive || self.shared == 0)
    }

    pub(super) fn grant(&mut self, exclusive: bool) {
        match exclusive {
            true => self.exclusive = true,
            false => self.shared += 1,
        }
    }

    pub(super) fn serve(&mut self) {
        while let Some((exclusive, wake)) = self.queue.pop_front() {
            // Who has given up waiting stands in nobody's way.
            if wake.is_canceled() {
                continue;
            }
            if !self.grantable(exclusive) {
                self.queue.push_front((exclusive, wake));
                return;
            }
            if wake.send(()).is_ok() {
                self.grant(exclusive);
            }
        }
    }
}
