//! A workload, as a record and as the parts that the runner calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;

use super::bg::network::Network;
use super::ended::{Ended, Failure};
use super::error::LiveError;
use super::target::Session;

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
    pub network: Network,
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

    /// Judges the run. All that was buffered has been applied, or [`Report::drained`](super::Report::drained) says
    /// false.
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
