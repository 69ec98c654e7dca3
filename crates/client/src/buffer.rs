//! What a transaction is going to write: kept until it commits, and visible to its own reads.
//!
//! A write to a document that was not read is kept without being applied: so it conflicts with no other. Once the
//! document is read, or where a write replaces it whole, what it is going to be is known.

use std::collections::BTreeMap;

use forebay::change::{Change, apply};
use forebay::key::Key;
use forebay::value::Value;

use crate::copy::Copy;
use crate::error::{Error, shown};
use crate::write::Write;

/// Bytes of a transaction's writes at most.
pub const WRITES_BYTES_MAX: usize = 64 << 20;

/// Stands for the expiry that a document had when it was read: `Copy::expires` has the moment.
const AS_IT_WAS: u64 = u64::MAX;

/// The writes of one transaction.
#[derive(Debug, Default)]
pub struct Buffer {
    writes: Vec<Write>,
    documents: BTreeMap<Key, Document>,
    bytes: usize,
}

/// A document that is going to be written.
#[derive(Debug)]
enum Document {
    /// What it was before is not known: these changes go on top of it.
    Unread(Vec<Change>),
    /// It is going to be this.
    Known(Option<Value>),
}

/// When a document ends that the transaction is going to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It does not.
    Never,
    /// When it would have without the transaction.
    AsBefore,
    /// The server decides.
    NotKnown,
}

/// `copy`'s document, with a mark where it expires.
fn marked(copy: &Copy) -> Option<Value> {
    let mut value = copy.value.clone();
    if let Some(value) = &mut value {
        value.expires_at_ms = copy.expires.map(|_| AS_IT_WAS);
    }
    value
}

fn change(document: &mut Option<Value>, key: &Key, changed: &Change) -> Result<(), Error> {
    apply(document, changed).map_err(|why| Error::Change { key: shown(key.name()), why })
}

impl Buffer {
    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// What `key` is going to be; `None` if that is not known, or it is not written.
    pub fn known(&self, key: &Key) -> Option<&Option<Value>> {
        match self.documents.get(key)? {
            Document::Known(value) => Some(value),
            Document::Unread(_) => None,
        }
    }

    /// Adds a write; `read` is what was read of its key. Where the document is known, an error says that the write does
    /// not fit it, and nothing is added.
    pub fn add(&mut self, write: Write, read: Option<&Copy>) -> Result<(), Error> {
        let bytes = self.bytes.saturating_add(write.bytes());
        if bytes > WRITES_BYTES_MAX {
            return Err(Error::Limit { name: "WRITES_BYTES_MAX", most: WRITES_BYTES_MAX });
        }
        let before = self.documents.remove(&write.key);
        let after = match before {
            Some(Document::Known(mut value)) => {
                let changed = change(&mut value, &write.key, &write.change);
                self.documents.insert(write.key.clone(), Document::Known(value));
                changed?;
                None
            }
            Some(Document::Unread(mut changes)) if !write.replaces() => {
                changes.push(write.change.clone());
                Some(Document::Unread(changes))
            }
            None if read.is_none() && !write.replaces() => Some(Document::Unread(vec![write.change.clone()])),
            _ => {
                let mut value = read.and_then(marked);
                change(&mut value, &write.key, &write.change)?;
                Some(Document::Known(value))
            }
        };
        if let Some(after) = after {
            self.documents.insert(write.key.clone(), after);
        }
        self.writes.push(write);
        self.bytes = bytes;
        Ok(())
    }

    /// The document of `key` was read: from now on it is known what it is going to be.
    pub fn read(&mut self, key: &Key, copy: &Copy) -> Result<(), Error> {
        let Some(Document::Unread(changes)) = self.documents.get(key) else { return Ok(()) };
        let mut value = marked(copy);
        for changed in changes {
            change(&mut value, key, changed)?;
        }
        self.documents.insert(key.clone(), Document::Known(value));
        Ok(())
    }

