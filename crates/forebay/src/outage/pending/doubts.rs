//! When others were said to have changed documents: by a number that rises. A transaction that began before may have
//! read what was cached before. What it writes was made to that, so it is not shown until the store was asked.

use hashbrown::HashMap;

use crate::key::Key;

/// Documents that are remembered one by one: more than change while a transaction goes on. Beyond, all are doubted.
const DOUBTED_MAX: usize = 65_536;

/// The last doubt of each document.
#[derive(Default)]
pub(super) struct Doubts {
    last: u64,
    /// The last doubt of all documents.
    all: u64,
    /// By the hash of the key: two that share one are doubted together.
    keys: HashMap<u64, u64, foldhash::quality::RandomState>,
}

impl Doubts {
    /// These documents are doubted with this number, which is the greatest so far.
    pub(super) fn add<'a>(&mut self, number: u64, keys: impl Iterator<Item = &'a Key>) {
        self.last = number;
        for key in keys {
            self.keys.insert(key.borrow().hash64(), number);
        }
        if self.keys.len() > DOUBTED_MAX {
            self.add_all(number);
        }
    }

    /// Likewise all.
    pub(super) fn add_all(&mut self, number: u64) {
        (self.last, self.all) = (number, number);
        self.keys = HashMap::default();
    }

    /// The number of the last.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether `key` was doubted behind the doubt with this number.
    pub(super) fn since(&self, key: &Key, number: u64) -> bool {
        let of = self.keys.get(&key.borrow().hash64()).copied().unwrap_or_default();
        of.max(self.all) > number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_by_itself_and_all_beyond_the_limit() {
        let key = |number: usize| Key::new(0, format!("k{number}").as_bytes());
        let mut doubts = Doubts::default();
        doubts.add(3, [key(1)].iter());
        assert!(doubts.since(&key(1), 2) && !doubts.since(&key(1), 3) && !doubts.since(&key(2), 0));
        let many: Vec<Key> = (0..=DOUBTED_MAX).map(key).collect();
        doubts.add(4, many.iter());
        assert!(doubts.since(&key(DOUBTED_MAX + 1), 3) && !doubts.since(&key(1), 4));
        assert!(doubts.keys.is_empty());
    }
}
