//! Byte strings.

use forebay::change::Change;
use forebay::value::Value;
use forebay_protocol::Reply;

use super::{Answer, Call, Command, Effect, Group, Keys, Run};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        syntax: "key",
        summary: "The value of a key",
        group: Group::Strings,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, get),
        flags: &[],
    },
    Command {
        name: "set",
        syntax: "key value",
        summary: "Sets the value of a key",
        group: Group::Strings,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Blind, set),
        flags: &[],
    },
];

fn get(call: &mut Call<'_>) -> Answer {
    Ok(match call.bytes(call.key(1))? {
        Some(bytes) => Reply::Bulk(bytes.clone()),
        None => Reply::Nil,
    })
}

fn set(call: &mut Call<'_>) -> Answer {
    let value = Value::bytes(call.blob(2));
    call.change(call.key(1), Change::Put(value))?;
    Ok(Reply::OK)
}
