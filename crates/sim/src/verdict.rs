//! Which policy and how much memory a simulation speaks for: only what its runs support, and what to run next where
//! they do not support enough.

use std::collections::BTreeMap;

use forebay::cache::charge;
use forebay::key::KEY_BYTES_MAX;
use forebay::value::Value;
use forebay::version::Version;
use forebay::{Key, Read};

use crate::contender::Contender;
use crate::results::OfTrace;
use crate::row::Row;
use crate::shown::bytes;

/// A size is enough where no larger one that was run has so much more.
const ENOUGH: f64 = 0.05;

/// Policies that are so near are named beside the best.
const NEAR: f64 = 0.01;

/// What to compare with where one policy was run.
const POLICIES: &str = "lru,s3-fifo,w-tinylfu,gdsf";

/// Policies that weigh what an object is worth against its size.
const BY_SIZE: [&str; 2] = ["gdsf", "camp"];

/// What everything is compared with.
const BASELINE: &str = "lru";

/// Sizes by which it is judged what the allocator rounds up, from two thirds of the mean to five quarters.
const ROUNDED: u64 = 8;

/// A server gives one of so many parts of its memory to the store's pages.
const STORE_SHARE: f64 = 32.0;

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// The verdict of a trace, a sentence each; nothing where no policy ran that a server has. With a price of a GiB for a
/// month it says what the memory costs.
pub fn verdict(of: &OfTrace, price: Option<f64>) -> Vec<String> {
    let Some(runs) = Runs::of(of) else { return Vec::new() };
    let choice = runs.choice();
    let (mut said, enough) = if runs.sizes.len() == 1 { runs.of_one_size(choice) } else { runs.of_sizes(choice) };
    if enough {
        said.extend(runs.baseline(choice));
    }
    said.extend(runs.near(choice));
    said.extend(memory(of, choice, price));
    let sizes_differ = choice.unit == "bytes" && choice.hit_ratio != choice.byte_hit_ratio;
    if sizes_differ && !runs.rows.iter().any(|row| BY_SIZE.iter().any(|policy| row.policy.starts_with(policy))) {
        said.push(format!("No policy of this run keeps small objects longer: run --policy {} as well.", BY_SIZE[0]));
    }
    if let Some(error) = choice.hit_ratio_error {
        said.push(format!("These are estimates of a sample: +- {:.1} points.", 200.0 * error));
    }
    if runs.policies == 1 {
        said.push(format!("One policy was run, so nothing says that it is the best: run --policy {POLICIES}."));
    }
    said
}

/// What was run that a server can run.
struct Runs<'a> {
    rows: Vec<&'a Row>,
    /// By size, the best row.
    sizes: BTreeMap<u64, &'a Row>,
    policies: usize,
    /// All keys, or the bytes of all.
    whole: u64,
    transactions: bool,
}

impl<'a> Runs<'a> {
    fn of(of: &'a OfTrace) -> Option<Runs<'a>> {
        let online = |row: &&Row| Contender::parse(&row.policy).is_ok_and(|contender| !contender.is_offline());
        let rows: Vec<&Row> = of.whole().into_iter().filter(online).collect();
        let first = *rows.first()?;
        let transactions = rows.iter().all(|row| row.thr.is_some());
        let mut sizes: BTreeMap<u64, &Row> = BTreeMap::new();
        for row in &rows {
            let best = sizes.entry(row.size).or_insert(row);
            if share(row, transactions) > share(best, transactions) {
                *best = row;
            }
        }
        let mut policies: Vec<&str> = rows.iter().map(|row| row.policy.as_str()).collect();
        policies.sort_unstable();
        policies.dedup();
        let sampled = of.requests_simulated as f64 / of.requests.max(1) as f64;
        let whole = if first.unit == "bytes" { of.footprint_bytes } else { of.keys };
        // Of a sample the whole is not known, only that it is more.
        let whole = if sampled < 1.0 { u64::MAX } else { whole };
        Some(Runs { policies: policies.len(), sizes, whole, transactions, rows })
    }

    fn share(&self, row: &Row) -> f64 {
        share(row, self.transactions)
    }

    /// What the share is one of.
    fn what(&self) -> &'static str {
        if self.transactions { "of the round trips of transactions saved" } else { "of requests" }
    }

