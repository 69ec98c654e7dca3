//! Live workloads: many clients at work on a running forebay (or another RESP server), or on PostgreSQL directly. The
//! store may go away and come back. Figures, a picture and verdicts are what comes out.
//!
//! **A workload is one file and one line.** It declares a [`Record`] (name, one sentence, records by default,
//! constructor), which stands in [`WORKLOADS`]. Help texts, the tests and the program's list follow from it. The
//! constructor makes a [`Workload`] of [`Parameters`]: data and rules that all its clients share. The runner calls,
//! in this order:
//!
//! 1. [`Workload::prepare`], once, if data is to be loaded: makes tables where the [`Target`] is a database, and
//!    empties what has to be empty.
//! 2. [`Workload::load`] for each batch `0..`[`Workload::batches`], on many connections, in any order. It is called
//!    again after a broken connection, so a batch that is loaded twice is loaded once.
//! 3. [`Workload::ready`], once: looks at what is there and says in one line what to do if it can't go on.
//! 4. [`Workload::actor`] for each connection: what one client does. Then, over and over, [`Actor::choose`] (its next
//!    action, by its name), [`Actor::act`] (does it on a [`Session`], measured), [`Actor::think`]. Where no reply will
//!    come, because there was no connection or it took too long, [`Actor::lost`]. At the end [`Actor::end`].
//! 5. [`Workload::check`], once, after all actors have ended and what is buffered was applied: the verdicts.
//!
//! A [`Session`] is one connection in one of two forms, and a workload speaks both: [`Session::Resp`] holds a
//! [`crate::Client`]; [`Session::Sql`] holds a [`Sql`], whose statements are prepared at their first use. An action
//! ends as an [`Ended`] (done, nothing found, buffered, skipped) or a [`Failure`]. The kind of a failure is the first
//! word of the server's error (`STOREDOWN`), an SQLSTATE, or what happened to the connection. Helpers on [`Failure`]
//! make it from replies and errors. A failure that says `lost` has the runner connect again.
//!
//! [`run`] measures a histogram and counts per action's name, done and failed per [`INTERVAL`], and modes of the
//! store over time. (`modes.rs` asks forebay for `CACHE STATE`, or tries the database.) With a rate, actions are due
//! at fixed times, and a latency counts from when its action was due. Its [`Report`] says all that in words, as JSON
//! and as CSV; [`picture`] draws throughput over time with the outages marked. `run` may be called many times on one
//! workload, for who searches a highest load.

mod appends;
pub mod bg;
mod ended;
mod error;
mod modes;
mod options;
pub mod picture;
mod report;
mod runner;
pub mod soar;
mod sql;
mod tally;
mod target;
mod workload;
mod ycsb;

pub use ended::{Ended, Failure};
pub use error::LiveError;
pub use modes::{OutageFigures, Span};
pub use options::{INTERVAL, RunOptions};
pub use report::{ActionReport, Interval, Report};
pub use runner::{Stop, drained, load, run};
pub use sql::{Param, Rows, Sql};
pub use target::{Session, Target};
pub use workload::{Actor, Parameters, Record, Verdict, Workload};

/// All workloads, the table from which help texts are made.
pub const WORKLOADS: &[&Record] = &[
    &ycsb::A,
    &ycsb::B,
    &ycsb::C,
    &ycsb::D,
    &ycsb::E,
    &ycsb::F,
    &appends::LIST_APPEND,
    &bg::ALL[0],
    &bg::ALL[1],
    &bg::ALL[2],
    &bg::ALL[3],
    &bg::ALL[4],
    &bg::ALL[5],
    &bg::ALL[6],
    &bg::ALL[7],
    &bg::ALL[8],
    &bg::ALL[9],
    &bg::ALL[10],
    &bg::ALL[11],
    &bg::ALL[12],
];

/// The workload of this name.
pub fn record(name: &str) -> Option<&'static Record> {
    WORKLOADS.iter().find(|record| record.name == name).copied()
}

/// What is told how far it has come. Called from several threads.
pub trait Progress: Send + Sync {
    /// A phase begins; `total` steps are ahead.
    fn begin(&self, title: &'static str, total: u64);
    /// So many steps are done in all, and how it stands in words.
    fn at(&self, done: u64, words: &str);
    /// The phase is over.
    fn end(&self);
}

/// For callers that want no progress shown.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &'static str, _: u64) {}
    fn at(&self, _: u64, _: &str) {}
    fn end(&self) {}
}
