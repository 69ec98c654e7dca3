//! What binds rows of different tables to each other: foreign keys, also of tables that no mapping names, since what
//! happens to a row may reach another through them; and which rows a change makes a row name by them.

use std::collections::HashMap;

use forebay::Key;
use forebay::change::Change;
use forebay::value::Data;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, Error};

use super::catalogue::{Column, Table};
use super::rows::Rows;

/// All foreign keys of the database; partitions and children of a table are bound to it without columns.
const FOREIGN_KEYS: &str = "\
SELECT c.conrelid, c.confrelid,
    ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place),
    ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number ORDER BY k.place)
FROM pg_constraint c WHERE c.contype = 'f'
UNION ALL SELECT inhrelid, inhparent, '{}'::text[], '{}'::text[] FROM pg_inherits";

/// A foreign key.
#[derive(Clone, Debug)]
pub(in crate::postgres) struct ForeignKey {
    /// The table that has it.
    pub(in crate::postgres) table: u32,
    /// The table whose rows it names.
    pub(in crate::postgres) target: u32,
    /// Its columns, and those of the target, in one order.
    pub(in crate::postgres) columns: Vec<String>,
    pub(in crate::postgres) target_columns: Vec<String>,
}

/// All of the database.
pub(in crate::postgres) async fn foreign_keys(client: &Client) -> Result<Vec<ForeignKey>, Error> {
    let rows = client.query(FOREIGN_KEYS, &[]).await?;
    let key = |row: &tokio_postgres::Row| {
        Ok(ForeignKey {
            table: row.try_get(0)?,
            target: row.try_get(1)?,
            columns: row.try_get(2)?,
            target_columns: row.try_get(3)?,
        })
    };
    rows.iter().map(key).collect()
}

/// How rows of one mapped table name rows of another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::postgres) struct Reference {
    /// The place of the other's mapping.
    target: usize,
    /// For each column of its key the one that holds the same.
    columns: Vec<String>,
}

impl Reference {
    /// Those that `table` has to the rows that are documents by their foreign keys.
    pub(super) fn all(table: &Table, tables: &[Table], keys: &[ForeignKey]) -> Vec<Reference> {
        let mut found = Vec::new();
        for key in keys.iter().filter(|key| key.table == table.oid) {
            for (target, other) in tables.iter().enumerate().filter(|(_, other)| other.oid == key.target) {
                let same = |column: &Column| {
                    let at = key.target_columns.iter().position(|name| *name == column.name);
                    at.and_then(|at| key.columns.get(at).cloned())
                };
                let columns: Option<Vec<String>> = other.key.iter().map(same).collect();
                // By other columns than its mapping's the row has no name here.
                if let Some(columns) = columns.filter(|columns| columns.len() == key.columns.len()) {
                    found.push(Reference { target, columns });
                }
            }
        }
        found
    }
}

impl Table {
    /// The texts of the columns of a row that `changes` set or that its key says; nothing of a row that they remove.
    fn set_by<'a>(&'a self, parts: &[&str], changes: &[Change]) -> HashMap<&'a str, String> {
        let key = || self.key.iter().zip(parts).map(|(column, part)| (column.name.as_str(), (*part).to_owned()));
        let mut texts: HashMap<&str, String> = key().collect();
        let set = |texts: &mut HashMap<&'a str, String>, change: &Change| {
            let (field, text) = match change {
                Change::SetField(field, value) => (field, std::str::from_utf8(value).ok()),
                Change::UnsetField(field) | Change::AddInteger { field: Some(field), .. } => (field, None),
                _ => return,
            };
            let Some(column) = self.fields.iter().find(|column| column.name.as_bytes() == &**field) else { return };
            match text {
                Some(text) => drop(texts.insert(&column.name, text.to_owned())),
                None => drop(texts.remove(column.name.as_str())),
            }
        };
        for change in changes {
            match change {
                Change::Delete => texts.clear(),
                Change::Put(value) => {
                    texts.extend(key());
                    let Data::Bytes(text) = &value.data else { continue };
                    // What it may not be is refused by who makes the statement.
                    let object = self.changes_of_object(parts, &text.joined()).unwrap_or_default();
                    object.iter().for_each(|change| set(&mut texts, change));
                }
                change => {
                    texts.extend(key());
                    set(&mut texts, change);
                }
            }
        }
        texts
    }
}

impl Rows {
    /// The rows that the row of `key` names by its foreign keys, as far as `changes` and its own key say.
    pub(in crate::postgres) fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        let Ok(place) = self.place(key) else { return Vec::new() };
        let table = &self.tables[place.table];
        if table.references.is_empty() {
            return Vec::new();
        }
        let texts = table.set_by(&place.parts, changes);
        let named = |reference: &Reference| {
            let target = &self.tables[reference.target];
            let part = |(name, column): (&String, &Column)| canonical(column, texts.get(name.as_str())?);
            let parts: Option<Vec<String>> = reference.columns.iter().zip(&target.key).map(part).collect();
            target.mapping.join_name(&parts?).map(|name| Key::new(0, name.as_bytes()))
        };
        table.references.iter().filter_map(named).collect()
    }
}

