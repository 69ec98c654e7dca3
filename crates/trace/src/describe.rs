//! What a trace is like: how popular its keys are, how soon they come back, how large they are, what its hints say.

use std::collections::BTreeMap;
use std::fmt::Write;

use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

use crate::date::iso;
use crate::dictionary::Dictionary;
use crate::ends::OPEN_TRANSACTIONS_MAX;
use crate::error::TraceError;
use crate::record::{Kind, Record, TraceKey};
use crate::summary::SUMMARY_KEYS_MAX;

/// Most distinct values of one hint type, and most hint sets, that are counted.
pub const HINTS_COUNTED_MAX: usize = 1 << 20;

/// Hint sets that are shown.
const SHOWN_MAX: usize = 20;

/// Powers of two in a histogram.
const BUCKETS: usize = 65;

#[derive(Clone, Copy)]
struct Seen {
    requests: u64,
    /// The access before, counted over all keys.
    last: u64,
    hints: u32,
    /// Its size was told.
    sized: bool,
}

/// What is counted of a hint set (CLIC, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HintCounts {
    /// Requests with it: N.
    pub requests: u64,
    /// How many of them were followed by a read of the same key: N_r.
    pub read_again: u64,
    /// Sum of the distances to those reads, in requests.
    pub distances: u64,
}

impl HintCounts {
    /// Share of the requests that a read follows.
    pub fn read_again_share(&self) -> f64 {
        self.read_again as f64 / self.requests.max(1) as f64
    }

    /// Mean distance to that read, in requests: D.
    pub fn distance(&self) -> f64 {
        self.distances as f64 / self.read_again.max(1) as f64
    }

    /// CLIC's priority: hits for each request that the key stays.
    pub fn priority(&self) -> f64 {
        if self.read_again == 0 { 0.0 } else { self.read_again_share() / self.distance() }
    }
}

/// A trace, described.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Accesses by kind, in the order of [`Kind::ALL`]; then the ends of transactions.
    pub kinds: [u64; Kind::ALL.len()],
    /// Accesses.
    pub requests: u64,
    /// Different keys.
    pub unique_keys: u64,
    /// Keys asked for once.
    pub one_hit_keys: u64,
    /// Bytes of all keys, each as first seen.
    pub footprint_bytes: u64,
    /// Keys of which no access tells a size; they count as 0 bytes.
    pub keys_without_size: u64,
    /// Bytes of all accesses.
    pub requested_bytes: u64,
    /// Clients.
    pub clients: u64,
    /// Transactions that are numbered.
    pub transactions: u64,
    /// Requests of the 1 % of the keys that are asked for most.
    pub requests_of_top_percent: u64,
    /// Slope of the popularity over ranks, both logarithmic: Zipf's exponent, by least squares over powers of two.
    pub zipf: f64,
    /// Returns to a key by the number of requests since, in powers of two: the first counts distance 1, then 2..3, ..
    pub reuse: Vec<u64>,
    /// Keys by size in powers of two: the first counts sizes below 2.
    pub sizes: Vec<u64>,
    /// The first and the last of the times that accesses have, in microseconds.
    pub times_us: Option<(u64, u64)>,
    /// Accesses whose time is before that of the access ahead of them.
    pub out_of_order: u64,
    /// Hint sets by number.
    pub hints: BTreeMap<u32, HintCounts>,
    /// Hint types with the number of values that were met.
    pub hint_types: Vec<(String, usize)>,
    /// Hint sets beyond the limit, counted under none.
    pub hint_sets_left_out: u64,
}

