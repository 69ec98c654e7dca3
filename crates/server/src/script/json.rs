//! `cjson.encode` and `cjson.decode`, as Redis' own module does them with its defaults: numbers of 14 digits, an empty
//! table is an object, null is `cjson.null`. What differs: a string of JSON has to be UTF-8 to be decoded.

use mlua::{LightUserData, Lua, Table, Value};

/// Tables within one another; serde_json reads as deep.
const DEPTH_MAX: usize = 127;
/// A list may have so many times more places than elements, once it has more than [`SPARSE_SAFE`].
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

/// The module.
pub(super) fn module(lua: &Lua, bytes_max: usize) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("null", Value::LightUserData(LightUserData(std::ptr::null_mut())))?;
    module.raw_set(
        "encode",
        lua.create_function(move |lua, value: Value| lua.create_string(encoded(&value, bytes_max)?))?,
    )?;
    module.raw_set("decode", lua.create_function(decode)?)?;
    Ok(module)
}

fn fails(why: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(why.into())
}

/// A value of Lua as JSON, of at most so many bytes: a table may stand in it any number of times.
fn encoded(value: &Value, bytes_max: usize) -> mlua::Result<Vec<u8>> {
    let mut out = Output { bytes: Vec::new(), bytes_max };
    out.encode(value, 0)?;
    Ok(out.bytes)
}

/// JSON that is being written.
struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn encode(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        match value {
            Value::Nil => self.put(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.put(b"null"),
            Value::Boolean(yes) => self.put(if *yes { b"true" } else { b"false" }),
            Value::Integer(number) => self.encode_number(*number as f64),
            Value::Number(number) => self.encode_number(*number),
            Value::String(string) => self.encode_string(&string.as_bytes()),
            Value::Table(_) if depth >= DEPTH_MAX => {
                Err(fails(format!("Cannot serialise, excessive depth ({})", depth + 1)))
            }
            Value::Table(table) => match list_len(table)? {
                Some(len) => self.encode_list(table, len, depth),
                None => self.encode_object(table, depth),
            },
            other => Err(fails(format!("Cannot serialise {}: type not supported", other.type_name()))),
        }
    }

    fn encode_number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            return Err(fails("Cannot serialise number: must not be NaN or Inf"));
        }
        self.put(super::values::digits(number, 14).as_bytes())
    }

    fn encode_string(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        self.put(b"\"")?;
        for byte in bytes {
            match byte {
                b'"' => self.put(b"\\\"")?,
                b'\\' => self.put(b"\\\\")?,
                b'/' => self.put(b"\\/")?,
                b'\n' => self.put(b"\\n")?,
                b'\r' => self.put(b"\\r")?,
                b'\t' => self.put(b"\\t")?,
                0x08 => self.put(b"\\b")?,
                0x0c => self.put(b"\\f")?,
                0..0x20 | 0x7f => self.put(format!("\\u{byte:04x}").as_bytes())?,
                byte => self.put(&[*byte])?,
            }
        }
        self.put(b"\"")
    }

    fn encode_list(&mut self, table: &Table, len: usize, depth: usize) -> mlua::Result<()> {
        self.put(b"[")?;
        for at in 1..=len {
            if at > 1 {
                self.put(b",")?;
            }
            self.encode(&table.raw_get(at)?, depth + 1)?;
        }
        self.put(b"]")
    }

    fn encode_object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.put(b"{")?;
        let mut first = true;
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            if !std::mem::take(&mut first) {
                self.put(b",")?;
            }
            match &name {
                Value::String(name) => self.encode_string(&name.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.put(b"\"")?;
                    self.encode(&name, depth)?;
                    self.put(b"\"")?;
                }
                _ => return Err(fails("Cannot serialise table: table key must be a number or string")),
            }
            self.put(b":")?;
            self.encode(&value, depth + 1)?;
        }
        self.put(b"}")
    }
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
