//! What a run measured, in words, as JSON and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::modes::{OutageFigures, Seen};
use super::options::{INTERVAL, RunOptions};
use super::tally::Tally;
use super::{Span, Verdict};
use crate::latency::{Latency, latencies};

/// Actions of one name.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct ActionReport {
    /// Its name.
    pub action: String,
    /// Ended well.
    pub done: u64,
    /// Of these, found nothing.
    pub missing: u64,
    /// Of these, answered that they are buffered.
    pub buffered: u64,
    /// Failed.
    pub failed: u64,
    /// Of those that ended well: from when they were sent, or with a rate from when they were due.
    pub latency: Latency,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct FailureReport {
    /// How many.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// One step of time.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Interval {
    /// Its beginning, in seconds since the start of the run.
    pub from_s: f64,
    /// Actions that ended well in it.
    pub done: u32,
    /// Actions that failed in it.
    pub failed: u32,
}

/// What a run measured.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Report {
    /// The workload.
    pub workload: String,
    /// Where it was at work.
    pub target: String,
    /// Clients.
    pub connections: u32,
    /// Actions per second that were asked for.
    pub rate: Option<f64>,
    /// What choices were drawn from.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// It was ended before its time.
    pub stopped_early: bool,
    /// Actions that ended well.
    pub done: u64,
    /// Actions that failed.
    pub failed: u64,
    /// Actions that ended well, per second.
    pub done_per_second: f64,
    /// By name.
    pub actions: Vec<ActionReport>,
    /// Failures by kind.
    pub failures: BTreeMap<String, FailureReport>,
    /// Modes of the store over time.
    pub modes: Vec<Span>,
    /// What forebay has counted of outages; `None` of other targets.
    pub outage: Option<OutageFigures>,
    /// Why not all that was buffered could be applied after the run; `None` if it was.
    pub not_drained: Option<String>,
    /// Why it could not be judged; `None` if it was. The figures are as measured all the same.
    pub not_judged: Option<String>,
    /// What must hold, judged.
    pub verdicts: Vec<Verdict>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Done and failed over time.
    pub intervals: Vec<Interval>,
    /// Latencies of all actions that ended well.
    #[serde(skip)]
    pub(super) all: Option<Histogram<u64>>,
}

impl Report {
    pub(super) fn of(options: &RunOptions, seconds: f64, tally: Tally, seen: &Seen) -> Report {
        let (interval_s, intervals) = (INTERVAL.as_secs_f64(), tally.intervals.iter().enumerate());
        let intervals = intervals.map(|(at, count)| Interval {
            from_s: at as f64 * interval_s,
            done: count.done,
            failed: count.failed,
        });
        let actions = tally.actions.iter().map(|(name, action)| ActionReport {
            action: (*name).to_owned(),
            done: action.done,
            missing: action.missing,
            buffered: action.buffered,
            failed: action.failed,
            latency: Latency::of(&action.latency),
        });
        let failures = tally.failures.iter().map(|(kind, failures)| {
            (kind.clone(), FailureReport { count: failures.count, first: failures.first.clone() })
        });
        let done = tally.actions.values().map(|action| action.done).sum();
        let mut all = latencies();
        // All have the same bounds, so nothing can be out of range.
        tally.actions.values().for_each(|action| all.add(&action.latency).unwrap_or_default());
        Report {
            workload: options.workload.clone(),
            target: options.target.place(),
            connections: options.connections,
            rate: options.rate,
            seed: options.seed,
            seconds,
            done,
            failed: tally.actions.values().map(|action| action.failed).sum(),
            done_per_second: done as f64 / seconds.max(1e-9),
            actions: actions.collect(),
            failures: failures.collect(),
            modes: seen.spans.clone(),
            outage: seen.outage.clone(),
            interval_s,
            intervals: intervals.collect(),
            all: Some(all),
            ..Report::default()
        }
    }

    /// Percent of the actions that ended well within so many ms.
    pub fn within_percent(&self, ms: f64) -> f64 {
        let fast = self.all.as_ref().map_or(0, |all| all.count_between(0, (ms * 1e6) as u64));
        100.0 * fast as f64 / (self.done + self.failed).max(1) as f64
    }

    /// Whether all that was buffered has been applied.
    pub fn drained(&self) -> bool {
        self.not_drained.is_none()
    }

