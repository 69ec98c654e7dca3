//! What commands have to look out for on their way, in one word: a command that finds it zero pays one relaxed load.

use std::sync::atomic::{AtomicU32, Ordering};

/// Someone watches the requests (MONITOR).
pub const MONITORS: u32 = 1;
/// Clients are paused (CLIENT PAUSE).
pub const PAUSED: u32 = 2;
/// Someone tracks keys, or has subscribed to what is told of them.
pub const TRACKING: u32 = 4;

/// A set of the bits above.
#[derive(Debug, Default)]
pub struct Attention(AtomicU32);

impl Attention {
    /// The bits that are set.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets or clears a bit.
    pub fn set(&self, bit: u32, on: bool) {
        match on {
            true => self.0.fetch_or(bit, Ordering::SeqCst),
            false => self.0.fetch_and(!bit, Ordering::SeqCst),
        };
    }
}
