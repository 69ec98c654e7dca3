//! What the database surely refuses, told without asking it: for changes that are taken while it is away, so that they
//! are refused while the client waits for the answer. Where it is not sure, nothing is said.

use forebay::change::Change;
use forebay::store::Write;
use forebay::{Data, Value};

use super::dialect::Dialect;
use super::row_change::utf8;
use super::table::{Column, Kind, Table};

/// What a change leaves in a column.
#[derive(Clone, Copy)]
enum Left<'a> {
    Null,
    /// Null if there was a row.
    Emptied,
    Text(&'a [u8]),
}

/// What a document's changes leave, as far as they say.
#[derive(Default)]
struct Outcome<'a> {
    left: Vec<(&'a [u8], Left<'a>)>,
    /// Fields that are made from others: nothing is known of them.
    made: Vec<&'a [u8]>,
    inserts: bool,
}

impl<'a> Outcome<'a> {
    fn set(&mut self, field: &'a [u8], left: Left<'a>) {
        self.left.retain(|(other, _)| *other != field);
        self.left.push((field, left));
    }

    fn take(&mut self, change: &'a Change) {
        match change {
            Change::Delete => *self = Outcome::default(),
            Change::SetField(field, value) => {
                self.set(field, Left::Text(value));
                self.inserts = true;
            }
            Change::UnsetField(field) => self.set(field, if self.inserts { Left::Null } else { Left::Emptied }),
            Change::AddInteger { field: Some(field), .. } | Change::AddFloat { field: Some(field), .. } => {
                self.left.retain(|(other, _)| **other != **field);
                self.made.push(field);
                self.inserts = true;
            }
            _ => {}
        }
    }
}

impl Table {
    /// Why the row with this key surely can't be changed by `write`. `alone`: no other document is in the row.
    pub(crate) fn surely_refused(
        &self,
        dialect: &dyn Dialect,
        parts: &[&str],
        write: &Write,
        alone: bool,
    ) -> Option<String> {
        if self.mapping.list.is_some() {
            return self.elements_refused(dialect, &write.changes);
        }
        if !self.may_delete && write.changes.iter().any(|change| matches!(change, Change::Delete)) {
            return Some(format!("forebay's role may not delete rows of {}, it needs DELETE", self.name));
        }
        // A row that is set as a whole, by one text, and where nobody knew the document.
        let (mut named, mut texts) = (Vec::new(), Vec::new());
        for change in write.changes.iter() {
            match change {
                Change::Put(Value { data: Data::Bytes(text), .. }) => {
                    texts.push(named.len());
                    named.extend(self.changes_of_object(parts, &text.joined()).ok()?);
                }
                change => named.push(change.clone()),
            }
        }
        let mut outcome = Outcome::default();
        for (at, change) in named.iter().enumerate() {
            // There is a row when its text is taken apart.
            outcome.inserts |= texts.contains(&at);
            outcome.take(change);
        }
        let known = outcome.left.iter().filter(|(field, _)| !outcome.made.contains(field));
        for (field, left) in known {
            let column = self.fields.iter().find(|column| column.name.as_bytes() == *field)?;
            if let Some(why) = self.left_refused(dialect, column, *left, (outcome.inserts, !write.unseen)) {
                return Some(format!("the field {} of {}: {why}", column.name, self.name));
            }
        }
        let sums = || outcome.made.iter().find_map(|field| self.sum_refused(dialect, write, field));
        let lacks = || outcome.inserts.then(|| self.lacks(write, alone)).flatten();
        sums().or_else(lacks)
    }

    /// A sum that the column does not hold, as far as it is known what is added to; else what is added, where no two
    /// values of the column are so far from each other.
    fn sum_refused(&self, dialect: &dyn Dialect, write: &Write, field: &[u8]) -> Option<String> {
        let column = self.fields.iter().find(|column| *column.field == *field)?;
        let refused = |why: String| format!("the field {} of {}: {why}", column.name, self.name);
        if let Some(Value { data: Data::Hash(after), .. }) = write.after.as_ref().filter(|_| !write.unseen) {
            let text = utf8(after.get(field)?).ok()?;
            return dialect.value_refused(&column.type_name, column.limit.as_ref(), text).map(refused);
        }
        let span = match column.type_name.as_str() {
            "smallint" => u64::from(u16::MAX),
            "integer" => u64::from(u32::MAX),
            _ => return None,
        };
        // Steps that add up are one by now; of others some may take back what one adds.
        let mut adds = write.changes.iter().filter_map(|change| match change {
            Change::AddInteger { field: Some(name), delta } if **name == *field => Some(*delta),
            _ => None,
        });
        let (first, others) = (adds.next()?, adds.next());
        let only = others.is_none() && write.changes.len() == 1;
        (only && first.unsigned_abs() > span).then(|| refused(format!("{first} is more than {} has", column.type_name)))
    }

    fn left_refused(
        &self,
        dialect: &dyn Dialect,
        column: &Column,
        left: Left<'_>,
        (inserts, seen): (bool, bool),
    ) -> Option<String> {
        match left {
            // A key's column stands there for the row's sake.
            _ if self.key.iter().any(|key| key.name == column.name) => None,
            Left::Null if inserts || seen => column.not_null.then(|| "it is NOT NULL".into()),
            Left::Emptied if seen => column.not_null.then(|| "it is NOT NULL".into()),
            Left::Null | Left::Emptied => None,
            Left::Text(_) if column.kind == Kind::Bytes => None,
            Left::Text(value) => {
                let text = utf8(value).ok()?;
                dialect.value_refused(&column.type_name, column.limit.as_ref(), text)
            }
        }
    }

    /// A column that a new row has to be given and is not. The row is new where its document is known and is given what
    /// every row has.
    fn lacks(&self, write: &Write, alone: bool) -> Option<String> {
        let Some(Value { data: Data::Hash(after), .. }) = write.after.as_ref().filter(|_| !write.unseen) else {
            return None;
        };
        let given = |field: &[u8]| {
            let gives = |change: &Change| matches!(change, Change::SetField(name, _) if **name == *field);
            after.get(field).is_none() || write.changes.iter().any(gives)
        };
        let is_new = self.key.first().is_some_and(|key| given(key.name.as_bytes()));
        let is_field = |name: &String| self.fields.iter().any(|column| column.name == *name);
        let lacking = self.needed.iter().find(|name| match is_field(name) {
            true => after.get(name.as_bytes()).is_none(),
            false => is_new && alone,
        })?;
        let named = if is_field(lacking) { lacking.as_str() } else { "a column that this mapping does not show" };
        Some(format!("a new row of {} needs {named}: it is NOT NULL and has no default", self.name))
    }

    /// Elements that come to the list and are none of its type. One that is taken out again is never seen.
    fn elements_refused(&self, dialect: &dyn Dialect, changes: &[Change]) -> Option<String> {
        let column = self.fields.first()?;
        let Kind::Array(element) = &column.kind else { return None };
        let pushed: Option<Vec<&[u8]>> = (changes.iter())
            .map(|change| match change {
                Change::Push(_, pushed) => Some(&**pushed),
                _ => None,
            })
            .collect();
        let why = pushed?.into_iter().find_map(|pushed| dialect.value_refused(element, None, utf8(pushed).ok()?))?;
        Some(format!("{} of {}: {why}", column.name, self.name))
    }
}
