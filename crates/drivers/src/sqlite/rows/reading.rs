//! Rows as documents.

use forebay::store::ReadError;
use forebay::value::{Blob, Data, Hash, Value};
use forebay::{Key, Read, Version};
use rusqlite::{Connection, Error, OptionalExtension, params_from_iter};

use super::keys;
use super::triggers::{plain, text};
use super::values::shown;
use crate::sql::table::{Column, Kind, Table, quoted};
use crate::sqlite::read_failed::ReadFailed;

/// The number of the last write of any row.
pub(in crate::sqlite) fn last_write(connection: &Connection) -> Result<u64, Error> {
    let mut asked = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'forebay_rows'")?;
    Ok(asked.query_row([], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0).cast_unsigned())
}

/// The condition that the row `t` has the key whose parts are the first parameters.
pub(super) fn has_key(table: &Table) -> String {
    let equal = |(at, column): (usize, &Column)| format!("t.{} = ?{}", quoted(&column.name), at + 1);
    table.key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ")
}

/// The parameters of [`has_key`].
pub(super) fn key_values(table: &Table, parts: &[&str]) -> Vec<rusqlite::types::Value> {
    let value = |(column, part): (&Column, &&str)| match (&column.kind, part.parse()) {
        (Kind::Integer, Ok(number)) => rusqlite::types::Value::Integer(number),
        _ => rusqlite::types::Value::Text((*part).to_owned()),
    };
    table.key.iter().zip(parts).map(value).collect()
}

/// The number of the last write of the row with this key, as far as it was noted; that of the moment from which on
/// writes are noted, if it was not written since.
fn version(table: &Table, at: usize) -> String {
    let tab = text(&plain(&table.name));
    format!(
        "coalesce((SELECT version FROM forebay_rows WHERE tab = {tab} AND key = ?{at}), \
         (SELECT version FROM forebay_rows WHERE tab = {tab} AND key = ''), 0)"
    )
}

fn of_absence(connection: &Connection, incarnation: u64) -> Result<Version, Error> {
    // Odd numbers are those of absence: it lies after all rows before it.
    Ok(Version { incarnation, sequence: 2 * last_write(connection)? + 1 })
}

/// Reads the row with this key.
pub(in crate::sqlite) fn get(
    connection: &Connection,
    (table, key, parts): (&Table, &Key, &[&str]),
    incarnation: u64,
) -> Result<Read, ReadFailed> {
    let columns: Vec<String> = table.fields.iter().map(|column| format!(", t.{}", quoted(&column.name))).collect();
    let (name, version) = (&table.name, version(table, parts.len() + 1));
    let statement = format!("SELECT {version}{} FROM {name} t WHERE {}", columns.concat(), has_key(table));
    let mut statement = connection.prepare_cached(&statement)?;
    let mut values = key_values(table, parts);
    values.push(rusqlite::types::Value::Text(keys::text(&table.key, parts)));
    let mut rows = statement.query(params_from_iter(values))?;
    let Some(row) = rows.next()? else {
        return Ok(Read { value: None, version: of_absence(connection, incarnation)? });
    };
    let number: i64 = row.get(0)?;
    let (mut fields, mut bytes) = (Vec::with_capacity(table.fields.len()), 0);
    for (at, column) in table.fields.iter().enumerate() {
        if let Some(value) = shown(row.get_ref(at + 1)?) {
            bytes += value.len();
            fields.push((column.field.clone(), value));
        }
    }
    if bytes > table.row_bytes_max {
        let why = table.too_large(key, bytes);
        return Err(ReadError::Refused { key: key.clone(), why }.into());
    }
    let hash: Hash = fields.into_iter().collect::<Hash>();
    let value = Some(Value { data: Data::Hash(hash), expires_at_ms: None });
    Ok(Read { value, version: Version { incarnation, sequence: 2 * number.cast_unsigned() } })
}

/// Whether the row with this key is as it was at `version`, whichever incarnation that was read in.
pub(in crate::sqlite) fn is_at(
    connection: &Connection,
    table: &Table,
    parts: &[&str],
    wanted: Version,
) -> Result<bool, Error> {
    let (name, version) = (&table.name, version(table, parts.len() + 1));
    let statement = format!("SELECT {version} FROM {name} t WHERE {}", has_key(table));
    let mut values = key_values(table, parts);
    values.push(rusqlite::types::Value::Text(keys::text(&table.key, parts)));
    let mut statement = connection.prepare_cached(&statement)?;
    let found: Option<i64> = statement.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
    Ok(match found {
        Some(number) => wanted.sequence == 2 * number.cast_unsigned(),
        None => !wanted.sequence.is_multiple_of(2),
    })
}

/// The number under which the last write of the row with this key was noted.
pub(in crate::sqlite) fn noted(connection: &Connection, table: &Table, parts: &[&str]) -> Result<Option<u64>, Error> {
    let mut asked = connection.prepare_cached("SELECT version FROM forebay_rows WHERE tab = ?1 AND key = ?2")?;
    let found = asked.query_row([plain(&table.name), keys::text(&table.key, parts)], |row| row.get::<_, i64>(0));
    Ok(found.optional()?.map(i64::cast_unsigned))
}

/// The keys of rows after one, in the order of their columns.
pub(in crate::sqlite) fn scan(
    connection: &Connection,
    table: &Table,
    after: Option<&[&str]>,
    limit: usize,
) -> Result<Vec<Key>, ReadFailed> {
    let names: Vec<String> = table.key.iter().map(|column| format!("t.{}", quoted(&column.name))).collect();
    let there: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let (list, there, name) = (names.join(", "), there.join(" AND "), &table.name);
    let mut values = Vec::new();
    let behind = match after {
        Some(parts) => {
            values = key_values(table, parts);
            let places: Vec<String> = (1..=values.len()).map(|at| format!("?{at}")).collect();
            format!(" AND ({list}) > ({})", places.join(", "))
        }
        None => String::new(),
    };
    let statement = format!("SELECT {list} FROM {name} t WHERE {there}{behind} ORDER BY {list}");
    let mut statement = connection.prepare_cached(&statement)?;
    let rows = statement.query(params_from_iter(values))?;
    crate::sqlite::names::bounded(rows, limit, |row| {
        let part = |at: usize| {
            let value = row.get_ref(at).ok()?;
            // A value of another type than its column's names no key.
            match (&table.key[at].kind, value) {
                (Kind::Integer, rusqlite::types::ValueRef::Integer(_))
                | (Kind::Text, rusqlite::types::ValueRef::Text(_)) => {
                    let shown: Blob = shown(value)?;
                    String::from_utf8(shown.to_vec()).ok().filter(|text| !text.contains('\0'))
                }
                _ => None,
            }
        };
        let parts: Option<Vec<String>> = (0..table.key.len()).map(part).collect();
        let named = parts.and_then(|parts| table.mapping.join_name(&parts));
        Ok(named.map(|name| Key::new(0, name.as_bytes())))
    })
}

/// Number of rows that have a key.
pub(in crate::sqlite) fn count(connection: &Connection, table: &Table) -> Result<u64, Error> {
    let there: Vec<String> = table.key.iter().map(|column| format!("t.{} IS NOT NULL", quoted(&column.name))).collect();
    let statement = format!("SELECT count(*) FROM {} t WHERE {}", table.name, there.join(" AND "));
    Ok(connection.query_row(&statement, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}
