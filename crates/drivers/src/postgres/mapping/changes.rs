//! The changes of one document as SQL on its row. An increment travels as an increment; an UPDATE becomes an INSERT
//! only where there is no row: `INSERT .. ON CONFLICT` would want values of all NOT NULL columns.

use forebay::change::{Change, End};
use forebay::store::Write;
use forebay::value::Blob;
use forebay::{Data, Value};

use super::catalogue::{Column, Kind, Table, quoted};
use super::sql::{hex, literal};

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
    pub(in crate::postgres) fn write(&self, parts: &[&str], write: &Write) -> Result<Vec<String>, String> {
        let change = match &self.mapping.list {
            Some(_) => self.list_change(write)?,
            None => self.row_change(&write.changes)?,
        };
        let mut statements = Vec::new();
        let condition = self.condition(parts)?;
        if change.deleted {
            statements.push(format!("DELETE FROM {} t WHERE {condition}", self.name));
        }
        if change.sets.is_empty() {
            return Ok(statements);
        }
        let set =
            |(column, expression): &(&Column, Expression)| format!("{} = {}", quoted(&column.name), expression.of_row);
        let sets: Vec<String> = change.sets.iter().map(set).collect();
        let update = format!("UPDATE {} t SET {} WHERE {condition}", self.name, sets.join(", "));
        if !change.inserts {
            statements.push(update);
            return Ok(statements);
        }
        let mut names: Vec<String> = self.key.iter().map(|column| quoted(&column.name)).collect();
        let mut values: Vec<String> = parts.iter().map(|part| literal(part)).collect::<Result<_, String>>()?;
        for (column, expression) in &change.sets {
            names.push(quoted(&column.name));
            values.push(expression.of_nothing.clone());
        }
        let insert = format!("INSERT INTO {} ({}) SELECT {}", self.name, names.join(", "), values.join(", "));
        statements.push(match change.deleted {
            true => insert,
            false => format!("WITH u AS ({update} RETURNING 1) {insert} WHERE NOT EXISTS (SELECT FROM u)"),
        });
        Ok(statements)
    }

    fn field(&self, field: &[u8]) -> Result<&Column, String> {
        let name = String::from_utf8_lossy(field);
        let found = self.fields.iter().find(|column| column.name.as_bytes() == field);
        let column = found.ok_or_else(|| format!("{} has no field {name}", self.name))?;
        match column.writable {
            true => Ok(column),
            false => Err(format!("the field {name} of {} is read-only", self.name)),
        }
    }

    fn row_change(&self, changes: &[Change]) -> Result<RowChange<'_>, String> {
        let mut row = RowChange::default();
        for change in changes {
            match change {
                Change::Delete => row = RowChange { deleted: true, ..RowChange::default() },
                Change::Put(value) => self.put(&mut row, value)?,
                Change::SetField(field, value) => {
                    let column = self.field(field)?;
                    row.set(column, constant(column, value)?);
                    row.inserts = true;
                }
                Change::UnsetField(field) => row.set(self.field(field)?, null()),
                Change::AddInteger { field: Some(field), delta } => row.add(self.field(field)?, &delta.to_string())?,
                Change::AddFloat { field: Some(field), delta } => {
                    let delta = String::from_utf8_lossy(delta);
                    row.add(self.field(field)?, &format!("{}::numeric", literal(&delta)?))?;
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
    fn put<'a>(&'a self, row: &mut RowChange<'a>, value: &Value) -> Result<(), String> {
        let object = || format!("a row of {} is set by a JSON object, as {{\"field\": \"value\"}}", self.name);
        let Data::Bytes(bytes) = &value.data else { return Err(object()) };
        if value.expires_at_ms.is_some() {
            return Err(format!("rows of {} don't expire; leave EX and its kind out", self.name));
        }
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(bytes).map_err(|_| object())?;
        for (name, value) in &parsed {
            let column = self.field(name.as_bytes())?;
            let text = match value {
                serde_json::Value::Null => {
                    row.set(column, null());
                    continue;
                }
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            row.set(column, constant(column, text.as_bytes())?);
        }
        row.inserts = true;
        Ok(())
    }

    /// Pushes travel as pushes; what else happens to a list replaces it, under the row's lock and after the check that
    /// it is still what was read.
    fn list_change(&self, write: &Write) -> Result<RowChange<'_>, String> {
        let Some(column) = self.fields.first() else { return Err("the list has no column".into()) };
        let Kind::Array(element) = &column.kind else { return Err(format!("{} is no array", column.name)) };
        if !column.writable {
            return Err(format!("{} of {} is read-only", column.name, self.name));
        }
        let constant = |element_value: &Blob| Ok::<_, String>(format!("{}::{element}", literal(utf8(element_value)?)?));
        let pushes_only = write.changes.iter().all(|change| matches!(change, Change::Push(..)));
        let expression = if pushes_only {
            let mut expression = Expression {
                of_row: format!("coalesce(t.{}, '{{}}'::{element}[])", quoted(&column.name)),
                of_nothing: format!("'{{}}'::{element}[]"),
            };
            for change in &write.changes {
                let Change::Push(end, value) = change else { continue };
                let value = constant(value)?;
                let push = |base: &str| match end {
                    End::Left => format!("array_prepend({value}, {base})"),
                    End::Right => format!("array_append({base}, {value})"),
                };
                expression = Expression { of_row: push(&expression.of_row), of_nothing: push(&expression.of_nothing) };
            }
            expression
        } else {
            let whole = match write.after.as_ref().map(|value| (&value.data, value.expires_at_ms)) {
                None => format!("'{{}}'::{element}[]"),
                Some((Data::List(list), None)) => {
                    let elements: Result<Vec<String>, String> = list.iter().map(constant).collect();
                    format!("ARRAY[{}]::{element}[]", elements?.join(", "))
                }
                Some(_) => return Err(format!("{} of {} is a list, and does not expire", column.name, self.name)),
            };
            Expression { of_row: whole.clone(), of_nothing: whole }
        };
        let inserts = write.after.is_some();
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

    fn add(&mut self, column: &'a Column, delta: &str) -> Result<(), String> {
        let fraction = delta.contains("numeric");
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

fn null() -> Expression {
    Expression { of_row: "NULL".into(), of_nothing: "NULL".into() }
}

/// A literal without a type: it takes the column's, as an assignment does, so that what does not fit is refused and
/// nothing is cut off.
fn constant(column: &Column, value: &[u8]) -> Result<Expression, String> {
    let text = match column.kind {
        Kind::Bytes => literal(&hex(value))?,
        _ => literal(utf8(value).map_err(|why| format!("{}: {why}", column.name))?)?,
    };
    Ok(Expression { of_row: text.clone(), of_nothing: text })
}

fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".into())
}
