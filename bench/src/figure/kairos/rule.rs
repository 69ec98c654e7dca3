//! Which rule for leases is best: one client's copies over minutes, in steady state. The protocol's cores would need
//! hours for that. So this is a model of what decides it: when copies are read, written, looked at and renewed.
//!
//! Others write each key at random, at a known rate. When a key is read, its last write is drawn. So a run has no
//! events but the client's own transactions.

use forebay::lease::{Gaps, Leases, ReadGap};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::popularity::Popularity;
use super::runs::SEEDS;
use super::{Chart, Scale, Series};
use crate::figures;

/// What a transaction that only reads may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// What was there together, at any time.
    Together,
    /// Nothing before the last commit of its session.
    Session,
    /// What is there at its end.
    Newest,
}

/// How long a copy is used.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Of(Leases),
    /// By what a stale read costs, and by the share of the reads that nothing looks at.
    Told(f64),
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Course {
    rule: Rule,
    shows: Shows,
    /// Skew of what is only read; of what is written it is 0.5.
    alpha_read: f64,
    read_only: f64,
    seed: u64,
}

/// What a transaction that commits costs.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    committed: f64,
    fetched: f64,
    looked: f64,
    /// Attempts that had read what was stale.
    aborted: f64,
    /// Transactions that ended without a message of their end.
    alone: f64,
}

impl Spent {
    /// Requests of a transaction that commits, to one server.
    fn requests(&self) -> f64 {
        (self.fetched + self.looked) / self.committed
    }

    /// Of the attempts, the share that had read what was stale, in percent.
    fn aborts(&self) -> f64 {
        100.0 * self.aborted / (self.aborted + self.committed)
    }

    /// Of the transactions, the share that ended without a message of their end, in percent.
    fn alone(&self) -> f64 {
        100.0 * self.alone / self.committed
    }
}

/// The scale of the paper: keys, keys with copies, clients, transactions in a second of each, keys of a transaction.
const KEYS: u64 = 20_000_000;
const COPIES: usize = 20_000;
const CLIENTS: f64 = 10.0;
const PER_SECOND: f64 = 10_000.0;
const WIDTH: usize = 4;
/// Sessions of the client.
const SESSIONS: usize = 64;
/// From a read to the end of its transaction.
const TRIP_S: f64 = 0.001;
/// Seconds before anything is counted, and that are.
const SECONDS: (f64, f64) = (6.0, 3.0);
/// Of so many reads the share without a verdict is the mean.
const SHARE_OF: f64 = 4096.0;

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its last write as far as it was drawn, and up to when.
    written: f64,
    drawn: f64,
    /// Its copy: version, as of when, and until when it is used.
    version: f64,
    fresh: f64,
    until: f64,
    gap: ReadGap,
}

struct Client {
    course: Course,
    random: SmallRng,
    reads: Popularity,
    writes: Popularity,
    /// Writes of others in a second, of all keys.
    rate: f64,
    known: Vec<Known>,
    sessions: Vec<f64>,
    /// Of the reads of copies, the share that nothing has looked at.
    unseen: f64,
    now: f64,
    spent: Spent,
}

/// A key that was read.
#[derive(Clone, Copy)]
struct Read {
    rank: u64,
    version: f64,
    fresh: f64,
    is_hit: bool,
}

/// The longest lease, and what a copy has to save to be kept.
const LENGTH_MAX_S: f64 = 60.0;
const LEAST: f64 = 0.02;

const fn renewed(abort: f64) -> Rule {
    Rule::Of(Leases::Renewed { abort, length_max: LENGTH_MAX_S, least: LEAST })
}

const RULES: [(&str, Rule); 6] = [
    ("algorithm 1", Rule::Of(Leases::Paper)),
    ("until stale", Rule::Of(Leases::Endless)),
    ("renewed, abort 1", renewed(1.0)),
    ("renewed, abort 4", renewed(4.0)),
    ("renewed, abort 10", renewed(10.0)),
    ("abort 4, share known", Rule::Told(5.0)),
];

