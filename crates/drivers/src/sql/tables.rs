//! The mapped tables of a database, and what they tell without asking it. That is which row a key is, what it
//! takes, what it is joined to, and what is surely refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Key;
use forebay::change::Change;
use forebay::key::KeyRef;
use forebay::store::{Commit, Form};
use forebay::value::{Data, Value};

use super::dialect::Dialect;
use super::keys::Named;
use super::mapping::{VersionMode, parts_of};
use super::table::{Column, Reference, Table};
use super::watching::{OutsideBy, Unwatched};

/// The mapped tables.
pub(crate) struct Tables {
    pub(crate) tables: Vec<Table>,
    /// Some row is several documents.
    pub(crate) shared: bool,
    /// What is written to them is decoded.
    pub(crate) decoded: bool,
    /// Those that nothing watches.
    pub(crate) unwatched: Unwatched,
    /// Keys that are documents beside them.
    pub(crate) documents: Option<Arc<Named>>,
    dialect: &'static dyn Dialect,
    /// The database has said that one is not as it is here.
    altered: AtomicBool,
}

/// A key as a row: which table, and the texts of its key columns.
pub(crate) struct Place<'a> {
    pub(crate) table: usize,
    pub(crate) parts: Vec<&'a str>,
}

impl Tables {
    /// Tables that were looked up, all of them, and share their rows.
    pub(crate) fn of(dialect: &'static dyn Dialect, tables: Vec<Table>) -> Tables {
        let alike = |(at, table): (usize, &Table)| tables[..at].iter().any(|other| other.oid == table.oid);
        let shared = tables.iter().enumerate().any(alike);
        let (unwatched, altered) = (Unwatched::default(), AtomicBool::new(false));
        Tables { tables, shared, decoded: false, unwatched, documents: None, dialect, altered }
    }

    /// The database says that a table is not as it is here.
    pub(crate) fn note_altered(&self) {
        self.altered.store(true, Ordering::Relaxed);
    }

    /// Whether it has said so since this was asked last.
    pub(crate) fn is_altered(&self) -> bool {
        self.altered.swap(false, Ordering::Relaxed)
    }

    /// Their rows have at most so many bytes.
    pub(crate) fn up_to(mut self, row_bytes_max: usize) -> Tables {
        self.tables.iter_mut().for_each(|table| table.row_bytes_max = row_bytes_max);
        self
    }

    /// What others write to them is seen so.
    pub(crate) fn seen_by(mut self, outside: OutsideBy) -> Tables {
        (self.decoded, self.unwatched) = (outside == OutsideBy::Decoding, Unwatched::of(&self.tables, outside));
        self
    }

    /// Beside them these keys are documents.
    pub(crate) fn beside_documents(mut self, documents: Option<Arc<Named>>) -> Tables {
        self.documents = documents;
        self
    }

    /// Whether `key` is a document, and no row's.
    pub(crate) fn is_document(&self, key: &Key) -> bool {
        self.documents.as_ref().is_some_and(|named| named.has(key))
    }

