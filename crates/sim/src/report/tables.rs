//! The tables of a report.

use maud::{Markup, html};

use crate::ahead::PrefetchTally;
use crate::contender::OFFLINE;
use crate::latency::{Modelled, shown};
use crate::results::{Least, OfTrace, to_three_digits};
use crate::row::Row;
use crate::shown::{bytes, grouped};

use super::charts::{learners, sizes};
use super::text::{percent, size};

/// Lines of the table of clients.
const CLIENT_LINES_MAX: usize = 2000;

/// Hint sets of each policy that are listed.
const HINTS_LISTED_MAX: usize = 12;

fn online(row: &&&Row) -> bool {
    OFFLINE.iter().all(|(name, _)| *name != row.policy)
}

/// At each size the policy that a server can run and that gains most, beside LRU and what nobody can exceed.
pub(super) fn in_short(of: &OfTrace) -> Markup {
    let whole = of.whole();
    let transactions = whole.iter().any(|row| row.thr.is_some());
    let at = |size: u64| whole.iter().filter(move |row| row.size == size);
    let named = |policy: &'static str, size: u64| at(size).find(|row| row.policy == policy);
    let shown = |row: Option<&&Row>| row.map_or_else(|| "-".to_owned(), |row| percent(row.hit_ratio));
    let offline = whole.iter().find(|row| !online(row)).map(|row| row.policy.clone());
    html! {
        h3 { "In short" }
        div.scroll { table {
            thead { tr {
                th { "cache" @if let Some(row) = whole.first() { ", " (row.unit) } }
                th { "most hits" } th.number { "hit ratio" }
                @if named("lru", whole.first().map_or(0, |row| row.size)).is_some() { th.number { "lru has" } }
                @if let Some(policy) = &offline { th.number { (policy) " has" } }
                @if transactions { th { "most round trips saved" } th.number { "saved" } }
            } }
            tbody { @for row in sizes(&whole) {
                @let best = at(row.size).filter(online).max_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio));
                @let saving = at(row.size).filter(online).filter_map(|row| Some((row, row.thr?)))
                    .max_by(|a, b| a.1.total_cmp(&b.1));
                tr {
                    th scope="row" { (size(row)) }
                    td { (best.map_or("-", |row| row.policy.as_str())) }
                    td.number { (shown(best)) }
                    @if named("lru", row.size).is_some() { td.number { (shown(named("lru", row.size))) } }
                    @if let Some(policy) = &offline {
                        td.number { (shown(at(row.size).find(|row| row.policy == *policy))) }
                    }
                    @if transactions {
                        td { (saving.map_or("-", |(row, _)| row.policy.as_str())) }
                        td.number { (saving.map_or("-".to_owned(), |(_, thr)| percent(thr))) }
                    }
                }
            } }
        } }
        @if offline.is_some() {
            p.note {
                "No server can run policies that know the future. "
                @if whole.first().is_some_and(|row| row.unit == "bytes") {
                    "Where sizes differ they are no bound: another policy may hit more."
                } @else {
                    "Every object takes one place: no policy has more read hits than opt, and none that lets every "
                    "newcomer in has more hits than belady."
                }
            }
        }
    }
}

/// The least memory of each policy, the cheapest first.
pub(super) fn least(least: &Least, of: &OfTrace) -> Markup {
    let (what, share) = least.goal.named();
    let mut rows: Vec<&Row> = least.rows.iter().collect();
    rows.sort_by_key(|row| row.size);
    let most = rows.last().map_or(1, |row| row.size.max(1)) as f64;
    let units = |row: &Row| if row.unit == "bytes" { bytes(row.size) } else { grouped(to_three_digits(row.size)) };
    let sampled = of.requests_simulated as f64 / of.requests.max(1) as f64;
    let whole = |row: &Row| if row.unit == "bytes" { of.footprint_bytes } else { of.keys } as f64;
    html! {
        h3 { "Least memory for a " (what) " of " (percent(share)) }
        div.scroll { table {
            thead { tr {
                th { "policy" } th.number { (rows.first().map_or("size", |row| row.unit)) }
                @if sampled >= 1.0 { th.number { "of all" } }
                th.number { "reaches" } th.wide { span.hidden { "beside the others" } }
            } }
            tbody {
                @for row in &rows { tr {
                    th scope="row" { (row.policy) @if !online(&row) { " " small { "knows the future" } } }
                    td.number { (units(row)) }
                    @if sampled >= 1.0 { td.number { (percent(row.size as f64 / whole(row).max(1.0))) } }
                    td.number { (percent(least.goal.reaches(row))) }
                    td { span.bar style=(format!("width:{:.1}%", 100.0 * row.size as f64 / most)) {} }
                } }
                @for (policy, most) in &least.never { tr {
                    th scope="row" { (policy) } td.number { "never" }
                    @if sampled >= 1.0 { td {} } td.number { (percent(*most)) } td {}
                } }
            }
        } }
        p.note { "To about 1 % of the size. " q { "never" } " means not even with all keys cached." }
    }
}

