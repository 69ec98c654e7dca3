//! The binary form of records, and of what stands at the head of the file. Strings and numbers are those of
//! [`value::codec`](crate::value::codec); a list is its length as a number, then its elements.
//!
//! ```text
//! record   = version:1 kind:1 content
//! buffered = number, id:16, version:16, sent:1, time, [given], [check], [written], [known], [shown] or nothing
//! dropped  = number, reason, [given]
//! given    = user, id:16        check = key, version:16        key = space:1, name
//! written  = key, [change]      known = key, version:16, document or an empty string
//! shown    = key, fingerprint:8                sent  = bit 0: it was, bit 1: it is noted where it goes unchecked
//! ```

use super::NUMBERS_MAX;
use crate::change::codec::{decode_change, encode_change};
use crate::key::{KEY_BYTES_MAX, Key, SPACES};
use crate::outage::fingerprint::Fingerprint;
use crate::outage::record::{Buffered, Description, Dropped, Epoch, Loss, Record, Written};
use crate::read::Read;
use crate::store::GivenId;
use crate::tier::Effect;
use crate::value::codec::{CODEC_VERSION, CodecError, Reader, decode_value, encode_value, write_number, write_string};
use crate::version::{TxnId, Version};

const BUFFERED: u8 = 0;
const APPLIED: u8 = 1;
const QUARANTINED: u8 = 2;
const RETRIED: u8 = 3;
const DROPPED: u8 = 4;
const MERGED: u8 = 5;
const KNOWN: u8 = 6;
const MARK: u8 = 7;
/// As `DROPPED`, which has no ids and is only read, with those that clients gave.
const DROPPED_GIVEN: u8 = 8;
const ORDERED: u8 = 9;
const UNCHECKED: u8 = 10;
const SETTLED: u8 = 11;
const KNOWN_UNCHECKED: u8 = 12;

/// Longest reason in bytes; what is beyond is left out.
const REASON_BYTES_MAX: usize = 4096;

/// What the file holds one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Record(Record),
    Mark(Mark),
}

/// What the journal notes for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The boot under which it was written; as long as that lasts, nothing written is lost.
    pub(super) boot: Option<u128>,
    /// No number above this one is acknowledged until a later mark is safe on disk.
    pub(super) reserved: u64,
    /// All that was acknowledged is synced before it is acknowledged.
    pub(super) always: bool,
    /// The journal was closed: nothing came after.
    pub(super) clean: bool,
}

/// What stands at the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) epoch: Epoch,
    /// Eight bytes before every record, drawn for this file: by them records are found behind damage.
    pub(super) marker: u64,
    /// The file was safe on disk up to here before it got its name.
    pub(super) safe_bytes: u64,
    /// No number up to this one is given again.
    pub(super) last_number: u64,
    pub(super) description: Description,
    pub(super) losses: Vec<Loss>,
}

/// What a record does to the set of pending transactions, without its content.
pub(super) fn effect_of(record: &Record) -> Effect {
    match record {
        Record::Buffered(buffered) => Effect::Added(buffered.number),
        Record::Applied(numbers) => Effect::Gone(numbers.clone()),
        Record::Quarantined { number, .. } | Record::Ordered { number } => Effect::Stands(*number),
        Record::Retried { number } => Effect::Retried(*number),
        Record::Dropped(dropped) => Effect::Ended(dropped.number),
        Record::Merged { into, from } => Effect::Replaced { into: into.number, from: from.clone() },
        Record::Known { number, .. } | Record::Unchecked { number } | Record::Settled { number, .. } => {
            Effect::Known(*number)
        }
    }
}

pub(super) fn encode_record(record: &Record) -> Vec<u8> {
    let mut out = vec![CODEC_VERSION];
    match record {
        Record::Buffered(buffered) => {
            out.push(BUFFERED);
            write_buffered(buffered, &mut out);
        }
        Record::Applied(numbers) => {
            out.push(APPLIED);
            write_numbers(numbers, &mut out);
        }
        Record::Quarantined { number, reason } => write_reason(QUARANTINED, *number, reason, &mut out),
        Record::Retried { number } => {
            out.push(RETRIED);
            write_number(*number, &mut out);
        }
        Record::Ordered { number } => {
            out.push(ORDERED);
            write_number(*number, &mut out);
        }
        Record::Dropped(Dropped { number, reason, given }) => {
            write_reason(DROPPED_GIVEN, *number, reason, &mut out);
            write_given(given, &mut out);
        }
        Record::Merged { into, from } => {
            out.push(MERGED);
            write_numbers(from, &mut out);
            write_buffered(into, &mut out);
        }
        Record::Known { number, key, read, unchecked } => {
            out.push(if *unchecked { KNOWN_UNCHECKED } else { KNOWN });
            write_number(*number, &mut out);
            write_known(key, read, &mut out);
        }
        Record::Unchecked { number } => {
            out.push(UNCHECKED);
            write_number(*number, &mut out);
        }
        Record::Settled { number, key, fingerprint, stored } => {
            out.push(SETTLED);
            write_number(*number, &mut out);
            write_key(key, &mut out);
            out.extend_from_slice(&fingerprint.0.to_le_bytes());
            out.push(u8::from(stored.is_some()));
            stored.iter().for_each(|version| out.extend_from_slice(&version.to_bytes()));
        }
    }
    out
}