    /// The smallest size after which there is little to gain.
    fn choice(&self) -> &'a Row {
        let most = self.sizes.values().map(|row| self.share(row)).fold(0.0, f64::max);
        let enough = self.sizes.values().find(|row| self.share(row) >= most - ENOUGH);
        enough.copied().unwrap_or(self.rows[0])
    }

    fn of_one_size(&self, row: &Row) -> (Vec<String>, bool) {
        let has = format!("At {} {} has {}.", size(row), row.policy, self.shown(row));
        let next = match row.size_given.ends_with('%') {
            true => "1%,5%,10%,25%,50%".to_owned(),
            false => [row.size / 4, row.size / 2, row.size, row.size.saturating_mul(2), row.size.saturating_mul(4)]
                .map(|size| typed(size.max(1), row.unit))
                .join(","),
        };
        (vec![has, format!("One size does not say how much memory to buy: run --size {next}.")], false)
    }

    fn of_sizes(&self, choice: &Row) -> (Vec<String>, bool) {
        let mut said = vec![format!("Buy {} with {}: {}.", size(choice), choice.policy, self.shown(choice))];
        let Some((_, largest)) = self.sizes.last_key_value() else { return (said, false) };
        if choice.size < largest.size {
            let beyond = self.sizes.range(choice.size + 1..).map(|(_, row)| *row);
            let most = beyond.max_by(|a, b| self.share(a).total_cmp(&self.share(b))).unwrap_or(largest);
            let (more, up_to) = (100.0 * (self.share(most) - self.share(choice)), size(largest));
            said.push(match more {
                more if more < 0.05 => format!("Up to {up_to} more memory gains nothing."),
                more => format!("Up to {up_to} more memory gains {more:.1} points at most, with {}.", most.policy),
            });
            return (said, true);
        }
        let before = self.sizes.range(..choice.size).next_back();
        if let Some((_, before)) = before.filter(|_| choice.size < self.whole) {
            let more = 100.0 * (self.share(choice) - self.share(before));
            let next = match choice.size_given.ends_with('%') {
                true => "25%,50%,75%,100%".to_owned(),
                false => [2, 4].map(|times| typed(choice.size.saturating_mul(times), choice.unit)).join(","),
            };
            said[0] = format!("Buy at least {} with {}: {}.", size(choice), choice.policy, self.shown(choice));
            said.push(format!(
                "It is the largest size of this run, and has {more:.1} points more than the one before: run --size \
                 {next}."
            ));
        }
        (said, true)
    }

    fn shown(&self, row: &Row) -> String {
        format!("{:.1} % {}", 100.0 * self.share(row), self.what())
    }

    /// How much the baseline needs for what the choice has, as far as it was run.
    fn baseline(&self, choice: &Row) -> Option<String> {
        if choice.policy == BASELINE {
            return None;
        }
        let target = self.share(choice);
        let mut curve: Vec<&Row> = self.rows.iter().copied().filter(|row| row.policy == BASELINE).collect();
        curve.sort_by_key(|row| row.size);
        let largest = *curve.last()?;
        let Some(at) = curve.iter().position(|row| self.share(row) >= target) else {
            let has = 100.0 * self.share(largest);
            return Some(format!("{BASELINE} has less even at {}: {has:.1} %.", size(largest)));
        };
        // Between two runs the size is taken to grow as the share does, on a scale of its logarithm.
        let (from, to) = (curve[at.saturating_sub(1)], curve[at]);
        let rise = self.share(to) - self.share(from);
        let part = if rise > 0.0 { (target - self.share(from)) / rise } else { 1.0 };
        let (small, large) = ((from.size as f64).ln(), (to.size as f64).ln());
        let times = (small + part * (large - small)).exp() / choice.size as f64;
        (times > 1.05).then(|| format!("{BASELINE} needs about {times:.1} times as much for that."))
    }

    /// Others that are nearly as good there.
    fn near(&self, choice: &Row) -> Option<String> {
        let others = self.rows.iter().filter(|row| row.size == choice.size && row.policy != choice.policy);
        let near: Vec<&str> =
            others.filter(|row| self.share(row) >= self.share(choice) - NEAR).map(|row| row.policy.as_str()).collect();
        let verb = if near.len() == 1 { "has" } else { "have" };
        (!near.is_empty()).then(|| format!("{} {verb} less than 1 point less there.", near.join(", ")))
    }
}

