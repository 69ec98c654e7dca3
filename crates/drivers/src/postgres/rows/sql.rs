//! Statements on the rows of a mapped table. Every column comes and goes as text, so that prepared statements and
//! batches are read alike; bytes as hex, a list as JSON.

use std::fmt::Write;

use forebay::Version;

use crate::postgres::sql::LARGE_BYTES;
use crate::sql::mapping::VersionMode;
use crate::sql::table::{Column, Kind, Table, VERSION_COLUMN, quoted};
use crate::sql::text::array_text;

/// `text` in single quotes. Safe under `standard_conforming_strings`, which every session sets.
pub(in crate::postgres) fn literal(text: &str) -> Result<String, String> {
    match text.contains('\0') {
        true => Err("PostgreSQL's text can't hold a zero byte".into()),
        false => Ok(format!("'{}'", text.replace('\'', "''"))),
    }
}

/// An array of texts, in single quotes.
pub(in crate::postgres) fn array_literal<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Result<String, String> {
    literal(&array_text(texts)).map(|array| format!("{array}::text[]"))
}

/// The same of what comes from the catalogue, which holds no zero byte.
pub(in crate::postgres) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Keys that a statement is about, each the texts of its columns and its place.
pub(in crate::postgres) struct Row<'a> {
    pub(in crate::postgres) place: usize,
    pub(in crate::postgres) parts: Vec<&'a str>,
    /// The version that it should have; `None` for absence.
    pub(in crate::postgres) version: Option<u64>,
}

impl<'a> Row<'a> {
    /// A row with the version that was read: those of absence are odd.
    pub(in crate::postgres) fn checked(place: usize, parts: Vec<&'a str>, version: Version) -> Row<'a> {
        let version = version.sequence.is_multiple_of(2).then_some(version.sequence / 2);
        Row { place, parts, version }
    }
}

impl Table {
    pub(super) fn read_column(&self, column: &Column) -> String {
        let name = quoted(&column.name);
        match column.kind {
            Kind::Bytes => format!("encode(t.{name}, 'hex')"),
            Kind::Array(_) if self.mapping.list.is_some() => format!("to_jsonb(t.{name}::text[])::text"),
            _ => format!("t.{name}::text"),
        }
    }

    /// The version of the row `t`, as text; NULL if there is none.
    pub(super) fn version(&self) -> String {
        match self.mapping.version {
            VersionMode::None | VersionMode::Auto => "t.xmin::text".to_owned(),
            VersionMode::Column => format!("t.{VERSION_COLUMN}::text"),
            VersionMode::Side => {
                let (first, table) = (quoted(&self.key[0].name), quoted_text(&self.name));
                // That of all rows that were there when versions began to be kept, and were not written since.
                let began =
                    format!("(SELECT b.version FROM forebay.row_versions b WHERE b.tab = {table} AND b.key = '{{}}')");
                format!("CASE WHEN t.{first} IS NOT NULL THEN coalesce(v.version, {began}, 0)::text END")
            }
        }
    }

    /// A number that no row which is absent now ever had, and that every later one is above.
    fn absence(&self) -> &'static str {
        match self.mapping.version {
            VersionMode::None | VersionMode::Auto => {
                "(pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296 - 1)::text"
            }
            _ => "(SELECT last_value FROM forebay.versions)::text",
        }
    }

    /// That `t` is the row of the key `k`.
    pub(super) fn on(&self) -> String {
        let on = |(at, column): (usize, &Column)| format!("t.{} = k.p{at}::{}", quoted(&column.name), column.type_name);
        self.key.iter().enumerate().map(on).collect::<Vec<_>>().join(" AND ")
    }

    /// `LEFT JOIN` of the rows to the keys `k`.
    fn join(&self) -> String {
        let on = self.on();
        let mut text = format!("LEFT JOIN {} t ON {on}", self.name);
        if self.mapping.version == VersionMode::Side {
            let key: Vec<String> = self.key.iter().map(|column| format!("t.{}::text", quoted(&column.name))).collect();
            let _ = write!(
                text,
                " LEFT JOIN forebay.row_versions v ON v.tab = {} AND v.key = ARRAY[{}]",
                quoted_text(&self.name),
                key.join(", ")
            );
        }
        text
    }

    fn names_of_parts(&self) -> String {
        (0..self.key.len()).map(|at| format!("p{at}, ")).collect()
    }

    /// What is read of the row `t`.
    pub(super) fn read_columns(&self) -> Vec<String> {
        self.fields.iter().map(|column| self.read_column(column)).collect()
    }

    /// Rows of more than `bytes_max` bytes are left out.
    fn read(&self, keys: &str, bytes_max: usize, more: &str) -> String {
        let (columns, measured) = self.read_within(bytes_max);
        let (version, absence, join) = (self.version(), self.absence(), self.join());
        format!("SELECT '=' || k.place, {version}, {absence}, {columns}{more} FROM {keys} {join}{measured}")
    }

