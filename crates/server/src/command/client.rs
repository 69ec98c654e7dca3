//! CLIENT: what the server knows of its clients, and what one may do to another.

use std::sync::Arc;

use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};

use super::family::{self, is, text};
use super::{Command, Flag, Group, Keys, Run, client_line, tracking};
use crate::access::Access;
use crate::command::{Sub, SubRun};
use crate::pause::PAUSE_MS_MAX;
use crate::session::{ReplyMode, Session};

/// Longest name that a client may give itself or its library, in bytes.
const CLIENT_NAME_BYTES_MAX: usize = 1024;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "client",
    syntax: "subcommand [arg ..]",
    summary: "Shows, names, pauses and ends connections",
    group: Group::Connection,
    arity: -2,
    keys: Keys::None,
    run: Run::Session(|session, frame| family::run(session, frame, "client", SUBS)),
    flags: &[Flag::InAborted, Flag::Again],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "id",
        syntax: "",
        summary: "The number of this connection",
        arity: 2,
        flags: &[],
        run: SubRun::Session(|session, _| Reply::Integer(session.client.id as i64)),
    },
    Sub { name: "info", syntax: "", summary: "This connection", arity: 2, flags: &[], run: SubRun::Session(info) },
    Sub {
        name: "list",
        syntax: "[TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID id [id ..]]",
        summary: "All connections, one a line",
        arity: -2,
        flags: &[Flag::Admin],
        run: SubRun::Session(list),
    },
    Sub {
        name: "kill",
        syntax: "ip:port | [ID id] [TYPE type] [USER name] [ADDR ip:port] [LADDR ip:port] [SKIPME YES|NO] [MAXAGE s]",
        summary: "Ends connections; a request that runs is finished first",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Session(kill),
    },
    Sub {
        name: "setname",
        syntax: "name",
        summary: "Names this connection",
        arity: 3,
        flags: &[],
        run: SubRun::Session(|session, frame| match set_name(session, frame.arg(2)) {
            Ok(()) => Reply::OK,
            Err(error) => error,
        }),
    },
    Sub {
        name: "getname",
        syntax: "",
        summary: "The name of this connection",
        arity: 2,
        flags: &[],
        run: SubRun::Session(|session, _| match session.client.names().name.as_str() {
            "" => Reply::Nil,
            name => text(name),
        }),
    },
    Sub {
        name: "setinfo",
        syntax: "LIB-NAME name | LIB-VER version",
        summary: "Says which library speaks here",
        arity: 4,
        flags: &[],
        run: SubRun::Session(set_info),
    },
    Sub {
        name: "reply",
        syntax: "ON|OFF|SKIP",
        summary: "Switches replies on or off, or leaves out that of the next command",
        arity: 3,
        flags: &[],
        run: SubRun::Session(reply),
    },
    Sub {
        name: "no-evict",
        syntax: "ON|OFF",
        summary: "Accepted",
        arity: 3,
        flags: &[Flag::Admin],
        run: SubRun::Session(on_off),
    },
    Sub { name: "no-touch", syntax: "ON|OFF", summary: "Accepted", arity: 3, flags: &[], run: SubRun::Session(on_off) },
    Sub {
        name: "pause",
        syntax: "timeout [WRITE|ALL]",
        summary: "Has requests, or those that write, wait for up to timeout ms",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Session(pause),
    },
    Sub {
        name: "unpause",
        syntax: "",
        summary: "Ends a pause",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| {
            session.shared.pause.end(&session.shared.attention);
            Reply::OK
        }),
    },
    Sub {
        name: "tracking",
        syntax: "ON|OFF [REDIRECT id] [PREFIX prefix ..] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Has the client, or another one, told what may have changed of what it has read",
        arity: -3,
        flags: &[],
        run: SubRun::Session(tracking::tracking),
    },
    Sub {
        name: "trackinginfo",
        syntax: "",
        summary: "How the client tracks",
        arity: 2,
        flags: &[],
        run: SubRun::Session(tracking::info),
    },
    Sub {
        name: "getredir",
        syntax: "",
        summary: "The id of the client that is told in its place; 0 without, -1 where it does not track",
        arity: 2,
        flags: &[],
        run: SubRun::Session(tracking::get_redirect),
    },
    Sub {
        name: "caching",
        syntax: "YES|NO",
        summary: "Whether what the next command reads is noted",
        arity: 3,
        flags: &[],
        run: SubRun::Session(tracking::caching),
    },
];

