//! Lists.

use forebay::change::{Change, End};
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Reply, errors};

use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "lpush",
        syntax: "key element [element ..]",
        summary: "Adds elements before the first of a list",
        group: Group::Lists,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, lpush),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "rpush",
        syntax: "key element [element ..]",
        summary: "Adds elements after the last of a list",
        group: Group::Lists,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, rpush),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "lpushx",
        syntax: "key element [element ..]",
        summary: "Adds elements before the first of a list that is there",
        group: Group::Lists,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, lpushx),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "rpushx",
        syntax: "key element [element ..]",
        summary: "Adds elements after the last of a list that is there",
        group: Group::Lists,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, rpushx),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "lpop",
        syntax: "key [count]",
        summary: "Removes and answers the first elements of a list",
        group: Group::Lists,
        arity: -2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, lpop),
        flags: &[Flag::Fast],
    },
    Command {
        name: "rpop",
        syntax: "key [count]",
        summary: "Removes and answers the last elements of a list",
        group: Group::Lists,
        arity: -2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, rpop),
        flags: &[Flag::Fast],
    },
    Command {
        name: "lrange",
        syntax: "key start stop",
        summary: "Part of a list",
        group: Group::Lists,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, lrange),
        flags: &[],
    },
    Command {
        name: "llen",
        syntax: "key",
        summary: "The length of a list",
        group: Group::Lists,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, llen),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "lrem",
        syntax: "key count element",
        summary: "Removes elements equal to one from a list",
        group: Group::Lists,
        arity: 4,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, lrem),
        flags: &[Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "lindex",
        syntax: "key index",
        summary: "One element of a list",
        group: Group::Lists,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, lindex),
        flags: &[],
    },
];

fn length(call: &Call<'_>) -> Answer {
    Ok(Reply::Integer(call.list(call.key(1))?.map_or(0, |list| list.len() as i64)))
}

fn push(call: &mut Call<'_>, end: End) -> Answer {
    let key = call.key(1);
    for index in 2..call.frame.len() {
        call.change(key, Change::Push(end, call.blob(index)))?;
    }
    length(call)
}

/// Pushes to a list that is there.
fn push_existing(call: &mut Call<'_>, end: End) -> Answer {
    call.tell(call.key(1));
    match call.list(call.key(1))? {
        Some(_) => push(call, end),
        None => Ok(Reply::Integer(0)),
    }
}

fn lpush(call: &mut Call<'_>) -> Answer {
    push(call, End::Left)
}

fn rpush(call: &mut Call<'_>) -> Answer {
    push(call, End::Right)
}

fn lpushx(call: &mut Call<'_>) -> Answer {
    push_existing(call, End::Left)
}

fn rpushx(call: &mut Call<'_>) -> Answer {
    push_existing(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End, command: &str) -> Answer {
    if call.frame.len() > 3 {
        return Err(errors::wrong_arguments(command));
    }
    let out_of_range = || Reply::error(errors::NOT_POSITIVE);
    let count = match call.frame.get(2) {
        Some(count) => {
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or_else(out_of_range)?)
        }
        None => None,
    };
    let key = call.key(1);
    let Some(list) = call.list(key)? else {
        return Ok(if count.is_some() { Reply::NilArray } else { Reply::Nil });
    };
    let taken = count.unwrap_or(1).min(list.len());
    let elements = list.iter().cloned().map(Reply::Bulk);
    let mut elements: Vec<Reply> = match end {
        End::Left => elements.take(taken).collect(),
        End::Right => elements.rev().take(taken).collect(),
    };
    for _ in 0..taken {
        call.change(key, Change::Pop(end))?;
    }
    Ok(match count {
        Some(_) => Reply::Array(elements),
        None => elements.pop().unwrap_or(Reply::Nil),
    })
}

fn lpop(call: &mut Call<'_>) -> Answer {
    pop(call, End::Left, "lpop")
}

fn rpop(call: &mut Call<'_>) -> Answer {
    pop(call, End::Right, "rpop")
}

/// Positions from the end are negative; what lies outside is cut off.
fn lrange(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = call.list(call.key(1))? else { return Ok(Reply::Array(Vec::new())) };
    let len = list.len() as i64;
    let from_start = |position: i64| if position < 0 { len + position } else { position };
    let (start, end) = (from_start(start).max(0), from_start(end).min(len - 1));
    if start > end {
        return Ok(Reply::Array(Vec::new()));
    }
    if !call.has_room_for((end - start + 1) as usize) {
        return Ok(Reply::Nil);
    }
    let elements = list.range(start as usize, end as usize + 1);
    Ok(Reply::Array(elements.cloned().map(Reply::Bulk).collect()))
}

fn llen(call: &mut Call<'_>) -> Answer {
    length(call)
}

fn lrem(call: &mut Call<'_>) -> Answer {
    let count = call.integer(2)?;
    let key = call.key(1);
    let element = call.blob(3);
    let equal = call.list(key)?.map_or(0, |list| list.iter().filter(|other| **other == element).count() as u64);
    let removed = if count == 0 { equal } else { equal.min(count.unsigned_abs()) };
    if removed > 0 || call.unseen(key) {
        call.change(key, Change::RemoveEqual { count, element })?;
    }
    Ok(Reply::Integer(removed as i64))
}

fn lindex(call: &mut Call<'_>) -> Answer {
    let Some(list) = call.list(call.key(1))? else { return Ok(Reply::Nil) };
    let index = call.integer(2)?;
    let index = if index < 0 { list.len() as i64 + index } else { index };
    let element = usize::try_from(index).ok().and_then(|index| list.get(index));
    Ok(element.map_or(Reply::Nil, |element| Reply::Bulk(element.clone())))
}
