//! The connection itself: its protocol, database and names.

use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Protocol, Reply, errors};

use futures_util::future::BoxFuture;

use super::family::text;
use super::keys::database;
use super::{Command, Flag, Group, Keys, Run, client};
use crate::access::user::DEFAULT;
use crate::session::{ReplyMode, Session};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        syntax: "[message]",
        summary: "Answers PONG, or the message",
        group: Group::Connection,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(ping),
        flags: &[Flag::Fast],
    },
    Command {
        name: "echo",
        syntax: "message",
        summary: "Answers the message",
        group: Group::Connection,
        arity: 2,
        keys: Keys::None,
        run: Run::Session(echo),
        flags: &[Flag::Fast],
    },
    Command {
        name: "select",
        syntax: "index",
        summary: "Changes the database, 0 to 15",
        group: Group::Connection,
        arity: 2,
        keys: Keys::None,
        run: Run::Session(select),
        flags: &[Flag::Fast],
    },
    Command {
        name: "quit",
        syntax: "",
        summary: "Closes the connection",
        group: Group::Connection,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(quit),
        flags: &[Flag::Fast, Flag::NotQueued, Flag::InAborted, Flag::NoAuth],
    },
    Command {
        name: "hello",
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Chooses RESP2 or RESP3 and says who the server is",
        group: Group::Connection,
        arity: -1,
        keys: Keys::None,
        run: Run::Engine(hello),
        flags: &[Flag::Fast, Flag::NoAuth, Flag::NotInMulti, Flag::NotInTxn],
    },
    Command {
        name: "auth",
        syntax: "[username] password",
        summary: "Authenticates the connection",
        group: Group::Connection,
        arity: -2,
        keys: Keys::None,
        run: Run::Engine(auth),
        flags: &[Flag::Fast, Flag::NoAuth, Flag::NotInMulti, Flag::NotInTxn],
    },
    Command {
        name: "reset",
        syntax: "",
        summary: "Makes the connection as it was when it was new",
        group: Group::Connection,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(reset),
        flags: &[Flag::Fast, Flag::NotQueued, Flag::InAborted, Flag::NoAuth],
    },
];

/// What HELLO and INFO call the server: the version of Redis whose commands it honours.
pub const REDIS_VERSION: &str = "7.4.0";

fn ping(session: &mut Session, frame: Frame<'_>) -> Reply {
    match frame.len() {
        // As in Redis, where messages of a channel come in between.
        1 | 2 if session.subscribed && session.protocol == Protocol::Resp2 => {
            Reply::Array(vec![Reply::Text("pong".into()), Reply::bulk(frame.get(1).unwrap_or_default())])
        }
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
        // In front of tables that others write to there is one key space, unless there are documents beside them.
        Ok(space) if space > 0 && !session.shared.engine.store().has_documents() => {
            Reply::error(errors::DATABASE_RANGE)
        }
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

/// What HELLO was told beyond the version.
#[derive(Default)]
struct HelloOptions<'a> {
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn hello_options(frame: Frame<'_>) -> Result<HelloOptions<'_>, Reply> {
    let mut options = HelloOptions::default();
    let mut at = 2;
    while let Some(option) = frame.get(at) {
        match (option.to_ascii_lowercase().as_slice(), frame.len() - at) {
            (b"auth", 3..) => {
                options.credentials = Some((frame.arg(at + 1), frame.arg(at + 2)));
                at += 3;
            }
            (b"setname", 2..) => {
                client::check_name(frame.arg(at + 1))?;
                options.name = Some(frame.arg(at + 1));
                at += 2;
            }
            _ => return Err(errors::hello_option(option)),
        }
    }
    Ok(options)
}

fn hello<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move { greeted(session, frame).await.unwrap_or_else(|error| error) })
}

async fn greeted(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let mut protocol = session.protocol;
    if let Some(version) = frame.get(1) {
        protocol = match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(Reply::error(errors::NOPROTO)),
            None => return Err(Reply::error(errors::HELLO_VERSION)),
        };
    }
    let options = hello_options(frame)?;
    if let Some((user, password)) = options.credentials {
        session.authenticate(user, password).await?;
    }
    if session.identity.is_stranger() {
        return Err(Reply::error(errors::NOAUTH_HELLO));
    }
    if let Some(name) = options.name {
        client::set_name(session, name)?;
    }
    session.protocol = protocol;
    if protocol == Protocol::Resp2 {
        session.notify(false);
    }
    Ok(Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Reply::Integer(protocol.number())),
        (text("id"), Reply::Integer(session.client.id as i64)),
        (text("mode"), text("standalone")),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ]))
}

fn auth<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let authenticated = match frame.len() {
            2 if session.shared.access.default_user().any_password => {
                return Reply::error(errors::AUTH_WITHOUT_PASSWORD);
            }
            2 => session.authenticate(DEFAULT.as_bytes(), frame.arg(1)).await,
            3 => session.authenticate(frame.arg(1), frame.arg(2)).await,
            _ => return Reply::error(errors::SYNTAX),
        };
        authenticated.map_or_else(|error| error, |()| Reply::OK)
    })
}

fn reset(session: &mut Session, _: Frame<'_>) -> Reply {
    // As in Redis, what CLIENT REPLY SKIP skips may be the answer to RESET itself.
    let is_skipped = session.reply_mode == ReplyMode::Skip;
    session.reset();
    if is_skipped {
        session.reply_mode = ReplyMode::Skip;
    }
    Reply::Simple("RESET".into())
}
