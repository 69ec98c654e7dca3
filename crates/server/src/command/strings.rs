//! Byte strings as a whole and in parts. Those that hold numbers: `numbers.rs`.

use forebay::change::{ApplyError, Change};
use forebay::key::KeyRef;
use forebay::txn::DocumentError;
use forebay_protocol::{Frame, Reply, errors};

use super::expiry::{Moment, Unit, positive_moment};
use super::options::Options;
use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run, document_error, part_of};

/// Every second argument is a key.
const PAIRS: Keys = Keys::Range { first: 1, last: -1, step: 2 };

/// Longest part of a value that is copied for its reply.
const COPIED_BYTES_MAX: usize = 4096;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        syntax: "key",
        summary: "The value of a key",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, get),
        flags: &[Flag::Fast],
    },
    Command {
        name: "set",
        syntax: "key value [NX|XX] [GET] \
                 [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        summary: "Sets the value of a key",
        group: Group::Strings,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Varying(set_effect, set),
        flags: &[Flag::TellsNothing],
    },
    Command {
        name: "setnx",
        syntax: "key value",
        summary: "Sets the value of a key that is not there",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, setnx),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "setex",
        syntax: "key seconds value",
        summary: "Sets the value of a key that expires so many seconds from now",
        group: Group::Strings,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Blind, setex),
        flags: &[],
    },
    Command {
        name: "psetex",
        syntax: "key milliseconds value",
        summary: "Sets the value of a key that expires so many milliseconds from now",
        group: Group::Strings,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Blind, psetex),
        flags: &[],
    },
    Command {
        name: "getset",
        syntax: "key value",
        summary: "Sets the value of a key and answers the old one",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, getset),
        flags: &[Flag::Fast],
    },
    Command {
        name: "getdel",
        syntax: "key",
        summary: "The value of a key, which is removed",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, getdel),
        flags: &[Flag::Fast, Flag::Deletes],
    },
    Command {
        name: "getex",
        syntax: "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]",
        summary: "The value of a key, whose expiry is changed",
        group: Group::Strings,
        arity: -2,
        keys: Keys::ONE,
        run: Run::Varying(getex_effect, getex),
        flags: &[Flag::Fast],
    },
    Command {
        name: "mget",
        syntax: "key [key ..]",
        summary: "The values of keys",
        group: Group::Strings,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Documents(Effect::Read, mget),
        flags: &[Flag::Fast, Flag::InParts],
    },
    Command {
        name: "mset",
        syntax: "key value [key value ..]",
        summary: "Sets the values of keys",
        group: Group::Strings,
        arity: -3,
        keys: PAIRS,
        run: Run::Documents(Effect::Blind, mset),
        flags: &[],
    },
    Command {
        name: "msetnx",
        syntax: "key value [key value ..]",
        summary: "Sets the values of keys of which none is there",
        group: Group::Strings,
        arity: -3,
        keys: PAIRS,
        run: Run::Documents(Effect::ReadWrite, msetnx),
        flags: &[Flag::TellsNothing],
    },
    Command {
        name: "append",
        syntax: "key value",
        summary: "Adds to the end of a value; its length then",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, append),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "strlen",
        syntax: "key",
        summary: "The length of a value in bytes",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, strlen),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "getrange",
        syntax: "key start end",
        summary: "Part of a value",
        group: Group::Strings,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, getrange),
        flags: &[],
    },
    Command {
        name: "substr",
        syntax: "key start end",
        summary: "Part of a value; an older name of GETRANGE",
        group: Group::Strings,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, getrange),
        flags: &[],
    },
    Command {
        name: "setrange",
        syntax: "key offset value",
        summary: "Overwrites part of a value; its length then",
        group: Group::Strings,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, setrange),
        flags: &[Flag::TellsNothing],
    },
];

fn get(call: &mut Call<'_>) -> Answer {
    call.text(call.key(1))
}

