//! Results as text: a table for people, CSV and JSON for programs.

use crate::ahead::PrefetchTally;
use crate::latency::{self, Modelled};
use crate::results::{Least, OfTrace, to_three_digits};
use crate::row::Row;

/// Levels of transactions that a table shows, the first ones; all are in JSON and in reports.
const LEVELS_IN_TABLE: usize = 4;

const COLUMNS: &str = "trace,policy,unit,size_given,size,requests,hits,hit_ratio,byte_hit_ratio,thr,unhelpful_keys,\
                       metadata_bytes,cpu_ns_per_request,bytes_requested,bytes_fetched";

const LATENCY_COLUMNS: &str = ",transactions,round_trips,round_trips_saved,latency_us,latency_without_cache_us";

fn optional<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(String::new, T::to_string)
}

/// A field of CSV (RFC 4180): quoted where it has to be.
fn field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// CSV with a header. Columns for clients, the error of a sample, what was fetched ahead and latencies follow where
/// there are any.
pub fn csv(rows: &[Row]) -> String {
    let with_clients = rows.iter().any(|row| row.client.is_some());
    let with_errors = rows.iter().any(|row| row.hit_ratio_error.is_some());
    let with_prefetch = rows.iter().any(|row| row.prefetch.is_some());
    let with_latencies = rows.iter().any(|row| row.modelled.is_some());
    let mut text = COLUMNS.to_owned();
    text += if with_clients { ",client" } else { "" };
    text += if with_errors { ",hit_ratio_error" } else { "" };
    text +=
        if with_prefetch { ",prefetch_issued,prefetch_used,prefetch_late,prefetch_unused,prefetch_bytes" } else { "" };
    text += if with_latencies { LATENCY_COLUMNS } else { "" };
    text.push('\n');
    for row in rows {
        text += &format!(
            "{},{},{},{},{},{},{},{:.6},{:.6},{},{},{},{:.1},{},{}",
            field(&row.trace),
            field(&row.policy),
            row.unit,
            field(&row.size_given),
            row.size,
            row.requests,
            row.hits,
            row.hit_ratio,
            row.byte_hit_ratio,
            row.thr.map_or_else(String::new, |thr| format!("{thr:.6}")),
            optional(&row.unhelpful_keys),
            row.metadata_bytes,
            row.cpu_ns_per_request,
            optional(&row.bytes_requested),
            optional(&row.bytes_fetched),
        );
        if with_clients {
            text += &format!(",{}", optional(&row.client));
        }
        if with_errors {
            text += &row.hit_ratio_error.map_or_else(|| ",".to_owned(), |error| format!(",{error:.6}"));
        }
        if with_prefetch {
            text += &row.prefetch.map_or_else(
                || ",,,,,".to_owned(),
                |PrefetchTally { issued, used, late, unused, bytes }| {
                    format!(",{issued},{used},{late},{unused},{bytes}")
                },
            );
        }
        if with_latencies {
            text += &row.modelled.map_or_else(|| ",,,,,".to_owned(), latency_fields);
        }
        text.push('\n');
    }
    text
}

fn latency_fields(modelled: Modelled) -> String {
    let Modelled { transactions, round_trips, round_trips_saved, latency_us, latency_without_cache_us } = modelled;
    let transactions = optional(&transactions);
    format!(",{transactions},{round_trips},{round_trips_saved},{latency_us:.3},{latency_without_cache_us:.3}")
}

/// An array of objects with the columns of the CSV.
pub fn json(rows: &[Row]) -> String {
    // Rows are plain numbers and text, which always have a form in JSON.
    let mut text = serde_json::to_string_pretty(rows).unwrap_or_default();
    text.push('\n');
    text
}

