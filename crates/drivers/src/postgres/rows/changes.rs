//! The changes of one document as SQL on its row. An increment travels as an increment; an UPDATE becomes an INSERT
//! only where there is no row: `INSERT .. ON CONFLICT` would want values of all NOT NULL columns.
//!
//! What happens to one column is one expression of bounded depth, however many changes there are: an outage may leave
//! thousands of one row, and PostgreSQL goes down into each step that stands within another.

use forebay::store::Write;

use super::statement::{Act, Shape, Values};
use crate::sql::row_change::{Base, RowChange, Set, utf8};
use crate::sql::table::{Column, Kind, Table, quoted};
use crate::sql::text::{array_text, hex};

/// A column's new value: over the row `t`, and where there is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) of_row: String,
    /// None: what the table fills.
    pub(super) of_nothing: Option<String>,
}

/// A document's changes as expressions, whose values have their places.
#[derive(Default)]
pub(super) struct Placed<'a> {
    /// The row goes, before anything else.
    pub(super) deleted: bool,
    /// A row is made if there is none.
    pub(super) inserts: bool,
    pub(super) sets: Vec<(&'a Column, Expression)>,
}

impl Table {
    /// The statements that `write` comes to, for the row with this key.
    pub(in crate::postgres) fn write(&self, parts: &[&str], write: &Write) -> Result<Vec<(Shape, Values)>, String> {
        if !self.form(parts).takes(&write.changes) {
            return Err(self.untaken(&write.changes));
        }
        if let Some(why) = self.outgrown(write) {
            return Err(why);
        }
        let values = || Values(parts.iter().map(|part| (*part).to_owned()).collect());
        if self.mapping.list.is_some() {
            let mut statements = Vec::new();
            for change in self.list_changes(write, values)? {
                statements.extend(statement(parts, change));
            }
            return Ok(statements);
        }
        let change = self.row_change(parts, &write.changes)?;
        let mut values = values();
        let change = placed(change, &mut values)?;
        Ok(statement(parts, (change, values)))
    }
}

/// Gives each value of `change` its place among `values`: only now is it known that it stands.
fn placed<'a>(change: RowChange<'a>, values: &mut Values) -> Result<Placed<'a>, String> {
    let set = |(column, set): (&'a Column, Set)| Ok((column, expression(set, column, values)?));
    let sets = change.sets.into_iter().map(set).collect::<Result<_, String>>()?;
    Ok(Placed { deleted: change.deleted, inserts: change.inserts, sets })
}

/// What a column becomes.
fn expression(set: Set, column: &Column, values: &mut Values) -> Result<Expression, String> {
    // Of a type without its length: that is then the assignment's matter, which refuses what does not fit and cuts
    // nothing off.
    let base = match set.base {
        Base::Row => Expression { of_row: format!("t.{}", quoted(&column.name)), of_nothing: Some("0".into()) },
        Base::Emptied => Expression { of_row: "NULL".into(), of_nothing: None },
        Base::Null => both("NULL".into()),
        Base::Value(value) => both(values.place(text_of(column, &value)?, &column.type_name)?),
    };
    let mut sum = String::new();
    if let Some(whole) = set.whole {
        let type_name = if i64::try_from(whole).is_ok() { "bigint" } else { "numeric" };
        sum = format!(" + {}", values.place(whole.to_string(), type_name)?);
    }
    match set.parts.as_slice() {
        [] => {}
        [part] => sum.push_str(&format!(" + {}", values.place(part.clone(), "numeric")?)),
        parts => {
            let parts = values.place(array_text(parts.iter().map(|part| Some(part.as_str()))), "numeric[]")?;
            sum.push_str(&format!(" + (SELECT sum(d) FROM unnest({parts}) AS d)"));
        }
    }
    if sum.is_empty() {
        return Ok(base);
    }
    let added = |base: &str| format!("coalesce(({base})::{}, 0){sum}", column.type_name);
    let of_nothing = Some(added(base.of_nothing.as_deref().unwrap_or("NULL")));
    Ok(Expression { of_row: added(&base.of_row), of_nothing })
}

/// The statements that one change of a row with this key comes to.
fn statement(parts: &[&str], (change, values): (Placed<'_>, Values)) -> Vec<(Shape, Values)> {
    let mut statements = Vec::new();
    if change.deleted {
        let key = Values(values.0[..parts.len()].to_vec());
        statements.push((Shape { act: Act::Delete, sets: Vec::new(), inserts: Vec::new() }, key));
    }
    if change.sets.is_empty() && !change.inserts {
        return statements;
    }
    let act = match (change.inserts, change.deleted) {
        (false, _) => Act::Update,
        (true, true) => Act::Insert,
        (true, false) => Act::Upsert,
    };
    let (mut sets, mut inserts) = (Vec::new(), Vec::new());
    for (column, expression) in change.sets {
        let name = quoted(&column.name);
        if act != Act::Insert {
            sets.push((name.clone(), expression.of_row));
        }
        if let Some(value) = expression.of_nothing.filter(|_| change.inserts) {
            inserts.push((name, value));
        }
    }
    statements.push((Shape { act, sets, inserts }, values));
    statements
}

fn both(text: String) -> Expression {
    Expression { of_row: text.clone(), of_nothing: Some(text) }
}

/// A value as text that the column's type reads.
fn text_of(column: &Column, value: &[u8]) -> Result<String, String> {
    match column.kind {
        Kind::Bytes => Ok(hex(value)),
        _ => Ok(utf8(value).map_err(|why| format!("{}: {why}", column.name))?.to_owned()),
    }
}
