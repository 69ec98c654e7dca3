//! What is known of a level while it is asked for.

use super::learned::Touch;
use crate::policy::Access;

/// The level that an order is being asked for, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Asking {
    txn: u64,
    level: u16,
    /// Whether its score can be told already.
    is_told: bool,
    least: f32,
    weight: u64,
}

impl Asking {
    /// One more access, perhaps of another level; of that `is_told` says whether it goes by levels.
    pub fn take(&mut self, access: &Access, touch: &Touch, is_told: impl FnOnce() -> bool) {
        if (self.txn, self.level) != (access.txn, access.level) {
            *self =
                Asking { is_told: is_told(), txn: access.txn, level: access.level, least: f32::INFINITY, weight: 0 };
        }
        // A level that writes saves nothing.
        self.least = self.least.min(if touch.reads { touch.frequency } else { 0.0 });
        self.weight += if touch.counted { u64::from(touch.weight) } else { 0 };
    }

    /// What `incoming`'s level scores as far as it is known: more keys only make it less. Boundless where that can't be
    /// told before the transaction has ended.
    pub fn worth(&self, incoming: &Access) -> f64 {
        match self.is_told && (self.txn, self.level) == (incoming.txn, incoming.level) {
            true => f64::from(self.least) / self.weight.max(1) as f64,
            false => f64::INFINITY,
        }
    }
}
