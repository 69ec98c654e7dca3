//! Requests of Wikimedia's CDN, as tables separated by tabs.

use crate::error::TraceError;
use crate::input::{Source, decimal, unexpected};
use crate::lines::{Columns, Line, Wrong};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "wikimedia",
    summary: "Wikimedia CDN: a header, then `relative_unix hashed_host_path_query response_size time_firstbyte`, tabs",
    endings: &[".tsv"],
    recognises: |head| head.starts_with(b"relative_unix\thashed_host_path_query\tresponse_size\ttime_firstbyte"),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, true, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let names = &["relative_unix", "hashed_host_path_query", "response_size", "time_firstbyte"];
    let columns = Columns::of(line, Some(b'\t'), names)?;
    let time_us = columns.number(0)?.checked_mul(1_000_000);
    // A signed hash of 32 bits; its bits are the key.
    let hash = columns.text(1);
    let number = match hash.strip_prefix(b"-") {
        Some(positive) => decimal(positive).map(|number| (number as i64).wrapping_neg() as u64),
        None => decimal(hash),
    };
    let key = TraceKey::Number(number.map_err(|_| (names[1], unexpected(hash, "a hash, a whole number")))?);
    let seconds = std::str::from_utf8(columns.text(3)).ok().and_then(|text| text.parse::<f64>().ok());
    let cost_us = seconds.filter(|seconds| (0.0..4000.0).contains(seconds)).map(|seconds| (seconds * 1e6) as u32);
    Line::one(Record { time_us, key, size: Some(columns.small(2)?), cost_us, ..Record::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};

    #[test]
    fn hashes_may_be_negative() {
        let header = "relative_unix\thashed_host_path_query\tresponse_size\ttime_firstbyte\n";
        let (records, error) = read(&FORMAT, &format!("{header}3132\t-809104164\t202648\t1.76E-4\n1\tx\t1\t1\n"));
        assert_eq!(keys(&records), [(-809_104_164_i64) as u64]);
        assert_eq!((records[0].size, records[0].cost_us), (Some(202_648), Some(176)));
        assert!(error.expect("no hash").starts_with("line 3, column hashed_host_path_query: "));
    }
}
