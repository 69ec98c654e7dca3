//! What a transaction holds.

use smallvec::SmallVec;

use crate::key::Key;
use crate::txn::mode::Mode;

/// The keys that a transaction has locked, or asked for.
#[derive(Default)]
pub(super) struct Held {
    pub(super) keys: SmallVec<[Key; 4]>,
    modes: SmallVec<[Mode; 4]>,
    /// Where each key stands, once there are many.
    index: Option<hashbrown::HashMap<Key, usize, foldhash::quality::RandomState>>,
}

impl Held {
    /// Keys above which look-ups go through the index.
    const SCAN_MAX: usize = 16;

    /// Makes room for `count` keys.
    pub(super) fn reserve(&mut self, count: usize) {
        self.keys.reserve_exact(count.saturating_sub(self.keys.len()));
        self.modes.reserve_exact(count.saturating_sub(self.modes.len()));
    }

    fn position(&self, key: &Key) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.keys.iter().position(|held| held == key),
        }
    }

    pub(super) fn mode(&self, key: &Key) -> Option<Mode> {
        self.position(key).map(|at| self.modes[at])
    }

    /// All of them, and how each is held.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, Mode)> {
        self.keys.iter().zip(self.modes.iter().copied())
    }

    pub(super) fn set(&mut self, key: &Key, mode: Mode) {
        if let Some(at) = self.position(key) {
            self.modes[at] = mode;
            return;
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.keys.len());
        }
        self.keys.push(key.clone());
        self.modes.push(mode);
        if self.index.is_none() && self.keys.len() > Held::SCAN_MAX {
            self.index = Some(self.keys.iter().cloned().zip(0..).collect());
        }
    }
}
