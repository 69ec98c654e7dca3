//! Rows that a commit writes and has read as absent.
//!
//! A row that is there is locked before its version is compared, so no other program changes it between. A row that is
//! not there can't be locked. Another program may insert it after the check, and the statements behind that see it.
//!
//! **Invariant.** The first statement on such a row inserts it, or nothing is done to it. So the table's unique index
//! refuses what comes to a row of another program, and the commit is run again.
//!
//! For example, `MULTI; HSET stock:1 n 5; SETNX order:9 {"n": 1}; EXEC` finds no `order:9`. Another program inserts
//! that row while the first statement waits for a lock. An UPDATE would write over it.

use std::collections::{HashMap, HashSet};

use forebay::store::Commit;
use forebay::{Key, Version};

use super::mapped::Rows;
use super::statement::{Act, Shape, Values};
use crate::sql::table::Table;

/// A row: its table's number in the database, and the key.
type Row<'a> = (u32, Vec<&'a str>);

/// The rows that a group writes, each with the place of the first commit that does; empty if none has to know.
pub(super) struct Writers<'a>(HashMap<Row<'a>, usize>);

impl<'a> Writers<'a> {
    pub(super) fn of(rows: &'a Rows, group: &'a [Commit]) -> Writers<'a> {
        let any = group.len() > 1 && group.iter().any(|commit| commit.checks.iter().any(is_absence));
        let mut first = HashMap::new();
        for (member, commit) in group.iter().enumerate().filter(|_| any) {
            for row in commit.writes.iter().filter_map(|write| row_of(rows, &write.key)) {
                first.entry(row).or_insert(member);
            }
        }
        Writers(first)
    }
}

/// The rows of one commit that have to be absent still.
pub(super) struct Absent<'a>(HashSet<Row<'a>>);

impl<'a> Absent<'a> {
    /// Those of which `commit`, at the place `member` of its group, checks that they are not there. The group's checks
    /// are made before all of its changes. So what an earlier commit writes is left out: that may have made the row by
    /// way of another document.
    pub(super) fn of(rows: &'a Rows, (member, commit): (usize, &'a Commit), writers: &Writers<'a>) -> Absent<'a> {
        let absent = commit.checks.iter().filter(|check| is_absence(check));
        let absent = absent.filter_map(|(key, _)| row_of(rows, key));
        Absent(absent.filter(|row| writers.0.get(row).is_none_or(|first| *first >= member)).collect())
    }

    /// The `statements` on a row of `table` as they are to be where that was read as absent.
    pub(super) fn narrowed(
        &mut self,
        table: &Table,
        parts: &[&'a str],
        statements: Vec<(Shape, Values)>,
    ) -> Vec<(Shape, Values)> {
        if self.0.is_empty() {
            return statements;
        }
        let row = (table.oid, parts.to_vec());
        let mut narrowed = Vec::with_capacity(statements.len());
        for (shape, values) in statements {
            let shape = match shape.act {
                _ if !self.0.contains(&row) => shape,
                Act::Delete | Act::Update => continue,
                Act::Insert | Act::Upsert => {
                    // What comes behind it finds what it has made.
                    self.0.remove(&row);
                    Shape { act: Act::Insert, sets: Vec::new(), ..shape }
                }
            };
            narrowed.push((shape, values));
        }
        narrowed
    }
}

fn row_of<'a>(rows: &'a Rows, key: &'a Key) -> Option<Row<'a>> {
    rows.place(key).ok().map(|place| (rows.tables[place.table].oid, place.parts))
}

/// Whether this check is that a document is not there: odd versions are those of absence.
fn is_absence((_, version): &(Key, Version)) -> bool {
    !version.sequence.is_multiple_of(2)
}
