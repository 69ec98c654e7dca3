//! The seeds that a simulation runs.

/// FOREBAY_SEED names one; FOREBAY_SEEDS says how many, or which: `5000..6000`. Else as many as `usual`, and `nightly`
/// with FOREBAY_NIGHTLY.
pub fn seeds(usual: u64, nightly: u64) -> std::ops::Range<u64> {
    let variable = |name: &str| std::env::var(name).ok();
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text} is no number of a seed"));
    if let Some(seed) = variable("FOREBAY_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match variable("FOREBAY_SEEDS") {
        Some(seeds) => match seeds.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&seeds),
        },
        None if variable("FOREBAY_NIGHTLY").is_some() => 0..nightly,
        None => 0..usual,
    }
}
