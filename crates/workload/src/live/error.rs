//! Why a run could not be made.

use thiserror::Error;

use super::ended::Failure;

/// Why a workload can't be loaded, run or checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No connection.
    #[error("can't reach {target}: {why}; is it running, and are address, user and password right?")]
    Unreachable {
        /// Where.
        target: String,
        /// What the system says.
        why: String,
    },
    /// It has let in as many as it lets in.
    #[error("{target} lets no more connections in: {why}; ask for fewer (--connections), or raise its limit, {limit}")]
    NoMoreConnections {
        /// Where.
        target: String,
        /// What it says.
        why: String,
        /// The name of its limit.
        limit: &'static str,
    },
    /// Parameters that make no sense.
    #[error("{0}")]
    Parameters(String),
    /// The target answers what the workload can't go on with.
    #[error("{doing}: {why}; {hint}")]
    Refused {
        /// What was tried.
        doing: String,
        /// The answer.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A part of the runner died.
    #[error("the run failed: {0}; please report this")]
    Died(String),
}

impl LiveError {
    /// The target's answer to `doing` is none to go on with.
    pub fn refused(doing: impl Into<String>, failure: &Failure, hint: impl Into<String>) -> LiveError {
        let hint = match failure.kind.as_str() {
            "NOAUTH" | "NOPERM" => "give --user NAME and --password-file FILE of a user who may do that".into(),
            _ => hint.into(),
        };
        LiveError::Refused { doing: doing.into(), why: failure.text.clone(), hint }
    }
}
