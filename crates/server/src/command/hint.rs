//! HINT: labels that a client attaches to its requests. What they mean is the client's own; the policy learns what they
//! are worth (CLIC, section 2).
//!
//! A schema names the hint types of a client and is its name space; each hint set has one value per type. Clients that
//! use a schema of the same name with the same types share what is learned. The ids of a schema's sets are those of a
//! user. One connection of a pool defines them, and each names the schema and uses them.

use forebay::hint::HintSet;
use forebay_protocol::{Frame, Reply};

use super::family::{self};
use super::{Command, Flag, Group, Keys, Run};
use crate::command::{Sub, SubRun};
use crate::session::Session;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "hint",
    syntax: "subcommand [arg ..]",
    summary: "Attaches hints to requests, from which the replacement policy may learn",
    group: Group::Cache,
    arity: -2,
    keys: Keys::None,
    run: Run::Session(|session, frame| family::run(session, frame, "hint", SUBS)),
    // In MULTI it runs at once: the hints are those of the EXEC.
    flags: &[Flag::NotQueued, Flag::LeavesReads],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "schema",
        syntax: "name type [type ..]",
        summary: "Names the hint types of the sets that this connection defines and uses next",
        arity: -4,
        flags: &[],
        run: SubRun::Session(schema),
    },
    Sub {
        name: "set",
        syntax: "id value [value ..]",
        summary: "Gives an id to a hint set, one value per hint type, for all of the user that name its schema",
        arity: -4,
        flags: &[],
        run: SubRun::Session(set),
    },
    Sub {
        name: "use",
        syntax: "id",
        summary: "Attaches a hint set to the next command",
        arity: 3,
        flags: &[],
        run: SubRun::Session(use_next),
    },
    Sub {
        name: "default",
        syntax: "[id]",
        summary: "Attaches a hint set to all commands that have no other; without an id, none",
        arity: -2,
        flags: &[],
        run: SubRun::Session(default),
    },
];

fn schema(session: &mut Session, frame: Frame<'_>) -> Reply {
    match session.shared.labels.hint_schema(session.identity.id(), frame.arg(2), frame.args().skip(3)) {
        Ok(number) => {
            session.hints.schema = Some(number);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn set(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Some(schema) = session.hints.schema else { return no_schema("SET") };
    let (labels, cache) = (&session.shared.labels, session.shared.engine.cache());
    let set = match labels.hint_set(session.identity.id(), schema, frame.args().skip(3)) {
        Ok(set) => set,
        Err(error) => return error,
    };
    // Before any request can have it.
    if let Some(meaning) = labels.hint_meaning(set) {
        cache.define_hints(set, &meaning);
    }
    let (user, access) = (session.identity.id(), &session.shared.access);
    let is_known = || access.user(session.identity.name().as_bytes()).is_some_and(|known| known.id == user);
    match labels.name_hints((user, is_known), schema, frame.arg(2), set) {
        Ok(()) => Reply::OK,
        Err(error) => error,
    }
}

fn no_schema(subcommand: &str) -> Reply {
    Reply::error(format!("ERR HINT {subcommand} needs a schema; name the hint types with HINT SCHEMA first"))
}

/// The hint set that the third argument names.
fn named(session: &Session, frame: Frame<'_>, subcommand: &str) -> Result<HintSet, Reply> {
    let id = frame.arg(2);
    let schema = session.hints.schema.ok_or_else(|| no_schema(subcommand))?;
    session.shared.labels.hints_named(session.identity.id(), schema, id).ok_or_else(|| {
        let id = id.escape_ascii();
        Reply::error(format!("ERR no hint set '{id}' in this schema; define it with HINT SET"))
    })
}

fn use_next(session: &mut Session, frame: Frame<'_>) -> Reply {
    match named(session, frame, "USE") {
        Ok(set) => {
            session.hints.use_next(set);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn default(session: &mut Session, frame: Frame<'_>) -> Reply {
    let set = match frame.get(2) {
        None => Ok(HintSet::default()),
        Some(_) => named(session, frame, "DEFAULT"),
    };
    match set {
        Ok(set) => {
            session.hints.default = set;
            Reply::OK
        }
        Err(error) => error,
    }
}
