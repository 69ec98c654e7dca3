//! Where SCANs stand. A cursor is a number that names a position kept here. Each open SCAN keeps two positions, the one
//! it asked for last and the one it was given, so that a client may repeat a call. Beyond [`CURSORS_MAX`] positions the
//! oldest go, and a SCAN that comes back for one is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::key::{Key, SPACES};

/// Positions kept at a time.
pub const CURSORS_MAX: usize = 8192;

/// The positions.
#[derive(Default)]
pub struct Cursors {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number, and so by age.
    positions: BTreeMap<u64, Position>,
    last: u64,
    /// Where RANDOMKEY goes on in each key space.
    random: [Option<Key>; SPACES as usize],
}

struct Position {
    after: Key,
    /// The cursor from which this one was reached.
    before: u64,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key after which a SCAN goes on.
    pub fn position(&self, cursor: u64) -> Option<Key> {
        self.lock().positions.get(&cursor).map(|position| position.after.clone())
    }

    /// A cursor for the position after `after`, reached from the cursor `before`.
    pub fn next(&self, before: u64, after: Key) -> u64 {
        let mut state = self.lock();
        self.forget_before(&mut state, before);
        state.last += 1;
        let cursor = state.last;
        state.positions.insert(cursor, Position { after, before });
        while state.positions.len() > CURSORS_MAX {
            state.positions.pop_first();
        }
        cursor
    }

    /// A SCAN that asked for `before` has come to its end.
    pub fn end(&self, before: u64) {
        let mut state = self.lock();
        self.forget_before(&mut state, before);
    }

    /// Only one step back can be repeated.
    fn forget_before(&self, state: &mut State, cursor: u64) {
        let older = state.positions.get(&cursor).map(|position| position.before);
        if let Some(older) = older {
            state.positions.remove(&older);
        }
    }

    /// Positions kept now.
    pub fn len(&self) -> usize {
        self.lock().positions.len()
    }

    /// Whether no position is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where RANDOMKEY goes on in `space`.
    pub fn random(&self, space: u8) -> Option<Key> {
        self.lock().random[usize::from(space)].clone()
    }

    /// Where RANDOMKEY is to go on in `space`.
    pub fn set_random(&self, space: u8, after: Option<Key>) {
        self.lock().random[usize::from(space)] = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_scan_keeps_two_positions_and_may_repeat_a_step() {
        let cursors = Cursors::default();
        let mut before = 0;
        for n in 0..100_u64 {
            before = cursors.next(before, Key::new(0, &n.to_be_bytes()));
            assert!(cursors.len() <= 2);
        }
        let again = cursors.next(before, Key::new(0, b"x"));
        let twice = cursors.next(before, Key::new(0, b"x"));
        assert_eq!(cursors.position(again), cursors.position(twice));
        assert!(cursors.position(before - 1).is_none());
    }

    #[test]
    fn the_oldest_go() {
        let cursors = Cursors::default();
        let first = cursors.next(0, Key::new(0, b"first"));
        for _ in 0..CURSORS_MAX {
            cursors.next(0, Key::new(0, b"other"));
        }
        assert_eq!(cursors.len(), CURSORS_MAX);
        assert!(cursors.position(first).is_none());
    }
}
