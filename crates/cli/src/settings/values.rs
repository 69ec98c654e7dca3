//! What all settings mean together, with their defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use forebay::outage::{BreakerSettings, OnConflict};
use forebay::policy::{Choice, choose};
use forebay::txn::{OnWrite, TxnLimits};
use forebay_server::ServerLimits;

use super::choices::{Drain, Durability, LogFormat, LogLevel, OnOutage, StoreChoice, Threads, UnwatchedMs};
use super::forms;
use super::shadows::ShadowSettings;

/// The smallest `--memory`: below it the store's page cache and the policies' tables leave no room for entries.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// All settings, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where Redis clients connect.
    pub listen: Option<SocketAddr>,
    /// Where browsers and Prometheus connect.
    pub http: Option<SocketAddr>,
    /// Names by which browsers may ask for it.
    pub http_hosts: Vec<String>,
    /// A file with the hash of the password.
    pub password_file: Option<PathBuf>,
    /// A file with users.
    pub users_file: Option<PathBuf>,
    /// Where Redis clients connect with TLS.
    pub tls_listen: Option<SocketAddr>,
    /// The server's certificate.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Roots of clients' certificates.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether to serve addresses that others can reach to whoever comes.
    pub allow_public_without_password: bool,
    /// Threads that serve.
    pub threads: Threads,
    /// Where the truth lives.
    pub store: StoreChoice,
    /// Most time that one call to a database may take, in ms.
    pub store_timeout_ms: u64,
    /// Commits to a database at a time.
    pub store_writers: usize,
    /// Bytes of a row of a mapped table, at most.
    pub row_bytes_max: usize,
    /// A file with the password for a database.
    pub store_password_file: Option<PathBuf>,
    /// Which keys are rows of which tables.
    pub maps: Vec<forebay_drivers::Mapping>,
    /// Which other keys are documents beside them.
    pub keys: Vec<forebay_drivers::Keys>,
    /// How what other programs write is seen.
    pub outside: forebay_drivers::OutsideBy,
    /// Pause between two looks at what other programs have written, in ms.
    pub outside_ms: u64,
    /// How long what is cached of a table that nothing watches is believed.
    pub unwatched_ms: UnwatchedMs,
    /// When a commit is safe on disk.
    pub durability: Durability,
    /// Time of acknowledged commits that a crash may cost with `interval`, in ms.
    pub sync_ms: u64,
    /// What becomes of writes while the database is down.
    pub on_outage: OnOutage,
    /// Where they are kept.
    pub journal: PathBuf,
    /// Room for them, in bytes.
    pub outage_bytes_max: u64,
    /// When a database counts as down.
    pub breaker: BreakerSettings,
    /// In which order what was kept is applied.
    pub drain: Drain,
    /// Batches on their way to the database at a time.
    pub drain_workers: usize,
    /// Transactions that are applied per second at most; 0: no limit.
    pub drain_per_second_max: u64,
    /// What becomes of those that read what others have changed since.
    pub on_conflict: OnConflict,
    /// What becomes of the cached copy of what is written.
    pub on_write: OnWrite,
    /// How long what is cached is served while the database is down, in ms.
    pub stale_on_outage_ms_max: u64,
    /// Every write is kept at first, and applied when it is this old, in ms; 0: only while the database is down.
    pub write_back_ms: u64,
    /// Whether to start although the database can't be reached.
    pub start_in_failed: bool,
    /// Bytes for cache and store together.
    pub memory: u64,
    /// What decides which entries stay.
    pub policy: Choice,
    /// Parts of the cache, each with a lock and an order of its own.
    pub partitions: usize,
    /// Graphs of transaction types.
    pub graphs: Option<PathBuf>,
    /// Whether transactional hits are counted whatever the policy.
    pub measure_thr: bool,
    /// Policies to compare with the one that decides.
    pub shadows: ShadowSettings,
    /// Where the keys are that are cached.
    pub warm_file: Option<PathBuf>,
    /// How often they are written there, in ms.
    pub warm_every_ms: u64,
    /// Where recorded traces go.
    pub trace_dir: Option<PathBuf>,
    /// How log lines look.
    pub log: LogFormat,
    /// The least important log lines shown.
    pub log_level: LogLevel,
    /// Limits of the server.
    pub server: ServerLimits,
    /// Limits of transactions.
    pub txn: TxnLimits,
}

impl Default for Settings {
    fn default() -> Settings {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut settings = Settings {
            listen: Some(local(6379)),
            http: Some(local(7379)),
            http_hosts: Vec::new(),
            password_file: None,
            users_file: None,
            tls_listen: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            allow_public_without_password: false,
            threads: Threads::Cores,
            // In the folder where it is started, as databases in one file do: visible, and easy to remove.
            store: StoreChoice::Embedded("forebay.redb".into()),
            store_timeout_ms: 300,
            store_writers: 16,
            row_bytes_max: 8 << 20,
            store_password_file: None,
            maps: Vec::new(),
            keys: Vec::new(),
            outside: Default::default(),
            outside_ms: 50,
            unwatched_ms: Default::default(),
            durability: Durability::Always,
            sync_ms: 1000,
            on_outage: OnOutage::Buffer,
            journal: "forebay.journal".into(),
            outage_bytes_max: 64 << 20,
            breaker: BreakerSettings::default(),
            drain: Drain::Lanes,
            drain_workers: 4,
            drain_per_second_max: 5_000,
            on_conflict: OnConflict::Quarantine,
            on_write: OnWrite::Update,
            stale_on_outage_ms_max: forms::STALE_MS,
            write_back_ms: 0,
            start_in_failed: false,
            memory: 256 << 20,
            policy: choose("s3-fifo").expect("the default policy is in the table"),
            partitions: 16,
            graphs: None,
            measure_thr: false,
            shadows: ShadowSettings::default(),
            warm_file: None,
            warm_every_ms: 300_000,
            trace_dir: None,
            log: LogFormat::Text,
            log_level: LogLevel::Info,
            server: ServerLimits::default(),
            txn: TxnLimits::default(),
        };
        settings.share_memory();
        settings
    }
}
