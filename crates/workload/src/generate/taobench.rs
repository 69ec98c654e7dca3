//! Mixes like those of TAOBench, a model of a social network's store. The files of its product groups were never
//! published. Mixes A, B and C and PG1 have the shapes that the DeToX paper describes (sections 2.1 and 8.2).
//! `taobench-a` and `taobench-o` draw from the two distributions that were published (CC0, audreyccheng/taobench).

use fastrand::Rng;

use super::draw::{Zipf, distinct, weighted};
use super::{Generate, Options, Transaction, TransactionType, Workload};

/// A long read: so many keys of one set and so many of another.
#[derive(Clone, Copy)]
struct Long {
    share: f64,
    from: [(Set, usize); 2],
}

#[derive(Clone, Copy)]
enum Set {
    Hot,
    Warm,
    Third,
    Cold,
}

#[derive(Clone, Copy)]
struct Mix {
    /// Share of the keys that are warm.
    warm: f64,
    /// Share of short reads.
    short: f64,
    long: [Long; 2],
    /// Share of transactions that write one key.
    writes: f64,
}

const A: Mix = Mix {
    warm: 0.12,
    short: 0.60,
    long: [
        Long { share: 0.25, from: [(Set::Hot, 28), (Set::Warm, 4)] },
        Long { share: 0.11, from: [(Set::Third, 28), (Set::Cold, 4)] },
    ],
    writes: 0.04,
};

const B: Mix = Mix {
    warm: 0.12,
    short: 0.60,
    long: [
        Long { share: 0.25, from: [(Set::Hot, 6), (Set::Warm, 4)] },
        Long { share: 0.11, from: [(Set::Third, 36), (Set::Cold, 4)] },
    ],
    writes: 0.04,
};

const C: Mix = Mix {
    warm: 0.18,
    short: 0.50,
    long: [
        Long { share: 0.33, from: [(Set::Hot, 40), (Set::Warm, 4)] },
        Long { share: 0.14, from: [(Set::Third, 40), (Set::Cold, 6)] },
    ],
    writes: 0.03,
};

fn types() -> Vec<TransactionType> {
    ["ShortRead", "LongRead1", "LongRead2", "Write"].map(TransactionType::flat).to_vec()
}

const fn mix(name: &'static str, summary: &'static str, new: fn(&Options) -> Box<dyn Generate>) -> Workload {
    Workload { name, summary, scale_unit: "keys", defaults: (500_000, 100_000), types: |_| types(), new }
}

pub(super) static MIX_A: Workload =
    mix("mix-a", "short reads of hot keys, long ones of hot and warm or of a third set and cold keys", |options| {
        Box::new(Mixed::new(options, A))
    });
/// Mix A whose keys all change their roles after half of the transactions: each becomes the one that stands half of all
/// keys further.
pub(super) static MIX_A_SHIFT: Workload =
    mix("mix-a-shift", "mix-a whose keys change their roles after half of the transactions", |options| {
        Box::new(Mixed { before_shift: options.transactions / 2, ..Mixed::new(options, A) })
    });
pub(super) static MIX_B: Workload =
    mix("mix-b", "as mix-a, with shorter useful and longer useless reads", |options| Box::new(Mixed::new(options, B)));
pub(super) static MIX_C: Workload =
    mix("mix-c", "as mix-a, with more and longer reads and more warm keys", |options| Box::new(Mixed::new(options, C)));

struct Mixed {
    rng: Rng,
    mix: Mix,
    hot: Zipf,
    /// Where warm, third and cold keys begin, and where all end.
    bounds: [u64; 4],
    keys: Vec<u64>,
    /// Transactions until keys change their roles.
    before_shift: u64,
}

impl Mixed {
    fn new(options: &Options, mix: Mix) -> Mixed {
        let keys = options.scale.max(1000) as f64;
        let bounds = [0.08, 0.08 + mix.warm, 0.43 + mix.warm, 1.0].map(|share| (share * keys) as u64);
        let hot = Zipf::new(bounds[0], 0.9);
        Mixed { rng: Rng::with_seed(options.seed), mix, hot, bounds, keys: Vec::new(), before_shift: u64::MAX }
    }

    fn add(&mut self, set: Set, count: usize) {
        let Mixed { rng, hot, bounds, keys, .. } = self;
        distinct(keys, count, || match set {
            Set::Hot => hot.draw(rng),
            Set::Warm => rng.u64(bounds[0]..bounds[1]),
            Set::Third => rng.u64(bounds[1]..bounds[2]),
            Set::Cold => rng.u64(bounds[2]..bounds[3]),
        });
    }
}

