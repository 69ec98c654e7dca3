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

use std::collections::HashSet;

use forebay::store::Commit;

use super::catalogue::Table;
use super::rows::Rows;
use super::statement::{Act, Shape, Values};

/// The rows of one commit that have to be absent still: the table's number in the database, and the key.
pub(super) struct Absent<'a>(HashSet<(u32, Vec<&'a str>)>);

impl<'a> Absent<'a> {
    /// Those of which `commit` checks that they are not there.
    pub(super) fn of(rows: &'a Rows, commit: &'a Commit) -> Absent<'a> {
        // Odd versions are those of absence.
        let absent = commit.checks.iter().filter(|(_, version)| !version.sequence.is_multiple_of(2));
        let place = |(key, _): &'a (forebay::Key, forebay::Version)| rows.place(key).ok();
        let row = |place: super::rows::Place<'a>| (rows.tables[place.table].oid, place.parts);
        Absent(absent.filter_map(place).map(row).collect())
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
