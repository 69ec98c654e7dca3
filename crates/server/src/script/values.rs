//! What a command answers as a value of Lua, and what a script returns as a reply; as Redis converts them.
//!
//! **Invariant.** A reply that is made of a script's value takes no more bytes than it was given, however often a table
//! stands in itself. It nests at most [`DEPTH_MAX`] deep.

use forebay_protocol::Reply;
use mlua::{Lua, Table, Value};

/// Tables within one another, of a reply. An encoder and a dropping of it go as deep.
const DEPTH_MAX: usize = 100;

/// Why a script's value is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Tables nest too deep, or a table is in itself.
    Deep,
    /// It takes too many bytes.
    Large,
}

/// An error as scripts see it.
pub(super) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

fn field(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

fn text(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

fn list<'r>(lua: &Lua, replies: impl ExactSizeIterator<Item = &'r Reply>, resp3: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(replies.len(), 0)?;
    for (at, reply) in replies.enumerate() {
        table.raw_set(at + 1, to_lua(lua, reply, resp3)?)?;
    }
    Ok(Value::Table(table))
}

/// A command's reply as a script sees it; `resp3`: after `redis.setresp(3)`.
pub(super) fn to_lua(lua: &Lua, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    match reply {
        Reply::Simple(status) => field(lua, "ok", text(lua, status.as_bytes())?),
        Reply::Error(error) => error_table(lua, error).map(Value::Table),
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => text(lua, bytes),
        Reply::Part(bytes, range) => text(lua, bytes.get(range.clone()).unwrap_or_default()),
        Reply::Parts(parts) => {
            let pieces = parts.iter().map(|(bytes, range)| bytes.get(range.clone()).unwrap_or_default());
            text(lua, &pieces.collect::<Vec<_>>().concat())
        }
        Reply::Text(said) => text(lua, said.as_bytes()),
        Reply::Verbatim(_, said) if !resp3 => text(lua, said.as_bytes()),
        Reply::Verbatim(format, said) => {
            let table = lua.create_table()?;
            table.raw_set("format", text(lua, format.as_bytes())?)?;
            table.raw_set("string", text(lua, said.as_bytes())?)?;
            field(lua, "verbatim_string", Value::Table(table))
        }
        Reply::Nil | Reply::NilArray => Ok(if resp3 { Value::Nil } else { Value::Boolean(false) }),
        Reply::Array(replies) | Reply::Push(replies) => list(lua, replies.iter(), resp3),
        Reply::Set(replies) if !resp3 => list(lua, replies.iter(), resp3),
        Reply::Set(replies) => {
            let table = lua.create_table_with_capacity(0, replies.len())?;
            for reply in replies {
                table.raw_set(to_lua(lua, reply, resp3)?, true)?;
            }
            field(lua, "set", Value::Table(table))
        }
        Reply::Map(pairs) if resp3 => {
            let table = lua.create_table_with_capacity(0, pairs.len())?;
            for (name, value) in pairs {
                table.raw_set(to_lua(lua, name, resp3)?, to_lua(lua, value, resp3)?)?;
            }
            field(lua, "map", Value::Table(table))
        }
        Reply::Pairs(pairs) if resp3 => {
            let table = lua.create_table_with_capacity(pairs.len(), 0)?;
            for (at, (name, value)) in pairs.iter().enumerate() {
                table.raw_set(at + 1, list(lua, [name, value].into_iter(), resp3)?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            let table = lua.create_table_with_capacity(pairs.len() * 2, 0)?;
            for (at, (name, value)) in pairs.iter().enumerate() {
                table.raw_set(at * 2 + 1, to_lua(lua, name, resp3)?)?;
                table.raw_set(at * 2 + 2, to_lua(lua, value, resp3)?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Double(number) if resp3 => field(lua, "double", Value::Number(*number)),
        Reply::Double(number) => {
            let mut written = Vec::new();
            forebay_protocol::double::write_double(*number, &mut written);
            text(lua, &written)
        }
        Reply::Boolean(yes) if resp3 => Ok(Value::Boolean(*yes)),
        Reply::Boolean(yes) => Ok(Value::Number(f64::from(u8::from(*yes)))),
        Reply::BigNumber(digits) if resp3 => field(lua, "big_number", text(lua, digits.as_bytes())?),
        Reply::BigNumber(digits) => text(lua, digits.as_bytes()),
    }
}

/// Makes replies of what scripts return.
pub(super) struct Replies {
    /// After `redis.setresp(3)`.
    pub(super) resp3: bool,
    /// Bytes that there is room for still.
    pub(super) left: usize,
}

impl Replies {
    /// Counts one reply with so many bytes beside itself.
    fn count(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.left = self.left.checked_sub(bytes + size_of::<Reply>()).ok_or(Unfit::Large)?;
        Ok(())
    }

    fn bulk(&mut self, bytes: &[u8]) -> Result<Reply, Unfit> {
        self.count(bytes.len())?;
        Ok(Reply::bulk(bytes))
    }

    /// The reply that `value` is.
    pub(super) fn of(&mut self, value: &Value) -> Result<Reply, Unfit> {
        self.within(value, 0)
    }

    fn within(&mut self, value: &Value, depth: usize) -> Result<Reply, Unfit> {
        self.count(0)?;
        match value {
            Value::String(string) => self.bulk(&string.as_bytes()),
            Value::Integer(number) => Ok(Reply::Integer(*number)),
            Value::Number(number) => Ok(Reply::Integer(truncated(*number))),
            Value::Boolean(yes) if self.resp3 => Ok(Reply::Boolean(*yes)),
            Value::Boolean(true) => Ok(Reply::Integer(1)),
            Value::Table(_) if depth >= DEPTH_MAX => Err(Unfit::Deep),
            Value::Table(table) => self.table(table, depth),
            _ => Ok(Reply::Nil),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Reply, Unfit> {
        let get = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(error) = get("err") {
            self.count(error.as_bytes().len())?;
            return Ok(Reply::Error(error.as_bytes().to_vec().into()));
        }
        if let Value::String(status) = get("ok") {
            self.count(status.as_bytes().len())?;
            return Ok(Reply::Simple(one_line(&status.as_bytes()).into()));
        }
        match get("double") {
            Value::Number(number) => return Ok(Reply::Double(number)),
            Value::Integer(number) => return Ok(Reply::Double(number as f64)),
            _ => {}
        }
        if let Value::Table(map) = get("map") {
            let mut pairs = Vec::new();
            for pair in map.pairs::<Value, Value>() {
                let Ok((name, value)) = pair else { break };
                pairs.push((self.within(&name, depth + 1)?, self.within(&value, depth + 1)?));
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = get("set") {
            let mut replies = Vec::new();
            for pair in set.pairs::<Value, Value>() {
                let Ok((name, _)) = pair else { break };
                replies.push(self.within(&name, depth + 1)?);
            }
            return Ok(Reply::Set(replies));
        }
        if let Value::String(digits) = get("big_number") {
            self.count(digits.as_bytes().len())?;
            return Ok(Reply::BigNumber(one_line(&digits.as_bytes()).into()));
        }
        if let Value::Table(verbatim) = get("verbatim_string") {
            let part = |name| verbatim.raw_get::<mlua::LuaString>(name).map(|part| part.to_string_lossy());
            if let (Ok(format), Ok(said)) = (part("format"), part("string")) {
                self.count(format.len() + said.len())?;
                return Ok(Reply::Verbatim(format.into(), said));
            }
        }
        let mut replies = Vec::new();
        for at in 1_i64.. {
            match table.raw_get::<Value>(at) {
                Ok(Value::Nil) | Err(_) => break,
                Ok(value) => replies.push(self.within(&value, depth + 1)?),
            }
        }
        Ok(Reply::Array(replies))
    }
}

/// A number without its fraction. What no integer of 64 bits can be is the least of them, as a cast on amd64 has it.
fn truncated(number: f64) -> i64 {
    match number >= -(2_f64.powi(63)) && number < 2_f64.powi(63) {
        true => number as i64,
        false => i64::MIN,
    }
}

/// As text of one line: what ends lines becomes spaces, as in Redis.
fn one_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ")
}

/// A number as an argument of a command: with 17 digits none is lost.
pub(super) fn number_text(number: f64) -> String {
    digits(number, 17)
}

/// A number with so many digits that count, as C's `%g` prints it.
pub(super) fn digits(number: f64, count: i32) -> String {
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{number:.*e}", count as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..count).contains(&exponent) {
        return trimmed(&format!("{number:.*}", (count - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}
