//! Replay through the cache itself, without server, transactions and store.
//!
//! Keys and values are those of a replay through a server ([`Request`]), and the cache is the server's with one
//! partition. A miss takes the server's way: look, begin a fill, complete it. So for the same policy and budget a
//! server that is asked over one connection must count the same hits and misses. A server adds two things. Its
//! fetches cost time, which only policies that weigh costs notice. Writes of one pipelined batch may be published
//! together.

use std::collections::HashMap;

use forebay::Read;
use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context};
use forebay::key::{Key, KeyRef};
use forebay::policy::Choice;
use forebay::value::Value;
use forebay::version::{Mint, Version};
use forebay_trace::replay::{Action, Request, value};
use forebay_trace::{Record, TraceError};

/// How to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// What decides which entries stay.
    pub policy: Choice,
    /// Bytes for entries; what the server's `CACHE STATS` shows as its budget.
    pub budget_bytes: usize,
    /// All keys are there from the start, with the sizes that they are first seen with. Without it a key is absent
    /// until the trace writes it.
    pub preload: bool,
    /// Writes and deletes read instead.
    pub writes_as_reads: bool,
}

/// What a replay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests of all kinds.
    pub requests: u64,
    /// Reads answered from the cache.
    pub hits: u64,
    /// Reads that had to ask the store.
    pub misses: u64,
    /// Entries that the policy gave up.
    pub evictions: u64,
    /// Entries at the end.
    pub entries: u64,
}

