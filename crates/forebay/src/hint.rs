//! Hint sets: opaque categorical labels that clients attach to requests; their worth is learned (CLIC, section 2).

/// A hint set as policies know it: an index that the session's registry gave out, 0 for "no hints".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintSet(pub u32);
