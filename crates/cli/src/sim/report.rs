//! `--report`: the results as a page, and how they came about.

use std::io::Write;

use forebay::policy::Unit;
use forebay_sim::lab::LabOptions;
use forebay_sim::machine::Division;
use forebay_sim::report::{self, Run};
use forebay_sim::results::OfTrace;

use super::arguments::{PrefetchChoice, SimArgs};
use crate::error::CommandError;
use crate::output::Output;

/// Writes the page, in place of what was there.
pub fn write(mut output: Output, args: &SimArgs, options: &LabOptions, traces: &[OfTrace]) -> Result<(), CommandError> {
    let page = report::html(&run(args, options), traces);
    output.write_all(page.as_bytes()).map_err(|error| CommandError::Failed(format!("--report: {error}")))?;
    output.finish().map(drop)
}

fn run(args: &SimArgs, options: &LabOptions) -> Run {
    let policies: Vec<String> = options.contenders.iter().map(ToString::to_string).collect();
    let unit = if options.unit == Unit::Bytes { "bytes: an entry costs its size" } else { "objects: each counts as 1" };
    let writes = if options.writes_allocate { "come in, as after a read" } else { "only update what is cached" };
    let mut settings = vec![
        ("policies", policies.join(", ")),
        ("sizes", args.size.clone()),
        ("unit", unit.to_owned()),
        ("counted", if options.reads_only { "reads" } else { "all requests" }.to_owned()),
        ("warm-up", format!("{} % of the requests", 100.0 * options.warmup)),
        ("sample", sample(options)),
        ("writes of what is not cached", writes.to_owned()),
    ];
    let mut given = |name, value: Option<String>| settings.extend(value.map(|value| (name, value)));
    given("fetched ahead", (args.prefetch != PrefetchChoice::None).then(|| format!("{:?}", options.prefetch)));
    let latencies = args.cache_latency.zip(args.store_latency);
    given("latencies", latencies.map(|(cache, store)| format!("cache {cache}, store {store} in addition")));
    given("graphs", args.graphs.as_ref().map(|path| path.display().to_string()));
    given("partition", division(&options.division));
    given("hint types", args.hint_types.clone());
    given("trace format", args.trace_format.clone());
    given("malformed records", args.lenient.then(|| "passed over".to_owned()));
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    let command = std::iter::once("forebay".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
    let program = format!("forebay {}", env!("CARGO_PKG_VERSION"));
    Run { command, program, price: args.price_per_gib_month, settings }
}

fn sample(options: &LabOptions) -> String {
    let left_out = match (options.sample.rate < 1.0, options.adjust) {
        (false, _) => "",
        (true, true) => "; hit ratios by the requests that it should have (SHARDS-adj), no transactional ones",
        (true, false) => "; no transactional hit ratios",
    };
    format!("{} % of the keys, seed {}{left_out}", 100.0 * options.sample.rate, options.sample.seed)
}

fn division(division: &Division) -> Option<String> {
    match division {
        Division::Shared => None,
        Division::Equal => Some("equal: each client a cache of its own".to_owned()),
        Division::Shares(shares) => {
            let shares: Vec<String> = shares.iter().map(|(client, share)| format!("{client}={share}")).collect();
            Some(format!("{}; the others share what is left", shares.join(", ")))
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_shells_read_them() {
        let words = ["1%,10%", "a b", "it's", "", "$HOME"].map(quoted);
        assert_eq!(words, ["1%,10%", "'a b'", "'it'\\''s'", "''", "'$HOME'"]);
    }
}
