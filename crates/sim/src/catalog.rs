//! The keys of a trace: met in a first pass, so that sizes can be shares of them and offline policies know the future.
//!
//! A key is known by a 64-bit hash of its name and space. Two keys of one hash would count as one, which for 2^28
//! keys happens once in 500 traces. With a sample rate below 1 only keys whose hash falls into the sample are met at
//! all (SHARDS: Waldspurger et al., FAST 2015).

mod future;
mod plain;
mod request;
mod volume;

use std::collections::BTreeSet;

use forebay::hint::HintSet;
use forebay::policy::{Access, AccessKind, Unit};
use forebay_trace::{Kind, Record, TraceError, TraceReader, mix};
use hashbrown::HashMap;

use future::Future;
use plain::Plain;
pub use plain::{PLAIN_REQUESTS_MAX, PlainRequests};
pub use request::{Event, NEVER, Request};
pub use volume::Adjustment;
use volume::Volumes;

/// Most different keys in one run.
pub const KEYS_MAX: usize = 1 << 30;

/// Most requests of a trace, after sampling, whose future an offline policy can be told: 4 bytes each.
pub const FUTURE_REQUESTS_MAX: usize = u32::MAX as usize - 1;

/// Most clients that are counted apart; those that come later are counted together under [`OTHER_CLIENTS`].
pub const CLIENTS_MAX: usize = 10_000;

/// The number under which clients beyond [`CLIENTS_MAX`] are counted.
pub const OTHER_CLIENTS: u32 = u32::MAX;

/// Records that are read at once.
const BATCH_RECORDS: usize = 1024;

/// Which share of the keys takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The share, above 0 and at most 1.
    pub rate: f64,
    /// Another seed draws another sample.
    pub seed: u64,
}

impl Sample {
    fn takes(&self, hash: u64) -> bool {
        self.rate >= 1.0 || (mix(hash ^ mix(self.seed)) as f64) < self.rate * u64::MAX as f64
    }
}

#[derive(Clone, Copy)]
struct Known {
    number: u32,
    /// 0 while no request has told it.
    size: u32,
}

/// The keys of one trace, and what comes next after each request.
pub struct Catalog {
    keys: HashMap<u64, Known, foldhash::fast::FixedState>,
    sample: Sample,
    /// Requests in the sample; deletes do not count.
    pub requests: u64,
    /// All requests of the trace, in the sample or not.
    pub requests_of_trace: u64,
    /// Sum of the keys' sizes, each as first told.
    pub footprint_bytes: u64,
    /// Sum of the lengths of their names.
    pub key_bytes: u64,
    /// Keys of which no request tells a size; each counts as 1 byte.
    pub keys_without_size: u64,
    /// Clients, as far as [`CLIENTS_MAX`].
    pub clients: BTreeSet<u32>,
    /// Which client asked last.
    client: Option<u32>,
    /// Whether any request belongs to a transaction.
    pub has_transactions: bool,
    /// Types of transactions, of the whole trace.
    pub txn_types: BTreeSet<u16>,
    /// The type seen last.
    txn_type: u16,
    volumes: Volumes,
    future: Future,
    plain: Option<Plain>,
}

impl Catalog {
    /// Reads the whole trace once. `with_future`: an offline policy will ask what comes next. `met` hears of every
    /// record.
    pub fn of(
        records: impl Iterator<Item = Result<Record, TraceError>>,
        sample: Sample,
        with_future: bool,
        mut met: impl FnMut(),
    ) -> Result<Catalog, TraceError> {
        let mut catalog = Catalog::new(sample);
        for record in records {
            let record = match record {
                Err(error) if error.is_truncated() => break,
                other => other?,
            };
            met();
            catalog.meet_record(&record, with_future)?;
        }
        Ok(catalog.resolved(with_future))
    }

    /// As [`Catalog::of`], of a trace that is read many records at a time; `met` hears how many.
    pub fn read(
        trace: &mut dyn TraceReader,
        sample: Sample,
        with_future: bool,
        mut met: impl FnMut(usize),
    ) -> Result<Catalog, TraceError> {
        let (mut catalog, mut batch) = (Catalog::new(sample), Vec::with_capacity(BATCH_RECORDS));
        loop {
            let result = trace.fill(&mut batch, BATCH_RECORDS);
            for record in &batch {
                catalog.meet_record(record, with_future)?;
            }
            met(batch.len());
            match result {
                Err(error) if !error.is_truncated() => return Err(error),
                Ok(()) if !batch.is_empty() => batch.clear(),
                _ => return Ok(catalog.resolved(with_future)),
            }
        }
    }

    fn new(sample: Sample) -> Catalog {
        Catalog {
            keys: HashMap::default(),
            sample,
            requests: 0,
            requests_of_trace: 0,
            footprint_bytes: 0,
            key_bytes: 0,
            keys_without_size: 0,
            clients: BTreeSet::new(),
            client: None,
            has_transactions: false,
            txn_types: BTreeSet::new(),
            txn_type: 0,
            volumes: Volumes::default(),
            future: Future::default(),
            plain: Some(Plain::default()),
        }
    }

