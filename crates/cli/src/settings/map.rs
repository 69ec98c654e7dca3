//! Mappings of keys to rows: on the command line each as one text, in the file also as tables.
//!
//! ```toml
//! [[map]]
//! key = "user:{id}"
//! table = "app.users"
//! columns = ["id"]
//! fields = ["name", "visits"]     # all if left out
//! read-only = ["created_at"]
//! version = "column"              # what `forebay store init` has put there if left out
//! # list = "friends"              # instead of fields: this column, an array, is the document
//! ```

use forebay_drivers::postgres::mapping::Mapping;
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
        "'user:{id} -> users(id)', or off".into()
    }

    fn read(text: &str) -> Result<Vec<Mapping>, String> {
        match text {
            OFF => Ok(Vec::new()),
            text => text.split(';').map(|one| one.trim().parse()).collect(),
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

/// A list of texts or tables as one text; else what is wrong with it.
pub fn of_list(items: &[toml::Spanned<DeValue<'_>>]) -> Result<String, &'static str> {
    let texts: Result<Vec<String>, &'static str> = items
        .iter()
        .map(|item| match item.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Table(table) => of_table(table),
            _ => Err("list of something else than texts or tables"),
        })
        .collect();
    Ok(joined(&texts?))
}

fn of_table(table: &DeTable<'_>) -> Result<String, &'static str> {
    let (mut key, mut name, mut columns, mut behind) = (None, None, None, String::new());
    for (field, value) in table.iter() {
        let field: &str = field.get_ref();
        let value = value.get_ref();
        match field {
            "key" => key = Some(text(value)?),
            "table" => name = Some(text(value)?),
            "columns" => columns = Some(names(value)?),
            "list" => behind = format!(".{} as list{behind}", quoted(&text(value)?)),
            "fields" => behind.push_str(&format!(" fields({})", names(value)?)),
            "read-only" => behind.push_str(&format!(" readonly({})", names(value)?)),
            "version" => behind.push_str(&format!(" version({})", text(value)?)),
            _ => return Err("table with an unknown key (key, table, columns, fields, read-only, list, version)"),
        }
    }
    let missing = "table without key, table or columns";
    let (key, name, columns) = (key.ok_or(missing)?, name.ok_or(missing)?, columns.ok_or(missing)?);
    let name: Vec<String> = name.splitn(2, '.').map(quoted).collect();
    Ok(format!("{key} -> {}({columns}){behind}", name.join(".")))
}

fn text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err("table whose key, table, list or version is no text"),
    }
}

fn names(value: &DeValue<'_>) -> Result<String, &'static str> {
    let wrong = "table whose columns, fields or read-only is no list of names";
    let DeValue::Array(items) = value else { return Err(wrong) };
    let names: Result<Vec<String>, &'static str> =
        items.iter().map(|item| text(item.get_ref()).map(|name| quoted(&name)).map_err(|_| wrong)).collect();
    Ok(names?.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