impl CacheCounts {
    /// Hits per read, 0 without reads.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// What a store would hold, as far as the cache can tell: a version, and a size or absence.
struct Sizes {
    sizes: HashMap<Box<[u8]>, (Option<u32>, Version), foldhash::fast::FixedState>,
    preload: bool,
}

impl Sizes {
    fn read(&mut self, request: &Request) -> Read {
        let (size, version) = match self.sizes.get(request.key.as_slice()) {
            Some(known) => *known,
            None if self.preload => {
                let first = (Some(request.value_bytes), Version::ZERO);
                self.sizes.insert(request.key.as_slice().into(), first);
                first
            }
            None => (None, Version::ZERO),
        };
        document(size, version)
    }
}

fn document(size: Option<u32>, version: Version) -> Read {
    Read { value: size.map(|size| Value::bytes(value(size))), version }
}

/// Replays the records over an empty cache. Fails where the trace can't be read any further.
pub fn replay(
    options: &ReplayOptions,
    records: impl IntoIterator<Item = Result<Record, TraceError>>,
) -> Result<CacheCounts, TraceError> {
    let cache = Cache::new(&CacheOptions {
        budget_bytes: options.budget_bytes,
        partitions: 1,
        policy: options.policy.policy,
        policy_values: options.policy.values.clone(),
    });
    let mut sizes = Sizes { sizes: HashMap::default(), preload: options.preload };
    let (mint, context) = (Mint::new(1), Context::default());
    let mut requests = 0;
    for record in records {
        let Some(request) = Request::of(&record?, options.writes_as_reads) else { continue };
        requests += 1;
        match request.action {
            Action::Get => {
                get(&cache, &mut sizes, &request, &context);
            }
            Action::Set => write(&cache, &mut sizes, &request, Some(request.value_bytes), mint.next()),
            Action::Delete => {
                // DEL answers whether there was something, so it reads first, and writes only if there was.
                if get(&cache, &mut sizes, &request, &context) {
                    write(&cache, &mut sizes, &request, None, mint.next());
                }
            }
        }
    }
    let stats = cache.stats();
    Ok(CacheCounts {
        requests,
        hits: stats.hits,
        misses: stats.misses,
        evictions: stats.evictions,
        entries: stats.entries,
    })
}

/// Reads; whether there was something.
fn get(cache: &Cache, sizes: &mut Sizes, request: &Request, context: &Context) -> bool {
    if let Some(read) = cache.get(KeyRef { space: 0, name: &request.key }, context) {
        return read.value.is_some();
    }
    let read = sizes.read(request);
    match cache.begin_fill(&Key::new(0, &request.key)) {
        Begin::Lead(fill) => {
            fill.complete(&read, context, AccessKind::Read);
        }
        // Nobody else is there.
        Begin::Follow(_) | Begin::Held => {}
    }
    read.value.is_some()
}

fn write(cache: &Cache, sizes: &mut Sizes, request: &Request, size: Option<u32>, version: Version) {
    sizes.sizes.insert(request.key.as_slice().into(), (size, version));
    let key = Key::new(0, &request.key);
    let held = [key.clone()];
    cache.hold(&held);
    cache.publish(&[(key, Some(document(size, version)))], &held);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::cache::charge;
    use forebay::policy::choose;
    use forebay_trace::{Kind, TraceKey};

    fn record(key: u64, kind: Kind, size: u32) -> Record {
        Record { key: TraceKey::Number(key), kind, size: Some(size), ..Record::default() }
    }

    fn counts(options: &ReplayOptions, trace: &[Record]) -> CacheCounts {
        replay(options, trace.iter().cloned().map(Ok)).expect("no errors in it")
    }

    /// Room for `entries` entries of 100 bytes under keys of one digit.
    fn options(policy: &str, entries: usize) -> ReplayOptions {
        options_for(policy, entries, Some(100))
    }

    /// Likewise for entries of `size` bytes, or for absent keys.
    fn options_for(policy: &str, entries: usize, size: Option<u32>) -> ReplayOptions {
        let policy = choose(policy).expect("known");
        let entry = charge(&Key::new(0, b"t:1"), &document(size, Version::ZERO), policy.policy);
        ReplayOptions { policy, budget_bytes: entries * entry, preload: true, writes_as_reads: false }
    }

    #[test]
    fn a_tiny_trace_by_hand() {
        let trace = [1, 2, 1, 3, 1, 2].map(|key| record(key, Kind::Read, 100));
        // Of two: 1 and 2 miss, 1 hits, 3 misses and evicts 2, 1 hits, 2 misses and evicts 3.
        let expected = CacheCounts { requests: 6, hits: 2, misses: 4, evictions: 2, entries: 2 };
        assert_eq!(counts(&options("lru", 2), &trace), expected);
        assert_eq!(expected.hit_ratio(), 2.0 / 6.0);
        assert_eq!(CacheCounts::default().hit_ratio(), 0.0);
    }

    #[test]
    fn writes_come_in_unless_they_count_as_reads() {
        let trace = [
            record(1, Kind::Write, 100),
            record(1, Kind::Read, 100),
            record(1, Kind::Delete, 0),
            record(1, Kind::Read, 100),
            record(2, Kind::Write, 100),
        ];
        // The delete reads first; the deleted key stays as an absent entry.
        let written = counts(&options("lru", 4), &trace);
        assert_eq!(written, CacheCounts { requests: 5, hits: 3, misses: 0, evictions: 0, entries: 2 });
        let options = ReplayOptions { writes_as_reads: true, ..options("lru", 4) };
        let read = counts(&options, &trace);
        assert_eq!(read, CacheCounts { requests: 5, hits: 3, misses: 2, evictions: 0, entries: 2 });
    }

    #[test]
    fn values_keep_the_size_that_the_store_has() {
        // Seen first with 100 bytes: what later records say of a key that is only read does not matter.
        let trace = [(1, 100), (2, 100), (1, 5000), (2, 5000)].map(|(key, size)| record(key, Kind::Read, size));
        assert_eq!(counts(&options("lru", 2), &trace).hits, 2);
        // Without a preload there is nothing to read, but its absence.
        let absent = ReplayOptions { preload: false, ..options_for("lru", 1, None) };
        let trace = [1, 2, 1, 2].map(|key| record(key, Kind::Read, 5000));
        let counted = counts(&absent, &trace);
        assert_eq!((counted.hits, counted.misses), (0, 4));
    }
}
