//! Merging adjacent changes to one document.
//!
//! What "never alters the result" means: let `previous` and `next` become `merged`. Take any document whose size is
//! within [`DOCUMENT_BYTES_MAX`], absent ones included. Then [`apply_all`](super::apply_all) of `[previous, next]`
//! and [`apply`] of `merged` either both fail, or both succeed and leave equal documents, expiry included. Which
//! error it is may differ only where one of the two sides says [`TooLarge`](super::ApplyError::TooLarge).
//!
//! Since a failing change refuses the whole commit, a change that can fail must not be swallowed by one that can't:
//! "set field, then delete" is refused for a list, "delete" alone is not. What stays apart for such reasons:
//!
//! * anything that can fail, before `Put` or `Delete`;
//! * integers of different signs: the sum may fit where the way there overflows;
//! * floats: rounding is not associative;
//! * a field set to something shorter the second time, an element pushed and popped: the first may be too large;
//! * an element removed and added again: if it was the only one, the document is a new one, without expiry.

use super::{Change, apply};
use crate::value::{Blob, DOCUMENT_BYTES_MAX, Data, Value};

/// Longest byte string that merging two appends or writes makes, so that a long run of them costs linear time.
const MERGED_BYTES_MAX: usize = 4096;

/// Merges `next`, which follows `previous` on the same document, into it if one change can stand for both whatever the
/// document is; gives `next` back if not.
pub fn merge(previous: &mut Change, next: Change) -> Option<Change> {
    if matches!(previous, Change::Put(_) | Change::Delete) {
        return merge_into_known(previous, next);
    }
    match merged(previous, &next) {
        Some(Merged::Previous) => {}
        Some(Merged::Next) => *previous = next,
        Some(Merged::New(change)) => *previous = change,
        None => return Some(next),
    }
    None
}

/// Merges each change into the one before it where [`merge`] can: the same result with fewer changes.
pub fn compact(changes: Vec<Change>) -> Vec<Change> {
    let mut compacted: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        let rest = match compacted.last_mut() {
            Some(previous) => merge(previous, change),
            None => Some(change),
        };
        compacted.extend(rest);
    }
    compacted
}

/// As [`compact`], for a document that stays well below [`DOCUMENT_BYTES_MAX`] in whatever order it is changed: also
/// where changes of other fields stand between, a field that is set again is set once, and what is added to it is one
/// sum. So what an outage keeps of a hash does not grow with the writes to it.
pub fn compact_fields(changes: Vec<Change>) -> Vec<Change> {
    let mut compacted: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        let next = match field_of(&change) {
            None => Some(change),
            Some(field) => {
                // Changes of fields that are all there afterwards: those of different fields may change places.
                let run = compacted.iter_mut().rev().take_while(|earlier| field_of(earlier).is_some());
                match (run.into_iter().find(|earlier| field_of(earlier) == Some(field)), &change) {
                    (Some(Change::SetField(_, old)), Change::SetField(_, new)) => {
                        *old = new.clone();
                        None
                    }
                    (Some(earlier), _) => merge(earlier, change),
                    (None, _) => Some(change),
                }
            }
        };
        let rest = match (next, compacted.last_mut()) {
            (Some(next), Some(previous)) => merge(previous, next),
            (next, _) => next,
        };
        compacted.extend(rest);
    }
    compacted
}

/// `new` behind `old`, both made to one document of which nobody knows when it expires. What is set before the moment
/// of `new` and again behind it is left out before it, and two moments within one second become the later: a document
/// may then count as expired for a change that came less than a second before it did. So a hash whose fields are set
/// again and again takes no more room, and other documents one moment a second. Where all of `old` and `new` can be
/// made, the result can, too, and is the same but for that second.
pub fn join_unseen(mut old: Vec<Change>, mut new: Vec<Change>) -> Vec<Change> {
    if let Some(Change::RemoveExpired(moment)) = new.first().cloned() {
        let set = |change: &Change| matches!(change, Change::SetField(..));
        let again: Vec<&Blob> = new[1..]
            .iter()
            .take_while(|change| field_of(change).is_some())
            .filter(|change| set(change))
            .filter_map(field_of)
            .collect();
        let passes = |change: &Change| field_of(change).is_some() || matches!(change, Change::RemoveExpired(_));
        let begin = old.iter().rposition(|change| !passes(change)).map_or(0, |at| at + 1);
        let mut at = 0;
        old.retain(|change| {
            at += 1;
            at <= begin || field_of(change).is_none_or(|field| !again.contains(&field))
        });
        // Unless something between says when it expires.
        let settles =
            |change: &Change| matches!(change, Change::Put(_) | Change::Delete | Change::ExpireAt(_) | Change::Persist);
        let mut back = old.iter_mut().rev().take_while(|change| !settles(change));
        if let Some(Change::RemoveExpired(last)) = back.find(|change| matches!(change, Change::RemoveExpired(_)))
            && *last / 1000 == moment / 1000
        {
            *last = moment.max(*last);
            new.remove(0);
        }
    }
    old.append(&mut new);
    old
}

