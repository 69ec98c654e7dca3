//! The answer to "what is there?": a document or its absence, with the version of either.

pub(crate) mod record;
pub(crate) mod short;

use crate::value::Value;
use crate::version::Version;

/// What a store holds for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The document, or absent. An expired document is still reported; whoever reads it looks at the clock.
    pub value: Option<Value>,
    /// The version of the document, or of its absence.
    pub version: Version,
}
