//! INFO: the figures of the server in Redis' form, as clients' ready checks, test suites and monitoring tools read it.

use std::sync::atomic::Ordering;

use forebay::key::SPACES;
use forebay::store::figures::OUTCOMES;
use forebay_protocol::{Frame, Reply};
use futures_util::future::BoxFuture;

use super::connection::REDIS_VERSION;
use super::{Command, Flag, Group, Keys, Run};
use crate::metrics::View;
use crate::outage::summary;
use crate::session::Session;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "info",
    syntax: "[section ..]",
    summary: "Figures of the server, in sections",
    group: Group::Server,
    arity: -1,
    keys: Keys::None,
    run: Run::Engine(info),
    flags: &[Flag::NotInMulti, Flag::Dangerous],
}];

/// One section: its name, whether it is shown unasked, and its lines but for the keyspace's, which the store tells.
type Section = (&'static str, bool, fn(&View<'_>, &mut Lines));

const SECTIONS: &[Section] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Forebay", true, forebay),
    ("Outage", true, outage),
    ("Database", true, database),
    ("Commandstats", false, commands),
    ("Cluster", true, |_, lines| lines.add("cluster_enabled", 0)),
    ("Keyspace", true, |_, _| {}),
];

/// Lines of INFO as they come together.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{name}:{value}\r\n"));
    }
}

fn info<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let asked: Vec<Vec<u8>> = frame.args().skip(1).map(<[u8]>::to_ascii_lowercase).collect();
        let every = asked.iter().any(|name| matches!(name.as_slice(), b"all" | b"everything"));
        let usual = asked.is_empty() || asked.iter().any(|name| name == b"default");
        let wanted = |name: &str, unasked: bool| {
            every || (usual && unasked) || asked.iter().any(|asked| name.as_bytes().eq_ignore_ascii_case(asked))
        };
        session.publish_state();
        let shared = session.shared.clone();
        let mut keyspace = Vec::new();
        if wanted("Keyspace", true) {
            let spaces = if shared.engine.store().has_documents() { SPACES } else { 1 };
            for space in 0..spaces {
                // A store that can't be asked has nothing to tell here; INFO must answer all the same.
                match shared.engine.store().count(space).await {
                    Ok(0) | Err(_) => {}
                    Ok(count) => keyspace.push((space, count)),
                }
            }
        }
        let view = View::of(&shared);
        let mut lines = Lines::default();
        for (name, unasked, section) in SECTIONS {
            if !wanted(name, *unasked) {
                continue;
            }
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            lines.0.push_str(&format!("# {name}\r\n"));
            section(&view, &mut lines);
            if *name == "Keyspace" {
                for (space, count) in &keyspace {
                    lines.add(&format!("db{space}"), format_args!("keys={count},expires=0,avg_ttl=0"));
                }
            }
        }
        Reply::Verbatim("txt".into(), lines.0)
    })
}

fn server(view: &View<'_>, lines: &mut Lines) {
    let shared = view.shared;
    let up_s = shared.engine.runtime().now_ms().saturating_sub(shared.started_ms) / 1000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add("forebay_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", "standalone");
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", std::process::id());
    lines.add("tcp_port", shared.address.get().map_or(0, |address| address.port()));
    lines.add("server_time_usec", shared.engine.runtime().now_ms() * 1000);
    lines.add("uptime_in_seconds", up_s);
    lines.add("uptime_in_days", up_s / 86_400);
    lines.add("io_threads_active", shared.threads);
}

fn clients(view: &View<'_>, lines: &mut Lines) {
    let shared = view.shared;
    lines.add("connected_clients", shared.clients.len());
    lines.add("maxclients", shared.limits.clients_max);
    lines.add("blocked_clients", 0);
    lines.add("tracking_clients", shared.trackers.clients());
    lines.add("monitors", shared.monitors.len());
}

/// `12.50M`, as Redis shows bytes to people.
fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2}G", bytes as f64 / 1_073_741_824.0),
    }
}

fn memory(view: &View<'_>, lines: &mut Lines) {
    let shared = view.shared;
    let store = shared.engine.store().memory_bytes() as u64;
    let replies = shared.figures.reply_bytes.load(Ordering::Relaxed) as u64;
    let used = view.cache.used_bytes + store + replies;
    lines.add("used_memory", used);
    lines.add("used_memory_human", human(used));
    if let Some(resident) = view.resident_bytes() {
        lines.add("used_memory_rss", resident);
        lines.add("used_memory_rss_human", human(resident));
    }
    lines.add("used_memory_dataset", view.cache.used_bytes);
    lines.add("used_memory_store", store);
    lines.add("mem_clients_normal", replies);
    lines.add("maxmemory", view.cache.budget_bytes);
    lines.add("maxmemory_human", human(view.cache.budget_bytes));
    lines.add("maxmemory_policy", shared.engine.cache().policy().name);
}

fn persistence(_: &View<'_>, lines: &mut Lines) {
    lines.add("loading", 0);
    lines.add("async_loading", 0);
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add("aof_enabled", 0);
}

