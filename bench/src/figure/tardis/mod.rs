//! Figures of "Teleporting Failed Writes with Cache Augmented Data Stores" (TARDIS), section 4, and what forebay adds
//! to them. `docs/papers/tardis.md` says what they show. Each starts a separate PostgreSQL, durable as by default,
//! and the program in front of it (`site.rs`). Load comes from this process.
//!
//! * `outages.rs`: failed writes (table 1), throughput before, while and after the database is away (figure 6);
//! * `memory.rs`: what buffered writes take (figure 4);
//! * `recovery.rs`: how long it takes to carry them over (figure 5), and what that costs the others;
//! * `normal.rs`: what the gate and write-back cost while all is well, and what the cache gains.

mod local;
mod loops;
mod memory;
mod normal;
mod outages;
mod recovery;
#[path = "../../../../tests/common/postgres.rs"]
mod server;
mod site;

use super::{Chart, Figure, Scale, Series};

pub(super) static FIGURES: [Figure; 8] = [
    Figure { name: "tardis-table-1", summary: "Failed writes without and with forebay", make: outages::table },
    Figure { name: "tardis-4", summary: "Buffered writes and the memory that they take", make: memory::make },
    Figure { name: "tardis-5", summary: "Recovery time by workers and batch", make: recovery::grid },
    Figure { name: "tardis-6", summary: "Throughput in normal, failed and recovery mode", make: outages::throughput },
    Figure { name: "tardis-gate", summary: "What the gate costs while all is well", make: normal::gate },
    Figure { name: "tardis-write-back", summary: "Write-back: durability and age", make: normal::write_back },
    Figure {
        name: "tardis-drain",
        summary: "Carrying over 100,000 writes, and the others' p99",
        make: recovery::drain,
    },
    Figure { name: "tardis-cached", summary: "YCSB B and C, cached and not", make: normal::cached },
];

/// How much, at this scale.
fn scaled<T>(scale: Scale, reduced: T, full: T) -> T {
    if scale == Scale::Full { full } else { reduced }
}

fn series(name: &str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), points, ..Series::default() }
}

/// A series of bars.
fn bars(name: &str, values: &[f64]) -> Series {
    series(name, (0..).map(f64::from).zip(values.iter().copied()).collect())
}

/// A chart of bars over names.
fn barred(title: &str, x: &'static str, y: &'static str, names: &[String], series: Vec<Series>) -> Chart {
    Chart { title: title.to_owned(), x: x.into(), y: y.into(), names: names.to_vec(), series, ..Chart::default() }
}

/// A chart of lines.
fn lined(title: &str, x: &'static str, y: &'static str, series: Vec<Series>) -> Chart {
    Chart { title: title.to_owned(), x: x.into(), y: y.into(), series, ..Chart::default() }
}
