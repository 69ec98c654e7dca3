//! Transaction types in TOML, from files and from the wire, and in SQL where the program reads that.

use std::path::{Path, PathBuf};

use forebay::graph::{Graph, VERTICES_MAX, Vertex};
use thiserror::Error;

/// Most types of one file or request.
pub const TYPES_MAX: usize = 1000;

/// Most bytes of one file or request.
pub const TYPES_BYTES_MAX: u64 = 1 << 20;

/// Most files of a folder.
pub const TYPE_FILES_MAX: usize = 256;

/// Most edges of one type.
pub const EDGES_MAX: usize = 4096;

/// Why a file's types can't be used.
#[derive(Debug, Error)]
#[error("{}: {why}", path.display())]
pub struct TypesError {
    /// Which file or folder.
    path: PathBuf,
    /// What is wrong, and what would be right.
    why: String,
}

/// Reads the transaction types of a text in SQL, or says why it can't.
pub type ReadSql = fn(&str) -> Result<Vec<(String, Graph)>, String>;

/// The types of a file, or of all files of a folder that end in `.toml`, or in `.sql` if SQL is read, in the order of
/// their names.
pub fn read_types(path: &Path, sql: Option<ReadSql>) -> Result<Vec<(String, Graph)>, TypesError> {
    let wrong = |path: &Path, why: String| TypesError { path: path.to_owned(), why };
    if !path.is_dir() {
        return read_file(path, sql).map_err(|why| wrong(path, why));
    }
    let unreadable = |error: std::io::Error| wrong(path, error.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|ending| ending == "toml") || (sql.is_some() && is_sql(&file)) {
            files.push(file);
        }
        if files.len() > TYPE_FILES_MAX {
            return Err(wrong(path, format!("more files than type_files_max {TYPE_FILES_MAX}")));
        }
    }
    if files.is_empty() {
        return Err(wrong(
            path,
            "no file in this folder ends in .toml or .sql; put transaction types there, or name a file".into(),
        ));
    }
    files.sort_unstable();
    let mut types: Vec<(String, Graph)> = Vec::new();
    for file in files {
        for (name, graph) in read_file(&file, sql).map_err(|why| wrong(&file, why))? {
            if types.iter().any(|(known, _)| *known == name) {
                return Err(wrong(&file, format!("type '{name}' stands in another file of the folder, too")));
            }
            types.push((name, graph));
        }
        if types.len() > TYPES_MAX {
            return Err(wrong(&file, format!("with it there are more types than types_max {TYPES_MAX}")));
        }
    }
    Ok(types)
}

/// Whether a file holds SQL, by its name.
fn is_sql(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("sql"))
}

fn read_file(path: &Path, sql: Option<ReadSql>) -> Result<Vec<(String, Graph)>, String> {
    let text = forebay::runtime::files::read_text(path, TYPES_BYTES_MAX).map_err(|error| unreadable(&error))?;
    match (is_sql(path), sql) {
        (false, _) => parse_types(&text),
        (true, Some(sql)) => sql(&text),
        (true, None) => Err("this build reads no SQL; have a full build write it in TOML: forebay graph FILE.sql \
                             --out FILE.toml"
            .to_owned()),
    }
}

/// Why a file can't be read as text.
fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::InvalidData => "it is not text in UTF-8; is it a file of transaction types?".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads transaction types in TOML, as `forebay graph --help` shows them: names with graphs.
pub fn parse_types(text: &str) -> Result<Vec<(String, Graph)>, String> {
    if text.len() as u64 > TYPES_BYTES_MAX {
        return Err(format!("more bytes than types_bytes_max {TYPES_BYTES_MAX}"));
    }
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| without_text(&error, text))?;
    if let Some(other) = table.keys().find(|key| *key != "type") {
        return Err(format!("'{other}' is not known; types stand under [[type]]"));
    }
    let types = table.get("type").and_then(toml::Value::as_array).ok_or("no transaction type; begin with [[type]]")?;
    if types.len() > TYPES_MAX {
        return Err(format!("{} types are more than {TYPES_MAX}", types.len()));
    }
    let types = types.iter().map(parse_type).collect::<Result<Vec<_>, _>>()?;
    let twice = (1..types.len()).find(|&at| types[..at].iter().any(|(name, _)| *name == types[at].0));
    match twice {
        Some(at) => Err(format!("two types have the name '{}'", types[at].0)),
        None => Ok(types),
    }
}

