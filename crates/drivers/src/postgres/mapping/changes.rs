//! The changes of one document as SQL on its row. An increment travels as an increment; an UPDATE becomes an INSERT
//! only where there is no row: `INSERT .. ON CONFLICT` would want values of all NOT NULL columns.
//!
//! What happens to one column is one expression of bounded depth, however many changes there are: an outage may leave
//! thousands of one row, and PostgreSQL goes down into each step that stands within another.

use std::borrow::Cow;

use forebay::change::Change;
use forebay::store::forms::{Computed, Fills};
use forebay::store::{Form, Write};
use forebay::{Data, Value};

use super::catalogue::{Column, Kind, Table, quoted};
use super::sql::{array_text, hex};
use super::statement::{Act, Shape, Values};

/// A column's new value: over the row `t`, and where there is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) of_row: String,
    /// None: what the table fills.
    pub(super) of_nothing: Option<String>,
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

/// What the changes so far come to: a value is only given a place once it is known that it stands.
#[derive(Default)]
struct Pending<'a> {
    deleted: bool,
    inserts: bool,
    sets: Vec<(&'a Column, Set)>,
}

/// What becomes of a column.
#[derive(Default)]
struct Set {
    base: Base,
    /// The sum of what is added as whole numbers.
    whole: Option<i128>,
    /// What is added beside: PostgreSQL makes a sum of it, which is exact. What was between is not asked for, neither
    /// whether it would have fit: nobody sees it.
    parts: Vec<String>,
}

#[derive(Default)]
enum Base {
    /// What the row has.
    #[default]
    Row,
    /// Null in a row that was there. A new row has what the table fills.
    Emptied,
    Null,
    /// The text of a value of the column's type.
    Text(String),
}

