//! What a server is made with, and its state before it serves.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use forebay::outage::Gate;
use forebay::txn::Engine;

use crate::access::Access;
use crate::attention::Attention;
use crate::clients::Clients;
use crate::command::{self, PERMISSIONS};
use crate::given::Given;
use crate::graphs::Graphs;
use crate::labels::Labels;
use crate::leases::Leases;
use crate::limits::ServerLimits;
use crate::monitor::Monitors;
use crate::outage::Modes;
use crate::pause::Pause;
use crate::recorder::Recorder;
use crate::reserved::Reserved;
#[cfg(feature = "lua")]
use crate::script::Scripts;
use crate::settings::Settings;
use crate::shadow::Shadows;
use crate::slowlog::{Latency, Slowlog};
use crate::state::{Figures, Shared};
use crate::stop::Stop;
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
            access: Access::unprotected(&PERMISSIONS),
            tls: None,
            trace_dir: None,
            gate: None,
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
            table: command::table(),
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
