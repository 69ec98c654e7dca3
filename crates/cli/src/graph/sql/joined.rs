//! A SELECT from several tables as the accesses that it is. Rows of one table are found by a value, and those of
//! another by a column of the first.

use std::collections::BTreeSet;

use sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use super::access::{Access, last};
use super::compared::{Column, Condition, Side, conditions};
use super::text::{Wrong, wrong};

/// What stands behind FROM.
pub(super) struct From {
    line: u64,
    /// The name by which its columns are told, in lower case, and the table's.
    tables: Vec<(String, String)>,
    /// What the joins say.
    on: Vec<Condition>,
}

impl From {
    pub(super) fn read(line: u64, from: &[TableWithJoins]) -> Result<From, Wrong> {
        let mut read = From { line, tables: Vec::new(), on: Vec::new() };
        for TableWithJoins { relation, joins } in from {
            read.add(relation)?;
            for join in joins {
                read.add(&join.relation)?;
                match &join.join_operator {
                    JoinOperator::Join(constraint)
                    | JoinOperator::Inner(constraint)
                    | JoinOperator::Left(constraint)
                    | JoinOperator::LeftOuter(constraint)
                    | JoinOperator::CrossJoin(constraint) => read.constrain(constraint)?,
                    _ => return wrong(line, "only JOIN and LEFT JOIN are read; write a statement for each table"),
                }
            }
        }
        Ok(read)
    }

    fn add(&mut self, relation: &TableFactor) -> Result<(), Wrong> {
        let TableFactor::Table { name, alias, args: None, .. } = relation else {
            return wrong(self.line, "reads something else than a table");
        };
        let table = last(name);
        let known = alias.as_ref().map_or(&table, |alias| &alias.name.value).to_lowercase();
        if self.tables.iter().any(|(other, _)| *other == known) {
            return wrong(self.line, format!("two tables have the name '{known}'; give one another with AS"));
        }
        self.tables.push((known, table));
        Ok(())
    }

    /// What a join says of its table, which is the last so far.
    fn constrain(&mut self, constraint: &JoinConstraint) -> Result<(), Wrong> {
        match constraint {
            JoinConstraint::On(expr) => self.on.extend(conditions(expr)),
            JoinConstraint::Using(columns) => {
                let [.., (before, _), (own, _)] = &self.tables[..] else { return Ok(()) };
                for column in columns {
                    let of = |table: &String| Column { table: Some(table.clone()), name: last(column).to_lowercase() };
                    self.on.push(Condition { column: of(own), is: Side::Column(of(before)) });
                }
            }
            JoinConstraint::Natural => {
                return wrong(self.line, "NATURAL JOIN does not say its columns; write JOIN .. USING (..)");
            }
            JoinConstraint::None => {}
        }
        Ok(())
    }

    /// The one table, if there is no other.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.tables[..] {
            [(_, table)] => Some(table),
            _ => None,
        }
    }

    /// Where the table stands of which this is a column.
    pub(super) fn place(&self, column: &Column) -> Result<usize, Wrong> {
        let name = &column.name;
        let Some(table) = &column.table else {
            let several = format!("'{name}' may be a column of each of the tables; write the table before it");
            return if self.tables.len() == 1 { Ok(0) } else { wrong(self.line, several) };
        };
        let place = self.tables.iter().position(|(known, _)| known == table);
        place.ok_or(Wrong { line: self.line, why: format!("'{table}.{name}': no table has this name here") })
    }

    /// The accesses, in an order in which they can be made, and for each table which is its.
    pub(super) fn accesses(&self, mut all: Vec<Condition>) -> Result<(Vec<Access>, Vec<usize>), Wrong> {
        all.extend(self.on.iter().map(|on| Condition { column: on.column.clone(), is: on.is.clone() }));
        let (mut keyed, mut joined) = (vec![Vec::new(); self.tables.len()], BTreeSet::new());
        for Condition { column, is } in all {
            let table = self.place(&column)?;
            match is {
                Side::Column(other) => {
                    let other = self.place(&other)?;
                    joined.extend([(table, other), (other, table)]);
                }
                is => keyed[table].push((column.name, is)),
            }
        }
        let mut order: Vec<usize> = (0..keyed.len()).filter(|table| !keyed[*table].is_empty()).collect();
        let mut next = 0;
        while let Some(table) = order.get(next).copied() {
            let further = joined.range((table, 0)..(table + 1, 0)).map(|(_, other)| *other);
            let further: Vec<usize> = further.filter(|other| !order.contains(other)).collect();
            order.extend(further);
            next += 1;
        }
        if let Some(table) = (0..keyed.len()).find(|table| !order.contains(table)) {
            let table = &self.tables[table].1;
            return wrong(
                self.line,
                format!("reads all of '{table}', which is no access by key; add a WHERE, or a column to JOIN it by"),
            );
        }
        let place = |table: usize| order.iter().position(|other| *other == table).unwrap_or_default();
        let access = |(at, table): (usize, &usize)| {
            let mut access = Access::new(self.tables[*table].1.clone(), false);
            // Found by a value it needs no other row.
            if keyed[*table].is_empty() {
                let before = joined.range((*table, 0)..(*table + 1, 0)).map(|(_, other)| place(*other));
                access.after = before.filter(|before| *before < at).collect();
            }
            access.compare(keyed[*table].iter().map(|(column, is)| (column.clone(), is.clone())));
            access
        };
        let accesses = order.iter().enumerate().map(access).collect();
        Ok((accesses, (0..keyed.len()).map(place).collect()))
    }
}
