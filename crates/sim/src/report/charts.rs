//! What is drawn of a trace's rows.

use std::collections::BTreeMap;

use crate::draw::{Chart, Heatmap, Series, panel};
use crate::hints::Priority;
use crate::latency::shown;
use crate::results::OfTrace;
use crate::row::Row;

use super::text::{percent, size};

/// Sizes of which levels and clients are shown.
const SIZES_SHOWN_MAX: usize = 4;

/// Clients beside each other; those with most requests.
const CLIENTS_SHOWN_MAX: usize = 12;

/// Policies whose priorities of hint sets are shown.
const LEARNERS_SHOWN_MAX: usize = 4;

/// Sizes that differ by this factor are shown by factors.
const FACTOR: u64 = 20;

/// A chart, and how to read it.
pub(super) struct Picture {
    pub svg: String,
    pub how: &'static str,
}

/// All pictures of a trace.
pub(super) fn pictures(of: &OfTrace) -> Vec<Picture> {
    let whole = of.whole();
    let mut pictures = Vec::new();
    let mut add = |svg: String, how| pictures.push(Picture { svg, how });
    let mut hits = curves(&whole, "Hit ratio", "hits in % of requests", |row| Some(row.hit_ratio));
    for (series, (_, rows)) in hits.series.iter_mut().zip(by_policy(&whole)) {
        series.spreads = rows.iter().map(|row| row.hit_ratio_error.map_or(f64::NAN, |error| 200.0 * error)).collect();
    }
    add(
        panel(&hits),
        match whole.iter().any(|row| row.hit_ratio_error.is_some()) {
            true => {
                "Higher is better; where a line gets flat, more memory buys little. Bars show twice the standard error \
                 of a sample."
            }
            false => "Higher is better; where a line gets flat, more memory buys little.",
        },
    );
    if by_bytes(&whole) {
        let bytes =
            curves(&whole, "Byte hit ratio", "bytes hit in % of bytes asked for", |row| Some(row.byte_hit_ratio));
        add(panel(&bytes), "What the cache saves in traffic: large objects count for more.");
    }
    if whole.iter().any(|row| row.thr.is_some()) {
        let thr = curves(&whole, "Transactional hit ratio", "round trips saved in %", |row| row.thr);
        add(panel(&thr), "The share of round trips to the store that transactions do not wait for.");
        add(
            panel(&against(&whole)),
            "Up is what transactions gain, right is what objects hit; each line goes from the \
                                      smallest cache to the largest. Of two policies at the same object hit ratio the \
                                      upper one keeps together what is asked for together.",
        );
    }
    pictures.extend(latency(&whole));
    let mut add = |svg: String, how| pictures.push(Picture { svg, how });
    let map = by_size(&whole, "Hit ratio by policy and size", "hits in % of requests", |row| Some(row.hit_ratio));
    add(map.panel(), "As numbers; stronger colour is more hits.");
    if whole.iter().any(|row| row.thr.is_some()) {
        let map = by_size(&whole, "Transactional hit ratio", "round trips saved in %", |row| row.thr);
        add(map.panel(), "As numbers; stronger colour is more saved.");
    }
    few(&sizes(&whole)).into_iter().for_each(|row| pictures.extend(levels(&whole, row)));
    let of_clients: Vec<&Row> = of.rows.iter().filter(|row| row.client.is_some()).collect();
    few(&sizes(&whole)).into_iter().for_each(|row| pictures.extend(clients(&of_clients, row)));
    pictures.extend(priorities(&whole));
    pictures
}

/// Whether objects have sizes that differ, as far as hits show it.
pub(super) fn by_bytes(rows: &[&Row]) -> bool {
    rows.iter().any(|row| (row.hit_ratio - row.byte_hit_ratio).abs() > 1e-9)
}

/// Rows by policy, in the order in which policies were given, each by size.
fn by_policy<'a>(rows: &[&'a Row]) -> Vec<(String, Vec<&'a Row>)> {
    let chunks = rows.chunk_by(|a, b| a.policy == b.policy);
    chunks
        .map(|of_policy| {
            let mut sorted = of_policy.to_vec();
            sorted.sort_by_key(|row| row.size);
            (sorted.first().map_or(String::new(), |row| row.policy.clone()), sorted)
        })
        .collect()
}

/// A row of each size, the smallest first.
pub(super) fn sizes<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    by_policy(rows).into_iter().next().map_or(Vec::new(), |(_, rows)| rows)
}

