//! Bare keys, one big-endian 64-bit number per request (Corda's, written by Java's `writeLong`).

use crate::error::TraceError;
use crate::input::Source;
use crate::packed::{self, Columns};
use crate::record::{Record, TraceKey, mix};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "be64",
    summary: "binary, one big-endian 64-bit key per request, no header; a negative key is read as its unsigned bits",
    endings: &[".be64"],
    recognises: |_| false,
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(packed::open::<Be64, 8>(source))
}

struct Be64;

impl Columns<8> for Be64 {
    fn record(bytes: &[u8; 8]) -> Record {
        Record { key: TraceKey::Number(u64::from_be_bytes(*bytes)), ..Record::default() }
    }

    fn request(bytes: &[u8; 8]) -> (u64, u32) {
        (mix(u64::from_be_bytes(*bytes)), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_big_endian_and_a_cut_one_is_told() {
        let mut bytes = [258_i64, -1].map(i64::to_be_bytes).concat();
        bytes.extend([0; 7]);
        let mut records = open(Source::new(std::io::Cursor::new(bytes))).unwrap();
        assert_eq!(records.next().unwrap().unwrap().key, TraceKey::Number(258));
        assert_eq!(records.next().unwrap().unwrap().key, TraceKey::Number(u64::MAX));
        let error = records.next().unwrap().unwrap_err();
        assert!(matches!(error, TraceError::Cut { offset: 23, .. }), "{error}");
        assert!(records.next().is_none());
    }
}
