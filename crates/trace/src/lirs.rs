//! Numbers, one in each line: the traces of the LIRS and LIRS2 papers, and plain lists of block numbers. A line that is
//! only `*` is a mark of the authors' program.

use crate::error::TraceError;
use crate::input::Source;
use crate::input::decimal;
use crate::lines::{Line, Wrong, first_line, numbers};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "lirs",
    summary: "text of the LIRS paper, or any list of numbers: one key in each line, `*` is passed over",
    endings: &[".trc"],
    recognises: |head| {
        let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).collect::<Vec<_>>();
        // The last line of the head may be cut.
        let key_or_mark = |line: &&[u8]| *line == b"*" || decimal(line).is_ok();
        lines.len() > 2 && numbers(&first_line(head, None)) && lines[..lines.len() - 1].iter().all(key_or_mark)
    },
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    match line.trim_ascii() {
        b"*" => Ok(None),
        number => {
            let number = decimal(number).map_err(|reason| ("block", reason))?;
            Line::one(Record { key: TraceKey::Number(number), ..Record::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};

    #[test]
    fn numbers_and_marks() {
        let (records, error) = read(&FORMAT, "7\n*\n\n 8 \n7");
        assert_eq!((keys(&records), error), (vec![7, 8, 7], None));
        let (records, error) = read(&FORMAT, "7\n-1\n9\n");
        assert_eq!(keys(&records), [7]);
        assert!(error.expect("a negative number").starts_with("line 2, column block: "));
        assert!((FORMAT.recognises)(b"1\n2\n3") && !(FORMAT.recognises)(b"1 2\n3 4\n") && !(FORMAT.recognises)(b"1\n"));
        assert!((FORMAT.recognises)(b"1\n*\n3\n4") && !(FORMAT.recognises)(b"*\n1\n2\n"));
    }
}
