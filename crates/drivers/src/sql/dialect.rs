//! What an SQL database thinks of keys and values, as far as it can be told without asking it. A driver brings one.

use forebay::store::Write;
use forebay::value::Blob;

use super::table::{Column, Limit, Table};

/// The rules of one database. Each answer is sure: where the rules do not tell, the answer is that nothing is known.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The database's name, as errors have it: `PostgreSQL`.
    fn name(&self) -> &'static str;

    /// `text` as the database writes a value of this column of a key; `None` where it is no such value.
    fn key_text(&self, column: &Column, text: &str) -> Option<String>;

    /// Whether `part` of a key's name is how the database writes a value of this column.
    fn is_key_text(&self, column: &Column, part: &str) -> bool;

    /// `text`, a value of this type, as the database shows it; as it is where that is not sure.
    fn shown(&self, type_name: &str, limit: Option<&Limit>, text: Blob) -> Blob;

    /// Why `text` is no value of this type, or more than the column holds.
    fn value_refused(&self, type_name: &str, limit: Option<&Limit>, text: &str) -> Option<String>;

    /// Why no statement makes `write` to the row with this key.
    fn write_refused(&self, table: &Table, parts: &[&str], write: &Write) -> Option<String>;
}
