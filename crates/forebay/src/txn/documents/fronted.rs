//! The store behind the documents, where it belongs to others too: documents there are records.

use std::fmt;
use std::sync::Arc;

use super::{Document, DocumentError};
use crate::change::{Change, Changes};
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::store::forms::{self, OnDelete, RowForm};
use crate::store::{Form, Store};
use crate::value::{Data, Value};

#[derive(Clone)]
pub(super) struct Fronted(pub(super) Arc<dyn Store>);

impl fmt::Debug for Fronted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name())
    }
}

/// A row that a transaction has made or deleted by way of one of its documents; the others are not what they were.
pub(super) struct MovedRow<'a> {
    by: &'a Key,
    /// It is deleted, so there is none of them. If not, the store knows what they hold, by its defaults.
    pub(super) gone: bool,
}

impl MovedRow<'_> {
    pub(super) fn refused(&self, key: KeyRef<'_>) -> DocumentError {
        DocumentError::RowMoved(key.to_key(), self.by.clone())
    }
}

impl Fronted {
    /// Whether only we write the document of `key`.
    pub(super) fn owns(&self, key: KeyRef<'_>) -> bool {
        self.0.owns(&key.to_key())
    }

    /// What changes of `others`, which share its row, have done to the row of `document`. A list of a row that is made
    /// is empty if the store does not fill it. Nothing is said of what has not been read, because nothing is told of
    /// it.
    pub(super) fn moved_row<'a>(
        &self,
        document: &Document,
        others: impl Iterator<Item = &'a Document>,
    ) -> Option<MovedRow<'a>> {
        let there = document.base.as_ref()?.value.is_some();
        let is_row = |key: &Key| matches!(self.0.form(key), Form::Row(_));
        let fills = |key: &Key| match self.0.form(key) {
            Form::Document => false,
            Form::Row(_) => true,
            Form::List { filled } => filled && !mutation::on(Fault::DefaultsGuessed),
        };
        let may_miss_row = !there && fills(&document.key);
        let moved = |other: &'a Document| {
            let row = is_row(&other.key);
            let deleted = row && other.changes.contains(&Change::Delete);
            let was_there = other.base.as_ref().is_some_and(|base| base.value.is_some());
            let makes = if row { other.current.is_some() && !was_there } else { forms::makes_row(&other.changes) };
            let made = may_miss_row && makes;
            let moved = deleted || made;
            moved.then_some(MovedRow { by: &other.key, gone: deleted && other.current.is_none() })
        };
        others.filter(|other| !other.changes.is_empty() && !mutation::on(Fault::BesideUnmoved)).find_map(moved)
    }

    /// The one of `others` by which their row is deleted.
    pub(super) fn deleted_by<'a>(&self, mut others: impl Iterator<Item = &'a Document>) -> Option<MovedRow<'a>> {
        let deletes =
            |other: &&Document| other.changes.contains(&Change::Delete) && !self.gone_with(&other.key).is_empty();
        let other = others.find(|other| deletes(other) && !mutation::on(Fault::BesideUnmoved))?;
        Some(MovedRow { by: &other.key, gone: other.current.is_none() })
    }

    /// `change` of `key` as the store will have it: so it is shown, and computed with, before it is there.
    pub(super) fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        match change {
            _ if mutation::on(Fault::DefaultsGuessed) => change,
            Change::SetField(..) | Change::Push(..) | Change::RemoveEqual { .. } => self.0.as_stored(key, change),
            _ => change,
        }
    }

    /// The documents that are gone when that of `key` is deleted.
    pub(super) fn gone_with(&self, key: &Key) -> Vec<Key> {
        match self.0.form(key) {
            Form::Row(_) => self.0.beside(key),
            // Of a list the column is emptied.
            Form::Document | Form::List { .. } => Vec::new(),
        }
    }

    /// What it comes to that a record is set by one text, if `change` is that.
    pub(super) fn changes_of_text(
        &self,
        key: KeyRef<'_>,
        change: &Change,
    ) -> Option<Result<Vec<Change>, DocumentError>> {
        match change {
            Change::Put(Value { data: Data::Bytes(text), expires_at_ms: None }) => {
                self.0.changes_of_text(key, &text.joined()).map(|changes| changes.map_err(DocumentError::Refused))
            }
            _ => None,
        }
    }

    /// What is written in place of `changes` and the deletion behind them, if that is more than the deletion.
    pub(super) fn emptied(&self, key: &Key, changes: &[Change]) -> Option<Vec<Change>> {
        if self.0.form(key).is_list() { forms::emptied(changes) } else { None }
    }

    /// What comes of it that `key` is deleted.
    pub(super) fn on_delete(&self, key: KeyRef<'_>) -> OnDelete {
        self.0.form(&key.to_key()).on_delete()
    }

    /// What makes the row that `change` of `key` needs; `None`: the row is there, and is all that the change makes.
    pub(super) fn made_by(&self, key: &Key, current: Option<&Value>, unseen: bool, change: &Change) -> Option<Changes> {
        match self.row_of(key, current, change) {
            Some(row) if current.is_none() => Some(row.is_there().filter(|made| made != change).collect()),
            // A row that is there has its key.
            Some(row) if !unseen && row.is_there().any(|key| key == *change) => None,
            _ => Some(Changes::new()),
        }
    }

    /// The row that `key` is, if `change` of it, which holds `current`, is one that makes a row where there is none and
    /// there is none, or says no more than that it is there. A row is given its key's columns when it is made, so that
    /// it is shown as the store will have it: it is there without any other.
    fn row_of(&self, key: &Key, current: Option<&Value>, change: &Change) -> Option<RowForm> {
        let asks = match (change, current) {
            (Change::SetField(field, value), Some(Value { data: Data::Hash(row), .. })) => {
                row.get(field) == Some(value)
            }
            (Change::SetField(..), None) => true,
            (Change::AddInteger { field, .. } | Change::AddFloat { field, .. }, None) => field.is_some(),
            _ => false,
        };
        match asks.then(|| self.0.form(key)) {
            Some(Form::Row(row)) => Some(row),
            _ => None,
        }
    }
}
