//! Commands with subcommands: CLIENT, CONFIG and their kind. Each subcommand is one [`Sub`] record beside its function;
//! the records check arguments and make HELP, COMMAND INFO and COMMAND DOCS.

use forebay::key::KeyRef;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::{BoxFuture, ready};

use super::Flag;
use crate::session::Session;

/// One subcommand, declared once.
pub struct Sub {
    /// Its name in lower case.
    pub name: &'static str,
    /// Arguments as help shows them.
    pub syntax: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// Arguments with both names: exactly so many, or at least so many if negative.
    pub arity: i32,
    /// Who may use it, where that is not as in the family: see [`Flag`].
    pub flags: &'static [Flag],
    /// What runs.
    pub run: SubRun,
}

/// What runs for a subcommand.
pub enum SubRun {
    /// Works on the session, at once.
    Session(fn(&mut Session, Frame<'_>) -> Reply),
    /// May wait.
    Engine(for<'a> fn(&'a mut Session, Frame<'a>) -> BoxFuture<'a, Reply>),
}

/// All commands that have subcommands.
const FAMILIES: &[(&str, &[Sub])] = &[
    ("client", super::client::SUBS),
    ("command", super::catalogue::SUBS),
    ("config", super::config::SUBS),
    ("slowlog", super::slow::SLOWLOG),
    ("latency", super::slow::LATENCY),
    ("memory", super::server::MEMORY),
    ("debug", super::server::DEBUG),
    ("function", super::server::FUNCTION),
    #[cfg(feature = "lua")]
    ("script", super::scripting::SUBS),
    ("acl", super::acl::SUBS),
    ("hint", super::hint::SUBS),
    ("lease", super::lease::SUBS),
    ("cache", super::cache::SUBS),
];

/// Subcommands with actions of their own, which their syntax names between bars: they have a HELP too.
const CONTAINERS: &[(&str, &str)] =
    &[("cache", "drain"), ("cache", "quarantine"), ("cache", "trace"), ("debug", "store")];

/// The subcommands of a command, none for most.
pub fn subcommands(command: &str) -> &'static [Sub] {
    FAMILIES.iter().find(|(name, _)| *name == command).map_or(&[], |(_, subs)| subs)
}

/// The number of the subcommand that a request names in its family, if there is one.
pub fn position(command: &str, name: &[u8]) -> Option<usize> {
    subcommands(command).iter().position(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Subcommands of commands that read them themselves.
const OTHERS: &[(&str, &[&str])] = &[
    ("object", &["encoding", "freq", "idletime", "refcount"]),
    ("txn", &["begin", "step", "lock", "commit", "abort", "type"]),
];

/// Whether a command takes `name` behind its own: not if it has subcommands, and this is none of them.
pub fn names_subcommand(command: &[u8], name: &[u8]) -> bool {
    let family = FAMILIES.iter().find(|(family, _)| family.as_bytes() == command);
    let other = OTHERS.iter().find(|(other, _)| other.as_bytes() == command);
    is(name, "help")
        || match (family, other) {
            (Some((_, subs)), _) => subs.iter().any(|sub| is(name, sub.name)),
            (None, Some((_, names))) => names.iter().any(|known| is(name, known)),
            (None, None) => true,
        }
}

/// All commands that have subcommands.
#[cfg(test)]
pub fn containers() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name).chain(OTHERS.iter().map(|(name, _)| *name))
}

/// The key of the one subcommand of a family that works on a key.
pub(super) fn key_of<'a>(frame: Frame<'a>, space: u8, sub: &str, take: &mut dyn FnMut(KeyRef<'a>)) {
    if let (true, Some(name)) = (is(frame.arg(1), sub), frame.get(2)) {
        take(KeyRef { space, name });
    }
}

/// Runs the subcommand that a request names, in a family where none waits.
pub(super) fn run(session: &mut Session, frame: Frame<'_>, family: &'static str) -> Reply {
    match find(frame, family) {
        Ok(Sub { run: SubRun::Session(run), .. }) => run(session, frame),
        Ok(_) => errors::unknown_subcommand(family, frame.arg(1)),
        Err(reply) => reply,
    }
}

/// Runs the subcommand that a request names.
pub(super) fn run_waiting<'a>(
    session: &'a mut Session,
    frame: Frame<'a>,
    family: &'static str,
) -> BoxFuture<'a, Reply> {
    match find(frame, family) {
        Ok(Sub { run: SubRun::Session(run), .. }) => Box::pin(ready(run(session, frame))),
        Ok(Sub { run: SubRun::Engine(run), .. }) => run(session, frame),
        Err(reply) => Box::pin(ready(reply)),
    }
}

/// The subcommand, or the answer if there is none or it is HELP.
fn find(frame: Frame<'_>, family: &'static str) -> Result<&'static Sub, Reply> {
    let name = frame.arg(1);
    let subs = subcommands(family);
    if name.eq_ignore_ascii_case(b"help") && frame.len() == 2 {
        return Err(help(family, subs));
    }
    let sub = position(family, name).map(|at| &subs[at]);
    let sub = sub.ok_or_else(|| errors::unknown_subcommand(family, name))?;
    if CONTAINERS.contains(&(family, sub.name)) && frame.len() == 3 && is(frame.arg(2), "help") {
        return Err(help_of(&format!("{family} {}", sub.name), sub.summary, sub.syntax));
    }
    let fits = match usize::try_from(sub.arity) {
        Ok(exact) => frame.len() == exact,
        Err(_) => frame.len() >= sub.arity.unsigned_abs() as usize,
    };
    match fits {
        true => Ok(sub),
        false => Err(errors::wrong_arguments(&format!("{family}|{}", sub.name))),
    }
}

/// In the form of Redis' HELP: names and syntax, indented below them what they do.
fn help(family: &str, subs: &[Sub]) -> Reply {
    let family = family.to_ascii_uppercase();
    let mut lines = vec![format!("{family} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for sub in subs {
        lines.push(format!("{} {}", sub.name.to_ascii_uppercase(), sub.syntax).trim_end().to_owned());
        lines.push(format!("    {}.", sub.summary));
    }
    lines.push("HELP".into());
    lines.push("    Print this help.".into());
    Reply::Array(lines.into_iter().map(|line| Reply::Simple(line.into())).collect())
}

/// The same of a command whose actions stand in its syntax, between bars.
pub(super) fn help_of(name: &str, summary: &str, syntax: &str) -> Reply {
    let name = name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <action> [<arg> ...]. {summary}. Actions are:")];
    lines.extend(syntax.split(" | ").map(str::to_owned));
    lines.extend(["HELP".into(), "    Print this help.".into()]);
    Reply::Array(lines.into_iter().map(|line| Reply::Simple(line.into())).collect())
}

/// A bulk string.
pub(super) fn text(text: impl Into<String>) -> Reply {
    Reply::Text(text.into())
}

/// A map with names as keys.
pub(super) fn map<const N: usize>(pairs: [(&str, Reply); N]) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (text(name), value)).collect())
}

/// `true` for any of a few words, in any case of letters.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}
