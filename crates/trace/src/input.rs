//! Where readers get their bytes: decompressed on the way, with offsets and line numbers for errors.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, stdin};
use std::path::Path;

use crate::column_names::ColumnNames;
use crate::error::TraceError;
pub(crate) use crate::stream::{Next, Stream};

/// Longest line of a text trace in bytes, without its line end.
pub const LINE_BYTES_MAX: usize = 128 * 1024;

/// Bytes at the start of a trace by which its format may be recognised.
pub const HEAD_BYTES: usize = 4096;

/// The path that means standard input; a file of this name is `./-`.
pub const STANDARD_INPUT: &str = "-";

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 * 1024;

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const MAGIC_BYTES_MAX: usize = 4;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Zstd,
    Gzip,
}

impl Compression {
    /// Endings of file names, and what files begin with.
    const ALL: [(&'static str, &'static [u8], Compression); 2] =
        [(".zst", ZSTD_MAGIC, Compression::Zstd), (".gz", GZIP_MAGIC, Compression::Gzip)];

    /// A file's name without the ending of its compression, and that compression.
    pub fn of_name(name: &str) -> (&str, Option<Compression>) {
        let found = Compression::ALL.iter().find_map(|(ending, _, how)| Some((name.strip_suffix(ending)?, *how)));
        found.map_or((name, None), |(inner, how)| (inner, Some(how)))
    }

    /// Endings of names of compressed files.
    pub fn endings() -> impl Iterator<Item = &'static str> {
        Compression::ALL.iter().map(|(ending, ..)| *ending)
    }

    fn of_head(head: &[u8]) -> Option<Compression> {
        Compression::ALL.iter().find(|(_, magic, _)| head.starts_with(magic)).map(|(.., how)| *how)
    }
}

/// A trace as a stream of bytes, decompressed.
pub struct Source {
    reader: Box<dyn BufRead + Send>,
    /// Bytes taken so far.
    offset: u64,
    /// Lines taken so far.
    line: u64,
    /// Where the line taken last began.
    line_offset: u64,
    /// Whether the line taken last has its end.
    line_ended: bool,
    /// Longest line.
    line_max: usize,
    /// What is malformed is passed over and counted.
    lenient: bool,
    /// What columns of a table are called.
    columns: ColumnNames,
}

impl Source {
    /// Reads `reader` as it is.
    pub fn new(reader: impl Read + Send + 'static) -> Source {
        let reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, reader));
        Source {
            reader,
            offset: 0,
            line: 0,
            line_offset: 0,
            line_ended: false,
            line_max: LINE_BYTES_MAX,
            lenient: false,
            columns: ColumnNames::default(),
        }
    }

    /// What a path stands for: a file, or [`STANDARD_INPUT`].
    pub(crate) fn bytes_of(path: &Path) -> Result<Box<dyn Read + Send>, TraceError> {
        if path == Path::new(STANDARD_INPUT) {
            return Ok(Box::new(stdin()));
        }
        let file = File::open(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        Ok(Box::new(file))
    }

    /// What `file` has. It is decompressed as its name says, or if it begins as compressed files do and `plain`, that
    /// its name ends in that of an uncompressed format, does not hold.
    pub(crate) fn open(
        mut file: Box<dyn Read + Send>,
        path: &Path,
        compression: Option<Compression>,
        plain: bool,
    ) -> Result<Source, TraceError> {
        let failed = |source| TraceError::Open { path: path.to_owned(), source };
        let mut head = Vec::with_capacity(MAGIC_BYTES_MAX);
        (&mut file).take(MAGIC_BYTES_MAX as u64).read_to_end(&mut head).map_err(failed)?;
        if head.is_empty() {
            return Err(TraceError::Empty);
        }
        let compression = compression.or_else(|| Compression::of_head(&head).filter(|_| !plain));
        let whole = Cursor::new(head).chain(file);
        match compression {
            Some(Compression::Zstd) => Ok(Source::new(zstd::Decoder::new(whole).map_err(failed)?)),
            Some(Compression::Gzip) => Ok(Source::new(flate2::read::MultiGzDecoder::new(whole))),
            None => Ok(Source::new(whole)),
        }
    }

    /// Passes over what is malformed from now on, where a format can tell where the next record begins.
    pub fn be_lenient(&mut self) {
        self.lenient = true;
    }

    /// Columns of a table have these names.
    pub(crate) fn name_columns(&mut self, columns: ColumnNames) {
        self.columns = columns;
    }

    /// Names of columns that were given.
    pub(crate) fn column_names(&self) -> &ColumnNames {
        &self.columns
    }

    /// Whether it passes over what is malformed.
    pub(crate) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// The first bytes, at most [`HEAD_BYTES`], without taking them.
    pub fn head(&mut self) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        let (mut filled, mut failing) = (0, Failing(None));
        while filled < head.len() {
            match self.reader.read(&mut head[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Told, with its place, when a format's reader comes to it.
                Err(error) => {
                    failing = Failing(Some(error));
                    break;
                }
            }
        }
        head.truncate(filled);
        let rest = std::mem::replace(&mut self.reader, Box::new(std::io::empty()));
        let whole = Cursor::new(head.clone()).chain(failing).chain(rest);
        self.reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, whole));
        head
    }

    /// Lines may be so long.
    pub(crate) fn allow_lines_of(&mut self, bytes: usize) {
        self.line_max = bytes;
    }

    /// Whether the line taken last has its end: the last of a log that is still written may be a part of one.
    pub(crate) fn line_is_whole(&self) -> bool {
        self.line_ended
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of the line taken last, from 1.
    pub fn line_number(&self) -> u64 {
        self.line
    }

    /// Fills `buffer` as far as the trace goes; says how many bytes it got.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(self.offset + filled as u64, error)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Fills `buffer` with the next fixed-size record; false at the end, an error if the record is cut.
    pub fn fill_record(&mut self, buffer: &mut [u8]) -> Result<bool, TraceError> {
        match self.fill(buffer)? {
            0 => Ok(false),
            count if count == buffer.len() => Ok(true),
            _ => Err(TraceError::Cut { offset: self.offset, what: "in the middle of a record" }),
        }
    }

    /// Hands over at most so many fixed-size records that are in memory already, or else the next one; how many, 0 at
    /// the end.
    pub fn records<const BYTES: usize>(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[[u8; BYTES]]),
    ) -> Result<usize, TraceError> {
        // A decompressor tells once that its stream is cut, and then that it is at its end.
        let ready = match self.reader.fill_buf() {
            Ok(ready) => ready,
            Err(error) if error.kind() == ErrorKind::Interrupted => &[],
            Err(error) => return Err(failed(self.offset, error)),
        };
        let (ready, _) = ready.as_chunks::<BYTES>();
        let count = ready.len().min(most);
        if count > 0 {
            each(&ready[..count]);
            self.reader.consume(count * BYTES);
            self.offset += (count * BYTES) as u64;
            return Ok(count);
        }
        // The next one lies across two buffers.
        let mut record = [0; BYTES];
        let found = self.fill_record(&mut record)?;
        if found {
            each(&[record]);
        }
        Ok(usize::from(found))
    }

    /// Puts the next line into `line`, without its line end; false at the end.
    pub fn line(&mut self, line: &mut Vec<u8>) -> Result<bool, TraceError> {
        line.clear();
        self.line_offset = self.offset;
        let mut any = false;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(self.offset, error)),
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let taken = end.unwrap_or(available.len());
            let last = available.is_empty() || end.is_some();
            any |= !available.is_empty();
            if line.len() + taken > self.line_max {
                return Err(TraceError::LineTooLong { line: self.line + 1, limit: self.line_max });
            }
            line.extend_from_slice(&available[..taken]);
            let consumed = taken + usize::from(end.is_some());
            self.reader.consume(consumed);
            self.offset += consumed as u64;
            if last {
                self.line_ended = end.is_some();
                break;
            }
        }
        if any {
            self.line += 1;
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        Ok(any)
    }

    /// An error about the line taken last.
    pub fn line_error(&self, column: &str, reason: impl Into<String>) -> TraceError {
        let (line, offset) = (self.line, self.line_offset);
        TraceError::Line { line, offset, column: column.to_owned(), reason: reason.into() }
    }
}

