//! What the file says of its tables, and what is wrong with the mappings: one line each, with the fix.

use forebay::value::Blob;
use rusqlite::{Connection, Error, OptionalExtension};

use super::triggers::{self, Unique};
use super::values::type_of;
use crate::sql::foreign::{ForeignKey, joined, references};
use crate::sql::mapping::{Mapping, VersionMode};
use crate::sql::remembered::Remembered;
use crate::sql::shared::{same_keys, share};
use crate::sql::table::{Column, Kind, ReadOnly, Table, any, quoted};
use crate::sql::tables::Tables;
use crate::sqlite::dialect::SqliteDialect;

const TABLE: &str = "\
SELECT rowid, type, name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND lower(name) = lower(?1)";

const COLUMNS: &str = "\
SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(?1) WHERE hidden <> 1";

/// Unique indexes: whether all of the rows are in it, and its columns; a column that is an expression is NULL.
const UNIQUE: &str = "\
SELECT l.name, l.partial = 0, i.name, i.coll FROM pragma_index_list(?1) l JOIN pragma_index_xinfo(l.name) i
WHERE l.\"unique\" AND i.key ORDER BY l.seq, i.seqno";

const FOREIGN_KEYS: &str = "\
SELECT t.rowid, r.rowid, f.id, f.\"from\", f.\"to\", f.seq, r.name FROM sqlite_schema t
JOIN pragma_foreign_key_list(t.name) f JOIN sqlite_schema r ON r.type = 'table' AND lower(r.name) = lower(f.\"table\")
WHERE t.type = 'table' ORDER BY t.rowid, f.id, f.seq";

/// Whether a table has triggers that are not forebay's.
const TRIGGERED: &str = "\
SELECT EXISTS (SELECT 1 FROM sqlite_schema
    WHERE type = 'trigger' AND lower(tbl_name) = lower(?1) AND name NOT LIKE 'forebay\\_%' ESCAPE '\\')";

struct Found {
    name: String,
    kind: Kind,
    type_name: &'static str,
    not_null: bool,
    has_default: bool,
    /// Its place in the primary key, from 1; 0 if it is not of that.
    primary: i64,
    generated: bool,
}

impl Found {
    fn column(&self, read_only: Option<ReadOnly>, filled: bool, others: &[String]) -> Column {
        let is_key = read_only == Some(ReadOnly::Key);
        Column {
            name: self.name.clone(),
            field: Blob::from(self.name.as_bytes()),
            kind: self.kind.clone(),
            type_name: self.type_name.to_owned(),
            read_only,
            limit: None,
            not_null: self.not_null && !filled,
            has_default: (self.has_default || self.generated || filled) && !is_key,
            // SQLite does not say from which.
            computed_from: if self.generated { others.to_vec() } else { Vec::new() },
        }
    }
}

/// The tables of `mappings` in the schema of this number.
pub(in crate::sqlite) struct Looked {
    pub(in crate::sqlite) tables: Tables,
    pub(in crate::sqlite) schema: i64,
}

/// The number that the schema has; each change of it has another.
pub(in crate::sqlite) fn schema(connection: &Connection) -> Result<i64, Error> {
    connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
}

/// Looks all mappings up; the inner error lists what is wrong. A table that is gone is as it was `remembered`, if so.
pub(in crate::sqlite) fn look_up(
    connection: &Connection,
    mappings: &[Mapping],
    remembered: Option<&Remembered>,
) -> Result<Result<Looked, Vec<String>>, Error> {
    look_up_to(connection, mappings, remembered, false)
}

/// Likewise before the triggers are made that keep versions.
pub(in crate::sqlite) fn look_up_to_prepare(
    connection: &Connection,
    mappings: &[Mapping],
) -> Result<Result<Looked, Vec<String>>, Error> {
    look_up_to(connection, mappings, None, true)
}

