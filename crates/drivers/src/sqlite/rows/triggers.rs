//! What keeps versions of rows and notes what others write: three or four triggers for each mapped table.
//!
//! **Invariant.** Whatever changes, makes or removes a row of a mapped table gives it a greater version in
//! `forebay_rows`, in that very transaction. A commit that compares versions sees in the snapshot
//! that it compares that the triggers are there, by the number of the schema ([`super::catalogue::schema`]).
//!
//! REPLACE removes rows that have the same value in another unique index, and runs no triggers for them. So a trigger
//! before gives these another version, too: too many where they stay after all. The statements name no conflict
//! clause, for that of the statement which runs the trigger would take its place.

use rusqlite::{Connection, Error, OptionalExtension};

use super::keys::expression;
use crate::sql::table::{Table, quoted};

/// A unique index over columns.
pub(super) struct Unique {
    pub(super) columns: Vec<String>,
    /// Each of its columns is compared byte by byte, and all rows are in it.
    pub(super) exact: bool,
}

/// A name without its quotes.
pub(super) fn plain(name: &str) -> String {
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name).replace("\"\"", "\"")
}

/// A text as SQL has it.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The names and texts of the triggers of `table`, whose unique indexes beside the key's are `others`.
fn triggers(table: &Table, others: &[Unique]) -> Vec<(String, String)> {
    let name = plain(&table.name);
    let (tab, key) = (text(&name), |row: &str| expression(row, table.key.iter()));
    let note = |row: &str, gone: u8| {
        format!(
            "DELETE FROM forebay_rows WHERE tab = {tab} AND key = {key}; \
             INSERT INTO forebay_rows (tab, key, gone) VALUES ({tab}, {key}, {gone}); ",
            key = key(row)
        )
    };
    let moved = format!(
        "DELETE FROM forebay_rows WHERE tab = {tab} AND key = {old} AND {old} IS NOT {new}; \
         INSERT INTO forebay_rows (tab, key, gone) SELECT {tab}, {old}, 1 WHERE {old} IS NOT {new}; ",
        old = key("OLD"),
        new = key("NEW")
    );
    let mut made = vec![
        ("insert", "AFTER INSERT", note("NEW", 0)),
        ("update", "AFTER UPDATE", moved + &note("NEW", 0)),
        ("delete", "AFTER DELETE", note("OLD", 1)),
    ];
    let victims: String = others
        .iter()
        .filter(|unique| !unique.columns.is_empty())
        .map(|unique| {
            let same: Vec<String> =
                unique.columns.iter().map(|column| format!("t.{0} = NEW.{0}", quoted(column))).collect();
            let (key, same, table) = (key("t"), same.join(" AND "), &table.name);
            format!(
                "DELETE FROM forebay_rows WHERE tab = {tab} AND key IN (SELECT {key} FROM {table} t WHERE {same}); \
                 INSERT INTO forebay_rows (tab, key, gone) SELECT {tab}, {key}, 0 FROM {table} t WHERE {same}; "
            )
        })
        .collect();
    if !victims.is_empty() {
        made.push(("replace", "BEFORE INSERT", victims.clone()));
        made.push(("replace_update", "BEFORE UPDATE", victims));
    }
    let trigger = |(word, when, body): (&str, &str, String)| {
        let trigger = format!("forebay_{name}_{word}");
        let made = format!("CREATE TRIGGER {} {when} ON {} BEGIN {body}END", quoted(&trigger), table.name);
        (trigger, made)
    };
    made.into_iter().map(trigger).collect()
}

/// Whether the triggers of `table` are there, as this program makes them.
pub(super) fn are_there(connection: &Connection, table: &Table, others: &[Unique]) -> Result<bool, Error> {
    let there: Option<i64> = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'forebay_rows'", [], |row| row.get(0))
        .optional()?;
    if there.is_none() {
        return Ok(false);
    }
    let mut asked = connection.prepare_cached("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?1")?;
    for (name, made) in triggers(table, others) {
        let found: Option<String> = asked.query_row([name], |row| row.get(0)).optional()?;
        if found.as_ref() != Some(&made) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The statements that make them, whatever is there. Versions that were kept before are forgotten: all rows that are
/// there have one that is new.
pub(super) fn script(table: &Table, others: &[Unique]) -> Vec<String> {
    let name = plain(&table.name);
    let words = ["insert", "update", "delete", "replace", "replace_update"];
    let drop = words.map(|word| format!("DROP TRIGGER IF EXISTS {}", quoted(&format!("forebay_{name}_{word}"))));
    let tab = text(&name);
    let began = [
        format!("DELETE FROM forebay_rows WHERE tab = {tab}"),
        format!("INSERT INTO forebay_rows (tab, key, gone) VALUES ({tab}, '', 0)"),
    ];
    drop.into_iter().chain(triggers(table, others).into_iter().map(|(_, made)| made)).chain(began).collect()
}
