//! The commands around the server. A build that lacks a cargo feature still lists the commands of that feature, and
//! says how to build them.

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::error::CommandError;
use forebay_drivers::DRIVERS;

use crate::store;
#[cfg(feature = "lab")]
use crate::{bench, graph, replay, sim, trace, workload};

/// Names of the commands that need the feature `lab`, in the order of the help.
#[cfg(not(feature = "lab"))]
const LAB: &[&str] = &["replay", "bench", "sim", "trace", "workload", "graph"];

/// What can be typed.
pub fn commands() -> Vec<Command> {
    let mut commands = Vec::new();
    #[cfg(feature = "lab")]
    commands.extend([
        replay::command(),
        bench::command(),
        sim::command(),
        trace::command(),
        workload::command(),
        graph::command(),
    ]);
    #[cfg(not(feature = "lab"))]
    commands.extend(LAB.iter().map(|name| left_out(name)));
    commands.push(if DRIVERS.is_empty() { left_out("store") } else { store::command() });
    commands
}

/// Runs the command `name`, which is one of [`commands`].
pub fn run(name: &str, matches: &ArgMatches) -> Result<(), CommandError> {
    match name {
        #[cfg(feature = "lab")]
        "replay" => replay::run(matches),
        #[cfg(feature = "lab")]
        "bench" => bench::run(matches),
        #[cfg(feature = "lab")]
        "sim" => sim::run(matches),
        #[cfg(feature = "lab")]
        "trace" => trace::run(matches),
        #[cfg(feature = "lab")]
        "workload" => workload::run(matches),
        #[cfg(feature = "lab")]
        "graph" => graph::run(matches),
        "store" if !DRIVERS.is_empty() => store::run(matches),
        _ => {
            let _ = matches;
            Err(CommandError::LeftOut(name.to_owned()))
        }
    }
}

/// A command that this build lacks: it takes anything and refuses.
fn left_out(name: &'static str) -> Command {
    Command::new(name)
        .about("Not in this build, which has the demo's features only; make build builds all")
        .disable_help_flag(true)
        .arg(Arg::new("any").action(ArgAction::Append).num_args(0..).allow_hyphen_values(true).hide(true))
}