/// Where `text` is no TOML and why, without its text: the file may be another, such as one of passwords.
fn without_text(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().map_or(0, |span| span.start);
    let line = 1 + text.bytes().take(before).filter(|byte| *byte == b'\n').count();
    format!("line {line}: {}", error.message().replace('\n', ", "))
}

fn name_of<'a>(value: &'a toml::Value, what: &str) -> Result<&'a str, String> {
    value.get("name").and_then(toml::Value::as_str).ok_or(format!("a {what} without name = \"..\""))
}

fn parse_type(value: &toml::Value) -> Result<(String, Graph), String> {
    let name = name_of(value, "type")?;
    let inside = |why: String| format!("type '{name}': {why}");
    let none = Vec::new();
    let entries = value.get("vertex").and_then(toml::Value::as_array).unwrap_or(&none);
    if entries.is_empty() || entries.len() > VERTICES_MAX {
        return Err(inside(format!("{} vertices; give 1 to {VERTICES_MAX} as [[type.vertex]]", entries.len())));
    }
    let mut vertices: Vec<Vertex> = Vec::new();
    for entry in entries {
        let known = ["name", "after", "writes"];
        if let Some(other) = entry.as_table().and_then(|table| table.keys().find(|key| !known.contains(&key.as_str())))
        {
            return Err(inside(format!("a vertex has {}, not '{other}'", known.join(", "))));
        }
        let vertex = name_of(entry, "vertex").map_err(inside)?;
        if vertices.iter().any(|known| known.name == vertex) {
            return Err(inside(format!("two vertices have the name '{vertex}'")));
        }
        let writes = match entry.get("writes") {
            None => false,
            Some(value) => value
                .as_bool()
                .ok_or_else(|| inside(format!("writes of '{vertex}' is true or false, not {}", shown(value))))?,
        };
        vertices.push(Vertex { name: vertex.to_owned(), writes });
    }
    let mut edges = Vec::new();
    for (to, entry) in entries.iter().enumerate() {
        for from in before(entry, to, &vertices).map_err(inside)? {
            edges.push((from as u16, to as u16));
        }
    }
    if edges.len() > EDGES_MAX {
        return Err(inside(format!("{} edges are more than edges_max {EDGES_MAX}", edges.len())));
    }
    let graph = Graph::new(vertices, &edges).map_err(|error| inside(error.to_string()))?;
    Ok((name.to_owned(), graph))
}

/// The vertices that this one comes after.
fn before(entry: &toml::Value, to: usize, vertices: &[Vertex]) -> Result<Vec<usize>, String> {
    let own = &vertices[to].name;
    let Some(value) = entry.get("after") else { return Ok(Vec::new()) };
    let names = value.as_array().ok_or_else(|| format!("after of '{own}' is a list of names, not {}", shown(value)))?;
    let place = |name: &toml::Value| {
        let place = vertices.iter().position(|vertex| Some(vertex.name.as_str()) == name.as_str());
        let known = || vertices.iter().map(|vertex| vertex.name.as_str()).collect::<Vec<_>>().join(", ");
        place.ok_or_else(|| format!("after of '{own}' names {}: no such vertex; there are {}", shown(name), known()))
    };
    names.iter().map(place).collect()
}

/// A value as it stands in the file, or else of what kind it is.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("'{text}'"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(truth) => truth.to_string(),
        other => format!("one of type {}", other.type_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong() {
        for (text, why) in [
            ("", "no transaction type"),
            ("typ = 1", "'typ' is not known"),
            ("a = 1\nroot:secret:0", "line 2: key with no value, expected `=`"),
            ("[[type]]\nname = 'T'", "type 'T': 0 vertices"),
            ("[[type]]\nname = 'T'\n[[type.vertex]]\nafter = []", "a vertex without name"),
            ("[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nbefore = 1", "not 'before'"),
            (
                "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nafter = ['x']",
                "names 'x': no such vertex; there are a",
            ),
            (
                "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nafter = 'a'",
                "after of 'a' is a list of names, not 'a'",
            ),
            ("[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nwrites = 1", "writes of 'a' is true or false, not 1"),
            ("[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\nafter = ['a']", "'a' depends on itself"),
            ("[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\n[[type.vertex]]\nname = 'a'", "two vertices"),
        ] {
            let error = parse_types(text).expect_err(text);
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
