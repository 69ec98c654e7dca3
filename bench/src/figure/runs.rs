//! Simulations of generated workloads, in this process.

use std::sync::Arc;

use forebay::graph::{Graph, Thr};
use forebay::policy::Unit;
use forebay_sim::ahead::{Prefetch, PrefetchTally};
use forebay_sim::catalog::{Catalog, Event, Sample};
use forebay_sim::cell::{Cell, Counting};
use forebay_sim::contender::Contender;
use forebay_sim::machine::Machine;
use forebay_workload::generate::{self, Options, Workload};

use super::{Scale, Series};

/// Events that a cell replays at once.
const BATCH_EVENTS: usize = 8192;

/// What to run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub workload: &'static Workload,
    pub options: Options,
    /// Share of the requests that only warms the caches.
    pub warmup: f64,
    pub reads_only: bool,
    pub prefetch: Prefetch,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Transactional hit rate in percent.
    pub thr: f64,
    /// Object hit ratio in percent.
    pub ohr: f64,
    /// Cached keys that helped no transaction, in percent of all cached.
    pub unhelpful: f64,
    /// Bytes of the policy's metadata for each entry.
    pub metadata: f64,
    /// What became of what was fetched ahead.
    pub prefetch: PrefetchTally,
}

impl Run {
    /// A workload by name, with a share of its default transactions and scale.
    pub fn of(name: &str, scale: Scale, share: f64) -> Run {
        let workload = generate::workload(name).expect("a figure names workloads of the table");
        let share = if scale == Scale::Full { 1.0 } else { share };
        let cut = |number: u64| ((number as f64 * share) as u64).max(1);
        let (transactions, size) = workload.defaults;
        let options = Options { transactions: cut(transactions), scale: cut(size), seed: 1 };
        Run { workload, options, warmup: 0.6, reads_only: false, prefetch: Prefetch::None }
    }

    /// Each policy at each share of the keys, all over the same trace.
    pub fn outcomes(&self, policies: &[&str], shares: &[f64]) -> Vec<Vec<Outcome>> {
        let (catalog, mut cells) = self.replay(policies, shares, u64::MAX, |_, _| ());
        let outcome = |(size, cell): &mut (u64, Cell)| {
            let thr = cell.transactional_hits().and_then(|thr| thr.rate()).unwrap_or_default();
            let unhelpful = cell.unhelpful_keys(&catalog).unwrap_or_default() as f64 / *size as f64;
            Outcome {
                thr: 100.0 * thr,
                ohr: 100.0 * cell.tally().hit_ratio(),
                unhelpful: 100.0 * unhelpful,
                metadata: cell.metadata_bytes() as f64 / *size as f64,
                prefetch: cell.prefetched().unwrap_or_default(),
            }
        };
        let all: Vec<Outcome> = cells.iter_mut().map(outcome).collect();
        all.chunks(shares.len()).map(<[Outcome]>::to_vec).collect()
    }

    /// Each policy's transactional hit rate in percent, for every so many transactions by itself; x is in thousands of
    /// transactions.
    pub fn over_time(&self, policies: &[&str], share: f64, every: u64) -> Vec<Series> {
        let mut series: Vec<Series> = policies
            .iter()
            .map(|policy| Series { name: (*policy).to_owned(), points: Vec::new(), ..Series::default() })
            .collect();
        let mut before = vec![Thr::default(); policies.len()];
        Run { warmup: 0.0, ..*self }.replay(policies, &[share], every, |transactions, cells| {
            for ((series, before), (_, cell)) in series.iter_mut().zip(&mut before).zip(cells) {
                let now = cell.transactional_hits().unwrap_or_default();
                let part = Thr { length: now.length - before.length, hits: now.hits - before.hits };
                series.points.push((transactions as f64 / 1000.0, 100.0 * part.rate().unwrap_or_default()));
                *before = now;
            }
        });
        series
    }

    /// The cells after the run, policy by policy. `each` sees them after every so many transactions.
    fn replay(
        &self,
        policies: &[&str],
        shares: &[f64],
        every: u64,
        mut each: impl FnMut(u64, &[(u64, Cell)]),
    ) -> (Catalog, Vec<(u64, Cell)>) {
        let records = || generate::records(self.workload, &self.options);
        let contenders: Vec<Contender> =
            policies.iter().map(|policy| Contender::parse(policy).expect("a figure names known policies")).collect();
        let offline = contenders.iter().any(Contender::is_offline);
        let sample = Sample { rate: 1.0, seed: 0 };
        let catalog = Catalog::of(records().map(Ok), sample, offline, || ()).expect("generated traces are sound");
        let types = (self.workload.types)(self.options.scale);
        let graphs: Vec<(u16, Arc<Graph>)> =
            (1..).zip(types).filter_map(|(number, of_type)| Some((number, Arc::new(of_type.graph()?.ok()?)))).collect();
        let counting = Counting {
            reads_only: self.reads_only,
            writes_allocate: false,
            prefetch: self.prefetch,
            from: (catalog.requests as f64 * self.warmup) as u64,
            per_client: false,
            transactions: true,
            sample_rate: 1.0,
            adjustment: None,
        };
        let capacity = |share: f64| ((catalog.len() as f64 * share) as u64).max(1);
        let mut cells: Vec<(u64, Cell)> = contenders
            .iter()
            .flat_map(|contender| shares.iter().map(move |&share| (contender, capacity(share))))
            .map(|(contender, size)| {
                let machine = Machine::new(contender, Unit::Entries, size);
                (size, Cell::new(contender, machine, (Unit::Entries, size), counting, &graphs))
            })
            .collect();
        let (mut place, mut transactions, mut batch) = (0, 0, Vec::with_capacity(BATCH_EVENTS));
        for record in records() {
            batch.extend(catalog.event(&record, &mut place));
            transactions += u64::from(matches!(batch.last(), Some(Event::End { .. })));
            let seen = matches!(batch.last(), Some(Event::End { .. })) && transactions % every == 0;
            if seen || batch.len() >= BATCH_EVENTS {
                cells.iter_mut().for_each(|(_, cell)| cell.replay(&batch));
                batch.clear();
            }
            if seen {
                each(transactions, &cells);
            }
        }
        for (_, cell) in &mut cells {
            cell.replay(&batch);
            cell.finish();
        }
        (catalog, cells)
    }

    /// Lines over cache sizes in percent.
    pub fn lines(&self, policies: &[&str], shares: &[f64], of: impl Fn(&Outcome) -> f64) -> Vec<Series> {
        let outcomes = self.outcomes(policies, shares);
        policies.iter().zip(outcomes).map(|(policy, outcomes)| line(policy, shares, outcomes.iter().map(&of))).collect()
    }
}

/// One line over cache sizes in percent.
pub(super) fn line(name: &str, shares: &[f64], values: impl Iterator<Item = f64>) -> Series {
    let points = shares.iter().map(|share| 100.0 * share).zip(values).collect();
    Series { name: name.to_owned(), points, ..Series::default() }
}
