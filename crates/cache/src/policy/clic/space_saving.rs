//! Space-Saving (Metwally, Agrawal, El Abbadi 2005): the most frequent of many items with k counters, in O(1) each.
//!
//! Counters stand in one vector by falling count. Counting one up swaps it with the first of those that have the same
//! count, whose place a table knows, so that the order holds.

use hashbrown::HashMap;

/// One tracked item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counter<T> {
    /// Which.
    pub item: u32,
    /// How often it came, or too many.
    pub count: u64,
    /// By how much `count` may be too high.
    pub error: u64,
    /// What its owner counts while it is tracked; begins again with each item.
    pub note: T,
}

/// The k counters.
pub(super) struct SpaceSaving<T> {
    counters: Vec<Counter<T>>,
    counters_max: usize,
    places: HashMap<u32, u32, foldhash::fast::FixedState>,
    /// By count: the first place that has it.
    firsts: HashMap<u64, u32, foldhash::fast::FixedState>,
}

impl<T: Copy + Default> SpaceSaving<T> {
    /// No counters yet, and never more than `counters_max`.
    pub fn new(counters_max: usize) -> SpaceSaving<T> {
        SpaceSaving {
            counters: Vec::new(),
            counters_max: counters_max.max(1),
            places: HashMap::default(),
            firsts: HashMap::default(),
        }
    }

    /// Counts an item. One that is not tracked takes over the counter of a least frequent one.
    pub fn count(&mut self, item: u32) {
        if let Some(&place) = self.places.get(&item) {
            return self.count_up(place as usize);
        }
        if self.counters.len() < self.counters_max {
            let place = self.counters.len();
            self.counters.push(Counter { item, count: 0, error: 0, note: T::default() });
            self.places.insert(item, place as u32);
            self.firsts.entry(0).or_insert(place as u32);
            return self.count_up(place);
        }
        let place = self.counters.len() - 1;
        let least = &mut self.counters[place];
        self.places.remove(&least.item);
        *least = Counter { item, count: least.count, error: least.count, note: T::default() };
        self.places.insert(item, place as u32);
        self.count_up(place);
    }

    fn count_up(&mut self, place: usize) {
        let count = self.counters[place].count;
        let first = self.firsts.get(&count).map_or(place, |&first| first as usize);
        self.counters.swap(place, first);
        self.places.insert(self.counters[place].item, place as u32);
        self.places.insert(self.counters[first].item, first as u32);
        self.counters[first].count += 1;
        let follows = self.counters.get(first + 1).is_some_and(|next| next.count == count);
        match follows {
            true => self.firsts.insert(count, first as u32 + 1),
            false => self.firsts.remove(&count),
        };
        self.firsts.entry(count + 1).or_insert(first as u32);
    }

    /// What its owner notes of an item, if it is tracked.
    pub fn note_mut(&mut self, item: u32) -> Option<&mut T> {
        let place = *self.places.get(&item)?;
        self.counters.get_mut(place as usize).map(|counter| &mut counter.note)
    }

    /// All counters, the most frequent first.
    pub fn counters(&self) -> &[Counter<T>] {
        &self.counters
    }

    /// Begins again.
    pub fn clear(&mut self) {
        self.counters.clear();
        self.places.clear();
        self.firsts.clear();
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.counters.capacity() * size_of::<Counter<T>>()
            + self.places.allocation_size()
            + self.firsts.allocation_size()
    }

    /// Panics if the tables contradict the counters.
    #[cfg(test)]
    pub fn validate(&self) {
        assert!(self.counters.windows(2).all(|pair| pair[0].count >= pair[1].count), "by falling count");
        assert_eq!(self.places.len(), self.counters.len(), "an item has one counter");
        for (place, counter) in self.counters.iter().enumerate() {
            assert_eq!(self.places.get(&counter.item), Some(&(place as u32)), "a counter is found where it is");
            let first = self.counters.iter().position(|other| other.count == counter.count).expect("itself");
            assert_eq!(self.firsts.get(&counter.count), Some(&(first as u32)), "the first of a count is known");
        }
        let counts = self.counters.iter().map(|counter| counter.count).collect::<std::collections::HashSet<_>>();
        assert_eq!(self.firsts.len(), counts.len(), "no count that none has");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap as Exact;

    proptest! {
        /// The algorithm's guarantees (theorems of its paper), against exact counts.
        #[test]
        fn bounds_hold(items in prop::collection::vec(0u32..12, 0..400), counters_max in 1usize..14) {
            let (mut saving, mut exact) = (SpaceSaving::<u64>::new(counters_max), Exact::<u32, u64>::new());
            for (seen, &item) in (1u64..).zip(&items) {
                saving.count(item);
                *exact.entry(item).or_default() += 1;
                *saving.note_mut(item).expect("just counted") += 1;
                saving.validate();
                prop_assert_eq!(saving.counters().iter().map(|counter| counter.count).sum::<u64>(), seen);
                for counter in saving.counters() {
                    let count = exact[&counter.item];
                    prop_assert!(count <= counter.count && counter.count - counter.error <= count);
                    prop_assert_eq!(counter.note, counter.count - counter.error, "counted while tracked");
                }
                let least = saving.counters().last().map_or(0, |counter| counter.count);
                let tracked = |item: &u32| saving.counters().iter().any(|counter| counter.item == *item);
                prop_assert!(exact.iter().all(|(item, &count)| count <= least || tracked(item)));
                prop_assert!(saving.counters().len() <= counters_max);
            }
            saving.clear();
            saving.validate();
        }
    }
}
