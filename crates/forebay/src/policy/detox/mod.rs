//! DeToX: keys are worth what the groups that they are in save whole transactions (OSDI'23, sections 4, 5 and 8.4).
//!
//! When a transaction ends, each of its groups scores `least frequency * hits / size`, and its keys get that as their
//! instance score (`learned.rs`, and `graph/` where the type's graph is known). A key's score is the mean of its
//! instance scores plus an age that rises with each victim; of a pool of candidates the lowest goes (`order.rs`). How
//! often a key was asked for, and its sum of instance scores, are remembered for a while after it left
//! (`remembered.rs`).
//!
//! Departures from the paper, each a parameter, since its formula as printed does not give its figures: the age counts
//! with a factor of 0.9 (with 1 it drowns the group scores), candidates are kept between evictions, and what is known
//! of a key outlives it. `detox-paper-literal` has none of the three. A level enters as a whole: a newcomer displaces
//! nothing of its own transaction's level. Writes take no part, as they save no round trip.

mod learned;
mod order;
mod remembered;

use std::any::Any;
use std::sync::Arc;

use super::{Hits, Learned, Order, Parameter, Policy, Settings};
use crate::graph::GroupFrequency;
use learned::Transactions;
use order::{Detox, SLOT_BYTES};

const SOURCE: &str = "Cheng et al.: Take out the TraChe, maximizing transactional cache hit rate, OSDI 2023";

/// What is scored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// Complete groups of the type's graph, or levels where there is none.
    Groups,
    /// What was asked for at the same time (section 5.2).
    Levels,
    /// All keys of the transaction: the paper's T-DeToX.
    Transaction,
    /// All keys of the transaction, by the number of those of its last level that are cached: the LIFE of the paper's
    /// artifact.
    LastLevel,
}

/// How instance scores become one (section 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Average,
    Max,
    Min,
    Median,
    /// What the last transaction gave; what none has given one yet is not looked at as long as anything else is there.
    Last,
}

/// The values of the parameters, which all forms share.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    factor: f64,
    pool: usize,
    sample: usize,
    ghosts: f64,
    frequency: GroupFrequency,
    aggregate: Aggregate,
    /// Count in steps that get rarer, as Redis does.
    logarithmic: bool,
    /// Accesses per entry in which what is known of a key loses half its weight; 0: never.
    half_life: f64,
    seed: u64,
}

/// All forms, in the order of the table.
pub(super) static POLICIES: [Policy; 5] = [
    Policy {
        name: "detox",
        summary: "keeps together what transactions need together; highest transactional hit rate",
        source: SOURCE,
        hits: Hits::Accesses,
        entry_bytes: SLOT_BYTES,
        parameters: &PARAMETERS,
        learned: |settings| transactions(settings, Grouping::Groups),
        order: |settings, learned| order(settings, learned, false),
    },
    Policy {
        name: "detox-levels",
        summary: "detox that knows no graphs: what is asked for at the same time is one group",
        source: SOURCE,
        hits: Hits::Accesses,
        entry_bytes: SLOT_BYTES,
        parameters: &PARAMETERS,
        learned: |settings| transactions(settings, Grouping::Levels),
        order: |settings, learned| order(settings, learned, false),
    },
    Policy {
        name: "t-detox",
        summary: "detox that scores all keys of a transaction together; to compare with",
        source: SOURCE,
        hits: Hits::Accesses,
        entry_bytes: SLOT_BYTES,
        parameters: &PARAMETERS,
        learned: |settings| transactions(settings, Grouping::Transaction),
        order: |settings, learned| order(settings, learned, false),
    },
    Policy {
        name: "detox+admit",
        summary: "detox that keeps newcomers out which are worth less than what they would displace",
        source: SOURCE,
        hits: Hits::Accesses,
        entry_bytes: SLOT_BYTES,
        parameters: &PARAMETERS,
        learned: |settings| transactions(settings, Grouping::Groups),
        order: |settings, learned| order(settings, learned, true),
    },
    Policy {
        name: "detox-paper-literal",
        summary: "detox exactly as printed: full age, no pool, nothing remembered; to compare with",
        source: SOURCE,
        hits: Hits::Accesses,
        entry_bytes: SLOT_BYTES,
        parameters: &LITERAL,
        learned: |settings| transactions(settings, Grouping::Groups),
        order: |settings, learned| order(settings, learned, false),
    },
];

