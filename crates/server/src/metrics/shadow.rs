//! What shadows would have saved; nothing where there are none.

use super::metric::{Kind, Metric, Value, View};
use crate::shadow::{Figures, Row};

/// Tells a number of each shadow, as `lru 134217728`: its policy, and the `--memory` that it stands for.
fn each(view: &View<'_>, number: fn(&Row) -> Option<f64>, take: &mut dyn FnMut(&str, f64)) {
    for row in view.shadows.iter().flat_map(|figures| &figures.rows).filter(|row| !row.left_out) {
        if let Some(number) = number(row) {
            take(&format!("{} {}", row.policy, row.memory), number);
        }
    }
}

const fn maybe(name: &'static str, kind: Kind, help: &'static str, read: fn(&View<'_>) -> Option<f64>) -> Metric {
    Metric { name, kind, help, value: Value::Maybe(read) }
}

fn figures<'a>(view: &'a View<'_>) -> Option<&'a Figures> {
    view.shadows.as_ref()
}

/// Its metrics.
pub const SHADOW: &[Metric] = &[
    Metric {
        name: "forebay_shadow_saved_ratio",
        kind: Kind::Gauge,
        help: "Share of round trips that each shadow would have saved, or of a sample of keys the share of reads that \
               it would have hit; the label is its policy and the --memory that it stands for",
        value: Value::Each("shadow", |view, take| each(view, |row| row.saves, take)),
    },
    maybe("forebay_shadow_live_ratio", Kind::Gauge, "That share of the cache that clients have", |view| {
        figures(view)?.live.saves
    }),
    maybe(
        "forebay_shadow_missed",
        Kind::Gauge,
        "Accesses of which shadows were not told, since it is counted",
        |view| Some(figures(view)?.missed as f64),
    ),
    maybe("forebay_shadow_bytes", Kind::Gauge, "Bytes that shadows take", |view| Some(figures(view)?.bytes as f64)),
];
