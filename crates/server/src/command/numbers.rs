//! Byte strings that hold numbers.

use forebay::change::Change;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Reply, errors};

use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run, bulk_of};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "incr",
        syntax: "key",
        summary: "Adds 1 to an integer",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, incr),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "decr",
        syntax: "key",
        summary: "Subtracts 1 from an integer",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, decr),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "incrby",
        syntax: "key increment",
        summary: "Adds to an integer",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, incrby),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "decrby",
        syntax: "key decrement",
        summary: "Subtracts from an integer",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, decrby),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "incrbyfloat",
        syntax: "key increment",
        summary: "Adds to a floating point number",
        group: Group::Strings,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, incrbyfloat),
        flags: &[Flag::Fast, Flag::Blind],
    },
];

/// Adds to the integer that the first key holds.
fn add(call: &mut Call<'_>, delta: i64) -> Answer {
    let key = call.key(1);
    call.change(key, Change::AddInteger { field: None, delta })?;
    let sum = call.bytes(key)?.and_then(|bytes| parse_integer(bytes.number_text()));
    sum.map(Reply::Integer).ok_or(Reply::error(errors::NOT_AN_INTEGER))
}

fn incr(call: &mut Call<'_>) -> Answer {
    add(call, 1)
}

fn decr(call: &mut Call<'_>) -> Answer {
    add(call, -1)
}

fn incrby(call: &mut Call<'_>) -> Answer {
    let delta = call.integer(2)?;
    add(call, delta)
}

fn decrby(call: &mut Call<'_>) -> Answer {
    let delta = call.integer(2)?;
    add(call, delta.checked_neg().ok_or(Reply::error(errors::DECREMENT_OVERFLOW))?)
}

/// The sum's error tells what is wrong with either number, the stored one's first, as Redis does.
fn incrbyfloat(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    call.change(key, Change::AddFloat { field: None, delta: call.blob(2) })?;
    Ok(call.bytes(key)?.map_or(Reply::Nil, bulk_of))
}
