//! One state of Lua for one script: what a script finds in it, and what bounds it.
//!
//! **Invariants.** A state serves one script, so nothing that a script leaves behind is found by another. It reaches
//! neither files nor processes. The libraries that it is given hold none of them, and the prelude takes away what the
//! base library reads files by. All that it allocates counts towards one limit.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use forebay::runtime::Runtime;
use forebay_protocol::{Reply, Request};
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic, VmState};

use super::cache::sha1_hex;
use super::halt::{Halt, Limit};
use super::values::{Replies, Unfit, error_table, number_text, to_lua};
use super::{bits, json};

/// Instructions between two looks at whether the script is to stop.
const INSTRUCTIONS_PER_LOOK: u32 = 2000;

/// Longest pattern of string.find and its kind: each item of one is a step deeper on the thread's stack.
const PATTERN_BYTES_MAX: usize = 4096;

/// As errors name the script.
const CHUNK: &str = "@user_script";

/// What a script asks of its session: a command's answer. `None`: the script is to stop.
pub(super) type Ask = Box<dyn Fn(Request) -> Option<Reply>>;

/// One script to run.
pub(super) struct Program<'a> {
    pub(super) sha: &'a str,
    pub(super) body: &'a [u8],
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) args: Vec<Vec<u8>>,
    /// Bytes that its state, and its answer, may take.
    pub(super) bytes_max: usize,
    /// Whose lines `redis.log` writes.
    pub(super) client: u64,
    /// For `os.clock`.
    pub(super) runtime: Runtime,
}

fn fails(why: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(why.into())
}

/// A new state.
fn state(bytes_max: usize) -> mlua::Result<Lua> {
    let libs = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
    let lua = Lua::new_with(libs, LuaOptions::new())?;
    lua.set_memory_limit(bytes_max)?;
    Ok(lua)
}

/// A script as a function, in `lua`. The error is the client's.
fn compiled(lua: &Lua, body: &[u8]) -> Result<Function, Reply> {
    let loaded = lua.load(body).set_name(CHUNK).set_mode(mlua::chunk::ChunkMode::Text).into_function();
    loaded.map_err(|error| match error {
        mlua::Error::SyntaxError { message, .. } => {
            Reply::error(format!("ERR Error compiling script (new function): {message}"))
        }
        other => Reply::error(format!("ERR Error compiling script (new function): {other}")),
    })
}

/// Why `body` is no script, if it is none.
pub(super) fn refused(body: &[u8], bytes_max: usize) -> Option<Reply> {
    match state(bytes_max) {
        Ok(lua) => compiled(&lua, body).err(),
        Err(error) => Some(Reply::error(format!("ERR can't make a state of Lua: {error}"))),
    }
}

/// Runs a script to its end. What it answers, or with `Err` the error that ended it.
pub(super) fn run(program: &Program<'_>, halt: &Arc<Halt>, ask: Ask) -> Result<Reply, Reply> {
    let ended = run_in_state(program, halt, ask);
    match halt.reason() {
        // Whatever it made of that.
        Some(limit) => Err(limit.reply()),
        None => ended.unwrap_or_else(|error| Err(error_of(&error, program.bytes_max))),
    }
}

/// The client's error for one that Lua or its library made.
fn error_of(error: &mlua::Error, bytes_max: usize) -> Reply {
    match error {
        mlua::Error::MemoryError(_) => Limit::Memory(bytes_max).reply(),
        mlua::Error::CallbackError { cause, .. } => error_of(cause, bytes_max),
        mlua::Error::RuntimeError(said) => Reply::error(format!("ERR {said}")),
        mlua::Error::ExternalError(inner) => match inner.downcast_ref::<CommandFailed>() {
            Some(failed) => Reply::error(failed.0.clone()),
            None => Reply::error(format!("ERR {inner}")),
        },
        other => Reply::error(format!("ERR {other}")),
    }
}

