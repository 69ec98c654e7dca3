//! A running server made of the settings: store, cache, engine, listeners; and how it is stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay::cache::CacheOptions;
use forebay::outage::Gate;
use forebay::runtime;
use forebay::store::Store;
use forebay::store::embedded::{Embedded, EmbeddedOptions};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_server::access::Source;
use forebay_server::command::PERMISSIONS;
use forebay_server::graphs::ReadSql;
use forebay_server::shadow::{self, ShadowOptions};
use forebay_server::tls::{Tls, TlsFiles};
use forebay_server::{Access, Http, Reserved, Server, ServerLimits, ServerOptions, Shared};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CommandError;
use crate::settings::OnOutage;
use crate::settings::{Settings, StoreChoice};
use crate::warm::{self, Warm};

/// The part of the memory that goes to the pages of an embedded store: enough for the inner ones. The system keeps the
/// file's pages as well, in memory that nobody else asks for; documents are worth more here.
const PAGE_CACHE_SHARE: u64 = 32;

/// Less is too little for a store of any size, up to a share of a small memory.
const PAGE_CACHE_BYTES_MIN: u64 = 2 << 20;
const PAGE_CACHE_SHARE_MAX: u64 = 8;

/// File descriptors beside those of clients: the store, listeners, HTTP, logs, traces.
const DESCRIPTORS_SPARE: u64 = 128;

/// Longest wait at an orderly end for what was buffered on purpose (`write_back_ms`) to be applied.
const WRITTEN_BACK_MAX: Duration = Duration::from_secs(5);

/// A server that listens and does not serve yet.
pub struct Node {
    /// It serves Redis clients.
    pub server: Server,
    /// It serves browsers and Prometheus.
    http: Option<Http>,
    /// What its sessions share.
    pub shared: Arc<Shared>,
    /// The gate before a database.
    gate: Option<Gate>,
    /// Where the keys are that are cached.
    warm: Option<Arc<Warm>>,
}

/// Threads that wait for the disk, one for so many bytes of the memory: with its stack and the allocator's cache of it
/// each keeps about a quarter of a MiB. What is more than they can do waits its turn.
const BLOCKING_THREAD_MEMORY: u64 = 8 << 20;
/// Which part of the memory strangers may hold, and what they may in any case.
const STRANGERS_SHARE: usize = 16;
const STRANGER_BYTES_MIN: usize = 1 << 20;

const BLOCKING_THREADS: std::ops::RangeInclusive<u64> = 8..=512;

