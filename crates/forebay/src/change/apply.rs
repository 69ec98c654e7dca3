//! Applying changes: a pure function of document and change.

use super::number::{add_float, parse_integer};
use super::{ApplyError, Change, End};
use crate::value::{Blob, Bytes, DOCUMENT_BYTES_MAX, Data, Hash, List, Set, Value, blob_bytes};

/// Applies one change to a document (`None`: absent), as Redis would: an operation on an absent document makes one
/// without expiry, one on a document of another kind is an error. On an error the document is as it was.
pub fn apply(document: &mut Option<Value>, change: &Change) -> Result<(), ApplyError> {
    match change {
        Change::Put(value) => put(document, value)?,
        Change::Delete => *document = None,
        Change::ExpireAt(at_ms) => {
            if let Some(value) = document {
                value.expires_at_ms = Some(*at_ms);
            }
        }
        Change::Persist => {
            if let Some(value) = document {
                value.expires_at_ms = None;
            }
        }
        Change::RemoveExpired(by_ms) => {
            if document.as_ref().is_some_and(|value| value.expired(*by_ms)) {
                *document = None;
            }
        }
        Change::AddInteger { field, delta } => update(document, field.as_ref(), |old| add_integer(old, *delta))?,
        Change::AddFloat { field, delta } => update(document, field.as_ref(), |old| add_float(old, delta))?,
        Change::Append(bytes) => append(document, bytes)?,
        Change::WriteAt { offset, bytes } => write_at(document, *offset, bytes)?,
        Change::SetField(field, value) => set_field(document, field, value)?,
        Change::UnsetField(field) => {
            let Some(hash) = existing::<Hash>(document)? else { return Ok(()) };
            hash.remove(field);
            if hash.is_empty() {
                *document = None;
            }
        }
        Change::Push(end, element) => push(document, *end, element)?,
        Change::Pop(end) => {
            let Some(list) = existing::<List>(document)? else { return Ok(()) };
            match end {
                End::Left => list.pop_left(),
                End::Right => list.pop_right(),
            };
            if list.is_empty() {
                *document = None;
            }
        }
        Change::RemoveEqual { count, element } => {
            let Some(list) = existing::<List>(document)? else { return Ok(()) };
            list.remove_equal(*count, element);
            if list.is_empty() {
                *document = None;
            }
        }
        Change::AddMember(member) => add_member(document, member)?,
        Change::RemoveMember(member) => {
            let Some(set) = existing::<Set>(document)? else { return Ok(()) };
            set.remove(member);
            if set.is_empty() {
                *document = None;
            }
        }
    }
    Ok(())
}

/// Applies `changes` in order, all or none: at the first error the document is as it was before the first change.
pub fn apply_all(document: &mut Option<Value>, changes: &[Change]) -> Result<(), ApplyError> {
    let [first, rest @ ..] = changes else { return Ok(()) };
    if rest.is_empty() {
        return apply(document, first);
    }
    let before = document.clone();
    for change in changes {
        if let Err(error) = apply(document, change) {
            *document = before;
            return Err(error);
        }
    }
    Ok(())
}

/// The kinds of document that changes reach into.
trait Part: Default {
    /// The part of the document, unless it has another kind.
    fn of(data: &mut Data) -> Option<&mut Self>;
    /// The document of this part.
    fn into_data(self) -> Data;
}

impl Part for Hash {
    fn of(data: &mut Data) -> Option<&mut Hash> {
        if let Data::Hash(hash) = data { Some(hash) } else { None }
    }

    fn into_data(self) -> Data {
        Data::Hash(self)
    }
}

impl Part for List {
    fn of(data: &mut Data) -> Option<&mut List> {
        if let Data::List(list) = data { Some(list) } else { None }
    }

    fn into_data(self) -> Data {
        Data::List(self)
    }
}

impl Part for Set {
    fn of(data: &mut Data) -> Option<&mut Set> {
        if let Data::Set(set) = data { Some(set) } else { None }
    }

    fn into_data(self) -> Data {
        Data::Set(self)
    }
}

impl Part for Bytes {
    fn of(data: &mut Data) -> Option<&mut Bytes> {
        if let Data::Bytes(bytes) = data { Some(bytes) } else { None }
    }

    fn into_data(self) -> Data {
        Data::Bytes(self)
    }
}

/// The document's part, `None` if the document is absent.
fn existing<P: Part>(document: &mut Option<Value>) -> Result<Option<&mut P>, ApplyError> {
    let Some(value) = document else { return Ok(None) };
    let kind = value.kind();
    P::of(&mut value.data).map(Some).ok_or(ApplyError::WrongKind(kind))
}

/// Changes the document's part, or a new one if the document is absent, and keeps what came of it. `change` leaves the
/// part as it was if it fails.
fn existing_or_new<P: Part>(
    document: &mut Option<Value>,
    change: impl FnOnce(&mut P) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    if let Some(part) = existing::<P>(document)? {
        return change(part);
    }
    let mut part = P::default();
    change(&mut part)?;
    *document = Some(Value { data: part.into_data(), expires_at_ms: None });
    Ok(())
}

