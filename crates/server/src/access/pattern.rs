//! A pattern of keys of a rule: read once, when the rule is taken, and compared with each key of each request.

use std::fmt;
use std::sync::Arc;

use crate::glob::Glob;

/// A pattern of keys. Two are equal if their texts are.
#[derive(Clone)]
pub struct Pattern {
    text: Box<[u8]>,
    glob: Arc<Glob>,
}

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &[u8]) -> Pattern {
        Pattern { text: text.into(), glob: Arc::new(Glob::in_one_pass(text)) }
    }

    /// As it was given.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Steps that one byte of a key takes at most.
    pub fn work_per_byte(&self) -> usize {
        self.glob.work_per_byte()
    }

    /// Whether a key matches.
    pub fn matches(&self, key: &[u8]) -> bool {
        self.glob.matches(key, &mut 0)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.escape_ascii().fmt(out)
    }
}
