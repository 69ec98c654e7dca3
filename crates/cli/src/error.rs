//! How a command ends if not well: one line on stderr, and an exit code that scripts can tell apart.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use forebay::store::embedded::OpenError;
use forebay_server::ServeError;
use forebay_server::access::AccessError;
use forebay_server::tls::TlsError;
use thiserror::Error;

use crate::settings::SettingsError;

/// Why a command did not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The command belongs to a cargo feature that this build lacks.
    #[error("this build has the demo's features only, and `{0}` is not among them; `make build` builds all")]
    LeftOut(String),
    /// Settings that can't be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store can't be opened.
    #[error("{0}")]
    Store(#[from] OpenError),
    /// The database can't be opened.
    #[error("{0}")]
    Database(#[from] forebay_drivers::OpenError),
    /// The journal can't be opened.
    #[error("{0}")]
    Journal(#[from] forebay::outage::OpenError),
    /// The journal's folder can't be used.
    #[error("can't use {folder} as the journal's folder: {error}; check --journal", folder = folder.display())]
    JournalFolder {
        /// Which folder.
        folder: PathBuf,
        /// What the machine says.
        error: std::io::Error,
    },
    /// Writes wait that mean something else under these mappings.
    #[error(
        "{pending} writes in the journal {journal} wait for the database under another mapping; start with the one \
         they were made under and let them be applied (CACHE STATE), then change it. A table that is gone does \
         not keep forebay from starting: its writes are set aside, and CACHE QUARANTINE DROP gives them up. The \
         mapping was:\n{mapping}",
        journal = journal.display()
    )]
    OtherMapping {
        /// Which journal.
        journal: PathBuf,
        /// How many.
        pending: u64,
        /// The mapping that they were made under.
        mapping: String,
    },
    /// Writes wait in the journal, and the start would not look there.
    #[error(
        "{pending} acknowledged writes wait in the journal {journal}, which --on-outage refuse does not use: start \
         with --on-outage buffer, and let them be applied (CACHE STATE) or give them up (CACHE QUARANTINE DROP)",
        journal = journal.display()
    )]
    LeftBehind {
        /// Which journal.
        journal: PathBuf,
        /// How many.
        pending: u64,
    },
    /// Writes wait for tables that the mappings do not fit.
    #[error(
        "{why}; and {pending} writes in the journal {journal} wait for the database: mend the tables (one of the same \
         name and columns will do), start, let what can go be applied, and give up the rest with CACHE QUARANTINE \
         DROP; then change mapping and tables",
        journal = journal.display()
    )]
    TablesChanged {
        /// Which journal.
        journal: PathBuf,
        /// How many.
        pending: u64,
        /// What the driver says.
        why: String,
    },
    /// A database of which nothing is known.
    #[error(
        "{why}; and with the journal {journal} it was never reached before, so --start-in-failed has nothing to go on: \
         start once while it is up",
        journal = journal.display()
    )]
    NeverReached {
        /// Which journal.
        journal: PathBuf,
        /// What the driver says.
        why: String,
    },
    /// The password for the database can't be read.
    #[error(
        "can't read the password for the database: {file}: {error}; check --store-password-file",
        file = file.display()
    )]
    StorePassword {
        /// Which file.
        file: PathBuf,
        /// What the machine says.
        error: std::io::Error,
    },
    /// An address can't be listened on.
    #[error("{0}")]
    Listen(#[from] ServeError),
    /// The users can't be read.
    #[error("{error}; check --{setting}")]
    Access {
        /// The setting that names their file.
        setting: &'static str,
        /// What is wrong.
        error: AccessError,
    },
    /// TLS can't be served.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The file lets everyone in.
    #[error(
        "{file} lets everyone in who can reach --{setting} {address}: it has a user without a password who is on; turn \
         it off or give it a password ({user})"
    )]
    Open {
        /// The file with users.
        file: String,
        /// Which setting names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The user.
        user: String,
    },
    /// A password can't be read or hashed.
    #[error("{0}; type it again, or send it alone to standard input")]
    Password(String),
    /// No folder for traces.
    #[error(
        "can't use the folder {folder} for traces: {error}; make it first, or choose another with --trace-dir",
        folder = folder.display()
    )]
    TraceFolder {
        /// Which folder.
        folder: PathBuf,
        /// What the machine says.
        error: std::io::Error,
    },
    /// What is cached can't be written.
    #[error("can't use {file} as the warm file: {error}; check --warm-file", file = file.display())]
    WarmFile {
        /// Which file.
        file: PathBuf,
        /// What the machine says.
        error: std::io::Error,
    },
    /// The demo has no room on the disk.
    #[error("can't make a temporary folder: {0}; set TMPDIR to a folder that can be written")]
    TemporaryFolder(std::io::Error),
    /// The machine gives no threads or signals.
    #[error("can't start: {0}; raise this user's limit of processes (ulimit -u)")]
    Machine(std::io::Error),
    /// What was typed can't be done.
    #[error("{0}")]
    Usage(String),
    /// Something failed after the start.
    #[error("{0}")]
    Failed(String),
}

impl CommandError {
    /// 2: refused at the start, nothing was done, change what the line says. 1: failed on the way.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            CommandError::Failed(_) => ExitCode::from(1),
            _ => ExitCode::from(2),
        }
    }
}
