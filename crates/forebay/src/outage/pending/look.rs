//! What people and the gate ask of the buffer.

use std::collections::BTreeSet;

use super::{Amount, Buffer, Entry, Stage};
use crate::key::Key;
use crate::outage::lanes::{Lane, Ties};
use crate::outage::record::Buffered;
use crate::store::GivenId;
use crate::version::TxnId;

impl Buffer {
    /// The oldest id that may still be sent: the store must not forget it, nor any behind it.
    pub fn oldest_id(&self) -> Option<TxnId> {
        self.ids.first().copied()
    }

    /// Whether a transaction with this id is here.
    pub(in crate::outage) fn has_id(&self, id: TxnId) -> bool {
        self.ids.contains(&id)
    }

    /// Whether transaction `number`, which is on its way to the journal, takes the place of another there.
    pub(in crate::outage) fn replaces(&self, number: u64) -> bool {
        let stage = self.entries.get(&number).map(|entry| &entry.stage);
        matches!(stage, Some(Stage::Writing { replaces: Some(_) }))
    }

    /// When the oldest transaction was buffered, ms since the Unix epoch.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.entries.values().next().map(|entry| entry.buffered.buffered_at_ms)
    }

    /// When the oldest of those that wait for the store alone was buffered, ms since the Unix epoch.
    pub fn oldest_waiting_ms(&self) -> Option<u64> {
        let first = self.lanes.values().filter_map(|lane| lane.waiting.first()).min()?;
        self.entries.get(first).map(|entry| entry.buffered.buffered_at_ms)
    }

    /// Likewise of these lanes alone.
    pub fn oldest_in_ms(&self, lanes: &[Lane]) -> Option<u64> {
        let first = lanes.iter().filter_map(|lane| self.lanes.get(lane)?.waiting.first()).min()?;
        self.entries.get(first).map(|entry| entry.buffered.buffered_at_ms)
    }

    /// When the last transaction that writes `key`, or the first that became part of it, was buffered, ms since the
    /// Unix epoch.
    pub fn last_ms(&self, key: &Key) -> Option<u64> {
        let last = self.rows.get(key)?.queue.back()?;
        self.entries.get(last).map(|entry| entry.buffered.buffered_at_ms)
    }

    /// The number that the next transaction gets.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether a transaction above `after` and below `end` is there that earlier ones were part of at the start.
    pub(in crate::outage) fn any_merged_between(&self, after: u64, end: u64) -> bool {
        after + 1 < end && self.entries.range(after + 1..end).any(|(_, entry)| entry.merged)
    }

    /// How much there is.
    pub fn amount(&self) -> Amount {
        Amount {
            transactions: self.entries.len(),
            waiting: self.entries.len() - self.quarantined - self.behind,
            quarantined: self.quarantined,
            documents: self.rows.len(),
            bytes: self.bytes,
        }
    }

    /// The numbers of at most `limit` transactions that wait for `key`, or of all, behind `after`.
    pub fn numbers(&self, key: Option<&Key>, after: u64, limit: usize) -> Vec<u64> {
        match key {
            Some(key) => {
                let queue = self.rows.get(key).into_iter().flat_map(|row| row.queue.iter().copied());
                queue.filter(|number| *number > after).take(limit).collect()
            }
            None => self.entries.range(after + 1..).map(|(number, _)| *number).take(limit).collect(),
        }
    }

    /// The ids that clients gave, each with the number of its transaction.
    pub fn given(&self) -> impl Iterator<Item = (&GivenId, u64)> {
        self.entries.iter().flat_map(|(number, entry)| entry.buffered.given.iter().map(move |given| (given, *number)))
    }

    /// Transaction `number`, as it was buffered.
    pub fn buffered(&self, number: u64) -> Option<&Buffered> {
        self.entries.get(&number).map(|entry| &entry.buffered)
    }

    /// Number of transactions in these lanes that will go to the store by themselves.
    pub fn waiting_in(&self, lanes: &[Lane]) -> usize {
        let count = |lane| self.lanes.get(lane).map_or(0, |state| state.waiting.len());
        lanes.iter().map(count).max().unwrap_or(0)
    }

    /// Whether `key` is not known since the store fills a row that it has not got yet: it can't say more now.
    pub fn awaits_fill(&self, key: &Key) -> bool {
        let Some(row) = self.rows.get(key) else { return false };
        let guessed = row.latest.is_some() && row.image.is_guessed() && row.image.suspected.is_none();
        guessed && !self.story(key).any(|(entry, _)| entry.is_seen())
    }

    /// Whether nothing is buffered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a transaction that writes in `lanes`, has `keys` written or read and deletes `deleted` has to queue:
    /// something waits there that it must not overtake, or that it has read already, quarantined or not; or a row names
    /// what it deletes, or may name it, as long as something is quarantined.
    pub fn must_queue<'a>(
        &self,
        lanes: &[Lane],
        mut keys: impl Iterator<Item = &'a Key>,
        mut deleted: impl Iterator<Item = &'a Key>,
    ) -> bool {
        lanes.iter().any(|lane| self.lanes.contains_key(lane))
            || keys.any(|key| self.rows.contains_key(key))
            || deleted.any(|key| self.is_named_by_stuck(key) || self.is_unnamed_in(lanes))
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        let entries: usize = self.entries.values().map(|entry| entry.bytes).sum();
        let rows: usize = self.rows.values().map(|row| row.bytes).sum();
        assert_eq!(self.bytes, entries + rows, "bytes");
        for (key, row) in &self.rows {
            assert!(!row.queue.is_empty() && row.queue.iter().is_sorted(), "the queue of {key}: {:?}", row.queue);
            assert_eq!(row.bytes, row.charge(key), "{key}");
            let writes = |number: &u64| self.entries[number].buffered.writes.iter().any(|write| write.key == *key);
            assert!(row.queue.iter().all(writes), "{key} is queued for what writes it");
            let stuck = row.queue.iter().filter(|number| self.entries[*number].stage.is_stuck()).count();
            assert_eq!(row.stuck, stuck, "of {key}");
        }
        for (number, entry) in &self.entries {
            let waits = !entry.stage.is_stuck();
            for lane in &entry.ties.lanes {
                let queued = self.lanes.get(lane).is_some_and(|state| state.waiting.contains(number));
                assert_eq!(waits, queued, "{number} {:?} in {lane:?}", entry.stage);
            }
            for write in &entry.buffered.writes {
                assert!(self.rows[&write.key].queue.contains(number), "{number} in the queue of {}", write.key);
            }
        }
        let waits = |number: &u64| self.entries.get(number).is_some_and(|entry| !entry.stage.is_quarantined());
        assert!(self.ordered.iter().all(waits), "what is ordered waits: {:?}", self.ordered);
        let quarantined = self.entries.values().filter(|entry| entry.stage.is_quarantined()).count();
        assert_eq!(self.quarantined, quarantined);
        assert_eq!(self.behind, self.entries.values().filter(|entry| entry.stage.is_behind()).count());
        assert_eq!(self.ids.len(), self.entries.len());
        let tied = |keys: fn(&Ties) -> &Vec<Key>| {
            let distinct = |entry: &Entry| keys(&entry.ties).iter().collect::<BTreeSet<_>>().len();
            self.entries.values().map(distinct).sum::<usize>()
        };
        let left: usize = self.entries.values().filter_map(|entry| entry.named.as_ref()).map(Vec::len).sum();
        let shown = self.entries.values().map(|entry| entry.buffered.shown.len()).sum::<usize>();
        assert_eq!(self.tied.counts(), [tied(|ties| &ties.follows) + left, tied(|ties| &ties.takes_along), shown]);
        let seen = |entry: &Entry| entry.seen.len() == entry.buffered.shown.len();
        assert!(self.entries.values().all(seen), "what was shown");
        assert!(self.unnamed.iter().all(|number| self.entries[number].named.is_none()));
    }
}
