//! Text with a header line that names its columns, as libCacheSim ships them.
//!
//! The header says what each column is; which names are known stands in [`Column::of`]. Columns of other names are
//! passed over. There is no quoting: a field ends at the next comma, and blanks around it do not count.

use bytes::Bytes;

use crate::error::TraceError;
use crate::input::{Next, Source, Stream, decimal, unexpected};
use crate::record::{Kind, Record, TraceKey};
use crate::{Format, Records};

/// Most columns that a header may name.
pub const COLUMNS_MAX: usize = 64;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "libcachesim-csv",
    summary: "text with a header naming its columns: `version,time,op,size,lbn` or `# time, object, size, ..`",
    endings: &[".csv"],
    recognises,
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(Csv { source, columns: Vec::new(), line: Vec::new() }))
}

fn recognises(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let columns = names(line).map(|name| Column::of(&name)).collect::<Vec<_>>();
    columns.len() > 1 && columns.contains(&Column::Time) && columns.iter().any(|column| column.is_key())
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Seconds, with decimals if need be.
    Time,
    /// A block number.
    Block,
    /// A key: a number where it is written as one, else its bytes.
    Key,
    /// Bytes.
    Size,
    /// SCSI operation code in hex, or a word.
    Operation,
    /// Something else.
    Ignored,
}

impl Column {
    fn of(name: &str) -> Column {
        match name {
            "time" | "timestamp" | "clock_time" => Column::Time,
            "lbn" => Column::Block,
            "object" | "object_id" | "obj_id" | "key" | "id" => Column::Key,
            "size" | "object_size" | "obj_size" => Column::Size,
            "op" => Column::Operation,
            _ => Column::Ignored,
        }
    }

    fn is_key(self) -> bool {
        matches!(self, Column::Block | Column::Key)
    }
}

/// Names in a header line, in lower case.
fn names(line: &[u8]) -> impl Iterator<Item = String> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"#").unwrap_or(line);
    line.split(|&byte| byte == b',').map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
}

struct Csv {
    source: Source,
    /// Columns with their names, empty before the header was read.
    columns: Vec<(Column, String)>,
    line: Vec<u8>,
}

impl Next for Csv {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.columns.is_empty() {
            if !self.source.line(&mut self.line)? {
                return Err(TraceError::Truncated { offset: 0, what: "before its header line" });
            }
            self.header()?;
        }
        loop {
            if !self.source.line(&mut self.line)? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                return self.row().map(Some);
            }
        }
    }
}

impl Csv {
    fn header(&mut self) -> Result<(), TraceError> {
        let columns: Vec<_> = names(&self.line).take(COLUMNS_MAX + 1).map(|name| (Column::of(&name), name)).collect();
        if columns.len() > COLUMNS_MAX {
            let reason = format!("more columns than columns_max {COLUMNS_MAX}");
            return Err(self.source.line_error("-", reason));
        }
        let keys = columns.iter().filter(|(column, _)| column.is_key()).count();
        if keys != 1 {
            let found = unexpected(&self.line, "a header with one key column (lbn, object, obj_id, key or id)");
            return Err(self.source.line_error("-", format!("{found}, it has {keys}")));
        }
        for known in [Column::Time, Column::Size, Column::Operation] {
            if let Some((_, name)) = columns.iter().filter(|(column, _)| *column == known).nth(1) {
                return Err(self.source.line_error(name, "a second column of the same meaning"));
            }
        }
        self.columns = columns;
        Ok(())
    }

    fn row(&self) -> Result<Record, TraceError> {
        let mut record = Record::default();
        let mut fields = self.line.split(|&byte| byte == b',');
        for (column, name) in &self.columns {
            let Some(field) = fields.next() else {
                return Err(self.source.line_error(name, format!("missing, the header names {}", self.columns.len())));
            };
            put(&mut record, *column, field.trim_ascii()).map_err(|reason| self.source.line_error(name, reason))?;
        }
        if fields.next().is_some() {
            let reason = format!("more fields than the {} that the header names", self.columns.len());
            return Err(self.source.line_error("-", reason));
        }
        Ok(record)
    }
}

fn put(record: &mut Record, column: Column, field: &[u8]) -> Result<(), String> {
    match column {
        Column::Time => record.time_us = Some(seconds(field)?),
        Column::Block => record.key = TraceKey::Number(decimal(field)?),
        Column::Key => record.key = key(field)?,
        Column::Size => {
            let wrong = |_| unexpected(field, "a size in bytes below 2^32");
            record.size = Some(u32::try_from(decimal(field)?).map_err(wrong)?);
        }
        Column::Operation => record.kind = operation(field)?,
        Column::Ignored => {}
    }
    Ok(())
}

