//! The leased cache: copies of documents, each with a version and a lease. It stands on the engine of `forebay-cache`.
//!
//! A lease only says for how long a copy is worth using. Whether what was read is right, versions decide
//! ([`crate::moment`]). Three rules keep old news out:
//!
//! 1. A lease, and the life of a document with an expiry, count from before the request was sent.
//! 2. An answer never replaces what is known to be newer than it. What was asked for after that was known is newer.
//! 3. With the first answer of another incarnation of the server, all leases of earlier ones are over.
//!
//! A copy that was found stale leaves a note: the version that the key has. By rule 2, it keeps older answers out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay::key::Key;
use forebay::lease::{Bounds, Gaps, Leases};
use forebay::value::Value;
use forebay::version::Version;
use forebay_cache::{Cache, Op};

use crate::admission::Admission;
use crate::answer::Told;
use crate::copy::{Copy, Span, Used, Wanted};
use crate::error::Error;
use crate::ground::Ground;
use crate::mutation::{Fault, on};
use crate::options::Options;
use crate::statistics::Counts;

/// No lease is longer.
pub const LEASE_MAX: Duration = Duration::from_secs(86_400);

/// Bytes of a document that a request names at most.
const NAMED_BYTES_MAX: usize = 16 << 10;

/// The copies of one client, over all its sessions.
pub struct Copies {
    cache: Cache<Key, Arc<Copy>>,
    leases: Leases,
    bounds: Bounds,
    admission: Admission,
    ground: Ground,
    began: Instant,
    /// Of the server, by the answer that was asked for last; 0: it does not tell.
    incarnation: AtomicU64,
    latest: Mutex<Option<Instant>>,
    counts: Arc<Counts>,
}

