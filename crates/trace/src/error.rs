//! What can go wrong with a trace, by operation; each variant says where and what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a trace could not be opened, read or written.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file could not be opened.
    #[error("cannot be opened: {source}; check the path and its permissions")]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Neither the file's ending nor its first bytes tell its format.
    #[error(
        "neither its name nor its first bytes tell its format; most likely are {likely}: give one with \
         --trace-format, --help lists all"
    )]
    UnknownFormat {
        /// The file asked for.
        path: PathBuf,
        /// The three formats that are nearest.
        likely: String,
    },
    /// There is not a byte in it.
    #[error("the file is empty")]
    Empty,
    /// What can be read only once was to be read again.
    #[error("it has to be read more than once, and is no file but a pipe or a device; save it as a file first")]
    NotAgain,
    /// No format has the name that was given.
    #[error("no trace format is named '{name}'; give one of: {known}")]
    NoSuchFormat {
        /// The name given.
        name: String,
        /// Names that can be given.
        known: String,
    },
    /// Reading or decompressing failed.
    #[error("reading the trace failed at byte {offset} (after decompression): {source}; check the disk and the file")]
    Read {
        /// Byte of the decompressed trace.
        offset: u64,
        /// What the operating system or the decompressor said.
        source: io::Error,
    },
    /// A line of a text format is not what the format says.
    #[error(
        "line {line}{}: {reason} (at byte {offset}); mend the line, pass over such lines with --lenient, or name \
         another format with --trace-format",
        of_column(column)
    )]
    Line {
        /// Line number from 1.
        line: u64,
        /// Byte of the decompressed trace at which the line begins.
        offset: u64,
        /// Column by name, or `-` for the whole line.
        column: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// The first line of a table does not say what its columns are.
    #[error("line 1: {reason}; name the columns in the first line as docs/trace-format.md has them")]
    Header {
        /// What was found and what was expected.
        reason: String,
    },
    /// A line is longer than [`crate::LINE_BYTES_MAX`].
    #[error("line {line} is longer than line_bytes_max {limit}; is this a text trace?")]
    LineTooLong {
        /// Line number from 1.
        line: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// Bytes of a binary format are not what the format says.
    #[error("byte {offset}: {reason}; the file is damaged or of another format")]
    Malformed {
        /// Byte of the decompressed trace.
        offset: u64,
        /// What was found and what was expected.
        reason: String,
    },
    /// A trace of forebay's own format ends before its end block: its writer was killed, or the file was cut. What came
    /// before this error is whole; a caller may take it for the end, and [`crate::TraceReader::warnings`] tells of it.
    #[error("byte {offset}: the trace is cut short ({what}); what came before is whole and was read")]
    Truncated {
        /// Byte of the decompressed trace at which data ended.
        offset: u64,
        /// What was cut.
        what: &'static str,
    },
    /// The file is not whole: its compression or a record of one length ends in the middle. What came before may be a
    /// small part of it.
    #[error(
        "byte {offset} (after decompression): the trace is cut short ({what}); get the whole file, or take what came \
         before with --lenient"
    )]
    Cut {
        /// Byte of the decompressed trace at which data ended.
        offset: u64,
        /// What was cut.
        what: &'static str,
    },
    /// The file was written by a later forebay.
    #[error("forebay trace format version {found} is not known, only up to {known}; read it with a newer forebay")]
    Version {
        /// Version in the file.
        found: u16,
        /// Latest version that this build reads.
        known: u16,
    },
    /// Something is larger than a named limit allows.
    #[error("{name} {limit} exceeded ({found}); leave it out or split the trace")]
    Limit {
        /// Name of the limit.
        name: &'static str,
        /// The limit.
        limit: u64,
        /// What was asked for.
        found: u64,
    },
    /// A trace that is to be mixed uses more key spaces than there are for each.
    #[error(
        "trace {trace} of those to be mixed has a key in key space {found}, and each may use 0 to {limit}; if it is a \
         mix itself, mix the traces that it was made of, with the others, in one command"
    )]
    MixedSpaces {
        /// Which of the traces, from 1.
        trace: usize,
        /// The last key space that it may use.
        limit: u8,
        /// The one that it has.
        found: u8,
    },
    /// A number was defined before, with another meaning.
    #[error("{what} {id} is defined twice with different content; give the second one another number")]
    Redefined {
        /// What kind of number: hint schema, hint set, transaction type, vertex.
        what: &'static str,
        /// The number.
        id: u64,
    },
    /// Writing failed; the trace ends with its last whole block and takes no more records.
    #[error("writing the trace failed: {source}; make room on the disk and start a new trace")]
    Write {
        /// What the operating system said.
        source: io::Error,
    },
    /// Records were offered after a failed write.
    #[error("an earlier write of this trace failed; start a new trace")]
    Closed,
}

/// Where in a line, if that is known.
fn of_column(column: &str) -> String {
    if column == "-" { String::new() } else { format!(", column {column}") }
}

impl TraceError {
    /// True if only one record is wrong, and what follows it may be right.
    pub(crate) fn is_about_one_record(&self) -> bool {
        matches!(self, TraceError::Line { .. } | TraceError::Malformed { .. })
    }

    /// Where something is wrong and what, without what to do.
    pub(crate) fn place_and_reason(&self) -> String {
        match self {
            TraceError::Line { line, column, reason, .. } => format!("line {line}{}: {reason}", of_column(column)),
            TraceError::Malformed { offset, reason } => format!("byte {offset}: {reason}"),
            other => other.to_string(),
        }
    }

    /// True if the trace merely has no end block, so that a caller may take this for its end.
    pub fn is_truncated(&self) -> bool {
        matches!(self, TraceError::Truncated { .. })
    }
}