pub(super) fn encode_mark(mark: &Mark) -> Vec<u8> {
    let mut out = vec![CODEC_VERSION, MARK];
    let flags = [mark.boot.is_some(), mark.always, mark.clean];
    out.push(flags.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit).sum());
    out.extend_from_slice(&mark.boot.unwrap_or_default().to_le_bytes());
    write_number(mark.reserved, &mut out);
    out
}

pub(super) fn encode_header(header: &Header) -> Vec<u8> {
    let mut out = vec![CODEC_VERSION];
    out.extend_from_slice(&header.epoch.0.to_le_bytes());
    out.extend_from_slice(&header.marker.to_le_bytes());
    // Of a fixed length: it is written when all else stands.
    out.extend_from_slice(&header.safe_bytes.to_le_bytes());
    write_number(header.last_number, &mut out);
    write_string(header.description.mapping.as_bytes(), &mut out);
    write_string(header.description.catalogue.as_bytes(), &mut out);
    write_number(header.losses.len() as u64, &mut out);
    for loss in &header.losses {
        out.extend_from_slice(&loss.epoch.0.to_le_bytes());
        [loss.after, loss.up_to, loss.seen].into_iter().for_each(|number| write_number(number, &mut out));
    }
    out
}

pub(super) fn decode_entry(bytes: &[u8]) -> Result<Entry, CodecError> {
    let mut reader = Reader::new(bytes)?;
    let reader = &mut reader;
    let record = match reader.byte()? {
        BUFFERED => Record::Buffered(read_buffered(reader)?),
        APPLIED => Record::Applied(read_numbers(reader)?),
        QUARANTINED => Record::Quarantined { number: reader.number()?, reason: read_text(reader)? },
        RETRIED => Record::Retried { number: reader.number()? },
        ORDERED => Record::Ordered { number: reader.number()? },
        kind @ (DROPPED | DROPPED_GIVEN) => {
            let (number, reason) = (reader.number()?, read_text(reader)?);
            let given = if kind == DROPPED { Vec::new() } else { read_given(reader)? };
            Record::Dropped(Dropped { number, reason, given })
        }
        MERGED => {
            let from = read_numbers(reader)?;
            Record::Merged { into: read_buffered(reader)?, from }
        }
        kind @ (KNOWN | KNOWN_UNCHECKED) => {
            let number = reader.number()?;
            let (key, read) = read_known(reader)?;
            Record::Known { number, key, read, unchecked: kind == KNOWN_UNCHECKED }
        }
        UNCHECKED => Record::Unchecked { number: reader.number()? },
        SETTLED => Record::Settled {
            number: reader.number()?,
            key: read_key(reader)?,
            fingerprint: Fingerprint(reader.fixed()?),
            stored: match reader.byte()? {
                0 => None,
                1 => Some(read_version(reader)?),
                tag => return Err(CodecError::UnknownTag { what: "flag", tag }),
            },
        },
        MARK => {
            let flags = reader.byte()?;
            let boot = read_word(reader)?;
            let boot = (flags & 1 != 0).then_some(boot);
            let mark = Mark { boot, reserved: reader.number()?, always: flags & 2 != 0, clean: flags & 4 != 0 };
            reader.end()?;
            return Ok(Entry::Mark(mark));
        }
        tag => return Err(CodecError::UnknownTag { what: "record", tag }),
    };
    reader.end()?;
    Ok(Entry::Record(record))
}

