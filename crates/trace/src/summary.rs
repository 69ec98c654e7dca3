//! What a trace amounts to: requests, keys, bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

use crate::error::TraceError;
use crate::record::{Kind, Record, TraceKey};

/// Most different keys that a summary counts.
pub const SUMMARY_KEYS_MAX: usize = 1 << 28;

/// Figures of a trace, computed from its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Accesses of all kinds.
    pub requests: u64,
    /// Accesses that write or delete.
    pub writes: u64,
    /// Different keys.
    pub unique_keys: u64,
    /// Keys that were accessed once.
    pub one_hit_keys: u64,
    /// Bytes of all keys' entries, each with the size of its first access; a size that is not known counts as 0.
    pub footprint_bytes: u64,
    /// Bytes of all accesses.
    pub requested_bytes: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted.
    pub aborted: u64,
}

impl Summary {
    /// Reads all records. A trace that was cut short is summed up to its cut; any other error is handed on.
    pub fn of(records: impl IntoIterator<Item = Result<Record, TraceError>>) -> Result<Summary, TraceError> {
        let mut summary = Summary::default();
        // Whether the key was accessed again. Numbers have a map of their own, at a third of the memory.
        let mut numbers: HashMap<(u8, u64), bool, RandomState> = HashMap::default();
        let mut others: HashMap<(u8, TraceKey), bool, RandomState> = HashMap::default();
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) if error.is_truncated() => break,
                Err(error) => return Err(error),
            };
            if !summary.count(&record) {
                continue;
            }
            let size = u64::from(record.size.unwrap_or(0));
            let first = match record.key {
                TraceKey::Number(number) => seen(numbers.entry((record.space, number)), &mut summary.one_hit_keys),
                key => seen(others.entry((record.space, key)), &mut summary.one_hit_keys),
            };
            if first {
                summary.unique_keys += 1;
                summary.footprint_bytes += size;
                if summary.unique_keys > SUMMARY_KEYS_MAX as u64 {
                    let (limit, found) = (SUMMARY_KEYS_MAX as u64, summary.unique_keys);
                    return Err(TraceError::Limit { name: "summary_keys_max", limit, found });
                }
            }
        }
        Ok(summary)
    }

    /// Counts what does not depend on the key; false if the record is no access.
    fn count(&mut self, record: &Record) -> bool {
        match record.kind {
            Kind::Committed => self.committed += 1,
            Kind::Aborted => self.aborted += 1,
            Kind::Write | Kind::Delete => self.writes += 1,
            Kind::Read | Kind::Prefetch | Kind::Demote => {}
        }
        let access = record.kind.is_access();
        if access {
            self.requests += 1;
            self.requested_bytes += u64::from(record.size.unwrap_or(0));
        }
        access
    }
}

/// Notes an access of a key; true if it is the first.
fn seen<K>(entry: Entry<'_, K, bool>, one_hit_keys: &mut u64) -> bool {
    match entry {
        Entry::Vacant(vacant) => {
            vacant.insert(false);
            *one_hit_keys += 1;
            true
        }
        Entry::Occupied(mut again) => {
            if !std::mem::replace(again.get_mut(), true) {
                *one_hit_keys -= 1;
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> impl Strategy<Value = Vec<(u64, bool, u32)>> {
        prop::collection::vec((0..12_u64, any::<bool>(), 0..9_u32), 0..60)
    }

    proptest! {
        /// Against counting over the whole list, key by key.
        #[test]
        fn counts_are_those_of_the_whole_list(accesses in small()) {
            let key = |number: u64, text: bool| match text {
                true => TraceKey::Bytes(number.to_string().into()),
                false => TraceKey::Number(number),
            };
            let records: Vec<_> = (accesses.iter())
                .map(|&(number, text, size)| Record { key: key(number, text), size: Some(size), ..Record::default() })
                .collect();
            let count = |record: &Record| records.iter().filter(|other| other.key == record.key).count();
            let is_first = |at: usize| records[..at].iter().all(|other| other.key != records[at].key);
            let firsts = || (0..records.len()).filter(|&at| is_first(at)).map(|at| &records[at]);
            let summary = Summary::of(records.iter().cloned().map(Ok)).unwrap();
            prop_assert_eq!(summary.requests, records.len() as u64);
            prop_assert_eq!(summary.unique_keys, firsts().count() as u64);
            prop_assert_eq!(summary.one_hit_keys, firsts().filter(|first| count(first) == 1).count() as u64);
            let footprint_bytes: u64 = firsts().filter_map(|first| first.size).map(u64::from).sum();
            prop_assert_eq!(summary.footprint_bytes, footprint_bytes);
        }
    }

    #[test]
    fn keys_count_once_with_their_first_size_and_spaces_are_apart() {
        let record = |key: u64, space, size, kind| {
            let key = if kind == Kind::Committed { TraceKey::None } else { TraceKey::Number(key) };
            Ok(Record { key, space, size: Some(size), kind, ..Record::default() })
        };
        let text = |size| Ok(Record { key: TraceKey::Bytes("1".into()), size, ..Record::default() });
        let cut = || Err(TraceError::Truncated { offset: 9, what: "here" });
        let records = [
            record(1, 0, 10, Kind::Read),
            record(1, 1, 20, Kind::Write),
            record(1, 0, 90, Kind::Delete),
            text(Some(5)),
            text(None),
            text(Some(1)),
            record(0, 0, 7, Kind::Committed),
            cut(),
        ];
        let expected = Summary {
            requests: 6,
            writes: 2,
            unique_keys: 3,
            one_hit_keys: 1,
            footprint_bytes: 35,
            requested_bytes: 126,
            committed: 1,
            aborted: 0,
        };
        assert_eq!(Summary::of(records).unwrap(), expected);
        assert!(Summary::of([Err(TraceError::Closed)]).is_err());
    }
}
