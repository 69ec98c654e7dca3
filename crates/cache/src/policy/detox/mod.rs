//! DeToX: keys are worth what the groups that they are in save whole transactions (OSDI'23, sections 4, 5 and 8.4).
//!
//! When a transaction ends, each of its groups scores `least frequency * hits / size`. Its keys get that as their
//! instance score (`learned.rs`, and `graph/` where the type's graph is known). A key's score is the mean of its
//! instance scores plus an age that rises with each victim. Of a pool of candidates the lowest goes (`order.rs`). How
//! often a key was asked for, and its sum of instance scores, are remembered for a while after it left
//! (`../remembered.rs`).
//!
//! Each partition's order has an age, the greatest score of its victims. An order with few entries now and then has to
//! evict what is worth much. With one age for all orders such victims would raise it for all, and it would drown the
//! group scores. No score of one order is compared with one of another.
//!
//! There are three departures from the paper, each a parameter, since its formula as printed does not give its
//! figures. The age counts with a factor of 0.9 (with 1 it drowns the group scores). Candidates are kept between
//! evictions. What is known of a key outlives it. `detox-paper-literal` has none of the three. A level enters as a
//! whole: a newcomer displaces nothing of the level that it belongs to. Where that level is worth least of all that
//! is looked at, the newcomer stays out. Writes take no part, as they save no round trip.

mod asking;
mod learned;
mod order;
mod shown;
mod tuning;

use std::any::Any;
use std::sync::Arc;

use super::{Hits, Learned, Order, Parameter, Policy, Settings};
use crate::graph::GroupFrequency;
use learned::Transactions;
use order::{Detox, SLOT_BYTES};
use tuning::{Aggregate, Grouping, Tuning};

const SOURCE: &str = "Cheng et al.: Take out the TraChe, maximizing transactional cache hit rate, OSDI 2023";

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

static PARAMETERS: [Parameter; 11] = parameters(0.9, 16.0, 3.0, 0.0);
static LITERAL: [Parameter; 11] = parameters(1.0, 0.0, 0.0, 0.0);

const fn parameter(name: &'static str, summary: &'static str, default: f64, range: (f64, f64)) -> Parameter {
    Parameter { name, summary, default, range }
}

const fn parameters(factor: f64, pool: f64, ghosts: f64, patience: f64) -> [Parameter; 11] {
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
        parameter(
            "patience",
            "a key that stays away so many times longer than it used to is worth no more than its age; 0: never",
            patience,
            (0.0, 1.0e6),
        ),
        parameter("seed", "seed of the samples", 0.0, (0.0, 1.0e9)),
        parameter(
            "metadata-share",
            "remembered keys take no more than this share of what the entries weigh, where bytes are counted",
            0.05,
            (0.0, 1.0),
        ),
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
            patience: value(8),
            seed: value(9) as u64,
            share: value(10),
        }
    }
}

fn transactions(settings: &Settings, grouping: Grouping) -> Arc<dyn Learned> {
    Arc::new(Transactions::new(grouping, Tuning::of(settings).frequency))
}

fn order(settings: &Settings, learned: Arc<dyn Learned>, admits: bool) -> Box<dyn Order> {
    let any: Arc<dyn Any + Send + Sync> = learned;
    // A caller that hands over another policy's part gets an order that knows no transaction but its own.
    let transactions = any
        .downcast::<Transactions>()
        .unwrap_or_else(|_| Arc::new(Transactions::new(Grouping::Levels, GroupFrequency::Min)));
    Box::new(Detox::new(settings, Tuning::of(settings), transactions, admits))
}
