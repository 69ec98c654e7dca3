//! Values as texts, and texts as values. SQLite gives a value the type that it has, whatever its column says. So a
//! value is shown by its type and written by its column's.

use forebay::value::Blob;
use rusqlite::types::{Value, ValueRef};

use crate::sql::table::{Column, Kind};

/// Types of columns as mappings have them; see [`type_of`].
const INTEGER: &str = "integer";
const REAL: &str = "real";
const NUMERIC: &str = "numeric";
const BOOLEAN: &str = "boolean";
const JSON: &str = "json";
const MOMENT: &str = "moment";

/// Declared types that stand for moments: SQLite has them as texts or numbers.
const MOMENTS: [&str; 4] = ["DATE", "DATETIME", "TIMESTAMP", "TIME"];

/// What a column that is declared so holds: the kind of its values, and the type as errors name it. The rules are those
/// of SQLite's affinity; `checks_json` says that a constraint of the table's calls `json_valid` of it.
pub(super) fn type_of(declared: &str, checks_json: bool) -> (Kind, &'static str) {
    let upper = declared.to_ascii_uppercase();
    let has = |part: &str| upper.contains(part);
    let word = upper.split(['(', ' ']).next().unwrap_or_default();
    match word {
        _ if checks_json || word.starts_with("JSON") => (Kind::Text, JSON),
        "BOOL" | "BOOLEAN" => (Kind::Integer, BOOLEAN),
        _ if MOMENTS.contains(&word) => (Kind::Text, MOMENT),
        _ if has("INT") => (Kind::Integer, INTEGER),
        _ if has("CHAR") || has("CLOB") || has("TEXT") => (Kind::Text, "text"),
        _ if has("BLOB") => (Kind::Bytes, "blob"),
        "" | "ANY" => (Kind::Text, "any"),
        _ if has("REAL") || has("FLOA") || has("DOUB") => (Kind::Number, REAL),
        _ => (Kind::Number, NUMERIC),
    }
}

/// A value as the field's text; none where it is NULL.
pub(super) fn shown(value: ValueRef<'_>) -> Option<Blob> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(Blob::from(number.to_string().into_bytes())),
        // The shortest text that reads as the same number.
        ValueRef::Real(number) => Some(Blob::from(format!("{number:?}").into_bytes())),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Blob::from(bytes)),
    }
}

fn whole(text: &str) -> Option<i64> {
    let text = text.trim();
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}

/// A number with a fraction or an exponent, as SQLite reads it.
fn fraction(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// What a number in a column of numbers becomes: whole where it is.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and within the bounds")]
fn number(text: &str) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = whole(text) {
        return Some(Value::Integer(number));
    }
    let number = fraction(text)?;
    Some(match number.fract() == 0.0 && number.abs() <= EXACT {
        true => Value::Integer(number as i64),
        false => Value::Real(number),
    })
}

/// The value that `text` is in a column of this type; why it is none.
fn of_type(type_name: &str, text: &str) -> Result<Value, String> {
    let no = || match text.char_indices().nth(40) {
        Some((end, _)) => format!("'{}..' is no {type_name}", &text[..end]),
        None => format!("'{text}' is no {type_name}"),
    };
    match type_name {
        INTEGER => whole(text).map(Value::Integer).ok_or_else(no),
        BOOLEAN => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Value::Integer(1)),
            "false" | "0" => Ok(Value::Integer(0)),
            _ => Err(no()),
        },
        REAL => fraction(text).map(Value::Real).ok_or_else(no),
        NUMERIC => number(text).ok_or_else(no),
        JSON => match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Ok(Value::Text(text.to_owned())),
            Err(_) => Err(no()),
        },
        _ => Ok(Value::Text(text.to_owned())),
    }
}

/// Why `text` is no value of this type.
pub(in crate::sqlite) fn refused(type_name: &str, text: &str) -> Option<String> {
    of_type(type_name, text).err()
}

