//! Which rows of a large document a list of changes touches. `None` everywhere means: perhaps all of them.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::change::{Change, End};
use crate::value::{Blob, List};

/// The fields of a hash that `changes` touch.
pub(super) fn changed_fields(changes: &[Change]) -> Option<BTreeSet<&Blob>> {
    let mut fields = BTreeSet::new();
    for change in changes {
        match change {
            Change::SetField(field, _)
            | Change::UnsetField(field)
            | Change::AddInteger { field: Some(field), .. }
            | Change::AddFloat { field: Some(field), .. } => {
                fields.insert(field);
            }
            Change::ExpireAt(_) | Change::Persist => {}
            _ => return None,
        }
    }
    Some(fields)
}

/// The members of a set that `changes` touch.
pub(super) fn changed_members(changes: &[Change]) -> Option<BTreeSet<&Blob>> {
    let mut members = BTreeSet::new();
    for change in changes {
        match change {
            Change::AddMember(member) | Change::RemoveMember(member) => {
                members.insert(member);
            }
            Change::ExpireAt(_) | Change::Persist => {}
            _ => return None,
        }
    }
    Some(members)
}

/// The positions of a list's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Before the changes.
    pub before: Range<i64>,
    /// Afterwards.
    pub now: Range<i64>,
    /// Those whose element is still the same; never empty, part of both others.
    pub kept: Range<i64>,
}

impl Ends {
    /// Follows pushes and pops at the ends of a list at `head..tail` that becomes `after`. A list that runs empty in
    /// between keeps nothing, so it is not followed.
    pub fn follow(head: i64, tail: i64, changes: &[Change], after: &List) -> Option<Ends> {
        let (mut now, mut kept) = (head..tail, head..tail);
        for change in changes {
            match change {
                Change::Push(End::Left, _) => now.start = now.start.checked_sub(1)?,
                Change::Push(End::Right, _) => now.end = now.end.checked_add(1)?,
                Change::Pop(End::Left) => now.start = now.start.checked_add(1)?,
                Change::Pop(End::Right) => now.end = now.end.checked_sub(1)?,
                Change::ExpireAt(_) | Change::Persist => {}
                _ => return None,
            }
            kept = kept.start.max(now.start)..kept.end.min(now.end);
            if kept.is_empty() {
                return None;
            }
        }
        let length = now.end.checked_sub(now.start)?;
        (usize::try_from(length) == Ok(after.len())).then_some(Ends { before: head..tail, now, kept })
    }
}

/// The bytes of a byte string of `length` bytes that `changes` touch on its way to one of `after` bytes.
pub(super) fn changed_bytes(mut length: usize, changes: &[Change], after: usize) -> Option<Range<usize>> {
    let mut changed = None::<Range<usize>>;
    for change in changes {
        let (start, end) = match change {
            Change::Append(bytes) => (length, length.checked_add(bytes.len())?),
            Change::WriteAt { offset, bytes } if bytes.is_empty() => (*offset, *offset),
            Change::WriteAt { offset, bytes } => ((*offset).min(length), offset.checked_add(bytes.len())?),
            Change::ExpireAt(_) | Change::Persist => continue,
            _ => return None,
        };
        if start < end {
            changed = Some(changed.map_or(start..end, |range| range.start.min(start)..range.end.max(end)));
            length = length.max(end);
        }
    }
    (length == after).then(|| changed.unwrap_or(length..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(bytes: &[u8]) -> Blob {
        Blob::from(bytes)
    }

    fn list(length: usize) -> List {
        let mut list = List::default();
        (0..length).for_each(|_| list.push_right(blob(b"x")));
        list
    }

    #[test]
    fn a_popped_and_pushed_end_is_not_kept() {
        let changes =
            [Change::Pop(End::Left), Change::Push(End::Left, blob(b"x")), Change::Push(End::Right, blob(b"x"))];
        let ends = Ends::follow(-2, 3, &changes, &list(6));
        assert_eq!(ends, Some(Ends { before: -2..3, now: -2..4, kept: -1..3 }));
        assert_eq!(Ends::follow(-2, 3, &changes, &list(5)), None, "a length that does not fit is noticed");
    }

    #[test]
    fn a_list_that_runs_empty_is_not_followed() {
        let changes = [Change::Pop(End::Left), Change::Pop(End::Right), Change::Push(End::Left, blob(b"x"))];
        assert_eq!(Ends::follow(0, 2, &changes, &list(1)), None);
        assert_eq!(Ends::follow(i64::MIN, i64::MIN + 1, &[Change::Push(End::Left, blob(b"x"))], &list(2)), None);
    }

    #[test]
    fn bytes_written_beyond_the_end_touch_the_padding() {
        let write = |offset, bytes: &[u8]| Change::WriteAt { offset, bytes: blob(bytes) };
        assert_eq!(changed_bytes(10, &[write(20, b"ab")], 22), Some(10..22));
        assert_eq!(changed_bytes(10, &[write(2, b"ab"), Change::Append(blob(b"cd"))], 12), Some(2..12));
        assert_eq!(changed_bytes(10, &[write(20, b"")], 10).map(|range| range.is_empty()), Some(true));
        assert_eq!(changed_bytes(10, &[Change::Delete], 10), None);
        assert_eq!(changed_bytes(10, &[write(usize::MAX, b"ab")], 10), None);
    }
}