/// What is shown, skew of the reads, share of what only reads.
const LOADS: [(&str, Shows, f64, f64); 5] = [
    ("default", Shows::Session, 0.99, 0.9),
    ("skew 1.2", Shows::Session, 1.2, 0.9),
    ("50 % read", Shows::Session, 0.99, 0.5),
    ("any age", Shows::Together, 0.99, 0.9),
    ("newest", Shows::Newest, 0.99, 0.9),
];

/// All rules under all loads, five seeds each.
pub(super) fn figure(_: Scale) -> Vec<Chart> {
    let runs = |rule: Rule| {
        LOADS.map(|(_, shows, alpha_read, read_only)| {
            let course = |seed| Course { rule, shows, alpha_read, read_only, seed };
            (1..=SEEDS).map(|seed| run(course(seed))).collect::<Vec<Spent>>()
        })
    };
    let all = RULES.map(|(name, rule)| (name, runs(rule)));
    let chart = |(title, y, of): (&str, &'static str, fn(&Spent) -> f64)| {
        let series = all.iter().map(|(name, runs)| {
            let summaries: Vec<figures::Summary> = runs.iter().map(|runs| figures::of(runs, of)).collect();
            Series {
                name: (*name).to_owned(),
                points: (0..).map(f64::from).zip(summaries.iter().map(|summary| summary.median)).collect(),
                spreads: summaries.iter().map(figures::Summary::spread).collect(),
                ..Series::default()
            }
        });
        Chart {
            title: title.to_owned(),
            x: "load".into(),
            y: y.into(),
            names: LOADS.map(|(name, ..)| name.to_owned()).to_vec(),
            series: series.collect(),
            ..Chart::default()
        }
    };
    [
        ("requests", "requests of a transaction to one server", Spent::requests as fn(&Spent) -> f64),
        ("aborts", "of 100 attempts, those that had read what was stale", Spent::aborts),
        ("alone", "ended without a message of their end, in %", Spent::alone),
    ]
    .map(chart)
    .into()
}

/// Runs one.
fn run(course: Course) -> Spent {
    let none = Known { written: 0.0, drawn: -1e9, version: 0.0, fresh: 0.0, until: -1e9, gap: ReadGap::default() };
    let mut client = Client {
        course,
        random: SmallRng::seed_from_u64(course.seed),
        reads: Popularity::new(KEYS, course.alpha_read),
        writes: Popularity::new(KEYS, 0.5),
        rate: (CLIENTS - 1.0) * PER_SECOND * (1.0 - course.read_only) * WIDTH as f64,
        known: vec![none; COPIES],
        sessions: vec![0.0; SESSIONS],
        unseen: 0.0,
        now: 0.0,
        spent: Spent::default(),
    };
    client.go(SECONDS.0);
    client.spent = Spent::default();
    client.go(SECONDS.0 + SECONDS.1);
    client.spent
}

