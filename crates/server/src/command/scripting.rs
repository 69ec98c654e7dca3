//! EVAL and its kind, and SCRIPT.

use forebay::key::KeyRef;
use forebay::txn::{Executed, Plan};
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;

use super::family::{self, is, text};
use super::{Command, Flag, Group, Keys, Run, refused};
use crate::command::{Sub, SubRun};
use crate::script::Kills;
use crate::session::{Session, Steps, for_script, in_order, script_keys};

/// What SCRIPT KILL answers of scripts that it can't stop.
const ARE_STUCK: &str = "scripts were told to stop, and end when the call of string.find or its kind returns";

const EVAL_FLAGS: &[Flag] = &[Flag::RunsScript, Flag::NotInTxn];

const fn eval(name: &'static str, syntax: &'static str, summary: &'static str) -> Command {
    Command {
        name,
        syntax,
        summary,
        group: Group::Scripting,
        arity: -3,
        keys: Keys::Custom(each_key),
        run: Run::Engine(run),
        flags: EVAL_FLAGS,
    }
}

const SCRIPT_SYNTAX: &str = "script numkeys [key ..] [arg ..]";
const SHA_SYNTAX: &str = "sha1 numkeys [key ..] [arg ..]";

pub(super) const COMMANDS: &[Command] = &[
    eval("eval", SCRIPT_SYNTAX, "Runs a script in Lua as one transaction"),
    eval("evalsha", SHA_SYNTAX, "Runs a script that is kept, as one transaction"),
    eval("eval_ro", SCRIPT_SYNTAX, "Runs a script that only reads"),
    eval("evalsha_ro", SHA_SYNTAX, "Runs a script that is kept and only reads"),
    Command {
        name: "script",
        syntax: "subcommand [arg ..]",
        summary: "The scripts that are kept, and those that run",
        group: Group::Scripting,
        arity: -2,
        keys: Keys::None,
        run: Run::Engine(|session, frame| family::run_waiting(session, frame, "script", SUBS)),
        // LOAD waits for a place, which who holds locks must not.
        flags: &[Flag::NotInMulti, Flag::NotInTxn],
    },
];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "load",
        syntax: "script",
        summary: "Keeps a script without running it, and tells its SHA-1",
        arity: 3,
        flags: &[],
        run: SubRun::Engine(load),
    },
    Sub {
        name: "exists",
        syntax: "sha1 [sha1 ..]",
        summary: "Whether scripts are kept",
        arity: -3,
        flags: &[],
        run: SubRun::Session(|session, frame| {
            let kept = frame.args().skip(2).map(|sha| Reply::Integer(i64::from(session.shared.scripts.has(sha))));
            Reply::Array(kept.collect())
        }),
    },
    Sub {
        name: "flush",
        syntax: "[ASYNC|SYNC]",
        summary: "Forgets all scripts that are kept",
        arity: -2,
        flags: &[],
        run: SubRun::Session(flush),
    },
    Sub {
        name: "kill",
        syntax: "",
        summary: "Stops the scripts that run; nothing of them is done",
        arity: 2,
        flags: &[],
        run: SubRun::Session(|session, _| match session.shared.scripts.kill() {
            Kills { stopped: 1.., .. } => Reply::OK,
            Kills { stuck: 0, .. } => Reply::error(errors::NOTBUSY),
            Kills { stuck, .. } => Reply::error(format!("BUSY {stuck} {ARE_STUCK}")),
        }),
    },
];

fn each_key<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    if frame.len() > 2
        && let Ok(keys) = script_keys(frame)
    {
        keys.for_each(|at| take(KeyRef { space, name: frame.arg(at) }));
    }
}

fn run<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let shared = session.shared.clone();
        let Some(command) = shared.table.find(frame.arg(0)) else { return Reply::error(errors::INVALID_COMMAND) };
        let keys = match script_keys(frame) {
            Ok(keys) => keys,
            Err(error) => return error,
        };
        // Before anything is locked for it.
        if command.name.starts_with("evalsha") && !shared.scripts.has(frame.arg(1)) {
            return Reply::error(errors::NOSCRIPT);
        }
        if let Some(refused) = session.too_wide(keys.len()) {
            return refused;
        }
        let space = session.space;
        let locks = keys.map(|at| for_script(command, KeyRef { space, name: frame.arg(at) })).collect();
        let mut plan = Plan {
            locks: in_order(locks),
            strict: session.strict,
            name: command.name,
            caller: session.waiting_client(),
            bytes_max: Some(shared.limits.txn_bytes_max),
            ..Plan::default()
        };
        match session.run_steps(&mut plan, Steps::Alone(command, frame)).await {
            Ok(Executed::Done(reply, committing)) => {
                session.committing = Some((committing, false));
                reply
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => Reply::NilArray,
            Err(error) => {
                session.replies.note_failed(&error);
                refused(&shared, &error)
            }
        }
    })
}

fn load<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let (scripts, runtime) = (&session.shared.scripts, session.shared.engine.runtime());
        match scripts.refused(runtime, frame.arg(2)).await {
            Some(refused) => refused,
            None => text(scripts.keep(frame.arg(2)).sha.clone()),
        }
    })
}

fn flush(session: &mut Session, frame: Frame<'_>) -> Reply {
    match (frame.get(2), frame.len()) {
        (None, _) => {}
        (Some(how), 3) if is(how, "async") || is(how, "sync") => {}
        _ => return Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
    }
    session.shared.scripts.flush();
    Reply::OK
}
