//! Traces of records that all have the same length, one behind the other: read many at a time, straight from the
//! buffer.

use std::marker::PhantomData;

use crate::Records;
use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::Record;

/// What the bytes of one record mean.
pub(crate) trait Columns<const BYTES: usize>: Send + 'static {
    /// All of it.
    fn record(bytes: &[u8; BYTES]) -> Record;

    /// As [`Record::request`] says it of the record, which is an access. No record is made: of its hundred bytes a
    /// replay reads two columns.
    fn request(bytes: &[u8; BYTES]) -> (u64, u32);
}

/// Reads them to the end of the source.
pub(crate) fn open<C: Columns<BYTES>, const BYTES: usize>(source: Source) -> Records {
    Stream::boxed(Packed::<C, BYTES>(source, PhantomData))
}

struct Packed<C, const BYTES: usize>(Source, PhantomData<C>);

impl<C: Columns<BYTES>, const BYTES: usize> Next for Packed<C, BYTES> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; BYTES];
        Ok(self.0.fill_record(&mut bytes)?.then(|| C::record(&bytes)))
    }

    fn next_records(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        let mut left = most;
        while left > 0 {
            match self.0.records(left, |records| batch.extend(records.iter().map(C::record)))? {
                0 => break,
                count => left -= count,
            }
        }
        Ok(())
    }

    fn next_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        Ok(self.0.records(most, |records| batch.extend(records.iter().map(C::request)))? > 0)
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{be32, be64, oracle_general};

    /// Many at a time, as one by one, also where a buffer ends within a record, and where the last record is cut.
    #[test]
    fn batches_are_the_records() {
        for (format, bytes) in [(&be32::FORMAT, 4), (&be64::FORMAT, 8), (&oracle_general::FORMAT, 24)] {
            are_the_records(format.open, bytes);
        }
    }

    fn are_the_records(open: fn(Source) -> Result<Records, TraceError>, bytes: u32) {
        let bytes: Vec<u8> = (0..bytes * 9001).map(|at| (at / 5) as u8).chain([7; 3]).collect();
        let open = || open(Source::new(std::io::Cursor::new(bytes.clone()))).unwrap();
        let one_by_one: Vec<String> = open().map(|record| format!("{record:?}")).collect();
        let (mut trace, mut batch) = (open(), Vec::new());
        while batch.len() < 9001 {
            let before = batch.len();
            let result = trace.fill(&mut batch, 500);
            assert_eq!(result.is_err(), batch.len() == 9001, "cut after the last record");
            assert!(batch.len() > before && batch.len() <= before + 500);
        }
        let batched: Vec<String> =
            batch.into_iter().map(|record| format!("{:?}", Ok::<_, TraceError>(record))).collect();
        assert_eq!(one_by_one[..9001], batched);
        let (mut of_keys, mut requests) = (open(), Vec::new());
        while of_keys.fill_requests(&mut requests, 500).is_ok_and(|more| more) {}
        assert!(requests.iter().copied().eq(open().map_while(Result::ok).filter_map(|record| record.request())));
        assert!(matches!(of_keys.fill_requests(&mut requests, 500), Ok(false)), "an error is the end");
        assert!(trace.next().is_none() && trace.fill(&mut Vec::new(), 1).is_ok(), "an error is the end");
    }
}
