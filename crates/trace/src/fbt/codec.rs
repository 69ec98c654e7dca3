//! Entries of a block: records and definitions to bytes and back.

use bytes::Bytes;

use super::layout::KEY_BYTES_MAX;
use crate::dictionary::{Definition, HINT_TYPES_MAX, HintSchema, HintSetDefinition, NAME_BYTES_MAX};
use crate::record::{Kind, Record, TraceKey};
use crate::words::RETURNED_WORDS_MAX;

const TAG_SCHEMA: u8 = 1;
const TAG_SET: u8 = 2;
const TAG_TYPE: u8 = 3;
const TAG_VERTEX: u8 = 4;
const TAG_RETURNED: u8 = 5;
/// Set in the tag of a record; the low four bits are its kind.
const TAG_RECORD: u8 = 0x80;
const TAG_RECORD_SPACE: u8 = 0x20;
const TAG_RECORD_KEY_BYTES: u8 = 0x10;
const TAG_RECORD_KIND: u8 = 0x0f;
const TAG_RECORD_RESERVED: u8 = 0x40;

const FIELD_TIME: u8 = 1;
const FIELD_SIZE: u8 = 2;
const FIELD_COST: u8 = 4;
const FIELD_CLIENT: u8 = 8;
const FIELD_TXN: u8 = 16;
const FIELD_POSITION: u8 = 32;
const FIELD_HINTS: u8 = 64;
const FIELD_CHARGED: u8 = 128;

/// What a record takes over from the record before it in its block; all zero at a block's start.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    time_us: u64,
    space: u8,
    client: u32,
    txn: u64,
    position: [u16; 3],
    hints: u32,
}

/// One entry of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Record(Record),
    Definition(Definition),
    /// What the next record returned: fingerprints of its words.
    Returned(Vec<u64>),
}

/// Appends a record. The caller has seen to its key: none exactly at a transaction's end, and within its limit.
pub(super) fn encode_record(out: &mut Vec<u8>, context: &mut Context, record: &Record) {
    let start = out.len();
    let position = [record.txn_type, record.level, record.vertex];
    let mut tag = TAG_RECORD | record.kind as u8;
    let mut fields = 0;
    out.extend([0, 0]);
    if record.space != context.space {
        tag |= TAG_RECORD_SPACE;
        out.push(record.space);
    }
    if let Some(time_us) = record.time_us {
        fields |= FIELD_TIME;
        put_delta(out, context.time_us, time_us);
        context.time_us = time_us;
    }
    if let Some(size) = record.size {
        fields |= FIELD_SIZE;
        put(out, u64::from(size));
    }
    if let Some(cost_us) = record.cost_us {
        fields |= FIELD_COST;
        put(out, u64::from(cost_us));
    }
    if let Some(charged) = record.charged {
        fields |= FIELD_CHARGED;
        put(out, u64::from(charged));
    }
    if record.client != context.client {
        fields |= FIELD_CLIENT;
        put(out, u64::from(record.client));
    }
    if record.txn != context.txn {
        fields |= FIELD_TXN;
        put_delta(out, context.txn, record.txn);
    }
    if position != context.position {
        fields |= FIELD_POSITION;
        position.iter().for_each(|&number| put(out, u64::from(number)));
    }
    if record.hints != context.hints {
        fields |= FIELD_HINTS;
        put(out, u64::from(record.hints));
    }
    match &record.key {
        TraceKey::None => {}
        TraceKey::Number(number) => put(out, *number),
        TraceKey::Bytes(bytes) => {
            tag |= TAG_RECORD_KEY_BYTES;
            put_bytes(out, bytes);
        }
    }
    out[start] = tag;
    out[start + 1] = fields;
    context.space = record.space;
    context.client = record.client;
    context.txn = record.txn;
    context.position = position;
    context.hints = record.hints;
}

