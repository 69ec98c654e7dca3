//! Which keys are which rows of tables that exist already.
//!
//! ```text
//! user:{id} -> users(id)
//! member:{org}:{id} -> app.members(org, id) fields(name, visits) readonly(created) version(column)
//! friends:{id} -> members(id).friends as list
//! ```
//!
//! The parts of a key in braces are the columns in parentheses: by name if just the columns' names stand in the braces,
//! else in order. A row is a hash whose fields are its columns,
//! NULL is an absent field; with `as list` the document is one column, an array. `delete=row` has DEL delete rows.
//! Names stand as the database has them, in double quotes where they are not plain.

use std::fmt;
use std::str::FromStr;

use forebay::Key;
use forebay::store::Form;
use forebay::store::forms::{Computed, Fills, OnDelete, RowForm};
use forebay::value::Blob;

use super::glob::{Glob, suggested};
use super::pattern::Pattern;

/// Where a row's version comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionMode {
    /// From what `forebay store init` has put there, `None` if nothing.
    #[default]
    Auto,
    /// The transaction that wrote the row last (`xmin`): nothing is added to the database, and writers that go around
    /// forebay are noticed when a commit checks what it has read, but not before.
    None,
    /// A column of the table, kept by a trigger.
    Column,
    /// A row beside it in forebay's schema, kept by a trigger: the table itself stays as it is.
    Side,
}

impl VersionMode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            VersionMode::Auto => "auto",
            VersionMode::None => "none",
            VersionMode::Column => "column",
            VersionMode::Side => "side",
        }
    }
}

impl FromStr for VersionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<VersionMode, String> {
        let modes = [VersionMode::None, VersionMode::Column, VersionMode::Side];
        let found = modes.into_iter().find(|mode| mode.word() == text);
        found.ok_or_else(|| format!("there is no version({text}); give column, side or none"))
    }
}

/// Keys of one pattern are rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub(crate) pattern: Pattern,
    /// The schema, if it is named, and the table.
    pub(crate) table: (Option<String>, String),
    pub(crate) key: Vec<String>,
    /// The column that is a list, if the document is one.
    pub(crate) list: Option<String>,
    /// The columns that are fields beside the key's; all if `None`.
    pub(crate) fields: Option<Vec<String>>,
    pub(crate) read_only: Vec<String>,
    pub(crate) version: VersionMode,
    /// What a command that deletes comes to, if it is said.
    pub(crate) on_delete: Option<OnDelete>,
}

/// What `delete=` may be.
const ON_DELETE: [(&str, OnDelete); 3] =
    [("refuse", OnDelete::Refuse), ("row", OnDelete::Row), ("invalidate", OnDelete::Invalidate)];

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Mapping, String> {
        let (pattern, rest) =
            text.split_once(" -> ").ok_or("give KEY -> TABLE(COLUMN), as in 'user:{id} -> users(id)'")?;
        let pattern: Pattern = pattern.trim().parse()?;
        let mut words = Words { rest: rest.trim() };
        let first = words.name()?;
        let table = match words.take('.') {
            true => (Some(first), words.name()?),
            false => (None, first),
        };
        let key = words.names()?;
        if key.len() != pattern.parts() {
            return Err(format!("the key has {} parts in braces and the table {} columns", pattern.parts(), key.len()));
        }
        let key = pattern.in_order(key)?;
        let list = match words.take('.') {
            true => {
                let column = words.name()?;
                match (words.name()?.as_str(), words.name()?.as_str()) {
                    ("as", "list") => Some(column),
                    _ => return Err(format!("a single column is a list: write .{column} as list")),
                }
            }
            false => None,
        };
        let (fields, read_only, version, on_delete) = (None, Vec::new(), VersionMode::Auto, None);
        let mut mapping = Mapping { pattern, table, key, list, fields, read_only, version, on_delete };
        let mut said: Vec<String> = Vec::new();
        while !words.rest.is_empty() {
            let word = match words.word()? {
                word if word == "read-only" => "readonly".to_owned(),
                word => word,
            };
            if said.contains(&word) {
                return Err(format!("{word} stands there twice; say it once"));
            }
            match word.as_str() {
                "fields" => mapping.fields = Some(words.names()?),
                "readonly" => mapping.read_only = words.names()?,
                "version" => {
                    let mode = words.names()?;
                    mapping.version = mode.join(",").parse()?;
                }
                "delete" => mapping.on_delete = Some(words.on_delete()?),
                word => {
                    let known = "fields(..), readonly(..), version(..), delete=.. are";
                    return Err(format!("'{word}' is not known here; {known}"));
                }
            }
            said.push(word);
        }
        match mapping.list {
            Some(_) if mapping.fields.is_some() => Err("a list has no fields(..)".into()),
            Some(_) if mapping.on_delete.is_some() => Err("a list has no delete=..: DEL empties its column".into()),
            _ => Ok(mapping),
        }
    }
}

