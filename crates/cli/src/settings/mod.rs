//! The settings, each declared once, in [`SETTINGS`]. A record gives the flag (`--name`), the name in the environment
//! (`FOREBAY_NAME`), the key in the configuration file, and the help text. [`names`] has the second names of a few.
//! `forebay config` and `docs/configuration.md` are made from the records, too. Defaults stand in
//! [`Settings::default`] alone.
//!
//! A setting goes two steps: [`Typed`] is what was typed, and where; [`Settings`] is what it means, all of it checked.

mod choices;
mod document;
mod error;
mod form;
mod form_of;
mod keys;
mod literal;
mod map;
mod names;
mod number;
mod shadows;
mod shares;
mod store;
mod typed;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use forebay::outage::{BreakerSettings, OnConflict};
use forebay::policy::{Choice, choose};
use forebay::txn::{OnWrite, TxnLimits};
use forebay_server::ServerLimits;

pub use choices::{Drain, Durability, LogFormat, LogLevel, OnOutage, StoreChoice, Threads, UnwatchedMs};
pub use error::SettingsError;
use form::OutsideWord;
use form::{
    AddressOrOff, DrainWord, DurabilityWord, FileOrOff, FilesOrOff, Folder, FolderOrOff, Form, Hosts, LogFormatWord,
    LogLevelWord, OnConflictWord, OnOutageWord, OnWriteWord, PolicyName, PolicyNames, StaleMs, Store, Switch,
    ThreadCount, UnwatchedWord,
};
use form_of::FormOf;
use keys::KeysWord;
use map::Maps;
pub use names::{is_like, misspelt};
use number::{Arguments, AtATime, Bytes, Count, CountOrZero, Ms, MsOrZero, Partitions, RequestBytes};
#[cfg(feature = "lab")]
pub use number::{PARTITIONS_MAX, THREADS_MAX};
use shadows::ShadowSettings;
pub use typed::{Origin, Typed, arguments};

use crate::secret;

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

/// A heading under which settings stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Addresses and threads.
    Serving,
    /// Passwords, users and TLS.
    Access,
    /// The store.
    Store,
    /// What happens while the store is away.
    Outage,
    /// Cache and policy.
    Cache,
    /// Logs and traces.
    Watching,
    /// Limits.
    Limits,
}

/// The headings in the order in which they are shown.
pub const GROUPS: [Group; 7] =
    [Group::Serving, Group::Access, Group::Store, Group::Outage, Group::Cache, Group::Watching, Group::Limits];

impl Group {
    /// Its text.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Serving => "Serving",
            Group::Access => "Who may come in",
            Group::Store => "Store",
            Group::Outage => "While the database is down",
            Group::Cache => "Cache",
            Group::Watching => "Logs and traces",
            Group::Limits => "Limits",
        }
    }
}

/// One setting, declared once.
pub struct Setting {
    /// Flag without its dashes, and key in the file.
    pub name: &'static str,
    /// Where it stands in help texts.
    pub group: Group,
    /// What stands for the value in help texts.
    pub value: &'static str,
    /// What it does.
    summary: &'static str,
    /// What may be given, if the summary does not say.
    choices: fn() -> String,
    /// Reads the text as typed.
    read: fn(&mut Settings, &str) -> Result<(), String>,
    /// The text that reads back as the value.
    show: fn(&Settings) -> String,
}

impl Setting {
    /// What it does and what may be given.
    pub fn help(&self) -> String {
        match ((self.choices)(), shares::share_of(self.name)) {
            (_, Some(share)) => format!("{}; by default {}", self.summary, share.text()),
            (none, None) if none.is_empty() => self.summary.into(),
            (choices, None) => format!("{}: {choices}", self.summary),
        }
    }

    /// Its default as text.
    pub fn default_text(&self) -> String {
        (self.show)(&Settings::default())
    }

