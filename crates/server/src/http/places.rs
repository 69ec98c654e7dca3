//! Places of which there are so many at a time, and so many for one source.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places.
#[derive(Clone)]
pub(super) struct Places {
    taken: Arc<Mutex<BTreeMap<String, usize>>>,
    most: usize,
    most_of_source: usize,
}

/// A place, free again when it is dropped.
pub(super) struct Place {
    places: Places,
    source: String,
}

impl Places {
    pub(super) fn new(most: usize, most_of_source: usize) -> Places {
        Places { taken: Arc::default(), most, most_of_source }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for `source`, if there is one.
    pub(super) fn take(&self, source: &str) -> Option<Place> {
        let mut taken = self.lock();
        let own = taken.get(source).copied().unwrap_or_default();
        if own >= self.most_of_source || taken.values().sum::<usize>() >= self.most {
            return None;
        }
        taken.insert(source.to_owned(), own + 1);
        Some(Place { places: self.clone(), source: source.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        match taken.get_mut(&self.source) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = taken.remove(&self.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_in_all_and_by_source() {
        let places = Places::new(3, 2);
        let mut held: Vec<_> = ["a", "a", "b"].into_iter().map(|source| places.take(source).unwrap()).collect();
        assert!(places.take("c").is_none(), "no more in all");
        held.pop();
        assert!(places.take("a").is_none(), "no more of this source");
        held.pop();
        assert!(places.take("a").is_some() && places.take("c").is_some());
        held.clear();
        assert!(places.lock().is_empty(), "nothing stays of what has gone");
    }
}
