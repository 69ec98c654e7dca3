//! Writes: each is a command for the server, and the changes that the server makes of it.
//!
//! The changes show a transaction its own writes. They are applied by the function that the server applies them by.

use std::time::Duration;

use forebay::change::{Change, End};
use forebay::key::Key;
use forebay::value::{Blob, Value};
use forebay_protocol::Reply;

/// One write to one document.
#[derive(Clone, Debug)]
pub struct Write {
    /// The document.
    pub key: Key,
    /// What it makes of it.
    pub change: Change,
    /// The command's name.
    name: &'static str,
    /// Its arguments behind the key.
    arguments: Vec<Blob>,
    /// Whether the server changes nothing if it answers 0 or nil.
    may_be_nothing: bool,
}

fn number(number: impl ToString) -> Blob {
    Blob::from(number.to_string().into_bytes())
}

impl Write {
    fn new(key: Key, name: &'static str, arguments: Vec<Blob>, change: Change) -> Write {
        Write { key, change, name, arguments, may_be_nothing: false }
    }

    /// One that changes nothing where there is nothing to change.
    fn removal(key: Key, name: &'static str, arguments: Vec<Blob>, change: Change) -> Write {
        Write { may_be_nothing: true, ..Write::new(key, name, arguments, change) }
    }

    pub fn set(key: Key, bytes: Blob) -> Write {
        let value = Value::bytes(bytes.clone());
        Write::new(key, "SET", vec![bytes], Change::Put(value))
    }

    /// When exactly it expires, the server decides.
    pub fn set_for(key: Key, bytes: Blob, life: Duration) -> Write {
        let value = Value { expires_at_ms: Some(0), ..Value::bytes(bytes.clone()) };
        let ms = life.as_millis().clamp(1, i64::MAX as u128);
        Write::new(key, "SET", vec![bytes, Blob::from(*b"PX"), number(ms)], Change::Put(value))
    }

    pub fn delete(key: Key) -> Write {
        Write::removal(key, "DEL", Vec::new(), Change::Delete)
    }

    pub fn append(key: Key, bytes: Blob) -> Write {
        Write::new(key, "APPEND", vec![bytes.clone()], Change::Append(bytes))
    }

    pub fn add(key: Key, delta: i64) -> Write {
        Write::new(key, "INCRBY", vec![number(delta)], Change::AddInteger { field: None, delta })
    }

    pub fn set_field(key: Key, field: Blob, value: Blob) -> Write {
        Write::new(key, "HSET", vec![field.clone(), value.clone()], Change::SetField(field, value))
    }

    pub fn remove_field(key: Key, field: Blob) -> Write {
        Write::removal(key, "HDEL", vec![field.clone()], Change::UnsetField(field))
    }

    pub fn add_to_field(key: Key, field: Blob, delta: i64) -> Write {
        let change = Change::AddInteger { field: Some(field.clone()), delta };
        Write::new(key, "HINCRBY", vec![field, number(delta)], change)
    }

    pub fn push(key: Key, end: End, element: Blob) -> Write {
        let name = if end == End::Left { "LPUSH" } else { "RPUSH" };
        Write::new(key, name, vec![element.clone()], Change::Push(end, element))
    }

    pub fn pop(key: Key, end: End) -> Write {
        let name = if end == End::Left { "LPOP" } else { "RPOP" };
        Write::removal(key, name, Vec::new(), Change::Pop(end))
    }

    pub fn remove_equal(key: Key, count: i64, element: Blob) -> Write {
        let arguments = vec![number(count), element.clone()];
        Write::removal(key, "LREM", arguments, Change::RemoveEqual { count, element })
    }

    pub fn add_member(key: Key, member: Blob) -> Write {
        Write::removal(key, "SADD", vec![member.clone()], Change::AddMember(member))
    }

    pub fn remove_member(key: Key, member: Blob) -> Write {
        Write::removal(key, "SREM", vec![member.clone()], Change::RemoveMember(member))
    }

    /// The command.
    pub fn words(&self) -> Vec<&[u8]> {
        let mut words = vec![self.name.as_bytes(), self.key.name()];
        words.extend(self.arguments.iter().map(|argument| &**argument));
        words
    }

    /// Whether the server has changed the document, by its reply.
    pub fn has_changed(&self, reply: &Reply) -> bool {
        !(self.may_be_nothing && matches!(reply, Reply::Integer(0) | Reply::Nil | Reply::NilArray))
    }

    /// Whether what the document was before makes no difference.
    pub fn replaces(&self) -> bool {
        matches!(self.change, Change::Put(_) | Change::Delete)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.change.memory_bytes() + size_of::<Write>()
    }
}
