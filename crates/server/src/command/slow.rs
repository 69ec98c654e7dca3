//! SLOWLOG, LATENCY and MONITOR: which commands take long, and which come at all.

use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};
use std::sync::atomic::Ordering;

use super::family::{self, text};
use super::{Command, Flag, Group, Keys, Run};
use crate::command::{Sub, SubRun};
use crate::monitor::MONITORS_MAX;
use crate::session::Session;
use crate::slowlog::Slow;

/// Entries that SLOWLOG GET answers if nobody says how many.
const SLOWLOG_COUNT_DEFAULT: usize = 10;

/// The only event that LATENCY knows.
const EVENT: &str = "command";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "slowlog",
        syntax: "subcommand [arg ..]",
        summary: "Shows the latest commands that took long",
        group: Group::Server,
        arity: -2,
        keys: Keys::None,
        run: Run::Session(|session, frame| family::run(session, frame, "slowlog", SLOWLOG)),
        flags: &[Flag::Admin, Flag::Again],
    },
    Command {
        name: "latency",
        syntax: "subcommand [arg ..]",
        summary: "Shows when commands took very long",
        group: Group::Server,
        arity: -2,
        keys: Keys::None,
        run: Run::Session(|session, frame| family::run(session, frame, "latency", LATENCY)),
        flags: &[Flag::Admin],
    },
    Command {
        name: "monitor",
        syntax: "",
        summary: "Shows every request as it comes, until RESET or QUIT",
        group: Group::Server,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(monitor),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Admin],
    },
];

pub(super) const SLOWLOG: &[Sub] = &[
    Sub {
        name: "get",
        syntax: "[count]",
        summary: "The latest entries, 10 or count, -1 for all: number, time, microseconds, arguments, address, name",
        arity: -2,
        flags: &[Flag::Admin],
        run: SubRun::Session(get),
    },
    Sub {
        name: "len",
        syntax: "",
        summary: "How many entries there are",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| Reply::Integer(session.shared.slowlog.len() as i64)),
    },
    Sub {
        name: "reset",
        syntax: "",
        summary: "Forgets all entries",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| {
            session.shared.slowlog.clear();
            Reply::OK
        }),
    },
];

pub(super) const LATENCY: &[Sub] = &[
    Sub {
        name: "latest",
        syntax: "",
        summary: "The latest sample of each event",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(latest),
    },
    Sub {
        name: "history",
        syntax: "event",
        summary: "The samples of an event",
        arity: 3,
        flags: &[Flag::Admin],
        run: SubRun::Session(history),
    },
    Sub {
        name: "reset",
        syntax: "[event ..]",
        summary: "Forgets the samples of events, or of all",
        arity: -2,
        flags: &[Flag::Admin],
        run: SubRun::Session(reset),
    },
    Sub {
        name: "doctor",
        syntax: "",
        summary: "What may be wrong",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(doctor),
    },
];

fn get(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.len() > 3 {
        return errors::wrong_arguments("slowlog|get");
    }
    let count = match frame.get(2).map(parse_integer) {
        None => SLOWLOG_COUNT_DEFAULT,
        Some(Some(-1)) => usize::MAX,
        Some(Some(count @ 0..)) => count as usize,
        Some(_) => return Reply::error("ERR count should be greater than or equal to -1"),
    };
    let entry = |entry: Slow| {
        let args = entry.args.iter().map(|arg| Reply::bulk(arg)).collect();
        Reply::Array(vec![
            Reply::Integer(entry.id as i64),
            Reply::Integer(entry.at_s as i64),
            Reply::Integer(entry.us as i64),
            Reply::Array(args),
            text(entry.client.0),
            text(entry.client.1),
        ])
    };
    Reply::Array(session.shared.slowlog.latest(count).into_iter().map(entry).collect())
}

fn latest(session: &mut Session, _: Frame<'_>) -> Reply {
    let event = session.shared.latency.samples();
    let Some((at_s, ms)) = event.samples.back() else { return Reply::Array(Vec::new()) };
    let numbers = [*at_s, *ms, event.longest_ms].map(|number| Reply::Integer(number as i64));
    Reply::Array(vec![Reply::Array(std::iter::once(text(EVENT)).chain(numbers).collect())])
}

fn history(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.arg(2) != EVENT.as_bytes() {
        return Reply::Array(Vec::new());
    }
    let sample = |(at_s, ms): &(u64, u64)| Reply::Array(vec![Reply::Integer(*at_s as i64), Reply::Integer(*ms as i64)]);
    Reply::Array(session.shared.latency.samples().samples.iter().map(sample).collect())
}

fn reset(session: &mut Session, frame: Frame<'_>) -> Reply {
    let named = frame.len() == 2 || frame.args().skip(2).any(|event| event == EVENT.as_bytes());
    Reply::Integer(i64::from(named && session.shared.latency.clear()))
}

fn doctor(session: &mut Session, _: Frame<'_>) -> Reply {
    let threshold_ms = session.shared.settings.latency_ms.load(Ordering::Relaxed);
    if threshold_ms == 0 {
        return text("nothing is watched; say CONFIG SET latency-monitor-threshold <milliseconds> first");
    }
    let event = session.shared.latency.samples();
    match event.samples.len() {
        0 => text(format!("no command took {threshold_ms} ms or longer")),
        seconds => text(format!(
            "in {seconds} s commands took {threshold_ms} ms or longer, the longest {} ms; SLOWLOG GET shows which",
            event.longest_ms
        )),
    }
}

fn monitor(session: &mut Session, frame: Frame<'_>) -> Reply {
    if session.monitor.is_none() {
        let shared = &session.shared;
        let Some(monitor) = shared.monitors.add(session.client.clone(), &shared.attention) else {
            return Reply::error(format!("LIMIT monitors_max {MONITORS_MAX}"));
        };
        session.monitor = Some((monitor, frame.compact()));
    }
    Reply::OK
}
