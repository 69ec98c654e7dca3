//! Drives the clients of a workload and merges what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use super::transact::clean_up;
use super::{Attempt, Event, Outcome, Stopped, Workload};
use crate::client::{Client, ClientError};

/// Pause before a client connects again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// How a workload is to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The server: `127.0.0.1:6379`.
    pub address: String,
    /// Clients at the same time.
    pub clients: u32,
    /// How long clients begin new transactions.
    pub duration: Duration,
    /// Transactions after which the run ends before its time, so that a history stays checkable.
    pub events_max: usize,
    /// What the clients' choices are drawn from.
    pub seed: u64,
    /// How long a reply may take before its connection counts as lost.
    pub reply_time_max: Duration,
    /// How long the server may be away, at the start and for the last look at the end.
    pub reconnect_time_max: Duration,
}

impl RunOptions {
    /// 16 clients for ten seconds.
    pub fn new(address: &str) -> RunOptions {
        RunOptions {
            address: address.to_owned(),
            clients: 16,
            duration: Duration::from_secs(10),
            events_max: 200_000,
            seed: 1,
            reply_time_max: Duration::from_secs(30),
            reconnect_time_max: Duration::from_secs(30),
        }
    }
}

/// Why a run has no history to check.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The server can't be reached, or answered what it never should.
    #[error("{workload}: {source}")]
    Client {
        /// Which workload.
        workload: &'static str,
        /// What happened.
        source: ClientError,
    },
    /// A client's task panicked.
    #[error("{workload}: a client died: {why}")]
    Died {
        /// Which workload.
        workload: &'static str,
        /// What it said.
        why: String,
    },
    /// The last look at the keys did not commit.
    #[error("{workload}: the last look at the keys failed: {why}")]
    Finish {
        /// Which workload.
        workload: &'static str,
        /// The reason.
        why: String,
    },
}

/// What all clients of a run share.
struct Run {
    workload: Arc<dyn Workload>,
    options: RunOptions,
    tick: AtomicU64,
    events: AtomicUsize,
    until: Instant,
}

/// Runs `workload`: its set-up, its clients, its last look. The history is in the order of invocation.
pub async fn run(workload: Arc<dyn Workload>, options: &RunOptions) -> Result<Vec<Event>, RunError> {
    let name = workload.name();
    let failed = |source| RunError::Client { workload: name, source };
    let mut first = connect(options, Instant::now() + options.reconnect_time_max).await.map_err(failed)?;
    workload.setup(&mut first).await.map_err(failed)?;
    let run = Arc::new(Run {
        workload,
        options: options.clone(),
        tick: AtomicU64::new(0),
        events: AtomicUsize::new(0),
        until: Instant::now() + options.duration,
    });
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..options.clients {
        tasks.spawn(run.clone().client(client));
    }
    let mut history = Vec::new();
    while let Some(events) = tasks.join_next().await {
        let events = events.map_err(|error| RunError::Died { workload: name, why: error.to_string() })?;
        history.extend(events.map_err(failed)?);
    }
    history.push(run.finish().await?);
    history.sort_unstable_by_key(|event| event.invoked);
    Ok(history)
}

impl Run {
    fn tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::SeqCst)
    }

    fn over(&self) -> bool {
        Instant::now() >= self.until || self.events.load(Ordering::Relaxed) >= self.options.events_max
    }

    async fn client(self: Arc<Self>, number: u32) -> Result<Vec<Event>, ClientError> {
        let mut random =
            fastrand::Rng::with_seed(self.options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number.into()));
        let mut events = Vec::new();
        while !self.over() {
            // Away for the rest of the run: the last look will say so if it stays away.
            let Ok(mut client) = connect(&self.options, self.until).await else { break };
            while !self.over() {
                self.events.fetch_add(1, Ordering::Relaxed);
                let mut attempt = Attempt::default();
                let invoked = self.tick();
                let stopped = self.workload.step(&mut client, &mut random, &mut attempt).await;
                let broken = matches!(&stopped, Err(Stopped::Client(error)) if error.broken());
                let outcome = outcome(stopped, attempt.submitted)?;
                let completed = self.tick();
                let clean = broken || clean_up(&mut client, &mut attempt).await.is_err();
                let Attempt { name, ops, .. } = attempt;
                events.push(Event { client: number, name, invoked, completed, ops, outcome });
                if clean {
                    break;
                }
            }
        }
        Ok(events)
    }

    /// The last look, tried again while the server is away or in the way.
    async fn finish(&self) -> Result<Event, RunError> {
        let workload = self.workload.name();
        let until = Instant::now() + self.options.reconnect_time_max;
        loop {
            let client = connect(&self.options, until).await;
            let mut client = client.map_err(|source| RunError::Client { workload, source })?;
            let mut attempt = Attempt::default();
            let invoked = self.tick();
            let why = match self.workload.finish(&mut client, &mut attempt).await {
                Ok(()) => {
                    let (client, name, ops) = (self.options.clients, attempt.name, attempt.ops);
                    let completed = self.tick();
                    return Ok(Event { client, name, invoked, completed, ops, outcome: Outcome::Committed });
                }
                Err(Stopped::Client(source)) if !source.broken() => return Err(RunError::Client { workload, source }),
                Err(Stopped::Client(source)) => source.to_string(),
                Err(Stopped::Aborted(why) | Stopped::Unknown(why)) => why,
            };
            if Instant::now() >= until {
                return Err(RunError::Finish { workload, why });
            }
        }
    }
}

/// What the end of a step means. An answer that no transaction should get ends the run.
fn outcome(stopped: Result<(), Stopped>, submitted: bool) -> Result<Outcome, ClientError> {
    match stopped {
        Ok(()) => Ok(Outcome::Committed),
        Err(Stopped::Aborted(why)) => Ok(Outcome::Failed(why)),
        Err(Stopped::Unknown(why)) => Ok(Outcome::Unknown(why)),
        Err(Stopped::Client(error)) if !error.broken() => Err(error),
        Err(Stopped::Client(error)) if submitted => Ok(Outcome::Unknown(format!("LOST {error}"))),
        Err(Stopped::Client(error)) => Ok(Outcome::Failed(format!("LOST {error}"))),
    }
}

async fn connect(options: &RunOptions, until: Instant) -> Result<Client, ClientError> {
    loop {
        match Client::connect(&options.address).await {
            Ok(mut client) => {
                client.set_reply_time_max(options.reply_time_max);
                return Ok(client);
            }
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
        }
    }
}
