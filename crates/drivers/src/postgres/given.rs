//! Ids that clients gave their transactions, kept beside what these have written: the last ten minutes of them.

use forebay::store::{Commit, GIVEN_IDS_KEPT, GivenId};
use forebay::{Blob, Version};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::get_error::GetError;
use super::session::Session;
use crate::sql::ids;
use crate::sql::text::hex;

/// Notes the ids of a group in its transaction.
const NOTE: &str = "\
INSERT INTO forebay.given (owner, given, version)
    SELECT DISTINCT ON (owner, given) owner, given, version
    FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS k(owner, given, version) ORDER BY owner, given, version DESC
    ON CONFLICT (owner, given) DO UPDATE SET version = excluded.version, at = excluded.at";

const ALL: &str = "SELECT owner, given, version FROM forebay.given ORDER BY at DESC LIMIT $1::bigint";

/// Run now and then.
pub(super) const FORGET: &str = "DELETE FROM forebay.given WHERE at < now() - interval '10 minutes'";

/// Whether a commit of `group` has one.
pub(super) fn any(group: &[Commit]) -> bool {
    group.iter().any(|commit| !commit.given.is_empty())
}

/// The ids of a group, as arrays.
#[derive(Default)]
struct Arrays {
    owners: Vec<Vec<u8>>,
    ids: Vec<Vec<u8>>,
    versions: Vec<Vec<u8>>,
}

impl Arrays {
    fn of(group: &[Commit]) -> Arrays {
        let mut arrays = Arrays::default();
        for commit in group {
            for given in &commit.given {
                arrays.owners.push(given.user.to_vec());
                arrays.ids.push(given.id.to_be_bytes().to_vec());
                arrays.versions.push(commit.version.to_bytes().to_vec());
            }
        }
        arrays
    }
}

/// Notes the ids of `group`, if it has any.
pub(super) async fn note(session: &Session, group: &[Commit]) -> Result<(), Error> {
    if !any(group) {
        return Ok(());
    }
    let Arrays { owners, ids, versions } = Arrays::of(group);
    let parameters: [&(dyn ToSql + Sync); 3] = [&owners, &ids, &versions];
    session.client.execute(NOTE, &parameters).await.map(|_| ())
}

/// The same as one text without parameters; none if there is nothing to note.
pub(super) fn statement(group: &[Commit]) -> Option<String> {
    let Arrays { owners, ids, versions } = Arrays::of(group);
    let array = |values: &[Vec<u8>]| {
        let values: Vec<String> = values.iter().map(|value| format!("'{}'", hex(value))).collect();
        format!("ARRAY[{}]", values.join(", "))
    };
    let filled = || NOTE.replace("$1", &array(&owners)).replace("$2", &array(&ids)).replace("$3", &array(&versions));
    (!owners.is_empty()).then(filled)
}

/// All that are remembered, oldest first, the newest if they are many.
pub(super) async fn all(session: &Session) -> Result<Vec<(GivenId, Version)>, GetError> {
    let rows = session.client.query(ALL, &[&(GIVEN_IDS_KEPT as i64)]).await?;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        let (owner, id, version): (&[u8], &[u8], &[u8]) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        // What another program put there in another form is none of ours.
        if let (Ok(id), Some(version)) = (id.try_into(), ids::version(version)) {
            all.push((GivenId { user: Blob::from(owner), id: u128::from_be_bytes(id) }, version));
        }
    }
    Ok(all)
}
