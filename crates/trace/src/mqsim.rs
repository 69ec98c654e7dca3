//! Block traces as MQSim takes them.

use crate::error::TraceError;
use crate::input::Source;
use crate::lines::{Columns, Line, Wrong, first_line, numbers};
use crate::record::Record;
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "mqsim",
    summary: "text of MQSim: `time_ns device sector sectors type` (0 write, 1 read), one request per 4 KiB page",
    endings: &[".trace"],
    recognises: |head| matches!(&first_line(head, None)[..], fields @ [_, _, _, _, b"0" | b"1"] if numbers(fields)),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let columns = Columns::of(line, None, &["time_ns", "device", "sector", "sectors", "type"])?;
    let record =
        Record { time_us: Some(columns.number(0)? / 1000), kind: columns.kind(4, "1", "0")?, ..Record::default() };
    Line::sectors(record, columns.number(1)?, columns.number(2)?, columns.number(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};
    use crate::record::Kind;

    #[test]
    fn sectors_are_pages() {
        let (records, error) = read(&FORMAT, "938513000 4 264719034 16 0\n1 0 8 8 1\n1 0 8 8 2\n");
        assert_eq!(keys(&records), [4 << 44 | 33089879, 4 << 44 | 33089880, 4 << 44 | 33089881, 1]);
        assert_eq!((records[0].kind, records[3].kind, records[0].time_us), (Kind::Write, Kind::Read, Some(938_513)));
        assert!(error.expect("no such type").starts_with("line 3, column type: "));
    }
}