/// `text`, a value of this type, as it will be shown.
pub(in crate::sqlite) fn as_shown(type_name: &str, text: Blob) -> Blob {
    let Ok(given) = std::str::from_utf8(&text) else { return text };
    match of_type(type_name, given) {
        Ok(value) => shown(ValueRef::from(&value)).unwrap_or(text),
        Err(_) => text,
    }
}

/// The value that `bytes` are in `column`.
pub(super) fn value_of(column: &Column, bytes: &[u8]) -> Result<Value, String> {
    if column.kind == Kind::Bytes {
        return Ok(Value::Blob(bytes.to_vec()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{}: the value is not UTF-8", column.name))?;
    of_type(&column.type_name, text).map_err(|why| format!("{}: {why}", column.name))
}

/// `value` with `whole` and `parts` added, each exact where both are whole.
#[expect(clippy::cast_precision_loss, reason = "a sum with a fraction is a double in SQLite")]
pub(super) fn sum(column: &Column, value: &Value, added: Option<i128>, parts: &[String]) -> Result<Value, String> {
    let name = &column.name;
    let too_large = || format!("{name}: the sum is out of range");
    let (mut exact, mut inexact) = match value {
        Value::Null => (Some(0i128), 0.0),
        Value::Integer(number) => (Some(i128::from(*number)), *number as f64),
        Value::Real(number) => (None, *number),
        _ => return Err(format!("{name} holds no number")),
    };
    if let Some(added) = added {
        exact = exact.map(|exact| exact + added);
        inexact += added as f64;
    }
    for part in parts {
        match number(part).ok_or_else(|| format!("{name}: '{part}' is no number"))? {
            Value::Integer(number) => {
                exact = exact.map(|exact| exact + i128::from(number));
                inexact += number as f64;
            }
            Value::Real(number) => {
                exact = None;
                inexact += number;
            }
            _ => return Err(too_large()),
        }
    }
    match exact {
        Some(exact) if column.type_name != REAL => i64::try_from(exact).map(Value::Integer).map_err(|_| too_large()),
        _ if inexact.is_finite() => Ok(Value::Real(inexact)),
        _ => Err(too_large()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_have_sqlites_affinity() {
        for (declared, kind, name) in [
            ("INTEGER", Kind::Integer, "integer"),
            ("bigint unsigned", Kind::Integer, "integer"),
            ("varchar(30)", Kind::Text, "text"),
            ("text", Kind::Text, "text"),
            ("BLOB", Kind::Bytes, "blob"),
            ("", Kind::Text, "any"),
            ("double precision", Kind::Number, "real"),
            ("decimal(10, 2)", Kind::Number, "numeric"),
            ("bool", Kind::Integer, "boolean"),
            ("datetime", Kind::Text, "moment"),
            ("timestamp with time zone", Kind::Text, "moment"),
            ("json", Kind::Text, "json"),
        ] {
            assert_eq!(type_of(declared, false), (kind, name), "{declared}");
        }
        assert_eq!(type_of("text", true), (Kind::Text, "json"));
    }

    #[test]
    fn texts_become_values_of_their_columns() {
        for (type_name, text, shown) in [
            ("integer", " 007", Some("7")),
            ("integer", "+5", Some("5")),
            ("integer", "1.0", None),
            ("integer", "9223372036854775808", None),
            ("boolean", "true", Some("1")),
            ("boolean", "2", None),
            ("real", "3", Some("3.0")),
            ("real", "0.1", Some("0.1")),
            ("real", "nan", None),
            ("numeric", "10.50", Some("10.5")),
            ("numeric", "1e3", Some("1000")),
            ("numeric", "ten", None),
            ("json", "{\"a\": 1}", Some("{\"a\": 1}")),
            ("json", "{a}", None),
            ("text", "007", Some("007")),
        ] {
            match shown {
                Some(shown) => {
                    assert_eq!(refused(type_name, text), None, "{type_name} {text}");
                    assert_eq!(&*as_shown(type_name, Blob::from(text.as_bytes())), shown.as_bytes());
                }
                None => assert!(refused(type_name, text).is_some(), "{type_name} {text}"),
            }
        }
    }
}
