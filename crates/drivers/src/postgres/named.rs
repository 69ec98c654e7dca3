//! Documents beside rows, as a condition on the table that forebay owns.

use tokio_postgres::types::ToSql;

use crate::sql::keys::Named;

/// The condition that a document of that table has to meet, where `$at` and the next parameter are [`parameters`].
pub(super) fn condition(at: usize) -> String {
    format!("(space <> 0 OR name LIKE ANY (${at}::bytea[]) AND NOT name LIKE ANY (${}::bytea[]))", at + 1)
}

/// The parameters of [`condition`].
pub(super) fn parameters(named: &Named) -> [&(dyn ToSql + Sync); 2] {
    [named.like(), named.unlike()]
}