impl Description {
    /// Reads all records. A trace that was cut short is described up to its cut.
    pub fn of(
        records: &mut (impl Iterator<Item = Result<Record, TraceError>> + ?Sized),
    ) -> Result<Description, TraceError> {
        let mut description =
            Description { reuse: vec![0; BUCKETS], sizes: vec![0; BUCKETS], ..Description::default() };
        let mut keys: HashMap<(u8, TraceKey), Seen, RandomState> = HashMap::default();
        let mut clients: HashMap<u32, (), RandomState> = HashMap::default();
        let mut open: HashSet<u64, RandomState> = HashSet::default();
        let mut before_us = 0;
        for record in records {
            let record = match record {
                Err(error) if error.is_truncated() => break,
                other => other?,
            };
            description.kinds[record.kind as usize] += 1;
            description.transaction(&record, &mut open);
            if record.kind.is_access() {
                clients.insert(record.client, ());
                description.time(record.time_us, &mut before_us);
                description.access(record, &mut keys)?;
            }
        }
        description.clients = clients.len() as u64;
        description.unique_keys = keys.len() as u64;
        description.popularity(keys.into_values().map(|seen| seen.requests).collect());
        Ok(description)
    }

    fn time(&mut self, time_us: Option<u64>, before_us: &mut u64) {
        let Some(now) = time_us else { return };
        self.out_of_order += u64::from(now < *before_us);
        *before_us = now;
        let (first, last) = self.times_us.unwrap_or((now, now));
        self.times_us = Some((first.min(now), last.max(now)));
    }

    /// Counts a transaction where it begins.
    fn transaction(&mut self, record: &Record, open: &mut HashSet<u64, RandomState>) {
        if record.txn == 0 {
            return;
        }
        let begins = match record.kind.is_access() {
            true => open.insert(record.txn),
            false => !open.remove(&record.txn),
        };
        self.transactions += u64::from(begins);
        if open.len() > OPEN_TRANSACTIONS_MAX {
            open.retain(|&txn| txn == record.txn);
        }
    }

    fn access(
        &mut self,
        record: Record,
        keys: &mut HashMap<(u8, TraceKey), Seen, RandomState>,
    ) -> Result<(), TraceError> {
        self.requests += 1;
        let size = u64::from(record.size.unwrap_or(0));
        self.requested_bytes += size;
        let reads = record.kind == Kind::Read;
        if self.hints.len() < HINTS_COUNTED_MAX || self.hints.contains_key(&record.hints) {
            self.hints.entry(record.hints).or_default().requests += 1;
        } else {
            self.hint_sets_left_out += 1;
        }
        let now = Seen { requests: 1, last: self.requests, hints: record.hints, sized: record.size.is_some() };
        match keys.get_mut(&(record.space, record.key.clone())) {
            Some(seen) => {
                let distance = self.requests - seen.last;
                self.reuse[bucket(distance)] += 1;
                if let (true, Some(counts)) = (reads, self.hints.get_mut(&seen.hints)) {
                    counts.read_again += 1;
                    counts.distances += distance;
                }
                if now.sized && !seen.sized {
                    self.footprint_bytes += size;
                    self.keys_without_size -= 1;
                    self.sizes[bucket(size)] += 1;
                }
                *seen = Seen { requests: seen.requests + 1, sized: seen.sized || now.sized, ..now };
            }
            None => {
                self.footprint_bytes += size;
                self.keys_without_size += u64::from(record.size.is_none());
                self.sizes[bucket(size)] += u64::from(record.size.is_some());
                keys.insert((record.space, record.key), now);
                if keys.len() > SUMMARY_KEYS_MAX {
                    let (limit, found) = (SUMMARY_KEYS_MAX as u64, keys.len() as u64);
                    return Err(TraceError::Limit { name: "summary_keys_max", limit, found });
                }
            }
        }
        Ok(())
    }

    fn popularity(&mut self, mut requests: Vec<u64>) {
        requests.sort_unstable_by(|a, b| b.cmp(a));
        self.one_hit_keys = requests.iter().filter(|&&count| count == 1).count() as u64;
        self.requests_of_top_percent = requests.iter().take(requests.len().div_ceil(100)).sum();
        // Ranks that are powers of two weigh the head as much as the tail.
        let points = (0..usize::BITS).map_while(|power| {
            let rank = 1_usize << power;
            requests.get(rank - 1).map(|&count| ((rank as f64).ln(), (count as f64).ln()))
        });
        self.zipf = 0.0 - slope(&points.collect::<Vec<_>>());
    }

