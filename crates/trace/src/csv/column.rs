//! What columns are called, and what their fields mean.

use bytes::Bytes;

use super::names::Names;
use super::row::{CLIENTS_NAMED_MAX, Row, TYPES_NAMED_MAX};
use crate::date::{clf_us, iso_us};
use crate::dictionary::Dictionary;
use crate::input::{decimal, seconds, unexpected};
use crate::lines::REQUESTS_PER_LINE_MAX;
use crate::record::{Kind, TraceKey};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Seconds, with decimals if need be, or a date.
    Time,
    /// A block number.
    Block,
    /// A key: a number where it is written as one, else its bytes.
    Key,
    /// Bytes.
    Size,
    /// Bytes of the value, where no column has the size of all.
    ValueSize,
    /// Bytes of the key, which come in addition to those of the value.
    KeySize,
    /// SCSI operation code in hex, or a word.
    Operation,
    /// How many requests the row stands for.
    Count,
    /// Microseconds that fetching costs.
    Cost,
    /// A number, or a name that gets one.
    Client,
    /// A number that stands in the record of this name.
    Hints,
    /// As above.
    Transaction,
    /// A number, or a name that gets one.
    Type,
    /// A number.
    Level,
    /// As above.
    Vertex,
    /// As above: the key space.
    Space,
    /// Bytes that forebay's cache charges.
    Charge,
    /// Whether the transaction ends with this row, and how.
    End,
    /// Something else.
    Ignored,
}

impl Column {
    pub fn of(name: &str) -> Column {
        match name {
            "time" | "timestamp" | "clock_time" | "op_time" => Column::Time,
            "lbn" => Column::Block,
            "object" | "object_id" | "obj_id" | "key" | "id" | "block_id" => Column::Key,
            "size" | "object_size" | "obj_size" | "io_size" => Column::Size,
            "value_size" => Column::ValueSize,
            "key_size" => Column::KeySize,
            "op" | "op_name" => Column::Operation,
            "op_count" | "count" => Column::Count,
            "cost_us" => Column::Cost,
            "client" => Column::Client,
            "hints" => Column::Hints,
            "txn" => Column::Transaction,
            "txn_type" => Column::Type,
            "level" => Column::Level,
            "vertex" => Column::Vertex,
            "space" => Column::Space,
            "charge" => Column::Charge,
            "end" => Column::End,
            _ => Column::Ignored,
        }
    }

    pub fn is_key(self) -> bool {
        matches!(self, Column::Block | Column::Key)
    }
}

/// Clients and types that have names.
#[derive(Default)]
pub(super) struct Named {
    pub clients: Names,
    pub types: Names,
    /// Names of types.
    pub dictionary: Dictionary,
}

/// Takes in what a field says.
pub(super) fn put(row: &mut Row, named: &mut Named, column: Column, field: &[u8]) -> Result<(), String> {
    let record = &mut row.record;
    // What is not known may be left empty; whether a key may be shows the rest of the row.
    let optional = matches!(column, Column::Size | Column::ValueSize | Column::KeySize | Column::Cost | Column::Charge);
    let empty = field.is_empty() && (optional || column.is_key() || column == Column::End);
    if empty || optional && UNKNOWN.iter().any(|unknown| field.eq_ignore_ascii_case(unknown)) {
        return Ok(());
    }
    match column {
        Column::Time => record.time_us = Some(time_us(field)?),
        Column::Block => record.key = TraceKey::Number(decimal(field)?),
        Column::Key => record.key = key(field),
        Column::Size => record.size = Some(size(field)?),
        Column::ValueSize | Column::KeySize => {
            let sum = record.size.unwrap_or(0).checked_add(size(field)?);
            record.size = Some(sum.ok_or_else(|| unexpected(field, SIZE))?);
        }
        Column::Operation if field.is_empty() => row.no_operation = true,
        Column::Operation => record.kind = operation(field)?,
        Column::Count => {
            let count = decimal(field)?;
            if count > REQUESTS_PER_LINE_MAX {
                return Err(format!("{count} requests are more than requests_per_line_max {REQUESTS_PER_LINE_MAX}"));
            }
            row.left = count;
        }
        Column::Cost => record.cost_us = Some(number(field, "microseconds below 2^32")?),
        Column::Client => {
            let (number, _) = named.clients.number(field, ("clients_named_max", CLIENTS_NAMED_MAX))?;
            record.client = number.try_into().map_err(|_| unexpected(field, "a number below 2^32"))?;
        }
        Column::Hints => record.hints = number(field, "a number below 2^32")?,
        Column::Transaction => record.txn = decimal(field)?,
        Column::Type => record.txn_type = named.txn_type(field)?,
        Column::Level => record.level = number(field, "a number below 2^16")?,
        Column::Vertex => record.vertex = number(field, "a number below 2^16")?,
        Column::Space => record.space = number(field, "a number below 2^8")?,
        Column::Charge => record.charged = Some(size(field)?),
        Column::End => row.end = Some(end(field)?),
        Column::Ignored => {}
    }
    Ok(())
}

