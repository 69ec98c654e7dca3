//! What came out, row by row: one policy at one size on one trace.

use forebay::policy::Unit;
use serde::Serialize;

use crate::ahead::PrefetchTally;
use crate::catalog::{Catalog, OTHER_CLIENTS};
use crate::cell::{Cell, Kept, SAMPLE_KEYS_MIN, Tally};
use crate::contender::Contender;
use crate::latency::{Latencies, Modelled, RoundTrips};
use crate::levels::{LevelTally, Sums};

/// One policy at one size on one trace, for all clients or for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The trace's file name.
    pub trace: String,
    /// The policy, with the parameters that were set.
    pub policy: String,
    /// `objects` or `bytes`.
    pub unit: &'static str,
    /// The size as it was given.
    pub size_given: String,
    /// The size in the unit.
    pub size: u64,
    /// Requests that counted.
    pub requests: u64,
    /// Those that were cached.
    pub hits: u64,
    /// Hits per request.
    pub hit_ratio: f64,
    /// Bytes hit per byte asked for.
    pub byte_hit_ratio: f64,
    /// Bytes asked for; none where no size is known.
    pub bytes_requested: Option<u64>,
    /// Bytes that came from the store: of what was not cached, and what was fetched ahead; none where no size is known.
    pub bytes_fetched: Option<u64>,
    /// Transactional hit ratio by levels, where the trace has transactions and all keys take part.
    pub thr: Option<f64>,
    /// Cached keys at the end that have helped no transaction, where there are transactions; of a client those that it
    /// asked for last.
    pub unhelpful_keys: Option<u64>,
    /// Bytes of the policy's metadata at the end.
    pub metadata_bytes: u64,
    /// What is cached at the end.
    #[serde(skip)]
    pub kept: Kept,
    /// Nanoseconds of one thread for each request.
    pub cpu_ns_per_request: f64,
    /// The client, if it is counted apart; `other` for those beyond the limit.
    pub client: Option<String>,
    /// Standard error of the hit ratio, for a sample of at least [`SAMPLE_KEYS_MIN`] keys; if it is adjusted, only
    /// where its cache holds [`SAMPLE_CACHE_KEYS_MIN`](crate::cell::SAMPLE_CACHE_KEYS_MIN) of them.
    pub hit_ratio_error: Option<f64>,
    /// Levels of transactions by their depth.
    pub levels: Vec<LevelTally>,
    /// Levels hit per level: what the DeToX artifact counts. It differs from `thr` where a graph is known.
    pub level_hit_ratio: Option<f64>,
    /// What became of what was fetched ahead.
    pub prefetch: Option<PrefetchTally>,
    /// What waits for the store.
    #[serde(skip)]
    pub round_trips: Option<RoundTrips>,
    /// What that takes, where latencies are given.
    #[serde(flatten)]
    pub modelled: Option<Modelled>,
    /// What the policy has learned at the end, as lines of name and value; for reports.
    #[serde(skip)]
    pub learned: Vec<(String, String)>,
}

/// Lines of what a policy has learned.
const LEARNED_MAX: usize = 1000;

impl Row {
    /// A row of a replay like the server's.
    pub(crate) fn like_server(trace: &str, policy: String, given: &str, size: u64, tally: Tally) -> Row {
        let row = Row {
            trace: trace.to_owned(),
            policy,
            unit: "bytes",
            size_given: given.to_owned(),
            size,
            ..Row::default()
        };
        row.with(tally, true)
    }

    /// The rows of a cell: of all clients, then of each.
    pub(crate) fn of(
        trace: &str,
        contender: &Contender,
        (unit, given, size): (Unit, &str, u64),
        catalog: &Catalog,
        cell: &mut Cell,
    ) -> Vec<Row> {
        let sized = catalog.keys_without_size < catalog.len() as u64;
        let row = Row {
            trace: trace.to_owned(),
            policy: contender.to_string(),
            unit: if unit == Unit::Entries { "objects" } else { "bytes" },
            size_given: given.to_owned(),
            size,
            metadata_bytes: cell.metadata_bytes(),
            kept: cell.kept(),
            cpu_ns_per_request: cell.cpu_ns_per_request(),
            ..Row::default()
        };
        let unhelpful = cell.unhelpful_keys_of(catalog);
        let cached = catalog.sampled_keys_in(unit, size);
        let all = Row {
            unhelpful_keys: unhelpful.as_ref().map(|(all, _)| *all),
            hit_ratio_error: cell.hit_ratio_error(cached).filter(|_| catalog.len() >= SAMPLE_KEYS_MIN),
            prefetch: cell.prefetched(),
            learned: cell.report(LEARNED_MAX),
            ..row.clone()
        };
        let mut rows = vec![all.of_transactions(cell.transactions()).with(cell.tally(), sized)];
        for (&client, &tally) in cell.clients() {
            let row = Row {
                client: Some(if client == OTHER_CLIENTS { "other".to_owned() } else { client.to_string() }),
                unhelpful_keys: unhelpful.as_ref().map(|(_, by_client)| by_client.get(&client).copied().unwrap_or(0)),
                ..row.clone()
            };
            rows.push(row.of_transactions(cell.transactions_of(client)).with(tally, sized));
        }
        if !catalog.has_transactions {
            rows.iter_mut().for_each(Row::counts_requests);
        }
        rows
    }

    /// What the model says of it.
    pub fn model(&mut self, latencies: &Latencies) {
        self.modelled = self.round_trips.and_then(|trips| latencies.model(trips));
    }

    /// Without transactions each request is a round trip.
    pub(crate) fn counts_requests(&mut self) {
        self.round_trips = Some(RoundTrips::of_requests(self.requests, self.hits));
    }

    fn of_transactions(self, sums: Option<&Sums>) -> Row {
        Row {
            thr: sums.and_then(|sums| sums.thr().rate()),
            levels: sums.map_or_else(Vec::new, |sums| sums.by_level().to_vec()),
            level_hit_ratio: sums.and_then(Sums::level_hit_ratio),
            round_trips: sums.and_then(Sums::round_trips),
            ..self
        }
    }

    fn with(self, tally: Tally, sized: bool) -> Row {
        Row {
            bytes_requested: sized.then_some(tally.bytes),
            bytes_fetched: sized.then(|| tally.bytes_fetched()),
            requests: tally.requests,
            hits: tally.hits,
            hit_ratio: tally.hit_ratio(),
            byte_hit_ratio: tally.byte_hit_ratio(),
            ..self
        }
    }
}