/// Blind unless an option asks for the present value. An expiry's count that looks like such an option is an error
/// anyway.
fn set_effect(frame: Frame<'_>) -> Effect {
    let looks =
        |option: &[u8]| [&b"nx"[..], b"xx", b"get", b"keepttl"].iter().any(|name| option.eq_ignore_ascii_case(name));
    if (3..frame.len()).any(|at| looks(frame.arg(at))) { Effect::ReadWrite } else { Effect::Blind }
}

/// Puts a byte string that expires at a moment, or never. One whose moment has come is removed at once: nobody is to
/// see it, not even the transaction that set it.
fn put(call: &mut Call<'_>, key: KeyRef<'_>, bytes: &[u8], expires: Option<Moment>) -> Result<(), Reply> {
    let expires_at_ms = expires.map(|expires| expires.at_ms);
    let relative = expires.is_some_and(|expires| expires.relative);
    if let Some(at_ms) = expires_at_ms.filter(|_| call.expiry_is_freshness(key)) {
        call.put(key, bytes, None)?;
        return call.expire_at(key, i64::try_from(at_ms).unwrap_or(i64::MAX), relative);
    }
    match expires_at_ms {
        Some(at_ms) if at_ms <= call.now_ms() => call.change(key, Change::Delete)?,
        expires_at_ms => call.put(key, bytes, expires_at_ms)?,
    }
    call.count_from_commit(key, relative);
    Ok(())
}

fn set(call: &mut Call<'_>) -> Answer {
    let options = Options::of_set(call.frame)?;
    let mut expires = options.expires(call, "set")?;
    let key = call.key(1);
    let mut reply = Reply::OK;
    if options.get || options.nx || options.xx {
        call.tell(key);
    }
    if options.get {
        reply = call.text(key)?;
    }
    if options.nx || options.xx || options.keep_ttl {
        let present = call.value(key)?;
        if (options.nx && present.is_some()) || (options.xx && present.is_none()) {
            return Ok(if options.get { reply } else { Reply::Nil });
        }
        if options.keep_ttl {
            let relative = call.counts_from_commit(key);
            let at_ms = present.and_then(|present| present.expires_at_ms);
            expires = at_ms.map(|at_ms| Moment { at_ms, relative });
        }
    }
    put(call, key, call.arg(2), expires)?;
    Ok(reply)
}

fn setnx(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    call.tell(key);
    if call.exists(key)? {
        return Ok(Reply::Integer(0));
    }
    put(call, key, call.arg(2), None)?;
    Ok(Reply::Integer(1))
}

fn set_expiring(call: &mut Call<'_>, unit: Unit, command: &str) -> Answer {
    let expires = positive_moment(call, unit, 2, command)?;
    put(call, call.key(1), call.arg(3), Some(expires))?;
    Ok(Reply::OK)
}

fn setex(call: &mut Call<'_>) -> Answer {
    set_expiring(call, Unit::SECONDS, "setex")
}

fn psetex(call: &mut Call<'_>) -> Answer {
    set_expiring(call, Unit::MILLISECONDS, "psetex")
}

fn getset(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    call.tell(key);
    let reply = call.text(key)?;
    put(call, key, call.arg(2), None)?;
    Ok(reply)
}

fn getdel(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    if call.forgets(key)? {
        return Ok(Reply::Nil);
    }
    call.tell(key);
    let reply = call.text(key)?;
    if reply != Reply::Nil {
        call.change(key, Change::Delete)?;
    }
    Ok(reply)
}

fn getex_effect(frame: Frame<'_>) -> Effect {
    if frame.len() > 2 { Effect::ReadWrite } else { Effect::Read }
}

