//! What CACHE ADVISE says: a line for each policy at each size, and one sentence of verdict.
//!
//! * *Round trips saved* is the transactional hit rate (DeToX, definition 7) of all transactions that committed, plain
//!   commands too. A round trip of a write is never saved.
//! * *Mean* is what a transaction waits for the store. Each of its round trips that read takes the mean time of a read.
//!   Its commit takes the mean time of a commit, if the store measures that. What a hit takes is not counted.
//! * Of a *sample of keys* no transaction is whole. So the share is that of reads that hit, and the mean is that of a
//!   read.
//! * An advice is given only where the shadow of what runs agrees with the live cache, and has missed next to nothing.

use forebay::cache::Sample;
use forebay::policy::Metered;

use super::figures::{Figures, Row};

/// Of more than this share that was missed no advice follows.
const MISSED_MAX: f64 = 0.01;

/// Nor where the shadow of what runs is further off than this.
const OFF_MAX: f64 = 0.015;

/// Nor from fewer round trips, or reads of a sample.
const TRIPS_MIN: u64 = 1_000;

/// Nor from a sample of which fewer keys are cached.
const SAMPLED_MIN: u64 = 256;

/// The smallest size is enough that has so much less than the most.
const ENOUGH: f64 = 0.02;

/// What saves so little more is no reason to change.
const NEAR: f64 = 0.01;

const MIB: f64 = (1 << 20) as f64;

/// How long a read and a commit of the store take in the mean, in microseconds, as far as it is known.
#[derive(Clone, Copy)]
pub struct Waits {
    /// A read.
    pub fetch: Option<f64>,
    /// A commit.
    pub commit: Option<f64>,
}

impl Waits {
    /// What a transaction waits for the store in the mean, in ms.
    pub fn mean_ms(self, metered: &Metered) -> Option<f64> {
        let trips = metered.thr.length - metered.thr.hits;
        let reads = trips.saturating_sub(metered.writers) as f64 * self.fetch.unwrap_or(0.0);
        let commits = metered.writers as f64 * self.commit.unwrap_or(0.0);
        let told = metered.transactions > 0 && (self.fetch.is_some() || self.commit.is_some());
        told.then(|| (reads + commits) / metered.transactions as f64 / 1000.0)
    }
}

/// The lines. `commit_us`: how long a commit takes in the mean, in microseconds, where the store measures it.
pub fn advice(figures: &Figures, commit_us: Option<f64>) -> Vec<String> {
    let waits = Waits { fetch: figures.fetch_us, commit: commit_us };
    let mut lines = vec![line(figures, &figures.live, " (now)", waits)];
    let Some((check, _)) = figures.rows.split_first() else { return lines };
    lines.push(match (check.left_out, figures.live.saves, check.saves) {
        (true, ..) => "its shadow: had to go, see below".to_owned(),
        (false, Some(live), Some(shadow)) => {
            let points = 100.0 * (shadow - live);
            format!("its shadow: {}, {points:+.1} points from what runs", saves(figures, shadow))
        }
        _ => "its shadow: has heard of nothing yet".to_owned(),
    });
    let mut rows: Vec<&Row> = figures.rows.iter().collect();
    // As they were named, the present policy first.
    let place = |row: &Row| figures.rows.iter().position(|other| other.policy == row.policy);
    rows.sort_by_key(|row| (place(row), row.memory));
    let is_check = |row: &Row| std::ptr::eq(row, check);
    lines.extend(rows.iter().filter(|row| !is_check(row)).map(|row| line(figures, row, "", waits)));
    lines.push(heard(figures));
    lines.push(verdict(figures, waits));
    lines
}

/// What a share is one of, and what it does.
fn words(figures: &Figures) -> (&'static str, &'static str) {
    if figures.sample == Sample::ALL { ("save", "round trips") } else { ("hit", "reads") }
}

/// What a share is.
fn saves(figures: &Figures, share: f64) -> String {
    let (verb, what) = words(figures);
    format!("{verb}s {} of {what}", percent(share))
}