fn run_in_state(program: &Program<'_>, halt: &Arc<Halt>, ask: Ask) -> mlua::Result<Result<Reply, Reply>> {
    let lua = state(program.bytes_max)?;
    let resp3 = Rc::new(Cell::new(false));
    let globals = lua.globals();
    globals.raw_set("redis", redis(&lua, (halt, ask), &resp3, program)?)?;
    globals.raw_set("os", clock(&lua, program.runtime.clone())?)?;
    let stopped = halt.clone();
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").into_function()?;
    let bytes_max = program.bytes_max;
    let runner: Function = prelude.call((
        lua.create_function(move |lua, error: Value| described(lua, error, bytes_max))?,
        lua.create_function(move |lua, error: Value| as_table(lua, error, bytes_max))?,
        PATTERN_BYTES_MAX,
        lua.create_function(move |_, ()| Ok(stopped.reason().is_some()))?,
        modules(&lua, bytes_max)?,
    ))?;
    let strings = |texts: &[Vec<u8>]| lua.create_sequence_from(texts.iter().map(mlua::LuaString::wrap));
    globals.raw_set("KEYS", strings(&program.keys)?)?;
    globals.raw_set("ARGV", strings(&program.args)?)?;
    let script = match compiled(&lua, program.body) {
        Ok(script) => script,
        Err(refused) => return Ok(Err(refused)),
    };
    watch(&lua, halt.clone(), INSTRUCTIONS_PER_LOOK)?;
    let mut values = runner.call::<MultiValue>(script)?.into_iter();
    lua.remove_global_hook();
    lua.remove_hook();
    let (ok, value) = (values.next(), values.next().unwrap_or(Value::Nil));
    if ok != Some(Value::Boolean(true)) {
        return Ok(Err(error_reply(&value, program)));
    }
    let mut replies = Replies { resp3: resp3.get(), left: program.bytes_max };
    Ok(match replies.of(&value) {
        Ok(error @ Reply::Error(_)) => Err(error),
        Ok(reply) => Ok(reply),
        Err(Unfit::Deep) => Err(Reply::error("ERR reached lua stack limit")),
        Err(Unfit::Large) => Err(Limit::Memory(program.bytes_max).reply()),
    })
}

/// Has the script stop once `halt` says so: from then on each instruction raises an error, so that whatever catches
/// one meets the next.
fn watch(lua: &Lua, halt: Arc<Halt>, instructions: u32) -> mlua::Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
        if halt.reason().is_none() {
            return Ok(VmState::Continue);
        }
        if instructions > 1 {
            watch(lua, halt.clone(), 1)?;
        }
        Err(fails("stopped"))
    })
}

/// What makes the modules, by their names.
fn modules(lua: &Lua, bytes_max: usize) -> mlua::Result<Table> {
    let modules = lua.create_table()?;
    modules.raw_set("cjson", lua.create_function(move |lua, ()| json::module(lua, bytes_max))?)?;
    modules.raw_set("bit", lua.create_function(|lua, ()| bits::module(lua))?)?;
    Ok(modules)
}

/// `os`, of which scripts have the clock: seconds that the state is old.
fn clock(lua: &Lua, runtime: Runtime) -> mlua::Result<Table> {
    let began = runtime.elapsed();
    let os = lua.create_table()?;
    let seconds = move |_: &Lua, ()| Ok((runtime.elapsed() - began).as_secs_f64());
    os.raw_set("clock", lua.create_function(seconds)?)?;
    Ok(os)
}

/// The error of a command on its way through Lua; what catches it makes a table of it.
#[derive(Debug)]
struct CommandFailed(Vec<u8>);

impl std::fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for CommandFailed {}

