//! Hashes.

use forebay::change::{ApplyError, Change};
use forebay::txn::DocumentError;
use forebay::value::{Blob, Hash};
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Reply, errors};

use super::element_scan::{Scan, scan};
use super::random::{choose, choose_with_repeats};
use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run, document_error};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "hset",
        syntax: "key field value [field value ..]",
        summary: "Sets fields of a hash; how many are new",
        group: Group::Hashes,
        arity: -4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hset),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "hmset",
        syntax: "key field value [field value ..]",
        summary: "Sets fields of a hash; an older name of HSET",
        group: Group::Hashes,
        arity: -4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hmset),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::AsksNothing],
    },
    Command {
        name: "hsetnx",
        syntax: "key field value",
        summary: "Sets a field of a hash that is not there",
        group: Group::Hashes,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hsetnx),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "hget",
        syntax: "key field",
        summary: "The value of a field",
        group: Group::Hashes,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hget),
        flags: &[Flag::Fast],
    },
    Command {
        name: "hmget",
        syntax: "key field [field ..]",
        summary: "The values of fields",
        group: Group::Hashes,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hmget),
        flags: &[Flag::Fast],
    },
    Command {
        name: "hgetall",
        syntax: "key",
        summary: "All fields of a hash with their values",
        group: Group::Hashes,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hgetall),
        flags: &[],
    },
    Command {
        name: "hkeys",
        syntax: "key",
        summary: "All fields of a hash",
        group: Group::Hashes,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hkeys),
        flags: &[],
    },
    Command {
        name: "hvals",
        syntax: "key",
        summary: "The values of all fields of a hash",
        group: Group::Hashes,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hvals),
        flags: &[],
    },
    Command {
        name: "hdel",
        syntax: "key field [field ..]",
        summary: "Removes fields from a hash; how many were there",
        group: Group::Hashes,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hdel),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "hexists",
        syntax: "key field",
        summary: "Whether a hash has a field",
        group: Group::Hashes,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hexists),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "hlen",
        syntax: "key",
        summary: "The number of fields of a hash",
        group: Group::Hashes,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hlen),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "hstrlen",
        syntax: "key field",
        summary: "The length of a field's value in bytes",
        group: Group::Hashes,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hstrlen),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "hincrby",
        syntax: "key field increment",
        summary: "Adds to an integer in a field",
        group: Group::Hashes,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hincrby),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "hincrbyfloat",
        syntax: "key field increment",
        summary: "Adds to a floating point number in a field",
        group: Group::Hashes,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, hincrbyfloat),
        flags: &[Flag::Fast, Flag::Blind],
    },
    Command {
        name: "hscan",
        syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        summary: "Fields of a hash with their values, some at a time",
        group: Group::Hashes,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hscan),
        flags: &[],
    },
    Command {
        name: "hrandfield",
        syntax: "key [count [WITHVALUES]]",
        summary: "Fields of a hash, chosen at random; with repeats if the count is negative",
        group: Group::Hashes,
        arity: -2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, hrandfield),
        flags: &[Flag::Random],
    },
];

fn bulk(bytes: &Blob) -> Reply {
    Reply::Bulk(bytes.clone())
}

fn bulk_or_nil(bytes: Option<&Blob>) -> Reply {
    bytes.map_or(Reply::Nil, bulk)
}

/// Sets each pair of field and value; how many fields are new.
fn set_pairs(call: &mut Call<'_>, command: &str) -> Result<i64, Reply> {
    if call.frame.len() % 2 == 1 {
        return Err(errors::wrong_arguments(command));
    }
    let key = call.key(1);
    let mut new = 0;
    for index in (2..call.frame.len()).step_by(2) {
        new += i64::from(call.hash(key)?.is_none_or(|hash| hash.get(call.arg(index)).is_none()));
        call.change(key, Change::SetField(call.blob(index), call.blob(index + 1)))?;
    }
    Ok(new)
}

fn hset(call: &mut Call<'_>) -> Answer {
    set_pairs(call, "hset").map(Reply::Integer)
}

fn hmset(call: &mut Call<'_>) -> Answer {
    set_pairs(call, "hmset").map(|_| Reply::OK)
}

fn hsetnx(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    call.tell(key);
    if call.hash(key)?.is_some_and(|hash| hash.get(call.arg(2)).is_some()) {
        return Ok(Reply::Integer(0));
    }
    call.change(key, Change::SetField(call.blob(2), call.blob(3)))?;
    Ok(Reply::Integer(1))
}

fn hget(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?;
    Ok(bulk_or_nil(hash.and_then(|hash| hash.get(call.arg(2)))))
}

fn hmget(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?;
    let value = |field| bulk_or_nil(hash.and_then(|hash| hash.get(field)));
    Ok(Reply::Array(call.frame.args().skip(2).map(value).collect()))
}

fn hgetall(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?.filter(|hash| call.has_room_for(2 * hash.len()));
    let pairs = |hash: &Hash| hash.iter().map(|(field, value)| (bulk(field), bulk(value))).collect();
    Ok(Reply::Map(hash.map_or_else(Vec::new, pairs)))
}

fn hkeys(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?.filter(|hash| call.has_room_for(hash.len()));
    let fields = |hash: &Hash| hash.iter().map(|(field, _)| bulk(field)).collect();
    Ok(Reply::Array(hash.map_or_else(Vec::new, fields)))
}

