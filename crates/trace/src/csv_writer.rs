//! Any trace as CSV with named columns, which the `csv` format reads again and spreadsheets read too.

use std::borrow::Cow;
use std::io::Write;

use crate::Records;
use crate::ends::end_of;
use crate::error::TraceError;
use crate::record::{Kind, Record};
use crate::tools::whole;

/// The columns, in their order.
const HEADER: &str = "time,op,key,size,cost_us,client,txn,txn_type,level,vertex,hints,space,charge,end";

/// What was written, and what CSV has no place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsvWritten {
    /// Accesses.
    pub requests: u64,
    /// Whether types and values of hints were left out; the numbers of hint sets are there.
    pub hint_meanings_left_out: bool,
    /// Whether names of transaction types or vertices were left out; their numbers are there.
    pub names_left_out: bool,
}

impl CsvWritten {
    /// What was left out, in words; none if nothing was.
    pub fn left_out(&self) -> Option<&'static str> {
        match (self.hint_meanings_left_out, self.names_left_out) {
            (false, false) => None,
            (true, false) => Some("types and values of hints (numbers of hint sets are there)"),
            (false, true) => Some("names of transaction types and vertices (their numbers are there)"),
            (true, true) => {
                Some("types and values of hints, names of transaction types and vertices (their numbers are there)")
            }
        }
    }
}

/// Writes all records. A key with a line end, or an empty one, has no form in CSV and is an error.
pub fn to_csv(records: &mut Records, output: &mut impl Write) -> Result<CsvWritten, TraceError> {
    let failed = |source| TraceError::Write { source };
    writeln!(output, "{HEADER}").map_err(failed)?;
    let mut written = CsvWritten::default();
    // The last access, until it is known whether its transaction ends with it.
    let mut held: Option<Record> = None;
    while let Some(record) = whole(records.next())? {
        if let Some(known) = records.dictionary() {
            written.hint_meanings_left_out |= known.hint_set(record.hints).is_some();
            written.names_left_out |= known.txn_type(record.txn_type).is_some();
            written.names_left_out |= known.vertex(record.txn_type, record.vertex).is_some();
        }
        let access = held.take();
        if record.kind.is_access() {
            if let Some(access) = &access {
                row(access, "", written.requests, output)?;
            }
            written.requests += u64::from(access.is_some());
            held = Some(record);
            continue;
        }
        let end = if record.kind == Kind::Committed { "commit" } else { "abort" };
        match access {
            Some(access) if is_end_of(&record, &access) => {
                row(&access, end, written.requests, output)?;
                written.requests += 1;
            }
            access => {
                if let Some(access) = &access {
                    row(access, "", written.requests, output)?;
                    written.requests += 1;
                }
                row(&record, end, written.requests, output)?;
            }
        }
    }
    if let Some(access) = &held {
        row(access, "", written.requests, output)?;
        written.requests += 1;
    }
    output.flush().map_err(failed)?;
    Ok(written)
}

/// Whether an end says nothing that its transaction's last access does not say.
fn is_end_of(end: &Record, access: &Record) -> bool {
    let plain = Record { client: access.client, txn: access.txn, kind: end.kind, ..Record::default() };
    access.txn != 0 && (*end == plain || *end == end_of(access, end.kind))
}

/// In quotes (RFC 4180) where it would not be read as it is.
fn quoted(key: &[u8]) -> Cow<'_, [u8]> {
    if key.trim_ascii() == key && !key.contains(&b',') && key.first() != Some(&b'"') {
        return Cow::Borrowed(key);
    }
    let pairs = key.iter().flat_map(|&byte| std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
    Cow::Owned([b'"'].into_iter().chain(pairs).chain([b'"']).collect())
}

fn row(record: &Record, end: &str, place: u64, output: &mut impl Write) -> Result<(), TraceError> {
    let failed = |source| TraceError::Write { source };
    let operation = match record.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Delete => "delete",
        Kind::Prefetch => "prefetch",
        Kind::Demote => "demote",
        Kind::Committed | Kind::Aborted => "",
    };
    let key = record.key.to_bytes();
    let has_form = !key.is_empty() && !key.iter().any(|byte| b"\n\r".contains(byte));
    if record.kind.is_access() && !has_form {
        let reason = format!("request {place}: key '{}' has no form in CSV; convert to fbt", key.escape_ascii());
        return Err(TraceError::Malformed { offset: place, reason });
    }
    let us = record.time_us.unwrap_or(0);
    write!(output, "{}.{:06},{operation},", us / 1_000_000, us % 1_000_000).map_err(failed)?;
    output.write_all(&quoted(&key)).map_err(failed)?;
    let Record { client, txn, txn_type, level, vertex, hints, space, .. } = record;
    let known = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    let (size, cost, charge) = (known(record.size), known(record.cost_us), known(record.charged));
    writeln!(output, ",{size},{cost},{client},{txn},{txn_type},{level},{vertex},{hints},{space},{charge},{end}")
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbt::{Reader, Writer};
    use crate::record::TraceKey;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn fbt(records: &[Record]) -> Records {
        let mut writer = Writer::create(Vec::new(), 0).expect("memory");
        records.iter().for_each(|record| writer.append(record).expect("memory"));
        Box::new(Reader::new(Cursor::new(writer.finish().expect("memory"))).expect("sound"))
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let numbers = (0..5u64, 0..3u32, 0..3u64, 0..3u16, 0..3u16, 0..3u16, 0..3u32);
        let known = (any::<bool>(), prop::option::of(0..9u32), prop::option::of(0..9u32), prop::option::of(0..9u32));
        let names = prop::option::of("[ab\", ]{1,4}");
        (0..7usize, numbers, known, 0..2u8, names).prop_map(|(kind, numbers, known, space, name)| {
            let (number, client, txn, txn_type, level, vertex, hints) = numbers;
            let (late, size, charged, cost_us) = known;
            let kind = Kind::ALL[kind];
            let time_us = Some(if late { 1_500_000 } else { 0 });
            let position = Record { time_us, kind, client, txn, txn_type, level, vertex, ..Record::default() };
            let key = name.map_or(TraceKey::Number(number), |name| TraceKey::Bytes(name.into()));
            let access = Record { key, size, charged, cost_us, hints, space, ..position.clone() };
            if kind.is_access() { access } else { Record { txn: txn + 1, ..position } }
        })
    }

    proptest! {
        /// CSV says what the trace said, ends too.
        #[test]
        fn what_is_written_is_read_again(records in prop::collection::vec(any_record(), 0..40)) {
            let mut text = Vec::new();
            let written = to_csv(&mut fbt(&records), &mut text).expect("sound");
            prop_assert_eq!(written.requests, records.iter().filter(|record| record.kind.is_access()).count() as u64);
            let again = (crate::csv::FORMAT.open)(crate::Source::new(Cursor::new(text))).expect("a header");
            let again: Vec<Record> = again.map(|record| record.expect("sound")).collect();
            // An end on the row of an access is where that was.
            let place = |record: &Record| match record.kind.is_access() {
                true => record.clone(),
                false => Record { kind: record.kind, txn: record.txn, client: record.client, ..Record::default() },
            };
            let places = |records: &[Record]| records.iter().map(place).collect::<Vec<_>>();
            prop_assert_eq!(places(&again), places(&records));
        }
    }
}
