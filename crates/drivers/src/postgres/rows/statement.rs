//! Statements that change rows. What differs from row to row is kept apart from what does not, so that one statement
//! serves one row, or many of the same shape by `unnest`.

use std::collections::HashMap;

use super::sql::{array_literal, literal};
use crate::sql::table::{Column, Table, quoted};

/// What a statement does to its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) enum Act {
    Delete,
    /// Changes the row if there is one.
    Update,
    Insert,
    /// Changes the row, or makes it if there is none. Not `INSERT .. ON CONFLICT`, which wants values of all NOT NULL
    /// columns.
    Upsert,
}

/// What statements that differ only in their values have in common. In its texts a value's place is written as by
/// [`Values::place`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) struct Shape {
    pub(in crate::postgres) act: Act,
    /// Columns, quoted, and what they become, over the row `t`.
    pub(in crate::postgres) sets: Vec<(String, String)>,
    /// The columns of a new row beside the key's, and their values.
    pub(in crate::postgres) inserts: Vec<(String, String)>,
}

/// The values of one statement, the key's parts first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::postgres) struct Values(pub(in crate::postgres) Vec<String>);

/// Most values of a row that goes with others: each is a column of what the statement is made from, of which
/// PostgreSQL takes 1,664.
pub(super) const COLUMNS_MAX: usize = 1600;

/// A key's column may be GENERATED ALWAYS AS IDENTITY: it is what the client has named all the same. Without it not
/// even the statement would be taken that finds the row and inserts nothing; of other columns it says nothing.
const NAMED: &str = "OVERRIDING SYSTEM VALUE";

/// Stands around places: no text of PostgreSQL's has it.
const MARK: char = '\0';

fn place(at: usize, type_name: &str) -> String {
    format!("{MARK}{at}:{type_name}{MARK}")
}

/// Whether an expression is nothing but the place of a text.
pub(super) fn is_text(expression: &str) -> bool {
    let place = expression.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(MARK));
    place.is_some_and(|place| !place.contains(MARK) && place.ends_with(":text"))
}

impl Values {
    /// Adds a value, as text, and gives what stands for it: an expression of this type.
    pub(in crate::postgres) fn place(&mut self, text: String, type_name: &str) -> Result<String, String> {
        if text.contains(MARK) {
            return Err("PostgreSQL's text can't hold a zero byte".into());
        }
        self.0.push(text);
        Ok(place(self.0.len() - 1, type_name))
    }
}

impl Shape {
    /// `SET` of an UPDATE.
    fn set_list(&self) -> String {
        let sets: Vec<String> = self.sets.iter().map(|(column, value)| format!("{column} = {value}")).collect();
        sets.join(", ")
    }
}

/// `text` with each place taken by what `value` makes of its number and type.
fn filled(text: &str, value: impl Fn(usize, &str) -> Result<String, String>) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    for (at, piece) in text.split(MARK).enumerate() {
        match piece.split_once(':').filter(|_| at % 2 == 1) {
            Some((number, type_name)) => {
                let number = number.parse().map_err(|_| "a value has no place".to_owned())?;
                result.push_str(&value(number, type_name)?);
            }
            None => result.push_str(piece),
        }
    }
    Ok(result)
}

/// `text` with each place taken by a column of `k`.
fn of_many(text: &str) -> Result<String, String> {
    filled(text, |at, type_name| Ok(format!("k.v{at}::{type_name}")))
}

