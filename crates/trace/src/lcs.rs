//! libCacheSim's LCS: a header of 8 KiB, then records as in oracleGeneral (version 1).

use crate::error::TraceError;
use crate::input::Source;
use crate::oracle_general;
use crate::{Format, Records};

/// First bytes of every file.
const MAGIC: u64 = 0x1234_5678_9abc_def0;
/// Bytes of the header.
const HEADER_BYTES: usize = 8192;
/// The version that is read.
const VERSION: u64 = 1;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "lcs",
    summary: "libCacheSim's own, version 1: a header of 8 KiB, then the records of oracleGeneral",
    endings: &[".lcs"],
    recognises: |head| head.starts_with(&MAGIC.to_le_bytes()),
    open,
};

fn open(mut source: Source) -> Result<Records, TraceError> {
    let mut header = [0; HEADER_BYTES];
    if source.fill(&mut header)? < HEADER_BYTES {
        return Err(TraceError::Cut { offset: source.offset(), what: "in its header" });
    }
    let word = |at: usize| header[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    if word(0) != MAGIC {
        return Err(TraceError::Malformed {
            offset: 0,
            reason: "this is no LCS trace, its first 8 bytes are others".into(),
        });
    }
    match word(8) {
        VERSION => oracle_general::open(source),
        found => {
            let reason = format!("LCS version {found} is not known, only {VERSION}; convert it with libCacheSim");
            Err(TraceError::Malformed { offset: 8, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_first() {
        let file = |magic: u64, version: u64| {
            let mut bytes = [magic.to_le_bytes(), version.to_le_bytes()].concat();
            bytes.resize(HEADER_BYTES, 0);
            bytes.extend([1; 24]);
            open(Source::new(std::io::Cursor::new(bytes))).map(|records| records.count())
        };
        assert_eq!(file(MAGIC, 1).expect("sound"), 1);
        assert!(matches!(file(MAGIC, 2), Err(TraceError::Malformed { offset: 8, .. })));
        assert!(matches!(file(7, 1), Err(TraceError::Malformed { offset: 0, .. })));
        assert!(open(Source::new(&b"short"[..])).is_err_and(|error| matches!(error, TraceError::Cut { .. })));
    }
}
