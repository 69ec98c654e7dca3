//! Program address traces of UCSD with penalties, as Caffeine's simulator takes them.

use crate::error::TraceError;
use crate::input::Source;
use crate::lines::{Columns, Line, Wrong};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "address-penalties",
    summary: "address traces: `l|s 0xADDRESS instructions hit_penalty miss_penalty`; the last is the cost of a fetch",
    endings: &[".trace"],
    recognises: |head| head.starts_with(b"l 0x") || head.starts_with(b"s 0x"),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, false, parse)) },
};

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let columns = Columns::of(line, None, &["type", "address", "instructions", "hit_penalty", "miss_penalty"])?;
    let digits = columns.text(1).strip_prefix(b"0x").and_then(|digits| std::str::from_utf8(digits).ok());
    let address =
        digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let address = address.ok_or_else(|| columns.wrong(1, "an address 0x.. of at most 64 bits"))?;
    Line::one(Record {
        kind: columns.kind(0, "l", "s")?,
        key: TraceKey::Number(address),
        cost_us: Some(columns.small(4)?),
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};
    use crate::record::Kind;

    #[test]
    fn addresses_are_hexadecimal() {
        let (records, error) = read(&FORMAT, "s 0x1fffff50 1 1 100\nl 50 1 1 1\n");
        assert_eq!(keys(&records), [0x1fff_ff50]);
        assert_eq!((records[0].kind, records[0].cost_us), (Kind::Write, Some(100)));
        assert!(error.expect("no address").starts_with("line 2, column address: "));
    }
}
