//! `forebay completions SHELL`.

use clap::ArgMatches;
use clap_complete::Shell;

use crate::command_line;
use crate::error::CommandError;
use crate::say;

/// Writes the completion script for a shell to stdout.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let Some(shell) = matches.get_one::<Shell>("shell") else { return Ok(()) };
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut command_line::command(), "forebay", &mut script);
    say::result(&String::from_utf8_lossy(&script))?;
    Ok(())
}