impl Copies {
    /// An empty cache as `options` want it.
    pub fn new(options: &Options, counts: Arc<Counts>) -> Result<Copies, Error> {
        let Options { cache_bytes, policy, leases, bounds, ground, .. } = options.clone();
        let weight = |key: &Key, copy: &Arc<Copy>| key.heap_bytes() + copy.bytes();
        let cache = Cache::builder().capacity(cache_bytes).weigher(weight).policy(&policy)?.build();
        let admission = Admission::new(options);
        let (began, incarnation, latest) = (ground.now(), AtomicU64::new(0), Mutex::new(None));
        Ok(Copies { cache, leases, bounds, admission, ground, began, incarnation, latest, counts })
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    /// The copy of `key`, if its lease is not over.
    pub fn get(&self, key: &Key, wanted: Wanted) -> Option<Arc<Copy>> {
        let found = self.cache.get(key);
        self.admission.read(key, found.is_some(), self.seconds(wanted.now));
        let copy = found?;
        let serves = self.serves(&copy, wanted);
        let mut used = copy.used();
        used.gap.read(self.seconds(wanted.now));
        used.hits += u64::from(serves);
        drop(used);
        serves.then_some(copy)
    }

    fn serves(&self, copy: &Copy, wanted: Wanted) -> bool {
        let young = wanted.since.is_none_or(|since| copy.asked >= since);
        wanted.now < copy.until
            && copy.lives(wanted.now)
            && young
            && copy.as_of.is_none_or(|as_of| self.is_present(as_of))
    }

    /// Whether the server that gave that version is the one that answers now.
    pub fn is_present(&self, as_of: Version) -> bool {
        as_of.incarnation == self.incarnation.load(Ordering::Acquire) || on(Fault::LeaseOverIncarnation)
    }

    /// Whether a request may name a copy, for the server to say whether it is current. Where the server tells no
    /// version as of which it read, its word is not enough; and what it would have to look up is bounded.
    pub fn is_nameable(&self, copy: &Copy) -> bool {
        copy.as_of.is_some_and(|as_of| self.is_present(as_of))
            && copy.value.as_ref().map_or(0, Value::size) <= NAMED_BYTES_MAX
    }

    /// Takes in which incarnation the server has told; `None`: it has told none.
    pub fn heard(&self, asked: Instant, as_of: Option<Version>) {
        let incarnation = as_of.map_or(0, |as_of| as_of.incarnation);
        if self.incarnation.load(Ordering::Acquire) == incarnation {
            return;
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.is_none_or(|latest| asked >= latest) {
            *latest = Some(asked);
            self.incarnation.store(incarnation, Ordering::Release);
        }
    }

    /// How often the copy of `key` has served since the server was told; it is told now.
    pub fn take_hits(&self, key: &Key) -> u64 {
        self.cache.peek(key).map_or(0, |copy| std::mem::take(&mut copy.used().hits))
    }

    /// Takes in what LEASE GET has told. What it gives is as good for a transaction whether it is kept or not.
    pub fn take(&self, key: &Key, told: Told, span: Span) -> Arc<Copy> {
        let Told { value, version, as_of, writes, fresh, .. } = told;
        let lives_from = if on(Fault::LifeFromAnswer) { span.learned } else { span.asked };
        let (present, expires) = (value.is_some(), fresh.map(|fresh| lives_from + fresh.min(LEASE_MAX)));
        let used = self.cache.peek(key).map(|copy| *copy.used()).unwrap_or_default();
        let copy = Copy { value, version, present, as_of, expires, writes, ..self.blank(span, used) };
        self.keep(key, copy)
    }

    /// Takes in what a commit has made of `key`: it is current as of the commit itself.
    pub fn take_own(&self, key: &Key, value: Option<Value>, version: Version, expires: Option<Instant>, span: Span) {
        let known = self.cache.peek(key);
        let used = known.as_ref().map(|copy| *copy.used()).unwrap_or_default();
        let writes = known.map_or(0.0, |copy| copy.writes);
        let (present, as_of) = (value.is_some(), Some(version));
        self.keep(key, Copy { value, version, present, as_of, expires, writes, ..self.blank(span, used) });
    }

    /// A copy that tells nothing yet.
    fn blank(&self, span: Span, used: Used) -> Copy {
        let Span { asked, learned } = span;
        let (value, version, present, as_of, expires) = (None, Version::ZERO, false, None, None);
        let used = Mutex::new(used);
        Copy { value, version, present, as_of, asked, expires, learned, until: asked, writes: 0.0, used }
    }

    /// Gives a copy its lease, and keeps it unless more is known.
    fn keep(&self, key: &Key, copy: Copy) -> Arc<Copy> {
        let now_s = self.seconds(copy.learned);
        let is_wanted = self.admission.has(key, now_s);
        let length = if is_wanted { self.length(key, &copy, now_s) } else { Duration::ZERO };
        let from = if on(Fault::LeaseFromAnswer) { copy.learned } else { copy.asked };
        let copy = Arc::new(Copy { until: from + length, ..copy });
        // What is not worth a lease leaves a note, so that its reads are counted on.
        let kept = if length.is_zero() { Arc::new(self.note_of(&copy)) } else { copy.clone() };
        self.cache.compute(key.clone(), |known| match known {
            Some(known) if !kept.supersedes(known) => Op::Keep,
            // Its reads are counted elsewhere.
            None if !is_wanted => Op::Keep,
            _ => Op::Insert(kept.clone()),
        });
        copy
    }

    fn length(&self, key: &Key, copy: &Copy, now_s: f64) -> Duration {
        let gap = copy.used().gap.gap().or_else(|| self.admission.gap(key, now_s));
        let length = self.leases.length(gap, copy.writes, self.ground.fraction());
        let within = length.and_then(|length| self.bounds.within(Gaps::estimated(gap, copy.writes), length));
        let length = within.unwrap_or(0.0);
        let length = Duration::try_from_secs_f64(length).unwrap_or(LEASE_MAX).min(LEASE_MAX);
        if !length.is_zero() {
            self.counts.lease(length);
        }
        length
    }

    /// What a copy leaves without its document.
    fn note_of(&self, copy: &Copy) -> Copy {
        let span = Span { asked: copy.asked, learned: copy.learned };
        let (version, present, writes) = (copy.version, copy.present, copy.writes);
        Copy { version, present, writes, ..self.blank(span, *copy.used()) }
    }

    /// `copy` was found current as of `as_of`: its lease begins again, if it is what is kept.
    pub fn renew(&self, key: &Key, copy: &Arc<Copy>, as_of: Option<Version>, span: Span) {
        let Some(known) = self.cache.peek(key) else { return };
        let other = (known.version, known.present) != (copy.version, copy.present) || known.asked >= span.asked;
        if other && !on(Fault::RenewedUnchecked) {
            return;
        }
        let (value, version, present, expires, writes) =
            (copy.value.clone(), copy.version, copy.present, copy.expires, known.writes);
        let as_of = as_of.max(known.as_of);
        self.keep(key, Copy { value, version, present, as_of, expires, writes, ..self.blank(span, *known.used()) });
    }

    /// The key has another version than its copy: the copy is given up, and a note of the version stays.
    pub fn stale(&self, key: &Key, version: Version, present: bool, now: Instant) {
        if on(Fault::StaleServesOn) {
            return;
        }
        self.cache.compute(key.clone(), |known| {
            let used = known.map(|copy| *copy.used()).unwrap_or_default();
            let writes = known.map_or(0.0, |copy| copy.writes);
            let span = Span { asked: now, learned: now };
            Op::Insert(Arc::new(Copy { version, present, writes, ..self.blank(span, used) }))
        });
    }

    /// What becomes of the key is not known.
    pub fn forget(&self, key: &Key) {
        self.cache.remove(key);
    }

    /// Bytes that the copies take, as they are counted.
    pub fn bytes(&self) -> usize {
        self.cache.weight()
    }
}

#[cfg(test)]
pub(crate) mod tests;
