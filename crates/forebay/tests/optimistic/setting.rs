//! How worlds are made: what may happen in them, and what did.

use forebay::Key;
use forebay::lease::Leases;
use forebay::runtime::simulated::SplitMix;
use forebay::txn::optimistic::{ClientOptions, Layout, Rules, ShardOptions};
use forebay::txn::validator::ValidatorOptions;

use crate::network::Network;

/// What may happen in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Clocks differ and drift; messages are late and overtake each other.
    Calm,
    /// All else too: crashes, pauses, partitions, clocks that jump.
    Faults,
    /// Validators vanish all the time, and many messages are late.
    Restarts,
    /// Strict transactions; for odd seeds with all that may go wrong.
    Strict,
    /// What is complete, clients tell each other, in place of validators (section 4.4 of the paper). Clients pause.
    Watermarks,
    /// That, and the paper's algorithms 2 and 3, but stale copies go. No client pauses.
    Paper,
}

impl Scenario {
    /// Whether clients tell each other what is complete.
    pub fn has_watermarks(self) -> bool {
        matches!(self, Scenario::Watermarks | Scenario::Paper)
    }
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Of every event.
    pub log: u64,
    pub events: u64,
    pub committed: u64,
    pub local: u64,
    pub hits: u64,
    pub stale: u64,
    pub aborted: u64,
    pub unacknowledged: u64,
    pub crashes: u64,
    pub pauses: u64,
    pub cuts: u64,
    pub jumps: u64,
}

impl Ran {
    pub fn add(&mut self, other: &Ran) {
        let Ran { log, events, committed, local, hits, stale, aborted, unacknowledged, crashes, pauses, cuts, jumps } =
            other;
        self.log ^= log;
        let sums = [
            (&mut self.events, events),
            (&mut self.committed, committed),
            (&mut self.local, local),
            (&mut self.hits, hits),
            (&mut self.stale, stale),
            (&mut self.aborted, aborted),
            (&mut self.unacknowledged, unacknowledged),
            (&mut self.crashes, crashes),
            (&mut self.pauses, pauses),
            (&mut self.cuts, cuts),
            (&mut self.jumps, jumps),
        ];
        sums.into_iter().for_each(|(sum, of)| *sum += of);
    }

    /// A world in which nothing happens proves nothing.
    pub fn much_happened(&self, scenario: Scenario) {
        let Ran { committed, local, hits, stale, aborted, .. } = self;
        let commits = [committed, hits, stale, aborted];
        assert!(commits.into_iter().all(|of| *of > 1000), "{self:?}");
        assert!(*local > 1000 || scenario == Scenario::Strict, "{self:?}");
        let Ran { unacknowledged, crashes, pauses, cuts, jumps, .. } = self;
        let crashed = *crashes > 100;
        let all_happened = crashed && [pauses, cuts, jumps].into_iter().all(|of| *of > 100) && *unacknowledged > 0;
        let wanted = match scenario {
            Scenario::Calm | Scenario::Watermarks | Scenario::Paper => true,
            Scenario::Restarts => crashed,
            Scenario::Faults | Scenario::Strict => all_happened,
        };
        assert!(wanted, "{self:?}");
    }

    pub fn note(&mut self, of: u64) {
        self.log = (self.log.rotate_left(5) ^ of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// How one world is made.
pub struct Setting {
    pub scenario: Scenario,
    /// Not only clocks and late messages.
    pub faulty: bool,
    pub layout: Layout,
    pub skew_us: u64,
    pub clients: u32,
    pub options: ClientOptions,
    pub validating: ValidatorOptions,
    pub keeping: ShardOptions,
    pub keys: Vec<Key>,
    pub publish_us: u64,
    lost: u64,
    doubled: u64,
    delay_us: u64,
    late: u64,
}

impl Setting {
    /// Draws one.
    pub fn draw(seed: u64, scenario: Scenario, random: &mut SplitMix) -> Setting {
        let mut up_to = |least: u64, most: u64| least + random.below(most - least + 1);
        let restarts = scenario == Scenario::Restarts;
        let calm = scenario == Scenario::Calm || scenario.has_watermarks();
        let faulty = !calm && (scenario != Scenario::Strict || seed % 2 == 1);
        let calmly_strict = scenario == Scenario::Strict && !faulty;
        let (validators_max, clients_max) = if calmly_strict { (5, 8) } else { (8, 16) };
        let shards = up_to(1 + u64::from(restarts), 4) as u16;
        let layout = Layout { validators: up_to(2, validators_max) as u16, shards, together: false };
        let skew_us = match up_to(0, 2) {
            _ if restarts => 400,
            _ if calmly_strict => 5_000,
            drawn => [400, 2_000, 5_000][drawn as usize],
        };
        let keys = if calmly_strict { up_to(6, 12) } else { up_to(3, 6) };
        let literal = scenario == Scenario::Paper;
        let mut setting = Setting {
            scenario,
            faulty,
            layout,
            skew_us,
            clients: up_to(4, clients_max) as u32,
            options: client(layout, seed, &mut up_to),
            validating: ValidatorOptions {
                layout,
                lag_us: 2 * skew_us + up_to(1_500, 5_000),
                // In most worlds slow writes are refused: that is where rules are missed.
                lag_us_max: if seed % 4 == 3 && !restarts { 50_000 } else { 0 },
                ahead_us: 2 * skew_us + 4_000,
                promise_us: if restarts { 6_000 } else { 30_000 },
                keep_us: [12_000, 20_000, 100_000][up_to(0, 2) as usize],
                versions_max: [6, 1_000][up_to(0, 1) as usize],
                recover_us: if restarts { up_to(3_000, 12_000) } else { up_to(20_000, 60_000) },
                literal,
                tells: |_| false,
            },
            keeping: ShardOptions {
                recover_us: up_to(20_000, 60_000),
                decide_us_max: up_to(30_000, 90_000),
                rates_max: 16,
                tells: |key| key.name().ends_with(b"0"),
            },
            keys: (0..keys).map(|n| Key::new(0, format!("{seed}:{n}").as_bytes())).collect(),
            publish_us: up_to(1_000, 3_000),
            lost: if faulty { up_to(0, 20) } else { 0 },
            doubled: if faulty { up_to(0, 20) } else { 0 },
            delay_us: if calmly_strict { 200 } else { up_to(200, 1_500) },
            late: if restarts || calmly_strict { 15 } else { 3 },
        };
        if literal {
            setting.options.rules = Rules { evict: true, ..Rules::PAPER };
            setting.options.freshest = true;
        }
        setting
    }

    /// Its network.
    pub fn network(&self, seed: u64) -> Network {
        let Setting { lost, doubled, delay_us, late, .. } = self;
        Network::new(SplitMix::new(seed ^ 0x006e_6574), *lost, *doubled, *delay_us, *late)
    }
}

fn client(layout: Layout, seed: u64, up_to: &mut impl FnMut(u64, u64) -> u64) -> ClientOptions {
    let lease = up_to(2_000, 30_000) as f64 / 1e6;
    let rule = Leases::Renewed { abort: 3.0, length_max: 0.1, least: 0.0 };
    ClientOptions {
        layout,
        leases: [Leases::Fixed(lease), Leases::Fixed(lease), Leases::Endless, rule][up_to(0, 3) as usize],
        copies_max: 64,
        cacheable: |_| true,
        rules: Rules::FOREBAY,
        freshest: up_to(0, 1) == 1,
        resend_us: up_to(4_000, 8_000),
        wait_us: 4_000,
        give_up_us: 40_000,
        unknown_us: 60_000,
        seed,
    }
}