/// Printable ASCII without spaces, so that CLIENT LIST can be read.
fn printable(name: &[u8]) -> Option<String> {
    let fits = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    fits.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Names the connection; an empty name takes its name away.
pub(super) fn set_name(session: &mut Session, name: &[u8]) -> Result<(), Reply> {
    session.client.names().name = check_name(name)?;
    Ok(())
}

/// A name that a client may give itself.
pub(super) fn check_name(name: &[u8]) -> Result<String, Reply> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return Err(Reply::error(format!("LIMIT client_name_bytes_max {CLIENT_NAME_BYTES_MAX}")));
    }
    printable(name).ok_or_else(|| Reply::error(errors::CLIENT_NAME))
}

fn set_info(session: &mut Session, frame: Frame<'_>) -> Reply {
    let (option, value) = (frame.arg(2), frame.arg(3));
    let name = match option {
        option if is(option, "lib-name") => "lib-name",
        option if is(option, "lib-ver") => "lib-ver",
        option => return Reply::error([b"ERR Unrecognized option '", option, b"'"].concat()),
    };
    if value.len() > CLIENT_NAME_BYTES_MAX {
        return Reply::error(format!("LIMIT client_name_bytes_max {CLIENT_NAME_BYTES_MAX}"));
    }
    let Some(value) = printable(value) else {
        return Reply::error(format!("ERR {name} cannot contain spaces, newlines or special characters."));
    };
    let mut names = session.client.names();
    match name {
        "lib-name" => names.library = value,
        _ => names.library_version = value,
    }
    Reply::OK
}

fn reply(session: &mut Session, frame: Frame<'_>) -> Reply {
    session.reply_mode = match frame.arg(2) {
        mode if is(mode, "on") => ReplyMode::On,
        mode if is(mode, "off") => ReplyMode::Off,
        // As in Redis, SKIP does not switch replies on.
        mode if is(mode, "skip") && session.reply_mode == ReplyMode::Off => ReplyMode::Off,
        mode if is(mode, "skip") => ReplyMode::SkipNext,
        _ => return Reply::error(errors::SYNTAX),
    };
    Reply::OK
}

fn on_off(_: &mut Session, frame: Frame<'_>) -> Reply {
    match is(frame.arg(2), "on") || is(frame.arg(2), "off") {
        true => Reply::OK,
        false => Reply::error(errors::SYNTAX),
    }
}

fn pause(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Some(ms) = parse_integer(frame.arg(2)) else { return Reply::error(errors::TIMEOUT_NOT_AN_INTEGER) };
    let Ok(ms) = u64::try_from(ms) else { return Reply::error(errors::TIMEOUT_NEGATIVE) };
    let writes_only = match (frame.get(3), frame.len()) {
        (None, _) => false,
        (Some(mode), 4) if is(mode, "all") => false,
        (Some(mode), 4) if is(mode, "write") => true,
        _ => return Reply::error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
    };
    if ms > PAUSE_MS_MAX {
        return Reply::error(format!("LIMIT pause_ms_max {PAUSE_MS_MAX}"));
    }
    let shared = &session.shared;
    shared.pause.begin(ms, writes_only, shared.engine.runtime(), &shared.attention);
    Reply::OK
}

fn info(session: &mut Session, _: Frame<'_>) -> Reply {
    session.publish_state();
    let now_ms = session.shared.engine.runtime().now_ms();
    Reply::Verbatim("txt".into(), client_line(&session.client, &session.shared, now_ms))
}

/// Whether ordinary clients, the only ones there are, are of this type.
fn is_normal(kind: &[u8]) -> Result<bool, Reply> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => Err(Reply::error([b"ERR Unknown client type '", kind, b"'"].concat())),
    }
}