/// A table for each trace: hit ratios in percent, policies in lines and sizes in columns, with clients below.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for of_trace in rows.chunk_by(|a, b| a.trace == b.trace) {
        let Some(first) = of_trace.first() else { continue };
        let all: Vec<&Row> = of_trace.iter().filter(|row| row.client.is_none()).collect();
        text += &format!("{}: {} requests, hit ratio in % by size in {}\n", first.trace, first.requests, first.unit);
        text += &grid(&all, "", |row| match row.hit_ratio_error {
            Some(error) => format!("{:.2}+-{:.2}", 100.0 * row.hit_ratio, 200.0 * error),
            None => format!("{:.2}", 100.0 * row.hit_ratio),
        });
        if first.unit == "bytes" {
            text += &format!("\nbyte hit ratio in %{}\n", of_bytes(first));
            text += &grid(&all, "", |row| format!("{:.2}", 100.0 * row.byte_hit_ratio));
        }
        text += &transactional(&all);
        let depth = all.iter().map(|row| row.levels.len()).max().unwrap_or(0);
        for level in (0..depth.min(LEVELS_IN_TABLE)).filter(|_| depth > 1) {
            text += &format!("\nlevel {} of transactions: hits in %\n", level + 1);
            text += &grid(&all, "", |row| match row.levels.get(level) {
                Some(tally) if tally.levels > 0 => format!("{:.2}", 100.0 * tally.hits as f64 / tally.levels as f64),
                _ => "-".into(),
            });
        }
        if depth > LEVELS_IN_TABLE {
            let first = LEVELS_IN_TABLE + 1;
            text += &format!("\nlevels {first} to {depth} of transactions: see --format json, or --report\n");
        }
        if all.iter().any(|row| row.prefetch.is_some()) {
            text += "\nfetched ahead: used, late and unused in %\n";
            text += &grid(&all, "", |row| {
                row.prefetch.map_or("-".into(), |PrefetchTally { issued, used, late, unused, .. }| {
                    let share = |count: u64| 100.0 * count as f64 / issued.max(1) as f64;
                    format!("{:.1} {:.1} {:.1}", share(used), share(late), share(unused))
                })
            });
        }
        text += &latencies(&all);
        let mut clients: Vec<&str> = of_trace.iter().filter_map(|row| row.client.as_deref()).collect();
        clients.sort_by_key(|client| (client.parse::<u32>().unwrap_or(u32::MAX), *client));
        clients.dedup();
        for client in clients {
            let rows: Vec<&Row> = of_trace.iter().filter(|row| row.client.as_deref() == Some(client)).collect();
            let requests = rows.first().map_or(0, |row| row.requests);
            text += &format!("\nclient {client}: {requests} requests\n");
            text += &grid(&rows, "", |row| format!("{:.2}", 100.0 * row.hit_ratio));
            text += &transactional(&rows);
            text += &latencies(&rows);
        }
        text.push('\n');
    }
    text
}

fn of_bytes(row: &Row) -> String {
    row.bytes_requested.map_or_else(String::new, |bytes| format!(", of {bytes} bytes"))
}

/// Transactional hit ratios, where there are transactions.
fn transactional(rows: &[&Row]) -> String {
    if rows.iter().all(|row| row.thr.is_none()) {
        return String::new();
    }
    let thr = grid(rows, "", |row| row.thr.map_or("-".into(), |thr| format!("{:.2}", 100.0 * thr)));
    format!("\ntransactional hit ratio in %\n{thr}")
}

/// Round trips saved and what that makes of latency, where latencies were given.
fn latencies(rows: &[&Row]) -> String {
    let Some(first) = rows.iter().find_map(|row| row.modelled) else { return String::new() };
    let what = if first.transactions.is_some() { "transaction" } else { "request" };
    let mut text = format!("\nround trips saved, of {}\n", first.round_trips);
    let of = |row: &Row, show: &dyn Fn(&Modelled) -> String| row.modelled.as_ref().map_or("-".into(), show);
    text += &grid(rows, "", |row| of(row, &|modelled| modelled.round_trips_saved.to_string()));
    let without = latency::shown(first.latency_without_cache_us);
    text += &format!("\nmodelled latency of a {what} in us; {without} without a cache\n");
    text + &grid(rows, "", |row| of(row, &|modelled| latency::shown(modelled.latency_us)))
}

/// Policies in lines, sizes in columns.
fn grid(rows: &[&Row], corner: &str, show: impl Fn(&Row) -> String) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for of_policy in rows.chunk_by(|a, b| a.policy == b.policy) {
        if lines.is_empty() {
            let heads = of_policy.iter().map(|row| match row.size_given == row.size.to_string() {
                true => row.size_given.clone(),
                false => format!("{} ({})", row.size_given, row.size),
            });
            lines.push(std::iter::once(corner.to_owned()).chain(heads).collect());
        }
        let shown = of_policy.iter().map(|row| show(row));
        lines.push(std::iter::once(of_policy[0].policy.clone()).chain(shown).collect());
    }
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("  {cell:>width$}"),
        });
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}

