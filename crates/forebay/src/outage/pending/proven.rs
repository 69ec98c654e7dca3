//! Which writes are made to what the journal says, whenever they were sent and applied.
//!
//! The answer to a transaction may be lost, and the process may end before it comes. The next start sends it again.
//! The store says that it has it already, and whether another program has written its rows since. It does not say
//! what the transaction was applied to. A transaction that was shown what came of it depends on that. The store may
//! have made more of the row than was asked (a default, a trigger). Then no comparison tells that from another
//! program's write.
//!
//! **Invariant.** For a write that changes what was there, the journal has the document behind it, and the version of
//! what it is made to ([`Buffered::known`]). Each sending has that version checked. A sending that has not is noted
//! before, safe on disk ([`Record::Unchecked`](crate::outage::record::Record::Unchecked)). So a start takes what it
//! finds as checked: what was applied, was applied to that. Where the journal has no such version, the start takes
//! nothing as checked, and readers are compared.
//!
//! An ordinary sending is not noted, and costs nothing. Two kinds are: a write to what another program has changed
//! before, and one that is known late to be the first of its document.

use super::by_key::ByKey;
use super::seen::is_edition;
use super::stands_alone;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::record::{Buffered, Written};
use crate::version::Version;

/// Of one transaction, which of its writes were checked each time it was sent: to be what they were shown to be made
/// to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proven {
    /// By their places, of the first that a mask has room for; none if it was not sent.
    checked: Option<u64>,
    /// It has waited for a note.
    held_up: bool,
}

impl Proven {
    /// Of a transaction that comes in, which may have been sent by its own.
    pub(super) fn new(buffered: &Buffered) -> Proven {
        let checked = buffered.sent.then(|| checked_of(&buffered.writes, &buffered.checks));
        Proven { checked, held_up: false }
    }

    /// Of one that the journal brings back, which may have been sent since.
    pub(super) fn again(buffered: &Buffered) -> Proven {
        if buffered.unchecked || mutation::on(Fault::ProvenForgotten) {
            return Proven { checked: Some(0), held_up: false };
        }
        let known = ByKey::new(&buffered.known);
        let based = |written: &Written| known.get(&written.key).is_some_and(|(_, read)| !is_edition(read.version));
        let checked = if buffered.sent { checked_of(&buffered.writes, &buffered.checks) } else { u64::MAX };
        Proven { checked: Some(checked & mask_of(&buffered.writes, based)), held_up: false }
    }

    /// It was sent with these checks.
    pub(super) fn sent(&mut self, writes: &[Written], checks: &[(Key, Version)]) {
        self.checked = Some(self.checked.unwrap_or(u64::MAX) & checked_of(writes, checks));
    }

    /// It waits for a note. Whether it is the first time.
    pub(super) fn is_held_up(&mut self) -> bool {
        !std::mem::replace(&mut self.held_up, true)
    }

    /// Whether its write at this place was checked each time.
    pub(super) fn is_checked(self, place: usize) -> bool {
        self.checked.unwrap_or_default().checked_shr(place as u32).unwrap_or_default() & 1 == 1
    }
}

/// Whether the journal has to be told before `buffered` is sent with no other checks than these.
pub(super) fn is_to_be_noted(buffered: &Buffered, checks: &[(Key, Version)]) -> bool {
    if buffered.unchecked || buffered.known.is_empty() {
        return false;
    }
    let (known, checks) = (ByKey::new(&buffered.known), ByKey::new(checks));
    let differs = |written: &&Written| {
        let base = known.get(&written.key).map(|(_, read)| read.version).filter(|base| !is_edition(*base));
        base.is_some_and(|base| checks.get(&written.key).is_none_or(|(_, version)| *version != base))
    };
    buffered.writes.iter().filter(|written| !stands_alone(&written.changes)).any(|written| differs(&written))
}

/// Those of `writes` that are about documents with one of `checks`.
fn checked_of(writes: &[Written], checks: &[(Key, Version)]) -> u64 {
    let checks = ByKey::new(checks);
    mask_of(writes, |written| checks.has(&written.key))
}

/// Those of `writes` of which that `is` so, by their places.
fn mask_of(writes: &[Written], is: impl Fn(&Written) -> bool) -> u64 {
    let places = writes.iter().take(u64::BITS as usize).enumerate();
    places.fold(0, |mask, (place, written)| mask | u64::from(is(written)) << place)
}
