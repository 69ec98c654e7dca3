//! What reads say of documents of which no copy is kept: how often they are read, and whether they are worth a copy.
//!
//! Of a document with a copy, the copy knows. Of others a sketch does ([`forebay::lease::admission`]). With
//! [`crate::Options::popular`] the sketch counts all reads, and the most popular documents alone are kept.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::key::Key;
use forebay::lease::{Popular, ReadRates};

use crate::options::Options;

/// Bytes of copies for each counter of a row: the sketch takes 1/256 of them.
const BYTES_PER_COUNTER: usize = 4 << 10;

/// Likewise with [`Options::popular`], where it counts far more documents than are kept: 1/64.
const BYTES_PER_COUNTER_OF_ALL: usize = 1 << 10;

/// After so many seconds a read counts half.
const HALF_LIFE_S: f64 = 300.0;

/// How often documents are read.
pub struct Admission {
    counts_all: bool,
    counts: Mutex<Counts>,
}

enum Counts {
    /// Of documents without a copy.
    Absent(ReadRates),
    /// Of all.
    All(Popular),
}

impl Admission {
    /// As `options` want it; moments count from now on.
    pub fn new(options: &Options) -> Admission {
        let counts = match options.popular {
            None => Counts::Absent(ReadRates::new(options.cache_bytes / BYTES_PER_COUNTER, HALF_LIFE_S, 0.0)),
            Some(share) => {
                let documents = options.cache_bytes / BYTES_PER_COUNTER_OF_ALL;
                Counts::All(Popular::new(share, documents, HALF_LIFE_S, 0.0))
            }
        };
        Admission { counts_all: options.popular.is_some(), counts: Mutex::new(counts) }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A document is read at `now_s`; `is_kept` says whether something is kept that counts its reads.
    pub fn read(&self, key: &Key, is_kept: bool, now_s: f64) {
        if is_kept && !self.counts_all {
            return;
        }
        match &mut *self.counts() {
            Counts::Absent(rates) => rates.read(key.borrow().hash64(), now_s),
            Counts::All(popular) => popular.read(key.borrow().hash64(), now_s),
        }
    }

    /// The mean time between the reads of a document, in seconds, if it was read twice lately.
    pub fn gap(&self, key: &Key, now_s: f64) -> Option<f64> {
        let hash = key.borrow().hash64();
        match &*self.counts() {
            Counts::Absent(rates) => rates.gap(hash, now_s),
            Counts::All(popular) => popular.rates().gap(hash, now_s),
        }
    }

    /// Whether a document is worth a copy, as far as others' reads tell.
    pub fn has(&self, key: &Key, now_s: f64) -> bool {
        !self.counts_all || matches!(&*self.counts(), Counts::All(all) if all.has(key.borrow().hash64(), now_s))
    }
}
