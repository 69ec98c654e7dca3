//! Logs that servers write while they work: of each line only what a cache has to know.
//!
//! [`Log`] is what a format does, [`open`] makes a reader of it. A log that is still written may end in half a line:
//! that is no error, and a warning tells of it. What a log has and a cache is not asked for is left out and counted.

pub(crate) mod access;
pub(crate) mod alb;
mod clients;
#[cfg(feature = "sql")]
pub(crate) mod csvlog;
#[cfg(feature = "sql")]
pub(crate) mod jsonlog;
mod left_out;
pub(crate) mod memcached;
pub(crate) mod monitor;
#[cfg(feature = "sql")]
mod postgres;
#[cfg(feature = "sql")]
mod sql;
mod tokens;
mod transactions;

use std::collections::VecDeque;

use crate::Records;
use crate::error::TraceError;
use crate::input::{HEAD_BYTES, Next, Source, Stream};
use crate::lines::Wrong;
use crate::record::Record;
use left_out::LeftOut;

/// Longest line of a log, or several that are one entry: captures hold whole values.
pub const LOG_LINE_BYTES_MAX: usize = 16 << 20;

/// Most bytes of an entry of several lines: with more, a quote that does not end has swallowed the lines after it.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Lines by which a log is recognised.
const LOOKED_AT: usize = 16;

/// What a format makes of its entries.
trait Log: Send + 'static {
    /// Puts what an entry says into `due`. An error says what is wrong with it, and in which column.
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong>;

    /// Whether an entry goes on in the next line while a quote is open.
    fn has_long_quotes(&self) -> bool {
        false
    }

    /// What was left out.
    fn left_out(&self) -> &LeftOut;
}

/// Reads a log.
fn open(mut source: Source, log: impl Log) -> Records {
    source.allow_lines_of(LOG_LINE_BYTES_MAX);
    Stream::boxed(Reader {
        source,
        line: Vec::new(),
        text: Vec::new(),
        open: false,
        log,
        due: VecDeque::new(),
        half: None,
    })
}

struct Reader<L> {
    source: Source,
    line: Vec<u8>,
    /// The present entry.
    text: Vec<u8>,
    /// A quote is open at its end.
    open: bool,
    log: L,
    /// What is still to be given out of it.
    due: VecDeque<Record>,
    /// The last line, if it is a part of one.
    half: Option<u64>,
}

impl<L: Log> Reader<L> {
    /// Takes the next entry; false at the end.
    fn next_entry(&mut self) -> Result<bool, TraceError> {
        self.text.clear();
        self.open = false;
        while self.source.line(&mut self.line)? {
            if self.text.is_empty() && self.line.trim_ascii().is_empty() {
                continue;
            }
            if !self.text.is_empty() {
                self.text.push(b'\n');
            }
            let quotes = self.line.iter().filter(|&&byte| byte == b'"').count();
            self.open ^= self.log.has_long_quotes() && !quotes.is_multiple_of(2);
            self.text.append(&mut self.line);
            if !self.open {
                return Ok(true);
            }
            if self.text.len() > ENTRY_BYTES_MAX {
                return Err(self.source.line_error("-", "a quote that does not end in 1 MiB"));
            }
        }
        Ok(!self.text.is_empty())
    }
}

impl<L: Log> Next for Reader<L> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(record) = self.due.pop_front() {
                return Ok(Some(record));
            }
            if !self.next_entry()? {
                return Ok(None);
            }
            let Err((column, reason)) = self.log.entry(&self.text, &mut self.due) else { continue };
            self.due.clear();
            if self.source.line_is_whole() && !self.open {
                return Err(self.source.line_error(column, reason));
            }
            self.half = Some(self.source.line_number());
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }

    fn warnings(&self) -> Vec<String> {
        let half = self.half.map(|line| format!("line {line} is the last and a part of one, and is left out"));
        self.log.left_out().warning().into_iter().chain(half).collect()
    }
}

/// Whether most of the first lines are of a format.
fn most_lines(head: &[u8], is_line: impl Fn(&[u8]) -> bool) -> bool {
    let mut lines: Vec<&[u8]> = head.split(|&byte| byte == b'\n').collect();
    // The last may go on beyond the head.
    if lines.len() > 1 && head.len() >= HEAD_BYTES {
        lines.pop();
    }
    let lines: Vec<&[u8]> =
        lines.into_iter().map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty()).take(LOOKED_AT).collect();
    let found = lines.iter().filter(|line| is_line(line)).count();
    found > 0 && found * 2 > lines.len()
}
