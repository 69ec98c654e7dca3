//! What is shown of a document that transactions wait for, and what that was computed from.

use std::fmt;

use super::{Row, changed, stands_alone};
use crate::change::Change;
use crate::mutation::{self, Fault};
use crate::outage::fingerprint::Fingerprint;
use crate::outage::lanes::Fill;
use crate::store::Write;
use crate::value::Value;
use crate::version::Version;

/// A document as it was shown.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// What is kept of it anyway: it is hashed for what has read it, not for each change of a large one.
    Document(Option<Value>),
    /// It is not known any more.
    Gone(Fingerprint),
}

/// What is shown of a document, and what it was computed from.
#[derive(Clone, Default)]
pub(super) struct Image {
    /// Under which version it is shown, or was last, with all that waits for it, be it in the journal or not.
    pub(super) shown: Option<(Version, Shown)>,
    /// The version in the store of what the first of the queue is made to, where all of the image is built on that.
    pub(super) base: Option<Version>,
    /// What was the base until the store said that it has some of the queue: what is on its way was checked to be made
    /// to that.
    pub(super) before: Option<Version>,
    /// A version in the store of which is known that the document was not there. The store has another one each time.
    pub(super) absent: Option<Version>,
    /// Others may have changed the document since: with which suspicion that was said last.
    pub(super) suspected: Option<u64>,
    /// The suspicions of which was known when the store was asked for it last.
    pub(super) learned: u64,
    /// When it answered last, as the buffer counts suspicions.
    pub(super) answered: u64,
    /// The version in the store of what the first of the queue was made to, whatever was learned of the document since.
    /// Only a comparison asks for it; none where that is not known, or is not so any more by our own hand.
    pub(super) made_to: Option<Version>,
    /// What is latest lacks what the store fills by itself of a row that it makes, or has what the store has computed
    /// from what is overwritten: only the store knows it.
    pub(super) guessed: bool,
}

impl Image {
    /// Whether the latest is a guess. No client is shown a guess.
    pub(super) fn is_guessed(&self) -> bool {
        self.guessed && !mutation::on(Fault::DefaultsGuessed)
    }

    /// The version in the store of what the first of the queue is made to, if it is on its way.
    pub(super) fn made_on_the_way(&self) -> Option<Version> {
        let before = self.before.filter(|_| !mutation::on(Fault::AskedOnTheWayDoubted));
        self.base.or(before)
    }
}

/// Without what only counts: two that differ in that behave alike.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absent = self.base.is_some() && self.base == self.absent;
        let made_to = self.made_on_the_way();
        write!(f, "{:?} {:?} {made_to:?} {absent} {} {}", self.shown, self.base, self.suspected.is_some(), self.guessed)
    }
}

impl Shown {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        match self {
            Shown::Document(value) => Fingerprint::of(value.as_ref()),
            Shown::Gone(fingerprint) => *fingerprint,
        }
    }
}

/// Whether `after`, which `changes` have made, is a guess. `before`: whether a row was there, and that was a guess.
/// `fill`: what these leave to the store.
pub(super) fn is_guess(before: (bool, bool), changes: &[Change], fill: Option<&Fill>, after: Option<&Value>) -> bool {
    match before {
        (true, guessed) if !stands_alone(changes) => guessed || is_recomputed(fill, after),
        _ => fill.is_some_and(|fill| fill.added || fill.left.are_missed(after)),
    }
}

/// Likewise of `after`, which its transaction knew: it had seen what was there before.
pub(super) fn is_guess_made(fill: Option<&Fill>, after: Option<&Value>) -> bool {
    fill.is_some_and(|fill| fill.made && fill.left.are_missed(after)) || is_recomputed(fill, after)
}

/// Whether the store computes columns of `after` from what was written.
fn is_recomputed(fill: Option<&Fill>, after: Option<&Value>) -> bool {
    after.is_some() && fill.is_some_and(|fill| !fill.recomputed.is_empty())
}

impl Row {
    /// What is latest with `write`, which leaves `fill` to the store.
    pub(super) fn take_in(&mut self, write: &Write, fill: Option<&Fill>) {
        let before = (matches!(self.latest, Some(Some(_))), self.image.guessed);
        self.latest = match (self.given_up, write.unseen) {
            (true, _) => None,
            (false, false) => Some(write.after.clone().map(Value::compact)),
            // It has become known since its transaction looked.
            (false, true) => self.latest.take().and_then(|value| changed(value, &write.changes)),
        };
        let after = self.latest.as_ref().and_then(Option::as_ref);
        self.image.guessed = match write.unseen {
            false => is_guess_made(fill, after) || (before.1 && !stands_alone(&write.changes)),
            true => is_guess(before, &write.changes, fill, after),
        };
    }

    /// What is shown is the latest; nothing where that is not known.
    pub(super) fn show_latest(&mut self) {
        self.image.shown = self.latest.clone().map(|value| (self.version, Shown::Document(value)));
    }

    /// What was the first of its queue is applied: the store has it like this, under this version.
    pub(super) fn left_as(&mut self, stored: Option<Option<Value>>, version: Option<Version>) {
        self.image.absent = version.filter(|_| stored == Some(None));
        (self.stored, self.image.base, self.image.made_to) = (stored, version, version);
        self.image.before = None;
    }

    /// The latest is not known any more. Of what was shown enough is kept to know it again.
    pub(super) fn forget_latest(&mut self) {
        (self.latest, self.image.guessed) = (None, false);
        if let Some((_, shown)) = &mut self.image.shown {
            *shown = Shown::Gone(shown.fingerprint());
        }
    }
}
