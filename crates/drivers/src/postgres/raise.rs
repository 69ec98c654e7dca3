//! How a database gets its owner.

use tokio_postgres::{Client, Error};

use super::sql::RAISE;
use crate::sql::owners::Own;

/// Makes `own` the owner, in an incarnation above `above`; none if the present one is not `only_from`.
pub(super) async fn raise(
    own: &Own,
    client: &Client,
    above: u64,
    only_from: Option<u64>,
) -> Result<Option<u64>, Error> {
    let (above, only_from) = (above as i64, only_from.map(|incarnation| incarnation as i64));
    let row = client.query_opt(RAISE, &[&above, &own.owner, &own.run, &own.journal, &only_from]).await?;
    row.map(|row| Ok(row.try_get::<_, i64>(0)? as u64)).transpose()
}
