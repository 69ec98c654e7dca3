//! What text formats without a reader of their own share: a line is a request, or several for consecutive pages.

use crate::Records;
use crate::error::TraceError;
use crate::input::{Next, Source, Stream, decimal, unexpected};
use crate::record::{Kind, Record, TraceKey};

/// Most requests that one line may stand for.
pub const REQUESTS_PER_LINE_MAX: u64 = 1 << 20;

/// Bytes of the pages that requests for sectors or bytes are counted in.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// A volume's pages have numbers of their own: this many bits for the page, the others for the volume.
const PAGE_BITS: u32 = 44;

/// What is wrong with a line: in which column, and why.
pub(crate) type Wrong = (&'static str, String);

/// What a line says.
pub(crate) struct Line {
    /// Its first request.
    pub record: Record,
    /// Number of requests; each further one is for the next number.
    pub requests: u64,
}

impl Line {
    /// One request.
    pub fn one(record: Record) -> Result<Option<Line>, Wrong> {
        Ok(Some(Line { record, requests: 1 }))
    }

    /// A request for bytes of a volume, as pages.
    pub fn pages(record: Record, volume: u64, first_byte: u64, bytes: u64) -> Result<Option<Line>, Wrong> {
        let last = first_byte.checked_add(bytes.max(1) - 1).ok_or_else(|| ("size", "ends beyond 2^64".to_owned()))?;
        let (page, last) = (first_byte / PAGE_BYTES, last / PAGE_BYTES);
        let volume = volume.checked_mul(1 << PAGE_BITS).filter(|_| last < 1 << PAGE_BITS);
        let Some(volume) = volume else {
            return Err(("offset", format!("volume or page are beyond 2^{} and 2^{PAGE_BITS}", 64 - PAGE_BITS)));
        };
        let requests = last - page + 1;
        if requests > REQUESTS_PER_LINE_MAX {
            let found = format!("{requests} pages are more than requests_per_line_max {REQUESTS_PER_LINE_MAX}");
            return Err(("size", found));
        }
        let record = Record { key: TraceKey::Number(volume | page), size: Some(PAGE_BYTES as u32), ..record };
        Ok(Some(Line { record, requests }))
    }

    /// The same, in sectors.
    pub fn sectors(record: Record, volume: u64, first: u64, count: u64) -> Result<Option<Line>, Wrong> {
        let bytes = |sectors: u64| {
            sectors.checked_mul(SECTOR_BYTES).ok_or_else(|| ("sector", "its byte is beyond 2^64".to_owned()))
        };
        Line::pages(record, volume, bytes(first)?, bytes(count)?)
    }
}

/// Reads lines as `parse` says; `None` from it is no request. `header`: the first line is none either.
pub(crate) fn open(source: Source, header: bool, parse: fn(&[u8]) -> Result<Option<Line>, Wrong>) -> Records {
    Stream::boxed(Lines { source, header, parse, line: Vec::new(), next: Record::default(), left: 0 })
}

struct Lines {
    source: Source,
    header: bool,
    parse: fn(&[u8]) -> Result<Option<Line>, Wrong>,
    line: Vec<u8>,
    /// The next request of the present line.
    next: Record,
    /// Requests of the present line still to give out.
    left: u64,
}

impl Next for Lines {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while self.left == 0 {
            if !self.source.line(&mut self.line)? {
                return Ok(None);
            }
            if std::mem::take(&mut self.header) || self.line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = (self.parse)(&self.line).map_err(|(column, reason)| self.source.line_error(column, reason))?;
            if let Some(Line { record, requests }) = parsed {
                (self.next, self.left) = (record, requests);
            }
        }
        self.left -= 1;
        let record = self.next.clone();
        if let TraceKey::Number(number) = &mut self.next.key {
            *number = number.wrapping_add(1);
        }
        Ok(Some(record))
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

/// The columns of a line, by separator or by white space.
pub(crate) struct Columns<'a> {
    fields: Vec<&'a [u8]>,
    names: &'static [&'static str],
}

