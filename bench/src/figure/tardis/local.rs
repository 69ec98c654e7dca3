//! The server in this process, for the one knob that the program does not show: how many transactions a batch may have.

use std::sync::Arc;
use std::time::Duration;

use forebay::cache::CacheOptions;
use forebay::outage::{Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, RealFolder};
use forebay::policy::choose;
use forebay::store::embedded::Durability;
use forebay::txn::{Engine, EngineOptions, OnWrite, TxnLimits};
use forebay_drivers::Options;
use forebay_drivers::postgres::Postgres;
use forebay_server::{Reserved, Server, ServerOptions};
use tokio::runtime::Runtime;

use super::site::{Base, FIRST_LOOK};
use crate::figure::Failed;

/// A server with its threads.
pub(super) struct Local {
    /// Where it listens.
    pub address: String,
    runtime: Option<Runtime>,
    _folder: tempfile::TempDir,
}

impl Local {
    /// Serves `base`, applying in batches of `batch_max` on `workers` connections, without a rate limit.
    pub fn start(base: &Base, workers: usize, batch_max: usize) -> Result<Local, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal");
        let settings =
            GateSettings { workers, batch_max, per_second_max: 0, bytes_max: 1 << 30, ..GateSettings::default() };
        let server = runtime.block_on(serve(base, path, settings))?;
        let address = server.address().ok_or("it listens nowhere")?.to_string();
        runtime.spawn(server.run());
        std::thread::sleep(FIRST_LOOK);
        Ok(Local { address, runtime: Some(runtime), _folder: folder })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(base: &Base, journal: std::path::PathBuf, settings: GateSettings) -> Result<Server, Failed> {
    let runtime = forebay::runtime::tokio::runtime(tokio::runtime::Handle::current());
    let mappings = base.maps.iter().map(|map| map.parse()).collect::<Result<_, String>>()?;
    let options = Options {
        mappings,
        // A machine that is busy must not be taken for a database that hangs.
        timeout: Duration::from_secs(5),
        ..Options::new(base.url.parse()?)
    };
    let store = Arc::new(Postgres::open(options).await?);
    let mapping = base.maps.join("\n");
    let description = Description { mapping: mapping.clone(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 2 << 30, description };
    let (journal, found) = Journal::open(runtime.clone(), Arc::new(RealFolder::new(journal)?), options)?;
    let options = GateOptions { runtime: runtime.clone(), store, journal, found, settings, mapping, opens_late: false };
    let gate = Gate::open(options)?;
    let policy = choose("s3-fifo")?;
    let cache =
        CacheOptions { budget_bytes: 1 << 30, partitions: 16, policy: policy.policy, policy_values: policy.values };
    let limits = TxnLimits::default();
    let store = Arc::new(gate.clone());
    let engine = Engine::new(EngineOptions {
        runtime,
        store,
        cache,
        limits,
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    });
    engine.start_watching();
    let options = ServerOptions { gate: Some(gate), ..ServerOptions::new(engine) };
    Ok(Server::bind(Some(Reserved::new("127.0.0.1:0".parse()?)?), options)?)
}