/// What a transaction, or of a sample a read, waits for the store in the mean, in ms.
fn mean(figures: &Figures, row: &Row, waits: Waits) -> Option<f64> {
    match figures.sample == Sample::ALL {
        true => waits.mean_ms(&row.metered),
        false => Some((1.0 - row.saves?) * waits.fetch? / 1000.0),
    }
}

fn line(figures: &Figures, row: &Row, mark: &str, waits: Waits) -> String {
    let name = format!("{} at {}{mark}", row.policy, mib(row.memory as f64));
    if row.left_out {
        return format!("{name}: its shadow had to go, see shadow-memory");
    }
    let Some(share) = row.saves else { return format!("{name}: nothing yet") };
    let mut told = format!("{name}: {}", saves(figures, share));
    if figures.sample == Sample::ALL {
        let reads = row.metered.reads_hit as f64 / row.metered.reads.max(1) as f64;
        told.push_str(&format!(", hits {} of reads", percent(reads)));
    }
    if let Some(mean) = mean(figures, row, waits) {
        told.push_str(&format!(", mean {} ms", ms(mean)));
    }
    if row.used_bytes < row.budget_bytes / 10 * 9 {
        told.push_str(&format!(", {:.0} % full", 100.0 * row.used_bytes as f64 / row.budget_bytes.max(1) as f64));
    }
    told
}

fn heard(figures: &Figures) -> String {
    let Figures { heard, missed, emptied, sample, .. } = figures;
    let of = match sample.keys() {
        1 => format!("of {} transactions", figures.live.metered.transactions),
        keys => format!("to one key in {keys}"),
    };
    let emptied = match emptied {
        0 => String::new(),
        times => format!(", emptied {times} times"),
    };
    let fetch =
        figures.fetch_us.map_or_else(String::new, |us| format!("; a read of the store takes {} ms", ms(us / 1000.0)));
    format!(
        "heard: {heard} accesses {of} in {} s, {missed} missed{emptied}{fetch}; shadows take {} of {}",
        figures.elapsed.as_secs(),
        mib(figures.bytes as f64),
        mib(figures.bytes_max as f64),
    )
}