impl Client {
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.random::<f64>()).ln()
    }

    fn go(&mut self, until: f64) {
        while self.now < until {
            self.now += self.exponential(1.0 / PER_SECOND);
            let writes = self.random.random::<f64>() >= self.course.read_only;
            let session = self.random.random_range(0..SESSIONS);
            let mut ranks = [u64::MAX; WIDTH];
            for at in 0..WIDTH {
                while ranks[at] == u64::MAX || ranks[..at].contains(&ranks[at]) {
                    ranks[at] = if writes { &self.writes } else { &self.reads }.draw(&mut self.random);
                }
            }
            let began = self.now;
            while !self.attempt(&ranks, writes, session) {
                self.spent.aborted += 1.0;
            }
            self.spent.committed += 1.0;
            // Others of the client's transactions come meanwhile.
            self.now = began;
        }
    }

    /// When others wrote the key last, by now.
    fn written(&mut self, rank: u64) -> f64 {
        let mean = 1.0 / (self.rate * self.writes.share(rank));
        let ago = self.exponential(mean);
        let now = self.now;
        let Some(known) = self.known.get_mut(rank as usize) else { return now - ago };
        if now > known.drawn {
            if now - ago > known.drawn {
                known.written = known.written.max(now - ago);
            }
            known.drawn = now;
        }
        known.written
    }

    fn lease(&mut self, rank: u64) {
        let others = self.rate * self.writes.share(rank);
        let chance: f64 = self.random.random();
        let known = &mut self.known[rank as usize];
        let length = match self.course.rule {
            Rule::Of(leases) => leases.length(known.gap.gap(), others, chance),
            Rule::Told(kappa) => {
                let write = 1.0 / others;
                let gaps = Gaps { read: known.gap.gap().unwrap_or(write / 10.0), write };
                let length = gaps.partly_judged(kappa, self.unseen);
                let cost = gaps.cost_partly_judged(length, kappa, self.unseen);
                (1.0 - cost >= LEAST).then(|| (length * (0.9 + 0.2 * chance)).min(LENGTH_MAX_S))
            }
        };
        known.until = length.map_or(f64::MIN, |length| self.now + length);
    }

    fn read(&mut self, rank: u64) -> Read {
        if let Some(known) = self.known.get_mut(rank as usize) {
            known.gap.read(self.now);
            if self.now < known.until {
                return Read { rank, version: known.version, fresh: known.fresh, is_hit: true };
            }
        }
        self.spent.fetched += 1.0;
        let (version, fresh) = (self.written(rank), self.now);
        self.keep(rank, version);
        Read { rank, version, fresh, is_hit: false }
    }

    /// The copy of a key is current now.
    fn keep(&mut self, rank: u64, version: f64) {
        if let Some(known) = self.known.get_mut(rank as usize) {
            (known.version, known.fresh) = (version, self.now);
            self.lease(rank);
        }
    }

    /// Whether it commits.
    fn attempt(&mut self, ranks: &[u64; WIDTH], writes: bool, session: usize) -> bool {
        let read = ranks.map(|rank| self.read(rank));
        self.now += TRIP_S;
        let hits = read.iter().filter(|read| read.is_hit).count() as f64;
        let newest = read.iter().map(|read| read.version).fold(f64::MIN, f64::max);
        let fresh = read.iter().map(|read| read.fresh).fold(f64::MAX, f64::min);
        let alone = !writes
            && match self.course.shows {
                Shows::Together => newest <= fresh,
                Shows::Session => newest.max(self.sessions[session]) <= fresh,
                Shows::Newest => false,
            };
        self.unseen += hits * (f64::from(u8::from(alone)) - self.unseen) / SHARE_OF;
        if alone {
            self.spent.alone += 1.0;
            self.sessions[session] = self.sessions[session].max(fresh);
            return true;
        }
        self.spent.looked += 1.0;
        let mut stale = false;
        for one in read.into_iter().filter(|one| (one.rank as usize) < COPIES) {
            if self.written(one.rank) > one.version {
                stale = true;
                if let Some(known) = self.known.get_mut(one.rank as usize) {
                    known.until = f64::MIN;
                }
            }
        }
        if stale {
            return false;
        }
        for one in read {
            let version = if writes { self.now } else { one.version };
            if let Some(known) = self.known.get_mut(one.rank as usize).filter(|_| writes) {
                (known.written, known.drawn) = (version, version);
            }
            self.keep(one.rank, version);
        }
        self.sessions[session] = self.now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without copies each key is a request, and each transaction is looked at but for those that have read nothing
    /// that was written since. With them there are fewer.
    #[test]
    fn copies_save_requests() {
        let course = |rule| Course { rule, shows: Shows::Newest, alpha_read: 1.2, read_only: 0.9, seed: 1 };
        let [none, renewed] = [Rule::Of(Leases::None), renewed(4.0)].map(|rule| run(course(rule)));
        assert!((4.9..5.2).contains(&none.requests()), "{none:?}");
        assert!(renewed.requests() < 0.5 * none.requests() && renewed.alone == 0.0, "{renewed:?}");
    }
}
