//! What binds rows of different tables to each other: foreign keys, also of tables that no mapping names, since what
//! happens to a row may reach another through them; and which rows a change makes a row name by them.

use std::collections::HashMap;

use forebay::change::Change;
use forebay::value::Data;

use super::table::{Column, Reference, Table};

/// A foreign key.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    /// The table that has it.
    pub(crate) table: u32,
    /// The table whose rows it names.
    pub(crate) target: u32,
    /// Its columns, and those of the target, in one order.
    pub(crate) columns: Vec<String>,
    pub(crate) target_columns: Vec<String>,
}

/// How `table` names rows that are documents by its foreign keys.
pub(crate) fn references(table: &Table, tables: &[Table], keys: &[ForeignKey]) -> Vec<Reference> {
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

impl Table {
    /// The texts of the columns of a row that `changes` set or that its key says; nothing of a row that they remove.
    pub(crate) fn set_by<'a>(&'a self, parts: &[&str], changes: &[Change]) -> HashMap<&'a str, String> {
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

/// For each of `tables` a number that it has in common with just those that foreign keys join it to, over however many
/// steps: the place of the first of them.
pub(crate) fn joined(tables: &[u32], keys: &[ForeignKey]) -> Vec<u32> {
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
