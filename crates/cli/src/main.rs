//! The one binary. `command_line.rs` declares what can be typed. Each subcommand is a separate file. `settings/` is
//! what can be set. `node.rs` makes a running server of the settings.

mod around;
#[cfg(feature = "lab")]
mod bench;
mod check;
mod command_line;
mod completions;
mod config;
mod database;
mod demo;
mod doctor;
mod error;
mod gate;
#[cfg(feature = "lab")]
mod graph;
mod log;
mod man;
mod node;
#[cfg(feature = "lab")]
mod output;
mod password;
#[cfg(feature = "lab")]
mod progress;
#[cfg(feature = "lab")]
mod replay;
mod say;
mod secret;
mod serve;
mod settings;
#[cfg(feature = "lab")]
mod sim;
#[cfg(feature = "lab")]
mod standard_input;
mod store;
#[cfg(feature = "lab")]
mod trace;
#[cfg(feature = "lab")]
mod unfinished;
mod warm;
#[cfg(feature = "lab")]
mod workload;

use std::process::ExitCode;

use clap::ArgMatches;

use crate::error::CommandError;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let matches = match command_line::command().try_get_matches() {
        Ok(matches) => matches,
        Err(unusual) => return help(&command_line::with_near_names(unusual)),
    };
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::why(&error);
            error.exit_code()
        }
    }
}

/// Help that was asked for, which must come through, or what is wrong with the line.
fn help(unusual: &clap::Error) -> ExitCode {
    if unusual.use_stderr() {
        say::refusal(unusual);
        return ExitCode::from(2);
    }
    match say::came_through(unusual.print()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::why(&error);
            error.exit_code()
        }
    }
}

fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("demo", matches)) => demo::run(matches),
        Some(("check", matches)) => check::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some(("doctor", matches)) => doctor::run(matches),
        Some(("man", matches)) => man::run(matches, command_line::command()),
        Some(("password", _)) => password::run(),
        Some(("completions", matches)) => completions::run(matches),
        Some((name, matches)) => around::run(name, matches),
        // clap has refused a line without a command.
        None => Ok(()),
    }
}
