//! webcachesim's text, in which AdaptSize gives its example trace.

use crate::error::TraceError;
use crate::input::Source;
use crate::lines::{Columns, Line, Wrong, first_line, numbers};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "webcachesim",
    summary: "text of webcachesim and AdaptSize: `time id size_bytes`",
    endings: &[".tr"],
    recognises: |head| matches!(&first_line(head, None)[..], fields @ [_, _, _] if numbers(fields)),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let columns = Columns::of(line, None, &["time", "id", "size_bytes"])?;
    let time_us = columns.number(0)?.checked_mul(1_000_000);
    let (key, size) = (TraceKey::Number(columns.number(1)?), columns.small(2)?);
    Line::one(Record { time_us, key, size: Some(size), ..Record::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;

    #[test]
    fn a_line_is_a_request() {
        let (records, error) = read(&FORMAT, "3 5 68\n4 x 1\n");
        let expected =
            Record { time_us: Some(3_000_000), key: TraceKey::Number(5), size: Some(68), ..Record::default() };
        assert_eq!(records, [expected]);
        assert!(error.expect("no number").starts_with("line 2, column id: "));
    }
}
