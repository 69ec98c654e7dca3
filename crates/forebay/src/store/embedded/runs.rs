//! The rows of a wide commit, in the order of their keys.
//!
//! To look for each row by itself, and to write it by itself, takes a walk down the tree and a copy within a page.
//! All commits that come after the wide one wait for the file's one writer. Rows of one commit often stand side by
//! side: names that a program made with a counter. So they are looked at in one walk. Those between which no other
//! row stands go out of the tree together, and into it together. That takes a third of the time or less.

use std::cmp::Ordering;

use redb::{AccessGuard, Range, ReadableTable};

use super::rows::{self, Header};
use super::write::RowTable;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::store::Write;
use crate::value::Value;

/// A commit of so many writes is looked at in one walk; shorter runs are written row by row.
pub(super) const RUN_ROWS_MIN: usize = 32;

/// Rows of a run that are in memory at a time, and bytes of their documents.
const RUN_ROWS_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 256 << 10;

/// Rows of others that the walk passes between two of ours before it looks for the next one from the root.
const PASSED_MAX: usize = 8;

/// A write of a wide commit.
pub(super) struct Target<'a> {
    pub write: &'a Write,
    /// What stands in its row.
    pub old: Option<Header>,
    /// No row of others stands between the one before and this one.
    joins: bool,
}

impl Target<'_> {
    fn bytes(&self) -> usize {
        self.write.after.as_ref().map_or(0, Value::size)
    }
}

type Guard<'a> = AccessGuard<'a, &'static [u8]>;

/// A walk through the rows.
struct Walk<'a> {
    rows: Range<'a, &'static [u8], &'static [u8]>,
    next: Option<(Guard<'a>, Guard<'a>)>,
}

impl<'a> Walk<'a> {
    fn from(table: &'a RowTable<'_>, key: &Key) -> Result<Walk<'a>, redb::Error> {
        let rows = table.range::<&[u8]>(rows::document_key(key).as_slice()..)?;
        let mut walk = Walk { rows, next: None };
        walk.step()?;
        Ok(walk)
    }

    fn step(&mut self) -> Result<(), redb::Error> {
        self.next = self.rows.next().transpose()?;
        Ok(())
    }

    /// How the row that comes next stands to `key`; at the end, behind it.
    fn compare(&self, key: &Key) -> Ordering {
        self.next.as_ref().map_or(Ordering::Greater, |(row_key, _)| compare(row_key.value(), key))
    }
}

/// How a row's key stands to a document's.
fn compare(row_key: &[u8], key: &Key) -> Ordering {
    let row = row_key.split_first().map(|(&space, name)| KeyRef { space, name });
    row.cmp(&Some(key.borrow()))
}

/// What stands at the rows that `writes` write, in the order of their keys. The inner error says which of them is
/// damaged.
pub(super) fn look<'a>(
    table: &RowTable<'_>,
    writes: &'a [Write],
) -> Result<Result<Vec<Target<'a>>, (&'a Key, String)>, redb::Error> {
    let mut order: Vec<&Write> = writes.iter().collect();
    order.sort_unstable_by(|left, right| left.key.cmp(&right.key));
    let Some(first) = order.first() else { return Ok(Ok(Vec::new())) };
    let (mut walk, mut targets) = (Walk::from(table, &first.key)?, Vec::with_capacity(order.len()));
    for write in order {
        let (key, mut passed) = (&write.key, 0);
        while walk.compare(key) == Ordering::Less {
            passed += 1;
            match passed {
                ..=PASSED_MAX => walk.step()?,
                _ => walk = Walk::from(table, key)?,
            }
        }
        let joins = passed == 0 || mutation::on(Fault::RunsOverOthers);
        let mut old = None;
        if walk.compare(key) == Ordering::Equal
            && let Some((row_key, row)) = &walk.next
        {
            match rows::unseal(row_key.value(), row.value()).and_then(Header::parse) {
                Ok((header, _)) => old = Some(header),
                Err(why) => return Ok(Err((key, why))),
            }
            walk.step()?;
        }
        targets.push(Target { write, old, joins });
    }
    Ok(Ok(targets))
}

/// `targets` in parts: each one write, or a run between whose rows no others stand.
pub(super) fn parts<'t, 'a>(mut targets: &'t [Target<'a>]) -> impl Iterator<Item = &'t [Target<'a>]> {
    std::iter::from_fn(move || {
        let (first, behind) = targets.split_first()?;
        let mut bytes = first.bytes();
        let joins = |target: &&Target<'_>| {
            bytes += target.bytes();
            target.joins && bytes <= RUN_BYTES_MAX
        };
        let run = 1 + behind.iter().take(RUN_ROWS_MAX - 1).take_while(joins).count();
        let (part, rest) = targets.split_at(if run < RUN_ROWS_MIN { 1 } else { run });
        targets = rest;
        Some(part)
    })
}

/// Takes the rows of `run` out, and puts `rows` in, which are some of them, in order, with their keys.
pub(super) fn replace(
    table: &mut RowTable<'_>,
    run: &[Target<'_>],
    rows: &[(Vec<u8>, Vec<u8>)],
) -> Result<(), redb::Error> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let (first, last) = (rows::document_key(&first.write.key), rows::document_key(&last.write.key));
    if run.iter().any(|target| target.old.is_some()) {
        table.retain_in(first.as_slice()..=last.as_slice(), |_, _| false)?;
    }
    let mut cursor = table.lower_bound_mut(std::ops::Bound::Included(first.as_slice()))?;
    for (row_key, row) in rows {
        cursor.insert_before(row_key.as_slice(), row.as_slice())?;
    }
    Ok(cursor.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    /// Into how many parts a commit goes, every so many of whose rows have one of others before them.
    fn parts_of(count: usize, apart: usize, bytes: usize) -> usize {
        let value = Value::bytes(vec![b'x'; bytes]);
        let change = Change::Put(value.clone());
        let write = Write {
            key: Key::new(0, b"k"),
            changes: vec![change].into(),
            after: Some(value),
            unseen: false,
            told: false,
        };
        let target = |at: usize| Target { write: &write, old: None, joins: !at.is_multiple_of(apart) };
        let targets: Vec<Target<'_>> = (0..count).map(target).collect();
        let all: usize = parts(&targets).map(<[_]>::len).sum();
        assert_eq!(all, count);
        parts(&targets).count()
    }

    #[test]
    fn rows_side_by_side_are_written_in_few_steps() {
        assert_eq!(parts_of(15_000, 15_000, 10), 15);
        assert_eq!(parts_of(15_000, 1_000, 10), 15);
        assert_eq!(parts_of(1_500, 10, 10), 1_500, "short runs, row by row");
        assert!((4..=6).contains(&parts_of(300, 300, 4 << 10)), "256 KiB at a time");
    }
}
