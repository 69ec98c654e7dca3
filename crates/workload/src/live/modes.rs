//! The store's mode over time: forebay tells it by `CACHE STATE`, a database by answering or not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_protocol::Reply;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{Failure, Session, Target};
use crate::client::Says;

/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// A store that does not answer within this time counts as away.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);

/// Changes of mode that are kept.
const SPANS_MAX: usize = 10_000;

/// A mode, and when it was seen, in seconds since the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// `normal`, `failed`, `recovery` of forebay; `up` of a database; `unreachable` of both. Empty of a server that
    /// knows no modes.
    pub mode: String,
    /// From.
    pub from_s: f64,
    /// To.
    pub to_s: f64,
}

impl Span {
    /// Whether the store was away.
    pub fn is_outage(&self) -> bool {
        matches!(self.mode.as_str(), "failed" | "unreachable")
    }
}

/// What forebay has counted of the outages of a run, by `INFO` and `CACHE STATE`.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct OutageFigures {
    /// Transactions that were buffered.
    pub buffered: u64,
    /// Of these, made part of a later one.
    pub merged: u64,
    /// Of these, applied.
    pub applied: u64,
    /// Documents that other programs had changed in it.
    pub conflicts: u64,
    /// Refused for want of room.
    pub full: u64,
    /// The most that were pending when it was asked.
    pub pending_max: u64,
    /// The most memory that was charged for them.
    pub bytes_max: u64,
    /// In quarantine at the end.
    pub quarantined: u64,
}

/// What has been seen.
#[derive(Default)]
pub(super) struct Seen {
    pub spans: Vec<Span>,
    pub outage: Option<OutageFigures>,
    last: Totals,
}

/// What forebay has counted since it was started. Counts of one outage would not do: one that begins and ends between
/// two looks would hide the end of the one before.
#[derive(Clone, Debug, Default)]
struct Totals {
    /// Which start that was.
    process: String,
    /// By name.
    counts: HashMap<String, u64>,
}

impl Seen {
    fn mode(&mut self, mode: String, at_s: f64) {
        let full = self.spans.len() >= SPANS_MAX;
        if let Some(last) = self.spans.last_mut() {
            last.to_s = at_s;
            if full || last.mode == mode {
                return;
            }
        }
        // Nobody was asked before the first answer, which came at once as a rule.
        let from_s = if self.spans.is_empty() { 0.0 } else { at_s };
        self.spans.push(Span { mode, from_s, to_s: at_s });
    }

    /// Adds what has been counted since last time.
    fn figures(&mut self, state: State) {
        if state.totals.counts.is_empty() {
            return;
        }
        let (totals, last, first) = (&state.totals.counts, &self.last, self.last.counts.is_empty());
        let more = |name: &str| {
            let now = totals.get(name).copied().unwrap_or(0);
            let before = match (first, state.mode.as_str()) {
                // What stood there at the start is of an earlier outage, unless that goes on.
                (true, "normal") => now,
                (true, _) => now.saturating_sub(state.figure(name)),
                (false, _) if last.process != state.totals.process => 0,
                (false, _) => last.counts.get(name).copied().unwrap_or(0),
            };
            now.saturating_sub(before)
        };
        let outage = self.outage.get_or_insert_default();
        outage.buffered += more("buffered");
        outage.merged += more("merged");
        outage.applied += more("applied");
        outage.conflicts += more("conflicts");
        outage.full += more("full");
        outage.pending_max = outage.pending_max.max(state.figure("pending"));
        outage.bytes_max = outage.bytes_max.max(state.figure("bytes"));
        outage.quarantined = state.figure("quarantined");
        self.last = state.totals;
    }
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub mode: String,
    /// Of `CACHE STATE`: counts are of one outage.
    figures: HashMap<String, i64>,
    totals: Totals,
}

impl State {
    pub fn figure(&self, name: &str) -> u64 {
        self.figures.get(name).map_or(0, |figure| u64::try_from(*figure).unwrap_or(0))
    }
}

/// Looks on until it is aborted.
pub(super) async fn watch(target: Target, began: Instant, seen: Arc<Mutex<Seen>>) {
    let mut asking = Asking::new(target);
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        look(&mut asking, began, &seen).await;
    }
}

/// One look; the last is taken when all has come to its end.
pub(super) async fn look(asking: &mut Asking, began: Instant, seen: &Mutex<Seen>) {
    let state = asking.ask().await;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.mode(state.mode.clone(), began.elapsed().as_secs_f64());
    seen.figures(state);
}

/// A connection for asking.
pub(super) struct Asking {
    target: Target,
    session: Option<Session>,
}

