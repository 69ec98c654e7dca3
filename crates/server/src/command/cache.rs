//! CACHE: what is kept, why, and what clients ask for.

use std::time::Duration;

use forebay::cache::charge;
use forebay::key::KeyRef;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;

use super::family::{self, is, text};
use super::{Command, Flag, Group, Keys, Run, advise, outage, outside};
use crate::command::{Sub, SubRun};
use crate::graphs::{GraphFigures, TypeFigures};
use crate::recorder::{self, Trace};
use crate::session::Session;

/// The longest CACHE TRACE, in ms.
const TRACE_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// Lines of CACHE STATS on what the policy has learned.
const LEARNED_LINES_MAX: usize = 32;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "cache",
    syntax: "subcommand [arg ..]",
    summary: "Shows what is cached and why, and what waits for the store; empties the cache, records traces",
    group: Group::Cache,
    arity: -2,
    keys: Keys::Custom(outage::key),
    run: Run::Engine(|session, frame| family::run_waiting(session, frame, "cache", SUBS)),
    flags: &[Flag::NotInMulti, Flag::Admin, Flag::TellsNothing],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "stats",
        syntax: "",
        summary: "Figures of the cache",
        arity: 2,
        flags: &[],
        run: SubRun::Session(stats),
    },
    Sub {
        name: "explain",
        syntax: "key",
        summary: "Whether a key is cached, with which version, and why: what the policy thinks or remembers of it",
        arity: 3,
        flags: &[],
        run: SubRun::Session(explain),
    },
    Sub {
        name: "reset",
        syntax: "",
        summary: "Drops all that is cached and what the policy learned; the store is not touched",
        arity: 2,
        flags: &[Flag::Admin],
        run: SubRun::Session(|session, _| {
            session.shared.engine.cache().reset();
            Reply::OK
        }),
    },
    Sub {
        name: "trace",
        syntax: "START name [duration] [RETURNED] | STOP | STATUS",
        summary: "Records what clients access in a file under --trace-dir; duration as 500ms, 30s, 5m, 2h; RETURNED: \
                  with fingerprints of the words that reads return, for forebay graph --infer",
        arity: -3,
        flags: &[Flag::Admin],
        run: SubRun::Engine(trace),
    },
    advise::ADVISE,
    outside::SYNC,
    outside::INVALIDATE,
    outside::RELOAD,
    outage::STATE,
    outage::PENDING,
    outage::QUARANTINE,
    outage::DRAIN,
    outage::WAIT,
    outage::OUTCOME,
    outage::STRICT,
    outage::BLIND,
    outage::NOTIFY,
];

fn stats(session: &mut Session, _: Frame<'_>) -> Reply {
    let engine = &session.shared.engine;
    let stats = engine.cache().stats();
    let number = |name: &str, value: u64| (text(name), Reply::Integer(value.min(i64::MAX as u64) as i64));
    let asked = stats.hits + stats.misses;
    let rate = if asked == 0 { 0.0 } else { stats.hits as f64 / asked as f64 };
    let mut figures = vec![
        (text("policy"), text(engine.cache().policy().name)),
        (text("store"), text(engine.store().name())),
        number("budget_bytes", stats.budget_bytes),
        number("used_bytes", stats.used_bytes),
        number("entries", stats.entries),
        number("hits", stats.hits),
        number("misses", stats.misses),
        (text("hit_rate"), Reply::Double(rate)),
        number("insertions", stats.insertions),
        number("evictions", stats.evictions),
        number("rejections", stats.rejections),
        number("fills_ended", stats.fills_ended),
        number("followers", stats.followers),
        number("hits_waiting_bytes", engine.cache().hits_waiting_bytes() as u64),
    ];
    if let Some(outside) = engine.store().figures().and_then(|figures| figures.outside) {
        figures.push((text("outside_by"), text(outside.by)));
        figures.push(number("outside_documents", outside.keys));
        figures.push(number("outside_within_us", outside.within_us));
        figures.push(number("outside_backlog", outside.backlog));
    }
    figures.extend(transactional(session));
    let engine = &session.shared.engine;
    let learned = engine.cache().learned(LEARNED_LINES_MAX);
    if !learned.is_empty() {
        let line = |(name, value): (String, String)| (text(name), text(value));
        figures.push((text("learned"), Reply::Map(learned.into_iter().map(line).collect())));
    }
    Reply::Map(figures)
}

