//! The commands. Each is one [`Command`] record beside its function, in its family's file; the records make the table
//! by which requests are looked up, COMMAND's answers, the help and `docs/commands.md`.
//!
//! Most commands work on documents: a plain function from a [`Call`] to a reply, without a wait in it. Its record says
//! which arguments are keys and what it does to them, so that the session can lock and load them first; so the same
//! function serves a plain command, MULTI/EXEC and TXN.

mod acl;
mod advise;
mod cache;
mod call;
mod catalogue;
pub mod category;
mod client;
mod client_line;
pub mod config;
mod connection;
mod element_scan;
mod expiry;
pub mod family;
mod hashes;
mod hint;
mod info;
mod keys;
mod lease;
mod lists;
mod markdown;
mod numbers;
mod options;
mod outage;
mod outside;
mod random;
mod scan;
#[cfg(feature = "lua")]
mod scripting;
mod server;
mod sets;
mod slow;
mod strings;
mod table;
mod tracking;
mod transaction;

use forebay::key::{KEY_BYTES_MAX, KeyRef};
use forebay_protocol::{Frame, Reply};
use futures_util::future::BoxFuture;

pub use call::{Call, Chance, Known, bulk_of, part_of};
pub use client_line::client_line;
pub use markdown::markdown_table;
pub use table::{PERMISSIONS, all, table};

pub use crate::refusals::{document_error, refused, txn_error};
use crate::session::Session;

/// One command, declared once.
pub struct Command {
    /// Its name in lower case.
    pub name: &'static str,
    /// Arguments as help shows them: `key value [NX|XX]`.
    pub syntax: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// Family, as COMMAND DOCS groups them.
    pub group: Group,
    /// Arguments with the name: exactly so many, or at least so many if negative.
    pub arity: i32,
    /// Which arguments are keys.
    pub keys: Keys,
    /// What runs.
    pub run: Run,
    /// Where it may not be used.
    pub flags: &'static [Flag],
}

/// A family of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The connection itself.
    Connection,
    /// Byte strings.
    Strings,
    /// Keys of any type.
    Keys,
    /// Hashes.
    Hashes,
    /// Lists.
    Lists,
    /// Sets.
    Sets,
    /// MULTI and its kind, and TXN.
    Transactions,
    /// Scripts in Lua.
    Scripting,
    /// Publish and subscribe.
    PubSub,
    /// Cache, hints and traces: forebay's own.
    Cache,
    /// The server.
    Server,
}