impl Generate for Mixed {
    fn next(&mut self, transaction: &mut Transaction) {
        let Mix { short, long, writes, .. } = self.mix;
        let of_type = weighted(&mut self.rng, &[short, long[0].share, long[1].share, writes]);
        transaction.begin(of_type as u16 + 1);
        self.keys.clear();
        match of_type {
            0 => {
                let count = if self.rng.u32(0..3) < 2 { 1 } else { self.rng.usize(2..=9) };
                self.add(Set::Hot, count);
            }
            1 | 2 => long[of_type - 1].from.into_iter().for_each(|(set, count)| self.add(set, count)),
            _ => return transaction.write(0, 0, self.rng.u64(0..self.bounds[3])),
        }
        let all = self.bounds[3];
        let shift = if self.before_shift == 0 { all / 2 } else { 0 };
        self.before_shift = self.before_shift.saturating_sub(1);
        self.keys.iter().for_each(|&key| transaction.read(0, 0, (key + shift) % all));
    }
}

/// Nearly all transactions have at most four keys: 59 % read one, 25 % read 2 to 4 hot keys, 13 % as many of which one
/// is warm, 3 % write one. Keys are divided as in mix A.
pub(super) static PG1: Workload = mix("pg1", "point reads and reads of two to four keys; nothing to gain", |options| {
    Box::new(ProductGroup1(Mixed::new(options, A)))
});

struct ProductGroup1(Mixed);

impl Generate for ProductGroup1 {
    fn next(&mut self, transaction: &mut Transaction) {
        let mixed = &mut self.0;
        let of_type = weighted(&mut mixed.rng, &[0.59, 0.25, 0.13, 0.03]);
        transaction.begin(of_type as u16 + 1);
        mixed.keys.clear();
        let size = 2 + weighted(&mut mixed.rng, &[0.4, 0.35, 0.25]);
        match of_type {
            0 => mixed.add(Set::Hot, 1),
            1 => mixed.add(Set::Hot, size),
            2 => {
                mixed.add(Set::Hot, size - 1);
                mixed.add(Set::Warm, 1);
            }
            _ => return transaction.write(0, 0, mixed.rng.u64(0..mixed.bounds[3])),
        }
        mixed.keys.iter().for_each(|&key| transaction.read(0, 0, key));
    }
}

const fn published(name: &'static str, summary: &'static str, new: fn(&Options) -> Box<dyn Generate>) -> Workload {
    Workload {
        name,
        summary,
        scale_unit: "keys of each of 50 shards",
        defaults: (500_000, 2_000),
        types: |_| ["Read", "Write", "ReadTransaction", "WriteTransaction"].map(TransactionType::flat).to_vec(),
        new,
    }
}

pub(super) static WORKLOAD_A: Workload =
    published("taobench-a", "TAOBench's published workload A: sizes to 500 keys, skewed over shards", |options| {
        Box::new(Published::new(options, include_str!("taobench/workload_a.json")))
    });
pub(super) static WORKLOAD_O: Workload =
    published("taobench-o", "TAOBench's published workload O: nearly all reads", |options| {
        Box::new(Published::new(options, include_str!("taobench/workload_o.json")))
    });

/// Operations and sizes of transactions as published; a key is drawn uniformly from a shard, a shard by the published
/// weights of primary shards.
struct Published {
    rng: Rng,
    operations: Vec<f64>,
    read_sizes: Vec<f64>,
    write_sizes: Vec<f64>,
    shards: Vec<f64>,
    keys_per_shard: u64,
    keys: Vec<u64>,
}

impl Published {
    fn new(options: &Options, distributions: &str) -> Published {
        let weights = |name: &str| {
            let lines = distributions.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            let found = lines.into_iter().find(|line| line["name"] == name);
            let weights = found.as_ref().and_then(|line| line["weights"].as_array());
            weights.into_iter().flatten().filter_map(serde_json::Value::as_f64).collect::<Vec<f64>>()
        };
        Published {
            rng: Rng::with_seed(options.seed),
            operations: weights("operations"),
            read_sizes: weights("read_txn_sizes"),
            write_sizes: weights("write_txn_sizes"),
            shards: weights("primary_shards"),
            keys_per_shard: options.scale.max(100),
            keys: Vec::new(),
        }
    }
}

impl Generate for Published {
    fn next(&mut self, transaction: &mut Transaction) {
        let Published { rng, operations, read_sizes, write_sizes, shards, keys_per_shard, keys } = self;
        let of_type = weighted(rng, operations);
        transaction.begin(of_type as u16 + 1);
        keys.clear();
        // Sizes begin at 1.
        let size = match of_type {
            2 => weighted(rng, read_sizes) + 1,
            3 => weighted(rng, write_sizes) + 1,
            _ => 1,
        };
        distinct(keys, size, || weighted(rng, shards) as u64 * *keys_per_shard + rng.u64(0..*keys_per_shard));
        for &key in keys.iter() {
            match of_type % 2 {
                0 => transaction.read(0, 0, key),
                _ => transaction.write(0, 0, key),
            }
        }
    }
}
