//! The latest refusals, for ACL LOG: a refusal like one of the last minute counts with it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Refusals that are kept.
pub const DENIALS_MAX: usize = 128;

/// Bytes that are kept of what was refused.
pub const DENIED_BYTES_MAX: usize = 128;

/// A refusal like one of so many ms ago counts with it.
const SAME_MS: u64 = 60_000;

/// What was refused, to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// `auth`, `command` or `key`.
    pub reason: &'static str,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// The command, the key, or `AUTH`.
    pub object: Vec<u8>,
    /// Who.
    pub user: String,
}

/// A refusal that is kept.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// How often it came.
    pub count: u64,
    /// What it is.
    pub denial: Denial,
    /// The latest client, as CLIENT LIST shows it.
    pub client: String,
    /// When it came first, ms since the Unix epoch.
    pub first_ms: u64,
    /// When it came last.
    pub last_ms: u64,
}

/// The latest refusals.
#[derive(Default)]
pub struct Denials(Mutex<List>);

#[derive(Default)]
struct List {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Denials {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a refusal.
    pub fn add(&self, mut denial: Denial, client: String, now_ms: u64) {
        denial.object.truncate(DENIED_BYTES_MAX);
        let mut list = self.lock();
        let same = |entry: &Entry| entry.denial == denial && now_ms.saturating_sub(entry.last_ms) <= SAME_MS;
        let entry = match list.entries.iter().position(same).and_then(|at| list.entries.remove(at)) {
            Some(known) => Entry { count: known.count + 1, client, last_ms: now_ms, ..known },
            None => {
                let id = list.next_id;
                list.next_id += 1;
                Entry { id, count: 1, denial, client, first_ms: now_ms, last_ms: now_ms }
            }
        };
        list.entries.push_front(entry);
        list.entries.truncate(DENIALS_MAX);
    }

    /// The latest `count` entries, the latest first.
    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// Forgets them.
    pub fn clear(&self) {
        self.lock().entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_bounded_and_the_same_ones_are_counted() {
        let denials = Denials::default();
        let denial = |n: usize| Denial {
            reason: "key",
            context: "toplevel",
            object: format!("{n}{}", "x".repeat(DENIED_BYTES_MAX)).into(),
            user: "bob".into(),
        };
        for n in 0..DENIALS_MAX + 10 {
            denials.add(denial(n), "first".into(), 1000);
        }
        denials.add(denial(50), "second".into(), 2000);
        let latest = denials.latest(usize::MAX);
        assert_eq!((latest.len(), latest[0].id, latest[0].count), (DENIALS_MAX, 50, 2));
        assert_eq!((latest[0].first_ms, latest[0].last_ms, &*latest[0].client), (1000, 2000, "second"));
        assert_eq!(latest[0].denial.object.len(), DENIED_BYTES_MAX);
        // Cut to the same length, another moment.
        denials.add(denial(50), "third".into(), 2001 + SAME_MS);
        assert_eq!(denials.latest(1)[0].count, 1);
        denials.clear();
        assert!(denials.latest(1).is_empty());
    }
}