fn hvals(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?.filter(|hash| call.has_room_for(hash.len()));
    let values = |hash: &Hash| hash.iter().map(|(_, value)| bulk(value)).collect();
    Ok(Reply::Array(hash.map_or_else(Vec::new, values)))
}

fn hdel(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    let mut removed = 0;
    for index in 2..call.frame.len() {
        if call.unseen(key) || call.hash(key)?.is_some_and(|hash| hash.get(call.arg(index)).is_some()) {
            call.change(key, Change::UnsetField(call.blob(index)))?;
            removed += 1;
        }
    }
    Ok(Reply::Integer(removed))
}

fn hexists(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?;
    Ok(Reply::Integer(hash.is_some_and(|hash| hash.get(call.arg(2)).is_some()).into()))
}

fn hlen(call: &mut Call<'_>) -> Answer {
    Ok(Reply::Integer(call.hash(call.key(1))?.map_or(0, |hash| hash.len() as i64)))
}

fn hstrlen(call: &mut Call<'_>) -> Answer {
    let hash = call.hash(call.key(1))?;
    let value = hash.and_then(|hash| hash.get(call.arg(2)));
    Ok(Reply::Integer(value.map_or(0, |value| value.len() as i64)))
}

/// Adds to a number in a field; the errors speak of the hash. The sum, as it is stored.
fn add(call: &mut Call<'_>, change: Change) -> Result<Option<Blob>, Reply> {
    let key = call.key(1);
    call.try_change(key, change).map_err(|error| match error {
        DocumentError::Apply(ApplyError::NotAnInteger) => Reply::error(errors::HASH_NOT_AN_INTEGER),
        DocumentError::Apply(ApplyError::NotAFloat) => Reply::error(errors::HASH_NOT_A_FLOAT),
        error => document_error(&error),
    })?;
    Ok(call.hash(key)?.and_then(|hash| hash.get(call.arg(2))).cloned())
}

fn hincrby(call: &mut Call<'_>) -> Answer {
    let delta = call.integer(3)?;
    let sum = add(call, Change::AddInteger { field: Some(call.blob(2)), delta })?;
    sum.and_then(|sum| parse_integer(&sum)).map(Reply::Integer).ok_or(Reply::error(errors::HASH_NOT_AN_INTEGER))
}

fn hincrbyfloat(call: &mut Call<'_>) -> Answer {
    let delta = call.blob(3);
    if !forebay::change::is_float(&delta) {
        let magnitude = delta.strip_prefix(b"-").or(delta.strip_prefix(b"+")).unwrap_or(&delta);
        let infinite = magnitude.eq_ignore_ascii_case(b"inf") || magnitude.eq_ignore_ascii_case(b"infinity");
        return Err(Reply::error(if infinite { errors::NOT_FINITE } else { errors::NOT_A_FLOAT }));
    }
    let sum = add(call, Change::AddFloat { field: Some(call.blob(2)), delta })?;
    Ok(bulk_or_nil(sum.as_ref()))
}

fn hscan(call: &mut Call<'_>) -> Answer {
    let cursor = Scan::cursor(call)?;
    let Some(hash) = call.hash(call.key(1))? else { return Ok(Scan::nothing()) };
    let options = Scan::parse(call)?;
    let found = scan(cursor, &options, hash.len(), hash.iter());
    let (next, uncompared) = (found.next, found.uncompared);
    let fields = found.elements.into_iter();
    let fields = match options.no_values {
        true => fields.map(|(field, _)| bulk(field)).collect(),
        false => fields.flat_map(|(field, value)| [bulk(field), bulk(value)]).collect(),
    };
    call.uncompared = uncompared;
    Ok(Scan::reply(next, fields))
}

fn hrandfield(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    if call.frame.len() == 2 {
        let Some(hash) = call.hash(key)? else { return Ok(Reply::Nil) };
        let field = choose_with_repeats(call.chance.number, hash.len(), 1).next().and_then(|index| hash.nth(index));
        return Ok(bulk_or_nil(field.map(|(field, _)| field)));
    }
    let asked = call.integer(2)?;
    if asked == i64::MIN {
        return Err(super::random::out_of_range());
    }
    let with_values = match (call.frame.len(), call.frame.get(3)) {
        (3, _) => false,
        (4, Some(option)) if option.eq_ignore_ascii_case(b"withvalues") => true,
        _ => return Err(Reply::error(errors::SYNTAX)),
    };
    // Before a limit of ours.
    if with_values && asked.unsigned_abs() > (i64::MAX / 2) as u64 {
        return Err(Reply::error("ERR value is out of range"));
    }
    let count = super::random::count(call, 2)?;
    let Some(hash) = call.hash(key)? else { return Ok(Reply::Array(Vec::new())) };
    if !call.has_room_for(2 * super::random::chosen_max(count, hash.len())) {
        return Ok(Reply::Nil);
    }
    let chosen = choose(call.chance.number, hash.iter(), hash.len(), count);
    Ok(match with_values {
        true => Reply::Pairs(chosen.into_iter().map(|(field, value)| (bulk(field), bulk(value))).collect()),
        false => Reply::Array(chosen.into_iter().map(|(field, _)| bulk(field)).collect()),
    })
}
