//! The text traces of the ARC paper (Megiddo and Modha, FAST 2003).
//!
//! A line is `start_block n_blocks ignored request_number`. It stands for requests for the 512-byte pages
//! `start_block` to `start_block + n_blocks - 1`. The paper counts them so (Table III), and so they are given out.

use crate::error::TraceError;
use crate::input::{Next, Source, Stream, decimal};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// Most pages that one line may ask for.
pub const BLOCKS_PER_LINE_MAX: u64 = 1 << 20;

/// Bytes of a page.
const PAGE_BYTES: u32 = 512;

const COLUMNS: [&str; 4] = ["start_block", "n_blocks", "ignored", "request_number"];

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "arc",
    summary: "text of the ARC paper: `start_block n_blocks ignored request_number`, one request per 512-byte page",
    endings: &[".lis"],
    recognises,
    open,
};

/// Whole lines without which a few numbers could be anything.
const LINES_RECOGNISED_MIN: usize = 3;

/// As the authors' traces are: an ignored column of zeros, and numbers of requests that never fall.
fn recognises(head: &[u8]) -> bool {
    let whole = head.iter().rposition(|&byte| byte == b'\n').map_or(&[][..], |end| &head[..end]);
    let (mut lines, mut request_before) = (0, 0);
    for line in whole.split(|&byte| byte == b'\n') {
        let fields = line.trim_ascii().split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let Ok(numbers) = fields.map(decimal).collect::<Result<Vec<u64>, _>>() else { return false };
        let &[_, blocks, 0, request] = &numbers[..] else { return false };
        if !(1..=BLOCKS_PER_LINE_MAX).contains(&blocks) || request < request_before {
            return false;
        }
        (lines, request_before) = (lines + 1, request);
    }
    lines >= LINES_RECOGNISED_MIN
}

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(Arc { source, line: Vec::new(), next: 0, left: 0 }))
}

struct Arc {
    source: Source,
    line: Vec<u8>,
    /// Next page of the present line.
    next: u64,
    /// Pages of the present line still to give out.
    left: u64,
}

impl Next for Arc {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while self.left == 0 {
            if !self.source.line(&mut self.line)? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                [self.next, self.left] = self.parse()?;
            }
        }
        let page = self.next;
        self.left -= 1;
        self.next = self.next.wrapping_add(1);
        Ok(Some(Record { key: TraceKey::Number(page), size: Some(PAGE_BYTES), ..Record::default() }))
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

impl Arc {
    /// First page and number of pages of the present line.
    fn parse(&self) -> Result<[u64; 2], TraceError> {
        let mut fields = self.line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let mut values = [0; COLUMNS.len()];
        for (value, column) in values.iter_mut().zip(COLUMNS) {
            let field = fields.next().ok_or_else(|| self.source.line_error(column, "missing, a line has 4 numbers"))?;
            *value = decimal(field).map_err(|reason| self.source.line_error(column, reason))?;
        }
        if fields.next().is_some() {
            return Err(self.source.line_error("-", "more than 4 numbers"));
        }
        let [start, blocks, ..] = values;
        if blocks > BLOCKS_PER_LINE_MAX {
            let reason = format!("{blocks} pages are more than blocks_per_line_max {BLOCKS_PER_LINE_MAX}");
            return Err(self.source.line_error(COLUMNS[1], reason));
        }
        if start.checked_add(blocks).is_none() {
            return Err(self.source.line_error(COLUMNS[0], "the last page's number is beyond 2^64"));
        }
        Ok([start, blocks])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<u64>, Option<String>) {
        let (mut pages, mut error) = (Vec::new(), None);
        for record in open(Source::new(std::io::Cursor::new(text.to_owned()))).unwrap() {
            match record {
                Ok(Record { key: TraceKey::Number(page), size: Some(512), .. }) => pages.push(page),
                Ok(other) => panic!("{other:?}"),
                Err(found) => error = Some(found.to_string()),
            }
        }
        (pages, error)
    }

    #[test]
    fn a_line_is_one_request_per_page() {
        assert_eq!(read("5 3 0 1\n\n9 0 0 2\r\n 100\t1 0 3"), (vec![5, 6, 7, 100], None));
    }

    #[test]
    fn malformed_lines_are_named_by_line_and_column() {
        for (line, column) in [
            ("1", ", column n_blocks"),
            ("1 1 0", ", column request_number"),
            ("x 1 0 0", ", column start_block"),
            ("1 -1 0 0", ", column n_blocks"),
            ("1 1 0.5 0", ", column ignored"),
            ("1 1 0 0 0", ""),
            ("1 9999999 0 0", ", column n_blocks"),
            ("18446744073709551615 1 0 0", ", column start_block"),
            ("99999999999999999999 1 0 0", ", column start_block"),
        ] {
            let (pages, error) = read(&format!("4 1 0 0\n{line}\n7 1 0 0\n"));
            assert_eq!(pages, [4], "{line}");
            let error = error.expect(line);
            assert!(error.starts_with(&format!("line 2{column}: ")), "{line}: {error}");
        }
    }
}
