//! Transactions that a log's sessions have open.

use std::collections::{BTreeMap, HashMap};

use crate::ends::{OPEN_TRANSACTIONS_MAX, end_of};
use crate::record::{Kind, Record};

/// What is known of an open transaction.
struct Open {
    txn: u64,
    level: u16,
    /// Its last access.
    last: Option<Record>,
}

/// Open transactions by session. Of more than [`OPEN_TRANSACTIONS_MAX`] the oldest are forgotten: their sessions are
/// likely gone.
#[derive(Default)]
pub(super) struct Transactions {
    open: HashMap<Box<[u8]>, Open>,
    /// Sessions by the number of their transaction.
    began: BTreeMap<u64, Box<[u8]>>,
    /// Transactions that have begun.
    count: u64,
}

impl Transactions {
    /// A session begins one, if it has none.
    pub fn begin(&mut self, session: &[u8]) {
        if self.open.contains_key(session) {
            return;
        }
        self.count += 1;
        self.began.insert(self.count, session.into());
        self.open.insert(session.into(), Open { txn: self.count, level: 0, last: None });
        if self.open.len() > OPEN_TRANSACTIONS_MAX
            && let Some((_, oldest)) = self.began.pop_first()
        {
            self.open.remove(&oldest);
        }
    }

    /// Says of an access which transaction it belongs to.
    pub fn place(&mut self, session: &[u8], record: &mut Record) {
        if let Some(open) = self.open.get_mut(session) {
            (record.txn, record.level) = (open.txn, open.level);
            open.last = Some(record.clone());
        }
    }

    /// What comes next has waited for what came before.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "commands of MULTI do not wait for each other"))]
    pub fn next_level(&mut self, session: &[u8]) {
        if let Some(open) = self.open.get_mut(session) {
            open.level = open.level.saturating_add(1);
        }
    }

    /// The end of the session's transaction, if it has one that asked for anything.
    pub fn end(&mut self, session: &[u8], kind: Kind) -> Option<Record> {
        let open = self.open.remove(session)?;
        self.began.remove(&open.txn);
        open.last.map(|last| end_of(&last, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_their_transactions_apart() {
        let mut transactions = Transactions::default();
        transactions.begin(b"a");
        transactions.begin(b"b");
        let mut placed = |session: &[u8]| {
            let mut record = Record::default();
            transactions.place(session, &mut record);
            transactions.next_level(session);
            (record.txn, record.level)
        };
        assert_eq!([placed(b"a"), placed(b"b"), placed(b"a"), placed(b"c")], [(1, 0), (2, 0), (1, 1), (0, 0)]);
        let end = transactions.end(b"a", Kind::Aborted).expect("it asked");
        assert_eq!((end.txn, end.kind), (1, Kind::Aborted));
        assert!(transactions.end(b"a", Kind::Committed).is_none());
        (0..=OPEN_TRANSACTIONS_MAX).for_each(|session| transactions.begin(&session.to_be_bytes()));
        assert!(transactions.open.len() == OPEN_TRANSACTIONS_MAX && transactions.began.len() == OPEN_TRANSACTIONS_MAX);
    }
}
