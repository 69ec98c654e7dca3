//! Mappings of keys to rows: on the command line each as one text, in the file also as tables.
//!
//! ```toml
//! [[map]]
//! key = "user:{id}"
//! table = "app.users"
//! columns = ["id"]
//! fields = ["name", "visits"]     # all if left out
//! read-only = ["created_at"]      # or readonly, as on the command line
//! version = "column"              # what `forebay store init` has put there if left out
//! delete = "row"                  # refuse, row or invalidate: what DEL comes to; refuse if left out
//! # list = "friends"              # instead of fields: this column, an array, is the document
//! ```

use forebay_drivers::Mapping;
use toml::de::{DeTable, DeValue};

use super::form::Form;

/// What stands between two mappings in one text.
const BETWEEN: &str = "; ";

/// The word for none.
const OFF: &str = "off";

/// Any number of mappings.
pub struct Maps;

impl Form<Vec<Mapping>> for Maps {
    const VALUE: &'static str = "KEY -> TABLE(COLUMN)";

    fn choices() -> String {
        "'user:{id} -> users(id)', then, where wanted, '.COLUMN as list' for a column that is an array, \
         fields(COLUMN, ..), readonly(COLUMN, ..), version(column|side|none), \
         delete=refuse|row|invalidate; or off"
            .into()
    }

    fn read(text: &str) -> Result<Vec<Mapping>, String> {
        match text {
            OFF => Ok(Vec::new()),
            text => apart(text).into_iter().map(|one| one.trim().parse()).collect(),
        }
    }

    fn show(value: &Vec<Mapping>) -> String {
        match value.as_slice() {
            [] => OFF.into(),
            several => several.iter().map(Mapping::to_string).collect::<Vec<_>>().join(BETWEEN),
        }
    }
}

/// Several texts as one.
pub fn joined(texts: &[String]) -> String {
    texts.join(BETWEEN)
}

/// The texts that [`joined`] has made one. A name in quotes may hold what stands between them.
fn apart(text: &str) -> Vec<&str> {
    let (mut texts, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            // The key's text has no quotes; those of names are behind the arrow.
            '"' if text[start..at].contains("->") => quoted = !quoted,
            ';' if !quoted => {
                texts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    texts.push(&text[start..]);
    texts
}

/// What is wrong in the file, and where.
pub type Wrong = (usize, String);

/// The value of the key `map` as one text, if it is a list or a table; else what is wrong with it.
pub fn of_value(value: &toml::Spanned<DeValue<'_>>) -> Option<Result<String, Wrong>> {
    match value.get_ref() {
        DeValue::Array(items) => Some(of_list(items)),
        DeValue::Table(_) => {
            let why = "there may be several: write [[map]], in double brackets, above each";
            Some(Err((value.span().start, why.into())))
        }
        DeValue::String(_) => None,
        _ => {
            let why = "give a text, map = \"user:{id} -> users(id)\", a list of such texts, or [[map]] tables";
            Some(Err((value.span().start, why.into())))
        }
    }
}

fn of_list(items: &[toml::Spanned<DeValue<'_>>]) -> Result<String, Wrong> {
    let text = |item: &toml::Spanned<DeValue<'_>>| {
        let start = item.span().start;
        match item.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Table(table) => of_table(table).map_err(|(at, why)| (at.unwrap_or(start), why)),
            _ => Err((start, "a list of mappings holds texts or tables".into())),
        }
    };
    let texts: Result<Vec<String>, Wrong> = items.iter().map(text).collect();
    Ok(joined(&texts?))
}

fn of_table(table: &DeTable<'_>) -> Result<String, (Option<usize>, String)> {
    let (mut key, mut name, mut columns, mut behind) = (None, None, None, String::new());
    for (field, value) in table.iter() {
        let at = |why: String| (Some(field.span().start), why);
        let field: &str = field.get_ref();
        let value = value.get_ref();
        let text = || text(field, value).map_err(at);
        let names = || names(field, value).map_err(at);
        match field {
            "key" => key = Some(text()?),
            "table" => name = Some(text()?),
            "columns" => columns = Some(names()?),
            "list" => behind = format!(".{} as list{behind}", quoted(&text()?)),
            "fields" => behind.push_str(&format!(" fields({})", names()?)),
            "read-only" | "readonly" => behind.push_str(&format!(" readonly({})", names()?)),
            "version" => behind.push_str(&format!(" version({})", text()?)),
            "delete" => behind.push_str(&format!(" delete={}", quoted(&text()?))),
            other => {
                let there = "key, table, columns, fields, read-only, list, version, delete";
                return Err(at(format!("[[map]] has no key '{other}'; it has {there}")));
            }
        }
    }
    let missing = |what: &str, example: &str| (None, format!("[[map]] lacks {what}; add {what} = {example}"));
    let key = key.ok_or_else(|| missing("key", "\"user:{id}\""))?;
    let name: String = name.ok_or_else(|| missing("table", "\"users\""))?;
    let columns = columns.ok_or_else(|| missing("columns", "[\"id\"], those of the table that the key names"))?;
    if key.contains(';') || key.contains(" -> ") {
        return Err((None, format!("the key {key} of [[map]] holds ';' or ' -> ', which stand between mappings")));
    }
    // In quotes it stands as in SQL; else all of it is the name, and the schema's before the first point.
    let name = match name.starts_with('"') || name.contains(".\"") {
        true => name,
        false => name.splitn(2, '.').map(quoted).collect::<Vec<_>>().join("."),
    };
    Ok(format!("{key} -> {name}({columns}){behind}"))
}

fn text(field: &str, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(format!("{field} of [[map]] is no text; write it in quotation marks")),
    }
}

fn names(field: &str, value: &DeValue<'_>) -> Result<String, String> {
    let wrong = || format!("{field} of [[map]] is no list of names; write {field} = [\"name\", ..]");
    let DeValue::Array(items) = value else { return Err(wrong()) };
    let names: Result<Vec<String>, String> =
        items.iter().map(|item| text(field, item.get_ref()).map(|name| quoted(&name)).map_err(|_| wrong())).collect();
    let names = names?;
    if names.is_empty() { Err(wrong()) } else { Ok(names.join(", ")) }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
