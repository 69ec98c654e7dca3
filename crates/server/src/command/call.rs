//! One command at work on documents.

use std::cell::Cell;
use std::ops::Range;

use forebay::change::Change;
use forebay::key::KeyRef;
use forebay::store::forms::OnDelete;
use forebay::txn::{DocumentError, Documents, Published};
use forebay::value::{Blob, Bytes, Data, Hash, List, Set, Value};
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};

use crate::limits::ServerLimits;
use crate::refusals::document_error;

/// Most elements that a negative count may ask for: they repeat, so a hash or set of one would fill any memory.
const REPEATED_ELEMENTS_MAX: u64 = 1 << 20;

/// What a call that chooses at random gets.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// One random number.
    pub number: u64,
    /// Most elements that a negative count may ask for.
    pub repeated_max: u64,
}

impl Chance {
    /// Of the call of a server with these limits. What a negative count asks for takes a quarter of a reply's bytes
    /// before it is encoded, pairs half.
    pub fn new(number: u64, limits: &ServerLimits) -> Chance {
        let fits = limits.client_reply_bytes_max / (4 * size_of::<Reply>());
        Chance { number, repeated_max: REPEATED_ELEMENTS_MAX.min(fits as u64) }
    }

    /// Of a call that chooses nothing.
    pub const NONE: Chance = Chance { number: 0, repeated_max: 0 };
}

/// A request and the documents that it works on, loaded before. Nothing here waits, and nothing but the documents is
/// changed, so a call may be run again.
pub struct Call<'a> {
    /// The arguments, the command's name first.
    pub frame: Frame<'a>,
    /// The key space of the connection.
    pub space: u8,
    /// What the command works on.
    pub known: Known<'a>,
    /// For commands that choose at random.
    pub chance: Chance,
    /// Set by a command whose answer has still to be compared with its pattern, which takes long.
    pub uncompared: bool,
    /// Bytes that the items of its answer may take before they are encoded.
    pub items_bytes_max: usize,
    /// Set by a command whose answer takes more: it has made none.
    pub items_bytes: Cell<usize>,
}

/// What is known of the documents of a command's keys.
pub enum Known<'a> {
    /// What the transaction has read and changed.
    Documents(&'a mut Documents),
    /// What the cache serves without a lock to a command that only reads.
    Published(&'a Published<'a>),
}

/// A document's bytes as a reply, without copying them.
pub fn bulk_of(bytes: &Bytes) -> Reply {
    match bytes.whole() {
        Some((shared, range)) => Reply::Part(shared.clone(), range),
        None => part_of(bytes, 0..bytes.len()),
    }
}

/// Some of a document's bytes as a reply, without copying them.
pub fn part_of(bytes: &Bytes, range: Range<usize>) -> Reply {
    Reply::Parts(bytes.parts(range).map(|(shared, range)| (shared.clone(), range)).collect())
}