fn ms(ms: f64) -> String {
    // What is next to nothing is told to the microsecond.
    if ms < 0.1 { format!("{ms:.3}") } else { format!("{ms:.2}") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn mib(bytes: f64) -> String {
    match bytes / MIB {
        whole if whole >= 100.0 || whole.fract() == 0.0 => format!("{whole:.0} MiB"),
        part => format!("{part:.1} MiB"),
    }
}

/// One sentence, or two.
fn verdict(figures: &Figures, waits: Waits) -> String {
    let live = &figures.live;
    let (Some(now), Some(check)) = (live.saves, figures.rows.first()) else {
        return "No advice yet: nothing was heard; ask again when clients have been at work.".to_owned();
    };
    let missed = figures.missed as f64 / (figures.heard + figures.missed).max(1) as f64;
    if missed > MISSED_MAX {
        return format!(
            "No advice: the shadows missed {} of what clients did. Name fewer policies with --shadow, or give the \
             server another processor; CACHE ADVISE RESET counts from zero.",
            percent(missed)
        );
    }
    if check.left_out {
        let most = mib(figures.bytes_max as f64);
        return format!("No advice: not even the shadow of what runs has room in {most}; raise --shadow-memory.");
    }
    let (_, what) = words(figures);
    let trips = if figures.sample == Sample::ALL { live.metered.thr.length } else { live.metered.reads };
    if trips < TRIPS_MIN {
        return format!("No advice yet: {trips} {what} are too few to tell; ask again after {TRIPS_MIN}.");
    }
    if figures.sample != Sample::ALL && check.entries < SAMPLED_MIN {
        let entries = check.entries;
        return format!(
            "No advice: of one key in {} the cache holds {entries}, fewer than {SAMPLED_MIN}; give a smaller \
             --shadow-sample.",
            figures.sample.keys()
        );
    }
    let off = check.saves.unwrap_or_default() - now;
    if off.abs() > OFF_MAX {
        return format!(
            "No advice: the shadow of what runs is {:.1} points off. It began empty: ask for CACHE ADVISE RESET, and \
             again after a while.",
            100.0 * off.abs()
        );
    }
    chosen(figures, waits)
}

/// The smallest size with nearly the most, and the policy that has most there.
fn chosen(figures: &Figures, waits: Waits) -> String {
    let (check, (verb, what)) = (&figures.rows[0], words(figures));
    let rows: Vec<(&Row, f64)> =
        figures.rows.iter().filter(|row| !row.left_out).filter_map(|row| Some((row, row.saves?))).collect();
    let most = rows.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    // What runs is worth a little more than what would have to be changed.
    let worth = |row: &Row, share: f64| if row.policy == check.policy { share + NEAR } else { share };
    let enough = rows.iter().filter(|(_, share)| *share >= most - ENOUGH).map(|(row, _)| row.memory).min();
    let of_size = rows.iter().filter(|(row, _)| Some(row.memory) == enough);
    let best = of_size.max_by(|(row, share), (other, of_other)| worth(row, *share).total_cmp(&worth(other, *of_other)));
    let Some(&(choice, share)) = best else { return String::new() };
    let largest = rows.iter().map(|(row, _)| row.memory).max().unwrap_or(choice.memory);
    let now = figures.live.saves.unwrap_or_default();
    if choice.policy == check.policy && choice.memory == check.memory {
        return format!(
            "{} at {} is right: nothing up to {} {}s {:.0} points more.",
            check.policy,
            mib(check.memory as f64),
            mib(largest as f64),
            verb,
            100.0 * ENOUGH
        );
    }
    let mean = match (mean(figures, choice, waits), mean(figures, &figures.live, waits)) {
        (Some(then), Some(now)) => format!(": mean {} ms in place of {}", ms(then), ms(now)),
        _ => String::new(),
    };
    let others = rows.iter().filter(|(row, _)| row.policy != choice.policy && row.memory == choice.memory);
    let other = match choice.policy == check.policy {
        // Of the others the one that comes next.
        true => others.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(row, _)| row.policy.as_str()),
        false => Some(check.policy.as_str()),
    };
    let other = other.map_or_else(String::new, |other| format!("; {}", needs(&rows, other, share)));
    format!(
        "{} at {} would {verb} {} of {what} (now {}){mean}{other}.",
        choice.policy,
        mib(choice.memory as f64),
        percent(share),
        percent(now)
    )
}

/// How much memory a policy needs to save so much, as far as its shadows tell.
fn needs(rows: &[(&Row, f64)], policy: &str, saves: f64) -> String {
    let mut curve: Vec<(f64, f64)> =
        rows.iter().filter(|(row, _)| row.policy == policy).map(|(row, share)| (row.memory as f64, *share)).collect();
    curve.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some(&(largest, _)) = curve.last() else { return format!("{policy} was not run") };
    let Some(at) = curve.iter().position(|(_, share)| *share >= saves) else {
        return format!("{policy} would have less even at {}", mib(largest));
    };
    // Between two sizes the share is taken to rise with the logarithm of the size.
    let ((small, from), (large, to)) = (curve[at.saturating_sub(1)], curve[at]);
    let part = if to > from { (saves - from) / (to - from) } else { 1.0 };
    let memory = (small.ln() + part * (large.ln() - small.ln())).exp();
    // A sum of logarithms is a little off.
    format!("{policy} would need {}", mib((memory / MIB - 1e-6).ceil() * MIB))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay::graph::Thr;

    use super::*;

    const MEMORY: u64 = 128 << 20;

    fn row(policy: &str, memory: u64, hits: u64) -> Row {
        let metered = Metered {
            thr: Thr { length: 20_000, hits: hits * 20 },
            transactions: 10_000,
            writers: 1_000,
            levels: 20_000,
            reads: 40_000,
            reads_hit: hits * 40,
            ..Metered::default()
        };
        let (saves, entries) = (metered.thr.rate(), 1000);
        let bytes = (memory, memory);
        let (used_bytes, budget_bytes) = bytes;
        Row { policy: policy.into(), memory, metered, saves, entries, used_bytes, budget_bytes, left_out: false }
    }

    /// Shares in thousandths at half, one, two and four times the memory.
    fn figures(live: u64, curves: &[(&str, [u64; 4])]) -> Figures {
        let all = |(policy, curve): &(&str, [u64; 4])| {
            let sizes = [MEMORY / 2, MEMORY, 2 * MEMORY, 4 * MEMORY].into_iter().zip(*curve);
            sizes.map(|(memory, hits)| row(policy, memory, hits)).collect::<Vec<_>>()
        };
        let mut rows: Vec<Row> = curves.iter().flat_map(all).collect();
        rows.swap(0, 1);
        Figures {
            live: row(curves[0].0, MEMORY, live),
            rows,
            heard: 50_000,
            fetch_us: Some(4000.0),
            elapsed: Duration::from_secs(60),
            ..Figures::default()
        }
    }

    fn said(figures: &Figures) -> String {
        advice(figures, Some(2000.0)).join("\n")
    }

    #[test]
    fn the_smallest_size_that_has_nearly_the_most_is_advised() {
        let of = figures(612, &[("lru", [500, 610, 700, 780]), ("detox", [650, 720, 770, 785])]);
        let told = said(&of);
        let first = "lru at 128 MiB (now): saves 61.2 % of round trips, hits 61.2 % of reads, mean 2.90 ms";
        assert!(told.starts_with(first), "{told}");
        for line in [
            "\nits shadow: saves 61.0 % of round trips, -0.2 points from what runs\n",
            "\nlru at 64 MiB: saves 50.0 %",
            "\nlru at 512 MiB: saves 78.0 %",
            "\ndetox at 64 MiB: saves 65.0 %",
            "\nheard: 50000 accesses of 10000 transactions in 60 s, 0 missed; a read of the store takes 4.00 ms; ",
            "\ndetox at 256 MiB would save 77.0 % of round trips (now 61.2 %): mean 1.64 ms in place of 2.90; \
             lru would need 470 MiB.",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
        let same = said(&figures(612, &[("lru", [500, 610, 618, 620]), ("detox", [500, 615, 618, 622])]));
        assert!(same.ends_with("lru at 128 MiB is right: nothing up to 512 MiB saves 2 points more."), "{same}");
        let less = said(&figures(612, &[("lru", [605, 610, 618, 620])]));
        assert!(
            less.ends_with(
                "lru at 64 MiB would save 60.5 % of round trips (now 61.2 %): mean 2.96 ms in place of 2.90."
            ),
            "{less}"
        );
        let more = said(&figures(612, &[("lru", [500, 610, 700, 780]), ("fifo", [450, 550, 650, 700])]));
        assert!(more.ends_with("; fifo would have less even at 512 MiB."), "{more}");
    }

    #[test]
    fn what_is_not_known_is_not_advised() {
        let sound = figures(612, &[("lru", [500, 610, 700, 780]), ("detox", [650, 720, 770, 785])]);
        let missed = Figures { missed: 1_000, ..sound.clone() };
        assert!(said(&missed).contains("\nNo advice: the shadows missed 2.0 % of what clients did."));
        assert!(!said(&Figures { missed: 100, ..sound.clone() }).contains("No advice"));
        let off = figures(650, &[("lru", [500, 610, 700, 780])]);
        assert!(said(&off).contains("\nNo advice: the shadow of what runs is 4.0 points off."));
        let mut few = sound.clone();
        few.live.metered.thr = Thr { length: 999, hits: 610 };
        assert!(said(&few).contains("\nNo advice yet: 999 round trips are too few"));
        few.live.saves = None;
        assert!(said(&few).contains("\nNo advice yet: nothing was heard"));
        let mut gone = sound.clone();
        gone.rows[0].left_out = true;
        assert!(said(&gone).contains("raise --shadow-memory."));
        let mut large = sound;
        large.rows.last_mut().expect("rows").left_out = true;
        let told = said(&large);
        assert!(told.contains("\ndetox at 512 MiB: its shadow had to go") && told.contains("\ndetox at 256 MiB would"));
    }
}