impl Table {
    /// That `t` is the row whose key the first values are.
    fn key_condition(&self) -> String {
        let equal =
            |(at, column): (usize, &Column)| format!("t.{} = {}", quoted(&column.name), place(at, &column.type_name));
        self.key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// Columns and values of a new row.
    fn new_row(&self, shape: &Shape) -> (String, String) {
        let key = self.key.iter().enumerate();
        let key = key.map(|(at, column)| (quoted(&column.name), place(at, &column.type_name)));
        let (names, values): (Vec<String>, Vec<String>) = key.chain(shape.inserts.iter().cloned()).unzip();
        (names.join(", "), values.join(", "))
    }

    /// What a shape sets in the row `t`, and that it is the row of the key: `value` says what stands for a value.
    pub(super) fn sets_and_condition(
        &self,
        shape: &Shape,
        value: impl Fn(usize, &str) -> Result<String, String>,
    ) -> Result<(String, String), String> {
        Ok((filled(&shape.set_list(), &value)?, filled(&self.key_condition(), &value)?))
    }

    /// The statement for one row.
    pub(in crate::postgres) fn for_one(&self, shape: &Shape, values: &Values) -> Result<String, String> {
        let (name, condition, sets) = (&self.name, self.key_condition(), shape.set_list());
        let update = format!("UPDATE {name} t SET {sets} WHERE {condition}");
        let (columns, new) = self.new_row(shape);
        let insert = format!("INSERT INTO {name} ({columns}) {NAMED} SELECT {new}");
        let text = match shape.act {
            Act::Delete => format!("DELETE FROM {name} t WHERE {condition}"),
            Act::Update => update,
            Act::Insert => insert,
            // There is to be a row, whatever it holds.
            Act::Upsert if shape.sets.is_empty() => {
                format!("{insert} WHERE NOT EXISTS (SELECT FROM {name} t WHERE {condition})")
            }
            Act::Upsert => format!("WITH u AS ({update} RETURNING 1) {insert} WHERE NOT EXISTS (SELECT FROM u)"),
        };
        filled(&text, |at, type_name| Ok(format!("{}::{type_name}", literal(&values.0[at])?)))
    }

    /// The UPDATE of the rows that `k` has the values of.
    pub(super) fn update_many(&self, shape: &Shape) -> Result<String, String> {
        let (name, condition, sets) = (&self.name, self.key_condition(), shape.set_list());
        of_many(&format!("UPDATE {name} t SET {sets} FROM k WHERE {condition}"))
    }

    /// The statement for many rows, all different.
    fn for_many(&self, shape: &Shape, rows: &[Values]) -> Result<String, String> {
        let columns = rows.first().map_or(0, |row| row.0.len());
        let arrays: Result<Vec<String>, String> =
            (0..columns).map(|at| array_literal(rows.iter().map(|row| Some(row.0[at].as_str())))).collect();
        let names: Vec<String> = (0..columns).map(|at| format!("v{at}")).collect();
        let keys = format!(
            "k AS MATERIALIZED (SELECT * FROM unnest({}) WITH ORDINALITY AS k({}, place))",
            arrays?.join(", "),
            names.join(", ")
        );
        let (name, condition, sets) = (&self.name, self.key_condition(), shape.set_list());
        let update = format!("UPDATE {name} t SET {sets} FROM k WHERE {condition}");
        let (columns, new) = self.new_row(shape);
        let insert = format!("INSERT INTO {name} ({columns}) {NAMED} SELECT {new} FROM k");
        let text = match shape.act {
            Act::Delete => format!("DELETE FROM {name} t USING k WHERE {condition}"),
            Act::Update => update,
            Act::Insert => insert,
            Act::Upsert if shape.sets.is_empty() => {
                format!("{insert} WHERE NOT EXISTS (SELECT FROM {name} t WHERE {condition})")
            }
            // A hashed subquery: the session's plans have no hash joins.
            Act::Upsert => {
                format!(", u AS ({update} RETURNING k.place) {insert} WHERE k.place NOT IN (SELECT place FROM u)")
            }
        };
        Ok(format!("WITH {keys} {}", of_many(&text)?))
    }
}

/// The statements of a group, in order. A change may join an earlier statement of its shape where nothing shows that it
/// came later.
#[derive(Default)]
pub(in crate::postgres) struct Script {
    runs: Vec<Run>,
    /// The last run of each table and shape.
    of_shape: HashMap<(usize, Shape), usize>,
    /// The last run that changes each row: the table's number in the database, and its key.
    of_row: HashMap<(u32, Vec<String>), usize>,
    /// The last run on a table whose rows depend on each other or on other tables'.
    dependent: Option<usize>,
}

struct Run {
    table: usize,
    shape: Shape,
    rows: Vec<Values>,
}

impl Script {
    /// Adds a change to a row of `table`, which has this number among the mapped ones.
    pub(in crate::postgres) fn add(&mut self, number: usize, table: &Table, shape: Shape, values: Values) {
        let row = (table.oid, values.0[..table.key.len()].to_vec());
        let last = self.of_row.get(&row).copied();
        let shape = (number, shape);
        let joins = |run: &usize| match table.independent {
            // Behind what changed the row before; the same row twice in one statement would be changed once.
            true => last.is_none_or(|last| *run > last),
            // Nothing on dependent rows stands behind it, and it does not have this row.
            false => self.dependent == Some(*run) && last != Some(*run),
        };
        let joined = self.of_shape.get(&shape).copied().filter(joins);
        let at = match joined {
            Some(at) => {
                self.runs[at].rows.push(values);
                at
            }
            None => {
                let at = self.runs.len();
                self.of_shape.insert(shape.clone(), at);
                self.runs.push(Run { table: number, shape: shape.1, rows: vec![values] });
                at
            }
        };
        self.of_row.insert(row, at);
        if !table.independent {
            self.dependent = Some(at);
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The statements.
    pub(in crate::postgres) fn statements(&self, tables: &[Table]) -> Result<Vec<String>, String> {
        let mut statements = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let table = &tables[run.table];
            match run.rows.as_slice() {
                [first, _, ..] if first.0.len() <= COLUMNS_MAX => {
                    statements.push(table.for_many(&run.shape, &run.rows)?);
                }
                rows => {
                    for row in rows {
                        statements.push(table.for_one(&run.shape, row)?);
                    }
                }
            }
        }
        Ok(statements)
    }
}
