//! Lists, and changes of them.

use serde::Serialize;

/// What kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// A member's friends.
    Friends,
    /// Who waits for a member's answer.
    Pending,
    /// Comments on a resource.
    Comments,
}

/// A list: of which kind, of which member or resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Member or resource.
    pub id: u32,
}

/// A change of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Which list.
    pub object: Object,
    /// What was added or removed.
    pub element: u32,
    /// Whether it was added.
    pub added: bool,
    /// When it was sent, in ns on the run's clock.
    pub start_ns: u64,
    /// When it was acknowledged; `u64::MAX` if nobody knows whether it took effect.
    pub end_ns: u64,
}