fn share(row: &Row, transactions: bool) -> f64 {
    row.thr.filter(|_| transactions).unwrap_or(row.hit_ratio)
}

/// What a server needs for it: its `--memory`, and what that costs.
fn memory(of: &OfTrace, row: &Row, price: Option<f64>) -> Vec<String> {
    let Ok(Contender::Online(choice)) = Contender::parse(&row.policy) else { return Vec::new() };
    let entries = row.kept.entries;
    if entries == 0 || of.keys == 0 {
        return Vec::new();
    }
    let sized = of.keys.saturating_sub(of.keys_without_size);
    let mean = match (row.unit, sized) {
        (_, 0) => None,
        ("bytes", _) => Some(row.kept.used.div_ceil(entries)),
        // Of objects that count as 1 each it is not known which are there.
        _ => Some((of.footprint_bytes - of.keys_without_size).div_ceil(sized)),
    };
    let key = Key::new(0, &vec![b'k'; (of.key_bytes / of.keys).min(KEY_BYTES_MAX as u64) as usize]);
    let charged = |value: u64| {
        let value = Value::bytes(vec![0; usize::try_from(value.min(MIB as u64)).unwrap_or(0)]);
        charge(&key, &Read { value: Some(value), version: Version::ZERO }, choice.policy) as u64
    };
    // Of a sample the cache and what it remembers are smaller.
    let remembered = row.metadata_bytes.saturating_sub(row.kept.cells * choice.policy.entry_bytes as u64);
    let remembered = (remembered as f64 * entries as f64 / row.kept.cells.max(1) as f64) as u64;
    let Some(mean) = mean else {
        let beside = entries * charged(0) + remembered;
        let unknown = format!(
            "The trace has no sizes: for --memory add the bytes of {entries} values to {} of keys and metadata.",
            bytes(beside)
        );
        let priced = price.map(|_| "What it costs is not known without them.".to_owned());
        return std::iter::once(unknown).chain(priced).collect();
    };
    // The allocator rounds up, by how much depends on the size: values are taken to be about as large as their mean.
    let about = |eighth: u64| mean.min(MIB as u64) * (ROUNDED + eighth) / (ROUNDED * 3 / 2);
    let beside = (0..ROUNDED).map(|eighth| charged(about(eighth)).saturating_sub(about(eighth))).sum::<u64>() / ROUNDED;
    let (values, beside) = (entries * mean, entries * beside + remembered);
    let whole = ((values + beside) as f64 * STORE_SHARE / (STORE_SHARE - 1.0) / MIB).ceil();
    let about = if row.unit == "bytes" { "" } else { "about " };
    let mut said = vec![format!(
        "That is {about}--memory {whole:.0}MiB: {} of {entries} objects, {} of keys, metadata and rounding up, and a \
         32nd for the store.",
        bytes(values),
        bytes(beside)
    )];
    if let Some(price) = price {
        let cost = whole * MIB / GIB * price;
        said.push(format!("It costs {cost:.2} a month at {price} for a GiB."));
    }
    if row.unit != "bytes" && row.hit_ratio != row.byte_hit_ratio {
        said.push("Objects differ in size: --unit bytes judges policies by that.".to_owned());
    }
    said
}

/// A size as it was given, and what that is.
fn size(row: &Row) -> String {
    let units = if row.unit == "bytes" { bytes(row.size) } else { format!("{} objects", row.size) };
    if row.size_given.ends_with('%') { format!("{units} ({})", row.size_given) } else { units }
}

