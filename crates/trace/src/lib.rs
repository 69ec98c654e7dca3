//! Trace formats, one file each, reading and writing.
//!
//! A trace is a stream of [`Record`]s; nothing here holds a whole trace in memory. [`open`] tells a file's format from
//! its ending or its first bytes and decompresses `.zst` on the way. [`FORMATS`] is the table of formats: a new one is
//! one file here and one line there. [`fbt`] is forebay's own format, the only one that is also written; it carries
//! transactions, levels, vertices and hints, and `docs/trace-format.md` describes it for readers in other languages.
//!
//! ```
//! # fn main() -> Result<(), forebay_trace::TraceError> {
//! use forebay_trace::{Kind, Record, TraceKey, fbt};
//!
//! let mut writer = fbt::Writer::create(Vec::new(), 0)?;
//! writer.append(&Record { key: TraceKey::Number(7), kind: Kind::Write, ..Record::default() })?;
//! let bytes = writer.finish()?;
//!
//! let mut reader = fbt::Reader::new(std::io::Cursor::new(bytes))?;
//! assert_eq!(reader.next().unwrap()?.key, TraceKey::Number(7));
//! assert!(reader.next().is_none());
//! # Ok(())
//! # }
//! ```

mod arc;
mod be32;
mod be64;
mod error;
pub mod fbt;
mod input;
mod libcachesim_csv;
mod oracle_general;
mod record;
pub mod replay;
mod summary;

use std::path::Path;

pub use arc::BLOCKS_PER_LINE_MAX;
pub use error::TraceError;
pub use input::{HEAD_BYTES, LINE_BYTES_MAX, Source};
pub use libcachesim_csv::COLUMNS_MAX;
pub use record::{Kind, Record, TraceKey};
pub use summary::{SUMMARY_KEYS_MAX, Summary};

/// The records of a trace, in order. After an error or the end it yields nothing more.
pub type Records = Box<dyn Iterator<Item = Result<Record, TraceError>> + Send>;

/// One trace format, declared once.
pub struct Format {
    /// The name by which users choose it: `oracleGeneral`.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Endings of file names, with their dot, without `.zst`; compared without regard to case.
    pub endings: &'static [&'static str],
    /// True if a file with these first bytes (at most [`HEAD_BYTES`]) is surely of this format.
    pub recognises: fn(&[u8]) -> bool,
    /// Makes its reader.
    pub open: fn(Source) -> Result<Records, TraceError>,
}

/// All formats, the table from which help texts and `docs/trace-format.md` are made.
pub const FORMATS: &[&Format] =
    &[&fbt::FORMAT, &arc::FORMAT, &be32::FORMAT, &be64::FORMAT, &libcachesim_csv::FORMAT, &oracle_general::FORMAT];

/// Opens the trace at `path` in the named format, or in the one that its ending or its first bytes tell. A file whose
/// name ends in `.zst` is decompressed on the way.
pub fn open(path: &Path, format: Option<&str>) -> Result<Records, TraceError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let (name, compressed) = match name.strip_suffix(".zst") {
        Some(inner) => (inner, true),
        None => (name.as_str(), false),
    };
    let ending = by_ending(name);
    let known = || FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    let chosen = match format {
        Some(wanted) => Some(
            *(FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(wanted)))
                .ok_or_else(|| TraceError::NoSuchFormat { name: wanted.to_owned(), known: known() })?,
        ),
        None => ending,
    };
    let mut source = Source::open(path, compressed, ending.is_some())?;
    if let Some(chosen) = chosen {
        return (chosen.open)(source);
    }
    let head = source.head();
    let recognised = FORMATS.iter().find(|format| (format.recognises)(&head));
    match recognised {
        Some(format) => (format.open)(source),
        None => Err(TraceError::UnknownFormat { path: path.to_owned(), known: known() }),
    }
}

fn by_ending(name: &str) -> Option<&'static Format> {
    let ends = |format: &&&'static Format| {
        format.endings.iter().any(|ending| name.ends_with(ending.to_ascii_lowercase().as_str()))
    };
    FORMATS.iter().find(ends).copied()
}

/// The table of formats in Markdown, as `docs/trace-format.md` shows it.
pub fn formats_markdown() -> String {
    let mut table = String::from("| format | endings (also with `.zst`) | what it is |\n|---|---|---|\n");
    for format in FORMATS {
        let endings = format.endings.iter().map(|ending| format!("`{ending}`")).collect::<Vec<_>>().join(", ");
        table += &format!("| `{}` | {endings} | {} |\n", format.name, format.summary);
    }
    table
}