impl<'a> Columns<'a> {
    /// Exactly the named columns.
    pub fn of(line: &'a [u8], separator: Option<u8>, names: &'static [&'static str]) -> Result<Columns<'a>, Wrong> {
        let fields = split(line, separator);
        match names.get(fields.len()) {
            Some(missing) => Err((missing, format!("missing, a line has {} columns", names.len()))),
            None if fields.len() > names.len() => Err(("-", format!("more than {} columns", names.len()))),
            None => Ok(Columns { fields, names }),
        }
    }

    /// A column's text.
    pub fn text(&self, column: usize) -> &'a [u8] {
        self.fields[column]
    }

    /// A column's number.
    pub fn number(&self, column: usize) -> Result<u64, Wrong> {
        decimal(self.fields[column]).map_err(|reason| (self.names[column], reason))
    }

    /// A number of 32 bits.
    pub fn small(&self, column: usize) -> Result<u32, Wrong> {
        let number = self.number(column)?;
        u32::try_from(number).map_err(|_| self.wrong(column, "a number below 2^32"))
    }

    /// One of two words: a read or a write.
    pub fn kind(&self, column: usize, read: &str, write: &str) -> Result<Kind, Wrong> {
        match self.fields[column] {
            field if field.eq_ignore_ascii_case(read.as_bytes()) => Ok(Kind::Read),
            field if field.eq_ignore_ascii_case(write.as_bytes()) => Ok(Kind::Write),
            _ => Err(self.wrong(column, &format!("{read} or {write}"))),
        }
    }

    /// What was found, and what was expected.
    pub fn wrong(&self, column: usize, expected: &str) -> Wrong {
        (self.names[column], unexpected(self.fields[column], expected))
    }
}

/// Fields between separators, or words between white space.
pub(crate) fn split(line: &[u8], separator: Option<u8>) -> Vec<&[u8]> {
    /// Beyond any format's number of columns.
    const FIELDS_MAX: usize = 64;
    match separator {
        Some(separator) => line.split(|&byte| byte == separator).map(<[u8]>::trim_ascii).take(FIELDS_MAX).collect(),
        None => {
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.take(FIELDS_MAX).collect()
        }
    }
}

/// The fields of the first whole line of a head.
pub(crate) fn first_line(head: &[u8], separator: Option<u8>) -> Vec<&[u8]> {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    split(line.trim_ascii(), separator)
}

/// Whether all of some fields are decimal numbers.
pub(crate) fn numbers(fields: &[&[u8]]) -> bool {
    fields.iter().all(|field| decimal(field).is_ok())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads a text in a format: its records, and the error that ended it.
    pub(crate) fn read(format: &crate::Format, text: &str) -> (Vec<Record>, Option<String>) {
        let source = Source::new(std::io::Cursor::new(text.to_owned().into_bytes()));
        let (mut records, mut error) = (Vec::new(), None);
        match (format.open)(source) {
            Ok(reader) => {
                for record in reader {
                    match record {
                        Ok(record) => records.push(record),
                        Err(found) => error = Some(found.to_string()),
                    }
                }
            }
            Err(found) => error = Some(found.to_string()),
        }
        (records, error)
    }

    /// Numbers of the records' keys.
    pub(crate) fn keys(records: &[Record]) -> Vec<u64> {
        records.iter().map(|record| if let TraceKey::Number(number) = record.key { number } else { u64::MAX }).collect()
    }

    #[test]
    fn bytes_become_pages_and_hostile_lengths_nothing() {
        let pages = |volume, first, bytes| match Line::pages(Record::default(), volume, first, bytes) {
            Ok(Some(line)) => Ok((keys(&[line.record])[0], line.requests)),
            Ok(None) => Ok((0, 0)),
            Err((column, _)) => Err(column),
        };
        assert_eq!(pages(0, 4095, 2), Ok((0, 2)));
        assert_eq!(pages(3, 8192, 4096), Ok((3 << 44 | 2, 1)));
        assert_eq!(pages(0, 0, 0), Ok((0, 1)));
        assert_eq!(pages(0, 0, u64::MAX), Err("offset"));
        assert_eq!(pages(0, 0, 1 << 40), Err("size"));
        assert_eq!(pages(0, u64::MAX, 2), Err("size"));
        assert_eq!(pages(1 << 20, 0, 1), Err("offset"));
    }
}