impl Named {
    fn txn_type(&mut self, field: &[u8]) -> Result<u16, String> {
        let (number, new) = self.types.number(field, ("types_named_max", TYPES_NAMED_MAX))?;
        let number = number.try_into().map_err(|_| unexpected(field, "a number below 2^16"))?;
        if new {
            let name = Bytes::copy_from_slice(field);
            self.dictionary.define_type(number, name).map_err(|error| error.to_string())?;
        }
        Ok(number)
    }
}

/// What databases and programs for tables write where a number is not known.
const UNKNOWN: [&[u8]; 4] = [b"NULL", b"\\N", b"NaN", b"-"];

/// What a time is.
const TIME: &str = "a time in seconds, or a date from 1970 on as in 2026-01-31T12:30:00Z";

/// What a size is.
const SIZE: &str = "a size in bytes below 2^32, 4 GiB";

/// Programs for tables write `512.0` where other rows have no number.
fn size(field: &[u8]) -> Result<u32, String> {
    number(field.strip_suffix(b".0").filter(|whole| !whole.is_empty()).unwrap_or(field), SIZE)
}

/// Seconds, or a date. So many seconds that they are beyond the year 5000 are an epoch's milli-, micro- or nanoseconds.
fn time_us(field: &[u8]) -> Result<u64, String> {
    let time = match decimal(field) {
        Ok(milliseconds @ 100_000_000_000..100_000_000_000_000) => Some(milliseconds * 1_000),
        Ok(microseconds @ 100_000_000_000_000..100_000_000_000_000_000) => Some(microseconds),
        Ok(nanoseconds @ 100_000_000_000_000_000..) => Some(nanoseconds / 1_000),
        _ if field.contains(&b'/') => clf_us(field),
        _ if field.contains(&b'-') => iso_us(field),
        _ => seconds(field).ok(),
    };
    time.ok_or_else(|| unexpected(field, TIME))
}

/// How a transaction ends.
fn end(field: &[u8]) -> Result<Kind, String> {
    match &field.to_ascii_lowercase()[..] {
        b"commit" | b"committed" => Ok(Kind::Committed),
        b"abort" | b"aborted" => Ok(Kind::Aborted),
        _ => Err(unexpected(field, "commit, abort, or nothing")),
    }
}

/// A number of the type that is asked for.
fn number<T: TryFrom<u64>>(field: &[u8], expected: &str) -> Result<T, String> {
    T::try_from(decimal(field)?).map_err(|_| unexpected(field, expected))
}

/// A number only if it is written as numbers are printed, so that `7` and `007` stay two keys.
fn key(field: &[u8]) -> TraceKey {
    match decimal(field) {
        Ok(number) if field == b"0" || field[0] != b'0' => TraceKey::Number(number),
        _ => TraceKey::Bytes(Bytes::copy_from_slice(field)),
    }
}

/// SCSI READ and WRITE in their forms of 6, 10, 12 and 16 bytes, or a word.
fn operation(field: &[u8]) -> Result<Kind, String> {
    let field = field.to_ascii_lowercase();
    // CacheLib's block traces name an operation and a class of it.
    let word = field.split(|&byte| byte == b'.').next().unwrap_or_default();
    let word = std::str::from_utf8(word).unwrap_or_default();
    let found = OPERATIONS.iter().find(|(_, words)| words.iter().any(|words| words.split(' ').any(|one| one == word)));
    found.filter(|_| !word.is_empty()).map(|(kind, _)| *kind).ok_or_else(|| unexpected(&field, OPERATION))
}

/// What an operation is.
const OPERATION: &str = "a SCSI READ (28) or WRITE (2a) code, or read, write, delete, or a command of Redis, memcached \
                         or SQL that does one of these";

/// Words for operations: codes and those of traces, then memcached's, SQL's and HTTP's, then Redis'. What reads and
/// writes is a write; what takes something out of a document is one too.
const OPERATIONS: [(Kind, &[&str]); 5] = [
    (
        Kind::Read,
        &[
            "28 8 08 a8 88 r read get gets get_lease getchunkdata",
            "select head gat gats getex mget getrange substr strlen exists ttl pttl type dump getbit bitcount pfcount",
            "hget hmget hgetall hexists hkeys hvals hlen hstrlen hscan lrange lindex llen lpos",
            "smembers sismember smismember scard srandmember sscan zrange zrangebyscore zrevrange zrevrangebyscore",
            "zscore zmscore zrank zrevrank zcard zcount zscan xrange xrevrange xlen xread",
        ],
    ),
    (
        Kind::Write,
        &[
            "2a a 0a aa 8a w write put putchunk set set_lease add replace cas append prepend incr decr",
            "insert update upsert merge post patch touch setex psetex setnx mset msetnx getset incrby decrby",
            "incrbyfloat setrange setbit pfadd",
            "expire pexpire expireat pexpireat persist restore hset hmset hsetnx hincrby",
            "hincrbyfloat hdel lpush lpushx rpush rpushx lpop rpop lset ltrim lrem linsert sadd srem spop zadd zrem",
            "zincrby zpopmin zpopmax xadd xdel xtrim",
        ],
    ),
    (Kind::Delete, &["d delete del unlink getdel remove"]),
    (Kind::Prefetch, &["prefetch"]),
    (Kind::Demote, &["demote"]),
];
