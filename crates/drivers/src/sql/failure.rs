//! Why a commit was not made, and what that is for the transaction above. The one rule that must never bend:
//! [`Failure::Unavailable`], [`Failure::Failed`], [`Failure::Conflict`] and [`Failure::Refused`] mean *surely not
//! applied*.

use forebay::store::{Commit, CommitOutcome};
use forebay::{Key, Read, TxnId};

use super::ids;

/// What became of a commit that was answered with an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Its id is in the table already.
    Repeated,
    /// Versions were overtaken, by their places in the list of checks, from 0.
    Overtaken(Vec<usize>),
    /// A row that was read as absent is there.
    Conflict(String),
    /// The server gave it up for another transaction, or a trigger says so; to run it again may succeed.
    InTheWay(String),
    /// Never to be applied as it is.
    Refused(String),
    /// Not applied: the server is there, and fails at this one .
    Failed(String),
    /// The server can't now.
    Unavailable(String),
    /// Not applied, nor will be anything else of ours: another owner has the database.
    NotOwned(String),
    /// Perhaps applied.
    Unknown(String),
}

impl Failure {
    /// Whether the connection is still good.
    pub(crate) fn spares_connection(&self) -> bool {
        !matches!(self, Failure::Unknown(_) | Failure::Unavailable(_) | Failure::Failed(_) | Failure::NotOwned(_))
    }
}

impl Failure {
    /// What is told of it.
    pub(crate) fn why(self) -> String {
        match self {
            Failure::Conflict(why)
            | Failure::InTheWay(why)
            | Failure::Refused(why)
            | Failure::Failed(why)
            | Failure::Unavailable(why)
            | Failure::NotOwned(why)
            | Failure::Unknown(why) => why,
            Failure::Repeated => "its id is in the table already".into(),
            Failure::Overtaken(_) => "what it has read was written since".into(),
        }
    }
}

/// What became of the documents that one commit wrote, where it is not as computed.
pub(crate) type Changed = Vec<(Key, Read)>;

/// Why a group was not committed as one.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// Which of its commits is in the way, if that is known.
    pub(crate) member: Option<usize>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed { failure, member: None }
    }
}

impl Failed {
    /// A failure of checks. The checks of all commits stand in one list: `places` has the commit of each, and its place
    /// in that commit.
    pub(crate) fn at_check(failure: Failure, places: &[(usize, usize)]) -> Failed {
        let Failure::Overtaken(overtaken) = failure else { return failure.into() };
        let of = |at: usize| places.get(at).copied();
        let member = overtaken.iter().filter_map(|at| of(*at)).map(|(member, _)| member).min();
        let own = overtaken.into_iter().filter_map(of).filter(|(of, _)| Some(*of) == member);
        Failed { failure: Failure::Overtaken(own.map(|(_, place)| place).collect()), member }
    }
}

/// What a failure means for the only commit that it is about.
pub(crate) fn outcome_of(commit: &Commit, failure: Failure) -> CommitOutcome {
    match failure {
        Failure::Overtaken(places) => {
            let keys = places.into_iter().filter_map(|at| commit.checks.get(at));
            CommitOutcome::Conflict(keys.map(|(key, _)| key.clone()).collect())
        }
        Failure::Conflict(why) => {
            tracing::debug!(id = %commit.id, %why, "a row came to be since it was read as absent");
            CommitOutcome::Conflict(written(commit))
        }
        Failure::InTheWay(why) => {
            tracing::debug!(id = %commit.id, %why, "the database gave up a transaction for another");
            CommitOutcome::Conflict(Vec::new())
        }
        Failure::Refused(why) => CommitOutcome::Refused(why),
        Failure::Unavailable(why) | Failure::NotOwned(why) => CommitOutcome::Unavailable(why),
        Failure::Failed(why) => CommitOutcome::Failed(why),
        Failure::Unknown(why) => CommitOutcome::Unknown(why),
        Failure::Repeated => CommitOutcome::Refused(denied(commit.id)),
    }
}

pub(crate) fn written(commit: &Commit) -> Vec<Key> {
    commit.writes.iter().map(|write| write.key.clone()).collect()
}

pub(crate) fn denied(id: TxnId) -> String {
    format!("commit {id} was reported as not applied; run the transaction again under a new id")
}

pub(crate) fn below_floor(id: TxnId) -> String {
    let remembered = ids::APPLIED_IDS_MAX;
    format!("commit {id} is older than the last {remembered}, so whether it was applied is no longer known")
}
