//! What `forebay bench` can be told of BG: its network, and the search for its SoAR.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use forebay_workload::bg::Scale;
use forebay_workload::bg::soar::{Agreement, CLIENTS_MAX};
use forebay_workload::live::bg::Network;

use crate::error::CommandError;

/// A day: a longer pause is a slip of the finger.
const PAUSE_MS_MAX: u64 = 86_400_000;

/// Resources of a member, and comments on a resource.
const EACH_MAX: i64 = 10_000;

/// BG's network.
#[derive(Args, Clone, Debug)]
pub struct NetworkArgs {
    /// bg-*: links of each member, an even number
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub friends: u32,
    /// bg-*: which share of the links is a friendship at first; the others are invitations
    #[arg(long, value_name = "0..1", default_value_t = 0.8)]
    pub confirmed: f64,
    /// bg-*: resources that each member has made
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=EACH_MAX))]
    pub resources: u32,
    /// bg-*: comments on each resource at first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=EACH_MAX))]
    pub comments: u32,
    /// bg-*: size of a profile's image
    #[arg(long, value_name = "KB", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4096))]
    pub image_kb: u32,
    /// bg-sessions: pause between the actions of a session
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=PAUSE_MS_MAX))]
    pub think_ms: u64,
    /// bg-*: pause between sessions, or single actions
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=PAUSE_MS_MAX))]
    pub pause_ms: u64,
}

impl NetworkArgs {
    /// As the workload takes it.
    pub fn network(&self) -> Network {
        let NetworkArgs { friends, confirmed, resources, comments, image_kb, think_ms, pause_ms } = *self;
        let scale = Scale { friends, confirmed, resources, comments, image_kb, ..Scale::default() };
        Network { scale, think: Duration::from_millis(think_ms), pause: Duration::from_millis(pause_ms) }
    }
}

/// Refuses what another workload has no use for, so that nobody takes it for measured.
pub fn only_of_bg(workload: &str, matches: &ArgMatches) -> Result<(), CommandError> {
    let all = ["friends", "confirmed", "resources", "comments", "image_kb", "pause_ms", "think_ms"];
    let typed = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let of = |name: &str| if name == "think_ms" { "bg-sessions" } else { "bg-" };
    match all.into_iter().filter(typed).find(|name| !workload.starts_with(of(name))) {
        Some(name) => Err(CommandError::Usage(format!(
            "--{} has no effect on {workload}: leave it out, or run {}",
            name.replace('_', "-"),
            if name == "think_ms" { "bg-sessions" } else { "one of bg-*" }
        ))),
        None => Ok(()),
    }
}

/// The search.
#[derive(Args, Clone, Debug)]
pub struct SoarArgs {
    /// Search the highest throughput that keeps an agreement, with 1, 2, 4.. up to N connections, --seconds each
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["rate", "load_only", "picture", "csv"],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX))
    )]
    pub soar: Option<u32>,
    /// The agreement: percent of the actions that have to be fast enough
    #[arg(long, value_name = "P", default_value_t = Agreement::default().percent, requires = "soar")]
    #[arg(value_parser = percent)]
    pub sla_percent: f64,
    /// The agreement: what is fast enough
    #[arg(long, value_name = "MS", default_value_t = Agreement::default().ms, requires = "soar")]
    #[arg(value_parser = milliseconds)]
    pub sla_ms: f64,
    /// The agreement: percent of the reads that may be wrong
    #[arg(long, value_name = "P", default_value_t = Agreement::default().unpredictable_percent, requires = "soar")]
    #[arg(value_parser = percent)]
    pub sla_wrong_percent: f64,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 100".to_owned())
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0".to_owned())
}

impl SoarArgs {
    /// What has to be kept.
    pub fn agreement(&self) -> Agreement {
        let SoarArgs { sla_percent: percent, sla_ms: ms, sla_wrong_percent: unpredictable_percent, .. } = *self;
        Agreement { percent, ms, unpredictable_percent }
    }
}
