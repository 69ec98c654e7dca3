//! Loads, runs, waits for what is buffered, and has the workload judge.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::modes::{self, Asking, Seen};
use super::options::{INTERVAL, RunOptions};
use super::report::Report;
use super::tally::Tally;
use super::{Actor, Ended, Failure, LiveError, Progress, Session, Target, Verdict, Workload};

/// Pause after a connection that could not be made.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Times that a batch of the load is tried.
const LOAD_TRIES: u32 = 5;

/// Connections that load at most.
const LOAD_CONNECTIONS_MAX: u32 = 16;

/// How often progress is told.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// Ends a run early; the figures so far are reported.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Stop {
        Stop(Arc::new(watch::channel(false).0))
    }
}

impl Stop {
    /// Ends it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is stopped, at most until `until`; whether it was.
    async fn wait_until(&self, until: Instant) -> bool {
        let mut stopped = self.0.subscribe();
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => true,
            () = sleep_until(until) => false,
        }
    }
}

/// Loads a workload's data; the number of records.
pub async fn load(
    workload: &Arc<dyn Workload>,
    options: &RunOptions,
    progress: &Arc<dyn Progress>,
    stop: &Stop,
) -> Result<u64, LiveError> {
    let mut session = options.target.first().await?;
    workload.prepare(&mut session).await?;
    let (batches, next, records) = (workload.batches(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    progress.begin("loading", batches);
    let mut tasks = JoinSet::new();
    for _ in 0..options.connections.clamp(1, LOAD_CONNECTIONS_MAX) {
        let (workload, options, progress) = (workload.clone(), options.clone(), progress.clone());
        let (next, records, stop) = (next.clone(), records.clone(), stop.clone());
        tasks.spawn(async move {
            let mut session = None;
            while !stop.is_stopped() {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                if batch >= batches {
                    break;
                }
                let count = load_batch(&*workload, batch, &options, &mut session).await?;
                let sum = records.fetch_add(count, Ordering::Relaxed) + count;
                progress.at(batch + 1, &format!("{sum} records"));
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| LiveError::Died(error.to_string()))??;
    }
    progress.end();
    Ok(records.load(Ordering::Relaxed))
}

async fn load_batch(
    workload: &dyn Workload,
    batch: u64,
    options: &RunOptions,
    session: &mut Option<Session>,
) -> Result<u64, LiveError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let failure = match attempt_batch(workload, batch, options, session).await {
            Ok(count) => return Ok(count),
            Err(failure) => failure,
        };
        if failure.lost {
            *session = None;
        }
        // A refusal may be of a moment only: another transaction in the way, a store that is just away.
        if tries >= LOAD_TRIES {
            let hint = match options.target.is_direct() {
                true => "look at the database's log, or drop the table and load again",
                false => workload.hint(),
            };
            return Err(LiveError::refused(format!("loading {}", options.workload), &failure, hint));
        }
        sleep(RECONNECT_PAUSE * 10 * tries).await;
    }
}

async fn attempt_batch(
    workload: &dyn Workload,
    batch: u64,
    options: &RunOptions,
    session: &mut Option<Session>,
) -> Result<u64, Failure> {
    let session = match session {
        Some(session) => session,
        none => none.insert(options.target.connect().await?),
    };
    // A batch is many records.
    let time = options.reply_time_max.max(Duration::from_secs(60));
    timeout(time, workload.load(batch, session)).await.unwrap_or_else(|_| Err(Failure::late(time)))
}

/// What the clients of one run share.
struct Shared {
    options: RunOptions,
    began: Instant,
    until: Instant,
    stop: Stop,
    done: AtomicU64,
    failed: AtomicU64,
}

/// Runs a workload whose data is there: from [`Workload::ready`] to [`Workload::check`].
pub async fn run(
    workload: &Arc<dyn Workload>,
    options: &RunOptions,
    progress: &Arc<dyn Progress>,
    stop: &Stop,
) -> Result<Report, LiveError> {
    let mut first = options.target.first().await?;
    workload.ready(&mut first).await?;
    drop(first);
    let mut sessions = Vec::new();
    for _ in 0..options.connections.max(1) {
        sessions.push(options.target.first().await?);
    }
    let began = Instant::now();
    let shared = Arc::new(Shared {
        options: options.clone(),
        began,
        until: began + options.duration,
        stop: stop.clone(),
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut helpers = JoinSet::new();
    helpers.spawn(modes::watch(options.target.clone(), began, seen.clone()));
    helpers.spawn(tell(shared.clone(), seen.clone(), progress.clone()));
    let mut tasks = JoinSet::new();
    for (number, session) in (0..).zip(sessions) {
        let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let actor = workload.clone().actor(number as u32, fastrand::Rng::with_seed(seed));
        tasks.spawn(work(shared.clone(), number, actor, session));
    }
    let mut tally = Tally::default();
    while let Some(ended) = tasks.join_next().await {
        tally.add(ended.map_err(|error| LiveError::Died(error.to_string()))?);
    }
    // With a rate the last action may end long before the time does, in which no more were asked for.
    let asked = if stop.is_stopped() { Duration::ZERO } else { options.duration };
    let seconds = began.elapsed().max(asked).as_secs_f64();
    progress.end();
    let waiting = drained(&options.target, options.drain_time_max, progress).await;
    helpers.shutdown().await;
    modes::look(&mut Asking::new(options.target.clone()), began, &seen).await;
    let mut report = Report::of(options, seconds, tally, &seen.lock().unwrap_or_else(PoisonError::into_inner));
    report.stopped_early = stop.is_stopped();
    report.not_drained = waiting.err();
    match judge(workload, options).await {
        Ok(verdicts) => report.verdicts = verdicts,
        Err(error) => report.not_judged = Some(error.to_string()),
    }
    report.notes = workload.notes();
    if let (Some(why), false) = (&report.not_drained, report.verdicts.is_empty()) {
        // What was read back may have come from the buffer.
        let (what, example) = ("waits for what is buffered that came to no end".into(), Some(why.clone()));
        report.verdicts.push(Verdict { what, count: 1, of: 1, breach: true, example });
    }
    Ok(report)
}

async fn judge(workload: &Arc<dyn Workload>, options: &RunOptions) -> Result<Vec<Verdict>, LiveError> {
    let mut session = options.target.first().await?;
    workload.check(&mut session).await
}

/// One client, from its first action to its last.
async fn work(shared: Arc<Shared>, number: u64, mut actor: Box<dyn Actor>, session: Session) -> Tally {
    let (mut tally, mut session) = (Tally::default(), Some(session));
    let (clients, rate) = (u64::from(shared.options.connections.max(1)), shared.options.rate);
    let mut at = number;
    while Instant::now() < shared.until && !shared.stop.is_stopped() {
        let due = match rate {
            Some(rate) => {
                let due = shared.began + Duration::from_secs_f64(at as f64 / rate);
                at += clients;
                if due >= shared.until || shared.stop.wait_until(due).await {
                    break;
                }
                due
            }
            None => Instant::now(),
        };
        let name = actor.choose();
        let ended = act(&shared.options, &mut *actor, &mut session).await;
        let interval = (shared.began.elapsed().as_nanos() / INTERVAL.as_nanos()) as usize;
        match ended {
            Ok(Ended::Skipped) => tokio::task::yield_now().await,
            Ok(ended) => {
                shared.done.fetch_add(1, Ordering::Relaxed);
                tally.ended(name, ended, due.elapsed(), interval);
            }
            Err(failure) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                let pause = failure.lost && session.is_none();
                tally.failed(name, failure, interval);
                if pause {
                    sleep(RECONNECT_PAUSE).await;
                }
            }
        }
        let think = actor.think();
        if !think.is_zero() && shared.stop.wait_until((Instant::now() + think).min(shared.until)).await {
            break;
        }
    }
    actor.end();
    tally
}

/// One action. A connection that is of no more use is given up.
async fn act(options: &RunOptions, actor: &mut dyn Actor, session: &mut Option<Session>) -> Result<Ended, Failure> {
    let connected = match session.take() {
        Some(connected) => connected,
        None => match options.target.connect().await {
            Ok(connected) => connected,
            Err(failure) => {
                actor.lost(false);
                return Err(failure);
            }
        },
    };
    let connected = session.insert(connected);
    let ended = match timeout(options.reply_time_max, actor.act(connected)).await {
        Ok(ended) => ended,
        Err(_) => {
            actor.lost(true);
            Err(Failure::late(options.reply_time_max))
        }
    };
    if ended.as_ref().is_err_and(|failure| failure.lost) {
        *session = None;
    }
    ended
}

/// Tells how far the run has come.
async fn tell(shared: Arc<Shared>, seen: Arc<Mutex<Seen>>, progress: Arc<dyn Progress>) {
    let steps = |time: Duration| (time.as_millis() / PROGRESS_PAUSE.as_millis()) as u64;
    progress.begin("running", steps(shared.options.duration));
    loop {
        sleep(PROGRESS_PAUSE).await;
        let elapsed = shared.began.elapsed();
        if elapsed > shared.options.duration {
            return;
        }
        let (done, failed) = (shared.done.load(Ordering::Relaxed), shared.failed.load(Ordering::Relaxed));
        let mode = seen.lock().unwrap_or_else(PoisonError::into_inner).spans.last().map(|span| span.mode.clone());
        let per_second = done as f64 / elapsed.as_secs_f64();
        let words = format!("{per_second:.0}/s, {failed} failed, {}", mode.unwrap_or_default());
        progress.at(steps(elapsed), &words);
    }
}

/// Waits until the store is back and nothing is buffered; why not, after `time_max`.
pub async fn drained(target: &Target, time_max: Duration, progress: &Arc<dyn Progress>) -> Result<(), String> {
    let (began, mut asking, mut shown) = (Instant::now(), Asking::new(target.clone()), false);
    loop {
        let state = asking.ask().await;
        let (pending, quarantined) = (state.figure("pending"), state.figure("quarantined"));
        match state.mode.as_str() {
            "normal" | "up" | "" if pending == 0 => break,
            "normal" if state.figure("waiting") == 0 => {
                return Err(format!(
                    "{quarantined} buffered transactions are in quarantine; see CACHE QUARANTINE LIST"
                ));
            }
            _ => {}
        }
        if began.elapsed() >= time_max {
            return Err(format!("after {} s: mode {}, {pending} pending", time_max.as_secs(), state.mode));
        }
        if !shown {
            progress.begin("carrying over", pending);
            shown = true;
        }
        progress.at(0, &format!("mode {}, {pending} pending", state.mode));
        sleep(PROGRESS_PAUSE / 2).await;
    }
    if shown {
        progress.end();
    }
    Ok(())
}