/// Some of the sizes, with the smallest and the largest.
fn few<'a>(sizes: &[&'a Row]) -> Vec<&'a Row> {
    let last = sizes.len().saturating_sub(1);
    let shown = sizes.len().min(SIZES_SHOWN_MAX);
    (0..shown).map(|at| sizes[at * last / shown.saturating_sub(1).max(1)]).collect()
}

/// A line for each policy over the sizes.
fn curves(rows: &[&Row], title: &str, y: &'static str, of: impl Fn(&Row) -> Option<f64>) -> Chart {
    lines(rows, title, y, |row| of(row).map(|share| (100.0 * share, percent(share))))
}

/// Likewise of what is no share: each value as it is drawn and as it is written.
fn lines(rows: &[&Row], title: &str, y: &'static str, of: impl Fn(&Row) -> Option<(f64, String)>) -> Chart {
    let sizes = sizes(rows);
    let ends = (sizes.first().map_or(1, |row| row.size), sizes.last().map_or(1, |row| row.size));
    let logarithmic_x = ends.1 >= FACTOR * ends.0.max(1);
    let series = by_policy(rows).into_iter().map(|(name, rows)| {
        let known: Vec<(&&Row, (f64, String))> = rows.iter().filter_map(|row| Some((row, of(row)?))).collect();
        Series {
            points: known.iter().map(|(row, (value, _))| (row.size as f64, *value)).collect(),
            labels: known.iter().map(|(row, (_, shown))| format!("{name}, {}: {shown}", size(row))).collect(),
            name: name.clone(),
            ..Series::default()
        }
    });
    Chart {
        title: title.to_owned(),
        x: axis(&sizes, logarithmic_x).into(),
        y: y.into(),
        logarithmic_x,
        loose: true,
        ticks: sizes.iter().map(|row| (row.size as f64, row.size_given.clone())).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}

/// What hits are worth in time, where latencies were given.
fn latency(rows: &[&Row]) -> Option<Picture> {
    let first = rows.iter().find_map(|row| row.modelled)?;
    let y = if first.transactions.is_some() { "us of a transaction" } else { "us of a request" };
    let of = |row: &Row| row.modelled.map(|one| (one.latency_us, format!("{} us", shown(one.latency_us))));
    let svg = panel(&lines(rows, "Modelled latency", y, of));
    Some(Picture {
        svg,
        how: "Lower is better. From the latencies that were given; the table has what no cache takes.",
    })
}

/// A line for each policy, a column for each size.
fn by_size(rows: &[&Row], title: &str, note: &str, of: impl Fn(&Row) -> Option<f64>) -> Heatmap {
    let values = |rows: Vec<&Row>| rows.iter().map(|row| of(row).map(|share| 100.0 * share)).collect();
    Heatmap {
        title: title.to_owned(),
        note: note.to_owned(),
        columns: sizes(rows).into_iter().map(|row| row.size_given.clone()).collect(),
        rows: by_policy(rows).into_iter().map(|(name, rows)| (name, values(rows))).collect(),
    }
}

fn axis(sizes: &[&Row], logarithmic: bool) -> &'static str {
    let shares = sizes.iter().all(|row| row.size_given.ends_with('%'));
    let bytes = sizes.iter().any(|row| row.unit == "bytes");
    match (shares, bytes, logarithmic) {
        (true, false, false) => "cache size in % of the keys",
        (true, false, true) => "cache size in % of the keys, growing by factors",
        (true, true, false) => "cache size in % of the footprint",
        (true, true, true) => "cache size in % of the footprint, growing by factors",
        (false, true, false) => "cache size in bytes",
        (false, true, true) => "cache size in bytes, growing by factors",
        (false, false, false) => "cache size in objects",
        (false, false, true) => "cache size in objects, growing by factors",
    }
}

/// What transactions gain against what objects hit (DeToX, figure 14).
fn against(rows: &[&Row]) -> Chart {
    let series = by_policy(rows).into_iter().map(|(name, rows)| {
        let known: Vec<(&&Row, f64)> = rows.iter().filter_map(|row| Some((row, row.thr?))).collect();
        let label = |(row, thr): &(&&Row, f64)| {
            format!("{name}, {}: objects {}, transactions {}", size(row), percent(row.hit_ratio), percent(*thr))
        };
        Series {
            points: known.iter().map(|(row, thr)| (100.0 * row.hit_ratio, 100.0 * thr)).collect(),
            labels: known.iter().map(label).collect(),
            name: name.clone(),
            ..Series::default()
        }
    });
    Chart {
        title: "Transactions against objects".into(),
        x: "object hit ratio in %".into(),
        y: "transactional hit ratio in %".into(),
        series: series.collect(),
        ..Chart::default()
    }
}