impl Mapping {
    /// The values of the key columns of the row that is the document of this name; `None` if the name has another form.
    pub fn split_name<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
        self.pattern.split(name)
    }

    /// The name of the document whose row has these key columns; `None` if it would read as another row's.
    pub fn join_name<S: AsRef<str>>(&self, values: &[S]) -> Option<String> {
        self.pattern.join(values)
    }

    /// What a document of it is; its row has these key columns, and this is what the database `fills` of it, and what
    /// it has `computed`.
    pub(crate) fn form(&self, parts: &[&str], fills: Fills, computed: Computed) -> Form {
        match &self.list {
            Some(list) => Form::List { filled: fills.may_be(list.as_bytes()) },
            None => {
                let columns = self.key.iter().map(|column| Blob::from(column.as_bytes()));
                let values = parts.iter().map(|part| Blob::from(part.as_bytes()));
                Form::Row(RowForm { key: columns.zip(values).collect(), on_delete: self.on_delete(), fills, computed })
            }
        }
    }

    /// A command that shows a document of it, if there is one with these values: the first that somebody may try.
    pub fn first_command(&self) -> String {
        let name = self.pattern.join(&vec!["1"; self.key.len()]).unwrap_or_default();
        match &self.list {
            Some(_) => format!("LRANGE {name} 0 -1"),
            None => format!("GET {name}"),
        }
    }

    /// What a command that deletes a document of it comes to.
    pub fn on_delete(&self) -> OnDelete {
        match &self.list {
            Some(_) => OnDelete::Row,
            None => self.on_delete.unwrap_or_default(),
        }
    }

    /// Whether a command that deletes is refused and the mapping does not say so.
    pub fn refuses_unsaid(&self) -> bool {
        self.list.is_none() && self.on_delete.is_none()
    }

    /// The form of its keys.
    pub(crate) fn glob(&self) -> Glob {
        Glob::new(self.pattern.texts())
    }

    /// What decides which row a document is: the mapping without what its rows are used for.
    pub fn place(self) -> Mapping {
        Mapping { on_delete: None, ..self }
    }

    /// The same with versions from elsewhere: from `mode` if that is said, else, if it does not say itself, from
    /// `unsaid`.
    pub fn with_version(self, mode: Option<VersionMode>, unsaid: VersionMode) -> Mapping {
        let version = match (mode, self.version) {
            (Some(mode), _) => mode,
            (None, VersionMode::Auto) => unsaid,
            (None, given) => given,
        };
        Mapping { version, ..self }
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[String]| names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
        write!(f, "{} -> ", self.pattern)?;
        if let Some(schema) = &self.table.0 {
            write!(f, "{}.", shown(schema))?;
        }
        write!(f, "{}({})", shown(&self.table.1), names(&self.key))?;
        if let Some(column) = &self.list {
            write!(f, ".{} as list", shown(column))?;
        }
        if let Some(fields) = &self.fields {
            write!(f, " fields({})", names(fields))?;
        }
        if !self.read_only.is_empty() {
            write!(f, " readonly({})", names(&self.read_only))?;
        }
        if self.version != VersionMode::Auto {
            write!(f, " version({})", self.version.word())?;
        }
        match ON_DELETE.iter().find(|(_, on_delete)| self.on_delete == Some(*on_delete)) {
            Some((word, _)) => write!(f, " delete={word}"),
            None => Ok(()),
        }
    }
}

/// Which of `mappings` names `key`, and the parts of it, or why none does.
pub(crate) fn parts_of<'a, 'm>(
    key: &'a Key,
    mappings: impl IntoIterator<Item = &'m Mapping> + Clone,
) -> Result<(usize, Vec<&'a str>), String> {
    if key.space() != 0 {
        return Err("in front of tables there is database 0 only".into());
    }
    let name = std::str::from_utf8(key.name()).map_err(|_| format!("{key} is not UTF-8, so it names no row"))?;
    let mut found = mappings.clone().into_iter().map(|mapping| mapping.pattern.split(name)).enumerate();
    let none = || {
        let patterns: Vec<String> = mappings.into_iter().map(|mapping| mapping.pattern.to_string()).collect();
        let (patterns, setting) = (patterns.join(", "), suggested(key));
        format!("no mapping names {key}; there is {patterns}; if it is no row, add {setting}")
    };
    found.find_map(|(at, parts)| Some((at, parts?))).ok_or_else(none)
}

fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn shown(name: &str) -> String {
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// What is left to be read of a mapping.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    fn take(&mut self, character: char) -> bool {
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let missing = || "a name is missing at the end".to_owned();
        let mut name = String::new();
        let mut characters = self.rest.char_indices().peekable();
        if self.rest.starts_with('"') {
            characters.next();
            loop {
                match characters.next().ok_or("a quotation mark is missing")? {
                    (_, '"') if characters.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
                    (_, '"') => break,
                    (_, character) => name.push(character),
                }
            }
        } else {
            while let Some((_, character)) = characters.next_if(|(_, character)| is_plain(*character)) {
                name.push(character);
            }
        }
        let end = characters.peek().map_or(self.rest.len(), |(at, _)| *at);
        if name.is_empty() {
            return Err(match self.rest.is_empty() {
                true => missing(),
                false => format!("a name is missing before '{}'", self.rest),
            });
        }
        self.rest = self.rest[end..].trim_start();
        Ok(name)
    }

    /// A name, or two with a hyphen between.
    fn word(&mut self) -> Result<String, String> {
        let mut word = self.name()?;
        if self.take('-') {
            word = format!("{word}-{}", self.name()?);
        }
        Ok(word)
    }

    fn on_delete(&mut self) -> Result<OnDelete, String> {
        let word = if self.take('=') { self.name()? } else { String::new() };
        let found = ON_DELETE.iter().find(|(known, _)| *known == word);
        found.map(|(_, on_delete)| *on_delete).ok_or("give delete=refuse, delete=row or delete=invalidate".into())
    }

    fn names(&mut self) -> Result<Vec<String>, String> {
        if !self.take('(') {
            return Err("columns stand in parentheses, as in users(id)".into());
        }
        let mut names = vec![self.name()?];
        while self.take(',') {
            names.push(self.name()?);
        }
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        match (self.take(')'), twice) {
            (false, _) => Err("a parenthesis is missing".into()),
            (true, Some((_, name))) => Err(format!("{} stands twice in one list; say it once", shown(name))),
            (true, None) => Ok(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back() {
        for text in [
            "user:{id} -> users(id)",
            "member:{org}:{id} -> app.members(org, id) fields(name, visits) readonly(created) version(column)",
            "friends:{id} -> members(id).friends as list version(side)",
            "{a}/{b} -> \"my table\"(\"a\"\"b\", c)",
            "user:{id} -> users(id) readonly(created) version(side) delete=row",
            "user:{id} -> users(id) delete=invalidate",
        ] {
            let mapping: Mapping = text.parse().expect(text);
            assert_eq!(mapping.to_string(), text);
        }
    }

    #[test]
    fn parts_are_columns_by_name_or_in_order() {
        for (text, columns) in [
            ("m:{org}:{id} -> t(org, id)", "org, id"),
            ("m:{id}:{org} -> t(org, id)", "id, org"),
            ("m:{o}:{i} -> t(org, id)", "org, id"),
            ("m:{org}:{i} -> t(org, id)", "org, id"),
            ("m:{c}:{a}:{b} -> t(a, b, c)", "c, a, b"),
        ] {
            let mapping: Mapping = text.parse().expect(text);
            assert_eq!(mapping.key.join(", "), columns, "{text}");
            assert_eq!(mapping.to_string().parse(), Ok(mapping), "{text}");
        }
        let read_only: Mapping = "u:{id} -> users(id) read-only(a) fields(a, b)".parse().expect("a mapping");
        assert_eq!(read_only.to_string(), "u:{id} -> users(id) fields(a, b) readonly(a)");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("user:{id}", "KEY -> TABLE"),
            ("user:{id} -> users", "in parentheses"),
            ("user:{id} -> users(id", "parenthesis"),
            ("user:{id} -> users(id, x)", "1 parts"),
            ("user:{id} -> users(id).friends", "missing"),
            ("user:{id} -> users(id) version(x)", "column, side or none"),
            ("user:{id} -> users(id) where(x)", "not known"),
            ("user:{id} -> users(id) delete(row)", "give delete=refuse"),
            ("user:{id} -> users(id) delete=all", "give delete=refuse"),
            ("list:{id} -> users(id).friends as list delete=row", "DEL empties its column"),
            ("user:{id} -> users(id) read-x(a)", "'read-x' is not known"),
            ("m:{id}:{x} -> t(org, id)", "{id} stands where the column org is"),
            ("user:1 -> users(id)", "in braces"),
            ("user:{a}{b} -> users(a, b)", "between"),
            ("user:{id} -> users(id) delete=row delete=refuse", "delete stands there twice"),
            ("user:{id} -> users(id) version(none) fields(a) version(side)", "version stands there twice"),
            ("user:{id} -> users(id) fields(a) fields(b)", "fields stands there twice"),
            ("user:{id} -> users(id) readonly(a) read-only(b)", "readonly stands there twice"),
            ("user:{id} -> users(id) fields(x, y, x)", "x stands twice in one list"),
            ("user:{id} -> users(id) readonly(\"a b\", \"a b\")", "\"a b\" stands twice"),
            ("user:{a}:{b} -> users(id, id)", "id stands twice"),
        ] {
            let error = text.parse::<Mapping>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
