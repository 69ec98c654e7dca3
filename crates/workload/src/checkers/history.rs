//! What clients saw: one event per transaction, on the one clock of the run.

use std::fmt;

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the client, from 0. A client runs one transaction after the other.
    pub client: u32,
    /// What kind of transaction: `transfer`.
    pub name: &'static str,
    /// Tick before the first request was sent. All ticks of a run differ.
    pub invoked: u64,
    /// Tick after the last reply came, or after the client gave up waiting.
    pub completed: u64,
    /// What it did and saw, in order.
    pub ops: Vec<Op>,
    /// How it ended.
    pub outcome: Outcome,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appended an element that nothing else ever appends.
    Append {
        /// The list's number.
        key: u64,
        /// The element.
        element: u64,
        /// Elements in the list afterwards, if the client learned it.
        length: Option<u64>,
    },
    /// Read a whole list.
    List {
        /// The list's number.
        key: u64,
        /// What it held.
        elements: Vec<u64>,
    },
    /// Read a number.
    Read {
        /// The key's number.
        key: u64,
        /// What it held.
        value: i64,
    },
    /// Changed a number by so much.
    Add {
        /// The key's number.
        key: u64,
        /// The change.
        delta: i64,
    },
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Committed,
    /// It surely had no effect, for this reason.
    Failed(String),
    /// It may or may not have taken effect.
    Unknown(String),
}

impl Event {
    /// Whether it was acknowledged.
    pub fn committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// Whether nobody knows its outcome.
    pub fn unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown(_))
    }

    /// What to call it in a report: `transfer of client 3 at 17`.
    pub fn title(&self) -> String {
        format!("{} of client {} at {}", self.name, self.client, self.invoked)
    }

    /// The numbers that it read, in order.
    pub fn reads(&self) -> impl Iterator<Item = (u64, i64)> {
        self.ops.iter().filter_map(|op| match op {
            Op::Read { key, value } => Some((*key, *value)),
            _ => None,
        })
    }

    /// The changes that it made to numbers, in order.
    pub fn additions(&self) -> impl Iterator<Item = (u64, i64)> {
        self.ops.iter().filter_map(|op| match op {
            Op::Add { key, delta } => Some((*key, *delta)),
            _ => None,
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {:?}", self.title(), self.completed, self.ops)?;
        match &self.outcome {
            Outcome::Committed => write!(f, ", committed"),
            Outcome::Failed(why) => write!(f, ", failed: {why}"),
            Outcome::Unknown(why) => write!(f, ", outcome unknown: {why}"),
        }
    }
}
