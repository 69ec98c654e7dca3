//! Trace formats, one file each, reading and writing.
//!
//! A trace is a stream of [`Record`]s; nothing here holds a whole trace in memory. [`open`] tells a file's format
//! from its ending or its first bytes and decompresses zstd and gzip on the way. [`FORMATS`] is the table of formats:
//! a new one is one file here and one line there. [`describe`] says what a trace is like, [`tools`] make traces of
//! traces. [`fbt`] is forebay's own format, the only one that is also written. It has transactions, levels, vertices
//! and hints, and `docs/trace-format-fbt.md` describes it for readers in other languages.
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

mod adaptsize;
mod arc;
mod be32;
mod be64;
mod big_cache;
mod chance;
mod column_names;
mod csv;
mod csv_writer;
mod date;
pub mod describe;
pub mod dictionary;
mod ends;
mod error;
pub mod fbt;
mod format;
mod htr;
mod input;
mod lcs;
mod likely;
mod lines;
mod lirs;
mod logs;
mod mooncake;
mod mqsim;
mod msr;
mod oracle_general;
mod packed;
mod penalties;
mod record;
pub mod replay;
mod stream;
mod summary;
mod systor;
mod tencent;
pub mod tools;
mod vscsi;
mod wikimedia;
pub mod words;

use std::io::Read;
use std::path::Path;

pub use arc::BLOCKS_PER_LINE_MAX;
pub use column_names::ColumnNames;
pub use csv::{CLIENTS_NAMED_MAX, COLUMNS_MAX, TYPES_NAMED_MAX, column_names};
pub use ends::OPEN_TRANSACTIONS_MAX;
pub use error::TraceError;
pub use format::{Format, Records, TraceOptions, TraceReader};
pub use htr::{HEADER_BYTES_MAX, REQUESTS_MAX};
use input::Compression;
pub use input::{HEAD_BYTES, LINE_BYTES_MAX, STANDARD_INPUT, Source};
pub use lines::REQUESTS_PER_LINE_MAX;
pub use logs::LOG_LINE_BYTES_MAX;
pub use record::{Kind, Record, TraceKey, mix};
pub use summary::{SUMMARY_KEYS_MAX, Summary};

/// All formats, the table from which help texts and `docs/trace-format.md` are made.
pub const FORMATS: &[&Format] = &[
    &fbt::FORMAT,
    &csv::FORMAT,
    &oracle_general::FORMAT,
    &lcs::FORMAT,
    &vscsi::FORMAT,
    &arc::FORMAT,
    &lirs::FORMAT,
    &be32::FORMAT,
    &be64::FORMAT,
    &htr::FORMAT,
    &msr::FORMAT,
    &systor::FORMAT,
    &tencent::BLOCK,
    &tencent::PHOTO,
    &mqsim::FORMAT,
    &penalties::FORMAT,
    &adaptsize::FORMAT,
    &big_cache::FORMAT,
    &wikimedia::FORMAT,
    &mooncake::FORMAT,
    &logs::access::FORMAT,
    &logs::alb::FORMAT,
    &logs::monitor::FORMAT,
    &logs::memcached::FORMAT,
    #[cfg(feature = "sql")]
    &logs::csvlog::FORMAT,
    #[cfg(feature = "sql")]
    &logs::jsonlog::FORMAT,
    &csv::json_lines::FORMAT,
];

/// Opens the trace at `path` in the named format, or in the one that its ending or its first bytes tell.
pub fn open(path: &Path, format: Option<&str>) -> Result<Records, TraceError> {
    open_with(path, &TraceOptions { format: format.map(str::to_owned), ..TraceOptions::default() })
}

/// Formats that begin with a mark that is in no other file, whatever its name.
const MARKED: &[&Format] = &[&fbt::FORMAT, &htr::FORMAT, &lcs::FORMAT];

/// As [`open`], with all options. A file whose name ends in `.zst` or `.gz`, or that begins as such files do, is
/// decompressed on the way; [`STANDARD_INPUT`] is what comes there.
pub fn open_with(path: &Path, options: &TraceOptions) -> Result<Records, TraceError> {
    match &options.kept {
        Some(kept) if path == Path::new(STANDARD_INPUT) => (fbt::FORMAT.open)(Source::new(Source::bytes_of(kept)?)),
        _ => open_bytes(Source::bytes_of(path)?, path, options),
    }
}

/// As [`open_with`], of what `bytes` has in place of the file; its name still counts.
pub fn open_bytes(bytes: Box<dyn Read + Send>, path: &Path, options: &TraceOptions) -> Result<Records, TraceError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let (name, compression) = Compression::of_name(&name);
    let known = || FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    let by_ending: Vec<&'static Format> = FORMATS.iter().copied().filter(|format| format.ends(name)).collect();
    let mut source = Source::open(bytes, path, compression, !by_ending.is_empty())?;
    if options.lenient {
        source.be_lenient();
    }
    source.name_columns(options.columns.clone());
    let chosen = match (&options.format, &by_ending[..]) {
        (None, _) if !options.columns.pairs().is_empty() => match source.head().trim_ascii_start().first() {
            Some(b'{') => &csv::json_lines::FORMAT,
            _ => &csv::FORMAT,
        },
        (Some(wanted), _) => *(FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(wanted)))
            .ok_or_else(|| TraceError::NoSuchFormat { name: wanted.to_owned(), known: known() })?,
        (None, several) => {
            let head = source.head();
            let marked = MARKED.iter().find(|format| (format.recognises)(&head));
            if let Some(only) = marked.or(if let [only] = several { Some(only) } else { None }) {
                return (only.open)(source);
            }
            let candidates = if several.is_empty() { FORMATS } else { several };
            let recognised = candidates.iter().find(|format| (format.recognises)(&head));
            *recognised.or(several.first()).ok_or_else(|| TraceError::UnknownFormat {
                path: path.to_owned(),
                likely: likely::three(FORMATS, &head),
            })?
        }
    };
    (chosen.open)(source)
}

/// The ending by which a file's name says that it holds something else than [`fbt`]: another format, or compression.
pub fn ending_of_another(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let others = FORMATS.iter().filter(|format| format.name != fbt::FORMAT.name);
    let mut endings = others.flat_map(|format| format.endings).copied().chain(Compression::endings());
    endings.find(|ending| name.ends_with(ending.to_ascii_lowercase().as_str()))
}

/// As [`open_with`], of a trace that was read before: refused where it is no file, as what a pipe had is gone then.
pub fn open_again(path: &Path, options: &TraceOptions) -> Result<Records, TraceError> {
    match std::fs::metadata(path) {
        _ if path == Path::new(STANDARD_INPUT) && options.kept.is_none() => Err(TraceError::NotAgain),
        _ if path == Path::new(STANDARD_INPUT) => open_with(path, options),
        Ok(found) if !found.is_file() => Err(TraceError::NotAgain),
        _ => open_with(path, options),
    }
}

/// The table of formats in Markdown, as `docs/trace-format.md` shows it.
pub fn formats_markdown() -> String {
    let mut table = String::from("| format | endings (also with `.zst` or `.gz`) | what it is |\n|---|---|---|\n");
    for format in FORMATS {
        let shown = |ending: &&str| format!("`{ending}{}`", if ending.ends_with('.') { "*" } else { "" });
        let endings = format.endings.iter().map(shown).collect::<Vec<_>>().join(", ");
        let endings = if endings.is_empty() { "told by its content".to_owned() } else { endings };
        table += &format!("| `{}` | {endings} | {} |\n", format.name, format.summary);
    }
    table
}
