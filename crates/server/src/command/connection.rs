//! The connection itself: its protocol, database and names.

use forebay_protocol::{Frame, Reply, errors};

use super::keys::database;
use super::{Command, Flag, Group, Keys, Run};
use crate::session::Session;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        syntax: "[message]",
        summary: "Answers PONG, or the message",
        group: Group::Connection,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(ping),
        flags: &[],
    },
    Command {
        name: "echo",
        syntax: "message",
        summary: "Answers the message",
        group: Group::Connection,
        arity: 2,
        keys: Keys::None,
        run: Run::Session(echo),
        flags: &[],
    },
    Command {
        name: "select",
        syntax: "index",
        summary: "Changes the database, 0 to 15",
        group: Group::Connection,
        arity: 2,
        keys: Keys::None,
        run: Run::Session(select),
        flags: &[],
    },
    Command {
        name: "quit",
        syntax: "",
        summary: "Closes the connection",
        group: Group::Connection,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(quit),
        flags: &[Flag::NotQueued, Flag::InAborted],
    },
];

fn ping(_: &mut Session, frame: Frame<'_>) -> Reply {
    match frame.len() {
        1 => Reply::Simple("PONG".into()),
        2 => Reply::bulk(frame.arg(1)),
        _ => errors::wrong_arguments("ping"),
    }
}

fn echo(_: &mut Session, frame: Frame<'_>) -> Reply {
    Reply::bulk(frame.arg(1))
}

fn select(session: &mut Session, frame: Frame<'_>) -> Reply {
    match database(frame.arg(1)) {
        Ok(space) => {
            session.space = space;
            Reply::OK
        }
        Err(error) => error,
    }
}

fn quit(session: &mut Session, _: Frame<'_>) -> Reply {
    session.closing = true;
    Reply::OK
}
