//! What a transaction's body reads and writes with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::change::{ApplyError, End, parse_integer};
use forebay::key::{KEY_BYTES_MAX, Key};
use forebay::value::{Blob, Data, Hash, List, Set, Value};

use crate::attempt::Attempt;
use crate::error::{Error, shown};
use crate::fetch;
use crate::shared::Shared;
use crate::write::Write;

/// What a transaction's body reads and writes with.
///
/// A body may run several times, and may see documents that were not there together. Then its end finds that, and it
/// runs again. So it has to do nothing that can't be done twice, and to end whatever it reads. What it wrote itself it
/// reads so. A document that was read once is the one that it reads again.
pub struct Transaction {
    shared: Arc<Shared>,
    attempt: Arc<Mutex<Attempt>>,
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>, attempt: Arc<Mutex<Attempt>>) -> Transaction {
        Transaction { shared, attempt }
    }

    fn attempt(&self) -> MutexGuard<'_, Attempt> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: impl AsRef<[u8]>) -> Result<Key, Error> {
        let name = name.as_ref();
        if name.len() > KEY_BYTES_MAX {
            return Err(Error::Limit { name: "KEY_BYTES_MAX", most: KEY_BYTES_MAX });
        }
        Ok(Key::new(self.shared.options.space, name))
    }

    fn keys<K: AsRef<[u8]>>(&self, names: &[K]) -> Result<Vec<Key>, Error> {
        names.iter().map(|name| self.key(name)).collect()
    }

    /// Sees to it that of each key it is known what it is, or is going to be.
    async fn see(&self, keys: &[Key]) -> Result<(), Error> {
        let (looked, have, since) = {
            let mut attempt = self.attempt();
            let looked = attempt.look(&self.shared, keys)?;
            if looked.missing.is_empty() {
                return Ok(());
            }
            let have = attempt.have(&self.shared, &looked);
            (looked, have, attempt.since(self.shared.ground().now()))
        };
        match fetch::fetch(&self.shared, &looked.missing, &have, since).await {
            Ok(fetched) => self.attempt().take_all(looked, fetched),
            Err(error) => {
                self.attempt().is_broken = true;
                Err(error)
            }
        }
    }

    /// The document of a key, whatever its type; `None` if there is none. Values have no expiry here.
    pub async fn read(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>, Error> {
        let key = self.key(key)?;
        self.see(std::slice::from_ref(&key)).await?;
        Ok(self.attempt().seen(&key).map(endless))
    }

    /// The documents of some keys, in their order. Those that are missing are fetched by one message.
    pub async fn read_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        let keys = self.keys(keys)?;
        self.see(&keys).await?;
        let attempt = self.attempt();
        Ok(keys.iter().map(|key| attempt.seen(key).map(endless)).collect())
    }

    /// The bytes of a string.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Blob>, Error> {
        let key = self.key(key)?;
        self.see(std::slice::from_ref(&key)).await?;
        bytes(&key, self.attempt().seen(&key))
    }

    /// The bytes of some strings, in the order of the keys. Those that are missing are fetched by one message.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Blob>>, Error> {
        let keys = self.keys(keys)?;
        self.see(&keys).await?;
        let attempt = self.attempt();
        keys.iter().map(|key| bytes(key, attempt.seen(key))).collect()
    }

    /// The integer that a string holds.
    pub async fn get_integer(&self, key: impl AsRef<[u8]>) -> Result<Option<i64>, Error> {
        let Some(bytes) = self.get(&key).await? else { return Ok(None) };
        let wrong = || Error::Change { key: shown(key.as_ref()), why: ApplyError::NotAnInteger };
        parse_integer(&bytes).map(Some).ok_or_else(wrong)
    }

    /// A hash; an empty one where there is none.
    pub async fn hash(&self, key: impl AsRef<[u8]>) -> Result<Hash, Error> {
        match self.read(&key).await? {
            None => Ok(Hash::default()),
            Some(Value { data: Data::Hash(hash), .. }) => Ok(hash),
            Some(other) => Err(wrong_kind(key.as_ref(), &other, "hash")),
        }
    }

    /// A list; an empty one where there is none.
    pub async fn list(&self, key: impl AsRef<[u8]>) -> Result<List, Error> {
        match self.read(&key).await? {
            None => Ok(List::default()),
            Some(Value { data: Data::List(list), .. }) => Ok(list),
            Some(other) => Err(wrong_kind(key.as_ref(), &other, "list")),
        }
    }

    /// The members of a set; an empty one where there is none.
    pub async fn members(&self, key: impl AsRef<[u8]>) -> Result<Set, Error> {
        match self.read(&key).await? {
            None => Ok(Set::default()),
            Some(Value { data: Data::Set(set), .. }) => Ok(set),
            Some(other) => Err(wrong_kind(key.as_ref(), &other, "set")),
        }
    }

    fn write(&self, write: Write) -> Result<(), Error> {
        self.attempt().write(write)
    }

    /// SET: makes the document this string, without expiry.
    pub fn set(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::set(self.key(key)?, blob(bytes)))
    }

    /// SET PX: a string that expires that long after the commit.
    pub fn set_for(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>, life: Duration) -> Result<(), Error> {
        self.write(Write::set_for(self.key(key)?, blob(bytes), life))
    }

    /// DEL: removes the document.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::delete(self.key(key)?))
    }

    /// APPEND: adds bytes at the end of a string.
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::append(self.key(key)?, blob(bytes)))
    }

    /// INCRBY: adds to the integer that a string holds.
    pub fn add(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<(), Error> {
        self.write(Write::add(self.key(key)?, delta))
    }

    /// HSET: sets a field of a hash.
    pub fn set_field(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.write(Write::set_field(self.key(key)?, blob(field), blob(value)))
    }

    /// HDEL: removes a field of a hash.
    pub fn remove_field(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::remove_field(self.key(key)?, blob(field)))
    }

    /// HINCRBY: adds to the integer that a field holds.
    pub fn add_to_field(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, delta: i64) -> Result<(), Error> {
        self.write(Write::add_to_field(self.key(key)?, blob(field), delta))
    }

    /// LPUSH or RPUSH: adds an element at one end of a list.
    pub fn push(&self, key: impl AsRef<[u8]>, end: End, element: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::push(self.key(key)?, end, blob(element)))
    }

    /// LPOP or RPOP: removes the element at one end of a list.
    pub fn pop(&self, key: impl AsRef<[u8]>, end: End) -> Result<(), Error> {
        self.write(Write::pop(self.key(key)?, end))
    }

    /// LREM: removes elements equal to this from a list, as many as `count` says: from the right if it is negative, all
    /// if it is 0.
    pub fn remove_equal(&self, key: impl AsRef<[u8]>, count: i64, element: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::remove_equal(self.key(key)?, count, blob(element)))
    }

    /// SADD: adds a member to a set.
    pub fn add_member(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::add_member(self.key(key)?, blob(member)))
    }

    /// SREM: removes a member from a set.
    pub fn remove_member(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(Write::remove_member(self.key(key)?, blob(member)))
    }
}

fn blob(bytes: impl AsRef<[u8]>) -> Blob {
    Blob::from(bytes.as_ref())
}

fn wrong_kind(key: &[u8], value: &Value, wanted: &'static str) -> Error {
    Error::WrongKind { key: shown(key), held: value.kind().name(), wanted }
}

/// A value without its expiry.
fn endless(value: &Value) -> Value {
    Value { data: value.data.clone(), expires_at_ms: None }
}

fn bytes(key: &Key, value: Option<&Value>) -> Result<Option<Blob>, Error> {
    let Some(value) = value else { return Ok(None) };
    let Data::Bytes(bytes) = &value.data else { return Err(wrong_kind(key.name(), value, "string")) };
    Ok(Some(match bytes.whole() {
        Some((blob, range)) if range == (0..blob.len()) => blob.clone(),
        _ => Blob::from(&*bytes.joined()),
    }))
}
