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
use crate::command::Table;
use crate::given::Given;
use crate::graphs::{Graphs, ReadSql};
use crate::labels::Labels;
use crate::leases::Leases;
use crate::limits::ServerLimits;
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