/// `redis.call` and `redis.pcall`: a command for the session, and its answer. Its error is raised or returned.
fn add_calls(
    lua: &Lua,
    redis: &Table,
    (halt, ask): (&Arc<Halt>, Ask),
    bytes_max: usize,
    resp3: &Rc<Cell<bool>>,
) -> mlua::Result<()> {
    let (halt, resp3) = (halt.clone(), resp3.clone());
    let answer = Rc::new(move |args: &[Value]| -> mlua::Result<Reply> {
        if halt.reason().is_some() {
            return Err(fails("stopped"));
        }
        match request(args, bytes_max) {
            Ok(request) => ask(request).ok_or_else(|| fails("stopped")),
            Err(refused) => Ok(refused),
        }
    });
    let (answers, protocol) = (answer.clone(), resp3.clone());
    let call = move |lua: &Lua, args: Variadic<Value>| match answers(&args)? {
        Reply::Error(text) => Err(mlua::Error::external(CommandFailed(text.to_vec()))),
        reply => to_lua(lua, &reply, protocol.get()),
    };
    redis.raw_set("call", lua.create_function(call)?)?;
    let pcall = move |lua: &Lua, args: Variadic<Value>| to_lua(lua, &answer(&args)?, resp3.get());
    redis.raw_set("pcall", lua.create_function(pcall)?)
}

/// The request that a script's arguments are, which are copied: one string may stand among them many times.
fn request(args: &[Value], bytes_max: usize) -> Result<Request, Reply> {
    if args.is_empty() {
        return Err(Reply::error("ERR Please specify at least one argument for this redis lib call"));
    }
    let bytes = args.iter().map(|arg| if let Value::String(text) = arg { text.as_bytes().len() } else { 0 });
    if bytes.sum::<usize>() > bytes_max {
        return Err(Limit::Memory(bytes_max).reply());
    }
    let text = |arg: &Value| match arg {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number_text(*number as f64).into_bytes()),
        Value::Number(number) => Ok(number_text(*number).into_bytes()),
        _ => Err(Reply::error("ERR Lua redis lib command arguments must be strings or integers")),
    };
    let texts = args.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(Request::of(texts.iter().map(Vec::as_slice)))
}

/// Levels of the stack that are looked at for the script's own line.
const LEVELS_MAX: usize = 16;

/// An error of Rust as a table; another stays as it is.
fn as_table(lua: &Lua, error: Value, bytes_max: usize) -> mlua::Result<Value> {
    match &error {
        Value::Error(inner) => match error_of(inner, bytes_max) {
            Reply::Error(text) => error_table(lua, &text).map(Value::Table),
            _ => Ok(error),
        },
        _ => Ok(error),
    }
}

