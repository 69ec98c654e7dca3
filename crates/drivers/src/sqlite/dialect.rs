//! What SQLite thinks of keys and values, told without asking it.

use forebay::store::Write;
use forebay::value::Blob;

use super::rows::{values, writing};
use crate::sql::dialect::Dialect;
use crate::sql::table::{Column, Kind, Limit, Table};

/// The rules of SQLite.
pub(super) struct SqliteDialect;

impl Dialect for SqliteDialect {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn key_text(&self, column: &Column, text: &str) -> Option<String> {
        let canonical = match column.kind {
            Kind::Integer => text.trim().parse::<i64>().ok()?.to_string(),
            _ => text.to_owned(),
        };
        self.is_key_text(column, &canonical).then_some(canonical)
    }

    fn is_key_text(&self, column: &Column, part: &str) -> bool {
        match column.kind {
            Kind::Integer => part.parse::<i64>().is_ok_and(|number| number.to_string() == part),
            // SQLite's quote() ends a text there.
            _ => !part.contains('\0'),
        }
    }

    fn shown(&self, type_name: &str, _limit: Option<&Limit>, text: Blob) -> Blob {
        values::as_shown(type_name, text)
    }

    fn value_refused(&self, type_name: &str, _limit: Option<&Limit>, text: &str) -> Option<String> {
        values::refused(type_name, text)
    }

    fn write_refused(&self, table: &Table, parts: &[&str], write: &Write) -> Option<String> {
        writing::change_of(table, parts, write).err()
    }
}