fn look_up_to(
    connection: &Connection,
    mappings: &[Mapping],
    remembered: Option<&Remembered>,
    to_prepare: bool,
) -> Result<Result<Looked, Vec<String>>, Error> {
    let schema = schema(connection)?;
    let (mut tables, mut wrong): (Vec<Table>, Vec<String>) = (Vec::new(), Vec::new());
    let mut last = 0;
    for mapping in mappings {
        match look_up_one(connection, mapping, to_prepare)? {
            Ok(table) => tables.push(table),
            Err(lines) => match remembered.and_then(|remembered| remembered.table(mapping)) {
                Some(table) if find(connection, mapping)?.is_none() => {
                    tracing::error!(
                        table = table.name,
                        "a mapped table is gone, and writes may wait for it: what the database refuses for that is set \
                         aside (CACHE QUARANTINE LIST); make the table again and RETRY, or DROP it"
                    );
                    // No table that is there has its number.
                    last += 1;
                    tables.push(Table { oid: u32::MAX - last, ..table.clone() });
                }
                _ => wrong.extend(lines),
            },
        }
    }
    wrong.extend(same_keys(mappings));
    share(&mut tables, &mut wrong);
    tables.iter_mut().for_each(|table| table.mapping.version = VersionMode::Side);
    let keys = foreign_keys(connection)?;
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    let named: Vec<_> = tables.iter().map(|table| references(table, &tables, &keys)).collect();
    for ((table, joined), references) in tables.iter_mut().zip(joined(&oids, &keys)).zip(named) {
        table.independent &= !keys.iter().any(|key| key.table == table.oid || key.target == table.oid);
        (table.joined, table.references) = (joined, references);
    }
    Ok(match wrong.is_empty() {
        true => Ok(Looked { tables: Tables::of(&SqliteDialect, tables), schema }),
        false => Err(wrong),
    })
}

/// The table's number, type, name and text.
type Entry = (u32, String, String, Option<String>);

fn find(connection: &Connection, mapping: &Mapping) -> Result<Option<Entry>, Error> {
    let entry = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    connection.query_row(TABLE, [&mapping.table.1], entry).optional()
}

fn columns_of(connection: &Connection, name: &str, text: &str) -> Result<Vec<Found>, Error> {
    let plain: String = text.chars().filter(|character| !character.is_whitespace()).collect::<String>().to_lowercase();
    let mut asked = connection.prepare(COLUMNS)?;
    let columns = asked.query_map([name], |row| {
        let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let lower = name.to_lowercase();
        let checks = [format!("json_valid(\"{lower}\")"), format!("json_valid({lower})")];
        let (kind, type_name) = type_of(&declared, checks.iter().any(|check| plain.contains(check)));
        let hidden: i64 = row.get(5)?;
        Ok(Found {
            name,
            kind,
            type_name,
            not_null: row.get(2)?,
            has_default: row.get(3)?,
            primary: row.get(4)?,
            generated: hidden != 0,
        })
    })?;
    columns.collect()
}

fn uniques_of(connection: &Connection, name: &str) -> Result<Vec<Unique>, Error> {
    let mut asked = connection.prepare(UNIQUE)?;
    let mut rows = asked.query([name])?;
    let mut found: Vec<(String, Unique)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (index, whole): (String, bool) = (row.get(0)?, row.get(1)?);
        let (column, collation): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        if found.last().is_none_or(|(name, _)| *name != index) {
            found.push((index, Unique { columns: Vec::new(), exact: whole }));
        }
        let Some((_, unique)) = found.last_mut() else { continue };
        unique.exact &= column.is_some() && collation.is_some_and(|name| name.eq_ignore_ascii_case("BINARY"));
        unique.columns.extend(column);
    }
    Ok(found.into_iter().map(|(_, unique)| unique).collect())
}

fn is_just(columns: &[String], key: &[String]) -> bool {
    columns.len() == key.len() && key.iter().all(|column| columns.contains(column))
}

/// A table as the file has it, and what a mapping takes of it.
struct Chosen<'a> {
    columns: &'a [Found],
    uniques: &'a [Unique],
    key: Vec<&'a Found>,
    named: Vec<&'a Found>,
}

