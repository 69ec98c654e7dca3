//! A group of commits as what the database is asked: one message, unless it is one statement ([`super::many`]).

use std::collections::BTreeMap;

use forebay::store::{Commit, Write};

use super::checked::{Checked, Run};
use super::rows::Rows;
use super::sql::{Row, array_literal, hex};
use super::statement::Script;
use crate::postgres::sql::OWNED;
use crate::postgres::{given, ids};

/// Rows by the number of their table.
pub(super) type ByTable<'a> = BTreeMap<usize, Vec<Row<'a>>>;

/// What a group comes to.
pub(super) struct Batch<'a> {
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

    /// `group` as one message, which is one transaction.
    pub(super) fn text(&self, of: &Rows, group: &[Commit]) -> Result<String, String> {
        let ids: Vec<String> = group.iter().map(|commit| hex(&ids::bytes(commit.id))).collect();
        let ids = array_literal(ids.iter().map(|id| Some(id.as_str())))?;
        let mut statements = vec![format!(
            "INSERT INTO forebay.applied (id, applied) SELECT id::bytea, {OWNED} FROM unnest({ids}) AS id"
        )];
        statements.extend(given::statement(group));
        // Before the other checks: what this one changes is locked while they are made.
        statements.extend(self.together.statements(&of.tables)?);
        if !self.checked.is_empty() {
            for (table, rows) in &self.rows {
                statements.push(of.tables[*table].lock(rows)?);
            }
        }
        for (table, rows) in &self.checked {
            statements.push(of.tables[*table].check(rows)?);
        }
        statements.extend(self.script.statements(&of.tables)?);
        for (table, rows) in &self.rows {
            statements.push(of.tables[*table].read_back(rows)?);
        }
        if self.rows.keys().copied().chain(self.together.tables()).any(|table| of.notes(table)) {
            statements.push("SELECT '#' || pg_current_xact_id()::text".into());
        }
        Ok(statements.join(";\n"))
    }
}