/// Refuses growth beyond the limit. What does not grow is let through, so that a document that is too large already
/// (the limit of whoever wrote it was another) can be made smaller.
fn admit(bytes_before: usize, bytes_after: usize) -> Result<(), ApplyError> {
    if bytes_after > DOCUMENT_BYTES_MAX && bytes_after > bytes_before {
        return Err(ApplyError::TooLarge);
    }
    Ok(())
}

/// More than what one more element adds to the array, tree or chunks that hold the elements.
const INDEX_GROWTH_BYTES_MAX: usize = 16 * 1024;

/// Refuses growth beyond the limit by an element of `added_bytes` heap bytes. The exact size, which takes a search, is
/// computed near the limit only.
fn admit_element(
    bytes_before: usize,
    added_bytes: usize,
    bytes_after: impl FnOnce() -> usize,
) -> Result<(), ApplyError> {
    let at_most = bytes_before.saturating_add(added_bytes).saturating_add(INDEX_GROWTH_BYTES_MAX);
    if at_most <= DOCUMENT_BYTES_MAX { Ok(()) } else { admit(bytes_before, bytes_after()) }
}

fn admit_field(hash: &Hash, field: &[u8], value_len: usize) -> Result<(), ApplyError> {
    let added_bytes = blob_bytes(field.len()).saturating_add(blob_bytes(value_len));
    admit_element(hash.size(), added_bytes, || hash.size_with(field, value_len))
}

fn put(document: &mut Option<Value>, value: &Value) -> Result<(), ApplyError> {
    admit(0, value.size())?;
    // "A hash, list or set is never empty" holds for documents whatever a caller puts.
    *document = if value.is_empty_collection() { None } else { Some(value.clone()) };
    Ok(())
}

/// Replaces the bytes of the document or of a field by what `compute` makes of them.
fn update(
    document: &mut Option<Value>,
    field: Option<&Blob>,
    compute: impl FnOnce(Option<&[u8]>) -> Result<Blob, ApplyError>,
) -> Result<(), ApplyError> {
    if let Some(field) = field {
        return existing_or_new(document, |hash: &mut Hash| {
            let value = compute(hash.get(field).map(|old| &**old))?;
            admit_field(hash, field, value.len())?;
            hash.insert(field.clone(), value);
            Ok(())
        });
    }
    let old = existing::<Bytes>(document)?;
    let bytes_before = old.as_ref().map_or(0, |old| blob_bytes(old.len()));
    let new = compute(old.map(|old| old.number_text()))?;
    admit(bytes_before, blob_bytes(new.len()))?;
    existing_or_new(document, |bytes: &mut Bytes| {
        *bytes = new.into();
        Ok(())
    })
}

fn add_integer(old: Option<&[u8]>, delta: i64) -> Result<Blob, ApplyError> {
    let old = old.map_or(Some(0), parse_integer).ok_or(ApplyError::NotAnInteger)?;
    let sum = old.checked_add(delta).ok_or(ApplyError::Overflow)?;
    Ok(Blob::from(sum.to_string().as_bytes()))
}

fn append(document: &mut Option<Value>, added: &Blob) -> Result<(), ApplyError> {
    existing_or_new(document, |bytes: &mut Bytes| {
        if bytes.is_empty() {
            admit(blob_bytes(0), blob_bytes(added.len()))?;
            *bytes = added.clone().into();
            return Ok(());
        }
        let offset = bytes.len();
        overwrite(bytes, offset, added)
    })
}

fn write_at(document: &mut Option<Value>, offset: usize, written: &Blob) -> Result<(), ApplyError> {
    if written.is_empty() {
        // Makes no document and pads none, yet minds the kind: as SETRANGE.
        return existing::<Bytes>(document).map(|_| ());
    }
    existing_or_new(document, |bytes: &mut Bytes| overwrite(bytes, offset, written))
}

fn overwrite(bytes: &mut Bytes, offset: usize, written: &[u8]) -> Result<(), ApplyError> {
    let end = offset.checked_add(written.len()).ok_or(ApplyError::TooLarge)?;
    if end > bytes.len() {
        admit(blob_bytes(bytes.len()), blob_bytes(end))?;
    }
    bytes.write_at(offset, written);
    Ok(())
}

fn set_field(document: &mut Option<Value>, field: &Blob, value: &Blob) -> Result<(), ApplyError> {
    existing_or_new(document, |hash: &mut Hash| {
        admit_field(hash, field, value.len())?;
        hash.insert(field.clone(), value.clone());
        Ok(())
    })
}

fn push(document: &mut Option<Value>, end: End, element: &Blob) -> Result<(), ApplyError> {
    existing_or_new(document, |list: &mut List| {
        admit(list.size(), list.size_with(element.len()))?;
        match end {
            End::Left => list.push_left(element.clone()),
            End::Right => list.push_right(element.clone()),
        }
        Ok(())
    })
}

fn add_member(document: &mut Option<Value>, member: &Blob) -> Result<(), ApplyError> {
    existing_or_new(document, |set: &mut Set| {
        admit_element(set.size(), blob_bytes(member.len()), || set.size_with(member))?;
        set.insert(member.clone());
        Ok(())
    })
}
