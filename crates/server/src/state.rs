//! What all sessions of a server share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use forebay::outage::Gate;
use forebay::txn::Engine;

use crate::access::Access;
use crate::attention::Attention;
use crate::clients::Clients;
use crate::command::{self, Table};
use crate::given::Given;
use crate::graphs::{Graphs, ReadSql};
use crate::labels::Labels;
use crate::leases::Leases;
use crate::limits::ServerLimits;
use crate::listener::Reserved;
use crate::monitor::Monitors;
use crate::outage::Modes;
use crate::pause::Pause;
use crate::recorder::Recorder;
#[cfg(feature = "lua")]
use crate::script::Scripts;
use crate::settings::Settings;
use crate::shadow::Shadows;
use crate::slowlog::{Latency, Slowlog};
pub use crate::stop::Stop;
use crate::tracking::Trackers;
use crate::{cursors::Cursors, strangers::Strangers, tally::Tally, tls::Tls, walks::Walks};

/// What a server is made with.
pub struct ServerOptions {
    /// Cache, transactions and store.
    pub engine: Engine,
    /// Limits that hold for this server.
    pub limits: ServerLimits,
    /// Threads that serve, for INFO.
    pub threads: usize,
    /// Who may come in.
    pub access: Access,
    /// Where TLS is served, and with what.
    pub tls: Option<(Reserved, Arc<Tls>)>,
    /// Where CACHE TRACE writes its files; without it CACHE TRACE is refused.
    pub trace_dir: Option<PathBuf>,
    /// The engine's store, if it buffers what is written while the database behind it is away.
    pub gate: Option<Gate>,
}

impl ServerOptions {
    /// The defaults around `engine`: one thread, no traces, no passwords.
    pub fn new(engine: Engine) -> ServerOptions {
        ServerOptions {
            engine,
            limits: ServerLimits::default(),
            threads: 1,
            access: Access::default(),
            tls: None,
            trace_dir: None,
            gate: None,
        }
    }
}

/// What all sessions of a server share.
pub struct Shared {
    /// Cache, transactions and store.
    pub engine: Engine,
    /// The engine's store, if it buffers what is written while the database behind it is away.
    pub gate: Option<Gate>,
    /// The commands by name.
    pub table: Table,
    /// Limits that hold for this server.
    pub limits: ServerLimits,
    /// Who may come in.
    pub access: Access,
    /// Connected clients.
    pub clients: Clients,
    /// What those of them hold that have not authenticated.
    pub strangers: Strangers,
    /// For large requests of the others that are not complete, and for replies that wait.
    pub(crate) room: crate::room::Room,
    pub(crate) crowd: crate::crowd::Crowd,
    /// Names of transaction types and vertices.
    pub labels: Labels,
    /// What transaction types look like.
    pub graphs: Graphs,
    /// Figures of the server.
    pub figures: Figures,
    /// Threads that serve.
    pub threads: usize,
    /// Wall clock at the start, ms since the Unix epoch.
    pub started_ms: u64,
    /// Set once, when the server is to stop.
    pub stopping: Stop,
    /// The address that it listens on, once it does.
    pub address: OnceLock<SocketAddr>,
    /// What TLS is served with, if it is.
    pub tls: OnceLock<Arc<Tls>>,
    /// What commands have to look out for.
    pub attention: Attention,
    /// What CONFIG SET can change.
    pub settings: Settings,
    /// Figures of each command.
    pub tally: Tally,
    /// MONITOR.
    pub monitors: Monitors,
    /// SLOWLOG.
    pub slowlog: Slowlog,
    /// LATENCY.
    pub latency: Latency,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Where SCANs stand.
    pub cursors: Cursors,
    /// KEYS and large SCANs, of which one runs at a time.
    pub walks: Walks,
    /// Where graphs of transaction types are read from, if they are.
    pub graphs_path: OnceLock<(PathBuf, Option<ReadSql>)>,
    /// CACHE TRACE.
    pub recorder: Arc<Recorder>,
    /// CACHE ADVISE.
    pub shadows: Shadows,
    /// LEASE.
    pub leases: Arc<Leases>,
    /// CLIENT TRACKING.
    pub trackers: Arc<Trackers>,
    /// CACHE NOTIFY.
    pub modes: Arc<Modes>,
    /// TXN BEGIN ID.
    pub given: Arc<Given>,
    /// EVAL and its kind.
    #[cfg(feature = "lua")]
    pub scripts: Scripts,
}

