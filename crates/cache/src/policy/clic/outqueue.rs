//! The outqueue (CLIC, section 3.1): of pages that are not cached, when they were requested last, and with what.
//!
//! There are several of them for each cached page, so they are kept small. They stand in a ring of 12 bytes each,
//! oldest first, and are found by a fingerprint of 32 bits through an index. A page that is taken out of the middle
//! leaves its place empty. It stays so until the ring has passed it, or until empty places are a third of it. Two
//! pages of one fingerprint are one: with 400,000 pages one look-up in 10,000 finds another's, the same in each run.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `cell` of an empty place.
const EMPTY: u32 = u32::MAX;

/// Places, used or empty, that are not worth tidying up.
const PLACES_MIN: usize = 64;

/// No more pages than this in one outqueue.
pub(super) const PAGES_MAX: usize = 1 << 23;

/// The last request of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// When, in requests; wraps around.
    pub at: u32,
    /// What came with it: a [`super::Cell`], never `u32::MAX`.
    pub cell: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    print: u32,
    request: Request,
}

/// Last requests by page, the least recently inserted forgotten first.
pub(super) struct Outqueue {
    /// Numbers of places, found by fingerprint.
    index: HashTable<u32>,
    places: VecDeque<Place>,
    /// The number of the ring's first place. Numbers wrap around; there are far fewer places than numbers.
    first: u32,
}

impl Outqueue {
    /// An empty one.
    pub fn new() -> Outqueue {
        Outqueue { index: HashTable::new(), places: VecDeque::new(), first: 0 }
    }

    /// A page's last request.
    pub fn get(&self, hash: u64) -> Option<Request> {
        let (places, first, print) = (&self.places, self.first, fingerprint(hash));
        let same = |number: &&u32| places[number.wrapping_sub(first) as usize].print == print;
        let number = self.index.find(spread(print), |number| same(&number))?;
        Some(places[number.wrapping_sub(first) as usize].request)
    }

    /// Takes a page's last request out.
    pub fn take(&mut self, hash: u64) -> Option<Request> {
        let (places, first, print) = (&self.places, self.first, fingerprint(hash));
        let same = |number: &u32| places[number.wrapping_sub(first) as usize].print == print;
        let (number, _) = self.index.find_entry(spread(print), same).ok()?.remove();
        Some(self.leave(number))
    }

    /// A page that the index does not lead to any more leaves its place.
    fn leave(&mut self, number: u32) -> Request {
        let place = &mut self.places[number.wrapping_sub(self.first) as usize];
        let request = place.request;
        place.request.cell = EMPTY;
        while self.places.front().is_some_and(|place| place.request.cell == EMPTY) {
            self.places.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        request
    }

    /// Puts a page at the newest end; what was known of it goes.
    pub fn push(&mut self, hash: u64, request: Request) {
        let print = fingerprint(hash);
        self.reserve();
        let number = self.first.wrapping_add(self.places.len() as u32);
        self.places.push_back(Place { print, request });
        let (places, first) = (&self.places, self.first);
        let print_of = |number: &u32| places[number.wrapping_sub(first) as usize].print;
        let entry =
            self.index.entry(spread(print), |number| print_of(number) == print, |number| spread(print_of(number)));
        match entry {
            Entry::Vacant(vacant) => drop(vacant.insert(number)),
            Entry::Occupied(mut known) => {
                let before = std::mem::replace(known.get_mut(), number);
                self.leave(before);
            }
        }
    }

    /// Takes the page out that was inserted least recently.
    pub fn pop_oldest(&mut self) -> Option<Request> {
        // The first place is never empty.
        let (print, first) = (self.places.front()?.print, self.first);
        let (number, _) = self.index.find_entry(spread(print), |&number| number == first).ok()?.remove();
        Some(self.leave(number))
    }

    /// Forgets all pages but those with such a last request.
    #[cold]
    pub fn retain(&mut self, is_such: impl Fn(Request) -> bool) {
        let mut kept = Outqueue::new();
        for place in &self.places {
            if place.request.cell != EMPTY && is_such(place.request) {
                kept.push(u64::from(place.print), place.request);
            }
        }
        *self = kept;
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that they occupy.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.index.allocation_size()
    }

    /// Room for one more place: empty ones go, or the ring grows by an eighth, because all of it comes into use.
    fn reserve(&mut self) {
        let places = self.places.len();
        if places < self.places.capacity() {
            return;
        }
        if places > PLACES_MIN && 2 * places > 3 * self.len() {
            return self.tidy();
        }
        self.places.reserve_exact(places / 8 + PLACES_MIN);
    }

    /// Takes the empty places out of the ring. Those that stay keep their order, so the number of each is how many
    /// stand before it: they are counted by 64, and nothing has to be searched for.
    fn tidy(&mut self) {
        let mut blocks: Vec<(u64, u32)> = Vec::with_capacity(self.places.len() / 64 + 1);
        let mut used = 0;
        for at in 0..self.places.len() {
            if at % 64 == 0 {
                blocks.push((0, used));
            }
            let place = self.places[at];
            if place.request.cell != EMPTY {
                blocks[at / 64].0 |= 1 << (at % 64);
                self.places[used as usize] = place;
                used += 1;
            }
        }
        self.places.truncate(used as usize);
        for number in self.index.iter_mut() {
            let at = number.wrapping_sub(self.first);
            let (used, before) = blocks[at as usize / 64];
            let within = (used & ((1 << (at % 64)) - 1)).count_ones();
            *number = self.first.wrapping_add(before + within);
        }
    }

    /// Panics if ring and index contradict each other.
    pub fn validate(&self) {
        let used = self.places.iter().filter(|place| place.request.cell != EMPTY).count();
        assert_eq!(used, self.index.len(), "a page has one place");
        assert!(self.places.front().is_none_or(|place| place.request.cell != EMPTY), "the first place is used");
        for (at, place) in self.places.iter().enumerate().filter(|(_, place)| place.request.cell != EMPTY) {
            let number = self.first.wrapping_add(at as u32);
            let found = self.index.find(spread(place.print), |&found| found == number);
            assert!(found.is_some(), "a page is found where it is");
        }
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// The table of the index looks at the low bits and at the highest ones.
fn spread(print: u32) -> u64 {
    u64::from(print).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(steps in prop::collection::vec((0u64..300, 0u8..10), 0..1200)) {
            let (mut queue, mut model) = (Outqueue::new(), Vec::<(u64, Request)>::new());
            for (step, (hash, operation)) in steps.into_iter().enumerate() {
                let request = Request { at: step as u32, cell: step as u32 % 7 };
                let known = model.iter().position(|page| page.0 == hash);
                match operation {
                    0 | 1 => {
                        prop_assert_eq!(queue.take(hash), known.map(|at| model[at].1));
                        known.map(|at| model.remove(at));
                    }
                    2 if hash < 9 => {
                        queue.retain(|request| request.cell != hash as u32);
                        model.retain(|page| page.1.cell != hash as u32);
                    }
                    2 => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(queue.pop_oldest(), oldest);
                    }
                    _ => {
                        queue.push(hash, request);
                        known.map(|at| model.remove(at));
                        model.push((hash, request));
                    }
                }
                queue.validate();
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
