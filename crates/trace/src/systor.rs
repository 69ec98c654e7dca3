//! The SYSTOR '17 traces of virtual desktops (Lee et al.), as SNIA gives them out.

use crate::error::TraceError;
use crate::input::{Source, seconds};
use crate::lines::{Columns, Line, Wrong};
use crate::record::{Kind, Record};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "systor",
    summary: "SYSTOR '17: a header, then `Timestamp,Response,IOType,LUN,Offset,Size`, one request per 4 KiB page",
    endings: &[".csv"],
    recognises: |head| head.starts_with(b"Timestamp,Response,IOType,LUN,Offset,Size"),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, true, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let columns = Columns::of(line, Some(b','), &["Timestamp", "Response", "IOType", "LUN", "Offset", "Size"])?;
    let kind = match columns.text(2) {
        b"R" => Kind::Read,
        b"W" => Kind::Write,
        // Others are neither.
        _ => return Ok(None),
    };
    let time_us = seconds(columns.text(0)).map_err(|reason| ("Timestamp", reason))?;
    // The response is missing now and then.
    let cost_us = seconds(columns.text(1)).ok().and_then(|cost| u32::try_from(cost).ok());
    let record = Record { time_us: Some(time_us), cost_us, kind, ..Record::default() };
    Line::pages(record, columns.number(3)?, columns.number(4)?, columns.number(5)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};

    #[test]
    fn bytes_are_pages() {
        let header = "Timestamp,Response,IOType,LUN,Offset,Size\n";
        let (records, error) =
            read(&FORMAT, &format!("{header}1456095145.133076000,0.000806000,R,2,8192,4096\n1,,W,0,0,1\n"));
        assert_eq!((keys(&records), error), (vec![2 << 44 | 2, 0], None));
        assert_eq!((records[0].time_us, records[0].cost_us), (Some(1_456_095_145_133_076), Some(806)));
        let (_, error) = read(&FORMAT, &format!("{header}1,1,R,0,x,1\n"));
        assert!(error.expect("no number").starts_with("line 2, column Offset: "));
    }
}