/// `score = 1 / (S + 1)`, S the keys of the last level that are cached when its transaction ends; no age, nothing
/// remembered, the same pool and samples: what the paper compares with under the name of LIFE.
pub(super) static LIFE_ARTIFACT: Policy = Policy {
    name: "life-artifact",
    summary: "LIFE as DeToX' authors built it: what was asked for with many others goes first; to compare with",
    source: SOURCE,
    hits: Hits::Accesses,
    entry_bytes: SLOT_BYTES,
    parameters: &[
        parameter("pool", "candidates kept between evictions; 0: only the sample", 16.0, (0.0, 64.0)),
        parameter("sample", "entries looked at for each victim", 10.0, (1.0, 1024.0)),
        parameter("seed", "seed of the samples", 0.0, (0.0, 1.0e9)),
    ],
    learned: |_| Arc::new(Transactions::new(Grouping::LastLevel, GroupFrequency::Min)),
    order: |settings, learned| order_of(settings, Tuning::of_life(settings), learned, false),
};

static PARAMETERS: [Parameter; 9] = parameters(0.9, 16.0, 3.0);
static LITERAL: [Parameter; 9] = parameters(1.0, 0.0, 0.0);

const fn parameter(name: &'static str, summary: &'static str, default: f64, range: (f64, f64)) -> Parameter {
    Parameter { name, summary, default, range }
}

const fn parameters(factor: f64, pool: f64, ghosts: f64) -> [Parameter; 9] {
    [
        parameter("factor", "how much of the age counts", factor, (0.0, 1.0)),
        parameter("pool", "candidates kept between evictions; 0: only the sample", pool, (0.0, 64.0)),
        parameter("sample", "entries looked at for each victim", 10.0, (1.0, 1024.0)),
        parameter("ghosts", "keys remembered after they left, as a share of the entries", ghosts, (0.0, 16.0)),
        parameter("instance", "frequency of a group: 0 least, 1 mean, 2 greatest, 3 median", 0.0, (0.0, 3.0)),
        parameter("aggregate", "of instance scores: 0 mean, 1 greatest, 2 least, 3 median", 0.0, (0.0, 3.0)),
        parameter("log", "1: count frequency in steps that get rarer, as Redis does; 0: exactly", 0.0, (0.0, 1.0)),
        parameter(
            "half-life",
            "accesses, for each entry, in which what is known of a key loses half its weight; 0: never",
            0.0,
            (0.0, 1.0e6),
        ),
        parameter("seed", "seed of the samples", 0.0, (0.0, 1.0e9)),
    ]
}

impl Tuning {
    fn of(settings: &Settings) -> Tuning {
        let value = |place: usize| settings.values.get(place).copied().unwrap_or(PARAMETERS[place].default);
        Tuning {
            factor: value(0),
            pool: value(1) as usize,
            sample: value(2) as usize,
            ghosts: value(3),
            frequency: match value(4).round() as u8 {
                0 => GroupFrequency::Min,
                1 => GroupFrequency::Average,
                2 => GroupFrequency::Max,
                _ => GroupFrequency::Median,
            },
            aggregate: match value(5).round() as u8 {
                0 => Aggregate::Average,
                1 => Aggregate::Max,
                2 => Aggregate::Min,
                _ => Aggregate::Median,
            },
            logarithmic: value(6) >= 0.5,
            half_life: value(7),
            seed: value(8) as u64,
        }
    }
}

impl Tuning {
    fn of_life(settings: &Settings) -> Tuning {
        let value = |place: usize| settings.values.get(place).copied();
        Tuning {
            factor: 0.0,
            pool: value(0).unwrap_or(LIFE_ARTIFACT.parameters[0].default) as usize,
            sample: value(1).unwrap_or(LIFE_ARTIFACT.parameters[1].default) as usize,
            ghosts: 0.0,
            frequency: GroupFrequency::Min,
            aggregate: Aggregate::Last,
            logarithmic: false,
            half_life: 0.0,
            seed: value(2).unwrap_or(0.0) as u64,
        }
    }
}

fn transactions(settings: &Settings, grouping: Grouping) -> Arc<dyn Learned> {
    Arc::new(Transactions::new(grouping, Tuning::of(settings).frequency))
}

fn order(settings: &Settings, learned: Arc<dyn Learned>, admits: bool) -> Box<dyn Order> {
    order_of(settings, Tuning::of(settings), learned, admits)
}

fn order_of(settings: &Settings, tuning: Tuning, learned: Arc<dyn Learned>, admits: bool) -> Box<dyn Order> {
    let any: Arc<dyn Any + Send + Sync> = learned;
    // Who hands over another policy's part gets an order that knows no transaction but its own.
    let transactions = any
        .downcast::<Transactions>()
        .unwrap_or_else(|_| Arc::new(Transactions::new(Grouping::Levels, GroupFrequency::Min)));
    Box::new(Detox::new(settings, tuning, transactions, admits))
}
