//! Figures of "Lightweight Inter-transaction Caching with Precise Clocks and Dynamic Self-invalidation" (KAIROS),
//! section 5, by discrete-event simulation of the protocol's cores. `docs/papers/kairos.md` says what they show.
//!
//! * `charts.rs`: the figures; `runs.rs` runs their settings;
//! * `setting.rs`: machines, costs, workload, and the systems that are compared; `measured.rs` measures the costs;
//! * `world.rs`: the simulation; `machine.rs`, `application.rs`, `nodes.rs` and `popularity.rs` are its parts;
//! * `lease.rs`: the length of leases by the formula, and at random; `rule.rs`: rules for it, in a model of one client;
//! * `sizes.rs`: bytes of messages.

mod application;
mod charts;
mod lease;
mod machine;
mod measured;
mod nodes;
mod outcome;
mod popularity;
mod rule;
mod runs;
mod setting;
mod sizes;
mod world;

use super::{Chart, Failed, Figure, Scale, Series};

pub(super) static FIGURES: [Figure; 18] = [
    Figure { name: "kairos-5", summary: "The best length of a lease", make: |scale| Ok(lease::figure_5(scale)) },
    Figure {
        name: "kairos-8",
        summary: "Throughput by the share of transactions that only read",
        make: |scale| Ok(charts::figure_8(scale)),
    },
    Figure {
        name: "kairos-9a",
        summary: "Throughput by the skew of reads",
        make: |scale| Ok(charts::figure_9a(scale)),
    },
    Figure {
        name: "kairos-9b",
        summary: "Throughput by the skew of writes",
        make: |scale| Ok(charts::figure_9b(scale)),
    },
    Figure { name: "kairos-10", summary: "Commit rate by load", make: |scale| Ok(charts::figure_10(scale)) },
    Figure {
        name: "kairos-11a",
        summary: "Throughput by the number of clients",
        make: |scale| Ok(charts::figure_11a(scale)),
    },
    Figure {
        name: "kairos-11b",
        summary: "Hits and invalidations by the number of clients",
        make: |scale| Ok(charts::figure_11b(scale)),
    },
    Figure { name: "kairos-12", summary: "Hits by the size of caches", make: |scale| Ok(charts::figure_12(scale)) },
    Figure { name: "kairos-13", summary: "Lengths of leases", make: |scale| Ok(charts::figure_13(scale)) },
    Figure {
        name: "kairos-rules",
        summary: "From the paper's system to forebay's, rule by rule",
        make: |scale| Ok(charts::rules(scale)),
    },
    Figure {
        name: "kairos-goals",
        summary: "What goals hang on, by five seeds",
        make: |scale| Ok(charts::goals(scale)),
    },
    Figure {
        name: "kairos-leases",
        summary: "Rules for the length of leases, in steady state",
        make: |scale| Ok(rule::figure(scale)),
    },
    Figure { name: "kairos-clocks", summary: "Clocks that are wrong", make: |scale| Ok(charts::clocks(scale)) },
    Figure {
        name: "kairos-routing",
        summary: "Requests that go where their keys are",
        make: |scale| Ok(charts::routing(scale)),
    },
    Figure {
        name: "kairos-drift",
        summary: "Writes that have become more frequent, or rarer",
        make: |scale| Ok(charts::drift(scale)),
    },
    Figure {
        name: "kairos-budget",
        summary: "Validators that remember few versions",
        make: |scale| Ok(charts::budget(scale)),
    },
    Figure {
        name: "kairos-live",
        summary: "One server and ten clients, as they are measured live",
        make: |scale| Ok(charts::live(scale)),
    },
    Figure { name: "kairos-costs", summary: "What the work of servers and clients costs", make: charts::costs },
];
