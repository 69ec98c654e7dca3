//! Clocks that differ, and a network that is not to be relied on.

use std::collections::BTreeMap;

use forebay::runtime::simulated::SplitMix;
use forebay::txn::optimistic::Node;

/// What each node's clock shows at first, give or take the skew.
const BEGAN_US: i64 = 1_000_000_000_000;

/// The clock of one node.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset_us: i64,
    pub drift_ppm: i64,
}

impl Clock {
    /// A clock that is at most `skew_us` off, and drifts by at most 200 us in a second.
    pub fn any(random: &mut SplitMix, skew_us: u64) -> Clock {
        let offset_us = random.below(2 * skew_us + 1) as i64 - skew_us as i64;
        Clock { offset_us, drift_ppm: random.below(401) as i64 - 200 }
    }

    /// What it shows at `at_us`.
    pub fn now_us(self, at_us: u64) -> u64 {
        let at_us = at_us as i64;
        u64::try_from(BEGAN_US + at_us + at_us * self.drift_ppm / 1_000_000 + self.offset_us).unwrap_or(0)
    }
}

/// What becomes of messages.
pub struct Network {
    pub random: SplitMix,
    /// Of 1,000 messages so many are lost, and so many come twice.
    pub lost: u64,
    pub doubled: u64,
    /// Usual delays are below that.
    pub delay_us: u64,
    /// Of 100 messages so many are late.
    pub late: u64,
    /// From one node to another nothing arrives until then.
    cut: BTreeMap<(Node, Node), u64>,
}

impl Network {
    pub fn new(random: SplitMix, lost: u64, doubled: u64, delay_us: u64, late: u64) -> Network {
        Network { random, lost, doubled, delay_us, late, cut: BTreeMap::new() }
    }

    /// Until `until_us` nothing gets from one to the other; the other direction stays as it is.
    pub fn cut(&mut self, from: Node, to: Node, until_us: u64) {
        self.cut.insert((from, to), until_us);
    }

    /// All messages arrive, soon and once, from now on.
    pub fn heal(&mut self) {
        (self.lost, self.doubled, self.late) = (0, 0, 0);
        self.cut.clear();
    }

    /// When a message that is sent at `now_us` arrives: never, once or twice.
    pub fn arrivals(&mut self, from: Node, to: Node, now_us: u64) -> Vec<u64> {
        if self.cut.get(&(from, to)).is_some_and(|until_us| now_us < *until_us) || self.random.below(1000) < self.lost {
            return Vec::new();
        }
        let times = 1 + u64::from(self.random.below(1000) < self.doubled);
        (0..times).map(|_| now_us + self.delay()).collect()
    }

    fn delay(&mut self) -> u64 {
        let late = self.random.below(100) < self.late;
        if late { self.random.below(25_000) } else { 50 + self.random.below(self.delay_us) }
    }
}
