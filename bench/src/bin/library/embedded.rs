//! The embedded store under an engine beside redb driven directly.
//!
//! Clients commit transactions of one SET through the engine. What the committer gives to the store, group by group,
//! is written down. Afterwards it is given to bare databases, with equal documents in equal groups. Each group is one
//! write transaction of that durability. So the figure holds everything that forebay adds. That is locks, versions,
//! the applied ids, the way of a group to the thread that writes, and publication in the cache.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::{Commit, CommitOutcome, ReadError, Resolved, Store};
use forebay::txn::Engine;
use forebay::{Key, Read, TxnId, Version};
use forebay_bench::figures::{of, ratio};
use forebay_bench::peers;
use forebay_bench::report::Report;
use futures_util::future::BoxFuture;

use crate::Options;
use crate::bare::{Bare, FLUSH_PAUSE, Group, Rows};
use crate::bed::{self, Failed, Work};

/// Writes down the groups that it hands on.
struct Recorder {
    inner: Arc<dyn Store>,
    groups: Mutex<Vec<Group>>,
}

impl Recorder {
    fn record(&self, group: &[Commit]) {
        let documents = |commit: &Commit| {
            let written = commit.writes.iter();
            written.filter_map(|write| Some((write.key.clone(), write.after.clone()?))).collect()
        };
        let group_written = group.iter().map(documents).collect();
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group_written);
    }

    fn take(&self) -> Vec<Group> {
        std::mem::take(&mut self.groups.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Measures both durabilities with few and many clients.
pub async fn measure(report: &mut Report, options: &Options, folder: &Path) -> Result<(), Failed> {
    report.line(
        "\n### The embedded store beside redb driven directly\n\nThe same documents in the same groups, each one write \
         transaction. \"Same rows\": with versions, sums, ids and totals as forebay keeps them; \"plain\": key and \
         value alone. Thousand transactions of one SET per CPU second.\n",
    );
    report.columns(&[
        "durability",
        "clients",
        "group",
        "forebay",
        "same rows",
        "plain",
        "to same rows",
        "to plain",
        "ktxn/s",
    ]);
    for durability in &options.durability {
        let durability = match durability {
            peers::Durability::Always => Durability::Always,
            peers::Durability::Interval => Durability::Interval { sync_ms: 1000 },
            peers::Durability::Memory => return Err("--durability is always or interval here".into()),
        };
        let mut bench = Bench::open(options, folder, durability).await?;
        for clients in &options.clients {
            bench.measure(report, options, *clients).await?;
        }
        // The engine's last task lets go of the file when it has ended.
        bench.engine.drained().await;
    }
    Ok(())
}

struct Bench {
    name: &'static str,
    engine: Engine,
    recorder: Arc<Recorder>,
    bare: [Bare; 2],
}

impl Bench {
    async fn open(options: &Options, folder: &Path, durability: Durability) -> Result<Bench, Failed> {
        let (name, bare_durability) = match durability {
            Durability::Always => ("always", redb::Durability::Immediate),
            _ => ("interval", redb::Durability::None),
        };
        let path = |kind: &str| folder.join(format!("{name}-{kind}.redb"));
        let embedded_options = EmbeddedOptions { durability, ..EmbeddedOptions::default() };
        let inner = Arc::new(Embedded::open(bed::runtime(), path("forebay"), embedded_options)?);
        let recorder = Arc::new(Recorder { inner, groups: Mutex::default() });
        let engine = bed::engine(recorder.clone(), bed::ALL_CACHED_BYTES)?;
        bed::load(&engine, options.keys, options.value_bytes).await?;
        let loaded = recorder.take();
        let bytes = embedded_options.page_cache_bytes;
        let bare = |rows, kind| -> Result<Bare, Failed> {
            let mut bare = Bare::create(&path(kind), rows, bare_durability, bytes)?;
            bare.replay(&loaded)?;
            bare.flush()?;
            Ok(bare)
        };
        let bare = [bare(Rows::Same, "same")?, bare(Rows::Plain, "plain")?];
        Ok(Bench { name, engine, recorder, bare })
    }

    async fn measure(&mut self, report: &mut Report, options: &Options, clients: usize) -> Result<(), Failed> {
        let mut works: [Vec<Work>; 3] = Default::default();
        let (mut groups, mut commits) = (0, 0);
        for number in 0..options.runs {
            works[0].push(bed::sets(&self.engine, options, clients, number as u64).await?);
            let recorded = self.recorder.take();
            groups += recorded.len();
            commits += recorded.iter().map(Vec::len).sum::<usize>();
            for (bare, works) in self.bare.iter_mut().zip(&mut works[1..]) {
                works.push(bare.replay(&recorded)?);
            }
            if self.name != "always" {
                // Each pays for its own flushes only.
                tokio::time::sleep(2 * FLUSH_PAUSE).await;
                self.bare.iter().try_for_each(Bare::flush)?;
            }
        }
        let [ours, same, plain] = &works;
        let mut cells =
            vec![self.name.to_owned(), clients.to_string(), format!("{:.1}", commits as f64 / groups as f64)];
        cells.extend([ours, same, plain].map(|works| of(works, Work::per_cpu_second).thousands()));
        cells.extend([same, plain].map(|works| ratio(ours, works, Work::per_cpu_second).plain(2)));
        cells.push([ours, same, plain].map(|works| of(works, Work::throughput).thousands()).join(", "));
        report.row(&cells);
        Ok(())
    }
}

impl Store for Recorder {
    fn caps(&self) -> forebay::store::Caps {
        self.inner.caps()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.record(group);
        self.inner.commit(group)
    }

    fn commit_shared(&self, group: Arc<Vec<Commit>>) -> BoxFuture<'_, Vec<CommitOutcome>> {
        self.record(&group);
        self.inner.commit_shared(group)
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, forebay::error::Unavailable>> {
        self.inner.outcome(id)
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        self.inner.scan(space, after, limit)
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        self.inner.count(space)
    }

    fn clear<'a>(
        &'a self,
        spaces: &'a [u8],
        version: Version,
    ) -> BoxFuture<'a, Result<(), forebay::error::Unavailable>> {
        self.inner.clear(spaces, version)
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        self.inner.expired(now_ms, limit)
    }

    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), forebay::error::Unavailable>> {
        self.inner.flush()
    }
}
