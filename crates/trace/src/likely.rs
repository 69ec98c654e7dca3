//! Which formats a trace may have that none is sure of: those that can read most of its first bytes.

use std::io::Cursor;

use crate::format::Format;
use crate::input::Source;
use crate::{be32, be64, fbt, htr, lcs, oracle_general, vscsi};

/// Formats that are no text.
const BINARY: &[&Format] =
    &[&fbt::FORMAT, &oracle_general::FORMAT, &lcs::FORMAT, &vscsi::FORMAT, &be32::FORMAT, &be64::FORMAT, &htr::FORMAT];

/// Formats that people have most often, the first where no other is nearer.
const USUAL: [&str; 3] = ["csv", "access-log", "json-lines"];

/// How many are named.
const NAMED: usize = 3;

/// Records of the head that are tried.
const TRIED_MAX: usize = 64;

/// The three likeliest of `formats` for what begins so, the likeliest first.
pub(crate) fn three(formats: &[&Format], head: &[u8]) -> String {
    let binary = head.contains(&0) || std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some());
    let is_binary = |format: &Format| BINARY.iter().any(|other| other.name == format.name);
    let usual = |format: &Format| USUAL.iter().position(|name| *name == format.name).unwrap_or(USUAL.len());
    let mut candidates: Vec<&Format> = formats.iter().copied().filter(|format| is_binary(format) == binary).collect();
    candidates.sort_by_key(|format| usual(format));
    let mut ranked: Vec<(f64, &str)> =
        candidates.iter().map(|format| (share_read(format, head), format.name)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<&str> = ranked.iter().take(NAMED).map(|(_, name)| *name).collect();
    names.join(", ")
}

/// Which share of the first records a format can read.
fn share_read(format: &Format, head: &[u8]) -> f64 {
    let mut source = Source::new(Cursor::new(head.to_vec()));
    source.be_lenient();
    let Ok(mut records) = (format.open)(source) else { return 0.0 };
    let read = records.by_ref().take(TRIED_MAX).filter(Result::is_ok).count() as f64;
    read / (read + records.skipped() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMATS;

    #[test]
    fn what_can_be_read_is_likelier() {
        assert!(
            three(FORMATS, b"1 2 3 4\n5 6 7 8\n").starts_with("arc, "),
            "{}",
            three(FORMATS, b"1 2 3 4\n5 6 7 8\n")
        );
        assert_eq!(three(FORMATS, b"some words\nand more\n"), "csv, access-log, json-lines");
        let binary = three(FORMATS, &[0, 1, 2, 3, 0xff, 0xfe, 0, 9]);
        assert!(binary.split(", ").all(|name| BINARY.iter().any(|format| format.name == name)), "{binary}");
        assert_eq!(binary.split(", ").count(), NAMED);
    }
}
