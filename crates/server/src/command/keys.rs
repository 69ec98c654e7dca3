//! Keys of any type. When they expire: `expiry.rs`.

use forebay::change::Change;
use forebay::key::{KeyRef, SPACES};
use forebay::value::{Data, Value};
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};

use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "del",
        syntax: "key [key ..]",
        summary: "Removes keys; how many were there",
        group: Group::Keys,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Documents(Effect::ReadWrite, del),
        flags: &[Flag::TellsNothing, Flag::Blind, Flag::Deletes],
    },
    Command {
        name: "unlink",
        syntax: "key [key ..]",
        summary: "Removes keys; another name of DEL",
        group: Group::Keys,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Documents(Effect::ReadWrite, del),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind, Flag::Deletes],
    },
    Command {
        name: "exists",
        syntax: "key [key ..]",
        summary: "How many of these keys are there",
        group: Group::Keys,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Documents(Effect::Read, exists),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::InParts],
    },
    Command {
        name: "touch",
        syntax: "key [key ..]",
        summary: "Counts as an access to keys; how many are there",
        group: Group::Keys,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Documents(Effect::Read, exists),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::InParts],
    },
    Command {
        name: "type",
        syntax: "key",
        summary: "The type of a value: string, hash, list, set or none",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, type_of),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "rename",
        syntax: "key newkey",
        summary: "Gives a value another key",
        group: Group::Keys,
        arity: 3,
        keys: Keys::Range { first: 1, last: 2, step: 1 },
        run: Run::Documents(Effect::ReadWrite, rename),
        flags: &[],
    },
    Command {
        name: "renamenx",
        syntax: "key newkey",
        summary: "Gives a value another key that is not there",
        group: Group::Keys,
        arity: 3,
        keys: Keys::Range { first: 1, last: 2, step: 1 },
        run: Run::Documents(Effect::ReadWrite, renamenx),
        flags: &[Flag::Fast],
    },
    Command {
        name: "copy",
        syntax: "source destination [DB index] [REPLACE]",
        summary: "Copies a value to another key",
        group: Group::Keys,
        arity: -3,
        keys: Keys::Custom(copy_keys),
        run: Run::Documents(Effect::ReadWrite, copy),
        flags: &[],
    },
    Command {
        name: "object",
        syntax: "ENCODING key | FREQ key | IDLETIME key | REFCOUNT key | HELP",
        summary: "What is known of a value beside its content",
        group: Group::Keys,
        arity: -2,
        keys: Keys::Range { first: 2, last: 2, step: 1 },
        run: Run::Documents(Effect::Read, object),
        flags: &[Flag::TellsNothing],
    },
];

fn del(call: &mut Call<'_>) -> Answer {
    let mut removed = 0;
    for index in 1..call.frame.len() {
        let key = call.key(index);
        if !call.forgets(key)? && (call.unseen(key) || call.exists(key)?) {
            call.change(key, Change::Delete)?;
            removed += 1;
        }
    }
    Ok(Reply::Integer(removed))
}

/// A key that is named twice counts twice.
fn exists(call: &mut Call<'_>) -> Answer {
    let mut found = 0;
    for index in 1..call.frame.len() {
        found += i64::from(call.exists(call.key(index))?);
    }
    Ok(Reply::Integer(found))
}

fn type_of(call: &mut Call<'_>) -> Answer {
    let name = call.value(call.key(1))?.map_or("none", |value| value.kind().name());
    Ok(Reply::Simple(name.into()))
}

/// Gives the document of the first key to the second; `None` if there is no such document.
fn moved(call: &mut Call<'_>, only_to_absent: bool) -> Result<Option<bool>, Reply> {
    let (from, to) = (call.key(1), call.key(2));
    let Some(value) = call.value(from)?.cloned() else { return Ok(None) };
    if only_to_absent && call.exists(to)? {
        return Ok(Some(false));
    }
    if from != to {
        let relative = call.counts_from_commit(from);
        call.change(to, Change::Put(value))?;
        call.count_from_commit(to, relative);
        call.change(from, Change::Delete)?;
    }
    Ok(Some(true))
}

fn rename(call: &mut Call<'_>) -> Answer {
    let moved = moved(call, false)?;
    moved.map(|_| Reply::OK).ok_or(Reply::error(errors::NO_SUCH_KEY))
}

fn renamenx(call: &mut Call<'_>) -> Answer {
    let moved = moved(call, true)?;
    moved.map(|moved| Reply::Integer(moved.into())).ok_or(Reply::error(errors::NO_SUCH_KEY))
}