impl Asking {
    pub fn new(target: Target) -> Asking {
        Asking { target, session: None }
    }

    /// The state now.
    pub async fn ask(&mut self) -> State {
        match timeout(ANSWER_TIME_MAX, self.answer()).await {
            Ok(Ok(state)) => state,
            _ => {
                self.session = None;
                State { mode: "unreachable".into(), ..State::default() }
            }
        }
    }

    async fn answer(&mut self) -> Result<State, Failure> {
        if self.session.is_none() {
            self.session = Some(self.target.connect().await?);
        }
        match &mut self.session {
            Some(Session::Resp(client)) => {
                let mut state = state(&client.call(&["CACHE", "STATE"]).await?);
                if state.figures.contains_key("buffered") {
                    state.totals = totals(&client.call(&["INFO", "server", "outage"]).await?);
                }
                Ok(state)
            }
            Some(Session::Sql(sql)) => {
                sql.query("SELECT 1", &[]).await?;
                Ok(State { mode: "up".into(), ..State::default() })
            }
            None => Ok(State::default()),
        }
    }
}

/// A reply to `CACHE STATE`; a server that does not know it has no modes.
fn state(reply: &Reply) -> State {
    let mut state = State::default();
    for pair in reply.items().unwrap_or_default().chunks(2) {
        let [name, value] = pair else { continue };
        let name = String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned();
        match value {
            Reply::Integer(number) => drop(state.figures.insert(name, *number)),
            text if name == "mode" => state.mode = String::from_utf8_lossy(text.bytes().unwrap_or_default()).into(),
            _ => {}
        }
    }
    state
}

/// A reply to `INFO server outage`.
fn totals(reply: &Reply) -> Totals {
    let text = String::from_utf8_lossy(reply.bytes().unwrap_or_default());
    let mut totals = Totals::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let count = name.strip_prefix("outage_").and_then(|name| name.strip_suffix("_total"));
        match (count, value.trim().parse()) {
            (Some(name), Ok(count)) => drop(totals.counts.insert(name.to_owned(), count)),
            _ if name == "process_id" => totals.process = value.trim().to_owned(),
            _ => {}
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this outage, and of all since the start.
    fn told(mode: &str, [buffered, applied]: [i64; 2], process: u8, [all_buffered, all_applied]: [u64; 2]) -> State {
        let figures = [("buffered", buffered), ("applied", applied)].map(|(name, figure)| (name.to_owned(), figure));
        let text = format!(
            "# Server\r\nprocess_id:{process}\r\n\r\n# Outage\r\noutage_summary:12:30\r\n\
             outage_buffered_total:{all_buffered}\r\noutage_applied_total:{all_applied}\r\n"
        );
        let totals = totals(&Reply::Verbatim("txt".into(), text));
        State { mode: mode.into(), figures: figures.into(), totals }
    }

    #[test]
    fn modes_become_spans_and_outages_add_up() {
        let mut seen = Seen::default();
        let states = [
            // Of an outage before the run.
            told("normal", [7, 7], 1, [7, 7]),
            told("failed", [3, 0], 1, [10, 7]),
            // It went on to four and was over, and another began, before the next look.
            told("failed", [9, 0], 1, [20, 11]),
            told("normal", [9, 9], 1, [20, 20]),
            // Started again.
            told("failed", [1, 0], 2, [1, 0]),
            State { mode: "unreachable".into(), ..State::default() },
            told("normal", [2, 2], 2, [2, 2]),
        ];
        for (at, state) in states.into_iter().enumerate() {
            seen.mode(state.mode.clone(), at as f64);
            seen.figures(state);
        }
        let outage = seen.outage.as_ref().expect("figures were told");
        assert_eq!((outage.buffered, outage.applied), (15, 15));
        seen.spans.retain(|span| span.mode != "unreachable");
        let spans: Vec<_> = seen.spans.iter().map(|span| (span.mode.as_str(), span.from_s, span.to_s)).collect();
        let (normal, failed) = ("normal", "failed");
        assert_eq!(
            spans,
            [(normal, 0.0, 1.0), (failed, 1.0, 3.0), (normal, 3.0, 4.0), (failed, 4.0, 5.0), (normal, 6.0, 6.0)]
        );
    }
    #[test]
    fn an_outage_that_goes_on_at_the_start_counts() {
        let mut seen = Seen::default();
        seen.figures(told("failed", [3, 1], 1, [10, 8]));
        seen.figures(told("normal", [4, 4], 1, [11, 11]));
        let outage = seen.outage.expect("figures were told");
        assert_eq!((outage.buffered, outage.applied), (4, 4));
    }
}
