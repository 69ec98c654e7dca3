//! What is measured: one table, from which `/metrics` and `docs/metrics.md` come.

mod database;
mod metric;
mod shadow;

use std::fmt::Write;
use std::sync::atomic::Ordering;

use forebay::outage::Mode;

pub use metric::{Kind, Metric, ReadEach, Value, View};

use crate::command;
use crate::state::Shared;

const fn counter(name: &'static str, help: &'static str, read: fn(&View<'_>) -> f64) -> Metric {
    Metric { name, kind: Kind::Counter, help, value: Value::One(read) }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&View<'_>) -> f64) -> Metric {
    Metric { name, kind: Kind::Gauge, help, value: Value::One(read) }
}

const fn of_commands(name: &'static str, help: &'static str, read: ReadEach) -> Metric {
    Metric { name, kind: Kind::Counter, help, value: Value::Each("command", read) }
}

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(database::DATABASE).chain(shadow::SHADOW)
}

/// Those of the server itself.
const METRICS: &[Metric] = &[
    Metric {
        name: "forebay_info",
        kind: Kind::Gauge,
        help: "Always 1; the label is the policy that decides what stays cached",
        value: Value::Each("policy", |view, take| take(view.shared.engine.cache().policy().name, 1.0)),
    },
    gauge("forebay_uptime_seconds", "Seconds since the server started", |view| {
        let shared = view.shared;
        shared.engine.runtime().now_ms().saturating_sub(shared.started_ms) as f64 / 1000.0
    }),
    counter("forebay_cache_hits_total", "Reads answered from the cache", |view| view.cache.hits as f64),
    counter("forebay_cache_misses_total", "Reads that had to ask the store", |view| view.cache.misses as f64),
    counter("forebay_cache_insertions_total", "Entries that came into the cache", |view| view.cache.insertions as f64),
    counter("forebay_cache_evictions_total", "Entries that the policy gave up", |view| view.cache.evictions as f64),
    counter("forebay_cache_rejections_total", "Missed documents that the policy, or their size, kept out", |view| {
        view.cache.rejections as f64
    }),
    counter("forebay_cache_fills_ended_total", "Fetches that a commit or an invalidation made worthless", |view| {
        view.cache.fills_ended as f64
    }),
    counter("forebay_cache_followers_total", "Reads that waited for another's fetch of the same key", |view| {
        view.cache.followers as f64
    }),
    gauge("forebay_cache_entries", "Entries in the cache", |view| view.cache.entries as f64),
    gauge("forebay_cache_bytes", "Bytes charged to the cache's budget", |view| view.cache.used_bytes as f64),
    gauge("forebay_cache_budget_bytes", "The cache's budget", |view| view.cache.budget_bytes as f64),
    gauge("forebay_warm_documents", "Documents cached again after the start, by --warm-file", |view| {
        view.shared.engine.warming().documents as f64
    }),
    gauge("forebay_warm_left", "Keys of the warm-file that are still to be read", |view| {
        view.shared.engine.warming().left as f64
    }),
    gauge("forebay_store_memory_bytes", "Bytes of memory that the store may hold for itself", |view| {
        view.shared.engine.store().memory_bytes() as f64
    }),
    Metric {
        name: "forebay_store_mode",
        kind: Kind::Gauge,
        help: "1 for the mode that the store is in, 0 for the others: normal, failed (it is away), recovery",
        value: Value::Each("mode", |view, take| {
            for mode in [Mode::Normal, Mode::Failed, Mode::Recovery] {
                take(mode.name(), f64::from(u8::from(mode == view.mode())));
            }
        }),
    },
    counter("forebay_store_outages_total", "Times that the store went away", |view| view.counted(|c| c.outages)),
    counter("forebay_requests_while_down_total", "Requests that came while the store was away", |view| {
        view.shared.figures.away_requests.load(Ordering::Relaxed) as f64
    }),
    counter("forebay_errors_while_down_total", "Those of them that were answered with an error", |view| {
        view.shared.figures.away_errors.load(Ordering::Relaxed) as f64
    }),
    Metric {
        name: "forebay_reads_while_down_total",
        kind: Kind::Counter,
        help: "Reads answered from the cache and what is buffered while the store was away: where others write to it, \
               they may be stale",
        value: Value::One(|view| view.shared.figures.away_reads.load(Ordering::Relaxed) as f64),
    },
    counter("forebay_outage_reads_refused_total", "Reads refused because the store was away", |view| {
        view.counted(|counts| counts.reads_refused)
    }),
    counter("forebay_outage_reads_merged_total", "Documents read from what is buffered, not from the store", |view| {
        view.counted(|counts| counts.reads_merged)
    }),
    gauge("forebay_outage_pending_transactions", "Buffered transactions, quarantined ones included", |view| {
        view.outage(|state| state.amount.transactions)
    }),
    gauge("forebay_outage_pending_documents", "Documents that they write", |view| {
        view.outage(|state| state.amount.documents)
    }),
    gauge("forebay_outage_pending_bytes", "Bytes charged for them", |view| view.outage(|state| state.amount.bytes)),
    gauge("forebay_outage_room_bytes", "Bytes that can still be buffered", |view| view.outage(|state| state.room)),
    gauge("forebay_outage_disk_short", "1 if the journal's disk has less room than --outage-bytes-max", |view| {
        view.outage(|state| usize::from(state.short))
    }),
    gauge(
        "forebay_outage_unnoted_transactions",
        "Applied, and not noted for want of room on the journal's disk",
        |view| view.outage(|state| state.unnoted),
    ),
    Metric {
        name: "forebay_outage_oldest_age_seconds",
        kind: Kind::Gauge,
        help: "Age of the oldest buffered transaction; none if there is none",
        value: Value::Maybe(|view| view.oldest_age_seconds()),
    },
    gauge("forebay_outage_quarantined_transactions", "Buffered transactions that wait for an operator", |view| {
        view.outage(|state| state.amount.quarantined)
    }),
    gauge(
        "forebay_outage_uncompared_documents",
        "Cached documents not yet compared with a store that was away",
        |view| view.shared.engine.compared().left as f64,
    ),
    gauge("forebay_outage_suspended", "1 if no buffered write is applied until an operator says so", |view| {
        view.outage(|state| usize::from(state.suspended.is_some()))
    }),
    gauge("forebay_store_fenced", "1 if another forebay has taken the database over: nothing is served", |view| {
        f64::from(u8::from(view.shared.engine.store().fenced().is_some()))
    }),
    gauge("forebay_outage_journal_failed", "1 if nothing more is buffered until forebay is restarted", |view| {
        view.outage(|state| usize::from(state.closed.is_some()))
    }),
    gauge("forebay_outage_losses", "Losses of acknowledged writes that the journal has found in itself", |view| {
        view.outage(|state| state.losses.len())
    }),
    counter("forebay_outage_buffered_total", "Transactions that were buffered", |view| view.counted(|c| c.buffered)),
    counter("forebay_outage_merged_total", "Buffered transactions that became part of a later one", |view| {
        view.counted(|counts| counts.merged)
    }),
    counter("forebay_outage_applied_total", "Buffered transactions that the store has taken since", |view| {
        view.counted(|counts| counts.applied)
    }),
    counter("forebay_outage_conflicts_total", "Documents that others had changed before ours were applied", |view| {
        view.counted(|counts| counts.conflicts)
    }),
    counter("forebay_outage_quarantined_total", "Buffered transactions that the store refused", |view| {
        view.counted(|counts| counts.quarantined)
    }),
    counter("forebay_outage_dropped_total", "Buffered transactions that an operator gave up", |view| {
        view.counted(|counts| counts.dropped)
    }),
    counter("forebay_outage_full_total", "Transactions refused because there was no room to buffer them", |view| {
        view.counted(|counts| counts.full)
    }),
    gauge("forebay_locked_keys", "Keys that are locked, wanted or held", |view| {
        view.shared.engine.locked_keys() as f64
    }),
    gauge("forebay_transactions_open", "Interactive transactions that are open", |view| {
        view.shared.figures.transactions_open.load(Ordering::Relaxed) as f64
    }),
    gauge("forebay_clients", "Connected clients", |view| view.shared.clients.len() as f64),
    gauge("forebay_monitors", "Clients that watch with MONITOR", |view| view.shared.monitors.len() as f64),
    counter("forebay_connections_total", "Connections accepted", |view| {
        view.shared.figures.connections.load(Ordering::Relaxed) as f64
    }),
    counter("forebay_connections_refused_total", "Connections refused because of clients_max", |view| {
        view.shared.figures.connections_refused.load(Ordering::Relaxed) as f64
    }),
    counter("forebay_transactions_wounded_total", "Interactive transactions that yielded to others", |view| {
        view.shared.engine.wounded() as f64
    }),
    counter("forebay_strangers_closed_total", "Connections closed because they had not authenticated", |view| {
        view.shared.figures.strangers_closed.load(Ordering::Relaxed) as f64
    }),
    counter("forebay_password_hashes_total", "Hashes computed to check passwords that were not known yet", |view| {
        view.shared.access.hashes() as f64
    }),
    counter("forebay_received_bytes_total", "Bytes read from clients", |view| {
        view.shared.figures.bytes_in.load(Ordering::Relaxed) as f64
    }),
    counter("forebay_sent_bytes_total", "Bytes written to clients", |view| {
        view.shared.figures.bytes_out.load(Ordering::Relaxed) as f64
    }),
    gauge("forebay_reply_bytes", "Bytes of replies that wait for clients to read them", |view| {
        view.shared.figures.reply_bytes.load(Ordering::Relaxed) as f64
    }),
    of_commands("forebay_command_calls_total", "Requests by command, those queued in MULTI included", |view, take| {
        each_command(view, |slot| &slot.calls, take);
    }),
    of_commands("forebay_command_errors_total", "Requests that ended in an error reply, by command", |view, take| {
        each_command(view, |slot| &slot.errors, take);
    }),
    of_commands(
        "forebay_command_waited_total",
        "Requests that could not be served from the cache at once, by command",
        |view, take| each_command(view, |slot| &slot.waited, take),
    ),
    Metric {
        name: "forebay_command_wait_seconds",
        kind: Kind::Histogram,
        help: "How long requests took that the cache could not serve at once, without the wait for their commit",
        value: Value::Times(|view| (view.shared.tally.waits.buckets(), view.shared.tally.waits.sum_us())),
    },
    gauge("forebay_slowlog_entries", "Commands that SLOWLOG keeps", |view| view.shared.slowlog.len() as f64),
    gauge("forebay_scan_cursors", "Positions of SCANs that are kept", |view| view.shared.cursors.len() as f64),
    gauge("forebay_hint_sets", "Hint sets that are told apart", |view| view.shared.labels.hints_len().1 as f64),
    counter(
        "forebay_hints_refused_total",
        "Hint schemas and sets that were refused, mostly because a limit was met",
        |view| view.shared.labels.hints_refused() as f64,
    ),
    Metric {
        name: "forebay_critical_length_total",
        kind: Kind::Counter,
        help: "Round trips of committed transactions if nothing were cached, where they are counted (--measure-thr)",
        value: Value::Maybe(|view| Some(view.shared.engine.cache().meter()?.metered().thr.length as f64)),
    },
    Metric {
        name: "forebay_transactional_hits_total",
        kind: Kind::Counter,
        help: "Round trips of committed transactions that caching saved, where they are counted (--measure-thr)",
        value: Value::Maybe(|view| Some(view.shared.engine.cache().meter()?.metered().thr.hits as f64)),
    },
    gauge("forebay_graphs", "Transaction types whose graph is known", |view| view.shared.graphs.count() as f64),
    Metric {
        name: "forebay_trace_dropped",
        kind: Kind::Gauge,
        help: "Records that the present or last CACHE TRACE left out because its queue was full",
        value: Value::Maybe(|view| {
            let status = view.shared.recorder.status(view.shared.engine.runtime());
            Some(status.trace?.dropped as f64)
        }),
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Bytes of the process that are in memory",
        value: Value::Maybe(|view| Some(view.resident_bytes()? as f64)),
    },
    Metric {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        help: "Processor time of the process, user and system",
        value: Value::Maybe(|view| view.cpu_seconds().map(|(user, system)| user + system)),
    },
];

