//! What the functions that note changes have in their texts.

use super::rows::sql::quoted_text;
use crate::sql::table::quoted;

/// The type of a key's texts, with its schema: the functions that note changes have their owner's rights and whatever
/// `search_path` the writer has.
pub(super) const TEXT: &str = "pg_catalog.text";

/// The key of the row `row` as an array of texts.
pub(super) fn key_of<'a>(row: &str, text: &str, columns: impl Iterator<Item = &'a str>) -> String {
    let parts: Vec<String> = columns.map(|column| format!("{row}.{}::{text}", quoted(column))).collect();
    format!("ARRAY[{}]", parts.join(", "))
}

/// What the function that notes changes has in its text, one or the other, if it notes those of just this table, by
/// this key; the second is how an older forebay wrote it.
pub(super) fn notes(table: &str, key: &[String]) -> [String; 2] {
    let noted = |text| format!("({}, {})", quoted_text(table), key_of("NEW", text, key.iter().map(String::as_str)));
    [noted(TEXT), noted("text")]
}