/// What the best-known hint sets are worth, for each policy that learned it.
pub(super) fn hints(of: &OfTrace) -> Markup {
    html! { @for (policy, learned) in learners(&of.whole()) { details {
        summary { "Hint sets worth most to " (policy) }
        div.scroll { table.hints {
            thead { tr {
                th { "hint set" } th.number { "priority" } th.number { "requests" } th.number { "read again" }
                th.number { "after" }
            } }
            tbody { @for one in learned.iter().take(HINTS_LISTED_MAX) { tr {
                th scope="row" { (one.name) }
                td.number { (format!("{:.2e}", one.priority)) }
                td.number { (format!("{:.3} %", one.requests_percent)) }
                td.number { (format!("{:.1} %", one.read_again_percent)) }
                td.number { (format!("{:.0}", one.after_requests)) }
            } } }
        } }
    } } }
}

/// All numbers.
pub(super) fn numbers(of: &OfTrace) -> Markup {
    let whole = of.whole();
    let clients: Vec<&Row> = of.rows.iter().filter(|row| row.client.is_some()).collect();
    html! {
        details open {
            summary { "All numbers" }
            div.scroll { (lines(&whole)) }
        }
        @if !clients.is_empty() { details {
            summary { "Numbers of each client" }
            div.scroll { (lines(&clients[..clients.len().min(CLIENT_LINES_MAX)])) }
            @if clients.len() > CLIENT_LINES_MAX {
                p.note { (grouped(clients.len() as u64)) " lines in all; --format csv has them." }
            }
        } }
    }
}

fn lines(rows: &[&Row]) -> Markup {
    let clients = rows.iter().any(|row| row.client.is_some());
    let errors = rows.iter().any(|row| row.hit_ratio_error.is_some());
    let transactions = rows.iter().any(|row| row.thr.is_some());
    let ahead = rows.iter().any(|row| row.prefetch.is_some());
    let latencies = rows.iter().any(|row| row.modelled.is_some());
    let modelled = |row: &Row, show: &dyn Fn(&Modelled) -> String| row.modelled.as_ref().map_or("-".to_owned(), show);
    let or_not = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let tally = |row: &Row| {
        row.prefetch.map_or_else(String::new, |PrefetchTally { issued, used, late, unused, .. }| {
            format!("{issued}: {used} used, {late} late, {unused} unused")
        })
    };
    html! { table.numbers {
        thead { tr {
            th { "policy" } th.number { "cache" @if let Some(row) = rows.first() { ", " (row.unit) } }
            @if clients { th { "client" } }
            th.number { "hit ratio" }
            @if errors { th.number { "+- twice its error" } }
            th.number { "byte hit ratio" }
            @if transactions { th.number { "transactional" } th.number { "unhelpful keys" } }
            @if ahead { th { "fetched ahead" } }
            @if latencies {
                th.number { "round trips saved" } th.number { "latency, us" } th.number { "without a cache, us" }
            }
            th.number { "requests" } th.number { "hits" }
            @if !clients { th.number { "metadata" } th.number { "CPU ns/request" } }
        } }
        tbody { @for row in rows { tr {
            th scope="row" { (row.policy) }
            td.number { (size(row)) }
            @if clients { td { (row.client.as_deref().unwrap_or("all")) } }
            td.number { (percent(row.hit_ratio)) }
            @if errors { td.number { (or_not(row.hit_ratio_error.map(|error| 2.0 * error))) } }
            td.number { (percent(row.byte_hit_ratio)) }
            @if transactions {
                td.number { (or_not(row.thr)) }
                td.number { (row.unhelpful_keys.map_or("-".to_owned(), grouped)) }
            }
            @if ahead { td.once { (tally(row)) } }
            @if latencies {
                td.number { (modelled(row, &|one| grouped(one.round_trips_saved))) }
                td.number { (modelled(row, &|one| shown(one.latency_us))) }
                td.number { (modelled(row, &|one| shown(one.latency_without_cache_us))) }
            }
            td.number { (grouped(row.requests)) }
            td.number { (grouped(row.hits)) }
            @if !clients {
                td.number { (bytes(row.metadata_bytes)) }
                td.number { (format!("{:.0}", row.cpu_ns_per_request)) }
            }
        } } }
    } }
}
