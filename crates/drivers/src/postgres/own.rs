//! As whom a database is opened.

use tokio_postgres::{Client, Error};

use super::sql::RAISE;

/// As whom this process has opened the database.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// The journal's, or the run's where there is no journal.
    pub(super) owner: String,
    /// This opening: drawn for it, never used again.
    pub(super) run: String,
    /// What it acknowledges may lie in a journal of its own.
    pub(super) journal: bool,
}

impl Own {
    /// Makes us the owner, in an incarnation above `above`; none if the present one is not `only_from`.
    pub(super) async fn raise(
        &self,
        client: &Client,
        above: u64,
        only_from: Option<u64>,
    ) -> Result<Option<u64>, Error> {
        let (above, only_from) = (above as i64, only_from.map(|incarnation| incarnation as i64));
        let row = client.query_opt(RAISE, &[&above, &self.owner, &self.run, &self.journal, &only_from]).await?;
        row.map(|row| Ok(row.try_get::<_, i64>(0)? as u64)).transpose()
    }
}
