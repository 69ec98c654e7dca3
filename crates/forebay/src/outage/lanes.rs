//! Lanes: what has to go to the store in order, and what need not.
//!
//! Documents of a relational store are not independent. One transaction frees a unique name and the next one takes
//! it; a child is inserted after its parent. So tables that constraints join form one lane ([`Lane::Together`]),
//! applied strictly in order. Where nothing but the key binds documents, they are spread over [`HASH_LANES`] lanes by
//! their keys. A transaction over several lanes joins them for as long as it is on its way, also where it has only
//! read. What it has read must still be so when it is applied, so later transactions of our own must not change it
//! before.
//!
//! Lanes follow from the store's tables alone and are not journaled: they are found again when the journal is read.

use smallvec::SmallVec;

use crate::change::Change;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::forms::Fills;
use crate::store::{Form, Store};

/// Lanes over which independent documents are spread.
pub const HASH_LANES: u16 = 64;

/// What is applied in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Documents whose tables constraints join, by the store's number for them.
    Together(u32),
    /// Documents that share nothing but this part of their hash.
    Hashed(u16),
}

/// The lanes of one transaction, ascending, each once.
pub type Lanes = SmallVec<[Lane; 2]>;

/// Finds lanes.
#[derive(Clone, Copy, Debug)]
pub struct LaneRule {
    /// All is one lane: then readers of the store see a prefix of the commit order.
    pub serial: bool,
}

/// What a transaction has to do with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// Its lanes.
    pub lanes: Lanes,
    /// Documents that it does not write, and that have to be as earlier transactions leave them: those that it names by
    /// foreign keys, and those that share their place with what it writes. While one that writes them is quarantined
    /// it is held back. Ascending, each once.
    pub follows: Vec<Key>,
    /// Documents that share their place with one that it deletes: they go with it.
    pub takes_along: Vec<Key>,
    /// Documents that share their place, and so their version, with one that it writes, and that it does not write
    /// itself: each with the place of that among its writes.
    pub beside: Vec<(usize, Key)>,
    /// What the store fills by itself of rows that it makes.
    pub fills: Vec<Fill>,
}

/// What the store fills by itself of a row that a transaction makes where there is none, or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The row, or the list in it.
    pub key: Key,
    /// What is left to the store of a new row.
    pub left: Fills,
    /// What the store computes of a row that is there.
    pub recomputed: Fills,
    /// The transaction says that it makes the row: it knew of none.
    pub made: bool,
    /// It adds to a column that the store fills. If another document makes the row before, it adds to what the store
    /// has filled in, else to nothing.
    pub added: bool,
}

impl Fill {
    /// Of `changes` of the document of `key`, which has this form. `beside`: other documents of its row change too.
    /// `shared`: there are others.
    pub fn of(form: &Form, key: &Key, changes: &[Change], beside: bool, shared: bool) -> Option<Fill> {
        let row = match form {
            Form::Row(row) => row,
            // Another document may make the row between what is known of the list and these.
            Form::List { filled: true } if !form.stands_alone(changes) => {
                let (key, recomputed) = (key.clone(), Fills::default());
                return Some(Fill { key, left: Fills::Any, recomputed, made: false, added: false });
            }
            _ => return None,
        };
        let (left, made) = row.left_to_store(changes).unwrap_or_default();
        let recomputed = if beside { row.computed.columns.clone() } else { row.recomputed_by(changes) };
        let added = shared && row.adds_to_filled(changes);
        let some = added || !left.is_empty() || !recomputed.is_empty();
        some.then(|| Fill { key: key.clone(), left, recomputed, made, added })
    }

    /// Whether the store may have another value of `field` than what was given.
    pub fn may_be(&self, field: &[u8]) -> bool {
        self.left.may_be(field) || self.recomputed.may_be(field)
    }
}

impl Ties {
    /// What the store fills by itself of the row of `key`.
    pub fn fill(&self, key: &Key) -> Option<&Fill> {
        self.fills.iter().find(|fill| fill.key == *key)
    }
}

impl LaneRule {
    /// What a transaction that makes these changes and has read `read` has to do with others.
    pub fn ties<'a>(
        self,
        store: &dyn Store,
        written: impl Iterator<Item = (&'a Key, &'a [Change])> + Clone,
        read: impl Iterator<Item = &'a Key>,
    ) -> Ties {
        let keys = written.clone().map(|(key, _)| key);
        let lanes = self.lanes(store, keys.clone().chain(read));
        // Of a list the column is emptied, and its row stays.
        let row_goes = |key: &Key| !store.form(key).is_list() || mutation::on(Fault::ListTakesRowAlong);
        let deleting = written.clone().filter(|(key, changes)| changes.contains(&Change::Delete) && row_goes(key));
        let takes_along = deleting.flat_map(|(key, _)| store.beside(key)).collect();
        let mut own: Vec<&Key> = keys.clone().collect();
        own.sort_unstable();
        let own = |key: &Key| own.binary_search(&key).is_ok();
        let around = |(at, key): (usize, &'a Key)| store.beside(key).into_iter().map(move |other| (at, other));
        let beside = keys.clone().enumerate().flat_map(around).filter(|(_, other)| !own(other)).collect();
        let fill = |(key, changes): (&'a Key, &'a [Change])| {
            let others = store.beside(key);
            Fill::of(&store.form(key), key, changes, others.iter().any(own), !others.is_empty())
        };
        let mut fills: Vec<Fill> = written.clone().filter_map(fill).collect();
        fills.shrink_to_fit();
        let others = |(key, changes)| store.references(key, changes).into_iter().chain(store.beside(key));
        let mut follows: Vec<Key> = written.flat_map(others).filter(|key| !own(key)).collect();
        follows.sort_unstable();
        follows.dedup();
        Ties { lanes, follows, takes_along, beside, fills }
    }

    /// The lanes of `keys`.
    pub fn lanes<'a>(self, store: &dyn Store, keys: impl Iterator<Item = &'a Key>) -> Lanes {
        let mut lanes: Lanes = keys.map(|key| self.of_one(store, key)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    fn of_one(self, store: &dyn Store, key: &Key) -> Lane {
        let apart = mutation::on(Fault::DrainedByDocument);
        if self.serial && !apart {
            return Lane::Together(0);
        }
        match store.lane(key).filter(|_| !apart) {
            Some(number) => Lane::Together(number),
            None => {
                // Documents that share their place share its lane.
                let beside = store.beside(key);
                let first = beside.iter().chain([key]).min().unwrap_or(key);
                Lane::Hashed((first.borrow().hash64() % u64::from(HASH_LANES)) as u16)
            }
        }
    }
}
