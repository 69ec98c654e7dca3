//! Commands with subcommands: CLIENT, CONFIG and their kind. Each subcommand is one [`Sub`] record beside its function;
//! the records check arguments and make HELP, COMMAND INFO and COMMAND DOCS.

use forebay::key::KeyRef;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::{BoxFuture, ready};

use super::{Sub, SubRun};
use crate::session::Session;

/// Subcommands with actions of their own, which their syntax names between bars: they have a HELP too.
const CONTAINERS: &[(&str, &str)] =
    &[("cache", "drain"), ("cache", "quarantine"), ("cache", "trace"), ("debug", "store")];

/// The number of the subcommand of this name, if there is one.
pub fn position(subs: &[Sub], name: &[u8]) -> Option<usize> {
    subs.iter().position(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The key of the one subcommand of a family that works on a key.
pub(super) fn key_of<'a>(frame: Frame<'a>, space: u8, sub: &str, take: &mut dyn FnMut(KeyRef<'a>)) {
    if let (true, Some(name)) = (is(frame.arg(1), sub), frame.get(2)) {
        take(KeyRef { space, name });
    }
}

/// Runs the subcommand that a request names, in a family where none waits.
pub(super) fn run(session: &mut Session, frame: Frame<'_>, family: &'static str, subs: &'static [Sub]) -> Reply {
    match find(frame, family, subs) {
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
    subs: &'static [Sub],
) -> BoxFuture<'a, Reply> {
    match find(frame, family, subs) {
        Ok(Sub { run: SubRun::Session(run), .. }) => Box::pin(ready(run(session, frame))),
        Ok(Sub { run: SubRun::Engine(run), .. }) => run(session, frame),
        Err(reply) => Box::pin(ready(reply)),
    }
}

/// The subcommand, or the answer if there is none or it is HELP.
fn find(frame: Frame<'_>, family: &'static str, subs: &'static [Sub]) -> Result<&'static Sub, Reply> {
    let name = frame.arg(1);
    if name.eq_ignore_ascii_case(b"help") && frame.len() == 2 {
        return Err(help(family, subs));
    }
    let sub = position(subs, name).map(|at| &subs[at]);
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