fn list(session: &mut Session, frame: Frame<'_>) -> Reply {
    session.publish_state();
    let shared = &session.shared;
    let now_ms = shared.engine.runtime().now_ms();
    let mut clients = shared.clients.all();
    match (frame.get(2), frame.len()) {
        (None, _) => {}
        (Some(option), 4) if is(option, "type") => match is_normal(frame.arg(3)) {
            Ok(true) => {}
            Ok(false) => clients.clear(),
            Err(error) => return error,
        },
        (Some(option), 4..) if is(option, "id") => {
            let mut ids = Vec::new();
            for id in frame.args().skip(3) {
                match parse_integer(id) {
                    Some(id) if id > 0 => ids.push(id as u64),
                    _ => return Reply::error("ERR Invalid client ID"),
                }
            }
            clients.retain(|client| ids.contains(&client.id));
        }
        _ => return Reply::error(errors::SYNTAX),
    }
    Reply::Verbatim("txt".into(), clients.iter().map(|client| client_line(client, shared, now_ms)).collect())
}

/// Which connections CLIENT KILL ends.
#[derive(Default)]
struct Victims<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    /// Connected for at least so many seconds.
    age_s: u64,
    normal: bool,
    skip_me: bool,
}

fn victims<'a>(frame: Frame<'a>, access: &Access) -> Result<Victims<'a>, Reply> {
    let mut victims = Victims { normal: true, skip_me: true, ..Victims::default() };
    let mut at = 2;
    while let Some(option) = frame.get(at) {
        let Some(value) = frame.get(at + 1) else { return Err(Reply::error(errors::SYNTAX)) };
        match option.to_ascii_lowercase().as_slice() {
            b"id" => match parse_integer(value) {
                Some(id) if id > 0 => victims.id = Some(id as u64),
                _ => return Err(Reply::error(errors::CLIENT_ID)),
            },
            b"type" => victims.normal = is_normal(value)?,
            b"addr" => victims.address = Some(value),
            b"laddr" => victims.local_address = Some(value),
            b"user" if access.user(value).is_some() => victims.user = Some(value),
            b"user" => return Err(Reply::error([b"ERR No such user '", value, b"'"].concat())),
            b"maxage" => match parse_integer(value) {
                Some(age_s @ 1..) => victims.age_s = age_s as u64,
                Some(_) => return Err(Reply::error(errors::CLIENT_AGE)),
                None => return Err(Reply::error(errors::CLIENT_AGE_NOT_AN_INTEGER)),
            },
            b"skipme" if is(value, "yes") => victims.skip_me = true,
            b"skipme" if is(value, "no") => victims.skip_me = false,
            _ => return Err(Reply::error(errors::SYNTAX)),
        }
        at += 2;
    }
    Ok(victims)
}

fn kill(session: &mut Session, frame: Frame<'_>) -> Reply {
    let old_form = frame.len() == 3;
    let victims = match old_form {
        true => Victims { address: Some(frame.arg(2)), normal: true, ..Victims::default() },
        false => match victims(frame, &session.shared.access) {
            Ok(victims) => victims,
            Err(error) => return error,
        },
    };
    let same = |wanted: Option<&[u8]>, address: &str| wanted.is_none_or(|wanted| wanted == address.as_bytes());
    let (mut killed, now_ms) = (0, session.shared.engine.runtime().now_ms());
    for client in session.shared.clients.all() {
        let me = Arc::ptr_eq(&client, &session.client);
        let hit = victims.normal
            && victims.id.is_none_or(|id| id == client.id)
            && same(victims.user, &client.names().user)
            && now_ms.saturating_sub(client.connected_ms) / 1000 >= victims.age_s
            && same(victims.address, &client.address)
            && same(victims.local_address, &client.local_address)
            && !(me && victims.skip_me);
        if !hit {
            continue;
        }
        killed += 1;
        match me {
            // Not before it has its reply.
            true => session.closing = true,
            false => client.kill(),
        }
    }
    match (old_form, killed) {
        (true, 0) => Reply::error(errors::NO_SUCH_CLIENT),
        (true, _) => Reply::OK,
        (false, killed) => Reply::Integer(killed),
    }
}
