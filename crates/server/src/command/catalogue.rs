//! COMMAND: the records of all commands, in the shapes in which Redis shows its own.

use forebay_protocol::{Frame, Reply, errors};

use super::category::{categories, effect, sub_categories};
use super::family::{self, is, map, text};
use super::{Command, Effect, Flag, Group, Keys, Run, Sub, SubRun, Table};
use crate::access::permissions::Permission;
use crate::glob::{self, PATTERN_BYTES_MAX};
use crate::session::Session;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "command",
    syntax: "[subcommand [arg ..]]",
    summary: "Shows the commands that there are",
    group: Group::Server,
    arity: -1,
    keys: Keys::None,
    run: Run::Session(|session, frame| match frame.len() {
        1 => Reply::Array(infos(&session.shared.table)),
        _ => family::run(session, frame, "command", SUBS),
    }),
    flags: &[Flag::Again],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "count",
        syntax: "",
        summary: "How many commands there are",
        arity: 2,
        flags: &[],
        run: SubRun::Session(|session, _| Reply::Integer(session.shared.table.all().len() as i64)),
    },
    Sub {
        name: "info",
        syntax: "[name ..]",
        summary: "What commands are",
        arity: -2,
        flags: &[],
        run: SubRun::Session(info),
    },
    Sub {
        name: "docs",
        syntax: "[name ..]",
        summary: "What commands do",
        arity: -2,
        flags: &[],
        run: SubRun::Session(docs),
    },
    Sub {
        name: "list",
        syntax: "[FILTERBY MODULE name | ACLCAT category | PATTERN pattern]",
        summary: "Names of commands",
        arity: -2,
        flags: &[],
        run: SubRun::Session(list),
    },
    Sub {
        name: "getkeys",
        syntax: "name [arg ..]",
        summary: "The keys of a request",
        arity: -3,
        flags: &[],
        run: SubRun::Session(get_keys),
    },
];

fn group_name(group: Group) -> &'static str {
    match group {
        Group::Connection => "connection",
        Group::Strings => "string",
        Group::Keys => "generic",
        Group::Hashes => "hash",
        Group::Lists => "list",
        Group::Sets => "set",
        Group::Transactions => "transactions",
        Group::Scripting => "scripting",
        Group::PubSub => "pubsub",
        Group::Cache => "cache",
        Group::Server => "server",
    }
}

fn statuses<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Reply> {
    names.into_iter().map(|name| Reply::Simple(name.to_owned().into())).collect()
}

/// Redis' words for what a command, or a subcommand of it that has `own` flags, does and where it may be used.
fn flags(command: &Command, own: &[Flag], categories: &[&str]) -> Reply {
    let has = |flag: Flag| own.contains(&flag);
    let mut flags = Vec::new();
    if categories.contains(&"scripting") {
        flags.extend(only_reads(command).then_some("readonly"));
        flags.extend(["noscript", "stale"]);
    } else if categories.contains(&"write") {
        flags.push("write");
    } else if categories.contains(&"read") {
        flags.push("readonly");
    } else if command.name != "ping" {
        flags.extend(["noscript", "loading", "stale"]);
    }
    if has(Flag::Admin) {
        flags.push("admin");
    }
    if command.is(Flag::NotInMulti) {
        flags.push("no_multi");
    }
    if has(Flag::Fast) {
        flags.push("fast");
    }
    // Of MEMORY only a subcommand has a key, and that always stands in one place.
    if matches!(command.keys, Keys::Custom(_)) && command.name != "memory" {
        flags.push("movablekeys");
    }
    Reply::Set(statuses(flags))
}

fn with_at(categories: &[&str]) -> Reply {
    let names: Vec<String> = categories.iter().map(|name| format!("@{name}")).collect();
    Reply::Set(statuses(names.iter().map(String::as_str)))
}

/// First, last and step in Redis' terms; 0 where there are none, or they can't be told in this form.
fn positions(keys: Keys) -> [i64; 3] {
    match keys {
        Keys::Range { first, last, step } => [first as i64, last as i64, step as i64],
        Keys::None | Keys::Custom(_) => [0, 0, 0],
    }
}

/// Whether it runs a script that may not write.
fn only_reads(command: &Command) -> bool {
    command.is(Flag::RunsScript) && command.name.ends_with("_ro")
}

/// The keys of a script: so many as its second argument says, behind that.
fn script_specs(command: &Command) -> Vec<Reply> {
    let flags: &[&str] = if only_reads(command) { &["RO", "access"] } else { &["RW", "access", "update"] };
    let spec = map([("keynumidx", Reply::Integer(0)), ("firstkey", Reply::Integer(1)), ("keystep", Reply::Integer(1))]);
    let flags = Reply::Set(statuses(flags.iter().copied()));
    let begin = map([("type", text("index")), ("spec", map([("index", Reply::Integer(2))]))]);
    vec![map([
        ("flags", flags),
        ("begin_search", begin),
        ("find_keys", map([("type", text("keynum")), ("spec", spec)])),
    ])]
}

