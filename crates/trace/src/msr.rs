//! MSR Cambridge block traces (Narayanan et al., FAST 2008), as SNIA gives them out.

use crate::error::TraceError;
use crate::input::Source;
use crate::lines::{Columns, Line, Wrong, first_line};
use crate::record::Record;
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge: `filetime,host,disk,Read|Write,offset,size,response`, one request per 4 KiB page",
    endings: &[".csv"],
    recognises: |head| {
        let fields = first_line(head, Some(b','));
        matches!(&fields[..], [_, _, _, kind, ..] if fields.len() == 7
            && (kind.eq_ignore_ascii_case(b"read") || kind.eq_ignore_ascii_case(b"write")))
    },
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let names = &["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"];
    let columns = Columns::of(line, Some(b','), names)?;
    // The clock ticks 10 million times a second; the response is in the same unit.
    let response = columns.number(6)? / 10;
    let record = Record {
        time_us: Some(columns.number(0)? / 10),
        cost_us: u32::try_from(response).ok(),
        kind: columns.kind(3, "Read", "Write")?,
        ..Record::default()
    };
    Line::pages(record, columns.number(2)?, columns.number(4)?, columns.number(5)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};
    use crate::record::Kind;

    #[test]
    fn bytes_are_pages() {
        let text = "128166385295514663,hm,1,Write,4097,8192,2833\n128166385295514663,hm,0,Trim,1,1,1\n";
        let (records, error) = read(&FORMAT, text);
        assert_eq!(keys(&records), [1 << 44 | 1, 1 << 44 | 2, 1 << 44 | 3]);
        let record = &records[0];
        assert_eq!((record.kind, record.size, record.cost_us), (Kind::Write, Some(4096), Some(283)));
        assert!(error.expect("no such type").starts_with("line 2, column Type: "));
        assert!((FORMAT.recognises)(text.as_bytes()) && !(FORMAT.recognises)(b"a,b\n"));
    }
}
