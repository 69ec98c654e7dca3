//! ACL: there is one user, `default`, who may do all; what would change that is refused.

use forebay_protocol::{Frame, Reply, errors};

use super::catalogue::{CATEGORIES, categories};
use super::family::{self, Sub, SubRun, is, map, text};
use super::{Command, Flag, Group, Keys, Run, all};
use crate::session::Session;

const USER: &str = "default";

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "acl",
    syntax: "subcommand [arg ..]",
    summary: "Shows who may do what",
    group: Group::Server,
    arity: -2,
    keys: Keys::None,
    run: Run::Session(|session, frame| family::run(session, frame, "acl")),
    flags: &[Flag::Admin],
}];

const fn refused(name: &'static str, arity: i32) -> Sub {
    Sub {
        name,
        syntax: "..",
        summary: "Not supported yet",
        arity,
        run: SubRun::Session(|_, frame| {
            let name = frame.arg(1).to_ascii_uppercase();
            Reply::error(format!("ERR ACL {} is not supported yet", String::from_utf8_lossy(&name)))
        }),
    }
}

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "whoami",
        syntax: "",
        summary: "The user of this connection",
        arity: 2,
        run: SubRun::Session(|_, _| text(USER)),
    },
    Sub {
        name: "users",
        syntax: "",
        summary: "Names of all users",
        arity: 2,
        run: SubRun::Session(|_, _| Reply::Array(vec![text(USER)])),
    },
    Sub {
        name: "list",
        syntax: "",
        summary: "All users with their rights",
        arity: 2,
        run: SubRun::Session(|_, _| Reply::Array(vec![text("user default on nopass ~* &* +@all")])),
    },
    Sub { name: "getuser", syntax: "username", summary: "The rights of a user", arity: 3, run: SubRun::Session(user) },
    Sub {
        name: "cat",
        syntax: "[category]",
        summary: "Categories of commands, or the commands of one",
        arity: -2,
        run: SubRun::Session(cat),
    },
    refused("setuser", -3),
    refused("deluser", -3),
    refused("genpass", -2),
    refused("load", 2),
    refused("save", 2),
    refused("log", -2),
    refused("dryrun", -4),
];

fn user(_: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.arg(2) != USER.as_bytes() {
        return Reply::Nil;
    }
    map([
        ("flags", Reply::Set(vec![text("on"), text("nopass")])),
        ("passwords", Reply::Array(Vec::new())),
        ("commands", text("+@all")),
        ("keys", text("~*")),
        ("channels", text("&*")),
        ("selectors", Reply::Array(Vec::new())),
    ])
}

fn cat(_: &mut Session, frame: Frame<'_>) -> Reply {
    let names: Vec<Reply> = match (frame.get(2), frame.len()) {
        (None, _) => CATEGORIES.iter().map(|name| text(*name)).collect(),
        (Some(wanted), 3) if CATEGORIES.iter().any(|name| is(wanted, name)) => all()
            .filter(|command| categories(command).iter().any(|name| is(wanted, name)))
            .map(|command| text(command.name))
            .collect(),
        (Some(wanted), 3) => return Reply::error([b"ERR Unknown category '", wanted, b"'"].concat()),
        _ => return errors::wrong_arguments("acl|cat"),
    };
    Reply::Array(names)
}
