//! The generic table: one row per document, its value in forebay's own encoding. Forebay owns it, so what a commit
//! computed under its locks is exact, and is what is written.

use std::collections::HashMap;

use forebay::store::{Commit, ReadError};
use forebay::value::codec::{decode_value, encode_value};
use forebay::{Key, Read, Version};
use tokio_postgres::Error;

use super::classify::{self, Failure};
use super::identity::Identity;
use super::ids;
use super::session::Session;
use super::sql::Prepared;

/// Reads `keys` in one round trip.
pub(super) async fn get(session: &Session, identity: &Identity, keys: &[Key]) -> Result<Vec<Read>, GetError> {
    let mut reads: Vec<Read> = keys.iter().map(|key| Read { value: None, version: identity.absence(key) }).collect();
    if let [key] = keys {
        let parameters = [&i16::from(key.space()) as &(dyn tokio_postgres::types::ToSql + Sync), &key.name()];
        let found = session.client.query_opt(session.statement(Prepared::GetOne), &parameters).await?;
        if let Some(row) = found {
            reads[0] = decode(key, row.try_get(0)?, row.try_get(1)?)?;
        }
        return Ok(reads);
    }
    let spaces: Vec<i16> = keys.iter().map(|key| i16::from(key.space())).collect();
    let names: Vec<&[u8]> = keys.iter().map(Key::name).collect();
    for row in session.client.query(session.statement(Prepared::Get), &[&spaces, &names]).await? {
        let at = row.try_get::<_, i64>(0)? as usize - 1;
        reads[at] = decode(&keys[at], row.try_get(1)?, row.try_get(2)?)?;
    }
    Ok(reads)
}

/// Why documents could not be read.
pub(super) enum GetError {
    Database(Error),
    Read(ReadError),
}

impl From<Error> for GetError {
    fn from(error: Error) -> GetError {
        GetError::Database(error)
    }
}

impl From<ReadError> for GetError {
    fn from(error: ReadError) -> GetError {
        GetError::Read(error)
    }
}

fn decode(key: &Key, version: &[u8], value: &[u8]) -> Result<Read, ReadError> {
    let damaged = |why: String| ReadError::Damaged { key: key.clone(), why };
    let version = ids::version(version).ok_or_else(|| damaged("its version has another length than 16".into()))?;
    let value = decode_value(value).map_err(|error| damaged(error.to_string()))?;
    Ok(Read { value: Some(value), version })
}

/// A group as the arrays of one statement.
#[derive(Default)]
struct Arrays<'a> {
    ids: Vec<Vec<u8>>,
    removed: (Vec<i16>, Vec<&'a [u8]>),
    spaces: Vec<i16>,
    names: Vec<&'a [u8]>,
    versions: Vec<Vec<u8>>,
    expiries: Vec<Option<i64>>,
    values: Vec<Vec<u8>>,
}

impl<'a> Arrays<'a> {
    /// What is left of `group`: of each key the last write.
    fn of(group: &'a [Commit]) -> Arrays<'a> {
        let mut last: HashMap<&Key, (Version, usize, usize)> = HashMap::new();
        for (at, commit) in group.iter().enumerate() {
            for (place, write) in commit.writes.iter().enumerate() {
                last.insert(&write.key, (commit.version, at, place));
            }
        }
        let mut last: Vec<_> = last.into_iter().collect();
        // All writers take row locks in one order.
        last.sort_unstable_by_key(|(key, _)| *key);
        let mut arrays =
            Arrays { ids: group.iter().map(|commit| ids::bytes(commit.id)).collect(), ..Arrays::default() };
        for (key, (version, at, place)) in last {
            let Some(value) = &group[at].writes[place].after else {
                arrays.removed.0.push(i16::from(key.space()));
                arrays.removed.1.push(key.name());
                continue;
            };
            let mut encoded = Vec::new();
            encode_value(value, &mut encoded);
            arrays.spaces.push(i16::from(key.space()));
            arrays.names.push(key.name());
            arrays.versions.push(version.to_bytes().to_vec());
            arrays.expiries.push(value.expires_at_ms.map(|at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX)));
            arrays.values.push(encoded);
        }
        arrays
    }
}

/// Commits `group` as one transaction, in one message. `checks` are those of its only commit.
pub(super) async fn commit(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    checks: &[(Key, Version)],
) -> Result<(), Failure> {
    for commit in group {
        for write in commit.writes.iter().filter(|write| write.after.is_none()) {
            identity.deleting(&write.key, commit.version);
        }
    }
    let Arrays { ids, removed, spaces, names, versions, expiries, values } = Arrays::of(group);
    let result = if checks.is_empty() {
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&ids, &removed.0, &removed.1, &spaces, &names, &versions, &expiries, &values];
        session.client.execute(session.statement(Prepared::Commit), &parameters).await
    } else {
        let checked_spaces: Vec<i16> = checks.iter().map(|(key, _)| i16::from(key.space())).collect();
        let checked_names: Vec<&[u8]> = checks.iter().map(|(key, _)| key.name()).collect();
        // An absent row has no version: what is expected of it is none.
        let expected = |(key, version): &(Key, Version)| {
            let absent = identity.absence(key) == *version;
            (!absent).then(|| version.to_bytes().to_vec())
        };
        let checked_versions: Vec<Option<Vec<u8>>> = checks.iter().map(expected).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
            &ids,
            &removed.0,
            &removed.1,
            &spaces,
            &names,
            &versions,
            &expiries,
            &values,
            &checked_spaces,
            &checked_names,
            &checked_versions,
        ];
        session.client.execute(session.statement(Prepared::CommitChecked), &parameters).await
    };
    result.map(|_| ()).map_err(|error| classify::of_commit(&error))
}