    /// Its value in `settings` as text.
    pub fn show(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// Whether it is a flag that needs no value.
    pub fn is_switch(&self) -> bool {
        self.value == <Switch as Form<bool>>::VALUE
    }
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
            stale_on_outage_ms_max: form::STALE_MS,
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

macro_rules! setting {
    ($group:ident, $name:literal, $form:ident, $($field:ident).+, $summary:literal) => {
        Setting {
            name: $name,
            group: Group::$group,
            value: <$form as FormOf>::VALUE,
            summary: $summary,
            choices: <$form as FormOf>::choices,
            read: |settings, text| {
                settings.$($field).+ = $form::read(text)?;
                Ok(())
            },
            show: |settings| $form::show(&settings.$($field).+),
        }
    };
}

mod table;

pub use table::SETTINGS;

impl Settings {
    /// Reads what was typed and checks it: each setting by itself, then together.
    pub fn validate(typed: &Typed) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        // Where it can't be read that is said below, in its turn.
        if let Some((setting, text, _)) = typed.given().find(|(setting, ..)| setting.name == "memory")
            && (setting.read)(&mut settings, text).is_ok()
        {
            settings.share_memory();
        }
        for (setting, text, origin) in typed.given() {
            (setting.read)(&mut settings, text).map_err(|why| SettingsError::Value {
                place: origin.place(setting),
                text: secret::hidden(text),
                why,
            })?;
        }
        settings.check(typed)?;
        Ok(settings)
    }

    /// How long what is cached of a table that nothing watches is believed; `None`: as long as it is cached.
    pub fn unwatched_after(&self) -> Option<std::time::Duration> {
        let watches = choices::watches(self);
        let ms = match self.unwatched_ms {
            UnwatchedMs::After(ms) => ms,
            UnwatchedMs::Auto if watches => choices::UNWATCHED_MS,
            UnwatchedMs::Auto | UnwatchedMs::Off => return None,
        };
        Some(std::time::Duration::from_millis(ms))
    }

    /// The addresses that others can reach, and their settings.
    pub fn public(&self) -> Vec<(&'static str, SocketAddr)> {
        let addresses = [("listen", self.listen), ("tls-listen", self.tls_listen), ("http", self.http)];
        let given = addresses.into_iter().filter_map(|(name, address)| Some((name, address?)));
        given.filter(|(_, address)| !address.ip().to_canonical().is_loopback()).collect()
    }

    fn check_tls(&self, wrong: &dyn Fn(&str, String) -> Result<(), SettingsError>) -> Result<(), SettingsError> {
        let files = [("tls-cert", &self.tls_cert), ("tls-key", &self.tls_key), ("tls-client-ca", &self.tls_client_ca)];
        match self.tls_listen {
            Some(_) if self.tls_cert.is_none() || self.tls_key.is_none() => {
                wrong("tls-listen", "that needs a certificate and its key; give --tls-cert and --tls-key".into())
            }
            Some(_) => Ok(()),
            None => match files.iter().find(|(_, file)| file.is_some()) {
                Some((name, _)) => wrong(name, "it is of no use without --tls-listen; give an address".into()),
                None => Ok(()),
            },
        }
    }

    fn check(&self, typed: &Typed) -> Result<(), SettingsError> {
        let wrong = |name: &str, why: String| {
            let (setting, text, origin) = typed.of(name);
            Err(SettingsError::Value { place: origin.place(setting), text: secret::hidden(&text), why })
        };
        if self.listen.is_none() && self.tls_listen.is_none() {
            return wrong("listen", "nothing is left to listen on; give an address, or --tls-listen".into());
        }
        if self.password_file.is_some() && self.users_file.is_some() {
            let why = "there is a users file too; its user `default` says which password that has: give one of the two";
            return wrong("password-file", why.into());
        }
        self.check_tls(&wrong)?;
        if let Some((name, address)) = self.public().first()
            && !self.allow_public_without_password
            && self.password_file.is_none()
            && self.users_file.is_none()
        {
            let local = format!("use 127.0.0.1:{}", address.port());
            let help = match *name {
                // A password is for Redis clients: with one the figures would be as open as without.
                "http" => format!("{local}, and before it a proxy that asks for a password"),
                _ => format!("run `forebay password > FILE` and add --password-file FILE, or {local}"),
            };
            return wrong(name, format!("others can reach this address, and it asks for no password; {help}"));
        }
        if self.memory < MEMORY_BYTES_MIN {
            return wrong("memory", format!("give at least {}", Bytes::show(&MEMORY_BYTES_MIN)));
        }
        if let Some(why) = self.too_many_partitions() {
            return wrong("partitions", why);
        }
        self.shadows.wrong(self.memory, &self.policy).map_or(Ok(()), |(name, why)| wrong(name, why))?;
        store::check(self, &wrong)?;
        if self.breaker.pause_ms > self.breaker.pause_ms_max {
            let most = self.breaker.pause_ms_max;
            return wrong("breaker-pause-ms", format!("that is above breaker-pause-ms-max, which is {most}"));
        }
        if self.txn.lock_wait_ms_min > self.txn.lock_wait_ms_max {
            let most = self.txn.lock_wait_ms_max;
            return wrong("lock-wait-ms-min", format!("that is above lock-wait-ms-max, which is {most}"));
        }
        if self.txn.txn_yield_ms >= self.txn.lock_wait_ms_min {
            let least = self.txn.lock_wait_ms_min;
            let why = "that is not below lock-wait-ms-min, which is";
            return wrong("txn-yield-ms", format!("{why} {least}; lower it, or raise --lock-wait-ms-min and -max"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_default_reads_back_as_itself() {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            let text = setting.default_text();
            assert_eq!((setting.read)(&mut settings, &text), Ok(()), "{}", setting.name);
            assert_eq!(setting.show(&settings), text, "{}", setting.name);
        }
        assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    }

    #[test]
    fn names_are_unique_and_help_says_something() {
        let mut names = HashSet::from(["config", "seconds", "help", "version"]);
        for setting in SETTINGS {
            assert!(names.insert(setting.name), "{} stands twice", setting.name);
            assert!(setting.help().len() > 15, "{}", setting.name);
        }
    }

    #[test]
    fn every_number_has_a_range_and_its_error_says_it() {
        let numbers = SETTINGS.iter().filter(|setting| setting.value.starts_with('N') || setting.value == "SIZE");
        for setting in numbers.filter(|setting| !setting.value.starts_with("NAME")) {
            for wrong in ["18446744073709551615", "-1", "99999999999999999999999", "1e9", ""] {
                let why = (setting.read)(&mut Settings::default(), wrong).expect_err(setting.name);
                assert!(why.starts_with("give ") && why.contains(" to "), "{}: {why}", setting.name);
            }
        }
    }

    /// A limit that is added to the server or to transactions must be added here.
    #[test]
    fn every_limit_is_a_setting() {
        for word in format!("{:?} {:?}", ServerLimits::default(), TxnLimits::default()).split([' ', '{', '}', ',']) {
            // `authenticated` is what a connection is, not what an operator sets.
            let Some(field) = word.strip_suffix(':').filter(|field| !["request", "authenticated"].contains(field))
            else {
                continue;
            };
            let name = field.replace('_', "-");
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "no setting for the limit {field}");
        }
    }
}
