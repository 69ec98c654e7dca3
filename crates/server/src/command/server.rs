//! The server itself: TIME, WAIT, MEMORY, DEBUG, SHUTDOWN, and what test suites expect to be able to empty.

use std::time::Duration;

use forebay::key::Key;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::{BoxFuture, Either, select};

use super::family::{self, is, map, text};
use super::{Command, Flag, Group, Keys, Run, outage, refused};
use crate::command::{Sub, SubRun};
use crate::metrics::View;
use crate::session::Session;

/// The longest DEBUG SLEEP.
const SLEEP_SECONDS_MAX: f64 = 60.0;

const fn family_command(name: &'static str, summary: &'static str, run: Run, flags: &'static [Flag]) -> Command {
    Command {
        name,
        syntax: "subcommand [arg ..]",
        summary,
        group: Group::Server,
        arity: -2,
        keys: Keys::None,
        run,
        flags,
    }
}

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "time",
        syntax: "",
        summary: "The server's clock: seconds and microseconds",
        group: Group::Server,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(time),
        flags: &[Flag::Fast],
    },
    Command {
        name: "wait",
        syntax: "numreplicas timeout",
        summary: "Answers 0: there are no replicas",
        group: Group::Server,
        arity: 3,
        keys: Keys::None,
        run: Run::Session(wait),
        flags: &[],
    },
    Command {
        name: "shutdown",
        syntax: "[NOSAVE|SAVE]",
        summary: "Stops the server; what was acknowledged is written to the store first",
        group: Group::Server,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(shutdown),
        flags: &[Flag::NotInMulti, Flag::InAborted, Flag::Admin],
    },
    Command {
        name: "memory",
        syntax: "subcommand [arg ..]",
        summary: "Shows what memory is used for",
        group: Group::Server,
        arity: -2,
        keys: Keys::Custom(|frame, space, take| family::key_of(frame, space, "usage", take)),
        run: Run::Engine(|session, frame| family::run_waiting(session, frame, "memory", MEMORY)),
        flags: &[Flag::NotInMulti, Flag::TellsNothing],
    },
    family_command(
        "debug",
        "For tests of clients, and drills",
        Run::Engine(|session, frame| family::run_waiting(session, frame, "debug", DEBUG)),
        &[Flag::NotInMulti, Flag::Admin],
    ),
    family_command(
        "function",
        "There are no functions; FLUSH succeeds",
        Run::Session(|session, frame| family::run(session, frame, "function", FUNCTION)),
        &[],
    ),
];

pub(super) const MEMORY: &[Sub] = &[
    Sub {
        name: "usage",
        syntax: "key [SAMPLES count]",
        summary: "Bytes that a document occupies in memory when it is cached",
        arity: -3,
        flags: &[Flag::Reads],
        run: SubRun::Engine(usage),
    },
    Sub {
        name: "stats",
        syntax: "",
        summary: "What memory is used for",
        arity: 2,
        flags: &[],
        run: SubRun::Session(memory_stats),
    },
    Sub {
        name: "doctor",
        syntax: "",
        summary: "What may be wrong",
        arity: 2,
        flags: &[],
        run: SubRun::Session(memory_doctor),
    },
];

pub(super) const DEBUG: &[Sub] = &[
    Sub {
        name: "sleep",
        syntax: "seconds",
        summary: "Has this connection wait; others go on",
        arity: 3,
        flags: &[Flag::Admin],
        run: SubRun::Engine(sleep),
    },
    outage::STORE,
];

