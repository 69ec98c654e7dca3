//! Tencent's traces, as SNIA gives them out: cloud block storage, and the photo cache.

use bytes::Bytes;

use crate::date::civil_us;
use crate::error::TraceError;
use crate::input::Source;
use crate::lines::{Columns, Line, Wrong, first_line, numbers};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// Cloud block storage (Zhang et al., USENIX ATC 2020).
pub(crate) const BLOCK: Format = Format {
    name: "tencent-block",
    summary: "Tencent block storage: `time_s,sector,sectors,0 read|1 write,volume`, a request per 4 KiB page",
    endings: &[".csv"],
    recognises: |head| {
        let fields = first_line(head, Some(b','));
        matches!(fields[..], [_, _, _, b"0" | b"1", _]) && numbers(&fields)
    },
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, block)) },
};

/// The photo cache (Zhou et al., ICS 2018).
pub(crate) const PHOTO: Format = Format {
    name: "tencent-photo",
    summary: "Tencent photo cache: `yyyyMMddHHmmss photo format spec size handle_ms terminal hit`",
    endings: &[],
    recognises: |head| {
        let fields = first_line(head, None);
        matches!(&fields[..], [time, ..] if fields.len() == 8 && time.len() == 14 && numbers(&[time]))
    },
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, photo)) },
};

fn block(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let columns = Columns::of(line, Some(b','), &["time_s", "sector", "sectors", "type", "volume"])?;
    let time_us = columns.number(0)?.checked_mul(1_000_000);
    let record = Record { time_us, kind: columns.kind(3, "0", "1")?, ..Record::default() };
    Line::sectors(record, columns.number(4)?, columns.number(1)?, columns.number(2)?)
}

fn photo(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let names = &["time", "photo", "format", "spec", "size", "handle_ms", "terminal", "hit"];
    let columns = Columns::of(line, None, names)?;
    let time_us = date_us(columns.number(0)?).ok_or_else(|| columns.wrong(0, "a time yyyyMMddHHmmss"))?;
    // A photo in another format or resolution is another object.
    let key = [columns.text(1), columns.text(2), columns.text(3)].join(&b' ');
    Line::one(Record {
        time_us: Some(time_us),
        key: TraceKey::Bytes(Bytes::from(key)),
        size: Some(columns.small(4)?),
        cost_us: u32::try_from(columns.number(5)?.saturating_mul(1000)).ok(),
        ..Record::default()
    })
}

/// Microseconds since 1970 of a date and time written as one number.
fn date_us(written: u64) -> Option<u64> {
    let [second, minute, hour, day, month] = [1, 100, 10_000, 1_000_000, 100_000_000].map(|unit| written / unit % 100);
    let year = written / 10_000_000_000;
    civil_us([year, month, day, hour, minute, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};
    use crate::record::Kind;

    #[test]
    fn blocks_are_pages() {
        let (records, error) = read(&BLOCK, "1538323200,4247200,16,1,1058\n1,2,3,4,5\n");
        assert_eq!(keys(&records), [1058 << 44 | 530900, 1058 << 44 | 530901]);
        assert_eq!(records[0].kind, Kind::Write);
        assert!(error.expect("no such type").starts_with("line 2, column type: "));
    }

    #[test]
    fn photos_differ_by_format_and_resolution() {
        let line = "20160201164604 085a 5 m 12903 1 PHONE 1\n";
        let (records, error) = read(&PHOTO, &format!("{line}20161301000000 1 1 1 1 1 1 1\n"));
        assert_eq!(records[0].key.to_bytes(), "085a 5 m");
        assert_eq!((records[0].time_us, records[0].cost_us), (Some(1_454_345_164_000_000), Some(1000)));
        assert!(error.expect("no such month").starts_with("line 2, column time: "));
        assert!((PHOTO.recognises)(line.as_bytes()) && !(BLOCK.recognises)(line.as_bytes()));
    }
}
