//! Changes with their texts in the form in which the database shows the values that they stand for. So what waits for
//! the database is shown, and computed with, as it will be in the table.
//!
//! **Invariant.** What comes out is what the database makes of what goes in. A text of which that is not sure stays.

use forebay::change::Change;
use forebay::value::Blob;

use super::dialect::Dialect;
use super::table::{Column, Kind, Table};

impl Table {
    /// `change` of a document of it, with its text as the database will show it.
    pub(crate) fn as_stored(&self, dialect: &dyn Dialect, change: Change) -> Change {
        let element = |text: Blob| match self.fields.first().map(|column| (&column.kind, column.limit.as_ref())) {
            Some((Kind::Array(element), limit)) if self.mapping.list.is_some() => dialect.shown(element, limit, text),
            _ => text,
        };
        match change {
            Change::SetField(field, text) => {
                let column = self.fields.iter().find(|column| column.field == field);
                let text = column.map_or_else(|| text.clone(), |column| of_column(dialect, column, text.clone()));
                Change::SetField(field, text)
            }
            Change::Push(end, text) => Change::Push(end, element(text)),
            Change::RemoveEqual { count, element: text } => Change::RemoveEqual { count, element: element(text) },
            other => other,
        }
    }
}

fn of_column(dialect: &dyn Dialect, column: &Column, text: Blob) -> Blob {
    match column.kind {
        Kind::Bytes | Kind::Array(_) => text,
        _ => dialect.shown(&column.type_name, column.limit.as_ref(), text),
    }
}