/// The field that is there, whatever was before, if the change can be made.
fn field_of(change: &Change) -> Option<&Blob> {
    match change {
        Change::SetField(field, _) => Some(field),
        Change::AddInteger { field, .. } => field.as_ref(),
        _ => None,
    }
}

/// Which change stands for both.
enum Merged {
    Previous,
    Next,
    New(Change),
}

fn merged(previous: &Change, next: &Change) -> Option<Merged> {
    use Change::*;
    match (previous, next) {
        (ExpireAt(_) | Persist, Put(_) | Delete | ExpireAt(_) | Persist) => Some(Merged::Next),
        (RemoveExpired(_), Put(_) | Delete) => Some(Merged::Next),
        (RemoveExpired(first), RemoveExpired(second)) => Some(Merged::New(RemoveExpired(*first.max(second)))),
        (AddInteger { field: left, delta: a }, AddInteger { field: right, delta: b }) if left == right => {
            // Of one sign: the value moves one way, so it overflows on the way exactly if it does at the end.
            let one_way = (*a >= 0) == (*b >= 0) || *a == 0 || *b == 0;
            let delta = a.checked_add(*b).filter(|_| one_way)?;
            Some(Merged::New(AddInteger { field: left.clone(), delta }))
        }
        (Append(left), Append(right)) => {
            let bytes = joined(left.len() + right.len(), [(0, left), (left.len(), right)])?;
            Some(Merged::New(Append(bytes)))
        }
        (WriteAt { offset: left, bytes: first }, WriteAt { offset: right, bytes: second }) => {
            merged_writes((*left, first), (*right, second))
        }
        (SetField(left, first), SetField(right, second)) if left == right && first.len() <= second.len() => {
            Some(Merged::Next)
        }
        (UnsetField(left), UnsetField(right)) if left == right => Some(Merged::Previous),
        (AddMember(left), AddMember(right)) if left == right => Some(Merged::Previous),
        (RemoveMember(left), RemoveMember(right)) if left == right => Some(Merged::Previous),
        (RemoveEqual { count: a, element: left }, RemoveEqual { count: b, element: right }) if left == right => {
            if *a == 0 {
                return Some(Merged::Previous);
            }
            if *b == 0 {
                return Some(Merged::Next);
            }
            let count = a.checked_add(*b).filter(|_| (*a > 0) == (*b > 0))?;
            Some(Merged::New(RemoveEqual { count, element: left.clone() }))
        }
        _ => None,
    }
}

/// What `previous`, a put or a delete, leaves is known, and so is what `next` makes of it.
fn merge_into_known(previous: &mut Change, next: Change) -> Option<Change> {
    let bytes = match &*previous {
        Change::Put(value) if value.size() > DOCUMENT_BYTES_MAX => return Some(next),
        Change::Put(Value { data: Data::Bytes(bytes), .. }) => bytes.len(),
        _ => 0,
    };
    match &next {
        Change::Put(_) | Change::Delete => {
            *previous = next;
            return None;
        }
        // A few bytes far beyond the end take less room as a change than written out with their padding.
        Change::WriteAt { offset, .. } if *offset > bytes.saturating_add(MERGED_BYTES_MAX) => return Some(next),
        _ => {}
    }
    // Taken out, not cloned: a value that nobody shares changes in place.
    let mut document = match std::mem::replace(previous, Change::Delete) {
        Change::Put(value) if !value.is_empty_collection() => Some(value),
        _ => None,
    };
    let result = apply(&mut document, &next);
    *previous = document.map_or(Change::Delete, Change::Put);
    result.err().map(|_| next)
}

/// Two writes whose ranges overlap or touch are one over both ranges.
fn merged_writes((left, first): (usize, &Blob), (right, second): (usize, &Blob)) -> Option<Merged> {
    // A write of nothing only minds the kind, which the other does too.
    if second.is_empty() {
        return Some(Merged::Previous);
    }
    if first.is_empty() {
        return Some(Merged::Next);
    }
    let left_end = left.checked_add(first.len())?;
    let right_end = right.checked_add(second.len())?;
    if right <= left && left_end <= right_end {
        return Some(Merged::Next);
    }
    if right > left_end || left > right_end {
        return None;
    }
    let offset = left.min(right);
    let bytes = joined(left_end.max(right_end) - offset, [(left - offset, first), (right - offset, second)])?;
    Some(Merged::New(Change::WriteAt { offset, bytes }))
}

/// `len` bytes made of `parts`, each at its offset, later ones over earlier ones.
fn joined(len: usize, parts: [(usize, &Blob); 2]) -> Option<Blob> {
    if len > MERGED_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; len];
    for (offset, part) in parts {
        bytes[offset..offset + part.len()].copy_from_slice(part);
    }
    Some(bytes.into())
}