/// The tokio runtime for `threads` threads that serve, of a process that may use `memory` bytes.
pub fn threads(threads: usize, memory: u64) -> Result<tokio::runtime::Runtime, CommandError> {
    let mut builder = match threads {
        // No thread has to be woken and no task moved.
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let blocking = (memory / BLOCKING_THREAD_MEMORY).clamp(*BLOCKING_THREADS.start(), *BLOCKING_THREADS.end());
    builder.worker_threads(threads.max(1)).max_blocking_threads(blocking as usize);
    builder.thread_name("forebay").enable_all().build().map_err(CommandError::Machine)
}

impl Node {
    /// Opens the store and listens. To be called within the runtime of [`threads`].
    pub async fn start(settings: &Settings) -> Result<Node, CommandError> {
        if let Some(folder) = &settings.trace_dir {
            let checked = std::fs::create_dir_all(folder);
            checked.map_err(|error| CommandError::TraceFolder { folder: folder.clone(), error })?;
        }
        raise_descriptors(settings);
        check_graphs(settings)?;
        let warm = warm::open(settings)?;
        // What may refuse the start comes before the store, which is made if it is not there, or taken from its owner.
        let runtime = runtime::tokio::runtime(tokio::runtime::Handle::current());
        let (access, tls) = (open_access(settings)?, open_tls(settings, runtime.now_ms())?);
        let plain = settings.listen.map(Reserved::new).transpose()?;
        let http = settings.http.map(Reserved::http).transpose()?;
        let listen = move || {
            let tls = match tls {
                Some((address, tls)) => Some((address.listening()?, tls)),
                None => None,
            };
            let listening = |address: Option<Reserved>| address.map(Reserved::listening).transpose();
            Ok((listening(plain)?, listening(http)?, tls))
        };
        let (store, gate, (plain, http, tls)) = open_store(settings, &runtime, listen).await?;
        let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        let shadows = settings.shadow_options();
        let shadow_bytes = shadows.as_ref().map_or(0, |shadows| shadows.bytes_max);
        let cache = CacheOptions {
            budget_bytes: memory.saturating_sub(store.memory_bytes() + shadow_bytes),
            partitions: settings.partitions,
            policy: settings.policy.policy,
            policy_values: settings.policy.values.clone(),
        };
        let (owned, has_documents) = (store.caps().owned, store.has_documents());
        let engine = Engine::new(EngineOptions {
            runtime,
            store,
            cache,
            limits: settings.txn,
            on_write: settings.on_write,
            unwatched_after: settings.unwatched_after(),
            history: None,
        });
        engine.start_watching();
        if has_documents {
            engine.start_reaper();
        }
        if !owned {
            engine.start_reloading();
        }
        // Strangers have a small share of the memory, whatever the limit says.
        let share = (memory / STRANGERS_SHARE).max(STRANGER_BYTES_MIN);
        let limits =
            ServerLimits { stranger_bytes_max: settings.server.stranger_bytes_max.min(share), ..settings.server };
        let (threads, trace_dir) = (settings.threads.count(), settings.trace_dir.clone());
        let options = ServerOptions { engine, limits, threads, access, tls, trace_dir, gate: gate.clone() };
        let server = Server::bind(plain, options)?;
        let shared = server.shared();
        follow_transactions(settings, &shared, shadows.as_ref())?;
        // Before the store may go away; if it is away already, the first client that gives an id tries again.
        if let Err(error) = shared.given.load(&**shared.engine.store(), shared.engine.runtime().elapsed()).await {
            tracing::debug!(%error, "ids that clients gave before the start are not known yet");
        }
        let http = http.map(|address| Http::bind(address, &settings.http_hosts, shared.clone())).transpose()?;
        let warm = warm.map(|file| Warm::new(file, settings.warm_every_ms, shared.engine.clone()));
        Ok(Node { server, http, shared, gate, warm })
    }

    /// Serves until it is stopped, then waits until the store has all that it was given.
    pub async fn run(self) -> Result<(), CommandError> {
        if let Some(http) = self.http {
            tokio::spawn(http.run());
        }
        self.warm.iter().for_each(Warm::start);
        self.server.run().await;
        let ended = Node::end(&self.shared, self.gate).await;
        // What was written comes first.
        if let Some(warm) = &self.warm {
            warm.end().await;
        }
        ended
    }

    async fn end(shared: &Shared, gate: Option<Gate>) -> Result<(), CommandError> {
        if let Some(gate) = &gate {
            gate.carry_over(WRITTEN_BACK_MAX).await;
        }
        let flushed = shared.engine.store().flush().await;
        flushed.map_err(|error| CommandError::Failed(format!("{error}; the last writes may be lost")))?;
        match gate {
            Some(gate) => {
                let waiting = gate.state().amount.transactions;
                if waiting > 0 {
                    tracing::warn!(waiting, "writes stay in the journal, and the next run applies them");
                }
                let closed = gate.close().await;
                closed.map_err(|error| CommandError::Failed(format!("{error}; the last writes may be lost")))
            }
            None => Ok(()),
        }
    }

    /// What is served where, and what to try: the last line.
    pub fn banner(&self, settings: &Settings, try_command: &str) -> String {
        let mut text = format!(
            "forebay {}  policy {}  memory {}  store {}{}\n",
            env!("CARGO_PKG_VERSION"),
            settings.policy,
            shown(settings, "memory"),
            self.shared.engine.store().name(),
            match settings.store.is_local() {
                true => format!(" (durability {})", shown(settings, "durability")),
                false => String::new(),
            },
        );
        let password = match self.shared.access.is_open() {
            true => "no password",
            false => "password",
        };
        let reach = |address: SocketAddr| match address.ip().to_canonical().is_loopback() {
            true => "loopback only",
            false => "open to all who can reach it",
        };
        if let Some(address) = self.server.address() {
            text.push_str(&format!("redis    {address}   {password}, {}\n", reach(address)));
        }
        if let Some(address) = self.server.tls_address() {
            let clients = if settings.tls_client_ca.is_some() { ", clients with a certificate" } else { "" };
            text.push_str(&format!("rediss   {address}   {password}, {}{clients}\n", reach(address)));
        }
        if let Some(http) = &self.http {
            text.push_str(&format!("browser  http://{}   /metrics, /healthz, /readyz\n", http.address()));
        }
        let mode = self.gate.as_ref().map(|gate| gate.state()).map_or_else(
            || "normal".to_owned(),
            |state| match state.amount.transactions {
                0 => state.mode.name().to_owned(),
                pending => format!("{} ({pending} writes wait for the database)", state.mode.name()),
            },
        );
        text.push_str(&format!("mode     {mode}\n"));
        let reached = match (self.server.address(), self.server.tls_address()) {
            (Some(address), _) => redis_cli(address),
            (None, Some(address)) => format!("{} --tls", redis_cli(address)),
            (None, None) => String::new(),
        };
        text.push_str(&format!("try      {reached} {try_command}\n"));
        text
    }
}

fn shown(settings: &Settings, name: &str) -> String {
    let setting = crate::settings::SETTINGS.iter().find(|setting| setting.name == name);
    setting.map_or_else(String::new, |setting| setting.show(settings))
}

/// How to reach `address` with redis-cli, which takes 127.0.0.1:6379 by itself.
fn redis_cli(address: SocketAddr) -> String {
    match (address.ip(), address.port()) {
        (ip, port) if ip.is_unspecified() || ip == std::net::Ipv4Addr::LOCALHOST => format!("redis-cli -p {port}"),
        (ip, port) => format!("redis-cli -h {ip} -p {port}"),
    }
}

fn page_cache_bytes(memory: u64) -> u64 {
    (memory / PAGE_CACHE_SHARE).max(PAGE_CACHE_BYTES_MIN.min(memory / PAGE_CACHE_SHARE_MAX))
}

/// The users, unless they would leave open to everyone what everyone can reach.
fn open_access(settings: &Settings) -> Result<Access, CommandError> {
    let source = match (&settings.password_file, &settings.users_file) {
        (Some(file), _) => Source::Password(file.clone()),
        (None, Some(file)) => Source::Users(file.clone()),
        (None, None) => Source::None,
    };
    let setting = if settings.password_file.is_some() { "password-file" } else { "users-file" };
    let access = Access::open(source, &PERMISSIONS).map_err(|error| CommandError::Access { setting, error })?;
    let public = settings.public();
    let Some((setting, address)) = public.first().filter(|_| !settings.allow_public_without_password) else {
        return Ok(access);
    };
    let open = access.all().into_iter().find(|user| user.is_open());
    match (&settings.users_file, open) {
        (Some(file), Some(user)) => {
            let (file, user) = (file.display().to_string(), user.name.to_string());
            Err(CommandError::Open { file, setting, address: *address, user })
        }
        // Nor may what is read later.
        _ => Ok(access.kept_closed()),
    }
}

/// Reads the files that `settings` name as a start reads them, and says what would refuse it. Changes nothing.
pub fn check_files(settings: &Settings, runtime: &runtime::Runtime) -> Result<(), CommandError> {
    check_graphs(settings)?;
    open_access(settings)?;
    read_tls(settings, runtime.now_ms())?;
    if !settings.store.is_local() {
        crate::database::named(settings)?;
    }
    Ok(())
}

/// What reads transaction types in SQL, if this build does.
#[cfg(feature = "lab")]
const SQL: Option<ReadSql> = Some(crate::graph::parse_sql);
#[cfg(not(feature = "lab"))]
const SQL: Option<ReadSql> = None;

/// What hears of transactions beside the policy, and what they look like.
fn follow_transactions(
    settings: &Settings,
    shared: &Arc<Shared>,
    shadows: Option<&ShadowOptions>,
) -> Result<(), CommandError> {
    if settings.measure_thr {
        shared.engine.cache().measure_transactions();
    }
    if let Some(shadows) = shadows {
        shadow::start(shared, shadows);
    }
    if let Some(path) = &settings.graphs {
        let registered = shared.read_graphs(path, SQL).map_err(CommandError::Usage)?;
        tracing::info!(types = registered.new, "read the graphs of transaction types");
    }
    Ok(())
}

fn check_graphs(settings: &Settings) -> Result<(), CommandError> {
    let Some(path) = &settings.graphs else { return Ok(()) };
    let checked = forebay_server::check_graphs(path, SQL, &settings.policy);
    checked.map_err(|why| CommandError::Usage(format!("{why}; check --graphs")))
}

fn open_tls(settings: &Settings, now_ms: u64) -> Result<Option<(Reserved, Arc<Tls>)>, CommandError> {
    let Some((address, tls)) = settings.tls_listen.zip(read_tls(settings, now_ms)?) else { return Ok(None) };
    Ok(Some((Reserved::new(address)?, Arc::new(tls))))
}

fn read_tls(settings: &Settings, now_ms: u64) -> Result<Option<Tls>, CommandError> {
    let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) else { return Ok(None) };
    let client_roots = settings.tls_client_ca.clone();
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_roots };
    Ok(Some(Tls::open(files, now_ms)?))
}

