//! What waits for an operator, as the scenario of owners looks at it.

use forebay::change::Change;
use forebay::outage::{Buffered, Gate};
use forebay::{Key, Value};

use crate::book::broken;

/// One ticket: its number, its documents, and what it makes of them.
pub struct Ticket {
    pub number: u64,
    pub keys: Vec<Key>,
    pub value: Value,
}

pub fn tickets(gate: &Gate) -> Vec<Ticket> {
    let ticket = |buffered: &Buffered| {
        let Some(Change::Put(value)) = buffered.writes.first().and_then(|write| write.changes.first()) else {
            broken("what waits is a document", format!("{buffered:?}"));
        };
        let keys = buffered.writes.iter().map(|write| write.key.clone()).collect();
        Ticket { number: buffered.number, keys, value: value.clone() }
    };
    gate.with_buffer(|buffer| {
        let numbers = buffer.numbers(None, 0, usize::MAX).into_iter();
        numbers.filter_map(|number| buffer.buffered(number).map(ticket)).collect()
    })
}