    /// Counts the values that were met of each hint type.
    pub fn name_hints(&mut self, dictionary: &Dictionary) {
        let mut values: BTreeMap<(u32, usize), std::collections::BTreeSet<&[u8]>> = BTreeMap::new();
        for set in self.hints.keys().filter_map(|&id| dictionary.hint_set(id)) {
            for (place, value) in set.values.iter().enumerate() {
                values.entry((set.schema, place)).or_default().insert(value);
            }
        }
        self.hint_types = values
            .into_iter()
            .map(|((schema, place), values)| {
                let name = dictionary.hint_schema(schema).and_then(|schema| schema.types.get(place));
                (name.map_or_else(|| format!("type {place}"), |name| printable(name)), values.len())
            })
            .collect();
    }

    /// Lines for people.
    pub fn to_table(&self, dictionary: Option<&Dictionary>) -> String {
        let mut text = String::new();
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let mut line = |name: &str, value: String| text += &format!("{name:<24} {value}\n");
        let (reads, writes) = (self.kinds[0], self.kinds[1] + self.kinds[2]);
        line("requests", self.requests.to_string());
        line("reads", format!("{reads} ({:.1} %)", percent(reads, self.requests)));
        line("writes and deletes", format!("{writes} ({:.1} %)", percent(writes, self.requests)));
        line("unique keys", self.unique_keys.to_string());
        line(
            "keys asked for once",
            format!("{} ({:.1} %)", self.one_hit_keys, percent(self.one_hit_keys, self.unique_keys)),
        );
        if self.requested_bytes == 0 && self.keys_without_size == self.unique_keys {
            line("footprint", "not known: no key has a size".to_owned());
        } else {
            let without = match self.keys_without_size {
                0 => String::new(),
                without => format!(", without {without} keys that have no size"),
            };
            line("footprint", format!("{} bytes{without}", self.footprint_bytes));
            line("bytes asked for", self.requested_bytes.to_string());
        }
        if let Some((first, last)) = self.times_us {
            line("time", span(first, last));
            let late = match self.out_of_order {
                0 => String::new(),
                late => format!(", {late} of them before the one ahead of them"),
            };
            let seconds = (last - first) as f64 / 1e6;
            let rate = if seconds > 0.0 { format!("{:.1}", self.requests as f64 / seconds) } else { "-".to_owned() };
            line("requests a second", format!("{rate}{late}"));
        }
        line("clients", self.clients.to_string());
        line("transactions", format!("{} ({} committed, {} aborted)", self.transactions, self.kinds[5], self.kinds[6]));
        let top = percent(self.requests_of_top_percent, self.requests);
        // No sign before what is rounded to nothing.
        let zipf = if self.zipf.abs() < 0.005 { 0.0 } else { self.zipf };
        line(
            "popularity",
            format!("top 1 % of the keys get {top:.1} % of the requests, Zipf exponent about {zipf:.2}"),
        );
        text += &histogram("\nrequests until a key comes back", &self.reuse);
        if self.sizes.iter().any(|&count| count > 0) {
            text += &histogram("\nkeys by size in bytes", &self.sizes);
        }
        text + &self.hints_table(dictionary)
    }

    fn hints_table(&self, dictionary: Option<&Dictionary>) -> String {
        if self.hints.keys().all(|&id| id == 0) {
            return String::new();
        }
        let mut text = format!("\n{} distinct hint sets\n", self.hints.len());
        for (name, values) in &self.hint_types {
            let _ = writeln!(text, "  {name:<22} {values} values");
        }
        let mut sets: Vec<_> = self.hints.iter().collect();
        sets.sort_by(|a, b| b.1.requests.cmp(&a.1.requests).then(a.0.cmp(b.0)));
        let _ =
            writeln!(text, "\n{:>10} {:>10} {:>12} {:>12}  hint set", "requests", "read again", "distance", "priority");
        for (&id, counts) in sets.into_iter().take(SHOWN_MAX) {
            let values = dictionary
                .and_then(|dictionary| dictionary.hint_set(id))
                .map(|set| set.values.iter().map(|value| printable(value)).collect::<Vec<_>>().join(" "));
            let name = values.unwrap_or_else(|| id.to_string());
            let (share, distance) = (100.0 * counts.read_again_share(), counts.distance());
            let priority = counts.priority();
            let _ = writeln!(text, "{:>10} {share:>8.1} % {distance:>12.0} {priority:>12.3e}  {name}", counts.requests);
        }
        text
    }
}

