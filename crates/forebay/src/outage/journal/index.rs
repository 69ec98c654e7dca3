//! Which records of the file still mean something: those of pending transactions.

use std::collections::{BTreeMap, VecDeque};

use super::frame::Place;
use crate::tier::{ENDED_BYTES_MAX, ENDED_MAX, Effect};

/// The highest number; nobody counts that far.
const NUMBER_MAX: u64 = u64::MAX >> 8;

/// Where the records of one pending transaction stand.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// The transaction itself.
    pub(super) place: Place,
    /// What few have.
    more: Option<Box<More>>,
}

#[derive(Clone, Debug, Default)]
struct More {
    known: Vec<Place>,
    stands: Option<Place>,
}

/// All pending transactions by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    live: BTreeMap<u64, Live>,
    bytes: u64,
    /// Records of how the last ended that were given up, oldest first.
    ended: VecDeque<(u64, Place)>,
    ended_bytes: u64,
    last_number: u64,
}

impl Live {
    /// Documents that were learned later, oldest first.
    pub(super) fn known(&self) -> &[Place] {
        self.more.as_ref().map_or(&[], |more| &more.known)
    }

    /// What says how it stands, if that is not as it came.
    pub(super) fn stands(&self) -> Option<Place> {
        self.more.as_ref().and_then(|more| more.stands)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        [self.place].into_iter().chain(self.known().iter().copied()).chain(self.stands())
    }

    fn bytes(&self) -> u64 {
        self.places().map(|place| u64::from(place.bytes)).sum()
    }
}

impl Index {
    /// No number up to this one is given any more.
    pub(super) fn raise(&mut self, last_number: u64) {
        self.last_number = self.last_number.max(last_number);
    }

    pub(super) fn count(&self) -> usize {
        self.live.len()
    }

    /// Bytes of the records of pending transactions, as they stand in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of all records that still mean something.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.bytes + self.ended_bytes
    }

    /// What says how others ended: their numbers, and where it stands.
    pub(super) fn ended(&self) -> impl Iterator<Item = (u64, Place)> {
        self.ended.iter().copied()
    }

    /// The highest number ever given.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    pub(super) fn get(&self, number: u64) -> Option<&Live> {
        self.live.get(&number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Live)> {
        self.live.iter().map(|(number, live)| (*number, live))
    }

    /// Takes in a record that stands at `place`. Names of transactions that are not pending mean nothing: they were
    /// applied or dropped. Refused, with the reason, is only what can't be right.
    pub(super) fn apply(&mut self, effect: &Effect, place: Place) -> Result<(), String> {
        match effect {
            Effect::Added(number) => {
                self.above_all(*number)?;
                self.insert(*number, place);
            }
            Effect::Replaced { into, from } => {
                if let Some(number) = from.iter().find(|number| !self.live.contains_key(number)) {
                    return Err(format!("{number} is merged into {into}, but is not pending"));
                }
                if !from.contains(into) {
                    self.above_all(*into)?;
                }
                from.iter().for_each(|number| self.remove(*number));
                self.insert(*into, place);
            }
            Effect::Gone(numbers) => numbers.iter().for_each(|number| self.remove(*number)),
            Effect::Ended(number) => {
                self.remove(*number);
                self.ended_bytes += u64::from(place.bytes);
                self.ended.push_back((*number, place));
                while self.ended.len() > ENDED_MAX || self.ended_bytes > ENDED_BYTES_MAX {
                    let oldest = self.ended.pop_front().map_or(0, |(_, place)| place.bytes);
                    self.ended_bytes -= u64::from(oldest);
                }
            }
            Effect::Stands(number) => self.change(*number, |more| more.stands = Some(place)),
            Effect::Retried(number) => self.change(*number, |more| more.stands = None),
            Effect::Known(number) => self.change(*number, |more| more.known.push(place)),
            Effect::Mark => {}
        }
        Ok(())
    }

    fn above_all(&self, number: u64) -> Result<(), String> {
        match number > self.last_number && number <= NUMBER_MAX {
            true => Ok(()),
            false => Err(format!("number {number} does not stand above {}", self.last_number)),
        }
    }

    fn insert(&mut self, number: u64, place: Place) {
        self.last_number = self.last_number.max(number);
        self.bytes += u64::from(place.bytes);
        self.live.insert(number, Live { place, more: None });
    }

    fn remove(&mut self, number: u64) {
        if let Some(live) = self.live.remove(&number) {
            self.bytes -= live.bytes();
        }
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut More)) {
        if let Some(live) = self.live.get_mut(&number) {
            self.bytes -= live.bytes();
            change(live.more.get_or_insert_default());
            self.bytes += live.bytes();
        }
    }
}
