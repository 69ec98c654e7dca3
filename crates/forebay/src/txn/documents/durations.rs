//! Expiries that were told as durations (EX, PX, EXPIRE): in a transaction whose client thinks between its commands
//! they count from the commit. Until then they stand as moments by the transaction's own clock, which stands still: so
//! TTL shows the duration, and GT, LT and NX judge by it.

use super::Documents;
use crate::change::Change;
use crate::key::KeyRef;

impl Documents {
    /// The expiry that `key` was just given was told as a duration.
    pub fn count_from_commit(&mut self, key: KeyRef<'_>) {
        if let Some(at) = self.position(key) {
            let document = &mut self.list[at];
            document.relative = document.current.as_ref().is_some_and(|value| value.expires_at_ms.is_some());
        }
    }

    /// Whether the expiry of `key` is one of those.
    pub fn counts_from_commit(&self, key: KeyRef<'_>) -> bool {
        self.position(key).is_some_and(|at| self.list[at].relative)
    }

    /// Moves them to where they end if they begin at `now_ms`, the moment of the commit.
    pub(in crate::txn) fn begin_durations(&mut self, now_ms: u64) {
        let Some(later_ms) = self.clock.read_ms().and_then(|read_ms| now_ms.checked_sub(read_ms)) else { return };
        for (_, until_ms, _) in self.fresh_until.iter_mut().filter(|(.., relative)| *relative) {
            *until_ms = until_ms.saturating_add(later_ms);
        }
        for document in self.list.iter_mut().filter(|document| document.relative) {
            let last = document.changes.iter_mut().rev().find_map(|change| match change {
                Change::ExpireAt(at_ms) => Some(at_ms),
                Change::Put(value) => value.expires_at_ms.as_mut(),
                _ => None,
            });
            debug_assert!(last.is_some(), "{} has an expiry that nothing gave it", document.key);
            let current = document.current.as_mut().and_then(|value| value.expires_at_ms.as_mut());
            last.into_iter().chain(current).for_each(|at_ms| *at_ms = at_ms.saturating_add(later_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::read::Read;
    use crate::value::Value;
    use crate::version::Version;

    fn key(name: &str) -> Key {
        Key::new(0, name.as_bytes())
    }

    fn documents() -> Documents {
        let mut documents = Documents::new(1000);
        for name in ["a", "b", "c"] {
            let read = Read { value: Some(Value::bytes(*b"1")), version: Version::ZERO };
            documents.load(key(name), read);
        }
        documents
    }

    fn expire(documents: &mut Documents, name: &str, at_ms: u64, relative: bool) {
        documents.change(key(name).borrow(), Change::ExpireAt(at_ms)).expect("it is there");
        if relative {
            documents.count_from_commit(key(name).borrow());
        }
    }

    fn written(documents: &mut Documents) -> Vec<(Vec<Change>, Option<u64>)> {
        let writes = documents.take_writes().into_iter();
        writes.map(|write| (write.changes.to_vec(), write.after.and_then(|value| value.expires_at_ms))).collect()
    }

    #[test]
    fn durations_begin_at_the_commit_and_moments_stay() {
        let mut documents = documents();
        expire(&mut documents, "a", 4000, true);
        expire(&mut documents, "b", 4000, false);
        expire(&mut documents, "c", 4000, true);
        expire(&mut documents, "c", 5000, false);
        documents.begin_durations(4200);
        assert_eq!(
            written(&mut documents),
            [
                (vec![Change::ExpireAt(7200)], Some(7200)),
                (vec![Change::ExpireAt(4000)], Some(4000)),
                (vec![Change::ExpireAt(4000), Change::ExpireAt(5000)], Some(5000)),
            ]
        );
    }

    #[test]
    fn a_command_that_is_undone_leaves_no_duration() {
        let mut documents = documents();
        expire(&mut documents, "a", 4000, false);
        documents.savepoint();
        expire(&mut documents, "a", 3000, true);
        documents.roll_back();
        documents.begin_durations(4200);
        assert_eq!(written(&mut documents), [(vec![Change::ExpireAt(4000)], Some(4000))]);
    }

    #[test]
    fn what_follows_keeps_the_duration() {
        let mut documents = documents();
        let value = Value { expires_at_ms: Some(4000), ..Value::bytes(*b"1") };
        documents.change(key("a").borrow(), Change::Put(value.clone())).expect("it is there");
        documents.count_from_commit(key("a").borrow());
        let add = Change::AddInteger { field: None, delta: 1 };
        documents.change(key("a").borrow(), add.clone()).expect("it is a number");
        documents.begin_durations(1500);
        let moved = Value { expires_at_ms: Some(4500), ..value };
        assert_eq!(written(&mut documents), [(vec![Change::Put(moved), add], Some(4500))]);
    }
}