/// Hit ratio of each level of transactions, at one size.
fn levels(whole: &[&Row], at: &Row) -> Option<Picture> {
    let rows: Vec<&&Row> = whole.iter().filter(|row| row.size == at.size).collect();
    let depth = rows.iter().map(|row| row.levels.len()).max().filter(|&depth| depth > 1)?;
    let ratio = |row: &Row, level: usize| {
        let tally = row.levels.get(level).filter(|tally| tally.levels > 0)?;
        Some(100.0 * tally.hits as f64 / tally.levels as f64)
    };
    let map = Heatmap {
        title: format!("Levels of transactions, cache of {}", at.size_given),
        note: "levels that cost no round trip in %; level 1 is asked first".into(),
        columns: (1..=depth).map(|level| level.to_string()).collect(),
        rows: rows
            .iter()
            .map(|row| (row.policy.clone(), (0..depth).map(|level| ratio(row, level)).collect()))
            .collect(),
    };
    Some(Picture {
        svg: map.panel(),
        how: "Which step of transactions waits for the store. A level that writes always does.",
    })
}

/// Hit ratio of each client, at one size.
fn clients(rows: &[&Row], at: &Row) -> Option<Picture> {
    let mut requests: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        requests.insert(row.client.as_deref()?, row.requests);
    }
    let mut busiest: Vec<(&str, u64)> = requests.into_iter().collect();
    busiest.sort_by_key(|&(client, requests)| (std::cmp::Reverse(requests), client.parse::<u64>().unwrap_or(u64::MAX)));
    let all = busiest.len();
    busiest.truncate(CLIENTS_SHOWN_MAX);
    busiest.sort_by_key(|&(client, _)| client.parse::<u64>().unwrap_or(u64::MAX));
    let of_size: Vec<&&Row> = rows.iter().filter(|row| row.size == at.size).collect();
    let of_policy = of_size.chunk_by(|a, b| a.policy == b.policy).map(|rows| {
        let of_client = |client: &str| rows.iter().find(|row| row.client.as_deref() == Some(client));
        let values = busiest.iter().map(|(client, _)| of_client(client).map(|row| 100.0 * row.hit_ratio));
        (rows[0].policy.clone(), values.collect())
    });
    let some = if all > busiest.len() { format!(", the {} busiest of {all}", busiest.len()) } else { String::new() };
    let map = Heatmap {
        title: format!("Clients, cache of {}", at.size_given),
        note: format!("hits in % of each client's requests{some}"),
        columns: busiest.iter().map(|(client, _)| (*client).to_owned()).collect(),
        rows: of_policy.collect(),
    };
    (all > 1).then(|| Picture { svg: map.panel(), how: "Who gains from the shared memory, and who loses." })
}

/// Policies that learned what hints are worth, at their largest size.
pub(super) fn learners(whole: &[&Row]) -> Vec<(String, Vec<Priority>)> {
    let learned = by_policy(whole).into_iter().filter_map(|(name, rows)| {
        let learned: Vec<Priority> = rows.last()?.learned.iter().filter_map(Priority::read).collect();
        (!learned.is_empty()).then_some((name, learned))
    });
    learned.take(LEARNERS_SHOWN_MAX).collect()
}

/// Each hint set by how frequent it is and what it is worth (CLIC, figure 3).
fn priorities(whole: &[&Row]) -> Vec<Picture> {
    let draw = |(name, learned): (String, Vec<Priority>)| {
        let shown: Vec<Priority> =
            learned.into_iter().filter(|one| one.priority > 0.0 && one.requests_percent > 0.0).collect();
        let label = |one: &Priority| {
            let again = format!("{:.1} % read again, after {:.0} requests", one.read_again_percent, one.after_requests);
            format!("{}: {:.3} % of requests, {again}, priority {:.2e}", one.name, one.requests_percent, one.priority)
        };
        let series = Series {
            name: format!("a hint set, or a group of them ({} in all)", shown.len()),
            points: shown.iter().map(|one| (one.requests_percent, one.priority)).collect(),
            labels: shown.iter().map(label).collect(),
            ..Series::default()
        };
        let chart = Chart {
            title: format!("Priorities of hint sets, {name}"),
            x: "% of requests, growing by factors".into(),
            y: "priority: read hits for each request that a page stays".into(),
            logarithmic: true,
            logarithmic_x: true,
            scatter: true,
            series: vec![series],
            ..Chart::default()
        };
        let how = "At the end, in the largest cache. Pages with hints at the top are kept. Where all dots are level, \
                   hints say nothing.";
        Picture { svg: panel(&chart), how }
    };
    learners(whole).into_iter().map(draw).collect()
}
