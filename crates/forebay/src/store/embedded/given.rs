//! Ids that clients gave their transactions: a row for each, in the order of their commits.

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableError, WriteTransaction};

use super::rows::{self, seal, unseal};
use crate::store::{GIVEN_IDS_KEPT, GivenId};
use crate::value::Blob;
use crate::version::Version;

/// Notes under which version each was committed, and forgets the oldest beyond the limit.
pub(super) fn write(transaction: &WriteTransaction, given: &[(GivenId, Version)]) -> Result<(), redb::Error> {
    if given.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(rows::GIVEN)?;
    for (GivenId { user, id }, version) in given {
        let key = [version.to_bytes(), id.to_be_bytes()].concat();
        let mut row = user.to_vec();
        seal(&key, &mut row);
        table.insert(key.as_slice(), row.as_slice())?;
    }
    while table.len()? > GIVEN_IDS_KEPT as u64 {
        table.pop_first()?;
    }
    Ok(())
}

/// All that are there, oldest first, or what is wrong with a row.
pub(super) fn all(transaction: &ReadTransaction) -> Result<Result<Vec<(GivenId, Version)>, String>, redb::Error> {
    let table = match transaction.open_table(rows::GIVEN) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Ok(Vec::new())),
        table => table?,
    };
    let mut all = Vec::new();
    for row in table.iter()? {
        let (key, row) = row?;
        match parse(key.value(), row.value()) {
            Ok(given) => all.push(given),
            Err(why) => return Ok(Err(format!("an id from a client: {why}"))),
        }
    }
    Ok(Ok(all))
}

fn parse(key: &[u8], row: &[u8]) -> Result<(GivenId, Version), String> {
    let user = Blob::from(unseal(key, row)?);
    let (version, id) = key.split_first_chunk().ok_or("its key is cut short")?;
    let id = u128::from_be_bytes(id.try_into().map_err(|_| "its key has another length than 32")?);
    Ok((GivenId { user, id }, Version::from_bytes(*version)))
}