/// `text` as PostgreSQL writes a value of this column of a key; `None` where it does not look like one.
fn canonical(column: &Column, text: &str) -> Option<String> {
    let canonical = match column.type_name.as_str() {
        "smallint" | "integer" | "bigint" => text.trim().parse::<i64>().ok()?.to_string(),
        "uuid" => {
            let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
            let at = |from: usize, to: usize| digits.get(from..to);
            format!("{}-{}-{}-{}-{}", at(0, 8)?, at(8, 12)?, at(12, 16)?, at(16, 20)?, at(20, digits.len())?)
        }
        _ => text.to_owned(),
    };
    Table::is_canonical(column, &canonical).then_some(canonical)
}

/// The tables that columns of `$2` of a table refer to, and the columns of its primary key.
const REFERS: &str = "SELECT ARRAY(SELECT DISTINCT confrelid::regclass::text FROM pg_constraint \
     WHERE conrelid = $1 AND contype = 'f' AND conkey <@ ARRAY(SELECT attnum FROM pg_attribute \
     WHERE attrelid = $1 AND attname = ANY ($2))), \
     ARRAY(SELECT attname::text FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey) \
     WHERE conrelid = $1 AND contype = 'p' ORDER BY array_position(conkey, attnum))";

/// What to do about a mapping whose key columns have no unique index. Where they refer to another table, many rows
/// have the same value as a rule, and a unique index would forbid that.
pub(super) async fn without_unique_index(
    client: &Client,
    oid: u32,
    name: &str,
    columns: &[String],
) -> Result<String, Error> {
    let list = columns.join(", ");
    let row = client.query_one(REFERS, &[&oid, &columns]).await?;
    let (tables, primary): (Vec<String>, Vec<String>) = (row.get(0), row.get(1));
    let missing = format!("no unique index of {name} is on just {list}");
    Ok(match (tables.first(), primary.is_empty()) {
        (None, _) => format!("{missing}; CREATE UNIQUE INDEX ON {name} ({list})"),
        (Some(table), true) => format!("{missing}, which refers to {table}; map a key that names one row"),
        (Some(table), false) => {
            format!("{missing}, which refers to {table}; map the primary key: {name}({})", primary.join(", "))
        }
    })
}

/// For each of `tables` a number that it has in common with just those that foreign keys join it to, over however many
/// steps: the place of the first of them.
pub(super) fn joined(tables: &[u32], keys: &[ForeignKey]) -> Vec<u32> {
    // Each table leads to one that it is joined to; a root leads to itself.
    let mut leads: HashMap<u32, u32> = HashMap::new();
    let root = |leads: &mut HashMap<u32, u32>, mut table: u32| {
        loop {
            let next = *leads.entry(table).or_insert(table);
            if next == table {
                return table;
            }
            let behind = *leads.entry(next).or_insert(next);
            leads.insert(table, behind);
            table = behind;
        }
    };
    for key in keys {
        let (from, to) = (root(&mut leads, key.table), root(&mut leads, key.target));
        leads.insert(from, to);
    }
    let mut first: HashMap<u32, u32> = HashMap::new();
    let number = |(at, table): (usize, &u32)| *first.entry(root(&mut leads, *table)).or_insert(at as u32);
    tables.iter().enumerate().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: u32, target: u32) -> ForeignKey {
        ForeignKey { table, target, columns: Vec::new(), target_columns: Vec::new() }
    }

    /// Which tables can be reached from each, step by step.
    fn naive(tables: &[u32], keys: &[ForeignKey]) -> Vec<u32> {
        let component = |start: u32| {
            let mut found = vec![start];
            let mut at = 0;
            while let Some(table) = found.get(at).copied() {
                let both = keys.iter().flat_map(|key| [(key.table, key.target), (key.target, key.table)]);
                let next: Vec<u32> = both.filter(|(from, _)| *from == table).map(|(_, to)| to).collect();
                found.extend(next.into_iter().filter(|to| !found.contains(to)).collect::<Vec<_>>());
                at += 1;
            }
            found
        };
        let first = |table: &u32| {
            let reached = component(*table);
            tables.iter().position(|other| reached.contains(other)).expect("at least itself") as u32
        };
        tables.iter().map(first).collect()
    }

    #[test]
    fn tables_are_joined_over_any_number_of_steps() {
        // 1 <- 2 <- 9 -> 5, where nobody maps 9; 7 names itself; 3 stands alone; 4 twice.
        let keys = [key(2, 1), key(9, 2), key(9, 5), key(7, 7)];
        assert_eq!(joined(&[3, 5, 1, 7, 4, 2, 4], &keys), [0, 1, 1, 3, 4, 1, 4]);
        let mut word = 1u64;
        let mut below = |limit: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((word >> 33) % limit) as u32
        };
        for round in 0..500 {
            let keys: Vec<ForeignKey> = (0..below(12)).map(|_| key(below(12), below(12))).collect();
            let tables: Vec<u32> = (0..below(8)).map(|_| below(12)).collect();
            let found = joined(&tables, &keys);
            assert_eq!(found, naive(&tables, &keys), "round {round}: {tables:?} {keys:?}");
        }
    }
}