impl Table {
    /// The form of the document whose row has these key columns.
    pub(in crate::postgres) fn form(&self, parts: &[&str]) -> Form {
        let of = |is: &dyn Fn(&Column) -> bool| {
            Fills::Columns(self.fields.iter().filter(|column| is(column)).map(|column| column.field.clone()).collect())
        };
        let of_other = |column: &Column, other: &Column| column.computed_from.contains(&other.name);
        let changes = |column: &&Column| column.read_only.is_none();
        let computed = Computed {
            // Of others than the key's, be they in this document or in another one of the row.
            columns: of(&|column| column.computed_from.iter().any(|from| !self.mapping.key.contains(from))),
            from: of(&|other| changes(&other) && self.fields.iter().any(|column| of_other(column, other))),
        };
        self.mapping.form(parts, of(&|column| column.has_default), computed)
    }

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
        let change = change.placed(&mut values)?;
        Ok(statement(parts, (change, values)))
    }

    /// Why a document of this form does not take `changes`.
    fn untaken(&self, changes: &[Change]) -> String {
        let table = &self.name;
        if let Some(list) = &self.mapping.list {
            return format!("{list} of {table} is a list: it takes LPUSH, RPUSH and their kind");
        }
        let expiry = |change: &Change| match change {
            Change::ExpireAt(_) | Change::Persist => Some("delete them where they are to go"),
            Change::Put(value) if value.expires_at_ms.is_some() => Some("leave EX and its kind out"),
            _ => None,
        };
        match changes.iter().find_map(expiry) {
            Some(helps) => format!("rows of {table} don't expire; {helps}"),
            None => format!("a row of {table} is a hash: it takes HSET, HINCRBY, HDEL, SET, DEL"),
        }
    }

    pub(super) fn field(&self, field: &[u8]) -> Result<&Column, String> {
        let name = String::from_utf8_lossy(field);
        let found = self.fields.iter().find(|column| column.name.as_bytes() == field);
        let column = found.ok_or_else(|| format!("{} has no field {name}", self.name))?;
        match column.read_only {
            None => Ok(column),
            Some(read_only) => Err(format!("the field {name} of {} is read-only: {}", self.name, read_only.why())),
        }
    }

    fn row_change(&self, parts: &[&str], changes: &[Change]) -> Result<Pending<'_>, String> {
        let mut row = Pending::default();
        for change in changes {
            match change {
                Change::Delete => row = Pending { deleted: true, ..Pending::default() },
                Change::Put(value) => self.put(&mut row, parts, value)?,
                Change::SetField(field, value) => self.set_field(&mut row, parts, field, value)?,
                // Of a row that is not there it takes nothing.
                Change::UnsetField(field) => {
                    row.set(self.field(field)?, if row.inserts { Base::Null } else { Base::Emptied });
                }
                Change::AddInteger { field: Some(field), delta } => {
                    let set = row.add(self.field(field)?, false)?;
                    set.whole = Some(set.whole.unwrap_or_default() + i128::from(*delta));
                }
                Change::AddFloat { field: Some(field), delta } => {
                    row.add(self.field(field)?, true)?.parts.push(String::from_utf8_lossy(delta).into_owned());
                }
                _ => return Err(self.untaken(changes)),
            }
        }
        Ok(row)
    }

    /// Sets a field. One of the key's columns, as it is, says no more than that there is a row.
    fn set_field<'a>(
        &'a self,
        row: &mut Pending<'a>,
        parts: &[&str],
        field: &[u8],
        value: &[u8],
    ) -> Result<(), String> {
        row.inserts = true;
        let mut key = self.key.iter().zip(parts);
        if key.any(|(column, part)| column.name.as_bytes() == field && part.as_bytes() == value) {
            return Ok(());
        }
        let column = self.field(field)?;
        row.set(column, Base::Text(text_of(column, value)?));
        Ok(())
    }

    /// SET takes a JSON object and changes the fields that it names.
    fn put<'a>(&'a self, row: &mut Pending<'a>, parts: &[&str], value: &Value) -> Result<(), String> {
        let text = match &value.data {
            Data::Bytes(bytes) => bytes.joined(),
            // It is told what it has to be.
            _ => Cow::default(),
        };
        row.inserts = true;
        for change in self.changes_of_object(parts, &text)? {
            match change {
                Change::SetField(field, value) => self.set_field(row, parts, &field, &value)?,
                Change::UnsetField(field) => row.set(self.field(&field)?, Base::Null),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'a> Pending<'a> {
    fn of_column(&mut self, column: &'a Column) -> &mut Set {
        let at = match self.sets.iter().position(|(other, _)| other.name == column.name) {
            Some(at) => at,
            None => {
                self.sets.push((column, Set::default()));
                self.sets.len() - 1
            }
        };
        &mut self.sets[at].1
    }

    fn set(&mut self, column: &'a Column, base: Base) {
        *self.of_column(column) = Set { base, ..Set::default() };
    }

    /// The column, for something to be added that has a fraction or not.
    fn add(&mut self, column: &'a Column, fraction: bool) -> Result<&mut Set, String> {
        let fits = match column.kind {
            Kind::Integer => !fraction,
            Kind::Number => true,
            _ => false,
        };
        if !fits {
            return Err(format!("{} is {}; such an increment does not fit it", column.name, column.type_name));
        }
        self.inserts = true;
        Ok(self.of_column(column))
    }

    fn placed(self, values: &mut Values) -> Result<RowChange<'a>, String> {
        let set = |(column, set): (&'a Column, Set)| Ok((column, set.placed(column, values)?));
        let sets = self.sets.into_iter().map(set).collect::<Result<_, String>>()?;
        Ok(RowChange { deleted: self.deleted, inserts: self.inserts, sets })
    }
}

impl Set {
    fn placed(self, column: &Column, values: &mut Values) -> Result<Expression, String> {
        // Of a type without its length: that is then the assignment's matter, which refuses what does not fit and cuts
        // nothing off.
        let base = match self.base {
            Base::Row => Expression { of_row: format!("t.{}", quoted(&column.name)), of_nothing: Some("0".into()) },
            Base::Emptied => Expression { of_row: "NULL".into(), of_nothing: None },
            Base::Null => both("NULL".into()),
            Base::Text(text) => both(values.place(text, &column.type_name)?),
        };
        let mut sum = String::new();
        if let Some(whole) = self.whole {
            let type_name = if i64::try_from(whole).is_ok() { "bigint" } else { "numeric" };
            sum = format!(" + {}", values.place(whole.to_string(), type_name)?);
        }
        match self.parts.as_slice() {
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
}

/// The statements that one change of a row with this key comes to.
fn statement(parts: &[&str], (change, values): (RowChange<'_>, Values)) -> Vec<(Shape, Values)> {
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

pub(super) fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".into())
}
