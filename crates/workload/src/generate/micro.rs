//! The paper's microbenchmarks (section 8.3).

use fastrand::Rng;

use super::draw::Zipf;
use super::{Generate, Options, Transaction, TransactionType, Workload, key};

/// Keys of microbenchmark 1.
const KEYS_1: u64 = 10_000_000;

/// a -> b, a -> c -> d -> ..: the worst case for listing groups. `scale` is the number of vertices.
pub(super) static MICRO_1: Workload = Workload {
    name: "micro1",
    summary: "a -> b beside a -> c -> d -> .., uniform over 10 million keys; very many groups",
    scale_unit: "keys of a transaction",
    defaults: (100_000, 15),
    types: |scale| {
        let count = vertices(scale);
        let edges = [(0, 1), (0, 2)].into_iter().chain((3..count).map(|v| (v - 1, v)));
        let names = (0..count).map(|v| (format!("v{v}"), false)).collect();
        vec![TransactionType { name: "branches", vertices: names, edges: edges.collect() }]
    },
    new: |options| Box::new(Micro1 { rng: Rng::with_seed(options.seed), vertices: vertices(options.scale) }),
};

/// From 4, the graph of figure 6a, to as many as a graph may have.
fn vertices(scale: u64) -> u16 {
    scale.clamp(4, forebay::graph::VERTICES_MAX as u64) as u16
}

struct Micro1 {
    rng: Rng,
    vertices: u16,
}

impl Generate for Micro1 {
    fn next(&mut self, transaction: &mut Transaction) {
        transaction.begin(1);
        for v in 0..self.vertices {
            // b and c are asked for together.
            let level = if v < 2 { v } else { v - 1 };
            transaction.read(level, v + 1, key(1, self.rng.u64(0..KEYS_1)));
        }
    }
}

/// Figure 6a with hot a and c, cold b and d: the worst case for levels. `scale` is keys of each of the four tables.
pub(super) static MICRO_2: Workload = Workload {
    name: "micro2",
    summary: "a -> b beside a -> c -> d; a and c Zipf 0.99, b and d uniform; the worst case for levels",
    scale_unit: "keys of each of four tables",
    defaults: (1_000_000, 100_000),
    types: |_| vec![TransactionType::with("figure-6a", &["a", "b", "c", "d"], &["a>b", "a>c", "c>d"])],
    new: |options| Box::new(Micro2::new(options)),
};

struct Micro2 {
    rng: Rng,
    rows: u64,
    hot: Zipf,
}

impl Micro2 {
    fn new(options: &Options) -> Micro2 {
        let rows = options.scale.max(1);
        Micro2 { rng: Rng::with_seed(options.seed), rows, hot: Zipf::new(rows, 0.99) }
    }
}

impl Generate for Micro2 {
    fn next(&mut self, transaction: &mut Transaction) {
        transaction.begin(1);
        transaction.read(0, 1, key(1, self.hot.draw(&mut self.rng)));
        transaction.read(1, 2, key(2, self.rng.u64(0..self.rows)));
        transaction.read(1, 3, key(3, self.hot.draw(&mut self.rng)));
        transaction.read(2, 4, key(4, self.rng.u64(0..self.rows)));
    }
}
