//! Sets.

use forebay::change::Change;
use forebay_protocol::{Reply, errors};

use super::element_scan::{Scan, scan};
use super::random::{choose, choose_with_repeats};
use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "sadd",
        syntax: "key member [member ..]",
        summary: "Adds members to a set; how many are new",
        group: Group::Sets,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, sadd),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "srem",
        syntax: "key member [member ..]",
        summary: "Removes members from a set; how many were there",
        group: Group::Sets,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, srem),
        flags: &[Flag::Fast, Flag::TellsNothing, Flag::Blind],
    },
    Command {
        name: "smembers",
        syntax: "key",
        summary: "All members of a set",
        group: Group::Sets,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, smembers),
        flags: &[],
    },
    Command {
        name: "sismember",
        syntax: "key member",
        summary: "Whether a set has a member",
        group: Group::Sets,
        arity: 3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, sismember),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "smismember",
        syntax: "key member [member ..]",
        summary: "Which of these members a set has",
        group: Group::Sets,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, smismember),
        flags: &[Flag::Fast],
    },
    Command {
        name: "scard",
        syntax: "key",
        summary: "The number of members of a set",
        group: Group::Sets,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, scard),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "srandmember",
        syntax: "key [count]",
        summary: "Members of a set, chosen at random; with repeats if the count is negative",
        group: Group::Sets,
        arity: -2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, srandmember),
        flags: &[Flag::Random],
    },
    Command {
        name: "sscan",
        syntax: "key cursor [MATCH pattern] [COUNT count]",
        summary: "Members of a set, some at a time",
        group: Group::Sets,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, sscan),
        flags: &[],
    },
];

fn sadd(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    // A key of another type is an error even where nothing would be added.
    call.set(key)?;
    let mut added = 0;
    for index in 2..call.frame.len() {
        let there = call.set(key)?.is_some_and(|set| set.contains(call.arg(index)));
        if !there || call.unseen(key) {
            call.change(key, Change::AddMember(call.blob(index)))?;
            added += 1;
        }
    }
    Ok(Reply::Integer(added))
}

fn srem(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    let mut removed = 0;
    for index in 2..call.frame.len() {
        if call.unseen(key) || call.set(key)?.is_some_and(|set| set.contains(call.arg(index))) {
            call.change(key, Change::RemoveMember(call.blob(index)))?;
            removed += 1;
        }
    }
    Ok(Reply::Integer(removed))
}

fn smembers(call: &mut Call<'_>) -> Answer {
    let set = call.set(call.key(1))?.filter(|set| call.has_room_for(set.len()));
    Ok(Reply::Set(set.map_or_else(Vec::new, |set| set.iter().cloned().map(Reply::Bulk).collect())))
}

fn sismember(call: &mut Call<'_>) -> Answer {
    let set = call.set(call.key(1))?;
    Ok(Reply::Integer(set.is_some_and(|set| set.contains(call.arg(2))).into()))
}

fn smismember(call: &mut Call<'_>) -> Answer {
    let set = call.set(call.key(1))?;
    let contains = |member| Reply::Integer(set.is_some_and(|set| set.contains(member)).into());
    Ok(Reply::Array(call.frame.args().skip(2).map(contains).collect()))
}

fn scard(call: &mut Call<'_>) -> Answer {
    Ok(Reply::Integer(call.set(call.key(1))?.map_or(0, |set| set.len() as i64)))
}

fn srandmember(call: &mut Call<'_>) -> Answer {
    if call.frame.len() > 3 {
        return Err(Reply::error(errors::SYNTAX));
    }
    let key = call.key(1);
    if call.frame.len() == 2 {
        let Some(set) = call.set(key)? else { return Ok(Reply::Nil) };
        let member = choose_with_repeats(call.chance.number, set.len(), 1).next().and_then(|index| set.nth(index));
        return Ok(member.map_or(Reply::Nil, |member| Reply::Bulk(member.clone())));
    }
    let count = super::random::count(call, 2)?;
    let Some(set) = call.set(key)? else { return Ok(Reply::Array(Vec::new())) };
    if !call.has_room_for(super::random::chosen_max(count, set.len())) {
        return Ok(Reply::Nil);
    }
    let chosen = choose(call.chance.number, set.iter(), set.len(), count);
    Ok(Reply::Array(chosen.into_iter().cloned().map(Reply::Bulk).collect()))
}

fn sscan(call: &mut Call<'_>) -> Answer {
    let cursor = Scan::cursor(call)?;
    let Some(set) = call.set(call.key(1))? else { return Ok(Scan::nothing()) };
    let options = Scan::parse(call)?;
    if options.no_values {
        return Err(Reply::error(errors::NO_VALUES_OF_SET));
    }
    let found = scan(cursor, &options, set.len(), set.iter().map(|member| (member, &())));
    let (next, uncompared) = (found.next, found.uncompared);
    let members = found.elements.into_iter().map(|(member, ())| Reply::Bulk(member.clone())).collect();
    call.uncompared = uncompared;
    Ok(Scan::reply(next, members))
}