    fn meet_record(&mut self, record: &Record, with_future: bool) -> Result<(), TraceError> {
        self.plain.take_if(|plain| !plain.suits(record));
        if record.txn_type != self.txn_type {
            self.txn_type = record.txn_type;
            self.txn_types.extend((record.txn_type != 0).then_some(record.txn_type));
        }
        if record.kind.is_access() && record.kind != Kind::Delete {
            self.requests_of_trace += 1;
            let hash = record.key_hash();
            let sampled = self.sample.takes(hash);
            self.volumes.meet(record, sampled);
            if sampled {
                self.meet(hash, record, with_future)?;
            }
        }
        Ok(())
    }

    /// All is met.
    fn resolved(mut self, with_future: bool) -> Catalog {
        let keys = self.keys.len();
        if self.keys_without_size > 0 {
            self.keys.values_mut().filter(|known| known.size == 0).for_each(|known| known.size = 1);
            self.footprint_bytes += self.keys_without_size;
        }
        if with_future {
            self.future.resolve(keys);
        }
        if let Some(plain) = &mut self.plain {
            (plain.hashes, plain.sizes) = (vec![0; keys], vec![0; keys]);
            for (&hash, &Known { number, size }) in &self.keys {
                (plain.hashes[number as usize], plain.sizes[number as usize]) = (hash, size);
            }
        }
        self
    }

    fn meet(&mut self, hash: u64, record: &Record, with_future: bool) -> Result<(), TraceError> {
        let (number, size) = (self.keys.len() as u32, record.size.map_or(0, |size| size.max(1)));
        if with_future {
            self.future.enter_level(record.txn, record.level, number);
        }
        let known = self.keys.entry(hash).or_insert(Known { number, size: 0 });
        if known.number == number {
            self.keys_without_size += 1;
            self.key_bytes += record.key.name_bytes() as u64;
        }
        if known.size == 0 && size > 0 {
            known.size = size;
            self.footprint_bytes += u64::from(size);
            self.keys_without_size -= 1;
        }
        let key = known.number;
        limit("keys_max", KEYS_MAX, self.keys.len())?;
        self.requests += 1;
        if self.client.replace(record.client) != Some(record.client) && self.clients.len() < CLIENTS_MAX {
            self.clients.insert(record.client);
        }
        self.has_transactions |= record.txn != 0;
        if let Some(plain) = &mut self.plain {
            plain.push(key, record);
        }
        if with_future {
            limit("future_requests_max", FUTURE_REQUESTS_MAX, self.future.next.len())?;
            self.future.push(key, reads(record.kind));
            let of_level = &mut self.future.level;
            of_level.whole &= reads(record.kind) && key < of_level.keys_before;
        }
        Ok(())
    }

    /// The requests of the trace, if they can be had without reading it again.
    pub fn plain(&self) -> Option<PlainRequests<'_>> {
        self.plain.as_ref().map(|plain| PlainRequests::new(plain, &self.future))
    }

    /// Number of different keys in the sample.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Hashes of all keys with their numbers, in no order.
    pub fn keys(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.keys.iter().map(|(&hash, known)| (hash, known.number))
    }

    /// What a record of the same trace means in a second pass; `place` counts the requests before it. `None` for what
    /// is not in the sample.
    pub fn event(&self, record: &Record, place: &mut u64) -> Option<Event> {
        if !record.kind.is_access() {
            return Some(Event::End { txn: record.txn, committed: record.kind == Kind::Committed });
        }
        let hash = record.key_hash();
        if record.kind == Kind::Delete {
            return self.sample.takes(hash).then_some(Event::Delete { hash });
        }
        let Known { number, size } = *self.keys.get(&hash)?;
        let place_now = *place as usize;
        *place += 1;
        let access = Access {
            kind: kind_of(record.kind),
            cost_us: record.cost_us.unwrap_or(0),
            client: record.client,
            hints: HintSet(record.hints),
            txn: record.txn,
            txn_type: record.txn_type,
            level: record.level,
            vertex: record.vertex,
            ..Access::read(hash, size)
        };
        Some(Event::Request(self.future.request(access, number, place_now)))
    }

    /// What the sample stands for, if it is one.
    pub fn adjustment(&self, reads_only: bool) -> Option<Adjustment> {
        self.volumes.adjustment(self.sample.rate, reads_only)
    }

    /// Keys of the sample that a cache holds, by their mean size, which is of this size for the whole trace.
    pub(crate) fn sampled_keys_in(&self, unit: Unit, size: u64) -> f64 {
        let keys_per_unit = match unit {
            Unit::Entries => 1.0,
            Unit::Bytes => self.len() as f64 / self.footprint_bytes.max(1) as f64,
        };
        size as f64 * self.sample.rate * keys_per_unit
    }
}

fn limit(name: &'static str, limit: usize, found: usize) -> Result<(), TraceError> {
    if found <= limit {
        return Ok(());
    }
    Err(TraceError::Limit { name, limit: limit as u64, found: found as u64 })
}