impl Chosen<'_> {
    /// What no row of a mapped table may be, one line each.
    fn of<'a>(
        mapping: &Mapping,
        name: &str,
        (columns, uniques): (&'a [Found], &'a [Unique]),
        wrong: &mut Vec<String>,
    ) -> Chosen<'a> {
        let mut find = |of: &String| {
            let found = columns.iter().find(|column| column.name == *of);
            if found.is_none() {
                let there: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                wrong.push(format!("{name} has no column {of}; it has {}", there.join(", ")));
            }
            found
        };
        let key: Vec<&Found> = mapping.key.iter().filter_map(&mut find).collect();
        let named: Vec<&Found> = match &mapping.fields {
            Some(fields) => fields.iter().filter_map(&mut find).collect(),
            None => columns.iter().collect(),
        };
        for column in &mapping.read_only {
            find(column);
        }
        let chosen = Chosen { columns, uniques, key, named };
        chosen.check_key(mapping, name, wrong);
        chosen
    }

    /// Adds to `wrong` why the columns of the key do not name one row each.
    fn check_key(&self, mapping: &Mapping, name: &str, wrong: &mut Vec<String>) {
        for column in self.key.iter().filter(|column| !matches!(column.type_name, "integer" | "text")) {
            let (column, type_name) = (&column.name, column.type_name);
            wrong.push(format!("{column} is {type_name}; a key's columns are integers or texts"));
        }
        let is_primary = |column: &&Found| column.primary > 0;
        let primary: Vec<String> = self.columns.iter().filter(is_primary).map(|column| column.name.clone()).collect();
        // An INTEGER PRIMARY KEY is the row's number, and has no index.
        let is_integer = self.key.iter().all(|column| column.kind == Kind::Integer);
        let is_number = primary.len() == 1 && is_just(&primary, &mapping.key) && is_integer;
        let of_key = |unique: &&Unique| is_just(&unique.columns, &mapping.key);
        let named = self.key.len() == mapping.key.len();
        if !named || is_number || self.uniques.iter().filter(of_key).any(|unique| unique.exact) {
            return;
        }
        let list = mapping.key.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        wrong.push(match self.uniques.iter().any(|unique| of_key(&unique)) {
            true => format!(
                "the unique index of {name} on {list} leaves rows out, or takes texts for equal that are not, so one \
                 row would have several keys; map by other columns"
            ),
            false => format!(
                "no unique index of {name} is on just {list}; CREATE UNIQUE INDEX {} ON {} ({list})",
                quoted(&format!("{name}_key")),
                quoted(name)
            ),
        });
    }

    /// The table, with `filled` if triggers may put a value where a statement has put none.
    fn table(&self, mapping: &Mapping, name: &str, oid: u32, filled: bool) -> Table {
        let all: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let key: Vec<Column> = self.key.iter().map(|column| column.column(Some(ReadOnly::Key), filled, &[])).collect();
        let read_only = |column: &Found| match column {
            _ if column.generated => Some(ReadOnly::Generated),
            _ if mapping.read_only.contains(&column.name) => Some(ReadOnly::Declared),
            _ => None,
        };
        let others = self.named.iter().filter(|column| !mapping.key.contains(&column.name));
        let others = others.map(|column| column.column(read_only(column), filled, &all));
        let fields = key.iter().cloned().chain(others).collect();
        let given = |column: &&Found| {
            column.not_null && !column.has_default && !column.generated && !mapping.key.contains(&column.name)
        };
        let needed = self.columns.iter().filter(|column| !filled && given(column));
        Table {
            mapping: mapping.clone(),
            name: quoted(name),
            oid,
            key,
            fields,
            needed: needed.map(|column| column.name.clone()).collect(),
            may_delete: true,
            unique_index: String::new(),
            independent: !filled && self.uniques.iter().all(|unique| is_just(&unique.columns, &mapping.key)),
            returning: false,
            plain: !self.columns.iter().any(|column| column.generated),
            joined: oid,
            row_bytes_max: any(),
            references: Vec::new(),
            doubt: None,
        }
    }
}

