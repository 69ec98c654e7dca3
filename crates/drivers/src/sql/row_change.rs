//! What a document's changes come to in its row: a value for a column, or what is added to one, whatever language the
//! database speaks.

use std::borrow::Cow;

use forebay::change::Change;
use forebay::store::Form;
use forebay::store::forms::{Computed, Fills};
use forebay::value::Blob;
use forebay::{Data, Value};

use super::table::{Column, Kind, Table};

/// What a document's changes come to.
#[derive(Default)]
pub(crate) struct RowChange<'a> {
    /// The row goes, before anything else.
    pub(crate) deleted: bool,
    /// A row is made if there is none.
    pub(crate) inserts: bool,
    /// What becomes of columns.
    pub(crate) sets: Vec<(&'a Column, Set)>,
}

/// What becomes of a column.
#[derive(Default)]
pub(crate) struct Set {
    /// What it is before anything is added.
    pub(crate) base: Base,
    /// The sum of what is added as whole numbers.
    pub(crate) whole: Option<i128>,
    /// What is added beside: PostgreSQL makes a sum of it, which is exact. What was between is not asked for, neither
    /// whether it would have fit: nobody sees it.
    pub(crate) parts: Vec<String>,
}

#[derive(Default)]
pub(crate) enum Base {
    /// What the row has.
    #[default]
    Row,
    /// Null in a row that was there. A new row has what the table fills.
    Emptied,
    Null,
    /// A value of the column's type: its text, or its bytes where the column has bytes.
    Value(Blob),
}

impl Table {
    /// The form of the document whose row has these key columns.
    pub(crate) fn form(&self, parts: &[&str]) -> Form {
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

    /// Why a document of this form does not take `changes`.
    pub(crate) fn untaken(&self, changes: &[Change]) -> String {
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

    pub(crate) fn field(&self, field: &[u8]) -> Result<&Column, String> {
        let name = String::from_utf8_lossy(field);
        let found = self.fields.iter().find(|column| column.name.as_bytes() == field);
        let column = found.ok_or_else(|| format!("{} has no field {name}", self.name))?;
        match column.read_only {
            None => Ok(column),
            Some(read_only) => Err(format!("the field {name} of {} is read-only: {}", self.name, read_only.why())),
        }
    }

    /// What `changes` of the row with this key come to; why not, if its columns do not take them.
    pub(crate) fn row_change(&self, parts: &[&str], changes: &[Change]) -> Result<RowChange<'_>, String> {
        let mut row = RowChange::default();
        for change in changes {
            match change {
                Change::Delete => row = RowChange { deleted: true, ..RowChange::default() },
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
        row: &mut RowChange<'a>,
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
        if column.kind != Kind::Bytes {
            utf8(value).map_err(|why| format!("{}: {why}", column.name))?;
        }
        row.set(column, Base::Value(Blob::from(value)));
        Ok(())
    }

    /// SET takes a JSON object and changes the fields that it names.
    fn put<'a>(&'a self, row: &mut RowChange<'a>, parts: &[&str], value: &Value) -> Result<(), String> {
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

impl<'a> RowChange<'a> {
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
}

pub(crate) fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "the value is not UTF-8".into())
}