/// Figures of a server, counted since its start or since CONFIG RESETSTAT. Those of commands are in [`Tally`].
#[derive(Default)]
pub struct Figures {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused for want of room.
    pub connections_refused: AtomicU64,
    /// Connections closed because they had not authenticated: in time, or before others wanted their room.
    pub strangers_closed: AtomicU64,
    /// Interactive transactions open now.
    pub transactions_open: AtomicUsize,
    /// Bytes of replies that wait for clients now.
    pub reply_bytes: AtomicUsize,
    /// Bytes that unfinished requests, MULTI and TXN of clients with more than a little of them hold now.
    pub held_bytes: AtomicUsize,
    /// Requests that came while the store was away.
    pub away_requests: AtomicU64,
    /// Those of them that were answered with an error.
    pub away_errors: AtomicU64,
    /// Reads that were answered all the same.
    pub away_reads: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
}

impl Figures {
    /// Counts what was served while the store was away.
    pub fn count_away(&self, requests: usize, reads: u64, errors: u64) {
        let counts = [(&self.away_requests, requests as u64), (&self.away_reads, reads), (&self.away_errors, errors)];
        counts.into_iter().for_each(|(figure, more)| _ = figure.fetch_add(more, Ordering::Relaxed));
    }

    /// Sets what is counted back to zero; what is there now stays.
    pub fn reset(&self) {
        let connections = [&self.connections, &self.connections_refused, &self.strangers_closed];
        let away = [&self.away_requests, &self.away_errors, &self.away_reads];
        for figure in connections.into_iter().chain(away).chain([&self.bytes_in, &self.bytes_out]) {
            figure.store(0, Ordering::Relaxed);
        }
    }
}

impl Shared {
    /// The state of a server that has not served yet.
    pub fn new(options: ServerOptions) -> Shared {
        let (modes, given) = (Arc::new(Modes::default()), Arc::new(Given::default()));
        if let Some(gate) = &options.gate {
            modes.follow(gate, options.engine.runtime());
            given.restore(gate.given_ids(), options.engine.runtime().elapsed());
        }
        let (cache, runtime) = (options.engine.cache().clone(), options.engine.runtime().clone());
        let trackers = Arc::new(Trackers::new(&options.limits, &cache));
        let leases = Arc::new(Leases::new(options.limits.lease_rates_max, runtime, cache.clone()));
        // They hold the cache, which must not hold them.
        let told = (Arc::downgrade(&trackers), Arc::downgrade(&leases));
        // Each write calls this. Without trackers and leases it counts no reference.
        let (tracked, counted) = (trackers.any(), leases.counts());
        cache.tell_changes(move |changed| {
            if tracked.load(Ordering::SeqCst)
                && let Some(trackers) = told.0.upgrade()
            {
                trackers.changed(changed);
            }
            if counted.load(Ordering::Relaxed)
                && let Some(leases) = told.1.upgrade()
            {
                leases.changed(changed);
            }
        });
        Shared {
            #[cfg(feature = "lua")]
            scripts: Scripts::new(&options.limits),
            leases,
            trackers,
            labels: Labels::beside(options.engine.cache().clone()),
            started_ms: options.engine.runtime().now_ms(),
            engine: options.engine,
            gate: options.gate,
            table: Table::default(),
            limits: options.limits,
            access: options.access,
            clients: Clients::default(),
            strangers: Strangers::default(),
            room: Default::default(),
            crowd: Default::default(),
            graphs: Graphs::default(),
            figures: Figures::default(),
            threads: options.threads,
            stopping: Stop::default(),
            address: OnceLock::new(),
            tls: OnceLock::new(),
            attention: Attention::default(),
            settings: Settings::default(),
            tally: Tally::new(command::all().count()),
            monitors: Monitors::default(),
            slowlog: Slowlog::default(),
            latency: Latency::default(),
            pause: Pause::default(),
            cursors: Cursors::default(),
            walks: Walks::default(),
            graphs_path: OnceLock::new(),
            recorder: Arc::new(Recorder::new(options.trace_dir)),
            shadows: Shadows::default(),
            modes,
            given,
        }
    }
}
