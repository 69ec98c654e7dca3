//! How worlds are made, and what happened in them.

use std::time::Duration;

use forebay::runtime::simulated::SplitMix;
use forebay::runtime::simulated::network::{Conditions, Counts};
use forebay_client::{Leases, Level, Statistics};

/// What may happen in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Clocks differ and drift; messages are late, and connections overtake each other.
    Late,
    /// Clocks jump, clients pause or vanish, ways are closed, connections are cut, and the server crashes. It keeps
    /// what it stored.
    Faults,
    /// The server keeps nothing, or loses its last commits: each of its lives is another incarnation.
    Lives,
    /// As `Late`, with connections that are cut. One document is behind leases of one length, others behind endless
    /// ones.
    Leased,
}

/// How one world is made.
pub struct Setting {
    pub scenario: Scenario,
    pub seed: u64,
    pub clients: u32,
    /// Sessions of each client.
    pub sessions: u32,
    /// A life of the server begins with what was there before, or some of it.
    pub keeps: bool,
    pub network: Conditions,
    /// Each transaction's patience with one message.
    pub reply_time_max: Duration,
    /// All sessions are of this level; without it, each draws one.
    pub level: Option<Level>,
}

/// Clocks are at most so far off.
const SKEW_US: u64 = 5_000;
/// A clock gains or loses at most so much in a second.
const DRIFT_US: u64 = 200;

impl Setting {
    /// Draws one.
    pub fn draw(seed: u64, scenario: Scenario, random: &mut SplitMix) -> Setting {
        let network = Conditions {
            late_per_mille: [30, 30, 150][random.below(3) as usize],
            delay_us: (50, 200 + random.below(1500)),
            room_bytes: 1 << (9 + random.below(6)),
            ..Conditions::default()
        };
        let level = [None, Some(Level::Strict), Some(Level::Session), Some(bounded(random))][random.below(4) as usize];
        Setting {
            scenario,
            seed,
            clients: 3 + random.below(6) as u32,
            sessions: 1 + random.below(4) as u32,
            keeps: scenario != Scenario::Lives || seed % 2 == 1,
            network,
            reply_time_max: Duration::from_millis(100 + random.below(200)),
            level,
        }
    }

    /// A session's level.
    pub fn level(&self, random: &mut SplitMix) -> Level {
        let drawn = [Level::Strict, Level::Session, bounded(random)][random.below(3) as usize];
        self.level.unwrap_or(drawn)
    }
}

fn bounded(random: &mut SplitMix) -> Level {
    Level::Bounded(Duration::from_micros(1_000 + random.below(30_000)))
}

/// The first offset and the drift of a clock.
pub fn clock(random: &mut SplitMix) -> (i64, i64) {
    let mut any = |most: u64| random.below(2 * most + 1) as i64 - most as i64;
    (any(SKEW_US), any(DRIFT_US))
}

/// How a client finds the lengths of its leases.
pub fn leases(random: &mut SplitMix) -> Leases {
    [Leases::Endless, Leases::Fixed(0.05), Leases::FOREBAY, Leases::Endless][random.below(4) as usize]
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Of each event, in order.
    pub log: u64,
    pub alone: u64,
    pub validated: u64,
    pub committed: u64,
    pub fresh: u64,
    pub stale: u64,
    pub lost: u64,
    pub unknown: u64,
    /// Unknown outcomes that turned out to be commits, and those that did not.
    pub resolved: u64,
    pub undone: u64,
    pub kills: u64,
    pub crashes: u64,
    pub jumps: u64,
    pub pauses: u64,
    pub gone: u64,
    pub late: u64,
    pub stopped: u64,
    pub cut: u64,
    pub refused: u64,
}

impl Marks {
    /// The counts of a client.
    pub fn count(&mut self, of: &Statistics) {
        self.alone += of.alone;
        self.validated += of.validated;
        self.committed += of.committed;
        self.fresh += of.fresh;
        self.stale += of.stale;
        self.lost += of.lost_aborts;
        self.unknown += of.unknown;
    }

    /// The counts of the network.
    pub fn count_network(&mut self, of: &Counts) {
        self.late += of.late;
        self.stopped += of.stopped;
        self.cut += of.cut;
        self.refused += of.refused;
    }

    pub fn add(&mut self, other: &Marks) {
        self.log ^= other.log;
        self.columns().into_iter().zip(other.clone().columns()).for_each(|(sum, of)| *sum += *of);
    }

    fn columns(&mut self) -> [&mut u64; 18] {
        let Marks { alone, validated, committed, fresh, stale, lost, unknown, resolved, undone, .. } = self;
        let Marks { kills, crashes, jumps, pauses, gone, late, stopped, cut, refused, .. } = self;
        [
            alone, validated, committed, fresh, stale, lost, unknown, resolved, undone, kills, crashes, jumps, pauses,
            gone, late, stopped, cut, refused,
        ]
    }

    /// Worlds in which nothing happens prove nothing.
    pub fn much_happened(&self, scenario: Scenario) {
        let Marks { alone, validated, committed, fresh, stale, lost, unknown, .. } = self;
        let Marks { resolved, undone, kills, crashes, jumps, pauses, gone, late, stopped, cut, refused, .. } = self;
        let validates = scenario == Scenario::Leased || *validated > 100;
        assert!(validates && [alone, committed, fresh, stale, late].into_iter().all(|of| *of > 100), "{self:?}");
        let faults = [lost, unknown, kills, jumps, pauses, gone, stopped, cut, refused].into_iter().all(|of| *of > 20);
        let fates = [resolved, undone, crashes].into_iter().all(|of| *of > 0);
        let wanted = match scenario {
            Scenario::Late => true,
            Scenario::Leased => *cut > 100 && *lost > 20,
            Scenario::Faults => faults && fates,
            Scenario::Lives => *kills > 20,
        };
        assert!(wanted, "{self:?}");
    }
}
