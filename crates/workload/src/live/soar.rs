//! The highest load that keeps a service level agreement: a run for each number of clients that [`Search`] asks for.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;

use super::bg::WRONG_READS;
use super::{LiveError, Progress, Report, RunOptions, Stop, Workload, run};
use crate::bg::soar::{Agreement, Rating, Search};

/// A peak known to a tenth of its number of clients is near enough: runs differ by more.
const TOLERANCE: f64 = 0.1;

/// One run of the search.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Rated {
    /// What it gave.
    #[serde(flatten)]
    pub rating: Rating,
    /// Percent of the actions that were fast enough.
    pub within_percent: f64,
    /// Percent of the judged reads that can't be true.
    pub wrong_percent: f64,
    /// Actions that failed.
    pub failed: u64,
    /// What was broken beside the agreement.
    pub breaches: Vec<String>,
}

/// What a search has found.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SoarReport {
    /// The workload.
    pub workload: String,
    /// Where it was at work.
    pub target: String,
    /// What had to be kept.
    pub agreement: Agreement,
    /// How long each run took, in seconds.
    pub seconds: f64,
    /// The highest throughput that kept it; `None` if none did.
    pub soar: Option<Rating>,
    /// The most clients for whom it was kept.
    pub socialites: Option<u32>,
    /// All runs, in their order.
    pub runs: Vec<Rated>,
}

/// Searches with up to `clients_max` clients. `options` say all else, data is loaded.
pub async fn search(
    workload: &Arc<dyn Workload>,
    options: &RunOptions,
    agreement: Agreement,
    clients_max: u32,
    progress: &Arc<dyn Progress>,
    stop: &Stop,
) -> Result<SoarReport, LiveError> {
    let (mut search, mut runs) = (Search::new(clients_max, TOLERANCE), Vec::new());
    while let Some(clients) = search.next() {
        let options = RunOptions { connections: clients, ..options.clone() };
        let report = run(workload, &options, progress, stop).await?;
        if stop.is_stopped() {
            break;
        }
        let rated = rate(&report, &agreement);
        search.note(rated.rating);
        runs.push(rated);
    }
    Ok(SoarReport {
        workload: options.workload.clone(),
        target: options.target.place(),
        agreement,
        seconds: options.duration.as_secs_f64(),
        soar: search.soar(),
        socialites: search.socialites(),
        runs,
    })
}

fn rate(report: &Report, agreement: &Agreement) -> Rated {
    let within_percent = report.within_percent(agreement.ms);
    let wrong = report.verdicts.iter().find(|verdict| verdict.what == WRONG_READS);
    let wrong_percent = wrong.map_or(0.0, |verdict| 100.0 * verdict.count as f64 / verdict.of.max(1) as f64);
    // How many reads may be wrong is agreed on; nothing else that is promised may be broken.
    let breaches = report.breaches().filter(|verdict| verdict.what != WRONG_READS);
    let breaches: Vec<String> = breaches.map(|verdict| format!("{} {}", verdict.count, verdict.what)).collect();
    let kept = agreement.is_kept(within_percent, wrong_percent) && breaches.is_empty();
    let rating = Rating { clients: report.connections, per_second: report.done_per_second, kept };
    Rated { rating, within_percent, wrong_percent, failed: report.failed, breaches }
}

impl SoarReport {
    /// As JSON.
    pub fn to_json(&self) -> String {
        // Numbers and strings only, which JSON can't refuse.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As a table, with the figures at its end.
    pub fn to_table(&self) -> String {
        let Agreement { percent, ms, unpredictable_percent } = self.agreement;
        let mut text = format!(
            "{} on {}: {percent} % of the actions within {ms} ms, at most {unpredictable_percent} % wrong reads, {} s \
             each\n\n{:>11} {:>11} {:>9} {:>9} {:>8}  kept\n",
            self.workload, self.target, self.seconds, "connections", "actions/s", "% within", "% wrong", "failed"
        );
        for Rated { rating, within_percent, wrong_percent, failed, breaches } in &self.runs {
            let Rating { clients, per_second, kept } = rating;
            let word = if *kept { "yes".to_owned() } else { format!("no {}", breaches.join(", ")) };
            let _ = writeln!(
                text,
                "{clients:>11} {per_second:>11.0} {within_percent:>9.3} {wrong_percent:>9.4} {failed:>8}  {}",
                word.trim_end()
            );
        }
        let _ = match (self.soar, self.socialites) {
            (Some(soar), Some(most)) => writeln!(
                text,
                "\nSoAR        {:.0} actions/s with {} connections\nSocialites  {most} connections",
                soar.per_second, soar.clients
            ),
            _ => writeln!(text, "\nSoAR        none: the agreement was never kept"),
        };
        text
    }
}
