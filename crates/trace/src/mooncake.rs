//! Mooncake's traces of an LLM service (FAST 2025): each line asks for an ordered list of blocks together.

use serde::Deserialize;

use crate::ends::end_of;
use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::{Kind, Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "mooncake",
    summary: "JSON lines `{\"timestamp\": ms, .., \"hash_ids\": [..]}`; a line is a transaction of one level",
    endings: &[".jsonl"],
    recognises: |head| head.starts_with(b"{") && head.windows(10).any(|part| part == b"\"hash_ids\""),
    open,
};

/// What a line has that counts.
#[derive(Deserialize)]
struct Group {
    timestamp: Option<u64>,
    hash_ids: Vec<u64>,
}

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(Mooncake {
        source,
        line: Vec::new(),
        group: Vec::new().into_iter(),
        last: None,
        time_us: None,
        groups: 0,
    }))
}

struct Mooncake {
    source: Source,
    line: Vec<u8>,
    /// Blocks of the present line that are still to come.
    group: std::vec::IntoIter<u64>,
    /// The block before, while its line's transaction has no end.
    last: Option<Record>,
    time_us: Option<u64>,
    /// Lines so far: the number of the transaction.
    groups: u64,
}

impl Next for Mooncake {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(block) = self.group.next() {
                let key = TraceKey::Number(block);
                let record = Record { time_us: self.time_us, key, txn: self.groups, ..Record::default() };
                self.last = Some(record.clone());
                return Ok(Some(record));
            }
            if let Some(last) = self.last.take() {
                return Ok(Some(end_of(&last, Kind::Committed)));
            }
            if !self.source.line(&mut self.line)? {
                return Ok(None);
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            // A line is bounded, and so is what it becomes.
            let group: Group = serde_json::from_slice(&self.line)
                .map_err(|error| self.source.line_error("-", format!("no such object: {error}")))?;
            self.groups += 1;
            self.time_us = group.timestamp.and_then(|ms| ms.checked_mul(1000));
            self.group = group.hash_ids.into_iter();
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{keys, read};

    #[test]
    fn a_line_is_a_transaction() {
        let text = "{\"timestamp\": 3, \"input_length\": 1, \"hash_ids\": [0, 5]}\n\
                    {\"hash_ids\": []}\n\n{\"hash_ids\": [5]}\n{\n";
        let (records, error) = read(&FORMAT, text);
        let end = u64::MAX;
        assert_eq!(keys(&records), [0, 5, end, 5, end]);
        let txns: Vec<_> = records.iter().map(|record| (record.txn, record.time_us)).collect();
        let (first, third) = ((1, Some(3000)), (3, None));
        assert_eq!(txns, [first, first, first, third, third]);
        let ends = records.iter().filter(|record| record.kind == Kind::Committed && record.key == TraceKey::None);
        assert_eq!(ends.count(), 2, "a line without blocks has no transaction to end");
        assert!(error.expect("no JSON").starts_with("line 5: "));
        assert!((FORMAT.recognises)(text.as_bytes()));
    }
}
