//! What one transaction of the database came to.

use forebay::{Key, Read};

use super::classify::Failure;

/// What became of the documents that one commit wrote, where it is not as computed.
pub(super) type Changed = Vec<(Key, Read)>;

/// Why a group was not committed as one.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Which of its commits is in the way, if that is known.
    pub(super) member: Option<usize>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed { failure, member: None }
    }
}

impl Failed {
    /// A failure of checks that stand in one list for all commits: `places` says whose each is, and which of its own.
    pub(super) fn at_check(failure: Failure, places: &[(usize, usize)]) -> Failed {
        let Failure::Overtaken(overtaken) = failure else { return failure.into() };
        let of = |at: usize| places.get(at).copied();
        let member = overtaken.iter().filter_map(|at| of(*at)).map(|(member, _)| member).min();
        let own = overtaken.into_iter().filter_map(of).filter(|(of, _)| Some(*of) == member);
        Failed { failure: Failure::Overtaken(own.map(|(_, place)| place).collect()), member }
    }
}
