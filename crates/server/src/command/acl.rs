//! ACL: users and what they may do. What decides stands in `access/`; here are its commands, in Redis' shapes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;

use super::family::{self, is, map, text};
use super::{Command, Flag, Group, Keys, Run};
use crate::access::denials::Entry;
use crate::access::permissions::CATEGORIES;
use crate::access::user::{DEFAULT, User, name};
use crate::access::{AccessError, Source, users_file_line};
use crate::command::{Sub, SubRun};
use crate::session::{Session, reason};

/// Entries that ACL LOG answers if nobody says how many.
const LOG_COUNT_DEFAULT: usize = 10;

/// The longest password that ACL GENPASS makes, and the one that it makes if nobody says how long, in bits.
const PASSWORD_BITS: (usize, usize) = (4096, 256);

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "acl",
    syntax: "subcommand [arg ..]",
    summary: "Shows and changes who may do what",
    group: Group::Server,
    arity: -2,
    keys: Keys::None,
    run: Run::Engine(|session, frame| family::run_waiting(session, frame, "acl", SUBS)),
    flags: &[Flag::NotInMulti, Flag::Admin],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "whoami",
        syntax: "",
        summary: "The user of this connection",
        arity: 2,
        flags: &[],
        run: SubRun::Session(|session, _| text(&**session.identity.name())),
    },
    Sub {
        name: "users",
        syntax: "",
        summary: "Names of all users",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| {
            Reply::Array(session.shared.access.all().iter().map(|user| text(&*user.name)).collect())
        }),
    },
    Sub {
        name: "list",
        syntax: "",
        summary: "All users with their rights, as lines of a users' file",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| {
            let users = session.shared.access.all();
            Reply::Array(users.iter().map(|user| Reply::bulk(&users_file_line(user))).collect())
        }),
    },
    Sub {
        name: "getuser",
        syntax: "username",
        summary: "The rights of a user",
        arity: 3,
        flags: &[Flag::Admin],
        run: SubRun::Session(get_user),
    },
    Sub {
        name: "setuser",
        syntax: "username [rule ..]",
        summary: "Changes a user by rules, or makes one",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Engine(set_user),
    },
    Sub {
        name: "deluser",
        syntax: "username [username ..]",
        summary: "Removes users and closes their connections",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Session(delete_users),
    },
    Sub {
        name: "cat",
        syntax: "[category]",
        summary: "Categories of commands, or the commands of one",
        arity: -2,
        flags: &[],
        run: SubRun::Session(cat),
    },
    Sub {
        name: "genpass",
        syntax: "[bits]",
        summary: "A password by chance",
        arity: -2,
        flags: &[],
        run: SubRun::Session(generate_password),
    },
    Sub {
        name: "load",
        syntax: "",
        summary: "Reads the users' file again, all of it or nothing",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Engine(load),
    },
    Sub {
        name: "save",
        syntax: "",
        summary: "Writes the users to the users' file",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Engine(save),
    },
    Sub {
        name: "log",
        syntax: "[count|RESET]",
        summary: "The latest refusals, or forgets them",
        arity: -2,
        flags: &[Flag::Admin],
        run: SubRun::Session(log),
    },
    Sub {
        name: "dryrun",
        syntax: "username command [arg ..]",
        summary: "Whether a user may run a command, which is not run",
        arity: -4,
        flags: &[Flag::Admin],
        run: SubRun::Session(dry_run),
    },
];

fn get_user(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Some(user) = session.shared.access.user(frame.arg(2)) else { return Reply::Nil };
    let mut flags = vec![text(if user.on { "on" } else { "off" })];
    if user.any_password {
        flags.push(text("nopass"));
    }
    map([
        ("flags", Reply::Set(flags)),
        ("passwords", Reply::Array(user.passwords.iter().map(|hash| text(hash.text())).collect())),
        ("commands", text(user.rights.commands())),
        ("keys", Reply::bulk(&user.rights.keys())),
        ("channels", Reply::bulk(&user.rights.channels())),
        ("selectors", Reply::Array(Vec::new())),
    ])
}

fn set_user<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let Some(name) = name(frame.arg(2)) else {
            return Reply::error("ERR Usernames can't contain spaces or null characters");
        };
        let shared = session.shared.clone();
        let rules: Vec<&[u8]> = frame.args().skip(3).collect();
        match shared.access.set_user(shared.engine.runtime(), name, &rules).await {
            Ok(()) => {
                tracing::info!(client = session.client.id, user = name, "changed a user");
                Reply::OK
            }
            Err(error) => {
                let modifier = rules.get(error.at).copied().unwrap_or_default();
                let why = [b"': ", error.why.as_bytes()].concat();
                Reply::error([b"ERR Error in ACL SETUSER modifier '", modifier, &why].concat())
            }
        }
    })
}

fn delete_users(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.args().skip(2).any(|name| name == DEFAULT.as_bytes()) {
        return Reply::error("ERR The 'default' user cannot be removed");
    }
    let removed: Vec<_> = frame.args().skip(2).filter_map(|name| session.shared.access.remove_user(name)).collect();
    send_away(session, &removed);
    Reply::Integer(removed.len() as i64)
}