    /// The verdicts that break a promise.
    pub fn breaches(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.breach)
    }

    /// The report as one JSON object; names and units are those of the fields.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and floats that are no numbers, could fail; there are none.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Throughput over time: a line for each interval.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("from_s,done,failed,mode\n");
        for interval in &self.intervals {
            let Interval { from_s, done, failed } = interval;
            let mode = self.modes.iter().rev().find(|span| span.from_s <= *from_s);
            let mode = mode.map_or("", |span| span.mode.as_str());
            let _ = writeln!(text, "{from_s:.1},{done},{failed},{mode}");
        }
        text
    }

    /// The report in words.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let rate = self.rate.map_or("as fast as replies come".to_owned(), |rate| format!("{rate} actions/s wanted"));
        let early = if self.stopped_early { ", stopped early" } else { "" };
        line(
            &mut text,
            "workload",
            &format!("{} on {}, {} connections, {rate}", self.workload, self.target, self.connections),
        );
        line(
            &mut text,
            "throughput",
            &format!(
                "{:.0} actions/s over {:.1} s{early} ({} done, {} failed)",
                self.done_per_second, self.seconds, self.done, self.failed
            ),
        );
        self.write_actions(&mut text);
        for (kind, failures) in &self.failures {
            line(&mut text, "failed", &format!("{} {kind}, the first: {}", failures.count, failures.first));
        }
        self.write_store(&mut text);
        for note in &self.notes {
            line(&mut text, "note", note);
        }
        self.write_verdicts(&mut text);
        text
    }

    fn write_actions(&self, text: &mut String) {
        let (buffered, missing) = (
            self.actions.iter().any(|action| action.buffered > 0),
            self.actions.iter().any(|action| action.missing > 0),
        );
        let width = self.actions.iter().map(|action| action.action.len()).max().unwrap_or(0).max(6);
        let _ = write!(text, "\n{:<width$} {:>10} {:>8}", "action", "done", "failed");
        if missing {
            let _ = write!(text, " {:>8}", "missing");
        }
        if buffered {
            let _ = write!(text, " {:>8}", "buffered");
        }
        let _ = writeln!(text, " {:>9} {:>9} {:>9} {:>9} {:>9}  us", "p50", "p90", "p99", "p99.9", "max");
        for action in &self.actions {
            let _ = write!(text, "{:<width$} {:>10} {:>8}", action.action, action.done, action.failed);
            if missing {
                let _ = write!(text, " {:>8}", action.missing);
            }
            if buffered {
                let _ = write!(text, " {:>8}", action.buffered);
            }
            let Latency { p50_us, p90_us, p99_us, p999_us, max_us, .. } = action.latency;
            let _ = writeln!(text, " {p50_us:>9.0} {p90_us:>9.0} {p99_us:>9.0} {p999_us:>9.0} {max_us:>9.0}");
        }
        text.push('\n');
    }

    fn write_store(&self, text: &mut String) {
        let told = |span: &Span| format!("{} {:.1}-{:.1} s", span.mode, span.from_s, span.to_s);
        let spans: Vec<String> = self.modes.iter().filter(|span| !span.mode.is_empty()).map(told).collect();
        if spans.len() > 1 {
            line(text, "store", &spans.join(", "));
        }
        if let Some(outage) = self.outage.as_ref().filter(|outage| **outage != OutageFigures::default()) {
            line(
                text,
                "outage",
                &format!(
                    "{} buffered (at most {} at a time, {} bytes), {} merged, {} applied, {} conflicts, {} \
                     refused for want of room, {} in quarantine",
                    outage.buffered,
                    outage.pending_max,
                    outage.bytes_max,
                    outage.merged,
                    outage.applied,
                    outage.conflicts,
                    outage.full,
                    outage.quarantined
                ),
            );
        }
        if let Some(why) = &self.not_drained {
            line(text, "NOT DRAINED", why);
        }
        if let Some(why) = &self.not_judged {
            line(text, "NOT JUDGED", why);
        }
    }

    fn write_verdicts(&self, text: &mut String) {
        if self.verdicts.is_empty() {
            return;
        }
        text.push('\n');
        let width = self.verdicts.iter().map(|verdict| verdict.what.len()).max().unwrap_or(0);
        for Verdict { what, count, of, breach, example } in &self.verdicts {
            let word = if *breach { "BREACH" } else { "ok" };
            let example = example.as_ref().map_or(String::new(), |example| format!(", the first: {example}"));
            let _ = writeln!(text, "{word:<6} {what:<width$} {count} of {of}{example}");
        }
    }
}

fn line(text: &mut String, name: &str, what: &str) {
    let _ = writeln!(text, "{name:<12} {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_measured_is_told() {
        let verdict = |what: &str, breach| Verdict {
            what: what.into(),
            count: u64::from(breach),
            of: 9,
            breach,
            example: breach.then(|| "list 3".into()),
        };
        let span = |mode: &str, from_s, to_s| Span { mode: mode.into(), from_s, to_s };
        let report = Report {
            workload: "ycsb-a".into(),
            actions: vec![ActionReport { action: "read".into(), done: 7, buffered: 2, ..ActionReport::default() }],
            failures: [("STOREDOWN".to_owned(), FailureReport { count: 3, first: "not cached".into() })].into(),
            modes: vec![span("normal", 0.0, 0.15), span("failed", 0.15, 0.3)],
            outage: Some(OutageFigures { buffered: 41, ..OutageFigures::default() }),
            not_drained: Some("after 30 s".into()),
            verdicts: vec![verdict("lost", true), verdict("repeated", false)],
            intervals: (0..3).map(|at| Interval { from_s: f64::from(at) / 10.0, done: 5, failed: 0 }).collect(),
            ..Report::default()
        };
        let text = report.to_table();
        for part in ["ycsb-a", "buffered", "3 STOREDOWN, the first: not cached", "failed 0.1-0.3 s", "41 buffered"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let verdicts = ["BREACH lost     1 of 9, the first: list 3", "ok     repeated 0 of 9"];
        for part in verdicts.into_iter().chain(["NOT DRAINED  after 30 s"]) {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("missing"), "{text}");
        assert_eq!(report.to_csv(), "from_s,done,failed,mode\n0.0,5,0,normal\n0.1,5,0,normal\n0.2,5,0,failed\n");
        assert_eq!((report.breaches().count(), report.drained()), (1, false));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
        assert_eq!(json["outage"]["buffered"], 41);
    }
}
