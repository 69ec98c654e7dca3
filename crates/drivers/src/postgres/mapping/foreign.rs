//! What binds rows of different tables to each other: foreign keys, also of tables that no mapping names, since what
//! happens to a row may reach another through them.

use std::collections::HashMap;

use tokio_postgres::{Client, Error};

/// All foreign keys of the database; partitions and children of a table are bound to it as well.
const FOREIGN_KEYS: &str = "\
SELECT conrelid, confrelid FROM pg_constraint WHERE contype = 'f'
UNION ALL SELECT inhrelid, inhparent FROM pg_inherits";

/// A foreign key.
#[derive(Clone, Debug)]
pub(in crate::postgres) struct ForeignKey {
    /// The table that has it.
    pub(in crate::postgres) table: u32,
    /// The table whose rows it names.
    pub(in crate::postgres) target: u32,
}

/// All of the database.
pub(in crate::postgres) async fn foreign_keys(client: &Client) -> Result<Vec<ForeignKey>, Error> {
    let rows = client.query(FOREIGN_KEYS, &[]).await?;
    let key = |row: &tokio_postgres::Row| Ok(ForeignKey { table: row.try_get(0)?, target: row.try_get(1)? });
    rows.iter().map(key).collect()
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
        ForeignKey { table, target }
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