    /// Reads keys given as one array of texts per column; places are from 1. Large rows are left out.
    pub(in crate::postgres) fn select(&self) -> String {
        self.select_with(LARGE_BYTES.min(self.row_bytes_max), "")
    }

    /// The same, and large rows, too.
    pub(in crate::postgres) fn select_whole(&self) -> String {
        self.select_with(self.row_bytes_max, "")
    }

    /// The same up to `bytes_max` bytes of a row, with `more` columns behind the others.
    pub(super) fn select_with(&self, bytes_max: usize, more: &str) -> String {
        let arrays: Vec<String> = (1..=self.key.len()).map(|at| format!("${at}::text[]")).collect();
        let names = self.names_of_parts();
        self.read(&format!("unnest({}) WITH ORDINALITY AS k({names}place)", arrays.join(", ")), bytes_max, more)
    }

    /// The keys `k`: their parts, their places and the versions that they should have.
    pub(super) fn keys(&self, rows: &[Row<'_>]) -> Result<String, String> {
        let mut arrays = Vec::with_capacity(self.key.len() + 2);
        for at in 0..self.key.len() {
            arrays.push(array_literal(rows.iter().map(|row| Some(row.parts[at])))?);
        }
        let texts = |of: &dyn Fn(&Row<'_>) -> Option<String>| -> Result<String, String> {
            let texts: Vec<Option<String>> = rows.iter().map(of).collect();
            array_literal(texts.iter().map(Option::as_deref))
        };
        arrays.push(texts(&|row| Some(row.place.to_string()))?);
        arrays.push(texts(&|row| row.version.map(|version| version.to_string()))?);
        Ok(format!("unnest({}) AS k({}place, version)", arrays.join(", "), self.names_of_parts()))
    }

    /// Reads what `rows` are now.
    pub(in crate::postgres) fn read_back(&self, rows: &[Row<'_>]) -> Result<String, String> {
        Ok(self.read(&self.keys(rows)?, self.row_bytes_max, ""))
    }

    /// Fails, with the places, unless `rows` have their versions.
    pub(in crate::postgres) fn check(&self, rows: &[Row<'_>]) -> Result<String, String> {
        let (keys, join, version) = (self.keys(rows)?, self.join(), self.version());
        Ok(format!(
            "SELECT {} FROM {keys} {join} WHERE {version} IS DISTINCT FROM k.version",
            self.overtaken_at("string_agg(k.place, ',')")
        ))
    }

    /// The places of those of `rows` that don't have their versions.
    pub(in crate::postgres) fn overtaken(&self, rows: &[Row<'_>]) -> Result<String, String> {
        let (keys, join, version) = (self.keys(rows)?, self.join(), self.version());
        let kept = self.fails_unless_kept();
        Ok(format!("SELECT '=' || k.place FROM {keys} {join} WHERE {version} IS DISTINCT FROM k.version{kept}"))
    }

    /// Locks those of `rows` that are there, in the order of their keys.
    pub(in crate::postgres) fn lock(&self, rows: &[Row<'_>]) -> Result<String, String> {
        let on = self.on();
        let order: Vec<String> = self.key.iter().map(|column| format!("t.{}", quoted(&column.name))).collect();
        let (name, keys, order) = (&self.name, self.keys(rows)?, order.join(", "));
        Ok(format!("SELECT '' FROM {keys} JOIN {name} t ON {on} ORDER BY {order} FOR NO KEY UPDATE OF t"))
    }

    /// Counts the rows that are documents.
    pub(in crate::postgres) fn count(&self) -> String {
        format!("SELECT count(*) FROM {} t WHERE {}", self.name, self.has_key())
    }

    /// That the row `t` is a document: a unique index lets NULLs in, and a row with one has no key.
    fn has_key(&self) -> String {
        let there: Vec<String> =
            self.key.iter().map(|column| format!("t.{} IS NOT NULL", quoted(&column.name))).collect();
        there.join(" AND ")
    }

    /// The keys behind one, in the order of their columns; the number of keys is the last parameter.
    pub(in crate::postgres) fn scan(&self, after: bool) -> String {
        let names: Vec<String> = self.key.iter().map(|column| format!("t.{}", quoted(&column.name))).collect();
        let names = names.join(", ");
        let texts: Vec<String> = self.key.iter().map(|column| format!("t.{}::text", quoted(&column.name))).collect();
        let texts = texts.join(", ");
        let mut text = format!("SELECT ARRAY[{texts}] FROM {} t", self.name);
        let _ = write!(text, " WHERE {}", self.has_key());
        let count = match after {
            true => {
                let parameters: Vec<String> = (self.key.iter().enumerate())
                    .map(|(at, column)| format!("${}::text::{}", at + 1, column.type_name))
                    .collect();
                let _ = write!(text, " AND ({names}) > ({})", parameters.join(", "));
                self.key.len()
            }
            false => 0,
        };
        let _ = write!(text, " ORDER BY {names} LIMIT ${}::bigint", count + 1);
        text
    }
}
