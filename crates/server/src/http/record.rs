//! What the page shows beside curves: names, and what is true now.
//!
//! No key and no value is in it: of a slow command its name alone. Types of transactions are named by clients.

use crate::metrics::{self, Value, View};
use crate::state::Shared;

use super::json;

/// Slow commands that are shown.
const SLOW_MAX: usize = 12;

/// Types of transactions that are shown.
const TYPES_MAX: usize = 32;

/// One JSON object in one line; `user` is who has logged in.
pub(super) fn now(shared: &Shared, user: Option<&str>) -> String {
    let view = View::of(shared);
    let mut out = String::from("{");
    let texts = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("policy", shared.engine.cache().policy().name),
        ("store", &shared.engine.store().name()),
        ("mode", view.mode().name()),
    ];
    for (name, value) in texts {
        json::text(&mut out, name);
        out.push(':');
        json::text(&mut out, value);
        out.push(',');
    }
    let gate = view.gate.as_ref();
    let seconds = [("since_s", gate.map(|state| state.lasted)), ("room_s", gate.and_then(|state| state.room_time))];
    for (name, value) in seconds {
        json::text(&mut out, name);
        out.push(':');
        json::number(&mut out, value.map_or(f64::NAN, |time| time.as_secs_f64().round()));
        out.push(',');
    }
    out.push_str("\"user\":");
    match user {
        Some(user) => json::text(&mut out, user),
        None => out.push_str("null"),
    }
    out.push_str(",\"commands\":{");
    commands(&mut out, &view);
    out.push_str("},\"types\":[");
    json::list(&mut out, shared.graphs.types(TYPES_MAX), |out, of_type| {
        out.push_str("{\"name\":");
        json::text(out, &of_type.name);
        let figures = [of_type.begun, of_type.vertices as u64, u64::from(of_type.critical_length)];
        for (name, value) in ["begun", "accesses", "length"].into_iter().zip(figures) {
            out.push_str(&format!(",\"{name}\":{value}"));
        }
        out.push('}');
    });
    out.push_str("],\"slow\":[");
    json::list(&mut out, shared.slowlog.latest(SLOW_MAX), |out, slow| {
        // What is no command may be anything, a secret in the wrong place too.
        let name = slow.args.first().and_then(|name| shared.table.find_numbered(name));
        out.push_str("{\"name\":");
        json::text(out, name.map_or("unknown", |(_, command)| command.name));
        out.push_str(&format!(",\"at_s\":{},\"us\":{}}}", slow.at_s, slow.us));
    });
    out.push_str("]}");
    out
}

/// `"forebay_command_calls_total":{"get":7},..`.
fn commands(out: &mut String, view: &View<'_>) {
    let of_commands = metrics::all().filter_map(|metric| match metric.value {
        Value::Each("command", read) => Some((metric.name, read)),
        _ => None,
    });
    json::list(out, of_commands, |out, (name, read)| {
        json::text(out, name);
        out.push_str(":{");
        let mut counts = Vec::new();
        read(view, &mut |command, count| counts.push((command.to_owned(), count)));
        json::list(out, counts, |out, (command, count)| {
            json::text(out, &command);
            out.push(':');
            json::number(out, count);
        });
        out.push('}');
    });
}