/// A size as `--size` takes it.
fn typed(size: u64, unit: &str) -> String {
    let known = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = known.iter().find(|(_, bits)| unit == "bytes" && size.is_multiple_of(1 << bits));
    fits.map_or_else(|| size.to_string(), |(name, bits)| format!("{}{name}", size >> bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Kept;

    fn row(policy: &str, size: u64, hit_ratio: f64) -> Row {
        Row {
            policy: policy.into(),
            unit: "bytes",
            size_given: typed(size, "bytes"),
            size,
            requests: 1000,
            hit_ratio,
            byte_hit_ratio: hit_ratio,
            kept: Kept { entries: size / 1024, used: size, cells: size / 1024 },
            ..Row::default()
        }
    }

    fn said(rows: Vec<Row>, price: Option<f64>) -> String {
        let of = OfTrace {
            requests: 1000,
            requests_simulated: 1000,
            keys: 1 << 20,
            key_bytes: 20 << 20,
            footprint_bytes: 1 << 30,
            rows,
            ..OfTrace::default()
        };
        verdict(&of, price).join("\n")
    }

    fn curve(policy: &str, ratios: [f64; 4]) -> Vec<Row> {
        [16, 32, 64, 128].into_iter().zip(ratios).map(|(mib, ratio)| row(policy, mib << 20, ratio)).collect()
    }

    #[test]
    fn the_smallest_size_is_bought_that_has_nearly_all() {
        let rows = [curve("lru", [0.3, 0.5, 0.7, 0.81]), curve("gdsf", [0.5, 0.796, 0.82, 0.84])].concat();
        let told = said([rows, curve("belady", [0.9; 4])].concat(), Some(4.0));
        for part in [
            "Buy 32.0 MiB with gdsf: 79.6 % of requests.",
            "Up to 128.0 MiB more memory gains 4.4 points at most, with gdsf.",
            "lru needs about 3.7 times as much for that.",
            "That is --memory ",
            "of 32768 objects",
            " a month at 4 for a GiB.",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("belady") && !told.contains("One policy"), "{told}");
    }

    #[test]
    fn what_the_runs_do_not_support_is_not_said() {
        let rising = said([curve("lru", [0.1, 0.2, 0.3, 0.4]), curve("gdsf", [0.2, 0.3, 0.4, 0.5])].concat(), None);
        assert!(rising.contains("Buy at least 128.0 MiB with gdsf: 50.0 %"), "{rising}");
        assert!(rising.contains("10.0 points more than the one before: run --size 256MiB,512MiB."), "{rising}");
        assert!(rising.contains("lru has less even at 128.0 MiB: 40.0 %."), "{rising}");
        let one = said(vec![row("lru", 64 << 20, 0.5)], None);
        assert!(one.starts_with("At 64.0 MiB lru has 50.0 % of requests."), "{one}");
        assert!(one.contains("run --size 16MiB,32MiB,64MiB,128MiB,256MiB.") && !one.contains("Buy"), "{one}");
        assert!(one.contains("One policy was run") && one.contains("--policy lru,s3-fifo"), "{one}");
        let mut by_bytes = curve("lru", [0.5; 4]);
        assert!(!said(by_bytes.clone(), None).contains("small objects"));
        by_bytes.iter_mut().for_each(|row| row.byte_hit_ratio = 0.3);
        assert!(said(by_bytes, None).contains("No policy of this run keeps small objects longer: run --policy gdsf"));
        assert_eq!(said(curve("belady", [0.9; 4]), None), "");
        assert_eq!(said(vec![], None), "");
    }

    #[test]
    fn memory_counts_what_a_server_takes_beside_values() {
        let told = said(curve("lru", [0.5, 0.5, 0.5, 0.5]), None);
        assert!(told.contains("Buy 16.0 MiB with lru") && told.contains("16.0 MiB of 16384 objects"), "{told}");
        let memory: u64 =
            told.split_once("--memory ").and_then(|(_, rest)| rest.split_once("MiB")?.0.parse().ok()).unwrap();
        assert!((17..=20).contains(&memory), "{told}");
    }
}
