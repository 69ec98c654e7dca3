//! The driver over a real PostgreSQL, which each test starts for itself.

mod beside;
mod certificates;
mod checking;
mod decoding;
mod decoding_faults;
mod faults;
mod forms;
mod groups;
mod large;
mod lists;
mod locked;
mod mapping;
mod one_row;
mod opening;
mod owners;
mod pooler;
mod portions;
#[path = "../../../../tests/common/proxy.rs"]
mod proxy;
mod remembered;
mod repeated;
mod rows;
#[path = "../../../../tests/common/postgres.rs"]
mod server;
mod shown;
mod strange;
mod suite;
mod sums;
mod triggers;
mod versions;

use std::time::Duration;

use forebay_drivers::Options;
use forebay_drivers::postgres::{OpenError, Postgres};
use server::Server;

/// Time for one call, where the machine may be busy and nothing is to fail.
const PATIENT: Duration = Duration::from_secs(20);

/// A runtime for the driver's tasks.
fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn options(server: &Server, database: &str) -> Options {
    let address = server.url(database).parse().expect("a URL");
    Options { timeout: PATIENT, ..Options::new(address) }
}

fn open(runtime: &tokio::runtime::Runtime, options: Options) -> Result<Postgres, OpenError> {
    runtime.block_on(Postgres::open(options))
}
