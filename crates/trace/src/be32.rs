//! Bare keys, one big-endian unsigned 32-bit number per request (cache2k, CloudPhysics in LIRS2).

use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::{Record, TraceKey};
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
    Ok(Stream::boxed(Be32(source)))
}

struct Be32(Source);

impl Next for Be32 {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; 4];
        let any = self.0.fill_record(&mut bytes)?;
        let key = TraceKey::Number(u64::from(u32::from_be_bytes(bytes)));
        Ok(any.then(|| Record { key, ..Record::default() }))
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.0)
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