/// The store, and the gate that stands before it where it may go away. `last` is done when nothing else is left that
/// may refuse the start, just before a database is taken from its owner.
async fn open_store<T>(
    settings: &Settings,
    runtime: &runtime::Runtime,
    last: impl FnOnce() -> Result<T, CommandError>,
) -> Result<(Arc<dyn Store>, Option<Gate>, T), CommandError> {
    let path = match &settings.store {
        StoreChoice::Memory => {
            // Clients may keep versions of a life before this one.
            return Ok((Arc::new(Memory::in_incarnation(runtime.now_ms())), None, last()?));
        }
        StoreChoice::Embedded(path) => path,
        StoreChoice::Database(_) => {
            return match settings.on_outage {
                OnOutage::Refuse => {
                    crate::gate::nothing_is_left(settings, runtime).await?;
                    let ready = crate::database::prepare(settings, Default::default()).await?;
                    let last = last()?;
                    Ok((ready.take().await?, None, last))
                }
                OnOutage::Buffer => {
                    let (gate, last) = crate::gate::open(settings, runtime, last).await?;
                    Ok((Arc::new(gate.clone()), Some(gate), last))
                }
            };
        }
    };
    let page_cache_bytes = usize::try_from(page_cache_bytes(settings.memory)).unwrap_or(usize::MAX);
    let options = EmbeddedOptions { durability: settings.durability.flush(settings.sync_ms), page_cache_bytes };
    Ok((Arc::new(Embedded::open(runtime.clone(), path, options)?), None, last()?))
}

/// Files that a server with these settings may have open.
pub fn descriptors(settings: &Settings) -> u64 {
    (settings.server.clients_max as u64).saturating_add(DESCRIPTORS_SPARE)
}

/// Asks the machine for as many open files as `clients_max` clients may need. Getting fewer is not fatal: the listener
/// then refuses clients, and says so.
fn raise_descriptors(settings: &Settings) {
    let wanted = descriptors(settings);
    match rlimit::increase_nofile_limit(wanted) {
        Ok(got) if got < wanted => {
            tracing::warn!(open_files = got, wanted, "clients_max is more than this user may open: raise ulimit -n");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "can't raise the limit of open files"),
    }
}

/// The signal that asks the process to read its files again.
pub fn reload_signal() -> Result<Signal, CommandError> {
    signal(SignalKind::hangup()).map_err(CommandError::Machine)
}

/// The signals that ask the process to stop.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on they no longer end the process by themselves.
    pub fn new() -> Result<StopSignals, CommandError> {
        let listen = |kind| signal(kind).map_err(CommandError::Machine);
        Ok(StopSignals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}