fn key_specs(command: &Command) -> Vec<Reply> {
    if command.is(Flag::RunsScript) {
        return script_specs(command);
    }
    let flags: &[&str] = match effect(command) {
        Some(Effect::Read) => &["RO", "access"],
        Some(Effect::Blind) => &["OW", "update"],
        _ => &["RW", "update"],
    };
    specs_of(command.keys, flags)
}

/// The key of a subcommand, if it has one: it stands behind its name, and is only looked at.
fn keys_of(sub: &Sub) -> Keys {
    match syntax_parts(sub.syntax).as_slice() {
        ["key", more @ ..] if !more.iter().any(|part| part.starts_with("[key")) => {
            Keys::Range { first: 2, last: 2, step: 1 }
        }
        _ => Keys::None,
    }
}

fn specs_of(keys: Keys, flags: &[&str]) -> Vec<Reply> {
    let Keys::Range { first, last, step } = keys else { return Vec::new() };
    // Counted from the first key, unless from the end.
    let last = if last < 0 { last as i64 } else { last as i64 - first as i64 };
    let begin = map([("type", text("index")), ("spec", map([("index", Reply::Integer(first as i64))]))]);
    let range = map([
        ("lastkey", Reply::Integer(last)),
        ("keystep", Reply::Integer(step as i64)),
        ("limit", Reply::Integer(0)),
    ]);
    let find = map([("type", text("range")), ("spec", range)]);
    let flags = Reply::Set(statuses(flags.iter().copied()));
    vec![map([("flags", flags), ("begin_search", begin), ("find_keys", find)])]
}

fn infos(table: &Table) -> Vec<Reply> {
    table.all().map(|command| info_of(command, table)).collect()
}

fn info_of(command: &'static Command, table: &Table) -> Reply {
    let categories = categories(command);
    let [first, last, step] = positions(command.keys).map(Reply::Integer);
    let subs = table.subcommands(command.name).iter().map(|sub| info_of_sub(command, sub));
    Reply::Array(vec![
        text(command.name),
        Reply::Integer(i64::from(command.arity)),
        flags(command, command.flags, &categories),
        first,
        last,
        step,
        with_at(&categories),
        Reply::Array(Vec::new()),
        Reply::Array(key_specs(command)),
        Reply::Array(subs.collect()),
    ])
}

fn info_of_sub(command: &'static Command, sub: &Sub) -> Reply {
    let (categories, keys) = (sub_categories(command, sub), keys_of(sub));
    let [first, last, step] = positions(keys).map(Reply::Integer);
    Reply::Array(vec![
        text(format!("{}|{}", command.name, sub.name)),
        Reply::Integer(i64::from(sub.arity)),
        flags(command, sub.flags, &categories),
        first,
        last,
        step,
        with_at(&categories),
        Reply::Array(Vec::new()),
        Reply::Array(specs_of(keys, &["RO"])),
        Reply::Array(Vec::new()),
    ])
}

/// What `name` names: a command, or a subcommand as `memory|usage`.
fn named(session: &Session, name: &[u8]) -> Option<(&'static Command, Option<&'static Sub>)> {
    let table = &session.shared.table;
    let Some(bar) = name.iter().position(|byte| *byte == b'|') else { return Some((table.find(name)?, None)) };
    let command = table.find(&name[..bar])?;
    let subs = table.subcommands(command.name);
    Some((command, subs.get(family::position(subs, &name[bar + 1..])?)))
}

/// Who names more commands than there are names some twice; the answer would be longer than all there is to say.
fn names_fit(frame: Frame<'_>, table: &Table) -> Result<(), Reply> {
    let names_max = table.all().len();
    match frame.len() - 2 <= names_max {
        true => Ok(()),
        false => Err(Reply::error(format!("LIMIT command_names_max {names_max}"))),
    }
}

fn info(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.len() == 2 {
        return Reply::Array(infos(&session.shared.table));
    }
    if let Err(error) = names_fit(frame, &session.shared.table) {
        return error;
    }
    let found = frame.args().skip(2).map(|name| match named(session, name) {
        Some((command, None)) => info_of(command, &session.shared.table),
        Some((command, Some(sub))) => info_of_sub(command, sub),
        None => Reply::Nil,
    });
    Reply::Array(found.collect())
}