    /// The row that `key` is, or why it is none.
    pub(crate) fn place<'a>(&self, key: &'a Key) -> Result<Place<'a>, String> {
        let mappings = self.tables.iter().map(|table| &table.mapping);
        let (at, parts) = parts_of(key, mappings)?;
        let fits = |(part, column): &(&&str, &Column)| self.dialect.is_key_text(column, part);
        match parts.iter().zip(&self.tables[at].key).find(|pair| !fits(pair)) {
            None => Ok(Place { table: at, parts }),
            Some((part, column)) => {
                let (database, type_name) = (self.dialect.name(), &column.type_name);
                Err(format!("{key} names no row: '{part}' is not how {database} writes {type_name}"))
            }
        }
    }

    /// The number of the table that `key` is a row of.
    pub(crate) fn table_of(&self, key: &Key) -> Option<usize> {
        parts_of(key, self.tables.iter().map(|table| &table.mapping)).ok().map(|(table, _)| table)
    }

    /// What the row of `key` has in common with those to which the order of their changes matters; none where nothing
    /// can matter to another row.
    pub(crate) fn lane(&self, key: &Key) -> Option<u32> {
        let table = &self.tables[self.place(key).ok()?.table];
        (!table.independent).then_some(table.joined)
    }

    /// The form of the document of `key`; a key that names no row is refused before it matters.
    pub(crate) fn form(&self, key: &Key) -> Form {
        self.place(key).map_or(Form::Document, |place| self.tables[place.table].form(&place.parts))
    }

    /// The other documents of the row that `key` is in.
    pub(crate) fn beside(&self, key: &Key) -> Vec<Key> {
        if !self.shared {
            return Vec::new();
        }
        let Ok(place) = self.place(key) else { return Vec::new() };
        let oid = self.tables[place.table].oid;
        let others = self.tables.iter().enumerate().filter(|(at, table)| *at != place.table && table.oid == oid);
        let names = others.filter_map(|(_, table)| table.mapping.join_name(&place.parts));
        names.map(|name| Key::new(0, name.as_bytes())).collect()
    }

    /// The rows that the row of `key` names by its foreign keys, as far as `changes` and its own key say.
    pub(crate) fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        let Ok(place) = self.place(key) else { return Vec::new() };
        let table = &self.tables[place.table];
        if table.references.is_empty() {
            return Vec::new();
        }
        let texts = table.set_by(&place.parts, changes);
        let named = |reference: &Reference| {
            let target = &self.tables[reference.target];
            let part = |(name, column): (&String, &Column)| self.dialect.key_text(column, texts.get(name.as_str())?);
            let parts: Option<Vec<String>> = reference.columns.iter().zip(&target.key).map(part).collect();
            target.mapping.join_name(&parts?).map(|name| Key::new(0, name.as_bytes()))
        };
        table.references.iter().filter_map(named).collect()
    }

    /// The row of `key` as one text.
    pub(crate) fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        let Data::Hash(row) = &value.data else { return None };
        let key = key.to_key();
        self.place(&key).ok().map(|place| self.tables[place.table].object_of(row))
    }

    /// What it comes to that the row of `key` is set by one text.
    pub(crate) fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        let key = key.to_key();
        let changes = || {
            let place = self.place(&key)?;
            self.tables[place.table].changes_of_object(&place.parts, text)
        };
        (!self.is_document(&key)).then(changes)
    }

    /// `change` of the document of `key` with its text as the database will show it.
    pub(crate) fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        let key = key.to_key();
        match self.place(&key) {
            Ok(place) => self.tables[place.table].as_stored(self.dialect, change),
            Err(_) => change,
        }
    }

    /// Whether what is written to the table with this number is seen by who looks for what others write.
    pub(crate) fn notes(&self, table: usize) -> bool {
        self.decoded || self.tables[table].mapping.version != VersionMode::None
    }

    /// `commit` without what it does to documents, if it does anything to them.
    pub(crate) fn without_documents(&self, commit: &Commit) -> Option<Commit> {
        let mut keys = commit.writes.iter().map(|write| &write.key).chain(commit.checks.iter().map(|(key, _)| key));
        let any = self.documents.is_some() && keys.any(|key| self.is_document(key));
        any.then(|| {
            let mut commit = commit.clone();
            commit.writes.retain(|write| !self.is_document(&write.key));
            commit.checks.retain(|(key, _)| !self.is_document(key));
            commit
        })
    }

    /// Why `commit` can't be made, as far as the tables tell.
    pub(crate) fn refuses(&self, commit: &Commit) -> Option<String> {
        let of_rows = self.without_documents(commit);
        let commit = of_rows.as_ref().unwrap_or(commit);
        let mut keys = commit.writes.iter().map(|write| &write.key).chain(commit.checks.iter().map(|(key, _)| key));
        if let Some(why) = keys.find_map(|key| self.place(key).err()) {
            return Some(why);
        }
        let places = || commit.writes.iter().filter_map(|write| Some((write, self.place(&write.key).ok()?)));
        let refused = places()
            .find_map(|(write, place)| self.dialect.write_refused(&self.tables[place.table], &place.parts, write));
        refused.or_else(|| {
            places().find_map(|(write, place)| {
                self.tables[place.table].surely_refused(self.dialect, &place.parts, write, !self.shared)
            })
        })
    }
}
