//! What a format is: one record, and how what it opens is read.

use std::path::PathBuf;

use crate::column_names::ColumnNames;
use crate::dictionary::Dictionary;
use crate::error::TraceError;
use crate::input::Source;
use crate::record::Record;

/// The records of a trace, in order. After an error or the end it yields nothing more.
pub type Records = Box<dyn TraceReader>;

/// What reads a trace.
pub trait TraceReader: Iterator<Item = Result<Record, TraceError>> + Send {
    /// Appends at most so many records, none at the end. Those before an error are appended.
    fn fill(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        for _ in 0..most {
            match self.next() {
                Some(record) => batch.push(record?),
                None => break,
            }
        }
        Ok(())
    }

    /// Appends what a replay of keys and sizes needs of at most so many records, and of accesses alone: see
    /// [`Record::request`]. False at the end; those before it, or before an error, are appended.
    fn fill_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        for _ in 0..most {
            match self.next() {
                Some(record) => batch.extend(record?.request()),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// What numbers of hint sets, transaction types and vertices mean, as far as it was read.
    fn dictionary(&self) -> Option<&Dictionary> {
        None
    }

    /// Malformed records that were passed over, with [`TraceOptions::lenient`].
    fn skipped(&self) -> u64 {
        0
    }

    /// What was wrong with the first of those, and where.
    fn first_skipped(&self) -> Option<&str> {
        None
    }

    /// What a reader of the figures has to know of how the trace was read, a line each: complete at the end.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The format's name; without it the file's name or its first bytes tell.
    pub format: Option<String>,
    /// Pass over malformed records and count them, as far as the format can tell where the next begins (a text, or
    /// records of one length); else the first one ends the trace with an error.
    pub lenient: bool,
    /// Names that columns of a CSV have in place of ours, or fields of JSON lines; with any the format is one of these
    /// two, if none is given.
    pub columns: ColumnNames,
    /// A file of forebay's own format that has what came on [`STANDARD_INPUT`](crate::STANDARD_INPUT), to be read in
    /// place of that.
    pub kept: Option<PathBuf>,
}

/// One trace format, declared once.
pub struct Format {
    /// The name by which users choose it: `oracleGeneral`.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Endings of file names, with their dot, without `.zst` or `.gz`; compared without regard to case. Where formats
    /// share one, the first bytes decide between them, else it is the first of them in the table. One with a dot at its
    /// end may stand anywhere in the name.
    pub endings: &'static [&'static str],
    /// True if a file with these first bytes, at most [`HEAD_BYTES`](crate::HEAD_BYTES), is surely of this format.
    pub recognises: fn(&[u8]) -> bool,
    /// Makes its reader.
    pub open: fn(Source) -> Result<Records, TraceError>,
}

impl Format {
    /// Whether a file's name, in lower case, has one of the format's endings.
    pub(crate) fn ends(&self, name: &str) -> bool {
        self.endings.iter().map(|ending| ending.to_ascii_lowercase()).any(|ending| match ending.ends_with('.') {
            true => name.contains(&ending),
            false => name.ends_with(&ending),
        })
    }
}
