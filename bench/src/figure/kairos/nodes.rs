//! What the protocol's cores are told when they are made.

use forebay::txn::optimistic::{ClientOptions, Layout, Shard, ShardOptions};
use forebay::txn::validator::ValidatorOptions;

use super::machine::CLOCK_BEGAN_US;
use super::popularity::{self, Popularity};
use super::setting::{Setting, Told, popular};

/// Documents whose writes a shard counts apart.
const RATES_MAX: usize = 200_000;
/// How far what is closed stays behind the clock: more than a question takes to its validator, and than clocks differ.
const LAG_US: u64 = 4_000;
/// And at most.
const LAG_US_MAX: u64 = 64_000;

/// Of a client.
pub(super) fn client(setting: &Setting, layout: Layout) -> ClientOptions {
    let system = &setting.system;
    ClientOptions {
        layout,
        leases: system.leases,
        copies_max: ((setting.keys as f64 * setting.cache) as usize).max(1),
        cacheable: system.cacheable,
        rules: system.rules,
        // The paper takes the latest moment (section 4.2).
        freshest: system.literal,
        resend_us: 1_000_000,
        wait_us: 1_000,
        give_up_us: 10_000_000,
        unknown_us: 10_000_000,
        seed: setting.seed,
    }
}

/// Of a validator.
pub(super) fn validator(setting: &Setting, layout: Layout) -> ValidatorOptions {
    let tells = setting.system.told == Told::ByValidators;
    ValidatorOptions {
        layout,
        // The paper's validators close nothing.
        lag_us: if setting.system.literal { 1_000_000 } else { LAG_US },
        lag_us_max: LAG_US_MAX,
        ahead_us: 50_000,
        promise_us: 1_000_000,
        keep_us: if setting.system.literal { u64::MAX } else { 60_000_000 },
        versions_max: setting.versions_max,
        recover_us: 10_000_000,
        literal: setting.system.literal,
        tells: if tells { popular } else { |_| false },
    }
}

/// Shards that have counted writes for long.
pub(super) fn shards(setting: &Setting, layout: Layout) -> Vec<Shard> {
    let tells = setting.system.told == Told::ByShards;
    let options = ShardOptions {
        recover_us: 10_000_000,
        decide_us_max: 30_000_000,
        rates_max: RATES_MAX,
        tells: if tells { popular } else { |_| false },
    };
    let mut shards: Vec<Shard> = (0..setting.shards).map(|number| Shard::new(number, options.clone(), 0)).collect();
    let writes = Popularity::new(setting.keys, setting.alpha_write);
    let rate = setting.writes_per_second() / setting.drifted;
    for rank in 0..setting.keys.min(RATES_MAX as u64 * u64::from(setting.shards) / 2) {
        let key = popularity::key(rank);
        let shard = usize::from(layout.shard(&key));
        shards[shard].assume_writes(&key, rate * writes.share(rank), CLOCK_BEGAN_US);
    }
    shards
}