/// The least memory of each policy for a goal, the cheapest first; nothing where no goal was given.
pub fn least_memory_table(of: &OfTrace) -> String {
    let Some(Least { goal, rows, never }) = &of.least else { return String::new() };
    let (what, least) = goal.named();
    let mut text = format!("{}: least memory for a {what} of {:.2} %\n", of.name, 100.0 * least);
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| row.size);
    for row in &sorted {
        let reached = 100.0 * goal.reaches(row);
        let takes = row.modelled.map_or(String::new(), |modelled| {
            let Modelled { latency_us, latency_without_cache_us, .. } = modelled;
            format!("  {} us instead of {} us", latency::shown(latency_us), latency::shown(latency_without_cache_us))
        });
        let size = to_three_digits(row.size);
        text += &format!("{:<20} {size:>16} {}  ({reached:.2} %){takes}\n", row.policy, row.unit);
    }
    for (policy, most) in never {
        text += &format!("{policy:<20} {:>16}  (with all keys {:.2} %)\n", "never", 100.0 * most);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{Latencies, Latency, RoundTrips};
    use crate::levels::LevelTally;

    fn row(policy: &str, size: u64, hit_ratio: f64) -> Row {
        Row {
            trace: "a,b".into(),
            policy: policy.into(),
            unit: "objects",
            size_given: "10%".into(),
            size,
            requests: 100,
            hits: 25,
            hit_ratio,
            byte_hit_ratio: 0.5,
            bytes_requested: Some(900),
            metadata_bytes: 7,
            cpu_ns_per_request: 12.34,
            ..Row::default()
        }
    }

    #[test]
    fn csv_has_the_columns_and_quotes() {
        let text = csv(&[row("s3-fifo:small=0.2,ghost=1", 5, 0.25)]);
        let (head, line) = text.trim_end().split_once('\n').expect("two lines");
        assert_eq!(head, COLUMNS);
        assert_eq!(line, "\"a,b\",\"s3-fifo:small=0.2,ghost=1\",objects,10%,5,100,25,0.250000,0.500000,,,7,12.3,900,");
        let of_client = Row { client: Some("3".into()), hit_ratio_error: Some(0.01), ..row("lru", 5, 0.25) };
        let text = csv(&[row("lru", 5, 0.25), of_client]);
        assert!(text.starts_with(&format!("{COLUMNS},client,hit_ratio_error\n")), "{text}");
        assert!(text.ends_with(",3,0.010000\n"), "{text}");
    }

    #[test]
    fn latencies_come_last_and_only_if_asked_for() {
        let latencies =
            Latencies { cache: Latency::parse("100us").expect("sound"), store: Latency::parse("1ms").expect("sound") };
        let trips = |transactions| RoundTrips { transactions, asked: 100, saved: 25 };
        let mut rows = [Some(trips(Some(40))), Some(trips(None)), None]
            .map(|round_trips| Row { round_trips, ..row("lru", 5, 0.25) });
        assert!(csv(&rows).starts_with(&format!("{COLUMNS}\n")) && !json(&rows).contains("latency"));
        rows.iter_mut().for_each(|row| row.model(&latencies));
        let text = csv(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{COLUMNS}{LATENCY_COLUMNS}"));
        assert!(lines[1].ends_with(",12.3,900,,40,100,25,2125.000,2500.000"), "{text}");
        assert!(lines[2].ends_with(",12.3,900,,,100,25,850.000,1000.000"), "{text}");
        assert!(lines[3].ends_with(",12.3,900,,,,,,"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&json(&rows)).expect("sound");
        let figures = ["round_trips_saved", "latency_us"].map(|name| value[0][name].as_f64());
        assert_eq!(figures, [Some(25.0), Some(2125.0)]);
        let text = table(&rows[..1]);
        assert!(text.contains("round trips saved, of 100\n") && text.contains(" of a transaction in us; 2500 without"));
    }

    #[test]
    fn a_table_has_a_line_for_each_policy() {
        let text = table(&[row("lru", 5, 0.25), row("lru", 10, 0.5), row("arc", 5, 0.3), row("arc", 10, 0.625)]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = text.lines().map(words).collect();
        assert!(lines.contains(&words("lru 25.00 50.00")) && lines.contains(&words("arc 30.00 62.50")), "{text}");
        assert!(!text.contains("byte hit ratio"));
        let text = table(&[Row { unit: "bytes", ..row("lru", 5, 0.25) }]);
        assert!(text.contains("\nbyte hit ratio in %, of 900 bytes\n") && text.contains("  50.00\n"), "{text}");
    }

    #[test]
    fn a_table_shows_the_first_levels() {
        let of =
            |depth| table(&[Row { levels: vec![LevelTally { levels: 4, hits: 1 }; depth], ..row("lru", 5, 0.25) }]);
        assert_eq!([1, 4, 9].map(|depth| of(depth).matches("of transactions: hits in %").count()), [0, 4, 4]);
        assert!(!of(4).contains("--report") && of(9).contains("\nlevels 5 to 9 of transactions: see --format json"));
    }

    #[test]
    fn json_reads_back() {
        let value: serde_json::Value = serde_json::from_str(&json(&[row("lru", 5, 0.25)])).expect("sound");
        assert_eq!((value[0]["size"].as_u64(), value[0]["thr"].is_null()), (Some(5), true));
    }
}
