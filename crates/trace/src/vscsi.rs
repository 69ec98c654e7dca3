//! VMware's vscsi traces, version 1, as CloudPhysics recorded them.

use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::{Kind, Record, TraceKey};
use crate::{Format, Records};

/// Bytes of a record.
const RECORD_BYTES: usize = 32;
/// What its version field holds.
const VERSION: u16 = 0x0100;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "vscsi",
    summary: "vscsi version 1: 32-byte little-endian records `sn, len, nSG, command, version, block, time_us`",
    endings: &[".vscsi"],
    recognises: |head| {
        let version = |at: usize| head.get(at + 14..at + 16);
        version(0) == Some(&VERSION.to_le_bytes())
            && version(RECORD_BYTES).is_none_or(|bytes| bytes == VERSION.to_le_bytes())
    },
    open: |source: Source| -> Result<Records, TraceError> { Ok(Stream::boxed(Vscsi(source))) },
};

struct Vscsi(Source);

impl Next for Vscsi {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; RECORD_BYTES];
        let offset = self.0.offset();
        if !self.0.fill_record(&mut bytes)? {
            return Ok(None);
        }
        let number =
            |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let malformed = |reason: String| TraceError::Malformed { offset, reason };
        if number(14, 2) != u64::from(VERSION) {
            return Err(malformed(format!("vscsi version {:#06x} is not known, only {VERSION:#06x}", number(14, 2))));
        }
        let kind = match number(12, 2) {
            0x08 | 0x28 | 0xa8 | 0x88 => Kind::Read,
            0x0a | 0x2a | 0xaa | 0x8a => Kind::Write,
            other => return Err(malformed(format!("SCSI command {other:#04x} is neither a read nor a write"))),
        };
        Ok(Some(Record {
            time_us: Some(number(24, 8)),
            kind,
            key: TraceKey::Number(number(16, 8)),
            size: Some(number(4, 4) as u32),
            ..Record::default()
        }))
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_fields_and_what_is_wrong_is_told() {
        let record = |command: u16, version: u16| {
            let head = [[1_u32.to_le_bytes(), 512_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat()].concat();
            let tail = [42_u64.to_le_bytes(), 7_u64.to_le_bytes()].concat();
            [head, command.to_le_bytes().to_vec(), version.to_le_bytes().to_vec(), tail].concat()
        };
        let read = |bytes: Vec<u8>| -> Vec<_> {
            (FORMAT.open)(Source::new(std::io::Cursor::new(bytes))).expect("opens").collect()
        };
        let records = read(record(0x2a, VERSION));
        let expected = Record {
            time_us: Some(7),
            kind: Kind::Write,
            key: TraceKey::Number(42),
            size: Some(512),
            ..Record::default()
        };
        assert_eq!(records[0].as_ref().expect("sound"), &expected);
        let bad = [record(0x28, VERSION), record(0x35, VERSION)].concat();
        assert!(matches!(read(bad)[1], Err(TraceError::Malformed { offset: 32, .. })));
        assert!(matches!(read(record(0x28, 2))[0], Err(TraceError::Malformed { offset: 0, .. })));
        assert!((FORMAT.recognises)(&record(0x28, VERSION)));
    }
}
