//! The search for the SoAR and for the Socialites. The SoAR is the highest throughput that keeps a service level
//! agreement. The Socialites are the most clients at a time that it is kept for.
//!
//! The number of clients is doubled as long as the agreement is kept and throughput rises. Then the peak is looked
//! for between the last numbers tried, by halves. Throughput that keeps the agreement is taken to rise up to one
//! number of clients and to fall from there on.

use serde::Serialize;

/// Clients that are tried at most.
pub const CLIENTS_MAX: u32 = 4096;

/// What has to hold of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Percent of the actions that have to be fast enough.
    pub percent: f64,
    /// What is fast enough, in ms.
    pub ms: f64,
    /// Percent of reads that may be wrong.
    pub unpredictable_percent: f64,
}

impl Default for Agreement {
    /// BG's own: 95 % within 100 ms, 0.01 % unpredictable.
    fn default() -> Agreement {
        Agreement { percent: 95.0, ms: 100.0, unpredictable_percent: 0.01 }
    }
}

impl Agreement {
    /// Whether a run keeps it, of which so many percent of the actions were fast enough and of the reads were wrong.
    pub fn is_kept(&self, within_percent: f64, wrong_percent: f64) -> bool {
        within_percent >= self.percent && wrong_percent <= self.unpredictable_percent
    }
}

/// What a run with so many clients gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// Clients at the same time.
    pub clients: u32,
    /// Actions per second.
    pub per_second: f64,
    /// Whether the agreement was kept.
    pub kept: bool,
}

impl Rating {
    /// What the search makes as great as it can.
    fn score(&self) -> f64 {
        if self.kept { self.per_second } else { f64::NEG_INFINITY }
    }
}

/// The search: which number of clients to try next, from what was found so far.
#[derive(Clone, Debug)]
pub struct Search {
    /// By clients.
    tried: Vec<Rating>,
    clients_max: u32,
    tolerance: f64,
}

impl Search {
    /// Up to so many clients; a peak that is known to this share of its number of clients is near enough (0: exactly).
    pub fn new(clients_max: u32, tolerance: f64) -> Search {
        Search { tried: Vec::new(), clients_max: clients_max.clamp(1, CLIENTS_MAX), tolerance: tolerance.max(0.0) }
    }

    /// Clients to try next; `None` when the search is over.
    pub fn next(&self) -> Option<u32> {
        let Some(best) = self.best() else { return Some(1) };
        let at = self.tried.iter().position(|tried| tried.clients == self.tried[best].clients)?;
        let clients = self.tried[at].clients;
        if at + 1 == self.tried.len() && self.tried[at].kept && clients < self.clients_max {
            return Some(clients.saturating_mul(2).min(self.clients_max));
        }
        let near = (f64::from(clients) * self.tolerance) as u32;
        let below = at.checked_sub(1).map_or(clients, |below| self.tried[below].clients);
        let above = self.tried.get(at + 1).map_or(clients, |above| above.clients);
        // The wider side first; a side of neighbours has nothing between.
        let open = |width: u32| width > near.max(1);
        match (clients - below, above - clients) {
            (left, right) if right >= left && open(right) => Some(clients + right / 2),
            (left, _) if open(left) => Some(below + left / 2),
            (_, right) if open(right) => Some(clients + right / 2),
            _ => None,
        }
    }

    /// Notes what a run gave.
    pub fn note(&mut self, rating: Rating) {
        let at = self.tried.partition_point(|tried| tried.clients < rating.clients);
        self.tried.insert(at, rating);
    }

    /// All runs, by clients.
    pub fn tried(&self) -> &[Rating] {
        &self.tried
    }

    /// The run with the highest throughput that keeps the agreement.
    pub fn soar(&self) -> Option<Rating> {
        self.best().map(|best| self.tried[best]).filter(|best| best.kept)
    }

    /// The most clients that the agreement was kept for.
    pub fn socialites(&self) -> Option<u32> {
        self.tried.iter().rev().find(|tried| tried.kept).map(|tried| tried.clients)
    }

    /// The best so far; the one with the fewest clients if none keeps the agreement.
    fn best(&self) -> Option<usize> {
        (0..self.tried.len()).reduce(|best, other| match self.tried[other].score() > self.tried[best].score() {
            true => other,
            false => best,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(search: &mut Search, of: impl Fn(u32) -> (f64, bool)) -> u32 {
        let mut runs = 0;
        while let Some(clients) = search.next() {
            let (per_second, kept) = of(clients);
            assert!(search.tried().iter().all(|tried| tried.clients != clients), "{clients} again");
            search.note(Rating { clients, per_second, kept });
            runs += 1;
        }
        runs
    }

    proptest! {
        /// The peak of what rises and then falls is found exactly, in a number of runs logarithmic in it, wherever the
        /// agreement begins to be broken.
        #[test]
        fn finds_the_peak(peak in 1u32..2000, broken in 1u32..3000) {
            let rises_and_falls = |clients: u32| {
                let fall = f64::from(clients.saturating_sub(peak));
                (f64::from(clients.min(peak)) - 0.3 * fall, clients <= broken)
            };
            let mut search = Search::new(CLIENTS_MAX, 0.0);
            let runs = run(&mut search, rises_and_falls);
            prop_assert_eq!(search.soar().map(|rating| rating.clients), Some(peak.min(broken)));
            prop_assert!(search.socialites() <= Some(broken));
            prop_assert!(runs <= 40, "{}", runs);
        }
    }

    #[test]
    fn ends_where_nothing_keeps_the_agreement_and_at_the_most_clients() {
        let mut search = Search::new(64, 0.1);
        assert_eq!(run(&mut search, |_| (1.0, false)), 1);
        assert_eq!((search.soar(), search.socialites()), (None, None));
        let mut search = Search::new(48, 0.1);
        assert_eq!(run(&mut search, |clients| (f64::from(clients), true)), 9);
        assert_eq!((search.soar().map(|rating| rating.clients), search.socialites()), (Some(48), Some(48)));
    }
}
