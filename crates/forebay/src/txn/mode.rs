//! How a key is locked, and what may be held beside it.

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Others may read too.
    Shared,
    /// Others may read, none may write or mean to.
    Update,
    /// None else.
    Exclusive,
}

impl Mode {
    /// Whether two that are not one may hold a key so.
    pub(super) fn compatible(self, other: Mode) -> bool {
        use Mode::{Shared, Update};
        matches!((self, other), (Shared, Shared | Update) | (Update, Shared))
    }
}