/// An error as a table that says where it was raised, as Redis makes it.
fn described(lua: &Lua, error: Value, bytes_max: usize) -> mlua::Result<Table> {
    let table = match as_table(lua, error, bytes_max)? {
        Value::Table(table) => table,
        Value::String(text) if &*text.as_bytes() == b"not enough memory" => {
            return memory_table(lua, bytes_max);
        }
        Value::String(text) => error_table(lua, &[b"ERR ", &*text.as_bytes()].concat())?,
        other => error_table(lua, format!("ERR {}", other.to_string().unwrap_or_default()).as_bytes())?,
    };
    let line_at = |level| {
        let seen = lua.inspect_stack(level, |frame| {
            let is_script = frame.source().source.as_deref() == Some(CHUNK);
            frame.current_line().filter(|_| is_script)
        });
        seen.flatten()
    };
    if let Some(line) = (0..LEVELS_MAX).find_map(line_at) {
        table.raw_set("source", CHUNK)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}

fn memory_table(lua: &Lua, bytes_max: usize) -> mlua::Result<Table> {
    match Limit::Memory(bytes_max).reply() {
        Reply::Error(text) => error_table(lua, &text),
        _ => error_table(lua, b"ERR not enough memory"),
    }
}

/// The error reply for what ended a script.
fn error_reply(error: &Value, program: &Program<'_>) -> Reply {
    let Value::Table(table) = error else {
        return match error {
            Value::String(text) if &*text.as_bytes() == b"not enough memory" => {
                Limit::Memory(program.bytes_max).reply()
            }
            Value::Error(error) => error_of(error, program.bytes_max),
            _ => Reply::error("ERR the script ended with an error that has no text"),
        };
    };
    let text = match table.raw_get::<Value>("err") {
        Ok(Value::String(text)) => text.as_bytes().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    let line = table.raw_get::<Option<u32>>("line").ok().flatten();
    let place = line.map(|line| format!(" script: {}, on {CHUNK}:{line}.", program.sha)).unwrap_or_default();
    Reply::error([&text, place.as_bytes()].concat())
}

/// The table `redis`.
fn redis(
    lua: &Lua,
    (halt, ask): (&Arc<Halt>, Ask),
    resp3: &Rc<Cell<bool>>,
    program: &Program<'_>,
) -> mlua::Result<Table> {
    let (redis, client) = (lua.create_table()?, program.client);
    add_calls(lua, &redis, (halt, ask), program.bytes_max, resp3)?;
    let wrong = || fails("wrong number of arguments");
    let named = |name: &'static str, prefix: &'static [u8]| {
        lua.create_function(move |lua, args: Variadic<Value>| {
            let table = lua.create_table()?;
            let [Value::String(text)] = args.as_slice() else {
                return error_table(lua, b"ERR wrong number or type of arguments");
            };
            let text = text.as_bytes();
            let text = text.strip_prefix(b"-".as_slice()).filter(|_| name == "err").unwrap_or(&text);
            let prefix = if text.contains(&b' ') { b"".as_slice() } else { prefix };
            table.raw_set(name, lua.create_string([prefix, text].concat())?)?;
            Ok(table)
        })
    };
    redis.raw_set("error_reply", named("err", b"ERR ")?)?;
    redis.raw_set("status_reply", named("ok", b"")?)?;
    let sha1hex = move |_: &Lua, args: Variadic<mlua::LuaString>| match args.as_slice() {
        [text] => Ok(sha1_hex(&text.as_bytes())),
        _ => Err(wrong()),
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let resp3 = resp3.clone();
    let setresp = move |_: &Lua, version: f64| match version {
        2.0 | 3.0 => {
            resp3.set(version == 3.0);
            Ok(())
        }
        _ => Err(fails("RESP version must be 2 or 3.")),
    };
    redis.raw_set("setresp", lua.create_function(setresp)?)?;
    redis.raw_set("log", lua.create_function(move |_, args: Variadic<Value>| log(client, &args))?)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    for (name, number) in [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)] {
        redis.raw_set(name, number)?;
    }
    redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, _: Value| Ok(()))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    Ok(redis)
}

/// Bytes of one line that a script logs; the rest is cut.
const LOGGED_BYTES_MAX: usize = 1024;

/// `redis.log`: to the server's own log, under the level named.
fn log(client: u64, args: &[Value]) -> mlua::Result<()> {
    let [level, said @ ..] = args else { return Err(fails("redis.log() requires two arguments or more.")) };
    if said.is_empty() {
        return Err(fails("redis.log() requires two arguments or more."));
    }
    let level = level.as_f64().or_else(|| level.as_i64().map(|level| level as f64));
    let Some(level) = level.filter(|level| (0.0..=3.0).contains(level)) else {
        return Err(fails("First argument must be a number (log level)."));
    };
    let words = said.iter().map(|word| match word {
        Value::String(text) => String::from_utf8_lossy(&text.as_bytes()).into_owned(),
        Value::Integer(number) => number_text(*number as f64),
        Value::Number(number) => number_text(*number),
        _ => String::new(),
    });
    let mut line = words.collect::<Vec<_>>().join(" ");
    if line.len() > LOGGED_BYTES_MAX {
        let end = (0..=LOGGED_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or_default();
        line.truncate(end);
    }
    match level as u8 {
        0 => tracing::trace!(client, "script: {line}"),
        1 => tracing::debug!(client, "script: {line}"),
        2 => tracing::info!(client, "script: {line}"),
        _ => tracing::warn!(client, "script: {line}"),
    }
    Ok(())
}
