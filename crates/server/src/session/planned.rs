//! The locks that commands need.

#[cfg(feature = "lua")]
use std::ops::Range;

use forebay::key::KeyRef;
use forebay::txn::{Mode, PlannedLock};
#[cfg(feature = "lua")]
use forebay_protocol::{Frame, Reply, decoder::parse_integer, errors};

use crate::command::{Command, Effect};

/// How a key is locked and loaded for a command that has `effect` on it.
pub fn planned(key: KeyRef<'_>, effect: Effect) -> PlannedLock {
    let mode = if effect == Effect::Read { Mode::Shared } else { Mode::Exclusive };
    PlannedLock { key: key.to_key(), mode, load: effect != Effect::Blind }
}

/// How a key is locked that a script has declared: it may write there, and others may read until it has.
pub fn for_script(command: &Command, key: KeyRef<'_>) -> PlannedLock {
    let mode = if command.name.ends_with("_ro") { Mode::Shared } else { Mode::Update };
    PlannedLock { key: key.to_key(), mode, load: true }
}

/// Which arguments of EVAL and its kind are keys.
#[cfg(feature = "lua")]
pub fn script_keys(frame: Frame<'_>) -> Result<Range<usize>, Reply> {
    let count = frame.get(2).and_then(parse_integer).ok_or(Reply::error(errors::NOT_AN_INTEGER))?;
    let count = usize::try_from(count).map_err(|_| Reply::error(errors::KEYS_NEGATIVE))?;
    match count <= frame.len() - 3 {
        true => Ok(3..3 + count),
        false => Err(Reply::error(errors::KEYS_TOO_MANY)),
    }
}

/// Locks in key order, each key once in its strongest mode: two plans never wait for each other in a circle.
pub fn in_order(mut locks: Vec<PlannedLock>) -> Vec<PlannedLock> {
    locks.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    locks.dedup_by(|next, kept| {
        let same = next.key == kept.key;
        if same {
            (kept.mode, kept.load) = (kept.mode.max(next.mode), kept.load || next.load);
        }
        same
    });
    locks
}
