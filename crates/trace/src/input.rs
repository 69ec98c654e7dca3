//! Where readers get their bytes: decompressed on the way, with offsets and line numbers for errors.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, stdin};
use std::path::Path;

use crate::TraceReader;
use crate::column_names::ColumnNames;
use crate::dictionary::Dictionary;
use crate::error::TraceError;
use crate::record::Record;

/// Longest line of a text trace in bytes, without its line end.
pub const LINE_BYTES_MAX: usize = 128 * 1024;

/// Bytes at the start of a trace by which its format may be recognised.
pub const HEAD_BYTES: usize = 512;

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
    /// What is malformed is passed over and counted.
    lenient: bool,
    /// What columns of a table are called.
    columns: ColumnNames,
}

impl Source {
    /// Reads `reader` as it is.
    pub fn new(reader: impl Read + Send + 'static) -> Source {
        let reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, reader));
        Source { reader, offset: 0, line: 0, line_offset: 0, lenient: false, columns: ColumnNames::default() }
    }

    /// Opens a file. It is decompressed as its name says, or if it begins as compressed files do and `plain`, that its
    /// name ends in that of an uncompressed format, does not hold.
    pub(crate) fn open(path: &Path, compression: Option<Compression>, plain: bool) -> Result<Source, TraceError> {
        let failed = |source| TraceError::Open { path: path.to_owned(), source };
        let mut file: Box<dyn Read + Send> = if path == Path::new(STANDARD_INPUT) {
            Box::new(stdin())
        } else {
            Box::new(File::open(path).map_err(failed)?)
        };
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
            if line.len() + taken > LINE_BYTES_MAX {
                return Err(TraceError::LineTooLong { line: self.line + 1, limit: LINE_BYTES_MAX });
            }
            line.extend_from_slice(&available[..taken]);
            let consumed = taken + usize::from(end.is_some());
            self.reader.consume(consumed);
            self.offset += consumed as u64;
            if last {
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

/// What each format's reader does; [`Stream`] makes an iterator of it.
pub(crate) trait Next {
    /// The next record, `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError>;

    /// Appends at most so many records, none at the end. Those before an error are appended.
    fn next_records(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        for _ in 0..most {
            match self.next_record()? {
                Some(record) => batch.push(record),
                None => break,
            }
        }
        Ok(())
    }

    /// As [`TraceReader::fill_requests`].
    fn next_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        for _ in 0..most {
            match self.next_record()? {
                Some(record) => batch.extend(record.request()),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Where it reads from, if after a malformed record it can go on with the next.
    fn source(&self) -> Option<&Source> {
        None
    }

    /// Whether a trace that is cut ends there, without an error.
    fn takes_cut(&self) -> bool {
        self.source().is_some_and(|source| source.lenient)
    }

    /// What its numbers mean.
    fn dictionary(&self) -> Option<&Dictionary> {
        None
    }

    /// What whoever reads the figures has to know.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Ends after the first error or the end, whichever comes first; if its source is lenient, only after an error that is
/// not about a single record.
pub(crate) struct Stream<R> {
    pub(crate) reader: R,
    done: bool,
    skipped: u64,
    /// Where the trace was cut.
    cut: Option<String>,
}

impl<R> Stream<R> {
    pub(crate) fn new(reader: R) -> Stream<R> {
        Stream { reader, done: false, skipped: 0, cut: None }
    }
}

impl<R: Next> Stream<R> {
    /// Whether a malformed record is counted and no error.
    fn passes_over(&self) -> bool {
        self.reader.source().is_some_and(|source| source.lenient)
    }

    /// After an error all is over. A cut is remembered; it is no error where it was asked to be none.
    fn over(&mut self, error: TraceError) -> Result<(), TraceError> {
        self.done = true;
        match error {
            TraceError::Cut { offset, what } if self.reader.takes_cut() => {
                self.cut =
                    Some(format!("byte {offset}: the trace is cut short ({what}); only what came before was read"));
                Ok(())
            }
            error => {
                self.cut = error.is_truncated().then(|| error.to_string());
                Err(error)
            }
        }
    }
}

impl<R: Next + Send + 'static> Stream<R> {
    pub(crate) fn boxed(reader: R) -> crate::Records {
        Box::new(Stream::new(reader))
    }
}

impl<R: Next> Iterator for Stream<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        loop {
            match self.reader.next_record() {
                Err(error) if error.is_about_one_record() && self.passes_over() => self.skipped += 1,
                Err(error) => return self.over(error).err().map(Err),
                Ok(None) => {
                    self.done = true;
                    return None;
                }
                Ok(Some(record)) => return Some(Ok(record)),
            }
        }
    }
}

impl<R: Next + Send> TraceReader for Stream<R> {
    fn fill(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        let begun = batch.len();
        while !self.done && batch.len() - begun < most {
            let before = batch.len();
            match self.reader.next_records(batch, most - (before - begun)) {
                Err(error) if error.is_about_one_record() && self.passes_over() => self.skipped += 1,
                Err(error) => return self.over(error),
                Ok(()) => self.done = batch.len() == before,
            }
        }
        Ok(())
    }

    fn fill_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        if self.done {
            return Ok(false);
        }
        match self.reader.next_requests(batch, most) {
            Err(error) if error.is_about_one_record() && self.passes_over() => self.skipped += 1,
            Err(error) => self.over(error)?,
            Ok(more) => self.done = !more,
        }
        Ok(!self.done)
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        self.reader.dictionary()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn warnings(&self) -> Vec<String> {
        self.reader.warnings().into_iter().chain(self.cut.clone()).collect()
    }
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
        let bytes: Vec<u8> = (0..2000u32).map(|n| n as u8).collect();
        let mut source = Source::new(Cursor::new(bytes.clone()));
        assert_eq!(source.head(), bytes[..HEAD_BYTES]);
        let mut all = vec![0; 3000];
        assert_eq!(source.fill(&mut all).unwrap(), bytes.len());
        assert_eq!(all[..bytes.len()], bytes);
    }
}
