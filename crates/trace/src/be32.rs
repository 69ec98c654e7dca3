//! Bare keys, one big-endian unsigned 32-bit number per request (cache2k, CloudPhysics in LIRS2).

use crate::error::TraceError;
use crate::input::Source;
use crate::packed::{self, Columns};
use crate::record::{Record, TraceKey, mix};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "be32",
    summary: "binary, one big-endian unsigned 32-bit key per request, no header",
    endings: &[".be32"],
    recognises: |_| false,
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(packed::open::<Be32, 4>(source))
}

struct Be32;

impl Columns<4> for Be32 {
    fn record(bytes: &[u8; 4]) -> Record {
        Record { key: TraceKey::Number(u64::from(u32::from_be_bytes(*bytes))), ..Record::default() }
    }

    fn request(bytes: &[u8; 4]) -> (u64, u32) {
        (mix(u64::from(u32::from_be_bytes(*bytes))), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_big_endian_and_a_cut_one_is_told() {
        let mut records = open(Source::new(&[0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff, 9][..])).unwrap();
        assert_eq!(records.next().unwrap().unwrap().key, TraceKey::Number(0x102));
        assert_eq!(records.next().unwrap().unwrap().key, TraceKey::Number(0xffff_ffff));
        let error = records.next().unwrap().unwrap_err();
        assert!(matches!(error, TraceError::Cut { offset: 9, .. }), "{error}");
        assert!(records.next().is_none());
    }
}