pub(super) fn decode_header(bytes: &[u8]) -> Result<Header, CodecError> {
    let mut reader = Reader::new(bytes)?;
    let reader = &mut reader;
    let epoch = Epoch(read_word(reader)?);
    let marker = reader.fixed()?;
    let safe_bytes = reader.fixed()?;
    let last_number = reader.number()?;
    let description = Description { mapping: read_text(reader)?, catalogue: read_text(reader)? };
    let losses = read_list(reader, |reader| {
        let epoch = Epoch(read_word(reader)?);
        Ok(Loss { epoch, after: reader.number()?, up_to: reader.number()?, seen: reader.number()? })
    })?;
    reader.end()?;
    Ok(Header { epoch, marker, safe_bytes, last_number, description, losses })
}

fn write_buffered(buffered: &Buffered, out: &mut Vec<u8>) {
    write_number(buffered.number, out);
    out.extend_from_slice(&buffered.id.0.to_bytes());
    out.extend_from_slice(&buffered.version.to_bytes());
    out.push(u8::from(buffered.sent) | u8::from(!buffered.unchecked) << 1);
    write_number(buffered.buffered_at_ms, out);
    write_given(&buffered.given, out);
    write_number(buffered.checks.len() as u64, out);
    for (key, version) in &buffered.checks {
        write_key(key, out);
        out.extend_from_slice(&version.to_bytes());
    }
    write_number(buffered.writes.len() as u64, out);
    let mut encoded = Vec::new();
    for written in &buffered.writes {
        write_key(&written.key, out);
        write_number(written.changes.len() as u64, out);
        for change in &written.changes {
            encoded.clear();
            encode_change(change, &mut encoded);
            write_string(&encoded, out);
        }
    }
    write_number(buffered.known.len() as u64, out);
    buffered.known.iter().for_each(|(key, read)| write_known(key, read, out));
    let told: Vec<u64> = (0..).zip(&buffered.writes).filter(|(_, written)| written.told).map(|(at, _)| at).collect();
    // Nothing in place of empty lists at the end: so it was before there were these.
    if !buffered.shown.is_empty() || !told.is_empty() {
        write_number(buffered.shown.len() as u64, out);
    }
    for (key, fingerprint) in &buffered.shown {
        write_key(key, out);
        out.extend_from_slice(&fingerprint.0.to_le_bytes());
    }
    if !told.is_empty() {
        write_numbers(&told, out);
    }
}

fn read_buffered(reader: &mut Reader<'_>) -> Result<Buffered, CodecError> {
    let number = reader.number()?;
    let id = TxnId(read_version(reader)?);
    let version = read_version(reader)?;
    let flags = reader.byte()?;
    if flags > 3 {
        return Err(CodecError::UnknownTag { what: "flag", tag: flags });
    }
    let mut buffered = Buffered {
        number,
        id,
        version,
        sent: flags & 1 != 0,
        // Who wrote it before there was that bit noted nothing of this.
        unchecked: flags & 2 == 0,
        buffered_at_ms: reader.number()?,
        given: read_given(reader)?,
        checks: read_list(reader, |reader| Ok((read_key(reader)?, read_version(reader)?)))?,
        writes: read_list(reader, |reader| {
            let key = read_key(reader)?;
            let changes = read_list(reader, |reader| decode_change(slice(reader)?))?;
            Ok(Written { key, changes, told: false })
        })?,
        known: read_list(reader, read_known)?,
        shown: match reader.end().is_ok() {
            true => Vec::new(),
            false => read_list(reader, |reader| Ok((read_key(reader)?, Fingerprint(reader.fixed()?))))?,
        },
    };
    if reader.end().is_err() {
        for at in read_numbers(reader)? {
            let written = usize::try_from(at).ok().and_then(|at| buffered.writes.get_mut(at));
            written.ok_or(CodecError::MalformedNumber)?.told = true;
        }
    }
    Ok(buffered)
}

fn write_given(given: &[GivenId], out: &mut Vec<u8>) {
    write_number(given.len() as u64, out);
    for given in given {
        write_string(&given.user, out);
        out.extend_from_slice(&given.id.to_le_bytes());
    }
}

fn read_given(reader: &mut Reader<'_>) -> Result<Vec<GivenId>, CodecError> {
    read_list(reader, |reader| Ok(GivenId { user: reader.string()?, id: read_word(reader)? }))
}

fn write_known(key: &Key, read: &Read, out: &mut Vec<u8>) {
    write_key(key, out);
    out.extend_from_slice(&read.version.to_bytes());
    let mut encoded = Vec::new();
    // Documents without elements have no encoding, and are none.
    if let Some(value) = read.value.as_ref().filter(|value| !value.is_empty_collection()) {
        encode_value(value, &mut encoded);
    }
    write_string(&encoded, out);
}

