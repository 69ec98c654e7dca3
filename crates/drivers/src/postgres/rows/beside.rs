//! Rows that are written by the same transaction as documents of forebay's own table.

use forebay::store::Commit;
use tokio_postgres::{Error, SimpleQueryMessage};

use super::batch::Batch;
use super::large::row_in;
use super::mapped::Rows;
use crate::postgres::watch::Watch;
use crate::sql::failure::Failure;
use crate::sql::failure::{Changed, Failed};
use crate::sql::identity::Identity;

/// What the commits of a group do to rows.
pub(in crate::postgres) struct Beside<'a> {
    rows: &'a Rows,
    group: &'a [Commit],
    batch: Batch<'a>,
}

impl Rows {
    /// What `group`, which has rows alone, does in a transaction whose ids are entered.
    pub(in crate::postgres) fn of_group<'a>(&'a self, group: &'a [Commit]) -> Result<Beside<'a>, Failed> {
        let batch = Batch { entered: true, ..self.batch(group)? };
        Ok(Beside { rows: self, group, batch })
    }
}

impl Beside<'_> {
    /// Whether its statements go one after the other.
    pub(in crate::postgres) fn is_large(&self) -> bool {
        self.batch.large
    }

    /// All of it as one message.
    pub(in crate::postgres) fn text(&self) -> Result<String, Failed> {
        self.batch.text(self.rows, self.group).map_err(refused)
    }

    /// Its statements.
    pub(in crate::postgres) fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<String, Failed>> + Send + '_, Failed> {
        let statements = self.batch.statements(self.rows, self.group).map_err(refused)?;
        Ok(statements.map(|statement| statement.map_err(refused)))
    }

    /// What an error says that it was answered with, as the commits of its group have their checks.
    pub(in crate::postgres) fn failed(&self, error: &Error) -> Failed {
        self.at_check(self.rows.failure(error))
    }

    /// As [`Beside::failed`], where it is known what the error means.
    pub(in crate::postgres) fn at_check(&self, failure: Failure) -> Failed {
        Failed::at_check(failure, &self.batch.checks)
    }

    /// What an error of its rows means.
    pub(in crate::postgres) fn failure(&self, error: &Error) -> Failure {
        self.rows.failure(error)
    }

    /// Takes an answer.
    pub(in crate::postgres) fn take(
        &self,
        answer: &[SimpleQueryMessage],
        seen: (&Identity, &Watch),
        changed: &mut [Changed],
    ) {
        for row in answer.iter().filter_map(row_in) {
            self.rows.take(row, &self.batch, seen, changed);
        }
    }

    /// All is answered.
    pub(in crate::postgres) fn end(&self, changed: &mut [Changed]) {
        self.batch.tell_earlier(changed);
    }
}

fn refused(why: String) -> Failed {
    Failure::Refused(why).into()
}
