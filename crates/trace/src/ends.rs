//! Ends of transactions where a trace does not write them down.
//!
//! A client has one transaction at a time: its next one says that the one before has ended. What is not said to be
//! undone took effect. So a policy that learns from whole transactions hears of each, as soon as the trace can tell.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::record::{Kind, Record, TraceKey};

/// Most transactions that may be open at a time, one for each client; the oldest ends when there are more.
pub const OPEN_TRANSACTIONS_MAX: usize = 1 << 16;

/// Numbers of ended transactions that are remembered, to notice those that go on.
const ENDED_KEPT_MAX: usize = 1 << 12;

/// Open transactions by client.
#[derive(Default)]
pub(crate) struct Ends {
    /// By client: when its transaction began, and the record that will end it.
    open: HashMap<u32, (u64, Record)>,
    /// Clients by when their transaction began.
    began: BTreeMap<u64, u32>,
    /// Transactions that have begun.
    count: u64,
    ended: HashSet<u64>,
    ended_order: VecDeque<u64>,
    /// Transactions that went on after their end.
    came_back: u64,
}

impl Ends {
    /// The end that is due before this access.
    pub fn before(&mut self, record: &Record) -> Option<Record> {
        if let Some((_, end)) = self.open.get_mut(&record.client) {
            if end.txn == record.txn {
                *end = end_of(record, Kind::Committed);
                return None;
            }
            let ended = self.close(record.client);
            self.begin(record);
            return ended;
        }
        self.begin(record);
        if self.open.len() > OPEN_TRANSACTIONS_MAX { self.last() } else { None }
    }

    /// The end of the oldest open transaction: no access comes any more.
    pub fn last(&mut self) -> Option<Record> {
        let client = *self.began.first_key_value()?.1;
        self.close(client)
    }

    /// What a reader of the figures has to know.
    pub fn warning(&self) -> Option<String> {
        let count = self.came_back;
        (count > 0).then(|| {
            format!(
                "{count} times a transaction went on after another one of its client had begun, and counts as a new \
                 one; say who asks in a column client, or when a transaction ends in a column end"
            )
        })
    }

    fn begin(&mut self, record: &Record) {
        if record.txn == 0 {
            return;
        }
        self.came_back += u64::from(self.ended.contains(&record.txn));
        self.count += 1;
        self.began.insert(self.count, record.client);
        self.open.insert(record.client, (self.count, end_of(record, Kind::Committed)));
    }

    fn close(&mut self, client: u32) -> Option<Record> {
        let (began, end) = self.open.remove(&client)?;
        self.began.remove(&began);
        if self.ended.insert(end.txn) {
            self.ended_order.push_back(end.txn);
        }
        if self.ended_order.len() > ENDED_KEPT_MAX
            && let Some(forgotten) = self.ended_order.pop_front()
        {
            self.ended.remove(&forgotten);
        }
        Some(end)
    }
}

/// The end of the transaction whose last access this is.
pub(crate) fn end_of(record: &Record, kind: Kind) -> Record {
    let key = TraceKey::None;
    Record { kind, key, size: None, charged: None, cost_us: None, hints: 0, ..record.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(client: u32, txn: u64) -> Record {
        Record { client, txn, key: TraceKey::Number(1), ..Record::default() }
    }

    /// Accesses and the ends among them.
    fn with_ends(trace: &[(u32, u64)]) -> (Vec<(Kind, u32, u64)>, Ends) {
        let (mut ends, mut told) = (Ends::default(), Vec::new());
        for &(client, txn) in trace {
            let record = access(client, txn);
            told.extend(ends.before(&record));
            told.push(record);
        }
        while let Some(end) = ends.last() {
            told.push(end);
        }
        (told.into_iter().map(|record| (record.kind, record.client, record.txn)).collect(), ends)
    }

    #[test]
    fn a_transaction_ends_where_its_client_goes_on() {
        use Kind::{Committed, Read};
        let (told, ends) = with_ends(&[(1, 7), (2, 8), (1, 7), (1, 9), (2, 0)]);
        let expected = [
            (Read, 1, 7),
            (Read, 2, 8),
            (Read, 1, 7),
            (Committed, 1, 7),
            (Read, 1, 9),
            (Committed, 2, 8),
            (Read, 2, 0),
            (Committed, 1, 9),
        ];
        assert_eq!((told, ends.warning()), (expected.to_vec(), None));
        let (told, ends) = with_ends(&[(0, 1), (0, 2), (0, 1)]);
        assert_eq!(told.len(), 6, "nobody says that these are two clients");
        assert!(ends.warning().is_some_and(|warning| warning.starts_with("1 times")));
    }

    #[test]
    fn clients_beyond_the_limit_end_the_oldest() {
        let mut ends = Ends::default();
        let first = OPEN_TRANSACTIONS_MAX as u32;
        assert!((0..first).all(|client| ends.before(&access(client, u64::from(client) + 1)).is_none()));
        assert_eq!(ends.before(&access(first, u64::MAX)).map(|end| (end.client, end.txn)), Some((0, 1)));
        assert_eq!(ends.open.len(), OPEN_TRANSACTIONS_MAX);
    }

    proptest! {
        /// Every run of one client's accesses in one transaction has one end, after it and before the client's next.
        #[test]
        fn each_has_one_end(trace in prop::collection::vec((0..3u32, 0..4u64), 0..40)) {
            let (told, ends) = with_ends(&trace);
            for client in 0..3 {
                let mut expected = Vec::new();
                let asked = trace.iter().filter(|asked| asked.0 == client).map(|asked| asked.1);
                for (at, txn) in asked.clone().enumerate() {
                    expected.push((Kind::Read, client, txn));
                    if txn != 0 && asked.clone().nth(at + 1) != Some(txn) {
                        expected.push((Kind::Committed, client, txn));
                    }
                }
                let of_client: Vec<_> = told.iter().copied().filter(|told| told.1 == client).collect();
                prop_assert_eq!(of_client, expected);
            }
            prop_assert!(ends.open.is_empty() && ends.began.is_empty());
        }
    }
}
