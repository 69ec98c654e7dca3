//! CONFIG: what the server was started with, and the little that can be changed while it runs.

use forebay::key::SPACES;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};

use super::family::{self, text};
use super::scan::checked_pattern;
use super::{Command, Flag, Group, Keys, Run};
use crate::command::{Sub, SubRun};
use crate::glob;
use crate::session::Session;
use crate::settings::{SETTINGS, Setting};
use crate::state::Shared;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "config",
    syntax: "subcommand [arg ..]",
    summary: "Shows and changes settings",
    group: Group::Server,
    arity: -2,
    keys: Keys::None,
    run: Run::Session(|session, frame| family::run(session, frame, "config", SUBS)),
    flags: &[Flag::Admin],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "get",
        syntax: "pattern [pattern ..]",
        summary: "Settings whose names match",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Session(get),
    },
    Sub {
        name: "set",
        syntax: "name value [name value ..]",
        summary: "Changes settings until the server stops, all of those named or none",
        arity: -4,
        flags: &[Flag::Admin],
        run: SubRun::Session(set),
    },
    Sub {
        name: "resetstat",
        syntax: "",
        summary: "Sets what INFO and the metrics count back to zero",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(reset_stat),
    },
    Sub {
        name: "rewrite",
        syntax: "",
        summary: "Refused: the server does not write its configuration",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|_, _| {
            Reply::error("ERR CONFIG REWRITE is not supported: change the configuration where the server is started")
        }),
    },
];

/// One thing that CONFIG GET shows and CONFIG SET does not change.
type Shown = (&'static str, fn(&Shared) -> String);

/// What clients and tools ask for, under Redis' names.
const SHOWN: &[Shown] = &[
    ("appendonly", |_| "no".into()),
    ("save", |_| String::new()),
    ("databases", |shared| if shared.engine.store().has_documents() { SPACES.to_string() } else { "1".into() }),
    ("bind", |shared| shared.address.get().map_or_else(String::new, |address| address.ip().to_string())),
    ("port", |shared| shared.address.get().map_or_else(|| "0".into(), |address| address.port().to_string())),
    ("maxclients", |shared| shared.limits.clients_max.to_string()),
    ("maxmemory", |shared| shared.engine.cache().stats().budget_bytes.to_string()),
    ("maxmemory-policy", |shared| shared.engine.cache().policy().name.into()),
    ("io-threads", |shared| shared.threads.to_string()),
    ("proto-max-bulk-len", |shared| shared.limits.request.bulk_bytes_max.to_string()),
    ("client-query-buffer-limit", |shared| shared.limits.request.request_bytes_max.to_string()),
    ("client-output-buffer-limit", |shared| format!("normal {} 0 0", shared.limits.client_reply_bytes_max)),
    ("requirepass", |_| String::new()),
    ("timeout", |_| "0".into()),
    ("cluster-enabled", |_| "no".into()),
];

/// Whether there is a setting of this name.
pub fn is_setting(name: &[u8]) -> bool {
    let mut names = SHOWN.iter().map(|(name, _)| *name).chain(SETTINGS.iter().map(|setting| setting.name));
    names.any(|known| family::is(name, known))
}

fn get(session: &mut Session, frame: Frame<'_>) -> Reply {
    // A pattern may be a name, and more of them than there are names ask for nothing more.
    let patterns_max = SHOWN.len() + SETTINGS.len();
    if frame.len() - 2 > patterns_max {
        return Reply::error(format!("LIMIT config_patterns_max {patterns_max}"));
    }
    if let Some(error) = frame.args().skip(2).find_map(|pattern| checked_pattern(pattern).err()) {
        return error;
    }
    let shared = &session.shared;
    let wanted = |name: &str| frame.args().skip(2).any(|pattern| glob::matches(pattern, name.as_bytes(), true));
    let fixed = SHOWN.iter().filter(|(name, _)| wanted(name)).map(|(name, value)| (text(*name), text(value(shared))));
    let settings = SETTINGS.iter().filter(|setting| wanted(setting.name));
    let changing = settings.map(|setting| (text(setting.name), text((setting.get)(&shared.settings).to_string())));
    Reply::Map(fixed.chain(changing).collect())
}

fn parse(setting: &'static Setting, value: &[u8]) -> Result<i64, Reply> {
    let refused = |reason: &str| errors::config_refused(setting.name, reason);
    let (least, most) = setting.range;
    match parse_integer(value) {
        None => Err(refused("argument couldn't be parsed into an integer")),
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(_) => Err(refused(&format!("argument must be between {least} and {most} inclusive"))),
    }
}

fn set(session: &mut Session, frame: Frame<'_>) -> Reply {
    if !frame.len().is_multiple_of(2) {
        return errors::wrong_arguments("config|set");
    }
    let mut changes: Vec<(&'static Setting, i64)> = Vec::new();
    for at in (2..frame.len()).step_by(2) {
        let (name, value) = (frame.arg(at), frame.arg(at + 1));
        let same = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        let Some(setting) = SETTINGS.iter().find(|setting| same(setting.name)) else {
            return match SHOWN.iter().find(|(known, _)| same(known)) {
                Some((known, _)) => errors::config_refused(known, "can't set immutable config"),
                None => errors::config_unknown(name),
            };
        };
        if changes.iter().any(|(known, _)| known.name == setting.name) {
            return errors::config_refused(setting.name, "duplicate parameter");
        }
        match parse(setting, value) {
            Ok(value) => changes.push((setting, value)),
            Err(error) => return error,
        }
    }
    for (setting, value) in changes {
        (setting.set)(&session.shared.settings, value);
    }
    Reply::OK
}

fn reset_stat(session: &mut Session, _: Frame<'_>) -> Reply {
    let shared = &session.shared;
    shared.figures.reset();
    shared.tally.reset();
    shared.engine.cache().reset_stats();
    shared.shadows.begin_again();
    Reply::OK
}