fn stats(view: &View<'_>, lines: &mut Lines) {
    let figures = &view.shared.figures;
    let (calls, errors) = view.shared.tally.totals();
    lines.add("total_connections_received", figures.connections.load(Ordering::Relaxed));
    lines.add("rejected_connections", figures.connections_refused.load(Ordering::Relaxed));
    lines.add("total_commands_processed", calls);
    lines.add("total_error_replies", errors);
    lines.add("total_net_input_bytes", figures.bytes_in.load(Ordering::Relaxed));
    lines.add("total_net_output_bytes", figures.bytes_out.load(Ordering::Relaxed));
    lines.add("keyspace_hits", view.cache.hits);
    lines.add("keyspace_misses", view.cache.misses);
    lines.add("evicted_keys", view.cache.evictions);
    let (keys, items, prefixes) = view.shared.trackers.amounts();
    lines.add("tracking_total_keys", keys);
    lines.add("tracking_total_items", items);
    lines.add("tracking_total_prefixes", prefixes);
}

fn replication(_: &View<'_>, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
}

fn cpu(view: &View<'_>, lines: &mut Lines) {
    if let Some((user, system)) = view.cpu_seconds() {
        lines.add("used_cpu_sys", format_args!("{system:.6}"));
        lines.add("used_cpu_user", format_args!("{user:.6}"));
    }
}

fn forebay(view: &View<'_>, lines: &mut Lines) {
    let shared = view.shared;
    lines.add("mode", view.mode().name());
    lines.add("store", shared.engine.store().name());
    lines.add("store_owned", u8::from(shared.engine.store().caps().owned));
    lines.add("policy", shared.engine.cache().policy().name);
    lines.add("cache_entries", view.cache.entries);
    lines.add("cache_insertions", view.cache.insertions);
    lines.add("cache_rejections", view.cache.rejections);
    lines.add("transactions_open", shared.figures.transactions_open.load(Ordering::Relaxed));
    lines.add("locked_keys", shared.engine.locked_keys());
    lines.add("scan_cursors", shared.cursors.len());
    lines.add("trace_running", u8::from(shared.recorder.status(shared.engine.runtime()).running));
}

/// What is buffered for the store; counts since the start.
fn outage(view: &View<'_>, lines: &mut Lines) {
    lines.add("outage_summary", summary(view.gate.as_ref()));
    let Some(state) = &view.gate else { return };
    lines.add("outage_mode_ms", state.lasted.as_millis());
    lines.add("outage_uncompared", view.shared.engine.compared().left);
    lines.add("outage_pending", state.amount.transactions);
    lines.add("outage_pending_bytes", state.amount.bytes);
    lines.add("outage_room_bytes", state.room);
    lines.add("outage_quarantined", state.amount.quarantined);
    lines.add("store_fenced", u8::from(state.fenced.is_some()));
    lines.add("outage_suspended", u8::from(state.suspended.is_some()));
    lines.add("outage_journal_failed", u8::from(state.closed.is_some()));
    lines.add("outage_losses", state.losses.len());
    lines.add("outage_buffered_total", state.counts.buffered);
    lines.add("outage_merged_total", state.counts.merged);
    lines.add("outage_applied_total", state.counts.applied);
    lines.add("outage_conflicts_total", state.counts.conflicts);
    lines.add("outage_full_total", state.counts.full);
}

/// Of the database behind, if there is one; counts since it was opened.
fn database(view: &View<'_>, lines: &mut Lines) {
    let Some(figures) = &view.store else { return };
    let connections = &figures.connections;
    lines.add("database_connections", connections.readers + connections.writing + connections.idle);
    lines.add("database_connections_wanted", connections.wanted);
    lines.add("database_connections_lost", connections.lost);
    lines.add("database_commits_on_their_way", figures.commits_on_their_way);
    for (outcome, count) in OUTCOMES.iter().zip(figures.commits) {
        lines.add(&format!("database_commits_{outcome}"), count);
    }
    let Some(outside) = &figures.outside else { return };
    lines.add("outside_by", outside.by);
    lines.add("outside_looks", outside.looks);
    lines.add("outside_failures", outside.failures);
    lines.add("outside_documents", outside.keys);
    lines.add("outside_within_us", outside.within_us);
    lines.add("outside_backlog", outside.backlog);
}

fn commands(view: &View<'_>, lines: &mut Lines) {
    for (number, command) in view.shared.table.all().enumerate() {
        let slot = view.shared.tally.slot(number);
        let of = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
        let (calls, waited, us) = (of(&slot.calls), of(&slot.waited), of(&slot.waited_us));
        if calls == 0 {
            continue;
        }
        let per_call = us as f64 / calls as f64;
        lines.add(
            &format!("cmdstat_{}", command.name),
            format_args!(
                "calls={calls},usec={us},usec_per_call={per_call:.2},rejected_calls=0,failed_calls={},waited={waited}",
                of(&slot.errors)
            ),
        );
    }
}