fn getex(call: &mut Call<'_>) -> Answer {
    let options = Options::of_getex(call.frame)?;
    let key = call.key(1);
    let reply = call.text(key)?;
    if reply == Reply::Nil {
        return Ok(reply);
    }
    let had_expiry = call.value(key)?.is_some_and(|value| value.expires_at_ms.is_some());
    match options.expires(call, "getex")? {
        Some(Moment { at_ms, relative }) => {
            call.expire_at(key, i64::try_from(at_ms).unwrap_or(i64::MAX), relative)?;
        }
        None if options.persist && had_expiry => call.change(key, Change::Persist)?,
        None => {}
    }
    Ok(reply)
}

/// MGET takes what is no byte string for absent.
fn mget(call: &mut Call<'_>) -> Answer {
    // What is no text is none; what can't be said now is an error.
    let is_other = |error: &Reply| matches!(error, Reply::Error(why) if why.starts_with(b"WRONGTYPE"));
    // One that is made of results does not know its length.
    let mut values = Vec::with_capacity(call.frame.len() - 1);
    for index in 1..call.frame.len() {
        values.push(match call.text(call.key(index)) {
            Err(error) if is_other(&error) => Reply::Nil,
            told => told?,
        });
    }
    Ok(Reply::Array(values))
}

/// Puts each pair of key and value.
fn put_pairs(call: &mut Call<'_>) -> Result<(), Reply> {
    for index in (1..call.frame.len()).step_by(2) {
        put(call, call.key(index), call.arg(index + 1), None)?;
    }
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Answer {
    if call.frame.len().is_multiple_of(2) {
        return Err(errors::wrong_arguments("mset"));
    }
    put_pairs(call)?;
    Ok(Reply::OK)
}

fn msetnx(call: &mut Call<'_>) -> Answer {
    if call.frame.len().is_multiple_of(2) {
        return Err(errors::wrong_arguments("msetnx"));
    }
    for index in (1..call.frame.len()).step_by(2) {
        call.tell(call.key(index));
        if call.exists(call.key(index))? {
            return Ok(Reply::Integer(0));
        }
    }
    put_pairs(call)?;
    Ok(Reply::Integer(1))
}

fn length(call: &Call<'_>, key: KeyRef<'_>) -> Answer {
    Ok(Reply::Integer(call.bytes(key)?.map_or(0, |bytes| bytes.len() as i64)))
}

fn strlen(call: &mut Call<'_>) -> Answer {
    length(call, call.key(1))
}

/// Makes a byte string longer, or refuses in Redis' words for a string that is too long.
fn grow(call: &mut Call<'_>, key: KeyRef<'_>, change: Change) -> Answer {
    let grown = call.try_change(key, change);
    grown.map_err(|error| match error {
        DocumentError::Apply(ApplyError::TooLarge) => Reply::error(errors::STRING_TOO_LONG),
        error => document_error(&error),
    })?;
    length(call, key)
}

fn append(call: &mut Call<'_>) -> Answer {
    grow(call, call.key(1), Change::Append(call.blob(2)))
}

fn setrange(call: &mut Call<'_>) -> Answer {
    let offset = call.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| Reply::error(errors::OFFSET_RANGE))?;
    let key = call.key(1);
    let bytes = call.blob(3);
    if bytes.is_empty() {
        return length(call, key);
    }
    grow(call, key, Change::WriteAt { offset, bytes })
}

/// Positions from the end are negative; what lies outside is cut off.
fn getrange(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(bytes) = call.bytes(call.key(1))? else { return Ok(Reply::bulk(b"")) };
    let len = bytes.len() as i64;
    if bytes.is_empty() || (start < 0 && end < 0 && start > end) {
        return Ok(Reply::bulk(b""));
    }
    let from_start = |position: i64| if position < 0 { (len + position).max(0) } else { position };
    // Unlike in LRANGE, an end before the first byte counts as the first byte.
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    let range = start as usize..(end + 1) as usize;
    match bytes.pieces(range.clone()).next() {
        // A reply that waits would keep all the memory that they are a part of.
        Some(few) if few.len() == range.len() && few.len() <= COPIED_BYTES_MAX => Ok(Reply::bulk(few)),
        _ => Ok(part_of(bytes, range)),
    }
}