fn look_up_one(
    connection: &Connection,
    mapping: &Mapping,
    to_prepare: bool,
) -> Result<Result<Table, Vec<String>>, Error> {
    let said = |what: &str| format!("--map '{mapping}': {what}");
    let (schema, wanted) = &mapping.table;
    if let Some(schema) = schema.as_ref().filter(|schema| *schema != "main") {
        return Ok(Err(vec![said(&format!("SQLite has no schemas; leave {schema} out"))]));
    }
    let Some((oid, kind, name, text)) = find(connection, mapping)? else {
        return Ok(Err(vec![said(&format!("there is no table {}; make it first", quoted(wanted)))]));
    };
    let text = text.unwrap_or_default();
    let mut wrong = Vec::new();
    if kind != "table" || text.trim_start().to_ascii_lowercase().starts_with("create virtual") {
        wrong.push(format!("{name} is not a table; name the table under it"));
    }
    if mapping.list.is_some() {
        wrong.push("SQLite has no arrays, so no column is a list; map the row as a hash".to_owned());
    }
    if matches!(mapping.version, VersionMode::Column | VersionMode::None) {
        let mode = mapping.version.word();
        wrong.push(format!("SQLite keeps versions beside the table; leave version({mode}) out"));
    }
    let (columns, uniques) = (columns_of(connection, &name, &text)?, uniques_of(connection, &name)?);
    let chosen = Chosen::of(mapping, &name, (&columns, &uniques), &mut wrong);
    if !wrong.is_empty() {
        return Ok(Err(wrong.iter().map(|what| said(what)).collect()));
    }
    let filled: bool = connection.query_row(TRIGGERED, [&name], |row| row.get(0))?;
    let table = chosen.table(mapping, &name, oid, filled);
    if !to_prepare && !triggers_of(connection, &table)?.1 {
        let why = format!("{name} keeps no versions yet, or not as it is now; run `forebay store init`");
        return Ok(Err(vec![said(&why)]));
    }
    Ok(Ok(table))
}

/// The triggers that `table` is to have, and whether it has them.
pub(in crate::sqlite) fn triggers_of(connection: &Connection, table: &Table) -> Result<(Vec<String>, bool), Error> {
    let name = triggers::plain(&table.name);
    let uniques = uniques_of(connection, &name)?;
    let others: Vec<Unique> =
        uniques.into_iter().filter(|unique| !is_just(&unique.columns, &table.mapping.key)).collect();
    Ok((triggers::script(table, &others), triggers::are_there(connection, table, &others)?))
}

fn foreign_keys(connection: &Connection) -> Result<Vec<ForeignKey>, Error> {
    let mut asked = connection.prepare(FOREIGN_KEYS)?;
    let mut rows = asked.query([])?;
    let mut keys: Vec<(i64, ForeignKey)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (table, target, id): (u32, u32, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (from, to, seq): (String, Option<String>, usize) = (row.get(3)?, row.get(4)?, row.get(5)?);
        if keys.last().is_none_or(|(last, key)| *last != id || key.table != table) {
            keys.push((id, ForeignKey { table, target, columns: Vec::new(), target_columns: Vec::new() }));
        }
        let to = match to {
            Some(to) => Some(to),
            // The target's primary key is meant.
            None => primary_column(connection, &row.get::<_, String>(6)?, seq)?,
        };
        let Some((_, key)) = keys.last_mut() else { continue };
        key.columns.push(from);
        key.target_columns.extend(to);
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

fn primary_column(connection: &Connection, table: &str, at: usize) -> Result<Option<String>, Error> {
    let asked = "SELECT name FROM pragma_table_info(?1) WHERE pk = ?2";
    connection.query_row(asked, rusqlite::params![table, at as i64 + 1], |row| row.get(0)).optional()
}
