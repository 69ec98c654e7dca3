//! CLIC: client-informed caching (Liu, Aboulnaga, Li, Salem, FAST 2009). Clients attach hint sets to their requests.
//! What a hint set is worth is learned from what became of the pages that were requested with it.
//!
//! | part | paper |
//! |---|---|
//! | `learned.rs`: N, Nr, D and priorities of hint sets, by windows | 3, 3.1, 3.2 |
//! | `outqueue.rs`: last requests of pages that are not cached | 3.1 |
//! | `ranked.rs`: replacement in constant time | 4, figure 4 |
//! | `space_saving.rs`: only the k most frequent hint sets | 5 |
//! | `tree.rs`, `sample.rs`, `memory.rs`: hint sets in groups | left open in 6.3 and 8 |
//! | `curve.rs`, `aged.rs`, `minima.rs`: what a page is worth at its age | beyond it |
//! | `followed.rs`: of which requests the outcomes are noted | beyond it |
//! | `meanings.rs`, `cells.rs`: what hint sets stand for | 2 |
//!
//! `clic` and `clic-top-k` are the paper to the letter. The paper leaves two things open. A page that enters the
//! outqueue again moves to its newest end. A demote or a write is a write re-reference, a prefetch a read one.

mod aged;
mod cells;
mod curve;
mod followed;
mod learned;
mod meanings;
mod memory;
mod minima;
#[cfg(test)]
mod model;
mod outcome;
mod outqueue;
mod ranked;
mod sample;
mod space_saving;
mod table;
mod tracker;
mod tree;

use std::sync::Arc;

use super::{Hits, Order, Parameter, Policy, Settings};
use aged::{Aged, Shape};
use cells::Cells;
use learned::{Config, Hints, Method};
use ranked::Ranked;
use tracker::Tracker;

const SOURCE: &str = "Liu, Aboulnaga, Li, Salem: CLIC, client-informed caching for storage servers, FAST 2009";

const WINDOW: Parameter = Parameter {
    name: "window",
    summary: "requests after which priorities are adjusted (W)",
    default: 100_000.0,
    range: (1.0, 1.0e12),
};
const DECAY: Parameter = Parameter {
    name: "decay",
    summary: "how much the last window counts (r); 1: nothing else does",
    default: 1.0,
    range: (0.001, 1.0),
};
const OUT: Parameter = Parameter {
    name: "out",
    summary: "pages remembered that are not cached (Noutq), for each one that is",
    default: 5.0,
    range: (0.0, 100.0),
};
const CHARGE: Parameter = Parameter {
    name: "charge",
    summary: "share of the capacity that metadata costs, where entries are counted; bytes are charged as they are",
    default: 0.01,
    range: (0.0, 0.9),
};
const K: Parameter =
    Parameter { name: "k", summary: "hint sets that are tracked at a time", default: 100.0, range: (1.0, 1.0e6) };
const SAMPLE: Parameter = Parameter {
    name: "sample",
    summary: "outcomes of requests drawn of each window",
    default: 16_384.0,
    range: (64.0, 1.0e6),
};
const LEAVES: Parameter =
    Parameter { name: "leaves", summary: "groups of hint sets, at most", default: 100.0, range: (1.0, 4096.0) };
const SEED: Parameter =
    Parameter { name: "seed", summary: "seed of the samples", default: 0.0, range: (0.0, 1_000_000_000.0) };

/// A parameter's value, or its default.
fn value(settings: &Settings, parameters: &[Parameter], name: &str) -> f64 {
    let found = parameters.iter().position(|parameter| parameter.name == name);
    let given = found.and_then(|at| settings.values.get(at).or(parameters.get(at).map(|known| &known.default)));
    given.copied().unwrap_or_default()
}

fn config(settings: &Settings, parameters: &[Parameter], method: Method) -> Config {
    let value = |name| value(settings, parameters, name);
    Config {
        method,
        window: value("window") as u64,
        decay: value("decay"),
        sample: value("sample") as usize,
        keep: value("keep"),
        leaves: value("leaves") as usize,
        cells: Cells { with_past: value("past") != 0.0 },
        seed: value("seed") as u64,
    }
}

