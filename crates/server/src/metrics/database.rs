//! What is measured of a database behind the server; nothing over other stores.

use forebay::store::figures::{OUTCOMES, OutsideFigures, StoreFigures, Times};

use super::metric::{Kind, Metric, Value, View};

fn figures<'a>(view: &'a View<'_>) -> Option<&'a StoreFigures> {
    view.store.as_ref()
}

fn outside<'a>(view: &'a View<'_>) -> Option<&'a OutsideFigures> {
    figures(view)?.outside.as_ref()
}

fn times(view: &View<'_>, of: fn(&StoreFigures) -> Times) -> ([u64; crate::tally::BUCKETS], u64) {
    let times = figures(view).map(of).unwrap_or_default();
    (times.buckets, times.sum_us)
}

const fn maybe(name: &'static str, kind: Kind, help: &'static str, read: fn(&View<'_>) -> Option<f64>) -> Metric {
    Metric { name, kind, help, value: Value::Maybe(read) }
}

/// Its metrics.
pub const DATABASE: &[Metric] = &[
    Metric {
        name: "forebay_database_connections",
        kind: Kind::Gauge,
        help: "Connections by state: readers (shared), writing, idle; wanted are commits that wait for one, lost were \
               given up with a backend that may still be at work",
        value: Value::Each("state", |view, take| {
            let Some(StoreFigures { connections, .. }) = figures(view) else { return };
            take("readers", connections.readers as f64);
            take("writing", connections.writing as f64);
            take("idle", connections.idle as f64);
            take("wanted", connections.wanted as f64);
            take("lost", connections.lost as f64);
        }),
    },
    Metric {
        name: "forebay_database_read_seconds",
        kind: Kind::Histogram,
        help: "How long reads of documents took, one level each",
        value: Value::Times(|view| times(view, |figures| figures.reads)),
    },
    maybe("forebay_database_documents_read_total", Kind::Counter, "Documents that these asked for", |view| {
        Some(figures(view)?.keys_read as f64)
    }),
    maybe("forebay_database_reads_failed_total", Kind::Counter, "Reads that got no answer, or a refusal", |view| {
        Some(figures(view)?.reads_failed as f64)
    }),
    Metric {
        name: "forebay_database_group_seconds",
        kind: Kind::Histogram,
        help: "How long commits took, those of a group as one",
        value: Value::Times(|view| times(view, |figures| figures.groups)),
    },
    Metric {
        name: "forebay_database_commits_total",
        kind: Kind::Counter,
        help: "Commits by outcome; their number by that of groups is the size of a group",
        value: Value::Each("outcome", |view, take| {
            let Some(figures) = figures(view) else { return };
            OUTCOMES.iter().zip(figures.commits).for_each(|(outcome, count)| take(outcome, count as f64));
        }),
    },
    maybe("forebay_database_commits_on_their_way", Kind::Gauge, "Commits that have no outcome yet", |view| {
        Some(figures(view)?.commits_on_their_way as f64)
    }),
    Metric {
        name: "forebay_outside_looks_total",
        kind: Kind::Counter,
        help: "Looks at what other programs wrote, by way: triggers or decoding",
        value: Value::Each("by", |view, take| {
            if let Some(outside) = outside(view) {
                take(outside.by, outside.looks as f64);
            }
        }),
    },
    maybe(
        "forebay_outside_failures_total",
        Kind::Counter,
        "Looks that failed, each of which dropped the whole cache",
        |view| Some(outside(view)?.failures as f64),
    ),
    maybe("forebay_outside_documents_total", Kind::Counter, "Documents that others were seen to write", |view| {
        Some(outside(view)?.keys as f64)
    }),
    maybe(
        "forebay_outside_within_seconds",
        Kind::Gauge,
        "What the last look told had been visible for at most so long",
        |view| Some(outside(view)?.within_us as f64 / 1e6),
    ),
    maybe(
        "forebay_outside_log_bytes",
        Kind::Gauge,
        "Bytes of its log that the database keeps for the replication slot",
        |view| Some(outside(view).filter(|outside| outside.by == "decoding")?.backlog as f64),
    ),
    Metric {
        name: "forebay_unwatched_compared_total",
        kind: Kind::Counter,
        help: "Cached documents whose version was asked for again, by table that nothing watches",
        value: Value::Each("table", |view, take| {
            view.shared.engine.unwatched().iter().for_each(|of| take(&of.table, of.compared as f64));
        }),
    },
    Metric {
        name: "forebay_unwatched_changed_total",
        kind: Kind::Counter,
        help: "Those of them that others had written",
        value: Value::Each("table", |view, take| {
            view.shared.engine.unwatched().iter().for_each(|of| take(&of.table, of.changed as f64));
        }),
    },
    maybe("forebay_outside_notes", Kind::Gauge, "Rows of forebay.changes, looked at every hundredth time", |view| {
        Some(outside(view).filter(|outside| outside.by == "triggers")?.backlog as f64)
    }),
];
