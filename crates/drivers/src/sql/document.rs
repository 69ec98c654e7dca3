//! A document of forebay's table, as a database has it: a version, and the value in forebay's encoding.

use forebay::change::Change;
use forebay::store::ReadError;
use forebay::value::codec::decode_value;
use forebay::{Key, Read};

use super::ids;

/// The document of `key` whose stored version and value these are.
pub(crate) fn decode(key: &Key, version: &[u8], value: &[u8]) -> Result<Read, ReadError> {
    let damaged = |why: String| ReadError::Damaged { key: key.clone(), why };
    let version = ids::version(version).ok_or_else(|| damaged("its version has another length than 16".into()))?;
    let value = decode_value(value).map_err(|error| damaged(error.to_string()))?;
    Ok(Read { value: Some(value), version })
}

/// Whether it does not matter what was there before `changes`.
pub(crate) fn is_blind(changes: &[Change]) -> bool {
    matches!(changes.first(), Some(Change::Put(_) | Change::Delete))
}
