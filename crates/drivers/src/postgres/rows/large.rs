//! A group with large rows: one transaction as any other, but of several messages.
//!
//! What is sent as one message is in memory several times: the statements, the message, and the connection's buffer. So
//! here one statement is made, sent and answered after the other, and each has few large rows.

use forebay::store::{Commit, Write};
use tokio_postgres::{Error, SimpleQueryMessage, SimpleQueryRow};

use super::absent::Absent;
use super::batch::Batch;
use super::mapped::Rows;
use crate::postgres::documents::{roll_back, unsent};
use crate::postgres::session::Session;
use crate::postgres::watch::Watch;
use crate::sql::failure::Failure;
use crate::sql::failure::{Changed, Failed};
use crate::sql::identity::Identity;

impl Rows {
    /// Commits `batch` in an open transaction, statement by statement: one of its large rows is on its way at a time.
    pub(super) async fn commit_large(
        &self,
        session: &Session,
        seen: (&Identity, &Watch),
        group: &[Commit],
        (batch, changed): (&Batch<'_>, &mut [Changed]),
    ) -> Result<(), Failed> {
        let refused = |why: String| Failed::from(Failure::Refused(why));
        let unsent = |error: Error| Failed::at_check(unsent(self.failure(&error)), &batch.checks);
        let done = async {
            session.client.batch_execute("BEGIN").await.map_err(unsent)?;
            for statement in batch.statements(self, group).map_err(refused)? {
                let answer = session.client.simple_query(&statement.map_err(refused)?).await.map_err(unsent)?;
                for row in answer.iter().filter_map(row_in) {
                    self.take(row, batch, seen, changed);
                }
            }
            Ok(())
        };
        if let Err(failed) = done.await {
            return Err(roll_back(session, failed).await);
        }
        let committed = session.client.batch_execute("COMMIT").await;
        committed.map_err(|error| Failed::at_check(self.failure(&error), &batch.checks))
    }
}

impl Rows {
    /// The statements that one write comes to.
    pub(super) fn changes_of<'a>(&self, write: &'a Write, absent: &mut Absent<'a>) -> Vec<Result<String, String>> {
        let mut made = || {
            let place = self.place(&write.key)?;
            let table = &self.tables[place.table];
            let statements = absent.narrowed(table, &place.parts, table.write(&place.parts, write)?);
            Ok::<_, String>(statements.iter().map(|(shape, values)| table.for_one(shape, values)).collect())
        };
        made().unwrap_or_else(|why| vec![Err(why)])
    }
}

/// The row that a message is, if it is one.
pub(super) fn row_in(message: &SimpleQueryMessage) -> Option<&SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}
