//! What would have no effect, or no meaning: refused, so that it is not taken for an answer.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use forebay::policy::{POLICIES, PolicyError};
use forebay_sim::catalog::CLIENTS_MAX;
use forebay_sim::cell::{SAMPLE_CACHE_KEYS_MIN, SAMPLE_KEYS_MIN};
use forebay_sim::contender::OFFLINE;
use forebay_sim::lab::Lab;
use forebay_sim::machine::Division;
use forebay_sim::results::{Goal, OfTrace};

use super::arguments::{PrefetchChoice, SimArgs};
use crate::error::CommandError;
use crate::say;

/// Clients that a refusal lists.
const CLIENTS_SHOWN_MAX: usize = 8;

/// The traces, each once, with their names: those of their files, or where several have one name, whole paths.
pub fn named(traces: &[PathBuf]) -> Vec<(&Path, String)> {
    let mut once: Vec<&Path> = Vec::new();
    for trace in traces.iter().map(PathBuf::as_path) {
        if !once.contains(&trace) {
            once.push(trace);
        }
    }
    let name = |trace: &Path| {
        let alike = once.iter().filter(|other| other.file_name() == trace.file_name()).count();
        let name = if alike > 1 { trace.as_os_str() } else { trace.file_name().unwrap_or_default() };
        name.to_string_lossy().into_owned()
    };
    once.iter().map(|trace| (*trace, name(trace))).collect()
}

/// Before a trace is read.
pub fn of_options(args: &SimArgs, matches: &ArgMatches) -> Result<(), CommandError> {
    let refused = |why: String| Err(CommandError::Usage(why));
    if args.at_thr.is_some() && args.sample < 1.0 {
        return refused(
            "--at-thr needs all keys: a sample has parts of transactions, which are easier to hit; leave out --sample"
                .into(),
        );
    }
    let on_command_line = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    if on_command_line("estimate") && args.sample >= 1.0 {
        return refused("--estimate is for samples: give --sample, or leave it out".into());
    }
    let goal = match (args.at_hit_ratio, args.at_thr) {
        (Some(_), _) => "--at-hit-ratio",
        (_, Some(_)) => "--at-thr",
        _ => return Ok(()),
    };
    // A page shows all sizes and clients all the same.
    let given = |name| on_command_line(name) && args.report.is_none();
    for (name, why) in [("size", "looks for the size itself"), ("per_client", "looks at all clients together")] {
        if given(name) {
            let name = name.replace('_', "-");
            return refused(format!("{goal} {why}: leave out --{name}, which only a page (--report) would show"));
        }
    }
    Ok(())
}

/// When its keys are known.
pub fn of_trace(args: &SimArgs, trace: &Path, lab: &Lab<'_>) -> Result<(), CommandError> {
    let catalog = lab.catalog();
    let failed = |why: String| Err(CommandError::Failed(format!("{}: {why}", trace.display())));
    if !catalog.has_transactions {
        if args.at_thr.is_some() {
            return failed("has no transactions, so no transactional hit ratio; use --at-hit-ratio".into());
        }
        if args.prefetch != PrefetchChoice::None {
            return failed("has no transactions, so nothing is fetched ahead for them; leave out --prefetch".into());
        }
    }
    if args.sample < 1.0 && catalog.len() < SAMPLE_KEYS_MIN {
        let (keys, percent) = (catalog.len(), 100.0 * args.sample);
        return failed(format!(
            "{percent} % of its keys are {keys}, too few to say anything (sample_keys_min {SAMPLE_KEYS_MIN}); take a \
             larger --sample, or leave it out"
        ));
    }
    if args.sample < 1.0 && catalog.has_transactions && args.cache_latency.is_some() {
        return failed(
            "latencies are those of whole transactions, of which a sample has parts; leave out --sample".into(),
        );
    }
    if let Some(Division::Shares(shares)) = &args.partition
        && let Some(missing) = shares.keys().find(|client| !catalog.clients.contains(client))
        // Of more, or of a sample, not all are known.
        && catalog.clients.len() < CLIENTS_MAX
        && args.sample >= 1.0
    {
        let known: Vec<String> = catalog.clients.iter().take(CLIENTS_SHOWN_MAX).map(u32::to_string).collect();
        let more = if catalog.clients.len() > known.len() { ", .." } else { "" };
        return failed(format!(
            "--partition: no client {missing} asks for anything; the trace's clients: {}{more}",
            known.join(", ")
        ));
    }
    Ok(())
}

/// What is left out of the figures of a trace, on stderr.
pub fn note_left_out(args: &SimArgs, trace: &Path, lab: &Lab<'_>) {
    if args.sample < 1.0 && lab.catalog().has_transactions {
        say::note(format_args!(
            "forebay: {}: no transactional hit ratios: a sample of keys has only parts of transactions",
            trace.display()
        ));
    }
}

/// At which sizes a sample's cache has too few keys for an error of its hit ratios, on stderr.
pub fn note_without_error(traces: &[OfTrace]) {
    for of in traces {
        let sizes = of.without_error();
        if !sizes.is_empty() {
            say::note(format_args!(
                "forebay: {}: no error is known at {}: there the sample's cache holds fewer than \
                 {SAMPLE_CACHE_KEYS_MIN} keys (sample_cache_keys_min), and its hit ratio may be far off; take a larger \
                 --sample",
                of.name,
                sizes.join(", ")
            ));
        }
    }
}

/// Which policies have no row for a goal, because they never reach it, on stderr.
pub fn note_never(goal: Goal, traces: &[OfTrace]) {
    for of in traces {
        let Some(least) = &of.least else { continue };
        let never: Vec<&str> = least.never.iter().map(|(policy, _)| policy.as_str()).collect();
        if !never.is_empty() {
            let (what, least) = goal.named();
            say::note(format_args!(
                "forebay: {}: no row for what never has a {what} of {least}: {}",
                of.name,
                never.join(", ")
            ));
        }
    }
}

/// What is wrong with a policy, with the name that may have been meant.
pub fn policy(text: &str, error: &PolicyError) -> String {
    let PolicyError::Unknown { name, known } = error else { return format!("--policy '{text}': {error}") };
    let typed = name.to_ascii_lowercase();
    let near = names().min_by_key(|known| strsim::damerau_levenshtein(known, &typed));
    match near.filter(|near| strsim::damerau_levenshtein(near, &typed) * 3 <= name.len().max(3)) {
        Some(near) => format!("--policy: no policy '{name}'; did you mean '{near}'?"),
        None => format!("--policy: no policy '{name}'; choose one of {known}"),
    }
}

/// Policies of the server, then those that know the future.
fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|policy| policy.name).chain(OFFLINE.iter().map(|(name, _)| *name))
}
