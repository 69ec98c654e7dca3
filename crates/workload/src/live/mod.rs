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
mod modes;
mod options;
pub mod picture;
mod report;
mod runner;
pub mod soar;
mod sql;
mod tally;
mod target;
mod ycsb;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use thiserror::Error;

pub use modes::{OutageFigures, Span};
pub use options::{INTERVAL, RunOptions};
pub use report::{ActionReport, Interval, Report};
pub use runner::{Stop, drained, load, run};
pub use sql::{Param, Rows, Sql};
pub use target::{Failure, Session, Target};

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

/// One workload, declared once.
pub struct Record {
    /// The name by which users choose it.
    pub name: &'static str,
    /// One sentence for help texts.
    pub summary: &'static str,
    /// What `records` counts: `rows`.
    pub unit: &'static str,
    /// Records if nobody says otherwise.
    pub records: u64,
    /// Makes it; refuses parameters that it can't work with.
    pub new: fn(&Parameters) -> Result<Arc<dyn Workload>, LiveError>,
}

/// What a workload can be told.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Its size, in the record's unit.
    pub records: u64,
    /// Clients that will be at work.
    pub connections: u32,
    /// Another seed draws others. Actor n draws from this seed and n.
    pub seed: u64,
    /// Several steps of one action in one transaction, where the workload has such.
    pub transactions: bool,
    /// Records are named by a hash of their number, so that neighbours are strangers, where the workload has such.
    pub hashed: bool,
    /// What BG's network is like.
    pub network: bg::Network,
}

/// What clients do, and what must hold of what they saw.
pub trait Workload: Send + Sync {
    /// Makes what has to be there before the first batch.
    fn prepare<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>>;

    /// How many batches its data has.
    fn batches(&self) -> u64;

    /// Loads one batch; the number of records in it.
    fn load<'a>(&'a self, batch: u64, session: &'a mut Session) -> BoxFuture<'a, Result<u64, Failure>>;

    /// Looks whether all is there that the actors need, and learns what they have to know of it.
    fn ready<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>>;

    /// Client `number`, from 0.
    fn actor(self: Arc<Self>, number: u32, random: fastrand::Rng) -> Box<dyn Actor>;

    /// Judges the run. All that was buffered has been applied, or [`Report::drained`] says false.
    fn check<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<Vec<Verdict>, LiveError>> {
        let _ = session;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// How to start a server for it: the end of a line that says what it could not load.
    fn hint(&self) -> &'static str {
        "is the server one that was started for this workload (see --help), and its store there?"
    }

    /// What a reader of the figures should know, one sentence each; asked after `check`.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One client.
pub trait Actor: Send {
    /// Decides what it does next; the action's name. Each choice is followed by `act`, or by `lost` without it.
    fn choose(&mut self) -> &'static str;

    /// Does it. The runner may drop this before its end; then it calls `lost`.
    fn act<'a>(&'a mut self, session: &'a mut Session) -> BoxFuture<'a, Result<Ended, Failure>>;

    /// No reply will come. `sent`: the action may have taken effect; else there was no connection to send it on.
    fn lost(&mut self, sent: bool) {
        let _ = sent;
    }

    /// How long it pauses before its next choice.
    fn think(&mut self) -> Duration {
        Duration::ZERO
    }

    /// The run is over: hands over what [`Workload::check`] needs.
    fn end(&mut self) {}
}

/// How an action ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done.
    Done,
    /// Done, but what it looked for is not there.
    Missing,
    /// Done, and said to be buffered: the store has it later.
    Buffered,
    /// There was nothing to do; it counts as no action.
    Skipped,
}

/// One thing that must hold, and whether it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What was looked for: `acknowledged appends that are lost`.
    pub what: String,
    /// How many there are.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// Whether that breaks a promise.
    pub breach: bool,
    /// The first one, for a person who looks into it.
    pub example: Option<String>,
}

/// Why a workload can't be loaded, run or checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No connection.
    #[error("can't reach {target}: {why}; is it running, and are address, user and password right?")]
    Unreachable {
        /// Where.
        target: String,
        /// What the system says.
        why: String,
    },
    /// It has let in as many as it lets in.
    #[error("{target} lets no more connections in: {why}; ask for fewer (--connections), or raise its limit, {limit}")]
    NoMoreConnections {
        /// Where.
        target: String,
        /// What it says.
        why: String,
        /// The name of its limit.
        limit: &'static str,
    },
    /// Parameters that make no sense.
    #[error("{0}")]
    Parameters(String),
    /// The target answers what the workload can't go on with.
    #[error("{doing}: {why}; {hint}")]
    Refused {
        /// What was tried.
        doing: String,
        /// The answer.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A part of the runner died.
    #[error("the run failed: {0}; please report this")]
    Died(String),
}

impl LiveError {
    /// The target's answer to `doing` is none to go on with.
    pub fn refused(doing: impl Into<String>, failure: &Failure, hint: impl Into<String>) -> LiveError {
        let hint = match failure.kind.as_str() {
            "NOAUTH" | "NOPERM" => "give --user NAME and --password-file FILE of a user who may do that".into(),
            _ => hint.into(),
        };
        LiveError::Refused { doing: doing.into(), why: failure.text.clone(), hint }
    }
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