pub(super) const FUNCTION: &[Sub] = &[Sub {
    name: "flush",
    syntax: "[ASYNC|SYNC]",
    summary: "Does nothing",
    arity: -2,
    flags: &[],
    run: SubRun::Session(|_, frame| flush(frame, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
}];

fn flush(frame: Frame<'_>, otherwise: &'static str) -> Reply {
    match (frame.get(2), frame.len()) {
        (None, _) => Reply::OK,
        (Some(how), 3) if is(how, "async") || is(how, "sync") => Reply::OK,
        _ => Reply::error(otherwise),
    }
}

fn time(session: &mut Session, _: Frame<'_>) -> Reply {
    let now_ms = session.shared.engine.runtime().now_ms();
    Reply::Array(vec![text((now_ms / 1000).to_string()), text((now_ms % 1000 * 1000).to_string())])
}

fn wait(_: &mut Session, frame: Frame<'_>) -> Reply {
    if parse_integer(frame.arg(1)).is_none() {
        return Reply::error(errors::NOT_AN_INTEGER);
    }
    match parse_integer(frame.arg(2)) {
        None => Reply::error(errors::TIMEOUT_NOT_AN_INTEGER),
        Some(..0) => Reply::error(errors::TIMEOUT_NEGATIVE),
        Some(_) => Reply::Integer(0),
    }
}

fn shutdown(session: &mut Session, frame: Frame<'_>) -> Reply {
    match (frame.get(1), frame.len()) {
        (None, _) => {}
        (Some(how), 2) if is(how, "save") || is(how, "nosave") => {}
        _ => return Reply::error(errors::SYNTAX),
    }
    tracing::info!(client = session.client.id, "a client asks the server to stop");
    session.shared.stopping.set();
    session.closing = true;
    // Redis closes without a word; here the last reply says that it was understood.
    Reply::OK
}

fn usage<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        match (frame.get(3), frame.len()) {
            (None, _) => {}
            (Some(option), 5) if is(option, "samples") && parse_integer(frame.arg(4)).is_some_and(|n| n >= 0) => {}
            _ => return Reply::error(errors::SYNTAX),
        }
        session.replies.settle().await;
        let engine = &session.shared.engine;
        let key = Key::new(session.space, frame.arg(2));
        // Neither counted as a hit nor brought into the cache.
        let read = match engine.cache().peek(key.borrow()) {
            Some(read) => Some(read),
            None => match engine.store().get(std::slice::from_ref(&key)).await {
                Ok(mut reads) => reads.pop(),
                Err(error) => return refused(&session.shared, &error.into()),
            },
        };
        let now_ms = engine.runtime().now_ms();
        let there = |read: &forebay::Read| read.value.as_ref().is_some_and(|value| !value.expired(now_ms));
        match read.filter(there) {
            Some(read) => Reply::Integer(forebay::cache::charge(&key, &read, engine.cache().policy()) as i64),
            None => Reply::Nil,
        }
    })
}

fn memory_stats(session: &mut Session, _: Frame<'_>) -> Reply {
    let view = View::of(&session.shared);
    let (cache, store) = (view.cache, session.shared.engine.store().memory_bytes() as u64);
    let replies = session.shared.figures.reply_bytes.load(std::sync::atomic::Ordering::Relaxed) as u64;
    let number = |value: u64| Reply::Integer(value as i64);
    let per_key = cache.used_bytes.checked_div(cache.entries).unwrap_or(0);
    map([
        ("total.allocated", number(cache.used_bytes + store + replies)),
        ("resident.bytes", view.resident_bytes().map_or(Reply::Nil, number)),
        ("cache.budget", number(cache.budget_bytes)),
        ("cache.bytes", number(cache.used_bytes)),
        ("store.bytes", number(store)),
        ("clients.replies", number(replies)),
        ("keys.count", number(cache.entries)),
        ("keys.bytes-per-key", number(per_key)),
    ])
}

fn memory_doctor(session: &mut Session, _: Frame<'_>) -> Reply {
    let view = View::of(&session.shared);
    let (stats, limits) = (view.cache, &session.shared.limits);
    let mut findings = Vec::new();
    if stats.evictions > stats.insertions / 2 && stats.misses > stats.hits {
        findings
            .push("most reads miss and most entries are evicted: the working set is larger than --memory".to_owned());
    }
    if stats.rejections > stats.insertions {
        findings.push("most fetched documents are not kept: the policy, or their size, keeps them out".to_owned());
    }
    let replies = session.shared.figures.reply_bytes.load(std::sync::atomic::Ordering::Relaxed);
    if replies > limits.replies_bytes_max / 2 {
        findings.push("clients do not read their replies: more than half of replies_bytes_max waits".to_owned());
    }
    match findings.is_empty() {
        true => text("nothing is wrong as far as can be seen"),
        false => text(findings.join("\n")),
    }
}

fn sleep<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let seconds = std::str::from_utf8(frame.arg(2)).ok().and_then(|text| text.parse::<f64>().ok());
        let seconds = match seconds {
            Some(seconds) if (0.0..=SLEEP_SECONDS_MAX).contains(&seconds) => seconds,
            Some(seconds) if seconds > SLEEP_SECONDS_MAX => {
                return Reply::error(format!("LIMIT debug_sleep_seconds_max {SLEEP_SECONDS_MAX}"));
            }
            _ => return Reply::error(errors::NOT_A_FLOAT),
        };
        let shared = session.shared.clone();
        let slept = shared.engine.runtime().sleep(Duration::from_secs_f64(seconds));
        let stopped = std::pin::pin!(shared.stopping.wait());
        match select(slept, stopped).await {
            Either::Left(_) | Either::Right(_) => Reply::OK,
        }
    })
}
