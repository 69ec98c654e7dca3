//! A tier in memory, for what may be lost with the process, and for tests: it is what all tiers have to be.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    AppendError, Appending, Description, ENDED_BYTES_MAX, ENDED_MAX, Effect, Entry, Kept, RECORD_BYTES_MAX, Remembered,
    Tier,
};

/// What is kept; cheap to clone. It outlives its owners.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<State>>);

/// The hold of one owner on it.
pub struct Owned {
    memory: Memory,
    owner: u64,
}

struct State {
    bytes_max: usize,
    bytes: usize,
    /// The present owner; earlier ones are refused.
    owner: u64,
    closed: bool,
    description: Description,
    remembered: Remembered,
    last_number: u64,
    live: BTreeMap<u64, Live>,
    ended: VecDeque<Vec<u8>>,
}

#[derive(Default)]
struct Live {
    body: Vec<u8>,
    known: Vec<Vec<u8>>,
    stands: Option<Vec<u8>>,
}

impl Live {
    fn bodies(&self) -> impl Iterator<Item = &Vec<u8>> {
        [&self.body].into_iter().chain(&self.known).chain(&self.stands)
    }

    fn bytes(&self) -> usize {
        self.bodies().map(Vec::len).sum()
    }
}

impl Memory {
    /// Nothing, and room for so many bytes of what is added.
    pub fn new(bytes_max: usize) -> Memory {
        Memory(Arc::new(Mutex::new(State {
            bytes_max,
            bytes: 0,
            owner: 0,
            closed: false,
            description: Description::default(),
            remembered: Remembered::default(),
            last_number: 0,
            live: BTreeMap::new(),
            ended: VecDeque::new(),
        })))
    }

    /// Takes it over from whoever had it. Where nothing is kept it means what `description` says.
    pub fn open(&self, description: Description) -> (Owned, Kept) {
        let mut state = self.state();
        (state.owner, state.closed) = (state.owner + 1, false);
        if state.live.is_empty() {
            state.description = description;
        }
        let kept = Kept {
            description: state.description.clone(),
            remembered: state.remembered.clone(),
            next_number: state.last_number + 1,
            entries: state.live.values().map(|live| live.bodies().cloned().collect()).collect(),
            ended: state.ended.iter().cloned().collect(),
        };
        (Owned { memory: self.clone(), owner: state.owner }, kept)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, Entry { effect, body }: Entry) -> Result<(), AppendError> {
        if body.len() > RECORD_BYTES_MAX {
            return Err(AppendError::TooLarge { bytes: body.len() as u64 });
        }
        let misplaced = |number: u64, what: &str| Err(AppendError::Misplaced(format!("number {number} {what}")));
        let above = |state: &State, number: u64| match number > state.last_number {
            true => Ok(()),
            false => misplaced(number, "does not stand above all before"),
        };
        match effect {
            Effect::Added(number) => {
                above(self, number)?;
                if self.bytes + body.len() > self.bytes_max {
                    let (what, limit) = ("bytes of buffered transactions", self.bytes_max as u64);
                    return Err(AppendError::Full { what, limit });
                }
                self.insert(number, body);
            }
            Effect::Replaced { into, from } => {
                if let Some(number) = from.iter().find(|number| !self.live.contains_key(number)) {
                    return misplaced(*number, "is not kept");
                }
                if !from.contains(&into) {
                    above(self, into)?;
                }
                from.iter().for_each(|number| self.remove(*number));
                self.insert(into, body);
            }
            Effect::Gone(numbers) => numbers.iter().for_each(|number| self.remove(*number)),
            Effect::Ended(number) => {
                self.remove(number);
                self.ended.push_back(body);
                let mut bytes: usize = self.ended.iter().map(Vec::len).sum();
                while self.ended.len() > ENDED_MAX || bytes as u64 > ENDED_BYTES_MAX {
                    bytes -= self.ended.pop_front().map_or(0, |oldest| oldest.len());
                }
            }
            Effect::Stands(number) => self.change(number, |live| live.stands = Some(body)),
            Effect::Retried(number) => self.change(number, |live| live.stands = None),
            Effect::Known(number) => self.change(number, |live| live.known.push(body)),
            Effect::Mark => {}
        }
        Ok(())
    }

    fn insert(&mut self, number: u64, body: Vec<u8>) {
        self.last_number = self.last_number.max(number);
        self.bytes += body.len();
        self.live.insert(number, Live { body, ..Live::default() });
    }

    fn remove(&mut self, number: u64) {
        if let Some(live) = self.live.remove(&number) {
            self.bytes -= live.bytes();
        }
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.live.get_mut(&number) {
            self.bytes -= live.bytes();
            change(live);
            self.bytes += live.bytes();
        }
    }
}

impl Owned {
    fn with(&self, work: impl FnOnce(&mut State) -> Result<(), AppendError>) -> Appending {
        let mut state = self.memory.state();
        Appending::ready(match self.closed_in(&state) {
            Some(why) => Err(why),
            None => work(&mut state),
        })
    }

    fn closed_in(&self, state: &State) -> Option<AppendError> {
        let why = match (state.owner == self.owner, state.closed) {
            (false, _) => "another owner has taken it over",
            (true, true) => "its owner has closed it",
            (true, false) => return None,
        };
        Some(AppendError::Closed { why: why.to_owned() })
    }
}

impl Tier for Owned {
    fn append_all(&self, entries: Vec<Entry>) -> Appending {
        self.with(|state| entries.into_iter().try_for_each(|entry| state.append(entry)))
    }

    fn describe(&self, description: Description) -> Appending {
        self.with(|state| {
            state.description = description;
            Ok(())
        })
    }

    fn remember(&self, remembered: Remembered) -> Appending {
        self.with(|state| {
            state.remembered = remembered;
            Ok(())
        })
    }

    fn look(&self) -> Appending {
        self.with(|_| Ok(()))
    }

    fn closed(&self) -> Option<AppendError> {
        self.closed_in(&self.memory.state())
    }

    fn flush(&self) -> Appending {
        self.with(|_| Ok(()))
    }

    fn close(&self) -> Appending {
        self.with(|state| {
            state.closed = true;
            Ok(())
        })
    }
}
