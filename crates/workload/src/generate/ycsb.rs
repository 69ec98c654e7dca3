//! YCSB's core workloads, an action a transaction, and the variant of the KAIROS paper (section 5).

use fastrand::Rng;

use super::draw::distinct;
use super::{Generate, Options, Transaction, TransactionType, Workload, key};
use crate::popularity::{THETA, Zipf};
use crate::ycsb::{self, Chooser, Mix, Step};

const TABLE: u64 = 1;

/// Transactions and rows if nobody says otherwise.
const DEFAULTS: (u64, u64) = (1_000_000, 100_000);

const UNIT: &str = "rows";

/// Types, by number from 1.
const TYPES: [&str; 5] = ["read", "update", "insert", "scan", "read-modify-write"];

macro_rules! declared {
    ($record:ident, $name:literal, $summary:literal, $mix:expr) => {
        pub(super) static $record: Workload = Workload {
            name: $name,
            summary: $summary,
            scale_unit: UNIT,
            defaults: DEFAULTS,
            types: |_| types(),
            new: |options| Box::new(Ycsb::new($mix, options)),
        };
    };
}

declared!(A, "ycsb-a", "half reads, half updates; Zipf 0.99, scattered", ycsb::A);
declared!(B, "ycsb-b", "95 % reads, 5 % updates; Zipf 0.99, scattered", ycsb::B);
declared!(C, "ycsb-c", "reads only; Zipf 0.99, scattered", ycsb::C);
declared!(D, "ycsb-d", "95 % reads of the latest, 5 % inserts", ycsb::D);
declared!(E, "ycsb-e", "95 % scans of 1 to 100 neighbours, each a level of reads, 5 % inserts", ycsb::E);
declared!(F, "ycsb-f", "half reads, half reads followed by an update of the same row", ycsb::F);

fn types() -> Vec<TransactionType> {
    let with = |name| TransactionType::with(name, &["r", "w:w"], &["r>w"]);
    let flat = TransactionType::flat;
    vec![flat(TYPES[0]), flat(TYPES[1]), flat(TYPES[2]), flat(TYPES[3]), with(TYPES[4])]
}

struct Ycsb {
    rng: Rng,
    chooser: Chooser,
    rows: u64,
}

impl Ycsb {
    fn new(mix: Mix, options: &Options) -> Ycsb {
        let rows = options.scale.max(1);
        Ycsb { rng: Rng::with_seed(options.seed), chooser: Chooser::new(mix, rows, rows), rows }
    }
}

impl Generate for Ycsb {
    fn next(&mut self, transaction: &mut Transaction) {
        match self.chooser.next(self.rows, &mut self.rng) {
            Step::Read(row) => {
                transaction.begin(1);
                transaction.read(0, 0, key(TABLE, row));
            }
            Step::Update(row) => {
                transaction.begin(2);
                transaction.write(0, 0, key(TABLE, row));
            }
            Step::Insert => {
                transaction.begin(3);
                transaction.write(0, 0, key(TABLE, self.rows));
                self.rows += 1;
            }
            Step::Scan(start, count) => {
                transaction.begin(4);
                for row in start..(start + count).min(self.rows) {
                    transaction.read(0, 0, key(TABLE, row));
                }
            }
            Step::Modify(row) => {
                transaction.begin(5);
                transaction.read(0, 1, key(TABLE, row));
                transaction.write(1, 2, key(TABLE, row));
            }
        }
    }
}

/// Keys of each transaction of KAIROS' variant.
const KEYS: usize = 4;

/// Share of its transactions that only read.
const READ_ONLY: f64 = 0.9;

/// Exponent of its transactions that write.
const THETA_WRITES: f64 = 0.5;

pub(super) static KAIROS: Workload = Workload {
    name: "ycsb-kairos",
    summary: "4 keys a transaction, 90 % read-only by Zipf 0.99, the others read and write by Zipf 0.5",
    scale_unit: "keys",
    defaults: (1_000_000, 20_000_000),
    types: |_| vec![TransactionType::flat("read-only"), TransactionType::with("read-write", &["r", "w:w"], &["r>w"])],
    new: |options| Box::new(Kairos::new(options)),
};

struct Kairos {
    rng: Rng,
    reads: Zipf,
    writes: Zipf,
    rows: Vec<u64>,
}

impl Kairos {
    fn new(options: &Options) -> Kairos {
        let keys = options.scale.max(KEYS as u64);
        let (reads, writes) = (Zipf::new(keys, THETA), Zipf::new(keys, THETA_WRITES));
        Kairos { rng: Rng::with_seed(options.seed), reads, writes, rows: Vec::with_capacity(KEYS) }
    }
}

impl Generate for Kairos {
    fn next(&mut self, transaction: &mut Transaction) {
        let Kairos { rng, reads, writes, rows } = self;
        let read_only = rng.f64() < READ_ONLY;
        let popular = if read_only { reads } else { writes };
        rows.clear();
        distinct(rows, KEYS, || popular.draw(rng));
        transaction.begin(if read_only { 1 } else { 2 });
        let vertex = u16::from(!read_only);
        rows.iter().for_each(|&row| transaction.read(0, vertex, key(TABLE, row)));
        if !read_only {
            rows.iter().for_each(|&row| transaction.write(1, 2, key(TABLE, row)));
        }
    }
}
