//! Rows of YCSB, and what its clients know of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fastrand::Rng;

use crate::popularity::fnv_hash;
use crate::ycsb::Mix;

/// Fields of a record, and bytes of each.
pub(super) const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// What its clients share.
pub(super) struct Ycsb {
    pub(super) mix: Mix,
    pub(super) records: u64,
    pub(super) seed: u64,
    pub(super) transactions: bool,
    pub(super) hashed: bool,
    /// The number of the next record to insert.
    pub(super) next: AtomicU64,
    /// All records below are there.
    pub(super) there: AtomicU64,
    /// Those above that are there as well.
    pub(super) ahead: Mutex<BTreeSet<u64>>,
    /// MGET shows rows: they are mapped.
    pub(super) rows: AtomicBool,
}

impl Ycsb {
    pub(super) fn id(&self, number: u64) -> String {
        match self.hashed {
            true => format!("user{}", fnv_hash(number)),
            false => format!("user{number:012}"),
        }
    }

    pub(super) fn key(&self, number: u64) -> String {
        format!("usertable:{}", self.id(number))
    }

    /// The record is there, or its insert has failed.
    pub(super) fn inserted(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        let mut there = self.there.load(Ordering::Relaxed);
        while ahead.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Relaxed);
    }
}

/// A field's value: printable bytes.
pub(super) fn value(rng: &mut Rng) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(FIELD_BYTES);
    while text.len() < FIELD_BYTES {
        let mut bits = rng.u64(..);
        for _ in 0..10.min(FIELD_BYTES - text.len()) {
            text.push(char::from(SIGNS[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    text
}

/// The name of a field.
pub(super) fn field(number: usize) -> String {
    format!("field{number}")
}

/// `HMSET key field0 .. field9 ..`.
pub(super) fn whole_record(key: String, rng: &mut Rng) -> Vec<String> {
    let fields = (0..FIELDS).flat_map(|number| [field(number), value(rng)]);
    ["HMSET".to_owned(), key].into_iter().chain(fields).collect()
}

/// `field0, field1, ..` with each in this form.
pub(super) fn columns(form: impl Fn(usize) -> String) -> String {
    (0..FIELDS).map(form).collect::<Vec<_>>().join(", ")
}