fn ranked(
    settings: &Settings,
    parameters: &[Parameter],
    config: Config,
    learned: Arc<dyn super::Learned>,
) -> Box<dyn Order> {
    let value = |name| value(settings, parameters, name);
    Box::new(Ranked::new(settings, value("charge"), value("out"), Tracker::new(learned, config)))
}

/// All hint sets, each by itself.
pub static CLIC: Policy = Policy {
    name: "clic",
    summary: "learns what hints of clients are worth; tracks every hint set",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: ranked::ENTRY_BYTES,
    parameters: EVERY,
    learned: |settings| Arc::new(Hints::new(config(settings, EVERY, Method::Every))),
    order: |settings, learned| ranked(settings, EVERY, config(settings, EVERY, Method::Every), learned),
};
const EVERY: &[Parameter] = &[WINDOW, DECAY, OUT, CHARGE];

/// The most frequent hint sets.
pub static CLIC_TOP_K: Policy = Policy {
    name: "clic-top-k",
    summary: "CLIC that tracks the k most frequent hint sets",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: ranked::ENTRY_BYTES,
    parameters: FREQUENT,
    learned: |settings| Arc::new(Hints::new(frequent(settings))),
    order: |settings, learned| ranked(settings, FREQUENT, frequent(settings), learned),
};
const FREQUENT: &[Parameter] = &[K, WINDOW, DECAY, OUT, CHARGE];

fn frequent(settings: &Settings) -> Config {
    config(settings, FREQUENT, Method::Frequent(value(settings, FREQUENT, "k") as usize))
}

/// Groups of hint sets.
pub static CLIC_TREE: Policy = Policy {
    name: "clic-tree",
    summary: "CLIC that groups hint sets by a tree over hint values; useless hint types do no harm",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: ranked::ENTRY_BYTES,
    parameters: GROUPED,
    learned: |settings| Arc::new(Hints::new(config(settings, GROUPED, Method::Grouped))),
    order: |settings, learned| ranked(settings, GROUPED, config(settings, GROUPED, Method::Grouped), learned),
};
const GROUPED: &[Parameter] = &[
    WINDOW,
    OUT,
    CHARGE,
    SAMPLE,
    Parameter {
        name: "keep",
        summary: "the share of its weight that an outcome has a window later; none where that foretells more",
        default: 0.85,
        range: (0.0, 0.999),
    },
    LEAVES,
    SEED,
];

/// Groups of hint sets, with a worth by age.
pub static CLIC_G: Policy = Policy {
    name: "clic-g",
    summary: "groups of hint sets, and what a page is worth at its age; the best of this family",
    source: "CLIC's hints, with the ages of Beckmann, Chen, Cidon: LHD, NSDI 2018, as an index of Gittins",
    hits: Hits::Accesses,
    entry_bytes: aged::ENTRY_BYTES,
    parameters: AGED,
    learned: |settings| Arc::new(Hints::new(config(settings, AGED, Method::Aged))),
    order: |settings, learned| {
        let value = |name| value(settings, AGED, name);
        let shape = Shape { charge: value("charge"), out: value("out") };
        let tracker = Tracker::new(learned, config(settings, AGED, Method::Aged));
        Box::new(Aged::new(settings, shape, tracker))
    },
};
const AGED: &[Parameter] = &[
    WINDOW,
    OUT,
    CHARGE,
    SAMPLE,
    Parameter {
        name: "keep",
        summary: "the share of its weight that an outcome has a window later",
        default: 0.9,
        range: (0.0, 0.999),
    },
    LEAVES,
    Parameter {
        name: "past",
        summary: "1: how often and how long ago a page was asked for are hints, too; 0: only those of clients",
        default: 0.0,
        range: (0.0, 1.0),
    },
    SEED,
];