fn read_known(reader: &mut Reader<'_>) -> Result<(Key, Read), CodecError> {
    let key = read_key(reader)?;
    let version = read_version(reader)?;
    let encoded = slice(reader)?;
    let value = if encoded.is_empty() { None } else { Some(decode_value(encoded)?) };
    Ok((key, Read { value, version }))
}

fn write_key(key: &Key, out: &mut Vec<u8>) {
    out.push(key.space());
    write_string(key.name(), out);
}

fn read_key(reader: &mut Reader<'_>) -> Result<Key, CodecError> {
    let space = reader.byte()?;
    let name = slice(reader)?;
    if space >= SPACES {
        return Err(CodecError::UnknownTag { what: "key space", tag: space });
    }
    if name.len() > KEY_BYTES_MAX {
        return Err(CodecError::MalformedNumber);
    }
    Ok(Key::new(space, name))
}

/// Numbers, ascending, as runs: the gap before each, and its length.
fn write_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in &numbers {
        match runs.last_mut() {
            Some((start, length)) if *start + *length == *number => *length += 1,
            _ => runs.push((*number, 1)),
        }
    }
    write_number(runs.len() as u64, out);
    let mut end = 0;
    for (start, length) in runs {
        write_number(start - end, out);
        write_number(length, out);
        end = start + length;
    }
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<u64>, CodecError> {
    let mut numbers = Vec::new();
    let mut end = 0u64;
    for _ in 0..reader.number()? {
        let start = end.checked_add(reader.number()?).ok_or(CodecError::MalformedNumber)?;
        let length = reader.number()?;
        end = start.checked_add(length).ok_or(CodecError::MalformedNumber)?;
        if length == 0 || length > (NUMBERS_MAX - numbers.len()) as u64 {
            return Err(CodecError::MalformedNumber);
        }
        numbers.extend(start..end);
    }
    Ok(numbers)
}

fn write_reason(kind: u8, number: u64, reason: &str, out: &mut Vec<u8>) {
    out.push(kind);
    write_number(number, out);
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    write_string(&reason.as_bytes()[..end], out);
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, CodecError> {
    Ok(String::from_utf8_lossy(slice(reader)?).into_owned())
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, CodecError>,
) -> Result<Vec<T>, CodecError> {
    let mut list = Vec::new();
    for _ in 0..reader.number()? {
        list.push(read(reader)?);
    }
    Ok(list)
}

fn slice<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], CodecError> {
    let length = usize::try_from(reader.number()?).map_err(|_| CodecError::CutShort)?;
    reader.take(length)
}

fn read_word(reader: &mut Reader<'_>) -> Result<u128, CodecError> {
    let bytes = reader.take(16)?.try_into().map_err(|_| CodecError::CutShort)?;
    Ok(u128::from_le_bytes(bytes))
}

fn read_version(reader: &mut Reader<'_>) -> Result<Version, CodecError> {
    let bytes = reader.take(16)?.try_into().map_err(|_| CodecError::CutShort)?;
    Ok(Version::from_bytes(bytes))
}

/// What a rewriting makes of a merged record: what it replaced is not there any more. That it did is still said, for
/// those that hold a ticket of that.
pub(super) fn alone(body: &[u8]) -> Result<Option<Vec<u8>>, CodecError> {
    match decode_entry(body)? {
        Entry::Record(Record::Merged { into, .. }) => {
            Ok(Some(encode_record(&Record::Merged { into, from: Vec::new() })))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    /// A release before there was that bit noted nothing of what it sent.
    #[test]
    fn what_an_earlier_release_has_journaled_is_unchecked() {
        let version = Version { incarnation: 1, sequence: 2 };
        let key = Key::new(0, b"k");
        for sent in [false, true] {
            let mut buffered = Buffered {
                number: 3,
                id: TxnId(version),
                version,
                given: Vec::new(),
                sent,
                unchecked: true,
                buffered_at_ms: 4,
                checks: vec![(key.clone(), version)],
                writes: vec![Written { key: key.clone(), changes: vec![Change::Delete], told: false }],
                shown: Vec::new(),
                known: Vec::new(),
            };
            let early = encode_record(&Record::Buffered(buffered.clone()));
            buffered.unchecked = false;
            let now = encode_record(&Record::Buffered(buffered.clone()));
            let differ: Vec<(u8, u8)> = early.iter().copied().zip(now).filter(|(early, now)| early != now).collect();
            // It wrote whether it was sent, and nothing else.
            assert_eq!(differ, [(u8::from(sent), u8::from(sent) | 2)]);
            buffered.unchecked = true;
            assert_eq!(decode_entry(&early), Ok(Entry::Record(Record::Buffered(buffered))));
        }
    }
}