    /// The documents in the order of their keys, and what each is going to be, if that is known.
    pub fn documents(&self) -> impl Iterator<Item = (&Key, Option<(Option<Value>, Ends)>)> {
        self.documents.iter().map(|(key, document)| {
            let known = match document {
                Document::Unread(_) => None,
                Document::Known(value) => {
                    let ends = match value.as_ref().and_then(|value| value.expires_at_ms) {
                        None => Ends::Never,
                        Some(AS_IT_WAS) => Ends::AsBefore,
                        Some(_) => Ends::NotKnown,
                    };
                    let value = value.clone().map(|value| Value { expires_at_ms: None, ..value });
                    Some((value, ends))
                }
            };
            (key, known)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use forebay::change::End;
    use forebay::value::Blob;
    use forebay::version::Version;

    use super::*;
    use crate::copies::tests::copy;

    fn key() -> Key {
        Key::new(0, b"k")
    }

    fn blob(text: &str) -> Blob {
        Blob::from(text.as_bytes())
    }

    fn read(value: Option<Value>) -> Copy {
        let mut copy = copy(Version::ZERO, None, Instant::now());
        (copy.present, copy.value) = (value.is_some(), value);
        copy
    }

    fn known(buffer: &Buffer) -> Option<Option<Value>> {
        buffer.known(&key()).cloned()
    }

    #[test]
    fn a_write_that_replaces_is_known_without_a_read() {
        let mut buffer = Buffer::default();
        buffer.add(Write::append(key(), blob("x")), None).unwrap();
        assert_eq!(known(&buffer), None);
        buffer.add(Write::set(key(), blob("1")), None).unwrap();
        buffer.add(Write::add(key(), 2), None).unwrap();
        assert_eq!(known(&buffer), Some(Some(Value::bytes(*b"3"))));
        buffer.add(Write::delete(key()), None).unwrap();
        assert_eq!(known(&buffer), Some(None));
        assert_eq!(buffer.writes().len(), 4);
    }

    #[test]
    fn a_read_shows_the_writes_before_it() {
        let mut buffer = Buffer::default();
        buffer.add(Write::add(key(), 2), None).unwrap();
        buffer.add(Write::add(key(), 3), None).unwrap();
        buffer.read(&key(), &read(Some(Value::bytes(*b"10")))).unwrap();
        assert_eq!(known(&buffer), Some(Some(Value::bytes(*b"15"))));
    }

    #[test]
    fn a_write_that_does_not_fit_is_refused_and_not_kept() {
        let mut buffer = Buffer::default();
        let list = read(Some(Value::bytes(*b"text")));
        let refused = buffer.add(Write::push(key(), End::Left, blob("x")), Some(&list));
        assert!(matches!(refused, Err(Error::Change { .. })));
        assert!(buffer.is_empty());
        buffer.add(Write::append(key(), blob("s")), Some(&list)).unwrap();
        assert!(buffer.add(Write::add(key(), 1), Some(&list)).is_err());
        assert_eq!(known(&buffer), Some(Some(Value::bytes(*b"texts"))));
        assert_eq!(buffer.writes().len(), 1);
    }

    #[test]
    fn an_expiry_goes_on_unless_the_document_is_replaced() {
        let mut copy = read(Some(Value::bytes(*b"1")));
        copy.expires = Some(Instant::now());
        let mut buffer = Buffer::default();
        buffer.add(Write::add(key(), 1), Some(&copy)).unwrap();
        let ends = |buffer: &Buffer| buffer.documents().map(|(_, known)| known.unwrap().1).next();
        assert_eq!(ends(&buffer), Some(Ends::AsBefore));
        buffer.add(Write::set(key(), blob("2")), Some(&copy)).unwrap();
        assert_eq!(ends(&buffer), Some(Ends::Never));
        let life = std::time::Duration::from_secs(1);
        buffer.add(Write::set_for(key(), blob("2"), life), Some(&copy)).unwrap();
        assert_eq!(ends(&buffer), Some(Ends::NotKnown));
    }

    #[test]
    fn writes_have_a_limit() {
        let mut buffer = Buffer::default();
        let large = Blob::from(vec![0; 15 << 20]);
        let keys = (0..5).map(|n| Key::new(0, &[n]));
        let last = keys.map(|key| buffer.add(Write::set(key, large.clone()), None)).last();
        assert!(matches!(last, Some(Err(Error::Limit { .. }))));
    }
}
