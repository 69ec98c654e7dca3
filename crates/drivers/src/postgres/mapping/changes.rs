//! The changes of one document as SQL on its row. An increment travels as an increment; an UPDATE becomes an INSERT
//! only where there is no row: `INSERT .. ON CONFLICT` would want values of all NOT NULL columns.

use forebay::change::Change;
use forebay::store::Write;
use forebay::{Data, Value};

use super::catalogue::{Column, Kind, Table, quoted};
use super::sql::hex;
use super::statement::{Act, Shape, Values};

/// A column's new value: over the row `t`, and where there is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) of_row: String,
    pub(super) of_nothing: String,
}

/// What a document's changes come to.
#[derive(Default)]
pub(super) struct RowChange<'a> {
    /// The row goes, before anything else.
    pub(super) deleted: bool,
    /// A row is made if there is none.
    pub(super) inserts: bool,
    pub(super) sets: Vec<(&'a Column, Expression)>,
}

impl Table {
    /// The statements that `write` comes to, for the row with this key.
    pub(in crate::postgres) fn write(&self, parts: &[&str], write: &Write) -> Result<Vec<(Shape, Values)>, String> {
        let values = || Values(parts.iter().map(|part| (*part).to_owned()).collect());
        if self.mapping.list.is_some() {
            let mut statements = Vec::new();
            for change in self.list_changes(write, values)? {
                statements.extend(statement(parts, change));
            }
            return Ok(statements);
        }
        let mut values = values();
        let change = self.row_change(parts, &write.changes, &mut values)?;
        Ok(statement(parts, (change, values)))
    }

    pub(super) fn field(&self, field: &[u8]) -> Result<&Column, String> {
        let name = String::from_utf8_lossy(field);
        let found = self.fields.iter().find(|column| column.name.as_bytes() == field);
        let column = found.ok_or_else(|| format!("{} has no field {name}", self.name))?;
        match column.writable {
            true => Ok(column),
            false => Err(format!("the field {name} of {} is read-only", self.name)),
        }
    }

    fn row_change(&self, parts: &[&str], changes: &[Change], values: &mut Values) -> Result<RowChange<'_>, String> {
        let mut row = RowChange::default();
        for change in changes {
            match change {
                Change::Delete => row = RowChange { deleted: true, ..RowChange::default() },
                Change::Put(value) => self.put(&mut row, parts, value, values)?,
                Change::SetField(field, value) => {
                    let column = self.field(field)?;
                    row.set(column, constant(column, value, values)?);
                    row.inserts = true;
                }
                Change::UnsetField(field) => row.set(self.field(field)?, null()),
                Change::AddInteger { field: Some(field), delta } => {
                    row.add(self.field(field)?, false, values.place(delta.to_string(), "bigint")?)?;
                }
                Change::AddFloat { field: Some(field), delta } => {
                    let delta = String::from_utf8_lossy(delta);
                    row.add(self.field(field)?, true, values.place(delta.into_owned(), "numeric")?)?;
                }
                Change::ExpireAt(_) | Change::Persist => {
                    return Err(format!("rows of {} don't expire; delete them where they are to go", self.name));
                }
                _ => return Err(format!("a row of {} is a hash: it takes HSET, HINCRBY, HDEL, SET, DEL", self.name)),
            }
        }
        Ok(row)
    }

    /// SET takes a JSON object and changes the fields that it names.
    fn put<'a>(
        &'a self,
        row: &mut RowChange<'a>,
        parts: &[&str],
        value: &Value,
        values: &mut Values,
    ) -> Result<(), String> {
        let text: &[u8] = match &value.data {
            Data::Bytes(bytes) => bytes,
            // It is told what it has to be.
            _ => &[],
        };
        if value.expires_at_ms.is_some() {
            return Err(format!("rows of {} don't expire; leave EX and its kind out", self.name));
        }
        for change in self.changes_of_object(parts, text)? {
            match change {
                Change::SetField(field, value) => {
                    let column = self.field(&field)?;
                    row.set(column, constant(column, &value, values)?);
                }
                Change::UnsetField(field) => row.set(self.field(&field)?, null()),
                _ => {}
            }
        }
        row.inserts = true;
        Ok(())
    }
}

impl<'a> RowChange<'a> {
    fn set(&mut self, column: &'a Column, expression: Expression) {
        match self.sets.iter_mut().find(|(other, _)| other.name == column.name) {
            Some((_, there)) => *there = expression,
            None => self.sets.push((column, expression)),
        }
    }

    /// Adds what `delta` stands for, which has a fraction or not.
    fn add(&mut self, column: &'a Column, fraction: bool, delta: String) -> Result<(), String> {
        let fits = match column.kind {
            Kind::Integer => !fraction,
            Kind::Number => true,
            _ => false,
        };
        if !fits {
            return Err(format!("{} is {}; such an increment does not fit it", column.name, column.type_name));
        }
        let base = match self.sets.iter().find(|(other, _)| other.name == column.name) {
            Some((_, there)) => Expression {
                of_row: format!("({})::{}", there.of_row, column.type_name),
                of_nothing: format!("({})::{}", there.of_nothing, column.type_name),
            },
            None => Expression { of_row: format!("t.{}", quoted(&column.name)), of_nothing: "0".into() },
        };
        let sum = |base: &str| format!("coalesce({base}, 0) + {delta}");
        self.set(column, Expression { of_row: sum(&base.of_row), of_nothing: sum(&base.of_nothing) });
        self.inserts = true;
        Ok(())
    }
}

/// The statements that one change of a row with this key comes to.
fn statement(parts: &[&str], (change, values): (RowChange<'_>, Values)) -> Vec<(Shape, Values)> {
    let mut statements = Vec::new();
    if change.deleted {
        let key = Values(values.0[..parts.len()].to_vec());
        statements.push((Shape { act: Act::Delete, sets: Vec::new(), inserts: Vec::new() }, key));
    }
    if change.sets.is_empty() {
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
            sets.push(format!("{name} = {}", expression.of_row));
        }
        if change.inserts {
            inserts.push((name, expression.of_nothing));
        }
    }
    statements.push((Shape { act, sets, inserts }, values));
    statements
}

fn null() -> Expression {
    Expression { of_row: "NULL".into(), of_nothing: "NULL".into() }
}

/// A value of the column's type without its length: the length is then the assignment's matter, which refuses what does
/// not fit and cuts nothing off.
fn constant(column: &Column, value: &[u8], values: &mut Values) -> Result<Expression, String> {
    let text = match column.kind {
        Kind::Bytes => hex(value),
        _ => utf8(value).map_err(|why| format!("{}: {why}", column.name))?.to_owned(),
    };
    let place = values.place(text, &column.type_name)?;
    Ok(Expression { of_row: place.clone(), of_nothing: place })
}

pub(super) fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".into())
}