fn reads(kind: Kind) -> bool {
    kind == Kind::Read
}

fn kind_of(kind: Kind) -> AccessKind {
    match kind {
        Kind::Write | Kind::Delete => AccessKind::Write,
        Kind::Prefetch => AccessKind::Prefetch,
        Kind::Demote => AccessKind::Demote,
        Kind::Read | Kind::Committed | Kind::Aborted => AccessKind::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::TraceKey;
    use proptest::prelude::*;

    fn record(key: u64, kind: Kind, size: u32) -> Record {
        Record { key: TraceKey::Number(key), kind, size: Some(size), ..Record::default() }
    }

    const ALL: Sample = Sample { rate: 1.0, seed: 0 };

    proptest! {
        /// The next request of each key, against a search.
        #[test]
        fn knows_what_comes_next(trace in prop::collection::vec((0u64..9, any::<bool>()), 0..60)) {
            let records: Vec<_> = trace
                .iter()
                .map(|&(key, read)| record(key, if read { Kind::Read } else { Kind::Write }, 7))
                .collect();
            let catalog = Catalog::of(records.iter().cloned().map(Ok), ALL, true, || ()).expect("no errors in it");
            let mut place = 0;
            for (at, record) in records.iter().enumerate() {
                let Some(Event::Request(request)) = catalog.event(record, &mut place) else { panic!("a request") };
                let next = (at + 1..trace.len()).find(|&later| trace[later].0 == trace[at].0);
                prop_assert_eq!(request.next, next.map_or(NEVER, |next| next as u32));
                prop_assert_eq!(request.next_reads, next.is_some_and(|next| trace[next].1));
            }
            prop_assert!(are_events(&catalog, &records));
        }
    }

    /// Whether what is kept of a plain trace is what reading it again would give.
    fn are_events(catalog: &Catalog, records: &[Record]) -> bool {
        let mut place = 0;
        let mut read = records.iter().filter_map(|record| match catalog.event(record, &mut place) {
            Some(Event::Request(request)) => Some(format!("{request:?}")),
            _ => None,
        });
        let plain = catalog.plain().expect("nothing but requests");
        let mut kept = plain.range(0..plain.len()).map(|request| format!("{request:?}"));
        read.by_ref().eq(kept.by_ref()) && plain.len() == place as usize
    }

    #[test]
    fn only_plain_traces_are_kept() {
        let of = |records: &[Record]| Catalog::of(records.iter().cloned().map(Ok), ALL, false, || ()).expect("sound");
        let client = |client| Record { client, ..record(3, Kind::Read, 5) };
        let records = [record(1, Kind::Write, 2), client(0), client(7), client(0), record(1, Kind::Read, 9)];
        assert!(are_events(&of(&records), &records));
        for other in [
            record(1, Kind::Delete, 2),
            Record { hints: 1, ..client(0) },
            Record { txn: 1, ..client(0) },
            Record { cost_us: Some(1), ..client(0) },
        ] {
            assert!(of(&[client(1), other, client(1)]).plain().is_none());
        }
    }

    #[test]
    fn sizes_are_first_sizes_and_deletes_do_not_count() {
        let records = [
            record(1, Kind::Read, 10),
            record(1, Kind::Write, 90),
            record(2, Kind::Delete, 5),
            record(3, Kind::Read, 0),
        ];
        let catalog = Catalog::of(records.iter().cloned().map(Ok), ALL, false, || ()).expect("no errors in it");
        assert_eq!((catalog.len(), catalog.requests, catalog.footprint_bytes), (2, 3, 11));
        assert!(matches!(catalog.event(&records[2], &mut 0), Some(Event::Delete { .. })));
        let Some(Event::Request(request)) = catalog.event(&records[1], &mut 1) else { panic!("a request") };
        assert_eq!((request.access.size, request.next), (10, NEVER));
    }

    /// A first answer may be one without a body, as HTTP's 304 is.
    #[test]
    fn a_size_may_be_told_later() {
        let unsized_ = |key| Record { size: None, ..record(key, Kind::Read, 0) };
        let records = [unsized_(1), unsized_(2), record(1, Kind::Read, 70), record(1, Kind::Read, 90), unsized_(1)];
        let catalog = Catalog::of(records.iter().cloned().map(Ok), ALL, false, || ()).expect("no errors in it");
        assert_eq!((catalog.footprint_bytes, catalog.keys_without_size), (71, 1));
        let Some(Event::Request(request)) = catalog.event(&records[0], &mut 0) else { panic!("a request") };
        assert_eq!(request.access.size, 70);
        assert!(are_events(&catalog, &records));
    }

    #[test]
    fn a_sample_has_about_its_share_of_the_keys() {
        let records = (0..20_000).map(|key| Ok(record(key, Kind::Read, 1)));
        let catalog = Catalog::of(records, Sample { rate: 0.1, seed: 3 }, false, || ()).expect("no errors in it");
        assert!((1_800..2_200).contains(&catalog.len()), "{}", catalog.len());
        assert_eq!(catalog.requests_of_trace, 20_000);
    }
}