fn each_command(
    view: &View<'_>,
    figure: fn(&crate::tally::Slot) -> &std::sync::atomic::AtomicU64,
    take: &mut dyn FnMut(&str, f64),
) {
    let tally = &view.shared.tally;
    let names = command::all().map(|command| command.name).chain(["unknown"]);
    for (number, name) in names.enumerate() {
        let count = figure(tally.slot(number)).load(Ordering::Relaxed);
        if count > 0 {
            take(name, count as f64);
        }
    }
}

/// All metrics in Prometheus' text form, version 0.0.4.
pub fn prometheus(shared: &Shared) -> String {
    let view = View::of(shared);
    let mut out = String::new();
    for metric in all() {
        let name = metric.name;
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {}", metric.help, kind_name(metric.kind));
        metric.read(&view, &mut |rest, value| _ = writeln!(out, "{name}{rest} {value}"));
    }
    out
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

/// The table of `docs/metrics.md`.
pub fn markdown_table() -> String {
    let mut out = String::from("| metric | kind | label | what it says |\n|---|---|---|---|\n");
    for metric in all() {
        let label = match metric.value {
            Value::Each(label, _) => label,
            Value::Times(_) => "le",
            Value::One(_) | Value::Maybe(_) => "",
        };
        let _ = writeln!(out, "| `{}` | {} | {label} | {} |", metric.name, kind_name(metric.kind), metric.help);
    }
    out
}