/// Appends a definition.
pub(super) fn encode_definition(out: &mut Vec<u8>, definition: &Definition) {
    let list = |out: &mut Vec<u8>, texts: &[Bytes]| {
        put(out, texts.len() as u64);
        texts.iter().for_each(|text| put_bytes(out, text));
    };
    match definition {
        Definition::Schema(id, schema) => {
            out.push(TAG_SCHEMA);
            put(out, u64::from(*id));
            put(out, u64::from(schema.client));
            put_bytes(out, &schema.name);
            list(out, &schema.types);
        }
        Definition::Set(id, set) => {
            out.push(TAG_SET);
            put(out, u64::from(*id));
            put(out, u64::from(set.schema));
            list(out, &set.values);
        }
        Definition::Type(id, name) => {
            out.push(TAG_TYPE);
            put(out, u64::from(*id));
            put_bytes(out, name);
        }
        Definition::Vertex(txn_type, id, name) => {
            out.push(TAG_VERTEX);
            put(out, u64::from(*txn_type));
            put(out, u64::from(*id));
            put_bytes(out, name);
        }
    }
}

/// Appends what the record after it returned.
pub(super) fn encode_returned(out: &mut Vec<u8>, words: &[u64]) {
    out.push(TAG_RETURNED);
    put(out, words.len() as u64);
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// LEB128: seven bits a byte, the lowest first, the high bit says that more follow.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The difference modulo 2^64, as a signed number in zigzag.
fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    let delta = to.wrapping_sub(from) as i64;
    put(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads entries from a block's content; errors say what is wrong there.
pub(super) struct Entries<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(content: &'a [u8], at: usize) -> Entries<'a> {
        Entries { content, at }
    }

    /// Bytes read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn entry(&mut self, context: &mut Context) -> Result<Entry, String> {
        let tag = self.byte()?;
        if tag & TAG_RECORD != 0 {
            return self.record(tag, context).map(Entry::Record);
        }
        let definition = match tag {
            TAG_SCHEMA => {
                let (id, client) = (self.number("hint schema")?, self.number("client")?);
                Definition::Schema(id, HintSchema { client, name: self.name()?, types: self.list()? })
            }
            TAG_SET => {
                let (id, schema) = (self.number("hint set")?, self.number("hint schema")?);
                Definition::Set(id, HintSetDefinition { schema, values: self.list()? })
            }
            TAG_TYPE => Definition::Type(self.number("transaction type")?, self.name()?),
            TAG_VERTEX => Definition::Vertex(self.number("transaction type")?, self.number("vertex")?, self.name()?),
            TAG_RETURNED => return self.returned().map(Entry::Returned),
            other => return Err(format!("no entry begins with {other}")),
        };
        Ok(Entry::Definition(definition))
    }

    fn record(&mut self, tag: u8, context: &mut Context) -> Result<Record, String> {
        let fields = self.byte()?;
        let kind = *Kind::ALL
            .get(usize::from(tag & TAG_RECORD_KIND))
            .ok_or_else(|| format!("kind {} is not known", tag & TAG_RECORD_KIND))?;
        if tag & TAG_RECORD_RESERVED != 0 {
            return Err("reserved bits of a record are not 0".to_owned());
        }
        if tag & TAG_RECORD_SPACE != 0 {
            context.space = self.byte()?;
        }
        let mut record = Record { kind, ..Record::default() };
        if fields & FIELD_TIME != 0 {
            context.time_us = self.delta(context.time_us)?;
            record.time_us = Some(context.time_us);
        }
        if fields & FIELD_SIZE != 0 {
            record.size = Some(self.number("size")?);
        }
        if fields & FIELD_COST != 0 {
            record.cost_us = Some(self.number("cost")?);
        }
        if fields & FIELD_CHARGED != 0 {
            record.charged = Some(self.number("charge")?);
        }
        if fields & FIELD_CLIENT != 0 {
            context.client = self.number("client")?;
        }
        if fields & FIELD_TXN != 0 {
            context.txn = self.delta(context.txn)?;
        }
        if fields & FIELD_POSITION != 0 {
            context.position = [self.number("transaction type")?, self.number("level")?, self.number("vertex")?];
        }
        if fields & FIELD_HINTS != 0 {
            context.hints = self.number("hint set")?;
        }
        record.key = match (kind.is_access(), tag & TAG_RECORD_KEY_BYTES != 0) {
            (true, true) => TraceKey::Bytes(self.text("key", KEY_BYTES_MAX)?),
            (true, false) => TraceKey::Number(self.varint()?),
            (false, false) => TraceKey::None,
            (false, true) => return Err("the end of a transaction has a key".to_owned()),
        };
        record.space = context.space;
        record.client = context.client;
        record.txn = context.txn;
        [record.txn_type, record.level, record.vertex] = context.position;
        record.hints = context.hints;
        Ok(record)
    }

    fn byte(&mut self) -> Result<u8, String> {
        let byte = *self.content.get(self.at).ok_or("an entry goes beyond its block")?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number is beyond 2^64".to_owned())
    }

    fn delta(&mut self, from: u64) -> Result<u64, String> {
        let zigzag = self.varint()?;
        Ok(from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        let number = self.varint()?;
        T::try_from(number).map_err(|_| format!("{what} {number} is too large for its {} bits", 8 * size_of::<T>()))
    }

    fn name(&mut self) -> Result<Bytes, String> {
        self.text("name", NAME_BYTES_MAX)
    }

    fn text(&mut self, what: &str, limit: usize) -> Result<Bytes, String> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if length > limit {
            return Err(format!("{what} of {length} bytes, at most {limit} are allowed"));
        }
        let end = self.at + length;
        let bytes = self.content.get(self.at..end).ok_or("an entry goes beyond its block")?;
        self.at = end;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn returned(&mut self) -> Result<Vec<u64>, String> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if length > RETURNED_WORDS_MAX {
            return Err(format!("{length} words were returned, at most {RETURNED_WORDS_MAX} are recorded"));
        }
        let end = self.at + 8 * length;
        let bytes = self.content.get(self.at..end).ok_or("an entry goes beyond its block")?;
        self.at = end;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn list(&mut self) -> Result<Vec<Bytes>, String> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if length > HINT_TYPES_MAX {
            return Err(format!("{length} hint types, at most {HINT_TYPES_MAX} are allowed"));
        }
        (0..length).map(|_| self.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_every_length_come_back() {
        let mut out = Vec::new();
        let numbers: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX >> bit]).collect();
        for &number in &numbers {
            put(&mut out, number);
            put_delta(&mut out, number, !number);
        }
        let mut entries = Entries::new(&out, 0);
        for &number in &numbers {
            assert_eq!(entries.varint(), Ok(number));
            assert_eq!(entries.delta(number), Ok(!number));
        }
        assert_eq!(entries.at(), out.len());
    }

    #[test]
    fn a_plain_record_is_small_and_what_is_wrong_is_told() {
        let mut out = Vec::new();
        let record = Record { key: TraceKey::Number(5), ..Record::default() };
        encode_record(&mut out, &mut Context::default(), &record);
        assert_eq!(out, [0x80, 0, 5]);
        let context = || Context::default();
        for wrong in [
            &[0x8f, 0, 5][..],
            &[0xc0, 0, 5],
            &[0x80, 0x80, 5],
            &[0x95, 0, 0],
            &[0x80, 0],
            &[0x90, 0, 2, 1],
            &[0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[0x80, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 5],
            &[0, 0],
            &[9],
            &[TAG_SET, 1, 1, 65],
            &[TAG_TYPE, 1, 0x81, 0x20],
            &[TAG_RETURNED, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1],
            &[TAG_RETURNED, 0x81, 2],
        ] {
            assert!(Entries::new(wrong, 0).entry(&mut context()).is_err(), "{wrong:?}");
        }
    }
}