impl<'a> Call<'a> {
    /// One that draws nothing, with room for any answer.
    pub fn new(frame: Frame<'a>, space: u8, known: Known<'a>) -> Call<'a> {
        Call {
            frame,
            space,
            known,
            chance: Chance::NONE,
            uncompared: false,
            items_bytes_max: usize::MAX,
            items_bytes: Cell::new(0),
        }
    }

    /// Whether an answer of so many items may be made. If not, what the command answers is not looked at.
    pub fn has_room_for(&self, items: usize) -> bool {
        let bytes = items.saturating_mul(size_of::<Reply>());
        if bytes > self.items_bytes_max {
            self.items_bytes.set(bytes);
        }
        self.items_bytes.get() == 0
    }

    /// The argument at `index`; to be asked only where the arity says that there is one.
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.frame.arg(index)
    }

    /// A copy of the argument at `index`, to be kept.
    pub fn blob(&self, index: usize) -> Blob {
        Blob::from(self.frame.arg(index))
    }

    /// The argument at `index` as a 64-bit integer.
    pub fn integer(&self, index: usize) -> Result<i64, Reply> {
        parse_integer(self.frame.arg(index)).ok_or(Reply::error(errors::NOT_AN_INTEGER))
    }

    /// The key that the argument at `index` names.
    pub fn key(&self, index: usize) -> KeyRef<'a> {
        KeyRef { space: self.space, name: self.frame.arg(index) }
    }

    /// The transaction's clock, ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        match &self.known {
            Known::Documents(documents) => documents.now_ms(),
            Known::Published(published) => published.now_ms(),
        }
    }

    /// The document of `key`, of any type.
    pub fn value(&self, key: KeyRef<'_>) -> Result<Option<&Value>, Reply> {
        let value = match &self.known {
            Known::Documents(documents) => documents.value(key),
            Known::Published(published) => published.value(key),
        };
        value.map_err(|error| document_error(&error))
    }

    /// The byte string of `key`.
    pub fn bytes(&self, key: KeyRef<'_>) -> Result<Option<&Bytes>, Reply> {
        match self.value(key)?.map(|value| &value.data) {
            None => Ok(None),
            Some(Data::Bytes(bytes)) => Ok(Some(bytes)),
            Some(_) => Err(Reply::error(errors::WRONGTYPE)),
        }
    }

    /// The document of `key` as one text, for the reply: a byte string, or a record of a database.
    pub fn text(&self, key: KeyRef<'_>) -> Result<Reply, Reply> {
        let Some(value) = self.value(key)? else { return Ok(Reply::Nil) };
        if let Data::Bytes(bytes) = &value.data {
            return Ok(bulk_of(bytes));
        }
        let text = match &self.known {
            Known::Documents(documents) => documents.text_of(key, value),
            Known::Published(published) => published.text_of(key, value),
        };
        text.map(|text| Reply::bulk(&text)).ok_or(Reply::error(errors::WRONGTYPE))
    }

    /// Has the document of `key` expire at this moment, in ms since the Unix epoch; at once, if it has come.
    /// `relative`: the moment was told as a duration. In front of a database's records only what is cached of it
    /// expires.
    pub fn expire_at(&mut self, key: KeyRef<'_>, moment_ms: i64, relative: bool) -> Result<(), Reply> {
        let moment_ms = u64::try_from(moment_ms).unwrap_or(0);
        if let Known::Documents(documents) = &mut self.known
            && documents.expiry_is_freshness(key)
        {
            return documents.bound_freshness(key, moment_ms, relative).map_err(|error| document_error(&error));
        }
        let change = if moment_ms > self.now_ms() { Change::ExpireAt(moment_ms) } else { Change::Delete };
        self.change(key, change)?;
        self.count_from_commit(key, relative);
        Ok(())
    }

    /// Has the expiry that `key` was just given count from the commit, if `relative`: it was told as a duration.
    pub fn count_from_commit(&mut self, key: KeyRef<'_>, relative: bool) {
        if let Known::Documents(documents) = &mut self.known
            && relative
        {
            documents.count_from_commit(key);
        }
    }

    /// Whether the expiry of `key` was given by this transaction as a duration.
    pub fn counts_from_commit(&self, key: KeyRef<'_>) -> bool {
        matches!(&self.known, Known::Documents(documents) if documents.counts_from_commit(key))
    }

    /// Whether a command that deletes drops no more than the cached copy of `key`: that is done then.
    pub fn forgets(&mut self, key: KeyRef<'_>) -> Result<bool, Reply> {
        let Known::Documents(documents) = &mut self.known else { return Ok(false) };
        if documents.on_delete(key) != OnDelete::Invalidate {
            return Ok(false);
        }
        documents.bound_freshness(key, 0, false).map(|()| true).map_err(|error| document_error(&error))
    }

    /// Whether an expiry is no part of the document of `key`.
    pub fn expiry_is_freshness(&self, key: KeyRef<'_>) -> bool {
        matches!(&self.known, Known::Documents(documents) if documents.expiry_is_freshness(key))
    }

    /// The hash of `key`.
    pub fn hash(&self, key: KeyRef<'_>) -> Result<Option<&Hash>, Reply> {
        match self.value(key)?.map(|value| &value.data) {
            None => Ok(None),
            Some(Data::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(Reply::error(errors::WRONGTYPE)),
        }
    }

    /// The list of `key`.
    pub fn list(&self, key: KeyRef<'_>) -> Result<Option<&List>, Reply> {
        match self.value(key)?.map(|value| &value.data) {
            None => Ok(None),
            Some(Data::List(list)) => Ok(Some(list)),
            Some(_) => Err(Reply::error(errors::WRONGTYPE)),
        }
    }

    /// The set of `key`.
    pub fn set(&self, key: KeyRef<'_>) -> Result<Option<&Set>, Reply> {
        match self.value(key)?.map(|value| &value.data) {
            None => Ok(None),
            Some(Data::Set(set)) => Ok(Some(set)),
            Some(_) => Err(Reply::error(errors::WRONGTYPE)),
        }
    }

    /// Whether nobody can say what the document of `key` holds: removals are made whether there is something or not.
    pub fn unseen(&self, key: KeyRef<'_>) -> bool {
        matches!(&self.known, Known::Documents(documents) if documents.unseen(key))
    }

    /// What `key` holds is told, or decides what the command writes there.
    pub fn tell(&mut self, key: KeyRef<'_>) {
        if let Known::Documents(documents) = &mut self.known {
            documents.tell(key);
        }
    }

    /// Whether `key` has a document.
    pub fn exists(&self, key: KeyRef<'_>) -> Result<bool, Reply> {
        Ok(self.value(key)?.is_some())
    }

    /// Puts a byte string under `key`.
    pub fn put(&mut self, key: KeyRef<'_>, bytes: &[u8], expires_at_ms: Option<u64>) -> Result<(), Reply> {
        let put = match &mut self.known {
            Known::Documents(documents) => documents.put(key, bytes, expires_at_ms),
            Known::Published(_) => Err(DocumentError::ReadOnly),
        };
        put.map_err(|error| document_error(&error))
    }

    /// Changes the document of `key`.
    pub fn change(&mut self, key: KeyRef<'_>, change: Change) -> Result<(), Reply> {
        self.try_change(key, change).map_err(|error| document_error(&error))
    }

    /// As [`Call::change`], for a command that words its own errors.
    pub fn try_change(&mut self, key: KeyRef<'_>, change: Change) -> Result<(), DocumentError> {
        match &mut self.known {
            Known::Documents(documents) => documents.change(key, change),
            // Only commands that are declared as reads are served so.
            Known::Published(_) => Err(DocumentError::ReadOnly),
        }
    }
}
