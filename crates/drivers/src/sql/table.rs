//! Mapped tables and their columns, as plain data: what a driver has found in its database's catalogue, and what the
//! journal keeps of it for a start without the database.

use forebay::value::Blob;
use serde::{Deserialize, Serialize};

use super::mapping::Mapping;

/// The column that holds a row's version.
pub(crate) const VERSION_COLUMN: &str = "forebay_version";

/// What a column's values are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Whole numbers.
    Integer,
    /// Numbers with a fraction.
    Number,
    /// Bytes.
    Bytes,
    /// An array of what the type's name, without brackets, says.
    Array(String),
    /// All that has a text.
    Text,
}

/// A column of a mapped table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The name as the field's, which all rows share.
    #[serde(with = "super::written::field")]
    pub(crate) field: Blob,
    pub(crate) kind: Kind,
    /// The type as SQL names it, without a length, and without the length of 1 that some names imply.
    pub(crate) type_name: String,
    /// Why its values can't be changed, if they can't.
    pub(crate) read_only: Option<ReadOnly>,
    /// What its length lets in, or its type.
    pub(crate) limit: Option<Limit>,
    /// NULL is surely refused: nothing of the table's may put another value in its place.
    pub(crate) not_null: bool,
    /// A new row that is not given it may have something there all the same: by a default, or since the database
    /// computes it.
    #[serde(default = "may")]
    pub(crate) has_default: bool,
    /// The columns from which the database computes it at each write.
    #[serde(default)]
    pub(crate) computed_from: Vec<String>,
}

/// Why a column's values can't be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReadOnly {
    /// It is of the key.
    Key,
    /// The database computes it.
    Generated,
    /// The mapping says so.
    Declared,
    /// The role lacks UPDATE or INSERT.
    NoRight,
}

impl ReadOnly {
    /// The reason, as it stands behind "the field x is read-only: ".
    pub(crate) fn why(self) -> &'static str {
        match self {
            ReadOnly::Key => "it is of the key",
            ReadOnly::Generated => "the database computes it",
            ReadOnly::Declared => "the mapping says readonly(..)",
            ReadOnly::NoRight => "forebay's role may not write it, it needs UPDATE and INSERT",
        }
    }
}

/// What a column's length lets in, or its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Limit {
    /// So many characters.
    Characters(usize),
    /// A number of so many digits before the point, rounded to so many behind it.
    Digits {
        /// Before the point.
        whole: usize,
        /// Behind it.
        fraction: usize,
    },
    /// A moment, with so many digits of a second's fraction.
    Fraction(usize),
    /// One of these.
    Labels(Vec<String>),
}

/// A mapping whose table is as it has to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    #[serde(with = "super::written::mapping")]
    pub(crate) mapping: Mapping,
    /// Schema and name, quoted.
    pub(crate) name: String,
    pub(crate) oid: u32,
    pub(crate) key: Vec<Column>,
    /// The key's columns first.
    pub(crate) fields: Vec<Column>,
    /// Columns that a new row must be given, beside the key's: NOT NULL, without a default, and nothing of the table's
    /// fills them.
    pub(crate) needed: Vec<String>,
    /// The role may delete rows.
    #[serde(default = "may")]
    pub(crate) may_delete: bool,
    /// The unique index on the key, whose violation means that another program made the row meanwhile.
    pub(crate) unique_index: String,
    /// Whether what happens to one row can't matter to another, here or elsewhere: no constraint but the key's and no
    /// trigger but forebay's.
    pub(crate) independent: bool,
    /// Whether what `UPDATE .. RETURNING` returns of a row is what it is in the end: nothing of the table's changes it
    /// after that.
    #[serde(default)]
    pub(crate) returning: bool,
    /// Whether no column is computed from others.
    #[serde(default)]
    pub(crate) plain: bool,
    /// What it has in common with the tables that foreign keys join it to, and with no others.
    pub(crate) joined: u32,
    /// How its rows name rows that are documents.
    pub(crate) references: Vec<Reference>,
    /// Bytes of a row, at most; see `size`.
    #[serde(skip, default = "any")]
    pub(crate) row_bytes_max: usize,
    /// What is wrong with its triggers. The table is served all the same.
    #[serde(skip)]
    pub(crate) doubt: Option<String>,
}

/// How rows of one mapped table name rows of another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The place of the other's mapping.
    pub(crate) target: usize,
    /// For each column of its key the one that holds the same.
    pub(crate) columns: Vec<String>,
}

/// What an earlier version did not note.
fn may() -> bool {
    true
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What a row may have until it is said.
pub(crate) fn any() -> usize {
    usize::MAX
}