/// COPY's options: the database to copy to, and whether to replace what is there.
fn copy_options(frame: Frame<'_>, space: u8) -> Result<(u8, bool), Reply> {
    let (mut target, mut replace) = (space, false);
    let mut at = 3;
    while let Some(option) = frame.get(at) {
        match (option.to_ascii_lowercase().as_slice(), frame.get(at + 1)) {
            (b"replace", _) => replace = true,
            (b"db", Some(index)) => {
                target = database(index)?;
                at += 1;
            }
            _ => return Err(Reply::error(errors::SYNTAX)),
        }
        at += 1;
    }
    Ok((target, replace))
}

/// A database by its number.
pub(super) fn database(index: &[u8]) -> Result<u8, Reply> {
    let index = parse_integer(index).ok_or(Reply::error(errors::NOT_AN_INTEGER))?;
    let index = i32::try_from(index).map_err(|_| {
        let range = format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        Reply::error(range)
    })?;
    let space = u8::try_from(index).ok().filter(|space| *space < SPACES);
    space.ok_or(Reply::error(errors::DATABASE_RANGE))
}

/// Where the options make no sense nothing is copied, so one key is enough.
fn copy_keys<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    take(KeyRef { space, name: frame.arg(1) });
    if let Ok((target, _)) = copy_options(frame, space) {
        take(KeyRef { space: target, name: frame.arg(2) });
    }
}

fn copy(call: &mut Call<'_>) -> Answer {
    let (space, replace) = copy_options(call.frame, call.space)?;
    let (from, to) = (call.key(1), KeyRef { space, name: call.arg(2) });
    if from == to {
        return Err(Reply::error(errors::SAME_OBJECT));
    }
    let Some(value) = call.value(from)?.cloned() else { return Ok(Reply::Integer(0)) };
    if !replace {
        call.tell(to);
        if call.exists(to)? {
            return Ok(Reply::Integer(0));
        }
    }
    let relative = call.counts_from_commit(from);
    call.change(to, Change::Put(value))?;
    call.count_from_commit(to, relative);
    Ok(Reply::Integer(1))
}

const OBJECT_HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

fn object(call: &mut Call<'_>) -> Answer {
    let subcommand = call.arg(1).to_ascii_lowercase();
    let shown = match (subcommand.as_slice(), call.frame.len()) {
        (b"help", 2) => {
            let lines = OBJECT_HELP.iter().map(|line| Reply::Simple((*line).into()));
            return Ok(Reply::Array(lines.collect()));
        }
        (b"encoding", 3) => |value: &Value| Ok(Reply::bulk(encoding(value).as_bytes())),
        // The policy decides what stays, and most policies count no accesses per key.
        (b"freq", 3) => |_: &Value| Err(Reply::error(errors::NO_FREQUENCY)),
        // To look at a key is an access to it.
        (b"idletime", 3) => |_: &Value| Ok(Reply::Integer(0)),
        (b"refcount", 3) => |_: &Value| Ok(Reply::Integer(1)),
        (b"help" | b"encoding" | b"freq" | b"idletime" | b"refcount", _) => {
            let name = String::from_utf8_lossy(&subcommand);
            return Err(errors::wrong_arguments(&format!("object|{name}")));
        }
        _ => return Err(errors::unknown_subcommand("object", call.arg(1))),
    };
    call.value(call.key(2))?.map_or(Ok(Reply::Nil), shown)
}

/// The encoding that Redis 7.0 chooses for such a value when it is made at once. Forebay's own forms have other names
/// and limits; what asks for an encoding wants to know whether a value is a compact one.
fn encoding(value: &Value) -> &'static str {
    const EMBEDDED_BYTES_MAX: usize = 44;
    const COMPACT_FIELDS_MAX: usize = 128;
    const COMPACT_BYTES_MAX: usize = 64;
    const INTEGERS_MAX: usize = 512;
    match &value.data {
        Data::Bytes(bytes) if parse_integer(bytes.number_text()).is_some() => "int",
        Data::Bytes(bytes) if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Data::Bytes(_) => "raw",
        Data::List(_) => "quicklist",
        Data::Hash(hash) => {
            let short = |bytes: &[u8]| bytes.len() <= COMPACT_BYTES_MAX;
            let compact =
                hash.len() <= COMPACT_FIELDS_MAX && hash.iter().all(|(field, value)| short(field) && short(value));
            if compact { "listpack" } else { "hashtable" }
        }
        Data::Set(set) => {
            let integers = set.len() <= INTEGERS_MAX && set.iter().all(|member| parse_integer(member).is_some());
            if integers { "intset" } else { "hashtable" }
        }
    }
}