/// A number only if it is written as numbers are printed, so that `7` and `007` stay two keys.
fn key(field: &[u8]) -> Result<TraceKey, String> {
    match decimal(field) {
        Ok(number) if field == b"0" || field[0] != b'0' => Ok(TraceKey::Number(number)),
        _ if field.is_empty() => Err("empty, expected a key".to_owned()),
        _ => Ok(TraceKey::Bytes(Bytes::copy_from_slice(field))),
    }
}

/// Microseconds of a time in seconds; digits beyond the sixth decimal do not count.
fn seconds(field: &[u8]) -> Result<u64, String> {
    let parse = || {
        let mut parts = field.splitn(2, |&byte| byte == b'.');
        let whole = decimal(parts.next()?).ok()?.checked_mul(1_000_000)?;
        let Some(fraction) = parts.next() else { return Some(whole) };
        if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let kept = &fraction[..fraction.len().min(6)];
        whole.checked_add(decimal(kept).ok()? * 10_u64.pow(6 - kept.len() as u32))
    };
    parse().ok_or_else(|| unexpected(field, "a time in seconds"))
}

/// SCSI READ and WRITE in their forms of 6, 10, 12 and 16 bytes, or a word.
fn operation(field: &[u8]) -> Result<Kind, String> {
    let kind = match field.to_ascii_lowercase().as_slice() {
        b"28" | b"8" | b"08" | b"a8" | b"88" | b"r" | b"read" | b"get" => Kind::Read,
        b"2a" | b"a" | b"0a" | b"aa" | b"8a" | b"w" | b"write" | b"set" | b"put" => Kind::Write,
        b"d" | b"delete" | b"del" => Kind::Delete,
        _ => return Err(unexpected(field, "a SCSI READ (28) or WRITE (2a) code, or read, write or delete")),
    };
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Record>, Option<String>) {
        let (mut records, mut error) = (Vec::new(), None);
        for record in open(Source::new(std::io::Cursor::new(text.to_owned()))).unwrap() {
            match record {
                Ok(record) => records.push(record),
                Err(found) => error = Some(found.to_string()),
            }
        }
        (records, error)
    }

    #[test]
    fn columns_are_found_by_name() {
        let (records, error) = read("version,time,op,size,lbn\n1,2,2a,512,42\r\n\n1,3.25,28,7,18446744073709551615\n");
        assert_eq!(error, None);
        let (time_us, size) = (Some(2_000_000), Some(512));
        let first = Record { time_us, size, kind: Kind::Write, key: TraceKey::Number(42), ..Record::default() };
        let (time_us, size) = (Some(3_250_000), Some(7));
        let second = Record { time_us, size, key: TraceKey::Number(u64::MAX), ..Record::default() };
        assert_eq!(records, [first, second]);
        let (records, error) = read("# time, object, size, next_access_vtime\n0, 007, 737, -1\n0, a b, 1, 4");
        assert_eq!(error, None);
        let keys: Vec<_> = records.iter().map(|record| record.key.to_bytes()).collect();
        assert_eq!(keys, ["007", "a b"]);
    }

    #[test]
    fn malformed_rows_are_named_by_line_and_column() {
        for (row, column) in [
            ("1,2,2a,512", "lbn"),
            ("1,2,2a,512,42,9", "-"),
            ("1,x,2a,512,42", "time"),
            ("1,,2a,512,42", "time"),
            ("1,1.,2a,512,42", "time"),
            ("1,1.x,2a,512,42", "time"),
            ("1,1.1234567x,2a,512,42", "time"),
            ("1,18446744073709551615,2a,512,42", "time"),
            ("1,2,ff,512,42", "op"),
            ("1,2,2a,-5,42", "size"),
            ("1,2,2a,4294967296,42", "size"),
            ("1,2,2a,512,abc", "lbn"),
            ("1,2,2a,512,", "lbn"),
        ] {
            let (records, error) = read(&format!("version,time,op,size,lbn\n1,2,2a,512,42\n{row}\n1,2,2a,512,42\n"));
            assert_eq!(records.len(), 1, "{row}");
            let error = error.expect(row);
            assert!(error.starts_with(&format!("line 3, column {column}: ")), "{row}: {error}");
        }
    }

    #[test]
    fn a_header_must_name_one_key() {
        for header in ["1,2,3", "time,size", "lbn,object,time", "time,timestamp,key", "", "\u{fffd}"] {
            let (records, error) = read(&format!("{header}\n1,2,3\n"));
            assert!(records.is_empty(), "{header}");
            assert!(error.expect(header).starts_with("line 1, column "), "{header}");
        }
        assert!(read("").1.unwrap().contains("cut short"));
        assert!(read(&format!("key{}\n", ",x".repeat(COLUMNS_MAX))).1.unwrap().contains("columns_max"));
    }
}