/// The parts of a syntax line between spaces that stand outside of brackets.
fn syntax_parts(syntax: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in syntax.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                parts.push(&syntax[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&syntax[start..]);
    parts.retain(|part| !part.is_empty());
    // Whole alternatives are shown as they stand.
    if parts.contains(&"|") {
        return vec![syntax];
    }
    parts
}

/// Arguments in the form from which redis-cli makes its hints: one per part of the syntax line.
fn arguments(syntax: &str) -> Reply {
    let argument = |part: &str| {
        let optional = part.starts_with('[') && part.ends_with(']');
        let shown = if optional { &part[1..part.len() - 1] } else { part };
        let mut argument = vec![
            (text("name"), text(shown)),
            (text("type"), text(if shown == "key" { "key" } else { "string" })),
            (text("display_text"), text(shown)),
        ];
        if shown == "key" {
            argument.push((text("key_spec_index"), Reply::Integer(0)));
        }
        if optional {
            argument.push((text("flags"), Reply::Set(statuses(["optional"]))));
        }
        Reply::Map(argument)
    };
    Reply::Array(syntax_parts(syntax).into_iter().map(argument).collect())
}

fn doc(summary: &str, group: Group, syntax: &str) -> Vec<(Reply, Reply)> {
    let mut doc = vec![
        (text("summary"), text(summary)),
        (text("since"), text(env!("CARGO_PKG_VERSION"))),
        (text("group"), text(group_name(group))),
    ];
    if !syntax.is_empty() {
        doc.push((text("arguments"), arguments(syntax)));
    }
    doc
}

fn doc_of(command: &'static Command, table: &Table) -> (Reply, Reply) {
    let subs = table.subcommands(command.name);
    let syntax = if subs.is_empty() { command.syntax } else { "" };
    let mut entry = doc(command.summary, command.group, syntax);
    if !subs.is_empty() {
        let subs = subs.iter().map(|sub| doc_of_sub(command, sub));
        entry.push((text("subcommands"), Reply::Map(subs.collect())));
    }
    (text(command.name), Reply::Map(entry))
}

fn doc_of_sub(command: &'static Command, sub: &Sub) -> (Reply, Reply) {
    let name = format!("{}|{}", command.name, sub.name);
    (text(name), Reply::Map(doc(sub.summary, command.group, sub.syntax)))
}

fn docs(session: &mut Session, frame: Frame<'_>) -> Reply {
    let table = &session.shared.table;
    if frame.len() == 2 {
        return Reply::Map(table.all().map(|command| doc_of(command, table)).collect());
    }
    if let Err(error) = names_fit(frame, &session.shared.table) {
        return error;
    }
    let found = frame.args().skip(2).filter_map(|name| named(session, name));
    let docs = found.map(|(command, sub)| sub.map_or_else(|| doc_of(command, table), |sub| doc_of_sub(command, sub)));
    Reply::Map(docs.collect())
}

fn list(session: &mut Session, frame: Frame<'_>) -> Reply {
    // Subcommands too, each behind its family.
    let names = |wanted: &dyn Fn(&Permission) -> bool| {
        let found = session.shared.access.permissions.list.iter().filter(|permission| wanted(permission));
        Reply::Array(found.map(|permission| text(permission.name.clone())).collect())
    };
    match (frame.len(), frame.get(2), frame.get(3), frame.get(4)) {
        (2, ..) => names(&|_| true),
        (5, Some(filter), Some(by), Some(value)) if is(filter, "filterby") => {
            match by.to_ascii_lowercase().as_slice() {
                b"module" => Reply::Array(Vec::new()),
                b"aclcat" => names(&|of| of.categories.iter().any(|category| is(value, category))),
                b"pattern" if value.len() > PATTERN_BYTES_MAX => {
                    Reply::error(format!("LIMIT pattern_bytes_max {PATTERN_BYTES_MAX}"))
                }
                b"pattern" => names(&|of| glob::matches(value, of.name.as_bytes(), true)),
                _ => Reply::error(errors::SYNTAX),
            }
        }
        _ => Reply::error(errors::SYNTAX),
    }
}

fn get_keys(session: &mut Session, frame: Frame<'_>) -> Reply {
    let request = frame.tail(2);
    let Some(command) = session.shared.table.find(request.arg(0)) else {
        return Reply::error(errors::INVALID_COMMAND);
    };
    if matches!(command.keys, Keys::None) {
        return Reply::error(errors::COMMAND_WITHOUT_KEYS);
    }
    if !command.arity_fits(request.len()) {
        return Reply::error(errors::COMMAND_ARGUMENTS);
    }
    let mut keys = Vec::new();
    command.each_key(request, session.space, &mut |key| keys.push(Reply::bulk(key.name)));
    Reply::Array(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_lines_are_taken_apart_outside_of_brackets() {
        assert_eq!(syntax_parts("key value [NX|XX] [EX s | PX ms]"), ["key", "value", "[NX|XX]", "[EX s | PX ms]"]);
        assert_eq!(syntax_parts("a b | c"), ["a b | c"]);
        assert_eq!(syntax_parts(""), [""; 0]);
    }
}
