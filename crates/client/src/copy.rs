//! A copy of a document: what is known of one key, and for how long that is worth using.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay::lease::ReadGap;
use forebay::value::Value;
use forebay::version::Version;

use crate::mutation::{Fault, on};

/// Bytes of a copy beside key, document and [`Copy`]: the engine's entry, and counts of references.
const ENTRY_BYTES: usize = 96;

/// What is known of one key.
#[derive(Debug)]
pub struct Copy {
    /// The document; `None`: there is none, or only the version is known.
    pub value: Option<Value>,
    /// Its version, or that of its absence.
    pub version: Version,
    /// Whether there is a document.
    pub present: bool,
    /// All up to it was published before the document was read, and nothing will be published at or below it.
    pub as_of: Option<Version>,
    /// Before the request was sent that brought this.
    pub asked: Instant,
    /// From then on it is absent.
    pub expires: Option<Instant>,
    /// After its answer came.
    pub(crate) learned: Instant,
    /// Until then it is worth using.
    pub(crate) until: Instant,
    /// Writes of its document in a second, as the server counts them.
    pub(crate) writes: f64,
    /// How it is used.
    pub(crate) used: Mutex<Used>,
}

/// How a copy is used, over all copies of its document one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// The time between its reads.
    pub(crate) gap: ReadGap,
    /// Reads that it served since the server was told.
    pub(crate) hits: u64,
}

/// When a request was sent, and when its answer came.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Before the request was sent.
    pub asked: Instant,
    /// After the answer came.
    pub learned: Instant,
}

/// How old a copy may be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The present moment.
    pub now: Instant,
    /// What was asked for before is too old.
    pub since: Option<Instant>,
}

impl Copy {
    /// How it is used.
    pub(crate) fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is newer is greater.
    pub(crate) fn order(&self) -> (Version, bool, Option<Version>, Instant) {
        (self.version, !self.present, self.as_of, self.asked)
    }

    /// Whether it is newer than `known`.
    pub(crate) fn supersedes(&self, known: &Copy) -> bool {
        self.follows(known) || self.order() > known.order() || on(Fault::LateAnswerKept)
    }

    /// Whether it tells of the document that `other` tells of.
    pub fn is_of(&self, other: &Copy) -> bool {
        (self.version, self.present) == (other.version, other.present)
    }

    /// Whether it was asked for after `known` was there.
    pub fn follows(&self, known: &Copy) -> bool {
        self.asked >= known.learned
    }

    /// This document as of what `later` says, which tells of another.
    pub fn as_of_answer(&self, later: &Copy) -> Arc<Copy> {
        let (value, version, present, expires) = (self.value.clone(), self.version, self.present, self.expires);
        let Copy { as_of, asked, learned, until, writes, .. } = *later;
        let used = Mutex::new(*self.used());
        Arc::new(Copy { value, version, present, as_of, asked, expires, learned, until, writes, used })
    }

    /// Whether its document is there at `now`, as far as it is known.
    pub fn lives(&self, now: Instant) -> bool {
        self.expires.is_none_or(|at| now < at)
    }

    /// Bytes that it takes beside its key.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Copy>() + ENTRY_BYTES + self.value.as_ref().map_or(0, Value::size)
    }
}
