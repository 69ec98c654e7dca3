//! The driver over real files, which other connections write too.

mod files;
mod groups;
mod opening;
mod outside;
mod random;
mod rows;
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use forebay::store::{Commit, CommitOutcome, Store, Write, suite as contract};
use forebay::{Change, Key, TxnId, Value, Version};
use forebay_drivers::sqlite::Sqlite;
use forebay_drivers::{OpenError, Options};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Time for one call, where the machine may be busy and nothing is to fail.
const PATIENT: Duration = Duration::from_secs(20);

/// A folder with a file, and a runtime for the driver's tasks.
struct Place {
    folder: TempDir,
    runtime: Runtime,
}

impl Place {
    fn new() -> Place {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Place { folder: tempfile::tempdir().expect("a folder"), runtime }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn options(&self) -> Options {
        let address = format!("sqlite:{}", self.path().display()).parse().expect("an address");
        Options { timeout: PATIENT, ..Options::new(address) }
    }

    fn open(&self, options: Options) -> Result<Sqlite, OpenError> {
        self.runtime.block_on(Sqlite::open(options))
    }

    /// A connection as any program has it.
    fn other(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).expect("it opens");
        connection.busy_timeout(PATIENT).expect("it takes a timeout");
        connection
    }
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn text(value: &str) -> Value {
    Value::bytes(value.as_bytes().to_vec())
}

/// A commit numbered `number` under `incarnation`.
fn commit(incarnation: u64, number: u64, writes: Vec<Write>) -> Commit {
    let version = Version { incarnation, sequence: number };
    Commit::new(TxnId(version), version, writes)
}

fn put(name: &str, value: &str) -> Write {
    contract::write(&key(name), None, vec![Change::Put(text(value))])
}

fn outcome(store: &Sqlite, commit: Commit) -> CommitOutcome {
    contract::block_on(store.commit(&[commit])).remove(0)
}

fn got(store: &Sqlite, name: &str) -> Option<Value> {
    contract::block_on(store.get(&[key(name)])).expect("it reads").remove(0).value
}