/// Transactional hits, where they are counted, and the graphs of transaction types, where there are any.
fn transactional(session: &Session) -> Vec<(Reply, Reply)> {
    let shared = &session.shared;
    let number = |name: &str, value: u64| (text(name), Reply::Integer(value.min(i64::MAX as u64) as i64));
    let ratio = |name: &str, part: u64, whole: u64| {
        let ratio = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        (text(name), Reply::Double(ratio))
    };
    let mut figures = Vec::new();
    if let Some(metered) = shared.engine.cache().meter().map(|meter| meter.metered()) {
        figures.extend([
            ratio("thr", metered.thr.hits, metered.thr.length),
            ratio("ohr", metered.reads_hit, metered.reads),
            number("transactions", metered.transactions),
            number("transactions_by_graph", metered.by_graph),
            number("critical_length", metered.thr.length),
            number("transactional_hits", metered.thr.hits),
            number("levels", metered.levels),
            number("levels_complete", metered.levels_hit),
        ]);
    }
    let graphs = shared.graphs.figures();
    if graphs != GraphFigures::default() {
        figures.extend([
            number("graphs", graphs.graphs),
            number("complete_groups", graphs.complete_groups),
            number("graphs_replaced", graphs.replaced),
            number("graphs_refused", graphs.refused),
            number("types_without_graph", graphs.begun_without),
            number("wrong_vertices", graphs.wrong_vertices),
        ]);
        let line = |of_type: TypeFigures| {
            let groups = of_type.complete_groups.map_or("very many".to_owned(), |groups| groups.to_string());
            let TypeFigures { name, vertices, critical_length, begun, .. } = of_type;
            let value =
                format!("begun {begun}, accesses {vertices}, critical length {critical_length}, groups {groups}");
            (text(name), text(value))
        };
        let types = shared.graphs.types(LEARNED_LINES_MAX).into_iter().map(line);
        figures.push((text("types"), Reply::Map(types.collect())));
    }
    figures
}

/// `hit | version 1-8812 | size 212 B | ..`; what is cached as absent begins with `absent`.
fn explain(session: &mut Session, frame: Frame<'_>) -> Reply {
    let key = KeyRef { space: session.space, name: frame.arg(2) };
    let cache = session.shared.engine.cache();
    let policy = cache.policy();
    let Some((read, charged, reason)) = cache.explain(key) else {
        let why = cache.explain_absent(key).map_or_else(String::new, |why| format!(": {why}"));
        return text(format!("not cached | policy {}{why}", policy.name));
    };
    debug_assert_eq!(charged, charge(&key.to_key(), &read, policy));
    let now_ms = session.shared.engine.runtime().now_ms();
    let state = match &read.value {
        Some(value) if value.expired(now_ms) => "expired",
        Some(_) => "hit",
        None => "absent",
    };
    let mut line = format!("{state} | version {} | size {charged} B", read.version);
    if let Some(value) = &read.value {
        line.push_str(&format!(" | type {}", value.kind().name()));
        if let Some(expires_at_ms) = value.expires_at_ms.filter(|at| *at > now_ms) {
            line.push_str(&format!(" | expires in {} ms", expires_at_ms - now_ms));
        }
    }
    line.push_str(&format!(" | policy {}: {reason}", policy.name));
    text(line)
}

fn trace<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        match (frame.arg(2), frame.len()) {
            (action, 4..=6) if is(action, "start") => {
                let returned = frame.len() > 4 && is(frame.arg(frame.len() - 1), "returned");
                let duration = match frame.get(4).filter(|_| frame.len() - usize::from(returned) > 4).map(duration) {
                    Some(None) => {
                        return Reply::error("ERR a duration is a whole number and ms, s, m or h, up to 168h");
                    }
                    _ if frame.len() - usize::from(returned) > 5 => return errors::wrong_arguments("cache|trace"),
                    Some(Some(duration)) => Some(duration),
                    None => None,
                };
                match recorder::start(&session.shared, frame.arg(3), duration, returned).await {
                    Ok(()) => Reply::OK,
                    Err(why) if why.starts_with("LIMIT") => Reply::error(why),
                    Err(why) => Reply::error(format!("ERR {why}")),
                }
            }
            (action, 3) if is(action, "stop") => match session.shared.recorder.stop().await {
                Some(trace) => Reply::Map(shown(&trace)),
                None => Reply::error("ERR no trace is being recorded"),
            },
            (action, 3) if is(action, "status") => {
                let status = session.shared.recorder.status(session.shared.engine.runtime());
                let mut pairs = vec![
                    (text("running"), Reply::Boolean(status.running)),
                    (text("elapsed_ms"), Reply::Integer(status.elapsed_ms as i64)),
                ];
                pairs.extend(status.trace.iter().flat_map(shown));
                Reply::Map(pairs)
            }
            (action, _) if ["start", "stop", "status"].iter().any(|word| is(action, word)) => {
                errors::wrong_arguments("cache|trace")
            }
            (action, _) => errors::unknown_subcommand("CACHE TRACE", action),
        }
    })
}

fn shown(trace: &Trace) -> Vec<(Reply, Reply)> {
    vec![
        (text("name"), text(trace.name.clone())),
        (text("records"), Reply::Integer(trace.records as i64)),
        (text("dropped"), Reply::Integer(trace.dropped as i64)),
        (text("error"), trace.error.clone().map_or(Reply::Nil, Reply::Text)),
    ]
}

/// `500ms`, `30s`, `5m`, `2h`.
fn duration(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let ms = number.checked_mul(unit_ms)?;
    (1..=TRACE_MS_MAX).contains(&ms).then(|| Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration(b"500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration(b"5m"), Some(Duration::from_secs(300)));
        for wrong in ["", "5", "m", "0s", "-1s", "169h", "5 m", "99999999999999999999h", "18446744073709551615h"] {
            assert_eq!(duration(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
