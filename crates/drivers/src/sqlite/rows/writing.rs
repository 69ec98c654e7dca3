//! Changes of documents as changes of their rows. The file is locked by the transaction, so what a row holds is read,
//! computed with, and written, and nothing comes between.

use forebay::store::Write;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::reading::{has_key, key_values};
use super::values::{sum, value_of};
use crate::sql::failure::Failure;
use crate::sql::row_change::{Base, RowChange, Set};
use crate::sql::table::{Column, Table, quoted};
use crate::sqlite::error::failure;

/// What `write` comes to in the row with this key; why not, if the row does not take it.
pub(in crate::sqlite) fn change_of<'a>(
    table: &'a Table,
    parts: &[&str],
    write: &Write,
) -> Result<RowChange<'a>, String> {
    if !table.form(parts).takes(&write.changes) {
        return Err(table.untaken(&write.changes));
    }
    if let Some(why) = table.outgrown(write) {
        return Err(why);
    }
    table.row_change(parts, &write.changes)
}

/// Makes `write` to the row with this key.
pub(in crate::sqlite) fn write(
    connection: &Connection,
    table: &Table,
    parts: &[&str],
    write: &Write,
) -> Result<(), Failure> {
    let change = change_of(table, parts, write).map_err(Failure::Refused)?;
    let execute = |statement: &str, values: Vec<Value>| {
        let executed = connection.prepare_cached(statement).and_then(|mut s| s.execute(params_from_iter(values)));
        executed.map_err(|error| failure(&error))
    };
    let (name, condition, key) = (&table.name, has_key(table), key_values(table, parts));
    if change.deleted {
        execute(&format!("DELETE FROM {name} AS t WHERE {condition}"), key.clone())?;
    }
    if !change.inserts && change.sets.is_empty() {
        return Ok(());
    }
    match row_of(connection, table, &change, key.clone())? {
        Some(row) => {
            let changed = change.sets.iter().zip(&row);
            let changed = changed.map(|((column, set), before)| {
                let base = match &set.base {
                    Base::Row => before.clone(),
                    Base::Emptied | Base::Null => Value::Null,
                    Base::Value(bytes) => value_of(column, bytes)?,
                };
                Ok((*column, added(column, set, base)?))
            });
            let changed: Vec<(&Column, Value)> = changed.collect::<Result<_, String>>().map_err(Failure::Refused)?;
            if changed.is_empty() {
                return Ok(());
            }
            let sets: Vec<String> = changed
                .iter()
                .enumerate()
                .map(|(at, (column, _))| format!("{} = ?{}", quoted(&column.name), key.len() + at + 1))
                .collect();
            let statement = format!("UPDATE {name} AS t SET {} WHERE {condition}", sets.join(", "));
            execute(&statement, key.into_iter().chain(changed.into_iter().map(|(_, value)| value)).collect())?;
        }
        None if change.inserts => {
            let mut given: Vec<(&Column, Value)> = table.key.iter().zip(key).collect();
            for (column, set) in &change.sets {
                let base = match &set.base {
                    // What the table fills, unless something is added.
                    Base::Row | Base::Emptied if set.whole.is_none() && set.parts.is_empty() => continue,
                    Base::Row | Base::Emptied | Base::Null => Value::Null,
                    Base::Value(bytes) => value_of(column, bytes).map_err(Failure::Refused)?,
                };
                given.push((column, added(column, set, base).map_err(Failure::Refused)?));
            }
            let (columns, values): (Vec<String>, Vec<Value>) =
                given.into_iter().map(|(column, value)| (quoted(&column.name), value)).unzip();
            let places: Vec<String> = (1..=values.len()).map(|at| format!("?{at}")).collect();
            let (columns, places) = (columns.join(", "), places.join(", "));
            execute(&format!("INSERT INTO {name} ({columns}) VALUES ({places})"), values)?;
        }
        None => {}
    }
    Ok(())
}

/// What the columns that `change` sets hold in the row, if that is there.
fn row_of(
    connection: &Connection,
    table: &Table,
    change: &RowChange<'_>,
    key: Vec<Value>,
) -> Result<Option<Vec<Value>>, Failure> {
    let columns: Vec<String> = change.sets.iter().map(|(column, _)| format!(", t.{}", quoted(&column.name))).collect();
    let statement = format!("SELECT 1{} FROM {} t WHERE {}", columns.concat(), table.name, has_key(table));
    let row = connection.prepare_cached(&statement).and_then(|mut asked| {
        let values = |row: &rusqlite::Row<'_>| (1..=change.sets.len()).map(|at| row.get(at)).collect();
        asked.query_row(params_from_iter(key), values).optional()
    });
    row.map_err(|error| failure(&error))
}

fn added(column: &Column, set: &Set, base: Value) -> Result<Value, String> {
    match set.whole.is_none() && set.parts.is_empty() {
        true => Ok(base),
        false => sum(column, &base, set.whole, &set.parts),
    }
}
