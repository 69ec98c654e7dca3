//! `cjson.encode` and `cjson.decode`, as Redis' own module does them with its defaults: numbers of 14 digits, an empty
//! table is an object, null is `cjson.null`. What differs: a string of JSON has to be UTF-8 to be decoded.

use mlua::{LightUserData, Lua, Table, Value};

/// Tables within one another; serde_json reads as deep.
const DEPTH_MAX: usize = 127;
/// A list may have so many times more places than elements, once it has more than [`SPARSE_SAFE`].
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

/// The module.
pub(super) fn module(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("null", Value::LightUserData(LightUserData(std::ptr::null_mut())))?;
    module.raw_set("encode", lua.create_function(|lua, value: Value| lua.create_string(encoded(&value)?))?)?;
    module.raw_set("decode", lua.create_function(decode)?)?;
    Ok(module)
}

fn fails(why: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(why.into())
}

/// A value of Lua as JSON.
fn encoded(value: &Value) -> mlua::Result<Vec<u8>> {
    let mut out = Vec::new();
    encode(value, 0, &mut out)?;
    Ok(out)
}

fn encode(value: &Value, depth: usize, out: &mut Vec<u8>) -> mlua::Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        Value::Integer(number) => encode_number(*number as f64, out)?,
        Value::Number(number) => encode_number(*number, out)?,
        Value::String(string) => encode_string(&string.as_bytes(), out),
        Value::Table(_) if depth >= DEPTH_MAX => {
            return Err(fails(format!("Cannot serialise, excessive depth ({})", depth + 1)));
        }
        Value::Table(table) => match list_len(table)? {
            Some(len) => encode_list(table, len, depth, out)?,
            None => encode_object(table, depth, out)?,
        },
        other => return Err(fails(format!("Cannot serialise {}: type not supported", other.type_name()))),
    }
    Ok(())
}

fn encode_number(number: f64, out: &mut Vec<u8>) -> mlua::Result<()> {
    if !number.is_finite() {
        return Err(fails("Cannot serialise number: must not be NaN or Inf"));
    }
    out.extend_from_slice(super::values::digits(number, 14).as_bytes());
    Ok(())
}

fn encode_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// How long the list is that `table` is; `None` if it is an object.
fn list_len(table: &Table) -> mlua::Result<Option<usize>> {
    let (mut most, mut count) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        let at = match pair?.0 {
            Value::Integer(at) if at > 0 => at as usize,
            Value::Number(at) if at > 0.0 && at.fract() == 0.0 => at as usize,
            _ => return Ok(None),
        };
        (most, count) = (most.max(at), count + 1);
    }
    if most > SPARSE_SAFE && most / SPARSE_RATIO > count {
        return Err(fails("Cannot serialise table: excessively sparse array"));
    }
    Ok((most > 0).then_some(most))
}

fn encode_list(table: &Table, len: usize, depth: usize, out: &mut Vec<u8>) -> mlua::Result<()> {
    out.push(b'[');
    for at in 1..=len {
        if at > 1 {
            out.push(b',');
        }
        encode(&table.raw_get(at)?, depth + 1, out)?;
    }
    out.push(b']');
    Ok(())
}

fn encode_object(table: &Table, depth: usize, out: &mut Vec<u8>) -> mlua::Result<()> {
    out.push(b'{');
    let mut first = true;
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        match &name {
            Value::String(name) => encode_string(&name.as_bytes(), out),
            Value::Integer(_) | Value::Number(_) => {
                out.push(b'"');
                encode(&name, depth, out)?;
                out.push(b'"');
            }
            _ => return Err(fails("Cannot serialise table: table key must be a number or string")),
        }
        out.push(b':');
        encode(&value, depth + 1, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn decode(lua: &Lua, text: mlua::LuaString) -> mlua::Result<Value> {
    let parsed: serde_json::Value =
        serde_json::from_slice(&text.as_bytes()).map_err(|error| fails(format!("Invalid JSON: {error}")))?;
    value_of(lua, parsed)
}

fn value_of(lua: &Lua, parsed: serde_json::Value) -> mlua::Result<Value> {
    use serde_json::Value::{Array, Bool, Null, Number, Object, String};
    Ok(match parsed {
        Null => Value::LightUserData(LightUserData(std::ptr::null_mut())),
        Bool(yes) => Value::Boolean(yes),
        Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        String(text) => Value::String(lua.create_string(text)?),
        Array(values) => {
            let table = lua.create_table_with_capacity(values.len(), 0)?;
            for (at, value) in values.into_iter().enumerate() {
                table.raw_set(at + 1, value_of(lua, value)?)?;
            }
            Value::Table(table)
        }
        Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, value) in fields {
                table.raw_set(lua.create_string(name)?, value_of(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}