/// Closes the connections of users that are no more; one's own when it has its answer.
fn send_away(session: &mut Session, users: &[Arc<User>]) {
    let mine = session.client.user.load(Ordering::SeqCst);
    for user in users {
        tracing::info!(client = session.client.id, user = &*user.name, "removed a user");
        session.shared.labels.forget_user(user.id);
        match user.id == mine {
            true => session.closing = true,
            false => session.shared.clients.kill_user(user.id),
        }
    }
}

fn cat(session: &mut Session, frame: Frame<'_>) -> Reply {
    let names: Vec<Reply> = match (frame.get(2), frame.len()) {
        (None, _) => CATEGORIES.iter().map(|name| text(*name)).collect(),
        (Some(wanted), 3) if CATEGORIES.iter().any(|name| is(wanted, name)) => {
            let of = |categories: &[&str]| categories.iter().any(|name| is(wanted, name));
            let found = session.shared.access.permissions.list.iter().filter(|permission| of(&permission.categories));
            found.map(|permission| text(&*permission.name)).collect()
        }
        (Some(wanted), 3) => return Reply::error([b"ERR Unknown category '", wanted, b"'"].concat()),
        _ => return errors::wrong_arguments("acl|cat"),
    };
    Reply::Array(names)
}

fn generate_password(_: &mut Session, frame: Frame<'_>) -> Reply {
    let (most, default) = PASSWORD_BITS;
    let bits = match (frame.get(2).map(parse_integer), frame.len()) {
        (None, _) => default,
        (Some(None), 3) => return Reply::error(errors::NOT_AN_INTEGER),
        (Some(Some(bits)), 3) if (1..=most as i64).contains(&bits) => bits as usize,
        (_, 3) => {
            return Reply::error(format!(
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
                 {most}"
            ));
        }
        _ => return errors::wrong_arguments("acl|genpass"),
    };
    let mut bytes = vec![0; bits.div_ceil(8)];
    if let Err(error) = getrandom::fill(&mut bytes) {
        return Reply::error(format!("ERR the machine has no randomness: {error}"));
    }
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(bits.div_ceil(4));
    text(digits)
}

fn failed(error: &AccessError) -> Reply {
    Reply::error(format!("ERR {error}"))
}

fn load<'a>(session: &'a mut Session, _: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let shared = session.shared.clone();
        if *shared.access.source() == Source::None {
            return failed(&AccessError::NoFile);
        }
        match shared.access.reload(shared.engine.runtime()).await {
            Ok(removed) => {
                send_away(session, &removed);
                Reply::OK
            }
            Err(error) => failed(&error),
        }
    })
}

fn save<'a>(session: &'a mut Session, _: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let shared = &session.shared;
        match shared.access.save(shared.engine.runtime()).await {
            Ok(()) => Reply::OK,
            Err(error) => failed(&error),
        }
    })
}

fn log(session: &mut Session, frame: Frame<'_>) -> Reply {
    let denials = &session.shared.access.denials;
    let count = match (frame.get(2), frame.len()) {
        (None, _) => LOG_COUNT_DEFAULT,
        (Some(reset), 3) if is(reset, "reset") => {
            denials.clear();
            return Reply::OK;
        }
        (Some(count), 3) => match parse_integer(count) {
            Some(count) => usize::try_from(count).unwrap_or(0),
            None => return Reply::error(errors::NOT_AN_INTEGER),
        },
        _ => return errors::wrong_arguments("acl|log"),
    };
    let now_ms = session.shared.engine.runtime().now_ms();
    Reply::Array(denials.latest(count).iter().map(|entry| shown(entry, now_ms)).collect())
}

fn shown(entry: &Entry, now_ms: u64) -> Reply {
    let age_s = now_ms.saturating_sub(entry.last_ms) as f64 / 1000.0;
    map([
        ("count", Reply::Integer(entry.count as i64)),
        ("reason", text(entry.denial.reason)),
        ("context", text(entry.denial.context)),
        ("object", Reply::bulk(&entry.denial.object)),
        ("username", text(&*entry.denial.user)),
        ("age-seconds", Reply::Double(age_s)),
        ("client-info", text(&*entry.client)),
        ("entry-id", Reply::Integer(entry.id as i64)),
        ("timestamp-created", Reply::Integer(entry.first_ms as i64)),
        ("timestamp-last-updated", Reply::Integer(entry.last_ms as i64)),
    ])
}

fn dry_run(session: &mut Session, frame: Frame<'_>) -> Reply {
    let quoted = |before: &[u8], name: &[u8]| Reply::error([before, b" '", name, b"' not found"].concat());
    let Some(user) = session.shared.access.user(frame.arg(2)) else { return quoted(b"ERR User", frame.arg(2)) };
    let request = frame.tail(3);
    let Some((number, command)) = session.shared.table.find_numbered(request.arg(0)) else {
        return quoted(b"ERR Command", request.arg(0));
    };
    if !command.arity_fits(request.len()) {
        return errors::wrong_arguments(command.name);
    }
    match user.rights.check(number, command, request) {
        Ok(()) => Reply::OK,
        Err(denied) => text(reason(&user, &denied, true)),
    }
}
