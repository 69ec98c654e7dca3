//! From the journal's answer to what a client is told.

use super::Inner;
use crate::error::Unavailable;
use crate::mutation::{self, Fault};
use crate::outage::journal::AppendError;
use crate::outage::pending::Merged;
use crate::outage::record::Record;
use crate::outage::state::State;
use crate::read::Read;
use crate::store::{Buffering, Commit, CommitOutcome, Write};

/// What has become of a transaction that the journal was told of.
pub(super) struct Kept {
    pub(super) number: u64,
    /// The store was sent it before, and may have it.
    pub(super) sent: bool,
    /// The journal was told to forget it, and has.
    pub(super) taken_back: bool,
    pub(super) appended: Result<(), AppendError>,
}

impl Inner {
    /// Another owner has taken the store while the journal was told: has it forget that, before anybody hears of it.
    /// Then nothing is left that an operator could have applied, and the client may be told so. Answers what is
    /// forgotten; what has taken the place of something that was acknowledged stays.
    pub(super) async fn take_back(&self, kept: impl Iterator<Item = (u64, &Result<(), AppendError>)>) -> Vec<u64> {
        let (numbers, noted) = {
            let state = self.state();
            let free = kept.filter(|(number, appended)| appended.is_ok() && !state.buffer.replaces(*number));
            let numbers: Vec<u64> = free.map(|(number, _)| number).collect();
            if numbers.is_empty() || mutation::on(Fault::RefusedStaysKept) {
                return numbers;
            }
            let noted = self.note(&Record::Applied(numbers.clone()));
            (numbers, noted)
        };
        let noted = match noted.await {
            Ok(()) => self.journal.flush().await,
            Err(error) => Err(error),
        };
        if noted.is_ok() { numbers } else { Vec::new() }
    }

    /// What its client is told of `commit`, where another owner has the store if it is `fenced`.
    pub(super) fn kept(
        &self,
        state: &mut State,
        commit: &Commit,
        kept: Kept,
        fenced: Option<&Unavailable>,
    ) -> CommitOutcome {
        let Kept { number, sent, taken_back, appended } = kept;
        match appended {
            Ok(()) if taken_back => {
                state.buffer.withdraw(number);
                let why = fenced.map(|Unavailable(why)| why.clone()).unwrap_or_default();
                if sent { CommitOutcome::Unknown(why) } else { CommitOutcome::Unavailable(why) }
            }
            Ok(()) => {
                if let Some(old) = state.buffer.written(number, &commit.writes) {
                    state.tickets.merged(old, number);
                    state.counts.merged += 1;
                }
                state.counts.buffered += 1;
                // It is in the journal, so an operator may yet have it applied.
                if let Some(Unavailable(why)) = fenced {
                    return CommitOutcome::Unknown(why.clone());
                }
                // Unless it was computed with what has been given up, or what others may have changed, or another
                // document may have made its row.
                let left = state.buffer.left_by(commit.version);
                let known = |write: &Write| match state.buffer.merged(&write.key) {
                    Merged::Known(Read { value: None, .. }) if self.made_beside(state, &write.key) => None,
                    Merged::Known(_)
                        if state.buffer.is_suspect(&write.key) && !mutation::on(Fault::OldCopyBelieved) =>
                    {
                        None
                    }
                    Merged::Known(read) if read.version == left => Some((write.key.clone(), read)),
                    _ => None,
                };
                let reads = commit.writes.iter().filter_map(known).collect();
                CommitOutcome::Buffered(Buffering { ticket: number, reads })
            }
            Err(error) => {
                state.buffer.withdraw(number);
                let why = error.to_string();
                if !matches!(error, AppendError::Full { .. } | AppendError::NoSpace { .. }) {
                    tracing::error!(id = %commit.id, why, "a write could not be buffered");
                }
                match error {
                    AppendError::Unknown { .. } => CommitOutcome::Unknown(why),
                    _ if sent => CommitOutcome::Unknown(why),
                    AppendError::Full { .. } | AppendError::NoSpace { .. } => CommitOutcome::Full(why),
                    AppendError::TooLarge { .. } => CommitOutcome::Refused(why),
                    _ => CommitOutcome::Unavailable(why),
                }
            }
        }
    }
}
