//! What changes ask of the document that they are made to.

use super::Change;
use super::number::parse_integer;
use crate::value::{Blob, Kind};

/// Whether `new`, whose transaction has not seen the document, has nothing against what `old` leaves of it. Otherwise
/// it is refused where `old` is not, so one transaction of both would lose `old` for it. It is refused for another type
/// of document, or since it adds to what is no number. What adds to a sum that may overflow counts as fitting.
pub(crate) fn fits_behind(old: &[Change], new: &[Change]) -> bool {
    let whole = |change: &&Change| matches!(change, Change::Put(_) | Change::Delete);
    // What is put is known, and so was seen.
    if old.iter().any(|change| whole(&change)) {
        return true;
    }
    let old_kind = old.iter().find_map(kind);
    new.iter().take_while(|change| !whole(change)).all(|change| {
        let same = kind(change).is_none_or(|kind| old_kind == Some(kind));
        same && target(change).filter(|_| adds(change)).is_none_or(|target| leaves_number(old, target))
    })
}

/// The type that the document has to have, or gets if it is not there.
fn kind(change: &Change) -> Option<Kind> {
    match change {
        Change::Put(_) | Change::Delete | Change::ExpireAt(_) | Change::Persist | Change::RemoveExpired(_) => None,
        Change::AddInteger { field: None, .. } | Change::AddFloat { field: None, .. } => Some(Kind::Bytes),
        Change::Append(_) | Change::WriteAt { .. } => Some(Kind::Bytes),
        Change::AddInteger { .. } | Change::AddFloat { .. } => Some(Kind::Hash),
        Change::SetField(..) | Change::UnsetField(_) => Some(Kind::Hash),
        Change::Push(..) | Change::Pop(_) | Change::RemoveEqual { .. } => Some(Kind::List),
        Change::AddMember(_) | Change::RemoveMember(_) => Some(Kind::Set),
    }
}

/// The bytes that it sets or adds to: of a field, or of the whole document.
fn target(change: &Change) -> Option<Option<&Blob>> {
    match change {
        Change::AddInteger { field, .. } | Change::AddFloat { field, .. } => Some(field.as_ref()),
        Change::SetField(field, _) => Some(Some(field)),
        Change::Append(_) | Change::WriteAt { .. } => Some(None),
        _ => None,
    }
}

fn adds(change: &Change) -> bool {
    matches!(change, Change::AddInteger { .. } | Change::AddFloat { .. })
}

/// Whether nothing in `changes` makes of these bytes what is no integer; what adds to them says that they are a number.
fn leaves_number(changes: &[Change], bytes: Option<&Blob>) -> bool {
    match changes.iter().rev().find(|change| target(change) == Some(bytes)) {
        Some(Change::SetField(_, value)) => parse_integer(value).is_some(),
        last => last.is_none_or(adds),
    }
}
