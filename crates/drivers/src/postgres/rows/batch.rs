//! A group of commits as what the database is asked: one message, unless it is one statement ([`super::many`]).

use std::collections::BTreeMap;

use forebay::store::{Commit, Write};

use super::absent::{Absent, Writers};
use super::checked::{Checked, Run};
use super::mapped::Rows;
use super::sql::{Row, array_literal};
use super::statement::Script;
use crate::postgres::given;
use crate::postgres::sql::OWNED;
use crate::sql::failure::Changed;
use crate::sql::ids;
use crate::sql::text::hex;

/// Rows by the number of their table.
pub(super) type ByTable<'a> = BTreeMap<usize, Vec<Row<'a>>>;

/// What a group comes to.
pub(super) struct Batch<'a> {
    /// The transaction has its ids in the table already.
    pub(super) entered: bool,
    /// For each place of a check, the commit that it is of, and which of its checks.
    pub(super) checks: Vec<(usize, usize)>,
    /// For each place of a row, what is written to it last.
    pub(super) written: Vec<Written<'a>>,
    /// Places of rows with commits that wrote them before the last one.
    pub(super) earlier: Vec<(usize, usize)>,
    /// The rows that are checked, changed and read by statements of their own.
    pub(super) together: Checked,
    /// The other rows that are written, the other checks, and what changes those rows.
    pub(super) rows: ByTable<'a>,
    pub(super) checked: ByTable<'a>,
    pub(super) script: Script,
    /// Some of its rows are large: nothing is in `script`, and what changes a row is made when it is sent.
    pub(super) large: bool,
}

/// The last write of a row.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) write: &'a Write,
    pub(super) table: usize,
    /// The commit that it is of.
    pub(super) member: usize,
    /// The run of [`Checked`] that changes it.
    pub(super) run: Option<usize>,
}

impl Batch<'_> {
    /// The run that is all of it but the ids.
    pub(super) fn only(&self) -> Option<&Run> {
        let alone = self.rows.is_empty() && self.checked.is_empty() && self.script.is_empty();
        self.together.only().filter(|_| alone)
    }

    /// Says what became of a row to the commits that wrote it before the last one, too.
    pub(super) fn tell_earlier(&self, changed: &mut [Changed]) {
        for (place, member) in &self.earlier {
            let Written { write, member: last, .. } = self.written[*place];
            let told = changed[last].iter().find(|(key, _)| *key == write.key).cloned();
            changed[*member].extend(told);
        }
    }

    /// `group` as one message, which is one transaction.
    pub(super) fn text(&self, of: &Rows, group: &[Commit]) -> Result<String, String> {
        Ok(self.statements(of, group)?.collect::<Result<Vec<String>, String>>()?.join(";\n"))
    }

    /// The same as statements, one after the other. Where rows are large each has one, which is made when it is asked
    /// for: all of them would be in memory once more.
    pub(super) fn statements<'b>(
        &'b self,
        of: &'b Rows,
        group: &'b [Commit],
    ) -> Result<impl Iterator<Item = Result<String, String>> + Send + 'b, String> {
        let mut first = Vec::new();
        if !self.entered {
            let ids: Vec<String> = group.iter().map(|commit| hex(&ids::bytes(commit.id))).collect();
            let ids = array_literal(ids.iter().map(|id| Some(id.as_str())))?;
            first.push(format!(
                "INSERT INTO forebay.applied (id, applied) SELECT id::bytea, {OWNED} FROM unnest({ids}) AS id"
            ));
            first.extend(given::statement(group));
        }
        // Before the other checks: what this one changes is locked while they are made.
        first.extend(self.together.statements(&of.tables)?);
        if !self.checked.is_empty() {
            for (table, rows) in &self.rows {
                first.push(of.tables[*table].lock(rows)?);
            }
        }
        for (table, rows) in &self.checked {
            first.push(of.tables[*table].check(rows)?);
        }
        first.extend(self.script.statements(&of.tables)?);
        let large = if self.large { group } else { &[] };
        let writers = Writers::of(of, large);
        let changes = large.iter().enumerate().flat_map(move |member| {
            let mut absent = Absent::of(of, member, &writers);
            member.1.writes.iter().flat_map(move |write| of.changes_of(write, &mut absent))
        });
        let rows_max = if self.large { 1 } else { usize::MAX };
        let read_back = self
            .rows
            .iter()
            .flat_map(move |(table, rows)| rows.chunks(rows_max).map(move |rows| of.tables[*table].read_back(rows)));
        let notes = self.rows.keys().copied().chain(self.together.tables()).any(|table| of.notes(table));
        let number = notes.then(|| Ok("SELECT '#' || pg_current_xact_id()::text".to_owned()));
        Ok(first.into_iter().map(Ok).chain(changes).chain(read_back).chain(number))
    }
}
