//! The changes of one document as SQL on its row. An increment travels as an increment; an UPDATE becomes an INSERT
//! only where there is no row: `INSERT .. ON CONFLICT` would want values of all NOT NULL columns.

use forebay::change::{Change, End};
use forebay::store::Write;
use forebay::{Data, Value};

use super::catalogue::{Column, Kind, Table, quoted};
use super::sql::{array_text, hex};
use super::statement::{Act, Shape, Values};

/// A column's new value: over the row `t`, and where there is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    of_row: String,
    of_nothing: String,
}

/// What a document's changes come to.
#[derive(Default)]
struct RowChange<'a> {
    /// The row goes, before anything else.
    deleted: bool,
    /// A row is made if there is none.
    inserts: bool,
    sets: Vec<(&'a Column, Expression)>,
}

impl Table {
    /// The statements that `write` comes to, for the row with this key.
    pub(in crate::postgres) fn write(&self, parts: &[&str], write: &Write) -> Result<Vec<(Shape, Values)>, String> {
        let mut values = Values(parts.iter().map(|part| (*part).to_owned()).collect());
        let change = match &self.mapping.list {
            Some(_) => self.list_change(write, &mut values)?,
            None => self.row_change(parts, &write.changes, &mut values)?,
        };
        let mut statements = Vec::new();
        if change.deleted {
            let key = Values(values.0[..parts.len()].to_vec());
            statements.push((Shape { act: Act::Delete, sets: Vec::new(), inserts: Vec::new() }, key));
        }
        if change.sets.is_empty() {
            return Ok(statements);
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
        Ok(statements)
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

    /// Pushes, pops and removals of an element travel as such; what else happens to a list replaces it, under the row's lock
    /// and after the check that it is still what was read.
    fn list_change(&self, write: &Write, values: &mut Values) -> Result<RowChange<'_>, String> {
        let Some(column) = self.fields.first() else { return Err("the list has no column".into()) };
        let Kind::Array(element) = &column.kind else { return Err(format!("{} is no array", column.name)) };
        if !column.writable {
            return Err(format!("{} of {} is read-only", column.name, self.name));
        }
        let travels =
            |change: &Change| matches!(change, Change::Push(..) | Change::RemoveEqual { .. } | Change::Pop(_));
        let expression = if write.changes.iter().all(travels) {
            let mut expression = Expression {
                of_row: format!("coalesce(t.{}, '{{}}'::{element}[])", quoted(&column.name)),
                of_nothing: format!("'{{}}'::{element}[]"),
            };
            for change in &write.changes {
                let made = |base: &str, value: &str| match change {
                    Change::Push(End::Left, _) => format!("array_prepend({value}, {base})"),
                    Change::RemoveEqual { count, .. } => without(base, value, *count),
                    _ => format!("array_append({base}, {value})"),
                };
                if let Change::Pop(end) = change {
                    let (of_row, of_nothing) = (popped(&expression.of_row, *end), popped(&expression.of_nothing, *end));
                    expression = Expression { of_row, of_nothing };
                    continue;
                }
                let (Change::Push(_, blob) | Change::RemoveEqual { element: blob, .. }) = change else { continue };
                let of_type = if matches!(change, Change::Push(..)) { element } else { "text" };
                let value = values.place(utf8(blob)?.to_owned(), of_type)?;
                let (of_row, of_nothing) = (made(&expression.of_row, &value), made(&expression.of_nothing, &value));
                expression = Expression { of_row, of_nothing };
            }
            expression
        } else if write.unseen {
            return Err(format!("what {} of {} holds is not known, so it can't be replaced", column.name, self.name));
        } else {
            let whole = match write.after.as_ref().map(|value| (&value.data, value.expires_at_ms)) {
                None => format!("'{{}}'::{element}[]"),
                Some((Data::List(list), None)) => {
                    let elements: Result<Vec<&str>, String> = list.iter().map(|element| utf8(element)).collect();
                    values.place(array_text(elements?.into_iter().map(Some)), &format!("{element}[]"))?
                }
                Some(_) => {
                    let (list, table) = (&column.name, &self.name);
                    return Err(format!("{list} of {table} is a list: it takes LPUSH, RPUSH and their kind"));
                }
            };
            Expression { of_row: whole.clone(), of_nothing: whole }
        };
        let pushes = write.changes.iter().any(|change| matches!(change, Change::Push(..)));
        let inserts = write.after.is_some() || (write.unseen && pushes);
        Ok(RowChange { deleted: false, inserts, sets: vec![(column, expression)] })
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

/// The array `base` without elements whose text is `value`: all if `count` is 0, else so many of the first, or of the
/// last if it is negative.
fn without(base: &str, value: &str, count: i64) -> String {
    let (order, most) = match count {
        0 => ("ASC", i64::MAX as u64),
        _ => (if count > 0 { "ASC" } else { "DESC" }, count.unsigned_abs()),
    };
    format!(
        "ARRAY(SELECT r.e FROM (SELECT u.e, u.o, row_number() OVER (PARTITION BY u.e::text ORDER BY u.o {order}) AS n \
         FROM unnest({base}) WITH ORDINALITY AS u(e, o)) AS r \
         WHERE (r.e::text = {value} AND r.n <= {most}) IS NOT TRUE ORDER BY r.o)"
    )
}

/// The array `base` without the element at one end.
fn popped(base: &str, end: End) -> String {
    let beside = if end == End::Left { "lag" } else { "lead" };
    format!(
        "ARRAY(SELECT r.e FROM (SELECT u.e, u.o, {beside}(u.o) OVER (ORDER BY u.o) AS n \
         FROM unnest({base}) WITH ORDINALITY AS u(e, o)) AS r WHERE r.n IS NOT NULL ORDER BY r.o)"
    )
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

fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".into())
}