/// Which arguments of a request are keys.
#[derive(Clone, Copy)]
pub enum Keys {
    /// None.
    None,
    /// Those at `first`, `first + step`, .. up to `last`, which counts from the end if negative (-1: the last).
    Range {
        /// Position of the first key.
        first: usize,
        /// Position of the last.
        last: isize,
        /// Distance between two keys.
        step: usize,
    },
    /// As the function finds them, in the key space given.
    Custom(for<'a> fn(Frame<'a>, u8, &mut dyn FnMut(KeyRef<'a>))),
}

impl Keys {
    /// The first argument is the key.
    pub const ONE: Keys = Keys::Range { first: 1, last: 1, step: 1 };
    /// All arguments are keys.
    pub const ALL: Keys = Keys::Range { first: 1, last: -1, step: 1 };
}

/// What a command does to the documents of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads them.
    Read,
    /// Writes them without looking: it can be accepted when the present value is unknown.
    Blind,
    /// Looks, then writes, or may.
    ReadWrite,
}

/// A reply, or with `Err` a reply after which everything that the command changed is undone.
pub type Answer = Result<Reply, Reply>;

/// What runs for a command.
pub enum Run {
    /// Works on documents, always to the same effect.
    Documents(Effect, fn(&mut Call<'_>) -> Answer),
    /// Works on documents; what it does to them depends on its arguments.
    Varying(fn(Frame<'_>) -> Effect, fn(&mut Call<'_>) -> Answer),
    /// Works on the session, at once.
    Session(fn(&mut Session, Frame<'_>) -> Reply),
    /// Works on session and engine, and may wait.
    Engine(for<'a> fn(&'a mut Session, Frame<'a>) -> BoxFuture<'a, Reply>),
    /// Is answered at once where the cache has all that it asks for, which the first tells; else as [`Run::Engine`].
    Cached(fn(&mut Session, Frame<'_>) -> bool, for<'a> fn(&'a mut Session, Frame<'a>) -> BoxFuture<'a, Reply>),
}

/// Where a command may not be used, or how it is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Runs at once in MULTI instead of being queued (EXEC, DISCARD and their kind).
    NotQueued,
    /// Changes nothing about how other requests are read, though it is not queued.
    LeavesReads,
    /// Refused in MULTI.
    NotInMulti,
    /// Refused in TXN.
    NotInTxn,
    /// Chooses at random: its call gets a random number.
    Random,
    /// Runs in a TXN that was aborted (TXN itself, QUIT, RESET).
    InAborted,
    /// Is about the server itself: not shown to MONITOR, and of the categories `admin` and `dangerous`.
    Admin,
    /// Of the category `dangerous`: it is slow on much data, or destroys all of it.
    Dangerous,
    /// Of the category `fast`, which is Redis' word for it: its work does not grow with what a document holds.
    Fast,
    /// Of the category `read`, although it is not run on documents.
    Reads,
    /// Of the category `write`, although it is not run on documents.
    Writes,
    /// Needs nothing of what a document holds, and tells nothing of it: taken unseen while the store is away.
    AsksNothing,
    /// With CACHE BLIND ON it is taken unseen, and answers null.
    Blind,
    /// Deletes the documents of its keys.
    Deletes,
    /// Its reply tells nothing of what values hold, so it needs no permission to read them.
    TellsNothing,
    /// It only reads, and its answer on many keys is made of those on some of them: a sum, or a list.
    InParts,
    /// It is served again where its reply finds no room, although it is not run on documents. Whatever it answers at
    /// length changes nothing.
    Again,
    /// It runs a script, which asks for keys and commands as it goes on.
    RunsScript,
    /// Anyone may use it, unauthenticated or not: it is how one becomes someone, or leaves.
    NoAuth,
}

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

/// Subcommands of commands that read them themselves.
const OTHERS: &[(&str, &[&str])] = &[
    ("object", &["encoding", "freq", "idletime", "refcount"]),
    ("txn", &["begin", "step", "lock", "commit", "abort", "type"]),
];

/// Requests of fewer arguments are not worth the count of their keys.
const KEYS_COUNTED_MIN: usize = 1024;

/// Names by which commands are looked up; a longer one is unknown.
const NAME_BYTES_MAX: usize = 15;

/// The commands by name.
pub struct Table {
    by_name: hashbrown::HashMap<u128, (usize, &'static Command), foldhash::fast::FixedState>,
    list: Vec<&'static Command>,
    subcommands: &'static [(&'static str, &'static [Sub])],
}

impl Table {
    /// One of `commands`, which are numbered in this order, with the subcommands of those that have some.
    pub fn of(
        commands: impl Iterator<Item = &'static Command>,
        subcommands: &'static [(&'static str, &'static [Sub])],
    ) -> Table {
        let list: Vec<_> = commands.collect();
        let named = |(number, command): (usize, &&'static Command)| {
            Some((packed(command.name.as_bytes())?, (number, *command)))
        };
        Table { by_name: list.iter().enumerate().filter_map(named).collect(), list, subcommands }
    }

    /// All commands, in the order of their numbers.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &'static Command> {
        self.list.iter().copied()
    }

    /// The subcommands of a command, none for most.
    pub fn subcommands(&self, command: &str) -> &'static [Sub] {
        self.subcommands.iter().find(|(name, _)| *name == command).map_or(&[], |(_, subs)| subs)
    }

    /// Whether a command takes `name` behind its own: not if it has subcommands, and this is none of them.
    pub fn names_subcommand(&self, command: &[u8], name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let family = self.subcommands.iter().find(|(family, _)| family.as_bytes() == command);
        let other = OTHERS.iter().find(|(other, _)| other.as_bytes() == command);
        is("help")
            || match (family, other) {
                (Some((_, subs)), _) => subs.iter().any(|sub| is(sub.name)),
                (None, Some((_, names))) => names.iter().any(|known| is(known)),
                (None, None) => true,
            }
    }

    /// All commands that have subcommands.
    #[cfg(test)]
    pub fn containers(&self) -> impl Iterator<Item = &'static str> {
        self.subcommands.iter().map(|(name, _)| *name).chain(OTHERS.iter().map(|(name, _)| *name))
    }

    /// The command that a client calls `name`, in any case of letters.
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        self.find_numbered(name).map(|(_, command)| command)
    }

    /// The command with this number.
    pub fn numbered(&self, number: usize) -> Option<&'static Command> {
        self.list.get(number).copied()
    }

    /// As [`Table::find`], with the command's number in the table.
    pub fn find_numbered(&self, name: &[u8]) -> Option<(usize, &'static Command)> {
        self.by_name.get(&packed(name)?).copied()
    }
}

/// A command's name in small letters, and its length, as one number: every request is looked up by it.
fn packed(name: &[u8]) -> Option<u128> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0; NAME_BYTES_MAX + 1];
    // Names are short: a loop costs less than a copy of unknown length.
    for (byte, letter) in bytes.iter_mut().zip(name) {
        *byte = letter.to_ascii_lowercase();
    }
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

/// Whether a request is CACHE INVALIDATE.
fn is_invalidate(frame: Frame<'_>) -> bool {
    frame.arg(1).eq_ignore_ascii_case(b"invalidate")
}

/// Whether a request that is refused may have been meant for one: a subcommand that is missing or does not exist.
fn may_check(frame: Frame<'_>) -> bool {
    let known = ["get", "client", "help"];
    !frame.get(1).is_some_and(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())))
}

