//! A walk through the whole file that looks whether its tables agree.

use std::collections::{BTreeMap, BTreeSet};

use redb::{Database, ReadableDatabase, ReadableTable};

use super::read::{Failure, Snapshot};
use super::rows::{self, Header, Layout, PART_PREFIX_BYTES, Totals};
use crate::key::{Key, SPACES};
use crate::store::applied::APPLIED_IDS_MAX;

/// Says what does not agree.
pub(super) fn validate(database: &Database) -> Result<Result<(), String>, redb::Error> {
    let mut snapshot = match Snapshot::new(database) {
        Ok(snapshot) => snapshot,
        Err(Failure::Storage(error)) => return Err(error),
        Err(Failure::Damaged(key, why)) => return Ok(Err(format!("{key}: {why}"))),
        Err(Failure::Long) => return Ok(Err("a document is too long".to_owned())),
    };
    let transaction = database.begin_read()?;
    let mut counts = [0u64; SPACES as usize];
    let (mut parts, mut expiries) = (BTreeSet::new(), BTreeSet::new());
    for row in transaction.open_table(rows::DOCUMENTS)?.iter()? {
        let (row_key, row) = row?;
        let header = rows::unseal(row_key.value(), row.value()).and_then(Header::parse);
        let (Ok(key), Ok((header, _))) = (rows::parse_document_key(row_key.value()), header) else {
            return Ok(Err(format!("the row {:?} makes no sense", row_key.value())));
        };
        counts[usize::from(key.space())] += 1;
        if let Some(at) = header.expires_at_ms {
            expiries.insert((key.space(), at, key.name().to_vec()));
        }
        if let Layout::Parts(found) = header.layout
            && !parts.insert((key.space(), found.id))
        {
            return Ok(Err(format!("{key} shares its parts with another document")));
        }
        match snapshot.document(&key) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Err(format!("{key} is not found"))),
            Err(Failure::Damaged(key, why)) => return Ok(Err(format!("{key}: {why}"))),
            Err(Failure::Long) => return Ok(Err(format!("{key} is too long"))),
            Err(Failure::Storage(error)) => return Err(error),
        }
    }
    for row in transaction.open_table(rows::PARTS)?.iter()? {
        let row_key = row?.0.value().to_vec();
        let id = row_key.get(1..PART_PREFIX_BYTES).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
        if !id.is_some_and(|id| parts.contains(&(row_key[0], id))) {
            return Ok(Err(format!("the part {row_key:?} belongs to no document")));
        }
    }
    let mut indexed = BTreeSet::new();
    for row in transaction.open_table(rows::EXPIRIES)?.iter()? {
        if let Some((at, key)) = rows::parse_expiry_key(row?.0.value()) {
            indexed.insert((key.space(), at, key.name().to_vec()));
        }
    }
    if indexed != expiries {
        let wrong = indexed.symmetric_difference(&expiries);
        let (space, at_ms, name) = wrong.clone().next().cloned().unwrap_or_default();
        let (count, key) = (wrong.count(), Key::new(space.min(SPACES - 1), &name));
        return Ok(Err(format!("{count} expiries are not those of the documents, the first that of {key} at {at_ms}")));
    }
    validate_log(&transaction, counts)
}

fn validate_log(
    transaction: &redb::ReadTransaction,
    counts: [u64; SPACES as usize],
) -> Result<Result<(), String>, redb::Error> {
    let meta = rows::Meta::read(&transaction.open_table(rows::META)?)?;
    if let Err(why) = meta.and_then(|meta| meta.check()) {
        return Ok(Err(why));
    }
    let log = transaction.open_table(rows::LOG)?;
    let mut ids = BTreeMap::new();
    for row in log.range(..rows::TOTALS)? {
        let (group, row) = row?;
        for id in rows::parse_ids(group.value(), row.value()).unwrap_or_default() {
            if let Some(other) = ids.insert(id, group.value()) {
                return Ok(Err(format!("{id} was applied in the groups {other} and {}", group.value())));
            }
        }
    }
    let totals = log.get(rows::TOTALS)?.and_then(|row| Totals::parse(row.value()).ok());
    match totals {
        None => Ok(Err("the totals make no sense".to_owned())),
        Some(totals) if totals.counts != counts => Ok(Err(format!("counts {:?} instead of {counts:?}", totals.counts))),
        Some(_) if ids.len() > APPLIED_IDS_MAX => Ok(Err(format!("{} ids are kept", ids.len()))),
        Some(_) => Ok(Ok(())),
    }
}
