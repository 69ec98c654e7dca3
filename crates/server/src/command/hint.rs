//! HINT: labels that a client attaches to its requests. What they mean is the client's own; the policy learns what they
//! are worth (CLIC, section 2).
//!
//! A schema names the hint types of a client and is its name space; each hint set has one value per type. Clients that
//! use a schema of the same name with the same types share what is learned. The ids by which a connection names its
//! sets are its own.

use forebay_protocol::{Frame, Reply};

use super::family::{self, Sub, SubRun};
use super::{Command, Flag, Group, Keys, Run};
use crate::labels::LABEL_BYTES_MAX;
use crate::session::Session;

/// Hint sets that one connection has ids for.
const CONNECTION_HINT_SETS_MAX: usize = 4096;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "hint",
    syntax: "subcommand [arg ..]",
    summary: "Attaches hints to requests, from which the replacement policy may learn",
    group: Group::Cache,
    arity: -2,
    keys: Keys::None,
    run: Run::Session(|session, frame| family::run(session, frame, "hint")),
    // In MULTI it runs at once: the hints are those of the EXEC.
    flags: &[Flag::NotQueued, Flag::LeavesReads],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "schema",
        syntax: "name type [type ..]",
        summary: "Names the hint types of the sets that this connection defines next",
        arity: -4,
        flags: &[],
        run: SubRun::Session(schema),
    },
    Sub {
        name: "set",
        syntax: "id value [value ..]",
        summary: "Gives an id of this connection to a hint set: one value per hint type",
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
    match session.shared.labels.hint_schema(frame.arg(2), frame.args().skip(3)) {
        Ok(number) => {
            session.hints.schema = Some(number);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn set(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Some(schema) = session.hints.schema else {
        return Reply::error("ERR HINT SET needs a schema; name the hint types with HINT SCHEMA first");
    };
    let id = frame.arg(2);
    if id.len() > LABEL_BYTES_MAX {
        return Reply::error(format!("LIMIT label_bytes_max {LABEL_BYTES_MAX}"));
    }
    let known = session.hints.sets.contains_key(id);
    if !known && session.hints.sets.len() >= CONNECTION_HINT_SETS_MAX {
        session.shared.labels.count_refused_hints();
        return Reply::error(format!("LIMIT connection_hint_sets_max {CONNECTION_HINT_SETS_MAX}"));
    }
    match session.shared.labels.hint_set(schema, frame.args().skip(3)) {
        Ok(number) => {
            // Before any request can have it.
            if let Some(meaning) = session.shared.labels.hint_meaning(number) {
                session.shared.engine.cache().define_hints(number, &meaning);
            }
            session.hints.sets.insert(id.into(), number);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn unknown(id: &[u8]) -> Reply {
    let id = id.escape_ascii();
    Reply::error(format!("ERR no hint set '{id}' on this connection; define it with HINT SET"))
}

fn use_next(session: &mut Session, frame: Frame<'_>) -> Reply {
    match session.hints.sets.get(frame.arg(2)).copied() {
        Some(set) => {
            session.hints.use_next(set);
            Reply::OK
        }
        None => unknown(frame.arg(2)),
    }
}

fn default(session: &mut Session, frame: Frame<'_>) -> Reply {
    let set = match frame.get(2) {
        None => Some(Default::default()),
        Some(id) => session.hints.sets.get(id).copied(),
    };
    match set {
        Some(set) => {
            session.hints.default = set;
            Reply::OK
        }
        None => unknown(frame.arg(2)),
    }
}