impl Command {
    /// Whether `count` arguments, the name included, fit.
    pub fn arity_fits(&self, count: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => count == exact,
            Err(_) => count >= self.arity.unsigned_abs() as usize,
        }
    }

    /// The refusal of a request that fits the arity, if one of its keys is longer than any may be.
    pub fn key_too_long(&self, frame: Frame<'_>) -> Option<Reply> {
        // Nearly all requests are shorter as a whole.
        if frame.extent_bytes() <= KEY_BYTES_MAX {
            return None;
        }
        let mut longest = 0;
        self.each_key(frame, 0, &mut |key| longest = longest.max(key.name.len()));
        (longest > KEY_BYTES_MAX).then(|| Reply::error(format!("LIMIT key_bytes_max {KEY_BYTES_MAX}")))
    }

    /// Whether it has `flag`.
    pub fn is(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// What it does to the documents of its keys; `None` if it works on none.
    pub fn effect(&self, frame: Frame<'_>) -> Option<Effect> {
        match self.run {
            Run::Documents(effect, _) => Some(effect),
            Run::Varying(effect, _) => Some(effect(frame)),
            Run::Session(_) | Run::Engine(_) | Run::Cached(..) => None,
        }
    }

    /// Its function on documents, if it has one.
    pub fn body(&self) -> Option<fn(&mut Call<'_>) -> Answer> {
        match self.run {
            Run::Documents(_, body) | Run::Varying(_, body) => Some(body),
            Run::Session(_) | Run::Engine(_) | Run::Cached(..) => None,
        }
    }

    /// What a request does to the contents of its key number `n`, counted from 0, as permissions see it: whether its
    /// reply tells of them, and whether it changes them. As the key specifications of Redis have it.
    pub fn access(&self, frame: Frame<'_>, n: usize) -> (bool, bool) {
        let writes = !matches!(self.effect(frame), None | Some(Effect::Read));
        match (self.name, n) {
            // What is copied is read, its copy written.
            ("copy", 0) => (true, false),
            ("copy" | "rename" | "renamenx", 1) => (false, true),
            ("cache", _) if is_invalidate(frame) => (false, true),
            // TXN LOCK: who may write, and is told nothing.
            ("txn", _) => (false, true),
            // What a script does is not known; each command in it is looked at by itself.
            ("eval" | "evalsha", _) => (true, true),
            ("set", _) => (frame.args().skip(3).any(|option| option.eq_ignore_ascii_case(b"get")), true),
            _ => (self.effect(frame) != Some(Effect::Blind) && !self.is(Flag::TellsNothing), writes),
        }
    }

    /// Whether it says what EXEC is to compare: where it is refused, EXEC is as well. Of a WATCH without keys nothing
    /// is, as in Redis.
    pub fn watches(&self, frame: Frame<'_>) -> bool {
        (self.name == "watch" && frame.len() > 1) || (self.name == "lease" && may_check(frame))
    }

    /// Whether it shows or changes what the store holds, so that only the store's owner may answer it.
    pub fn needs_owner(&self, frame: Frame<'_>) -> bool {
        let of_transactions = matches!(self.name, "multi" | "exec" | "watch" | "txn") || self.is(Flag::RunsScript);
        of_transactions || self.effect(frame).is_some() || self.is(Flag::Reads) || self.is(Flag::Writes)
    }

    /// The key of a command that has exactly one, whatever its arguments.
    #[inline]
    pub fn only_key<'a>(&self, frame: Frame<'a>, space: u8) -> Option<KeyRef<'a>> {
        match self.keys {
            Keys::Range { first: 1, last: 1, .. } => Some(KeyRef { space, name: frame.arg(1) }),
            _ => None,
        }
    }

    /// How many keys a request that fits the arity names.
    pub fn keys_of(&self, frame: Frame<'_>) -> usize {
        let mut count = 0;
        if frame.len() > KEYS_COUNTED_MIN {
            self.each_key(frame, 0, &mut |_| count += 1);
        }
        count
    }

    /// Tells `take` each key of a request that fits the arity.
    pub fn each_key<'a>(&self, frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
        match self.keys {
            Keys::None => {}
            Keys::Range { first, last, step } => {
                let last = if last < 0 { frame.len().saturating_add_signed(last) } else { last as usize };
                for at in (first..=last.min(frame.len().saturating_sub(1))).step_by(step) {
                    take(KeyRef { space, name: frame.arg(at) });
                }
            }
            Keys::Custom(keys) => keys(frame, space, take),
        }
    }
}