/// From when to when: dates, or where times are relative to something, seconds.
fn span(first_us: u64, last_us: u64) -> String {
    /// In the year 1990.
    const DATES_FROM_US: u64 = 631_152_000_000_000;
    let seconds = |us: u64| us as f64 / 1e6;
    let took = seconds(last_us - first_us);
    match first_us >= DATES_FROM_US {
        true => format!("{} to {} ({took:.0} s)", iso(first_us), iso(last_us)),
        false => format!("{:.3} s to {:.3} s", seconds(first_us), seconds(last_us)),
    }
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The place of a number among powers of two.
fn bucket(number: u64) -> usize {
    number.max(1).ilog2() as usize
}

fn histogram(title: &str, counts: &[u64]) -> String {
    const BAR: usize = 40;
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut text = format!("{title}\n");
    let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    for (power, &count) in counts.iter().take(used).enumerate() {
        let bar = "#".repeat((count as u128 * BAR as u128 / u128::from(most)) as usize);
        let _ = writeln!(text, "{:>20} {count:>12} {bar}", 1_u64 << power);
    }
    text
}

/// The slope of a line through points, by least squares; 0 where there is none.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count.max(1.0);
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut products, mut squares) = (0.0, 0.0);
    for point in points {
        products += (point.0 - x) * (point.1 - y);
        squares += (point.0 - x) * (point.0 - x);
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: u64, kind: Kind, hints: u32) -> Result<Record, TraceError> {
        Ok(Record { key: TraceKey::Number(key), kind, hints, size: Some(3), ..Record::default() })
    }

    #[test]
    fn a_small_trace_by_hand() {
        let trace = [
            read(1, Kind::Write, 7),
            read(2, Kind::Read, 8),
            read(1, Kind::Read, 7),
            read(1, Kind::Write, 7),
            read(3, Kind::Read, 8),
            read(1, Kind::Read, 7),
        ];
        let description = Description::of(&mut trace.into_iter()).expect("no errors in it");
        assert_eq!((description.requests, description.unique_keys, description.one_hit_keys), (6, 3, 2));
        assert_eq!((description.footprint_bytes, description.requested_bytes), (9, 18));
        assert_eq!(description.reuse[..2], [1, 2]);
        assert_eq!(description.sizes[1], 3);
        let hints = description.hints[&7];
        assert_eq!(hints, HintCounts { requests: 4, read_again: 2, distances: 4 });
        assert_eq!((hints.read_again_share(), hints.distance(), hints.priority()), (0.5, 2.0, 0.25));
        assert!(description.to_table(None).contains("2 distinct hint sets"));
    }

    #[test]
    fn times_are_told() {
        let at = |time_us| Ok(Record { time_us, key: TraceKey::Number(1), ..Record::default() });
        let table = |times: &[Option<u64>]| {
            Description::of(&mut times.iter().map(|&time_us| at(time_us))).expect("no errors in it").to_table(None)
        };
        let noon = 1_772_366_400_000_000;
        let text = table(&[Some(noon + 5_000_000), Some(noon), None, Some(noon + 10_000_000)]);
        let line = "time                     2026-03-01T12:00:00Z to 2026-03-01T12:00:10Z (10 s)\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("requests a second        0.4, 1 of them before the one ahead of them\n"), "{text}");
        let text = table(&[Some(500_000), Some(2_500_000)]);
        assert!(text.contains("time                     0.500 s to 2.500 s\n"), "{text}");
        assert!(!table(&[None]).contains("time "), "none is known");
    }

    #[test]
    fn a_zipf_trace_has_its_exponent() {
        let trace = (1..200_u64).flat_map(|key| (0..100_000 / key).map(move |_| read(key, Kind::Read, 0)));
        let description = Description::of(&mut trace.into_iter()).expect("no errors in it");
        assert!((description.zipf - 1.0).abs() < 0.01, "{}", description.zipf);
    }
}
