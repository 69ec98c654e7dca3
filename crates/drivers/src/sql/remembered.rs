//! What a database was seen to be, as a text that outlives the process: which one it is, and what its mapped tables
//! look like. Whoever starts while it is away checks keys and changes by that, and orders them.

use std::sync::Arc;

use forebay::Key;
use forebay::change::Change;
use forebay::key::KeyRef;
use forebay::store::forms::{Computed, Fills};
use forebay::store::late::Catalogue;
use forebay::store::{Commit, Form};
use forebay::value::Value;
use serde::{Deserialize, Serialize};

use super::dialect::Dialect;
use super::keys::{Keys, Named};
use super::mapping::{Mapping, VersionMode, parts_of};
use super::table::Table;
use super::tables::Tables;

/// Which database it is, whatever host it is reached by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Its name.
    pub(crate) database: String,
    /// Its number in its cluster, which a rename does not change.
    pub(crate) oid: u32,
    /// The number of the cluster, which its standbys and physical backups share; none if the role may not ask.
    pub(crate) cluster: Option<String>,
}

impl Place {
    /// Whether this is surely the database that `other` was, or a copy of its files.
    pub(crate) fn is(&self, other: &Place) -> bool {
        self.oid == other.oid && self.cluster.is_some() && self.cluster == other.cluster
    }

    /// Whether this is surely none of the copies of `other`'s files.
    pub(crate) fn is_not(&self, other: &Place) -> bool {
        let known = self.cluster.is_some() && other.cluster.is_some();
        known && !self.is(other)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    place: &'a Place,
    tables: &'a [Table],
}

/// The text of what [`Remembered::read`] reads.
pub(crate) fn text(place: &Place, tables: &[Table]) -> Option<String> {
    serde_json::to_string(&Written { place, tables }).ok()
}

/// A database as it was seen by an earlier opening.
#[derive(Clone, Debug, Deserialize)]
pub struct Remembered {
    pub(crate) place: Place,
    tables: Vec<Table>,
}

impl Remembered {
    /// Reads the text that an opened database gave; `None` if another version of this program wrote it in a way that
    /// is not known here.
    pub fn read(text: &str) -> Option<Remembered> {
        serde_json::from_str(text).ok()
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.place.database
    }

    /// The table of `mapping`, as it was.
    pub(crate) fn table(&self, mapping: &Mapping) -> Option<&Table> {
        self.tables.iter().find(|table| is_same(&table.mapping, mapping))
    }

    fn covers(&self, mappings: &[Mapping]) -> bool {
        self.tables.len() == mappings.len()
            && self.tables.iter().zip(mappings).all(|(table, mapping)| is_same(&table.mapping, mapping))
    }
}

/// Whether a mapping is the one that was given, but for where versions come from, which is found in the database, and
/// for what deletes.
fn is_same(one: &Mapping, other: &Mapping) -> bool {
    let plain = |mapping: &Mapping| mapping.clone().place().with_version(Some(VersionMode::None), VersionMode::None);
    plain(one) == plain(other)
}

/// What can be said of keys and changes under `mappings` while the database can't be asked: what was `remembered` of
/// it, or, if that is of other mappings, no more than which keys there are.
pub(crate) fn catalogue(
    dialect: &'static dyn Dialect,
    remembered: Option<Remembered>,
    mappings: &[Mapping],
    keys: &[Keys],
) -> Box<dyn Catalogue> {
    let named = Named::new(keys, mappings);
    Box::new(match remembered {
        _ if mappings.is_empty() => Away::Documents,
        Some(mut remembered) if remembered.covers(mappings) => {
            let given = remembered.tables.iter_mut().zip(mappings);
            given.for_each(|(table, mapping)| table.mapping.on_delete = mapping.on_delete);
            Away::Rows(Tables::of(dialect, remembered.tables).beside_documents(named))
        }
        _ => Away::Patterns(mappings.to_vec(), named),
    })
}

enum Away {
    /// All keys are documents of their own.
    Documents,
    Rows(Tables),
    /// Nothing is known of the tables; beside their rows these are documents.
    Patterns(Vec<Mapping>, Option<Arc<Named>>),
}

impl Away {
    fn rows(&self) -> Option<&Tables> {
        match self {
            Away::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// Whether `key` is a document of forebay's own.
    fn is_document(&self, key: &Key) -> bool {
        match self {
            Away::Documents => true,
            Away::Rows(rows) => rows.is_document(key),
            Away::Patterns(_, named) => named.as_ref().is_some_and(|named| named.has(key)),
        }
    }
}

impl Catalogue for Away {
    fn has_documents(&self) -> bool {
        match self {
            Away::Documents => true,
            Away::Rows(rows) => rows.documents.is_some(),
            Away::Patterns(_, named) => named.is_some(),
        }
    }

    fn owns(&self, key: &Key) -> bool {
        self.is_document(key)
    }

    fn lane(&self, key: &Key) -> Option<u32> {
        match self {
            Away::Documents => None,
            Away::Rows(rows) => rows.lane(key),
            // All may be joined.
            Away::Patterns(..) => (!self.is_document(key)).then_some(u32::MAX),
        }
    }

    fn references(&self, key: &Key, changes: &[Change]) -> Vec<Key> {
        self.rows().map_or_else(Vec::new, |rows| rows.references(key, changes))
    }

    fn refuses(&self, commit: &Commit) -> Option<String> {
        match self {
            Away::Documents => None,
            Away::Rows(rows) => rows.refuses(commit),
            Away::Patterns(mappings, _) => {
                let checked = commit.checks.iter().map(|(key, _)| key);
                let keys = commit.writes.iter().map(|write| &write.key).chain(checked);
                keys.filter(|key| !self.is_document(key)).find_map(|key| parts_of(key, mappings).err())
            }
        }
    }

    fn form(&self, key: &Key) -> Form {
        match self {
            Away::Documents => Form::Document,
            Away::Rows(rows) => rows.form(key),
            Away::Patterns(mappings, _) => {
                let found = parts_of(key, mappings);
                let computed = Computed { columns: Fills::Any, from: Fills::Any };
                found.map_or(Form::Document, |(at, parts)| mappings[at].form(&parts, Fills::Any, computed))
            }
        }
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.rows().map_or_else(Vec::new, |rows| rows.beside(key))
    }

    fn text_of(&self, key: KeyRef<'_>, value: &Value) -> Option<Vec<u8>> {
        self.rows().and_then(|rows| rows.text_of(key, value))
    }

    fn changes_of_text(&self, key: KeyRef<'_>, text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        self.rows().and_then(|rows| rows.changes_of_text(key, text))
    }

    fn as_stored(&self, key: KeyRef<'_>, change: Change) -> Change {
        match self.rows() {
            Some(rows) => rows.as_stored(key, change),
            None => change,
        }
    }
}