/// An error that was met before its place came; then nothing.
struct Failing(Option<std::io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn failed(offset: u64, source: std::io::Error) -> TraceError {
    if source.kind() == ErrorKind::UnexpectedEof {
        return TraceError::Cut { offset, what: "in the middle of its compression" };
    }
    TraceError::Read { offset, source }
}

/// Microseconds of a time in seconds; digits beyond the sixth decimal do not count.
pub(crate) fn seconds(field: &[u8]) -> Result<u64, String> {
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

/// A decimal number without sign.
pub(crate) fn decimal(text: &[u8]) -> Result<u64, String> {
    let mut number: u64 = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        let next = number.checked_mul(10).and_then(|tenfold| tenfold.checked_add(u64::from(digit)));
        number = match next {
            Some(next) if digit <= 9 => next,
            _ => return Err(unexpected(text, "a decimal number below 2^64")),
        };
    }
    if text.is_empty() { Err("empty, expected a decimal number".to_owned()) } else { Ok(number) }
}

/// "found this, expected that", with what was found shortened and made printable.
pub(crate) fn unexpected(found: &[u8], expected: &str) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let dots = if found.len() > SHOWN_BYTES_MAX { ".." } else { "" };
    format!("'{}'{dots} is not {expected}", found[..found.len().min(SHOWN_BYTES_MAX)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_lose_their_ends() {
        let mut source = Source::new(&b"one\r\n\nthree"[..]);
        let mut line = Vec::new();
        for (number, expected) in [(1, &b"one"[..]), (2, b""), (3, b"three")] {
            assert!(source.line(&mut line).unwrap());
            assert_eq!((source.line_number(), &line[..]), (number, expected));
        }
        assert!(!source.line(&mut line).unwrap());
        assert_eq!(source.offset(), 11);
    }

    #[test]
    fn an_endless_line_is_refused_before_it_fills_the_memory() {
        let mut source = Source::new(std::io::repeat(b'7'));
        let error = source.line(&mut Vec::new()).unwrap_err();
        assert!(matches!(error, TraceError::LineTooLong { line: 1, limit: LINE_BYTES_MAX }), "{error}");
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(b"0"), Ok(0));
        assert_eq!(decimal(b"18446744073709551615"), Ok(u64::MAX));
        for wrong in [&b""[..], b"18446744073709551616", b"-1", b"1 ", b"0x1", b"1.5", b"\xff"] {
            assert!(decimal(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_head_is_seen_and_stays() {
        let bytes: Vec<u8> = (0..9000u32).map(|n| n as u8).collect();
        let mut source = Source::new(Cursor::new(bytes.clone()));
        assert_eq!(source.head(), bytes[..HEAD_BYTES]);
        let mut all = vec![0; 9999];
        assert_eq!(source.fill(&mut all).unwrap(), bytes.len());
        assert_eq!(all[..bytes.len()], bytes);
    }
}
