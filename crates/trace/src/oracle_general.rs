//! libCacheSim's binary format with the oracle's column.
//!
//! Records of 24 bytes, little-endian, packed: `u32 time_s, u64 obj_id, u32 obj_size, i64 next_access_vtime`. The last
//! is not given out: it counts in the trace from which this one was cut, and who needs it computes it.

use crate::error::TraceError;
use crate::input::{HEAD_BYTES, Source};
use crate::packed::{self, Columns};
use crate::record::{Record, TraceKey, mix};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "oracleGeneral",
    summary: "libCacheSim binary: 24-byte little-endian records `u32 time_s, u64 key, u32 size, i64 next_access`",
    endings: &[".oracleGeneral", ".oracleGeneral."],
    recognises,
    open,
};

/// Whole records without which a few numbers could be anything.
const RECORDS_RECOGNISED_MIN: usize = 4;

/// Bytes that are no such trace pass for one by chance: each record's last column is -1 or beyond its own place and
/// below 2^40, which of 2^64 numbers one in 2^24 is, and its times never fall.
fn recognises(head: &[u8]) -> bool {
    let (records, rest) = head.as_chunks::<RECORD_BYTES>();
    let mut before = 0;
    let plausible = |(place, record): (usize, &[u8; RECORD_BYTES])| {
        let &[a, b, c, d, .., e, f, g, h, i, j, k, l] = record;
        let (time, next) = (u32::from_le_bytes([a, b, c, d]), i64::from_le_bytes([e, f, g, h, i, j, k, l]));
        let falls = std::mem::replace(&mut before, time) > time;
        !falls && (next == -1 || (place as i64 + 1..1 << 40).contains(&next))
    };
    let whole = rest.is_empty() || head.len() == HEAD_BYTES;
    whole && records.len() >= RECORDS_RECOGNISED_MIN && records.iter().enumerate().all(plausible)
}

pub(crate) fn open(source: Source) -> Result<Records, TraceError> {
    Ok(packed::open::<OracleGeneral, RECORD_BYTES>(source))
}

struct OracleGeneral;

const RECORD_BYTES: usize = 24;

impl Columns<RECORD_BYTES> for OracleGeneral {
    fn record(bytes: &[u8; RECORD_BYTES]) -> Record {
        let &[a, b, c, d, ref key @ .., e, f, g, h, _, _, _, _, _, _, _, _] = bytes;
        Record {
            time_us: Some(u64::from(u32::from_le_bytes([a, b, c, d])) * 1_000_000),
            key: TraceKey::Number(u64::from_le_bytes(*key)),
            size: Some(u32::from_le_bytes([e, f, g, h])),
            ..Record::default()
        }
    }

    fn request(bytes: &[u8; RECORD_BYTES]) -> (u64, u32) {
        let &[_, _, _, _, ref key @ .., e, f, g, h, _, _, _, _, _, _, _, _] = bytes;
        (mix(u64::from_le_bytes(*key)), u32::from_le_bytes([e, f, g, h]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_time_key_and_size_and_a_cut_one_is_told() {
        let mut bytes = Vec::new();
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
        bytes.extend(4096_u32.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
        bytes.extend([1; 23]);
        let mut records = open(Source::new(std::io::Cursor::new(bytes))).unwrap();
        let expected = Record {
            time_us: Some(7_000_000),
            key: TraceKey::Number(0x0102_0304_0506_0708),
            size: Some(4096),
            ..Record::default()
        };
        assert_eq!(records.next().unwrap().unwrap(), expected);
        let error = records.next().unwrap().unwrap_err();
        assert!(matches!(error, TraceError::Cut { offset: 47, .. }), "{error}");
    }
}
