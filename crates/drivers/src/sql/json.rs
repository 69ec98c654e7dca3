//! A row as one JSON object: what GET answers, and what SET takes.

use std::collections::BTreeMap;

use forebay::change::Change;
use forebay::value::{Blob, Hash};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::table::{Column, Kind, Table};
use super::text::{array_text, hex, unhex};

impl Table {
    /// The row as a JSON object, columns in the table's order, an absent field as null.
    pub(crate) fn object_of(&self, row: &Hash) -> Vec<u8> {
        let mut text = String::from("{");
        for (at, column) in self.fields.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            text.push_str(&Json::from(column.name.as_str()).to_string());
            text.push(':');
            match row.get(column.name.as_bytes()) {
                Some(value) => text.push_str(&json_of(column, value)),
                None => text.push_str("null"),
            }
        }
        text.push('}');
        text.into_bytes()
    }

    /// What it comes to that the row with this key is set by a JSON object: the fields that it names are changed. The
    /// key's own columns may stand in it as they are.
    pub(crate) fn changes_of_object(&self, parts: &[&str], text: &[u8]) -> Result<Vec<Change>, String> {
        if self.mapping.list.is_some() {
            return Err(format!(
                "{} of {} is a list: it takes LPUSH, RPUSH and their kind",
                self.shown_key(),
                self.name
            ));
        }
        let object = |_| format!("a row of {} is set by a JSON object, as {{\"field\": \"value\"}}", self.name);
        // Before it is taken apart. Texts may have signs that are two bytes.
        if text.len() / 2 > self.row_bytes_max {
            let (bytes, most) = (text.len(), self.row_bytes_max);
            return Err(format!("the object has {bytes} bytes, and row-bytes-max is {most}"));
        }
        // As they are written: a number that is parsed may lose digits, and JSON its order.
        let parsed: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(text).map_err(object)?;
        let mut changes = Vec::with_capacity(parsed.len() + 1);
        for (name, value) in &parsed {
            let value = value.get();
            let text = text_of(value).map_err(object)?;
            let key = self.key.iter().zip(parts).find(|(column, _)| column.name == *name);
            if key.is_some_and(|(_, part)| text.as_deref() == Some(part)) {
                continue;
            }
            let column = self.field(name.as_bytes())?;
            let field = Blob::from(name.as_bytes());
            let Some(text) = text else {
                changes.push(Change::UnsetField(field));
                continue;
            };
            let text = match &column.kind {
                Kind::Array(element) if value.starts_with('[') => {
                    array_of(element, value).map_err(object)?.into_bytes()
                }
                _ if is_json(&column.type_name) => value.as_bytes().to_vec(),
                _ => bytes_of(column, text),
            };
            changes.push(Change::SetField(field, Blob::from(text)));
        }
        // A row is there after it, also one of which no field is given a value.
        if let Some((key, part)) = self.key.first().zip(parts.first())
            && !changes.iter().any(|change| matches!(change, Change::SetField(..)))
        {
            changes.insert(0, Change::SetField(Blob::from(key.name.as_bytes()), Blob::from(part.as_bytes())));
        }
        Ok(changes)
    }

    fn shown_key(&self) -> String {
        self.mapping.pattern.to_string()
    }
}

/// A value as JSON: numbers, booleans and JSON as they are, all else as a string; bytes in hex.
fn json_of(column: &Column, value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let is_plain = match (&column.kind, column.type_name.as_str()) {
        // Not infinity and its kind.
        (Kind::Integer | Kind::Number, _) => text.parse::<f64>().is_ok_and(f64::is_finite),
        (_, "boolean") => matches!(&*text, "true" | "false"),
        (_, type_name) if is_json(type_name) => serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(),
        _ => false,
    };
    match column.kind {
        _ if is_plain => text.into_owned(),
        Kind::Bytes => Json::from(hex(value)).to_string(),
        _ => Json::from(&*text).to_string(),
    }
}

fn is_json(type_name: &str) -> bool {
    matches!(type_name, "json" | "jsonb")
}

/// A JSON value as the database's text; `None` for null.
fn text_of(value: &str) -> Result<Option<String>, serde_json::Error> {
    match value.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => serde_json::from_str(value).map(Some),
        _ => Ok(Some(value.to_owned())),
    }
}

/// A JSON array as the text of an array of this type.
fn array_of(element: &str, value: &str) -> Result<String, serde_json::Error> {
    let elements: Vec<&RawValue> = serde_json::from_str(value)?;
    let text = |element_value: &&RawValue| match is_json(element) && element_value.get() != "null" {
        true => Ok(Some(element_value.get().to_owned())),
        false => text_of(element_value.get()),
    };
    let texts: Vec<Option<String>> = elements.iter().map(text).collect::<Result<_, _>>()?;
    Ok(array_text(texts.iter().map(Option::as_deref)))
}

/// What a string means for a column: bytes stand in hex, as GET shows them.
fn bytes_of(column: &Column, text: String) -> Vec<u8> {
    match (&column.kind, text.strip_prefix("\\x").and_then(unhex)) {
        (Kind::Bytes, Some(bytes)) => bytes,
        _ => text.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: Kind, type_name: &str) -> Column {
        let (name, field, type_name) = (name.to_owned(), name.as_bytes().into(), type_name.to_owned());
        Column {
            name,
            field,
            kind,
            type_name,
            read_only: None,
            limit: None,
            not_null: false,
            has_default: false,
            computed_from: Vec::new(),
        }
    }

    #[test]
    fn values_are_what_they_are_in_json() {
        for (kind, type_name, text, json) in [
            (Kind::Integer, "integer", "-7", "-7"),
            (Kind::Number, "numeric", "1.240", "1.240"),
            (Kind::Number, "double precision", "NaN", "\"NaN\""),
            (Kind::Number, "double precision", "-Infinity", "\"-Infinity\""),
            (Kind::Text, "boolean", "true", "true"),
            (Kind::Text, "jsonb", "{\"a\": [1]}", "{\"a\": [1]}"),
            (Kind::Text, "text", "true", "\"true\""),
            (Kind::Text, "text", "a \"b\"\n", "\"a \\\"b\\\"\\n\""),
            (Kind::Array("integer".into()), "integer[]", "{5,6}", "\"{5,6}\""),
        ] {
            assert_eq!(json_of(&column("c", kind, type_name), text.as_bytes()), json);
        }
        let bytes = column("c", Kind::Bytes, "bytea");
        assert_eq!(json_of(&bytes, b"\x00\xff"), "\"\\\\x00ff\"");
        assert_eq!(bytes_of(&bytes, "\\x00ff".into()), b"\x00\xff");
        assert_eq!(bytes_of(&bytes, "plain".into()), b"plain");
    }
}
